//! How a real communication library (NCCL, RCCL) runs a collective: its algorithm and protocol, and
//! the time it takes.
//!
//! Here: `time.rs` predicts. `pairwise.rs` covers collectives in which every member sends to every
//! other. `correction.rs` adds measurements. `place.rs` says which bandwidth a group has.
//! `rings.rs` packs rings into a mesh without a switch. `lower.rs` turns a prediction into plans:
//! `traffic.rs` says who sends what in which round, `rounds.rs` prices the rounds, `wires.rs` gives
//! the time of messages that are alone on their links. `ask.rs` predicts for a whole platform. Not
//! here: pure algorithms (`collective`), the parameters (`platform::library`).
//!
//! Model, for every algorithm and protocol that a library may choose: `time = max(gap, start +
//! steps * step + bytes / bandwidth)`. The shortest time wins. Source: NCCL's own tuning model has
//! this form (NVIDIA/nccl, src/graph/tuning.cc). docs/models/libraries.md explains the terms.

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
#[cfg(test)]
mod tiers_tests;
mod time;
mod traffic;
mod wires;

pub use ask::{choice, message_time, times};
pub use lower::lower;
pub use pairwise::{message, transport};
pub use place::Placement;
pub use time::{Prediction, predict};
