//! What a real communication library (NCCL, RCCL) makes of a collective: its algorithm and
//! protocol, and how long that takes.
//!
//! Here: `time.rs` predicts, `pairwise.rs` what is sent from each to each, `correction.rs` adds what
//! was measured, `place.rs` says what a group has to itself, `rings.rs` packs rings into a mesh
//! without a switch, `carrier.rs` turns a prediction into phases, `ask.rs` predicts for a whole
//! platform. Not here: pure algorithms (`collective`), the parameters (`platform::library`).
//!
//! Model, for every algorithm and protocol that a library may choose: `time = max(gap, start +
//! steps * step + bytes / bandwidth)`; the least of them is taken. Source: NCCL's own tuning model
//! has this form (NVIDIA/nccl, src/graph/tuning.cc); what the terms mean is in
//! docs/models/libraries.md.

mod ask;
mod carrier;
mod correction;
mod pairwise;
#[cfg(test)]
mod pairwise_tests;
mod place;
mod rings;
#[cfg(test)]
mod tests;
mod time;

pub use ask::{choice, message_time, times};
pub use carrier::lower;
pub use pairwise::message;
pub use place::Place;
pub use time::{Prediction, predict};
