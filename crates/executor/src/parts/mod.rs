//! The parts of the executor, each with its own state.
//!
//! A part keeps its fields to itself and knows nothing of the executor. No part calls another one:
//! `executor/` does what concerns several of them.

pub(crate) mod agenda;
pub(crate) mod chunk_turns;
pub(crate) mod chunks;
pub(crate) mod collectives;
pub(crate) mod delays;
mod flight;
pub(crate) mod messages;
pub(crate) mod ranks;
pub(crate) mod ready;
pub(crate) mod recorder;
pub(crate) mod rendezvous;
pub(crate) mod scripts;
pub(crate) mod token;
