//! All tests of the crate as one program, which is linked once. `crates/sim/tests/rooms.rs` checks
//! that it has every file.

mod common {
    pub mod astra_sim_files;
    pub mod built;
    pub mod cases;
    pub mod perfetto;
    pub mod random;
    pub mod refusals;
    pub mod scratch;
    pub mod watched;
    pub mod wire;
}
mod bad_astra_sim;
mod bad_input;
mod bounds;
mod chains;
mod choice;
mod closed_form;
mod compute;
mod conformance;
mod cross_fidelity;
mod determinism;
mod fabrics;
mod launch;
mod library;
mod measured_gemm;
mod memory;
mod network;
mod observe;
mod packets;
mod paper_targets;
mod physical_bound;
mod pool_contents;
mod pool_gathers;
mod pools;
mod priorities;
mod rooms;
mod standstill;
mod text;
mod themis;
mod timeline;
