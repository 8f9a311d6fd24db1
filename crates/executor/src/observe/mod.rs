//! Watching a run: what an observer hears, and the observers there are.
//!
//! The recorder of the executor calls its observers in order of time. Without observers this costs
//! one branch per event. Here: the contract. Other files: `log.rs` keeps times of nodes and
//! activity over time. `path.rs` (the critical path) and `layers.rs` (sums by layer) read it when
//! the run is over. `delays.rs` sums what chunks wait and take by layer, pass and
//! phase. `chains.rs` finds the terms of each collective's time (`chain.rs`), and `collectives.rs`
//! sums them. `ends.rs` keeps the end of each node. `timeline/` writes events to a file as they happen. Not here: sums
//! that every run keeps (`parts/recorder.rs`).

mod activities;
mod bins;
mod chain;
mod chains;
mod collectives;
mod delays;
mod detail;
mod ends;
mod gantt;
mod layers;
mod log;
mod memory;
mod network;
mod pass;
mod path;
mod source;
mod timeline;

pub use detail::detail;
pub use ends::Ends;
pub use log::Log;
pub use memory::most_held;
pub use network::{FlowSums, LINK_BYTES, LinkOverTime, NetworkLog, NetworkRecorder};
pub use source::Source;
pub use timeline::Timeline;
pub use timeline::{Shown, TimelineRequest};

use graph::{CollectiveKind, OpKind};
use lowering::{Lowered, Request};
use stats::PerPart;
use std::sync::Arc;
use units::{Span, Time};

/// A node on a simulated rank.
type Place = (u32, u32);

/// One chunk in one phase of a collective, on one simulated rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPhase {
    /// Number of the chunk run. It identifies the chunk on the rank as long as it runs.
    pub run: u32,
    /// Which collective.
    pub instance: u32,
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
    /// Kind of collective of the phase.
    pub kind: CollectiveKind,
    /// Whether an algorithm from a file does it.
    pub custom: bool,
    /// When it came into its queue, or into the ready queue before that.
    pub entered: Time,
    /// When it came into its queue; meaningless as long as it waits in the ready queue.
    pub queued: Time,
    /// Whether it has come from the ready queue.
    pub left_ready_queue: bool,
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

/// A message that a chunk has received. It is usable after both spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// The run of the chunk.
    pub run: u32,
    /// The token of the message, if it has just arrived; `None` if it came early.
    pub token: Option<u64>,
    /// Endpoint delay.
    pub delay: Span,
    /// Time of the reduction.
    pub charge: Span,
}

/// Operation that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A chunk, by its run.
    Chunk(u32),
    /// A chunk whose message an announcement has released. The token is that of the announcement.
    Cleared(u64),
    /// A send of the workload, by node.
    Node(u32),
    /// Something else: an announcement of a receive, by node, or a message of an algorithm from a
    /// file.
    Beside(Option<u32>),
}

/// A message that goes into the network, and its times if nothing delays it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Operation that it belongs to.
    pub sender: Sender,
    /// Identifies it until it has arrived.
    pub token: u64,
    /// The simulated rank it leaves.
    pub rank: u32,
    /// The link of the rank that it leaves by.
    pub port: u32,
    /// The outermost dimension it crosses.
    pub dim: u32,
    /// Bytes.
    pub bytes: u64,
    /// Latency of its path.
    pub latency: Span,
    /// Time of its bytes on its path, in addition to the latency.
    pub transfer: Span,
    /// How long it keeps the link by which it leaves.
    pub occupancy: Span,
    /// How long a library works on it after it has arrived.
    pub handling: Span,
}

/// Activity of a rank at a moment, by part of the step. It can do several things at once.
pub type Activity = PerPart<bool>;

/// Hears of a run as it goes. Ranks are indices of simulated ranks, nodes are indices in their
/// programs. Times never decrease.
pub trait Observer {
    /// A node starts. `after` is the node of the rank whose end let it start; `None` at the
    /// beginning of the run. Since then it has waited for its host to launch it.
    fn issued(&mut self, _rank: u32, _node: u32, _kind: OpKind, _after: Option<u32>, _now: Time) {}
    /// A node that started at `start` ends.
    fn completed(&mut self, _rank: u32, _node: u32, _kind: OpKind, _start: Time, _now: Time) {}
    /// The rank did `activity` between two times.
    fn spent(&mut self, _rank: u32, _activity: Activity, _from: Time, _to: Time) {}
    /// A node takes part in collective `instance`.
    fn joined(&mut self, _rank: u32, _node: u32, _instance: u32) {}
    /// Collective `instance` opens, with this number of ranks.
    fn opens(&mut self, _instance: u32, _request: &Request, _lowered: &Arc<Lowered>, _ranks: u32) {}
    /// A chunk enters the queue of its next phase.
    fn chunk_waits(&mut self, _chunk: &ChunkPhase, _now: Time) {}
    /// A chunk leaves its queue.
    fn chunk_starts(&mut self, _chunk: &ChunkPhase, _now: Time) {}
    /// A waiting chunk is about to start because that of another member, `host`, has begun the
    /// phase.
    fn invited(&mut self, _run: u32, _host: u32) {}
    /// A chunk begins to send, `delay` after it left its queue.
    fn begins(&mut self, _run: u32, _delay: Span) {}
    /// A message goes into the network.
    fn departs(&mut self, _departure: &Departure, _now: Time) {}
    /// It has arrived.
    fn arrives(&mut self, _token: u64, _now: Time) {}
    /// The message that has just arrived is early: its receive is not posted yet.
    fn early(&mut self, _token: u64) {}
    /// A chunk has received a message.
    fn received(&mut self, _reception: &Reception, _now: Time) {}
    /// A chunk may use what it has received.
    fn usable(&mut self, _run: u32, _now: Time) {}
    /// A chunk ends a phase.
    fn chunk_ends(&mut self, _chunk: &ChunkPhase, _now: Time) {}
    /// The rank had at least one chunk in a phase on a dimension between two times.
    fn dimension_busy(&mut self, _rank: u32, _dim: u32, _from: Time, _to: Time) {}
    /// From now on, the message of a posted receive is on its way.
    fn message_leaves(&mut self, _rank: u32, _node: u32, _now: Time) {}
    /// From now on, the memory of the rank's NPU holds `held` bytes.
    fn memory_changed(&mut self, _rank: u32, _held: u64, _now: Time) {}
    /// A message has arrived at its receive.
    fn message(&mut self, _message: &Message) {}
}
