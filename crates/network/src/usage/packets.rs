//! Counts of packets.

use super::{ns, ns_from_start, ns_if_known};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use units::{Span, Time};

/// Counts of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketUsage {
    /// Packets that were sent.
    pub sent: SentPackets,
    /// Events on their way.
    pub events: PacketEvents,
    /// How often something was drawn: what comes first, is dropped, or is marked.
    pub drawn: u64,
    /// Time that all links together were sending, ps, and their number.
    pub busy: u128,
    /// See `busy`.
    pub links: u64,
    /// Ports that had a queue in a switch, dropped, marked or were paused, in link order.
    pub ports: Vec<PortUsage>,
    /// Connections, in the order in which they were first used.
    pub connections: Vec<ConnectionUsage>,
}

/// Packets that were sent, over all links and connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SentPackets {
    /// Packets with data, those that were sent again included.
    pub data: u64,
    /// Acknowledgements and reports of congestion.
    pub acknowledgements: u64,
    /// Links crossed by packets.
    pub hops: u64,
}

/// Events of packets, over all links and connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PacketEvents {
    /// Packets dropped for want of room.
    pub drops: u64,
    /// Packets marked (explicit congestion notification).
    pub marks: u64,
    /// Times that a port was paused (priority flow control).
    pub pauses: u64,
    /// Losses of senders.
    #[serde(flatten)]
    pub losses: LossUsage,
    /// Most bytes that waited in a port of a switch.
    #[serde(rename = "queue_max_bytes")]
    pub longest_queue: u64,
    /// Round trips that were measured.
    #[serde(flatten)]
    pub round_trips: RoundTrips,
    /// Steady states that were skipped.
    pub skips: u64,
    /// Their length in all.
    #[serde(rename = "skipped_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub skipped: Span,
    /// Estimate of what skipping changes at the end of the run.
    #[serde(rename = "skip_error_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub skip_error: Span,
}

/// How often a sender found that packets are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LossUsage {
    /// Packets sent again.
    pub retransmits: u64,
    /// Fast recoveries.
    pub fast_recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

/// Times from a packet to its acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RoundTrips {
    /// Round trips that were measured.
    #[serde(rename = "round_trips")]
    pub count: u64,
    /// Their mean.
    #[serde(rename = "rtt_mean_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub mean: Span,
    /// Their median, to 0.8 %.
    #[serde(rename = "rtt_p50_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p50: Span,
    /// Their 99th percentile, to 0.8 %.
    #[serde(rename = "rtt_p99_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p99: Span,
    /// Each millisecond the latest round trip of each connection is taken, and a mean is made for
    /// each connection (as in HOTI 2020, Fig. 9): the mean of these means. Null where no
    /// connection lasted a millisecond.
    #[serde(rename = "rtt_sampled_mean_ns", serialize_with = "ns_if_known")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub sampled_mean: Option<Span>,
    /// The median of these means.
    #[serde(rename = "rtt_sampled_p50_ns", serialize_with = "ns_if_known")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub sampled_p50: Option<Span>,
    /// Their 99th percentile.
    #[serde(rename = "rtt_sampled_p99_ns", serialize_with = "ns_if_known")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub sampled_p99: Option<Span>,
}

/// Counts of the packets of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortUsage {
    /// Node of the port.
    pub from: u32,
    /// Node at the other end of its link.
    pub to: u32,
    /// Dimension of the link, 0-based.
    pub dim: u32,
    /// Counts of its packets.
    pub counts: PortCounts,
}

/// Counts of a port: packets that it dropped and marked, its queue, and its pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PortCounts {
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
    /// Median of the bytes that packets found waiting when they came, to 3 %.
    #[serde(rename = "queue_p50_bytes")]
    pub queue_p50: u64,
    /// Their 99th percentile, to 3 %.
    #[serde(rename = "queue_p99_bytes")]
    pub queue_p99: u64,
    /// Most bytes that waited; 0 for a port of an NPU, whose packets wait in its memory.
    #[serde(rename = "queue_max_bytes")]
    pub longest_queue: u64,
    /// How often it was paused.
    pub pauses: u64,
    /// How long, in all.
    #[serde(rename = "paused_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub paused: Span,
}

/// Counts of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionUsage {
    /// Bytes that it carried, and when.
    pub carried: ConnectionBytes,
    /// Losses of its sender.
    pub losses: LossUsage,
    /// Round trips that it measured.
    pub round_trips: ConnectionRoundTrips,
}

/// Bytes of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ConnectionBytes {
    /// NPU that sends.
    pub source: u32,
    /// NPU that receives.
    pub destination: u32,
    /// Data that has arrived, each byte once.
    pub bytes: u64,
    /// When its first message started.
    #[serde(rename = "first_ns", serialize_with = "ns_from_start")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub first: Time,
    /// When its last data arrived.
    #[serde(rename = "last_ns", serialize_with = "ns_from_start")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub last: Time,
}

/// Round trips of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ConnectionRoundTrips {
    /// Mean of the round trips that it measured.
    #[serde(rename = "rtt_mean_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub mean: Span,
    /// Their median, to 3 %.
    #[serde(rename = "rtt_p50_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p50: Span,
    /// Their 99th percentile, to 3 %.
    #[serde(rename = "rtt_p99_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p99: Span,
    /// The longest of them.
    #[serde(rename = "rtt_max_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub max: Span,
    /// Mean of one each millisecond. Null where no millisecond passed.
    #[serde(rename = "rtt_sampled_mean_ns", serialize_with = "ns_if_known")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub sampled_mean: Option<Span>,
}
