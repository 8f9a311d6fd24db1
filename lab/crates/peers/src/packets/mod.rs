//! The collectives of ns-3's and htsim's runs on the packet backend.

mod direct;
mod trees;

pub use direct::{Order, all_reduce};
pub use trees::Trees;

use net_packet::{Packets, Settings};
use network::{LinkCost, Transfer};
use topology::{Fabric, GraphFabric, GraphLink, GraphNode, LinkError, LinkGraph, Routing};
use units::{Bandwidth, Span};

/// `hosts` on one switch, by links of this bandwidth and latency each way.
///
/// # Errors
/// More links than can be numbered.
pub fn star(
    hosts: u32,
    (bandwidth, latency): (Bandwidth, Span),
    settings: Settings,
) -> Result<Packets, LinkError> {
    let ends = (0..hosts).flat_map(|host| [(host, hosts), (hosts, host)]);
    let link = |(from, to)| GraphLink { from, to, bandwidth, latency, kind: 0 };
    let fabric = GraphFabric {
        npus: hosts,
        links: ends.map(link).collect(),
        nodes: (0..=hosts).map(|node| GraphNode::npu(format!("n{node}"))).collect(),
        ..GraphFabric::default()
    };
    let costs = vec![LinkCost::Exact { bandwidth, latency }; fabric.links.len()];
    let links = LinkGraph::new(&Fabric::Graph(fabric))?.with_routing(Routing::DModK);
    Ok(Packets::new(links, costs, true, settings))
}

fn transfer((src, dst): (u32, u32), bytes: u64, token: u64) -> Transfer {
    Transfer { src, dst, bytes, paced: bytes, token, weight: 1 }
}
