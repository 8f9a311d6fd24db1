//! Traffic that a backend has carried. Reports take over what `serde` sees of these types, as it is
//! (`stats`).

mod flits;
mod packets;

pub use flits::{ChannelUsage, FlitCounts, FlitLinkUsage, FlitUsage, PacketTimes};
pub use packets::{
    ConnectionBytes, ConnectionRoundTrips, ConnectionUsage, LossUsage, PacketEvents, PacketUsage,
    PortCounts, PortUsage, RoundTrips, SentPackets,
};

use serde::{Serialize, Serializer};
use units::{Span, Time};

/// Sums over a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Bytes by dimension on links that leave an NPU (a ring counts every hop). An explicit graph
    /// has one dimension.
    pub bytes: Vec<u128>,
    /// On a graph with dimensions, bytes by the outermost dimension in which source and destination
    /// differ; empty for backends that model what shares a link.
    pub outermost: Vec<u128>,
    /// On a graph, the link whose bytes take longest, and how long; `None` for backends that model
    /// what shares a link, and where one rank stood for several.
    pub busiest: Option<(u32, Span)>,
    /// Transfers started, by weight.
    pub transfers: u128,
    /// Time in which messages were sent on by nodes that had stored them whole on their way, ps, by
    /// weight.
    pub stored: u128,
    /// Every link that was used, in link order; empty for backends without links.
    pub links: Vec<LinkUsage>,
    /// Counts of packets; `None` for backends without packets.
    pub packets: Option<Box<PacketUsage>>,
    /// Counts of flits; `None` for backends without flits.
    pub flits: Option<Box<FlitUsage>>,
}

/// Traffic of one link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkUsage {
    /// Node it leaves, as the topology numbers nodes (NPUs first).
    pub from: u32,
    /// Node it enters.
    pub to: u32,
    /// Dimension, 0-based.
    pub dim: u32,
    /// Links that it stands for by [`Backend::fold`](crate::Backend::fold); `None` where nothing
    /// was passed there.
    pub count: Option<u64>,
    /// Bytes.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Time sending.
    pub busy: Span,
    /// Sum of the waits in the queue.
    pub waited: Span,
    /// Most messages waiting at once.
    pub longest_queue: u32,
}

/// A duration in nanoseconds.
fn ns<S: Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(span.as_ns())
}

/// A duration in nanoseconds, or null.
fn ns_if_known<S: Serializer>(span: &Option<Span>, to: S) -> Result<S::Ok, S::Error> {
    span.map(Span::as_ns).serialize(to)
}

/// A time in nanoseconds from the start.
fn ns_from_start<S: Serializer>(time: &Time, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_ns())
}
