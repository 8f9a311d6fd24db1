//! Counts of flits.

use super::ns;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use units::Span;

/// Counts of flits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlitUsage {
    /// Packets that have arrived, by weight.
    pub packets: u64,
    /// Links that they have crossed, together, by weight.
    pub hops: u64,
    /// Most links that one has crossed.
    pub hops_max: u32,
    /// Time in the queue of the interface.
    pub source_wait: PacketTimes,
    /// Time from there to the arrival of the last flit.
    pub network: PacketTimes,
    /// Both together.
    pub latency: PacketTimes,
    /// Virtual channels of each class of a link.
    pub channels: u32,
    /// Flits that one of them holds.
    pub buffer: u32,
    /// Links that carried flits, in link order.
    pub links: Vec<FlitLinkUsage>,
}

/// Times of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PacketTimes {
    /// Mean.
    #[serde(rename = "mean_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub mean: Span,
    /// Median, to 0.8 %.
    #[serde(rename = "p50_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p50: Span,
    /// 99th percentile, to 0.8 %.
    #[serde(rename = "p99_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p99: Span,
    /// 99.9th percentile, to 0.8 %.
    #[serde(rename = "p99_9_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p99_9: Span,
    /// Longest.
    #[serde(rename = "max_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub max: Span,
}

/// Counts of the flits of one link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlitLinkUsage {
    /// Node it leaves.
    pub from: u32,
    /// Node it enters.
    pub to: u32,
    /// Dimension, 0-based.
    pub dim: u32,
    /// Time sending.
    pub busy: Span,
    /// All of it.
    pub whole: ChannelUsage,
    /// Flits of each class of virtual channels, with the class, where several carried flits.
    pub classes: Vec<(u16, ChannelUsage)>,
}

/// Use of a link or of a class of its virtual channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChannelUsage {
    /// Flits that it carried, and what they waited for.
    pub counts: FlitCounts,
    /// Flits in its buffers, added up over time, flit ps.
    pub held: u128,
    /// Most flits in them at once.
    pub held_max: u32,
}

/// Flits of a link or of a class of its virtual channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FlitCounts {
    /// Flits.
    pub flits: u64,
    /// Packets.
    pub packets: u64,
    /// Time in which flits waited to enter it without a credit, summed over flits.
    #[serde(rename = "no_credit_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub no_credit: Span,
    /// Time in which first flits waited to enter it while no virtual channel was idle, likewise.
    #[serde(rename = "no_channel_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub no_channel: Span,
    /// Time in which flits could enter it and others were chosen, likewise.
    #[serde(rename = "lost_allocation_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub lost: Span,
}
