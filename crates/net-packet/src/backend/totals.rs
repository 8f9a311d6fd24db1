//! Numbers of packets and bytes that a run has sent and lost.

use crate::backend::Packets;
use crate::port::Counters;
use crate::settings::Settings;
use crate::tcp::Losses;
use units::{Span, Time};

/// Numbers of packets and bytes that a run has sent and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets with data.
    pub data: u64,
    /// Acknowledgements and reports of congestion.
    pub acks: u64,
    /// Links crossed by packets.
    pub hops: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets that came to their end.
    pub arrived: u64,
    /// Packets that wait or are on a link.
    pub under_way: u64,
    /// Packets marked.
    pub marks: u64,
    /// How often something was drawn: what comes first, is dropped, or is marked.
    pub drawn: u64,
    /// Times that a port was paused.
    pub pauses: u64,
    /// Losses of all senders.
    pub losses: Losses,
    /// Most bytes in any queue of a switch.
    pub longest_queue: u64,
    /// Round trips that were measured: their number.
    pub round_trips: u64,
    /// Their mean.
    pub round_trip_mean: Span,
    /// Their median and 99th percentile, to 0.8 %.
    pub round_trip_p50: Span,
    /// See `round_trip_p50`.
    pub round_trip_p99: Span,
    /// Round trips of connections that measured one each millisecond: mean, median and 99th
    /// percentile of the means of connections. `None` without such a connection.
    pub sampled_round_trips: Option<[Span; 3]>,
}

/// Traffic of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// From this NPU.
    pub src: u32,
    /// To this one.
    pub dst: u32,
    /// Data that has arrived in order, bytes, each once.
    pub bytes: u64,
    /// When its first message started.
    pub first: Time,
    /// When its last data arrived.
    pub last: Time,
    /// Losses of its sender.
    pub losses: Losses,
    /// Round trips that it measured.
    pub round_trips: u64,
    /// Their mean.
    pub round_trip_mean: Span,
    /// Their median and 99th percentile, to 3 %.
    pub round_trip_p50: Span,
    /// See `round_trip_p50`.
    pub round_trip_p99: Span,
    /// The longest.
    pub round_trip_max: Span,
    /// Mean of one each millisecond; `None` where no millisecond passed.
    pub round_trip_sampled: Option<Span>,
}

impl Packets {
    /// Totals of the run so far.
    pub fn totals(&self) -> Totals {
        let mut totals = self.totals;
        for connection in &self.connections {
            let Losses { retransmits, recoveries, timeouts } = connection.losses();
            totals.losses.retransmits += retransmits;
            totals.losses.recoveries += recoveries;
            totals.losses.timeouts += timeouts;
        }
        let graph = self.paths.graph();
        for (link, port) in (0..).zip(&self.ports) {
            let Counters { packets, drops, marks, drawn, pauses, longest, .. } = port.counters;
            totals.hops += packets;
            totals.drops += drops;
            totals.marks += marks;
            totals.drawn += drawn;
            totals.pauses += pauses;
            totals.under_way += port.standing();
            if graph.link(link).from >= graph.npus() {
                totals.longest_queue = totals.longest_queue.max(longest);
            }
        }
        totals.round_trips = self.round_trips.count;
        totals.round_trip_mean = Span(self.round_trips.mean());
        totals.round_trip_p50 = Span(self.round_trips.percentile(50));
        totals.round_trip_p99 = Span(self.round_trips.percentile(99));
        totals.sampled_round_trips = self.sampled();
        totals
    }

    /// See [`Totals::sampled_round_trips`]. Percentiles are by nearest rank.
    fn sampled(&self) -> Option<[Span; 3]> {
        let means = self.connections.iter().filter_map(|each| each.round_trips.sampled());
        let mut means: Vec<Span> = means.collect();
        means.sort_unstable();
        let count = means.len();
        let sum: u128 = means.iter().map(|mean| u128::from(mean.0)).sum();
        let mean = u64::try_from(sum.checked_div(count as u128)?).unwrap_or(u64::MAX);
        let percentile = |percent: usize| means[(count * percent).div_ceil(100) - 1];
        Some([Span(mean), percentile(50), percentile(99)])
    }

    /// The settings of a link.
    pub fn settings(&self, link: u32) -> &Settings {
        self.protocols.of_link(link)
    }

    /// Counters of each link's port, by link.
    pub fn counters(&self) -> impl Iterator<Item = (u32, Counters)> + '_ {
        let last = self.connections.iter().map(|connection| connection.last).max();
        let end = last.unwrap_or_default();
        (0..).zip(self.ports.iter().map(move |port| port.counters_at(end)))
    }

    /// Traffic of each connection, in the order in which they were first used.
    pub fn flows(&self) -> impl Iterator<Item = Flow> + '_ {
        self.connections.iter().map(|connection| {
            let trips = &connection.round_trips;
            Flow {
                src: connection.src,
                dst: connection.dst,
                bytes: connection.carried,
                first: connection.first,
                last: connection.last,
                losses: connection.losses(),
                round_trips: trips.all.count,
                round_trip_mean: Span(trips.all.mean()),
                round_trip_p50: Span(trips.all.percentile(50)),
                round_trip_p99: Span(trips.all.percentile(99)),
                round_trip_max: trips.longest,
                round_trip_sampled: trips.sampled(),
            }
        })
    }
}
