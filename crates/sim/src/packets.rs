//! The report's section of packets.

use crate::names;
use network::{ConnectionUsage, PacketUsage, PortUsage, Usage};
use stats::{Connection, Packets, Port};
use std::cmp::Reverse;
use topology::Fabric;
use units::{PS_PER_NS, Time};

/// Ports and connections listed.
const ROWS: usize = 20;

/// Counts of packets; nothing where the network has none.
pub(crate) fn report(fabric: &Fabric, usage: &Usage, step: Time) -> Option<Packets> {
    let packets: &PacketUsage = usage.packets.as_deref()?;
    Some(Packets {
        sent: packets.sent,
        link_utilisation: packets.busy as f64 / (packets.links.max(1) * step.0.max(1)) as f64,
        events: packets.events,
        ports: ports(fabric, &packets.ports),
        connection_count: packets.connections.len() as u64,
        connections: connections(&packets.connections),
    })
}

fn ports(fabric: &Fabric, ports: &[PortUsage]) -> Vec<Port> {
    let mut worst: Vec<&PortUsage> = ports.iter().collect();
    worst.sort_by_key(|port| Reverse((port.counts.drops, port.counts.longest_queue)));
    let row = |port: &PortUsage| Port {
        name: names::link_of_dimension(fabric, port.from, port.to, port.dim),
        counts: port.counts,
    };
    worst.into_iter().take(ROWS).map(row).collect()
}

fn connections(all: &[ConnectionUsage]) -> Vec<Connection> {
    let mut worst: Vec<&ConnectionUsage> = all.iter().collect();
    worst.sort_by_key(|each| {
        Reverse((each.losses.timeouts, each.losses.retransmits, each.carried.bytes))
    });
    worst.into_iter().take(ROWS).map(connection).collect()
}

fn connection(usage: &ConnectionUsage) -> Connection {
    let &ConnectionUsage { carried, losses, round_trips } = usage;
    let took = carried.last.0.saturating_sub(carried.first.0).max(1) as f64 / PS_PER_NS as f64;
    // Bytes per ns.
    let goodput_gb_per_s = carried.bytes as f64 / took;
    Connection { carried, goodput_gb_per_s, losses, round_trips }
}
