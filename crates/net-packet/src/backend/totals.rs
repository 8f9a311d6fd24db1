//! Numbers of packets and bytes that a run has sent and lost.

use crate::backend::Packets;
use crate::port::Counters;
use crate::settings::Settings;
use network::{
    ConnectionBytes, ConnectionRoundTrips, ConnectionUsage, LossUsage, PacketUsage, RoundTrips,
};
use units::Span;

impl Packets {
    /// Totals of the run so far; ports and connections are left out.
    pub fn totals(&self) -> PacketUsage {
        let mut totals = self.totals.clone();
        for connection in &self.connections {
            let LossUsage { retransmits, fast_recoveries, timeouts } = connection.losses();
            totals.events.losses.retransmits += retransmits;
            totals.events.losses.fast_recoveries += fast_recoveries;
            totals.events.losses.timeouts += timeouts;
        }
        let graph = self.paths.graph();
        for (link, port) in (0..).zip(&self.ports) {
            let Counters { packets, drops, marks, drawn, pauses, longest, .. } = port.counters;
            totals.sent.hops += packets;
            totals.events.drops += drops;
            totals.events.marks += marks;
            totals.drawn += drawn;
            totals.events.pauses += pauses;
            if graph.link(link).from >= graph.npus() {
                totals.events.longest_queue = totals.events.longest_queue.max(longest);
            }
        }
        let [sampled_mean, sampled_p50, sampled_p99] =
            self.sampled().map_or([None; 3], |each| each.map(Some));
        totals.events.round_trips = RoundTrips {
            count: self.round_trips.count,
            mean: Span(self.round_trips.mean()),
            p50: Span(self.round_trips.percentile(50)),
            p99: Span(self.round_trips.percentile(99)),
            sampled_mean,
            sampled_p50,
            sampled_p99,
        };
        totals
    }

    /// Packets that came to their end.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Packets that wait or are on a link.
    pub fn under_way(&self) -> u64 {
        self.ports.iter().map(|port| port.standing()).sum()
    }

    /// See [`RoundTrips::sampled_mean`]: mean, median and 99th percentile, by nearest rank.
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

    /// Counts of each connection, in the order in which they were first used.
    pub fn flows(&self) -> impl Iterator<Item = ConnectionUsage> + '_ {
        self.connections.iter().map(|connection| {
            let trips = &connection.round_trips;
            ConnectionUsage {
                carried: ConnectionBytes {
                    source: connection.src,
                    destination: connection.dst,
                    bytes: connection.carried,
                    first: connection.first,
                    last: connection.last,
                },
                losses: connection.losses(),
                round_trips: ConnectionRoundTrips {
                    mean: Span(trips.all.mean()),
                    p50: Span(trips.all.percentile(50)),
                    p99: Span(trips.all.percentile(99)),
                    max: trips.longest,
                    sampled_mean: trips.sampled(),
                },
            }
        })
    }
}
