//! What the tests of the backend share.

pub mod check;

use net_packet::{Packets, Protocols, Settings};
use network::{Backend, LinkCost, Transfer};
use topology::{Dim, Fabric, GraphFabric, GraphLink, GraphNode, LinkGraph, Routing, Topology};
use units::{Bandwidth, Span, Time};

/// A small generator of our own (Steele, Lea, Flood 2014, SplitMix64): the cases are the same on
/// every machine.
pub struct Random(pub u64);

impl Random {
    /// A number below `most`.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }
}

/// A link of 100 Gb/s and 0.5 us.
pub fn link(from: u32, to: u32) -> GraphLink {
    GraphLink { from, to, bandwidth: Bandwidth(12_500_000_000), latency: Span(500_000), kind: 0 }
}

/// A transfer of weight 1.
pub fn transfer(src: u32, dst: u32, bytes: u64, token: u64) -> Transfer {
    Transfer { src, dst, bytes, paced: bytes, token, weight: 1 }
}

/// Starts transfers (source, destination, bytes, start in picoseconds; in order of their starts)
/// and returns when each arrives.
pub fn transfers(network: &mut Packets, all: &[(u32, u32, u64, u64)]) -> Vec<Time> {
    let mut ends = vec![Time::ZERO; all.len()];
    let mut finished = Vec::new();
    let mut open = (0u64..).zip(all).peekable();
    loop {
        let next = network.next_event();
        if let Some(&(token, &(src, dst, bytes, start))) = open.peek()
            && next.is_none_or(|next| next.0 >= start)
        {
            open.next();
            network.start(Time(start), transfer(src, dst, bytes, token));
            continue;
        }
        let Some(next) = next else {
            check::counts(network, all.iter().map(|&(_, _, bytes, _)| bytes.max(1)).sum());
            return ends;
        };
        network.advance(next, &mut finished);
        for delivery in finished.drain(..) {
            ends[delivery.token as usize] = delivery.time;
        }
    }
}

/// `hosts` on one switch, by links of 100 Gb/s and 0.5 us each way.
pub fn flat(hosts: u32, settings: Settings) -> Packets {
    star(hosts, Span(500_000), settings)
}

/// `hosts` on one switch, by links of 100 Gb/s.
pub fn star(hosts: u32, latency: Span, settings: Settings) -> Packets {
    let ends = (0..hosts).flat_map(|host| [(host, hosts), (hosts, host)]);
    let fabric = GraphFabric {
        npus: hosts,
        links: ends.map(|(from, to)| GraphLink { latency, ..link(from, to) }).collect(),
        nodes: (0..=hosts).map(|node| GraphNode::npu(format!("n{node}"))).collect(),
        ..GraphFabric::default()
    };
    graph(&fabric, Routing::DModK, settings)
}

/// The dimensions of a shape in the notation, with odd bandwidths and latencies.
pub fn dims(shape: &str, random: &mut Random) -> Vec<Dim> {
    let shape: Topology = shape.parse().expect("a shape");
    let dim = |&(block, size): &(topology::Block, u32)| Dim {
        block,
        size,
        bandwidth: Bandwidth(1_000_000_007 * (1 + random.below(400))),
        latency: Span(random.below(3_000_000)),
        parallel: 1,
    };
    shape.dims.iter().map(dim).collect()
}

/// A backend on stacked blocks.
pub fn stack(dims: &[Dim], routing: Routing, settings: impl Into<Protocols>) -> Packets {
    let cost = |d: &Dim| LinkCost::Exact { bandwidth: d.bandwidth, latency: d.latency };
    let links = LinkGraph::new(&Fabric::Stacked(dims.to_vec())).expect("a network");
    Packets::new(links.with_routing(routing), dims.iter().map(cost).collect(), false, settings)
}

/// A backend on an explicit graph.
pub fn graph(fabric: &GraphFabric, routing: Routing, settings: Settings) -> Packets {
    let cost = |l: &GraphLink| LinkCost::Exact { bandwidth: l.bandwidth, latency: l.latency };
    let costs = fabric.links.iter().map(cost).collect();
    let links = LinkGraph::new(&Fabric::Graph(fabric.clone())).expect("a connected network");
    Packets::new(links.with_routing(routing), costs, true, settings)
}

/// Transfers in bursts, so that many start at one instant and many meet.
pub fn traffic(npus: u32, random: &mut Random) -> Vec<(Time, Transfer)> {
    let mut now = 0;
    let transfer = |token| {
        now += [0, 0, 0, 50_000, 40_000_000][random.below(5) as usize];
        let src = random.below(npus.into()) as u32;
        let dst = (src + 1 + random.below(u64::from(npus) - 1) as u32) % npus;
        let bytes = [0, 1, 4096, 1_000_003][random.below(4) as usize];
        let weight = 1 + random.below(3);
        (Time(now), Transfer { src, dst, bytes, paced: bytes, token, weight })
    };
    (0..60).map(transfer).collect()
}

/// A tree of two switches with four NPUs, and a shortcut.
pub fn tree(random: &mut Random) -> GraphFabric {
    let ends = [(0, 4), (1, 4), (2, 5), (3, 5), (4, 5), (1, 2)];
    let both = ends.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]);
    let link = |(from, to)| {
        let (bandwidth, latency) =
            (Bandwidth(1_000_000_000 + random.below(1 << 38)), Span(random.below(2_000_000)));
        GraphLink { from, to, bandwidth, latency, kind: 0 }
    };
    GraphFabric {
        npus: 4,
        links: both.map(link).collect(),
        nodes: (0..6).map(|n| GraphNode::npu(format!("n{n}"))).collect(),
        ..GraphFabric::default()
    }
}
