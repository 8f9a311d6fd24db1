//! Counts of packets, where the network has packets: those of the network, and what follows from
//! them.

use network::{
    ConnectionBytes, ConnectionRoundTrips, LossUsage, PacketEvents, PortCounts, SentPackets,
};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// Packets of a run, over all links and connections.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Packets {
    /// Packets that were sent.
    #[serde(flatten)]
    pub sent: SentPackets,
    /// Part of the step in which the mean link sends, those without traffic included.
    pub link_utilisation: f64,
    /// Events on their way.
    #[serde(flatten)]
    pub events: PacketEvents,
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
    /// Counts of its packets.
    #[serde(flatten)]
    pub counts: PortCounts,
}

/// One connection.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Connection {
    /// Bytes that it carried, and when.
    #[serde(flatten)]
    pub carried: ConnectionBytes,
    /// `bytes` over the time between the two, GB/s (1e9).
    pub goodput_gb_per_s: f64,
    /// Losses of its sender.
    #[serde(flatten)]
    pub losses: LossUsage,
    /// Round trips that it measured.
    #[serde(flatten)]
    pub round_trips: ConnectionRoundTrips,
}
