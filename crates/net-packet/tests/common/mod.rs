//! What the tests of the backend share.
#![allow(dead_code, reason = "each test uses a part")]

use net_packet::{Packets, Settings};
use network::{Backend, LinkCost, Transfer};
use topology::{Fabric, GraphFabric, GraphLink, GraphNode, LinkGraph};
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

/// `hosts` on one switch, by links of 100 Gb/s and 0.5 us each way.
pub fn flat(hosts: u32, settings: Settings) -> Packets {
    let ends = (0..hosts).flat_map(|host| [(host, hosts), (hosts, host)]);
    let link = |(from, to)| GraphLink {
        from,
        to,
        bandwidth: Bandwidth(12_500_000_000),
        latency: Span(500_000),
        kind: 0,
    };
    let fabric = GraphFabric {
        npus: hosts,
        links: ends.map(link).collect(),
        nodes: (0..=hosts).map(|n| GraphNode::npu(format!("n{n}"))).collect(),
        ..GraphFabric::default()
    };
    graph(&fabric, settings)
}

/// A backend on an explicit graph.
pub fn graph(fabric: &GraphFabric, settings: Settings) -> Packets {
    let cost = |l: &GraphLink| LinkCost::Exact { bandwidth: l.bandwidth, latency: l.latency };
    let costs = fabric.links.iter().map(cost).collect();
    let links = LinkGraph::new(&Fabric::Graph(fabric.clone())).expect("a connected network");
    Packets::new(links, costs, true, settings)
}

/// In which order a host opens its messages.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// To host 0 first.
    Ascending,
    /// To the next host first.
    Rotation,
    /// At random.
    Random(u64),
}

impl Order {
    pub fn of(self, hosts: u32, host: u32) -> Vec<u32> {
        let mut all: Vec<u32> = match self {
            Order::Rotation => (1..hosts).map(|i| (host + i) % hosts).collect(),
            _ => (0..hosts).filter(|&other| other != host).collect(),
        };
        if let Order::Random(seed) = self {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(host.into()));
            for i in (1..all.len()).rev() {
                all.swap(i, random.below(i as u64 + 1) as usize);
            }
        }
        all
    }
}

/// A direct all-reduce of `bytes`: each host sends its part of a reduce-scatter to every other one,
/// and of an all-gather when it has received all parts. Returns when the last message arrives.
pub fn all_reduce(network: &mut Packets, hosts: u32, bytes: u64, order: Order) -> Time {
    let part = bytes / u64::from(hosts);
    let orders: Vec<Vec<u32>> = (0..hosts).map(|host| order.of(hosts, host)).collect();
    let step = |network: &mut Packets, now: Time, step: u64, host: u32| {
        for &dst in &orders[host as usize] {
            let token = (step * u64::from(hosts) + u64::from(host)) * u64::from(hosts) + u64::from(dst);
            let transfer = Transfer { src: host, dst, bytes: part, paced: part, token, weight: 1 };
            network.start(now, transfer);
        }
    };
    for host in 0..hosts {
        step(network, Time::ZERO, 0, host);
    }
    let square = u64::from(hosts) * u64::from(hosts);
    let mut missing = vec![hosts - 1; hosts as usize];
    let (mut finished, mut last, mut left) = (Vec::new(), Time::ZERO, 2 * square - 2 * u64::from(hosts));
    while left > 0 {
        let next = network.next_event().expect("messages are under way");
        network.advance(next, &mut finished);
        for delivery in finished.drain(..) {
            (last, left) = (delivery.time, left - 1);
            let dst = (delivery.token % u64::from(hosts)) as u32;
            if delivery.token < square {
                missing[dst as usize] -= 1;
                if missing[dst as usize] == 0 {
                    step(network, delivery.time, 1, dst);
                }
            }
        }
    }
    last
}
