//! Traffic that a backend has carried.

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
    pub source_wait: Distribution,
    /// Time from there to the arrival of the last flit.
    pub network: Distribution,
    /// Both together.
    pub latency: Distribution,
    /// Virtual channels of each class of a link.
    pub channels: u32,
    /// Flits that one of them holds.
    pub buffer: u32,
    /// Links that carried flits, in link order.
    pub links: Vec<FlitLinkUsage>,
}

/// Times of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Mean.
    pub mean: Span,
    /// Median, 99th and 99.9th percentile, to 0.8 %.
    pub percentiles: [Span; 3],
    /// Longest.
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
    /// By class of virtual channels, with the class, where several carried flits.
    pub classes: Vec<(u16, ChannelUsage)>,
}

/// Flits of a link or of a class of its virtual channels. Times are sums over the flits that waited
/// at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChannelUsage {
    /// Flits.
    pub flits: u64,
    /// Packets whose flits it has carried.
    pub packets: u64,
    /// Time in which flits waited to enter it without a credit.
    pub no_credit: Span,
    /// Time in which first flits waited to enter it while no virtual channel was idle.
    pub no_channel: Span,
    /// Time in which flits could have entered it and others were chosen.
    pub lost: Span,
    /// Flits in its buffers, added up over time, flit ps.
    pub held: u128,
    /// Most flits in them at once.
    pub held_max: u32,
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

/// Counts of packets.
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
    /// How often something was drawn: what comes first, is dropped, or is marked.
    pub drawn: u64,
    /// Times that a port was paused.
    pub pauses: u64,
    /// Losses of senders.
    pub losses: LossUsage,
    /// Most bytes that waited in a port of a switch.
    pub longest_queue: u64,
    /// Round trips that were measured.
    pub round_trips: RoundTrips,
    /// Parts that were not simulated packet by packet: their number, their length, and an estimate
    /// of the change at the end of the run.
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
    /// Round trips of connections that took one each millisecond: mean, median and 99th percentile
    /// of the means of connections. `None` where no connection lasted that long.
    pub sampled: Option<[Span; 3]>,
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

/// Counts of one connection.
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
    /// Losses of its sender.
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
