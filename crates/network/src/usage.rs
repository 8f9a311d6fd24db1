//! What a backend has carried.

use units::{Span, Time};

/// Sums over a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// What packets have been through; `None` for backends without packets.
    pub packets: Option<Box<PacketUsage>>,
}

/// What one link has carried.
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

/// What packets have been through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketUsage {
    /// Packets with data.
    pub data: u64,
    /// Acknowledgements and reports of congestion.
    pub acknowledgements: u64,
    /// Links crossed by packets.
    pub hops: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
    /// Times that a port was paused.
    pub pauses: u64,
    /// What senders have been through.
    pub losses: LossUsage,
    /// Most bytes that waited in a port of a switch.
    pub longest_queue: u64,
    /// Round trips that were measured.
    pub round_trips: RoundTrips,
    /// What was not simulated packet by packet: how often, how long, and an estimate of what that
    /// changes at the end of the run.
    pub skips: u64,
    /// See `skips`.
    pub skipped: Span,
    /// See `skips`.
    pub skip_error: Span,
    /// Time that all links together were sending, ps, and their number.
    pub busy: u128,
    /// See `busy`.
    pub links: u64,
    /// Ports that had a queue in a switch, dropped, marked or were paused, in link order.
    pub ports: Vec<PortUsage>,
    /// Connections, in the order in which they were first used.
    pub connections: Vec<ConnectionUsage>,
}

/// How often a sender found that packets are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossUsage {
    /// Packets sent again.
    pub retransmits: u64,
    /// Fast recoveries.
    pub fast_recoveries: u64,
    /// Timeouts.
    pub timeouts: u64,
}

/// Times from a packet to its acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    /// How many were measured.
    pub count: u64,
    /// Their mean.
    pub mean: Span,
    /// Their median.
    pub p50: Span,
    /// Their 99th percentile.
    pub p99: Span,
    /// Of the means of connections that took a round trip each millisecond: mean, median and 99th
    /// percentile. `None` where no connection lasted that long.
    pub sampled: Option<[Span; 3]>,
}

/// What the packets of one port have been through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortUsage {
    /// Node of the port.
    pub from: u32,
    /// Node at the other end of its link.
    pub to: u32,
    /// Dimension of the link, 0-based.
    pub dim: u32,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
    /// Most bytes that waited.
    pub longest_queue: u64,
    /// Median of the bytes that packets found waiting when they came.
    pub queue_p50: u64,
    /// Their 99th percentile.
    pub queue_p99: u64,
    /// How often it was paused.
    pub pauses: u64,
    /// How long, in all.
    pub paused: Span,
}

/// What one connection has been through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionUsage {
    /// From this NPU.
    pub src: u32,
    /// To this one.
    pub dst: u32,
    /// Data that has arrived, bytes, each once.
    pub bytes: u64,
    /// When its first message started.
    pub first: Time,
    /// When its last data arrived.
    pub last: Time,
    /// What its sender has been through.
    pub losses: LossUsage,
    /// Mean of the round trips that it measured.
    pub round_trip_mean: Span,
    /// Their median.
    pub round_trip_p50: Span,
    /// Their 99th percentile.
    pub round_trip_p99: Span,
    /// The longest of them.
    pub round_trip_max: Span,
    /// Mean of one each millisecond; `None` where no millisecond passed.
    pub round_trip_sampled: Option<Span>,
}
