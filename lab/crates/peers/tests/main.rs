//! All tests of the crate as one program, which is linked once. `crates/sim/tests/rooms.rs` checks
//! that it has every file.

mod booksim;
mod checks;
mod garnet;
mod ns3;
mod waits;
