//! Counts of packets, as reports have them.

use crate::backend::Packets;
use crate::port::Counters;
use network::{PacketUsage, PortUsage};

impl Packets {
    /// The totals, ports and connections of the run so far.
    pub(crate) fn packet_usage(&self) -> PacketUsage {
        let skipped = self.skipped();
        PacketUsage {
            busy: self.counters().map(|(_, counters)| u128::from(counters.busy.0)).sum(),
            links: self.counters().count() as u64,
            skips: skipped.times,
            skipped: skipped.time,
            skip_error: skipped.error,
            ports: self.port_usage().collect(),
            connections: self.flows().collect(),
            ..self.totals()
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
