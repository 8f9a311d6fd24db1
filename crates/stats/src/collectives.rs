//! Parts of the time of collectives.

use crate::PathPart;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// Collectives, or sends, of one name, kind and size. Means are over all ranks: `late_ns -
/// ahead_ns` and all times of `terms` sum to `mean_ns`.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Collective {
    /// Their name, with a star for each number.
    pub name: String,
    /// `all_reduce`, ..., `send`.
    pub kind: String,
    /// Bytes of each, as the trace gives them.
    pub bytes: u64,
    /// Number of ranks that take part in one.
    pub ranks: u64,
    /// Number of chunks that each is cut into.
    pub chunks: u64,
    /// Number of collectives, over all ranks.
    pub count: u128,
    /// The first 64 ids in the traces.
    pub nodes: Vec<u64>,
    /// Mean time from a rank's start to its end.
    pub mean_ns: f64,
    /// The longest time.
    pub max_ns: f64,
    /// Mean wait for the rank whose arrival determines the end. Of a send with rendezvous: for its
    /// receiver.
    pub late_ns: f64,
    /// Mean time between the start of what determines the end and the rank's own later arrival.
    pub ahead_ns: f64,
    /// The phases of a full chunk.
    pub phases: Vec<CollectivePhase>,
    /// Parts of the time, by dimension, along the chain of operations that waited for each other.
    pub terms: Vec<CollectiveTerms>,
    /// The names of what was waited for longest in queues and for links, with the mean waits of
    /// those that waited for it longest.
    pub behind: Vec<PathPart>,
}

/// One phase of a full chunk.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CollectivePhase {
    /// Index of the dimension, from 0.
    pub dim: u64,
    /// Name of the dimension.
    pub name: String,
    /// Kind of the phase.
    pub kind: String,
    /// The algorithm.
    pub algorithm: String,
    /// Number of ranks in a line.
    pub ranks: u64,
    /// Messages that the mean position sends.
    pub sends: f64,
    /// Bytes that the mean position sends.
    pub sent_bytes: f64,
}

/// Parts of the mean time of a collective on one dimension. Means of counts are fractions.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CollectiveTerms {
    /// Index of the dimension, from 0.
    pub dim: u64,
    /// Messages that waited for one another.
    pub messages: f64,
    /// Bytes of those messages.
    pub bytes: f64,
    /// Latency of their paths.
    pub latency_ns: f64,
    /// Bytes over bandwidth of the links they crossed.
    pub transfer_ns: f64,
    /// Waiting for the link out of the NPU behind messages of the same collective: their bytes over
    /// its bandwidth.
    pub port_ns: f64,
    /// Endpoint delays.
    pub endpoint_ns: f64,
    /// Reducing what was received.
    pub reduction_ns: f64,
    /// Waiting for the link out of the NPU behind messages of other operations.
    pub contention_ns: f64,
    /// Waiting for links inside the network (link queues).
    pub congestion_ns: f64,
    /// Chunks waiting in queues for those of other operations.
    pub queue_ns: f64,
    /// In an algorithm from a file.
    pub algorithm_ns: f64,
}

impl CollectiveTerms {
    /// The sum of all times, ns.
    pub fn total_ns(&self) -> f64 {
        let network = self.latency_ns
            + self.transfer_ns
            + self.port_ns
            + self.contention_ns
            + self.congestion_ns;
        network + self.endpoint_ns + self.reduction_ns + self.queue_ns + self.algorithm_ns
    }
}
