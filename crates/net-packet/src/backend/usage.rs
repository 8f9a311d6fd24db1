//! Counts of packets, as reports have them.

use crate::backend::Packets;
use crate::port::Counters;
use network::{PacketEvents, PacketUsage, PortCounts, PortUsage};

impl Packets {
    /// The totals, ports and connections of the run so far.
    pub(crate) fn packet_usage(&self) -> PacketUsage {
        let skipped = self.skipped();
        let totals = self.totals();
        PacketUsage {
            events: PacketEvents {
                skips: skipped.times,
                skipped: skipped.time,
                skip_error: skipped.error,
                ..totals.events
            },
            busy: self.counters().map(|(_, counters)| u128::from(counters.busy.0)).sum(),
            links: self.counters().count() as u64,
            ports: self.port_usage().collect(),
            connections: self.flows().collect(),
            ..totals
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
            let (queue_p50, queue_p99) = (found(50), found(99));
            let counts =
                PortCounts { drops, marks, queue_p50, queue_p99, longest_queue, pauses, paused };
            PortUsage { from, to, dim, counts }
        };
        let seen = |port: &PortUsage| {
            let PortCounts { drops, marks, longest_queue, pauses, .. } = port.counts;
            drops + marks + longest_queue + pauses > 0
        };
        self.counters().map(port).filter(seen)
    }
}
