//! All tests of the crate as one program, which is linked once. `crates/sim/tests/rooms.rs` checks
//! that it has every file.

mod capture;
mod common;
mod contract;
mod protocols;
mod rdma;
mod shares;
mod skip;
mod theory;
mod usage;
