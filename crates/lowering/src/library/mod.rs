//! What a real communication library (NCCL, RCCL) makes of a collective: its algorithm and
//! protocol, and how long that takes.
//!
//! Here: `time.rs` predicts, `pairwise.rs` what is sent from each to each, `correction.rs` adds what
//! was measured, `place.rs` says what a group has to itself, `rings.rs` packs rings into a mesh
//! without a switch. `lower.rs` turns a prediction into plans: `traffic.rs` says who sends what in
//! which round, `rounds.rs` prices the rounds, `wires.rs` knows what messages alone on their links
//! take. `ask.rs` predicts for a whole platform. Not here: pure algorithms (`collective`), the parameters (`platform::library`).
//!
//! Model, for every algorithm and protocol that a library may choose: `time = max(gap, start +
//! steps * step + bytes / bandwidth)`; the least of them is taken. Source: NCCL's own tuning model
//! has this form (NVIDIA/nccl, src/graph/tuning.cc); what the terms mean is in
//! docs/models/libraries.md.

mod ask;
mod correction;
mod lower;
mod pairwise;
#[cfg(test)]
mod pairwise_tests;
mod place;
#[cfg(test)]
mod plan_tests;
mod rings;
mod rounds;
#[cfg(test)]
mod tests;
mod time;
mod traffic;
mod wires;

pub use ask::{choice, message_time, times};
pub use lower::lower;
pub use pairwise::{message, transport};
pub use place::Placement;
pub use time::{Prediction, predict};
