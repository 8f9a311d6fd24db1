//! Watching a run: what an observer is told, and the observers there are.
//!
//! The executor's recorder tells its observers what happens, in order of time; a run without any pays a branch an event. Here: the
//! contract. Beside it: `log.rs` keeps times of nodes and activity over time; `path.rs` (the critical path) and `layers.rs` (sums by
//! layer) read it when the run is over. Not here: sums that every run keeps (`executor/recorder.rs`).

mod bins;
mod detail;
mod layers;
mod log;
mod path;

pub(crate) use detail::{Source, detail};
pub(crate) use log::Log;

use crate::executor::Kind;
use graph::CollectiveKind;
use units::Time;

/// One chunk in one phase of a collective, on one simulated rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPhase {
    /// Index of the simulated rank.
    pub rank: u32,
    /// The collective, by index in the rank's program.
    pub node: u32,
    /// Which chunk of it, from 0.
    pub chunk: u32,
    /// Which phase of the chunk, from 0.
    pub phase: u32,
    /// The dimension it runs on, from 0.
    pub dim: u32,
    /// What the phase does.
    pub kind: CollectiveKind,
    /// When it came into its queue.
    pub entered: Time,
    /// When it left its queue; meaningless before.
    pub started: Time,
}

/// A message from a send to a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Simulated rank and node that send.
    pub from: (u32, u32),
    /// Simulated rank and node that receive.
    pub to: (u32, u32),
    /// Bytes.
    pub bytes: u64,
    /// When it left.
    pub sent: Time,
    /// When it had arrived and its receive was posted.
    pub received: Time,
}

/// What a rank does at a moment; several at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Computing.
    pub compute: bool,
    /// Communicating.
    pub communication: bool,
    /// Accessing memory outside the NPU.
    pub remote: bool,
    /// Accessing the NPU's own memory.
    pub local: bool,
}

/// Hears of a run as it goes. Ranks are indices of simulated ranks, nodes indices in their programs, times never go back.
pub trait Observer {
    /// A node starts. `after` is the node of the rank whose end let it start; `None` at the beginning of the run.
    fn issued(&mut self, _rank: u32, _node: u32, _kind: Kind, _after: Option<u32>, _now: Time) {}
    /// A node that started at `start` ends.
    fn completed(&mut self, _rank: u32, _node: u32, _kind: Kind, _start: Time, _now: Time) {}
    /// The rank has done `activity` between two times.
    fn spent(&mut self, _rank: u32, _activity: Activity, _from: Time, _to: Time) {}
    /// A node takes part in collective `instance`.
    fn joined(&mut self, _rank: u32, _node: u32, _instance: u32) {}
    /// A chunk enters the queue of its next phase.
    fn chunk_waits(&mut self, _chunk: &ChunkPhase, _now: Time) {}
    /// A chunk leaves its queue.
    fn chunk_starts(&mut self, _chunk: &ChunkPhase, _now: Time) {}
    /// A chunk ends a phase.
    fn chunk_ends(&mut self, _chunk: &ChunkPhase, _now: Time) {}
    /// The rank had at least one chunk in a phase on a dimension between two times.
    fn dimension_busy(&mut self, _rank: u32, _dim: u32, _from: Time, _to: Time) {}
    /// The message of a receive that has been posted is on its way, from now on.
    fn message_leaves(&mut self, _rank: u32, _node: u32, _now: Time) {}
    /// A message has arrived at its receive.
    fn message(&mut self, _message: &Message) {}
}
