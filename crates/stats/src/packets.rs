//! Counts of packets, where the network has packets.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// Packets of a run, over all links and connections.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Packets {
    /// Packets with data, those that were sent again included.
    pub data: u64,
    /// Acknowledgements and reports of congestion.
    pub acknowledgements: u64,
    /// Links crossed by packets.
    pub hops: u64,
    /// Part of the step in which the mean link sends, those without traffic included.
    pub link_utilisation: f64,
    /// Packets dropped for want of room.
    pub drops: u64,
    /// Packets marked (explicit congestion notification).
    pub marks: u64,
    /// Times that a port was paused (priority flow control).
    pub pauses: u64,
    /// Packets sent again.
    pub retransmits: u64,
    /// Fast recoveries.
    pub fast_recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Most bytes that waited in a port of a switch.
    pub queue_max_bytes: u64,
    /// Round trips that were measured.
    pub round_trips: u64,
    /// Their mean.
    pub rtt_mean_ns: f64,
    /// Their median, to 0.8 %.
    pub rtt_p50_ns: f64,
    /// Their 99th percentile, to 0.8 %.
    pub rtt_p99_ns: f64,
    /// Each millisecond the latest round trip of each connection is taken, and a mean is made for
    /// each connection (as in HOTI 2020, Fig. 9): the mean of these means. Null where no
    /// connection lasted a millisecond.
    pub rtt_sampled_mean_ns: Option<f64>,
    /// The median of these means.
    pub rtt_sampled_p50_ns: Option<f64>,
    /// Their 99th percentile.
    pub rtt_sampled_p99_ns: Option<f64>,
    /// Steady states that were skipped.
    pub skips: u64,
    /// Their length in all.
    pub skipped_ns: f64,
    /// Estimate of what skipping changes at the end of the run.
    pub skip_error_ns: f64,
    /// Ports by drops, then by their longest queue, at most 20.
    pub ports: Vec<Port>,
    /// Number of connections.
    pub connection_count: u64,
    /// Connections by timeouts, then by what they sent again, then by bytes, at most 20.
    pub connections: Vec<Connection>,
}

/// One port.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Port {
    /// `switch0 -> npu4 (dimension 1)`.
    pub name: String,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
    /// Median of the bytes that packets found waiting when they came, to 3 %.
    pub queue_p50_bytes: u64,
    /// Their 99th percentile, to 3 %.
    pub queue_p99_bytes: u64,
    /// Most bytes that waited; 0 for a port of an NPU, whose packets wait in its memory.
    pub queue_max_bytes: u64,
    /// How often it was paused.
    pub pauses: u64,
    /// How long, in all.
    pub paused_ns: f64,
}

/// One connection.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Connection {
    /// NPU that sends.
    pub source: u32,
    /// NPU that receives.
    pub destination: u32,
    /// Data that has arrived, each byte once.
    pub bytes: u64,
    /// When its first message started.
    pub first_ns: f64,
    /// When its last data arrived.
    pub last_ns: f64,
    /// `bytes` over the time between the two, GB/s (1e9).
    pub goodput_gb_per_s: f64,
    /// Packets sent again.
    pub retransmits: u64,
    /// Fast recoveries.
    pub fast_recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Mean of the round trips that it measured.
    pub rtt_mean_ns: f64,
    /// Their median, to 3 %.
    pub rtt_p50_ns: f64,
    /// Their 99th percentile, to 3 %.
    pub rtt_p99_ns: f64,
    /// The longest of them.
    pub rtt_max_ns: f64,
    /// Mean of one each millisecond. Null where no millisecond passed.
    pub rtt_sampled_mean_ns: Option<f64>,
}
