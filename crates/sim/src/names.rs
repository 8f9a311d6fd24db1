//! Names of nodes and links of a network, as reports and errors show them.

use executor::NetworkStall;
use network::{BlockedPort, Stuck};
use topology::Fabric;

/// `npu3`, `switch1`, or its name in an explicit graph.
pub(crate) fn node(fabric: &Fabric, node: u32) -> String {
    fabric.node_name(node)
}

/// `npu3 -> switch1`.
pub(crate) fn link(fabric: &Fabric, from: u32, to: u32) -> String {
    format!("{} -> {}", node(fabric, from), node(fabric, to))
}

/// `npu3 -> switch1 (dimension 1)`.
pub(crate) fn link_of_dimension(fabric: &Fabric, from: u32, to: u32, dim: u32) -> String {
    format!("{} (dimension {})", link(fabric, from, to), dim + 1)
}

/// A stuck network in names of its nodes.
pub(crate) fn stall(fabric: &Fabric, stuck: Stuck) -> NetworkStall {
    let place = |place: &BlockedPort| {
        let channel = place.channel.map_or(String::new(), |number| format!(" channel {number}"));
        format!("{}{channel}: {}", link(fabric, place.from, place.to), place.waits_for)
    };
    NetworkStall { transfers: stuck.transfers, cycle: stuck.cycle.iter().map(place).collect() }
}
