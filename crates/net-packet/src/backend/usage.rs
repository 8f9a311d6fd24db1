//! Counts of packets, as reports have them.

use crate::backend::Packets;
use crate::backend::totals::Flow;
use crate::port::Counters;
use crate::tcp::Losses;
use network::{ConnectionUsage, LossUsage, PacketUsage, PortUsage, RoundTrips};

impl Packets {
    /// The totals, ports and connections of the run so far.
    pub(crate) fn packet_usage(&self) -> PacketUsage {
        let (totals, skipped) = (self.totals(), self.skipped());
        PacketUsage {
            data: totals.data,
            acknowledgements: totals.acks,
            hops: totals.hops,
            drops: totals.drops,
            marks: totals.marks,
            drawn: totals.drawn,
            pauses: totals.pauses,
            losses: losses(totals.losses),
            longest_queue: totals.longest_queue,
            round_trips: RoundTrips {
                count: totals.round_trips,
                mean: totals.round_trip_mean,
                p50: totals.round_trip_p50,
                p99: totals.round_trip_p99,
                sampled: totals.sampled_round_trips,
            },
            busy: self.counters().map(|(_, counters)| u128::from(counters.busy.0)).sum(),
            links: self.counters().count() as u64,
            skips: skipped.times,
            skipped: skipped.time,
            skip_error: skipped.error,
            ports: self.port_usage().collect(),
            connections: self.flows().map(connection).collect(),
        }
    }

    /// Packets of an NPU wait in its memory, which is not a port's queue.
    fn port_usage(&self) -> impl Iterator<Item = PortUsage> + '_ {
        let graph = self.paths.graph();
        let port = move |(link, counters): (u32, Counters)| {
            let ends = graph.link(link);
            let found = self.ports[link as usize].found.as_deref();
            let found = |percent| found.map_or(0, |found| found.percentile(percent));
            let Counters { drops, marks, longest, pauses, paused, .. } = counters;
            let longest_queue = if ends.from < graph.npus() { 0 } else { longest };
            let (from, to, dim) = (ends.from, ends.to, ends.dim);
            PortUsage {
                from,
                to,
                dim,
                drops,
                marks,
                longest_queue,
                queue_p50: found(50),
                queue_p99: found(99),
                pauses,
                paused,
            }
        };
        let seen =
            |port: &PortUsage| port.drops + port.marks + port.longest_queue + port.pauses > 0;
        self.counters().map(port).filter(seen)
    }
}

fn losses(Losses { retransmits, recoveries, timeouts }: Losses) -> LossUsage {
    LossUsage { retransmits, fast_recoveries: recoveries, timeouts }
}

fn connection(flow: Flow) -> ConnectionUsage {
    ConnectionUsage {
        src: flow.src,
        dst: flow.dst,
        bytes: flow.bytes,
        first: flow.first,
        last: flow.last,
        losses: losses(flow.losses),
        round_trip_mean: flow.round_trip_mean,
        round_trip_p50: flow.round_trip_p50,
        round_trip_p99: flow.round_trip_p99,
        round_trip_max: flow.round_trip_max,
        round_trip_sampled: flow.round_trip_sampled,
    }
}
