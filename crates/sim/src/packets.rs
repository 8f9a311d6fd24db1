//! The report's section of packets.

use crate::names;
use network::{ConnectionUsage, PacketUsage, PortUsage, Usage};
use stats::{Connection, Packets, Port};
use std::cmp::Reverse;
use topology::Fabric;
use units::{PS_PER_NS, Span, Time};

/// Ports and connections listed.
const ROWS: usize = 20;

/// Counts of packets; nothing where the network has none.
pub(crate) fn report(fabric: &Fabric, usage: &Usage, step: Time) -> Option<Packets> {
    let packets: &PacketUsage = usage.packets.as_deref()?;
    let (losses, trips) = (packets.losses, packets.round_trips);
    Some(Packets {
        data: packets.data,
        acknowledgements: packets.acknowledgements,
        hops: packets.hops,
        link_utilisation: packets.busy as f64 / (packets.links.max(1) * step.0.max(1)) as f64,
        drops: packets.drops,
        marks: packets.marks,
        pauses: packets.pauses,
        retransmits: losses.retransmits,
        fast_recoveries: losses.fast_recoveries,
        timeouts: losses.timeouts,
        queue_max_bytes: packets.longest_queue,
        round_trips: trips.count,
        rtt_mean_ns: trips.mean.as_ns(),
        rtt_p50_ns: trips.p50.as_ns(),
        rtt_p99_ns: trips.p99.as_ns(),
        rtt_sampled_mean_ns: trips.sampled.map(|[mean, ..]| mean.as_ns()),
        rtt_sampled_p50_ns: trips.sampled.map(|[_, median, _]| median.as_ns()),
        rtt_sampled_p99_ns: trips.sampled.map(|[.., most]| most.as_ns()),
        skips: packets.skips,
        skipped_ns: packets.skipped.as_ns(),
        skip_error_ns: packets.skip_error.as_ns(),
        ports: ports(fabric, &packets.ports),
        connection_count: packets.connections.len() as u64,
        connections: connections(&packets.connections),
    })
}

fn ports(fabric: &Fabric, ports: &[PortUsage]) -> Vec<Port> {
    let mut worst: Vec<&PortUsage> = ports.iter().collect();
    worst.sort_by_key(|port| Reverse((port.drops, port.longest_queue)));
    let row = |port: &PortUsage| Port {
        name: names::link_of_dimension(fabric, port.from, port.to, port.dim),
        drops: port.drops,
        marks: port.marks,
        queue_p50_bytes: port.queue_p50,
        queue_p99_bytes: port.queue_p99,
        queue_max_bytes: port.longest_queue,
        pauses: port.pauses,
        paused_ns: port.paused.as_ns(),
    };
    worst.into_iter().take(ROWS).map(row).collect()
}

fn connections(all: &[ConnectionUsage]) -> Vec<Connection> {
    let mut worst: Vec<&ConnectionUsage> = all.iter().collect();
    worst.sort_by_key(|each| Reverse((each.losses.timeouts, each.losses.retransmits, each.bytes)));
    worst.into_iter().take(ROWS).map(connection).collect()
}

fn connection(usage: &ConnectionUsage) -> Connection {
    let took = usage.last.0.saturating_sub(usage.first.0).max(1) as f64 / PS_PER_NS as f64;
    Connection {
        source: usage.src,
        destination: usage.dst,
        bytes: usage.bytes,
        first_ns: usage.first.as_ns(),
        last_ns: usage.last.as_ns(),
        // Bytes per ns.
        goodput_gb_per_s: usage.bytes as f64 / took,
        retransmits: usage.losses.retransmits,
        fast_recoveries: usage.losses.fast_recoveries,
        timeouts: usage.losses.timeouts,
        rtt_mean_ns: usage.round_trip_mean.as_ns(),
        rtt_p50_ns: usage.round_trip_p50.as_ns(),
        rtt_p99_ns: usage.round_trip_p99.as_ns(),
        rtt_max_ns: usage.round_trip_max.as_ns(),
        rtt_sampled_mean_ns: usage.round_trip_sampled.map(Span::as_ns),
    }
}
