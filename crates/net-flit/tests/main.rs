//! All tests of the crate as one program, which is linked once. `crates/sim/tests/rooms.rs` checks
//! that it has every file.

mod allocators;
mod contract;
