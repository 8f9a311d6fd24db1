//! Counts of flits, where the network has flits.

use network::{FlitCounts, PacketTimes};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// Flits of a run, over all links.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Flits {
    /// Packets.
    pub packets: u64,
    /// Flits that crossed a link between routers, each link counted.
    pub flits: u64,
    /// Virtual channels of each class of a link.
    pub virtual_channels: u32,
    /// Flits that a virtual channel of a router holds.
    pub buffer: u32,
    /// Links between routers that a packet crosses, mean.
    pub hops_mean: f64,
    /// Most links that one crosses.
    pub hops_max: u32,
    /// Time of packets in the queue of their network interface.
    pub source_wait: PacketTimes,
    /// Time of packets from there to the arrival of their last flit.
    pub network: PacketTimes,
    /// Both together.
    pub latency: PacketTimes,
    /// Time in which flits waited in routers without a credit, summed over flits.
    pub no_credit_ns: f64,
    /// Time in which first flits of packets waited while no virtual channel was idle, likewise. With
    /// adaptive routing all that they wait.
    pub no_channel_ns: f64,
    /// Time in which flits could move and others were chosen, likewise.
    pub lost_allocation_ns: f64,
    /// Number of links that carried flits.
    pub link_count: u64,
    /// Links by the time in which flits waited for them, at most 20; equal ones are one row.
    pub links: Vec<FlitLink>,
}

/// A link, or several that are alike.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FlitLink {
    /// `npu3 -> npu4 (dimension 1)`.
    pub name: String,
    /// Links of this row.
    pub count: u64,
    /// Part of the step in which it sends.
    pub utilisation: f64,
    /// All its flits.
    #[serde(flatten)]
    pub channel: FlitChannel,
    /// Flits of each class of virtual channels, where several carried flits.
    pub classes: Vec<FlitClass>,
}

/// A class of the virtual channels of a link.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FlitClass {
    /// Number of the class; packets begin in 0.
    pub number: u16,
    /// Flits of the class.
    #[serde(flatten)]
    pub channel: FlitChannel,
}

/// Flits of a link or of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FlitChannel {
    /// Flits that it carried, and what they waited for.
    #[serde(flatten)]
    pub counts: FlitCounts,
    /// Flits in the buffers behind it, mean over the step.
    pub occupancy_mean: f64,
    /// Most flits in them at once.
    pub occupancy_max: u32,
}
