//! Allocators and flow control against theory, on one router with a node at each port.

use net_flit::input_queued::{Allocator, InputQueued, Pipeline, Settings};
use net_flit::{Arrival, End, Fabric, Packet, Routing, Way};

/// The first channels go to the nodes.
struct Star;

impl Routing for Star {
    fn next(&mut self, _: u32, packet: &Packet, _: u32) -> Way {
        Way { channel: packet.dst, vnet: 0 }
    }
}

fn star(nodes: u32, settings: Settings) -> InputQueued<Star> {
    let mut fabric = Fabric { routers: 1, nodes, ..Fabric::default() };
    for node in 0..nodes {
        fabric.channel(End::Router(0), End::Node(node), 1, 0..1);
    }
    for node in 0..nodes {
        fabric.channel(End::Node(node), End::Router(0), 1, 0..1);
    }
    InputQueued::new(&fabric, settings, Star).expect("in range").checked()
}

fn packet(src: u32, dst: u32, flits: u32) -> Packet {
    Packet { src, dst, vnet: 0, flits, port: 0, way: 0 }
}

/// All that arrives, in order.
fn all(mut network: InputQueued<Star>) -> Vec<Arrival> {
    let mut arrived = Vec::new();
    while network.advance(&mut arrived) {}
    assert_eq!(network.deadlock(), None);
    arrived
}

/// Every input has packets for every output, as many for each. Uniform traffic fills all outputs with
/// enough iterations, and with one as well, since the rounds of outputs drift apart (McKeown 1999,
/// section III). Every virtual channel is a queue of its own, so no packet blocks those behind it.
#[test]
fn islip_fills_all_outputs_under_uniform_traffic() {
    for iterations in [1, 2, 8] {
        let (nodes, rounds) = (8, 250);
        let pipeline = Pipeline { iterations, ..Pipeline::default() };
        let mut network = star(nodes, Settings { vcs: 64, pipeline, ..Settings::default() });
        for round in 0..rounds * nodes {
            for src in 0..nodes {
                network.send(0, packet(src, (src + round * (1 + round / nodes)) % nodes, 1), 0);
            }
        }
        let sent = rounds * nodes;
        let last = all(network).last().expect("arrived").cycle as f64;
        assert!(f64::from(sent) / last > 0.95, "{iterations}: {}", f64::from(sent) / last);
    }
}

/// Three nodes create many packets for a fourth, one node after the other: with age as the rule all
/// of the first node arrive before any of the last one, else the output takes turns.
#[test]
fn the_oldest_packet_goes_first() {
    for (allocator, in_order) in [(Allocator::Age, true), (Allocator::RoundRobin, false)] {
        let pipeline = Pipeline { allocator, ..Pipeline::default() };
        let mut network = star(4, Settings { pipeline, ..Settings::default() });
        for src in [2, 0, 1] {
            for _ in 0..20 {
                network.send(u64::from(src) * 4, packet(src, 3, 1), u64::from(src));
            }
        }
        let order: Vec<u64> = all(network).iter().map(|arrival| arrival.token).collect();
        let last = order.iter().rposition(|&src| src == 0);
        let first = order.iter().position(|&src| src == 2);
        assert_eq!(last < first, in_order, "{allocator:?}: {order:?}");
    }
}

/// Outputs that serve whoever was served least recently give equal shares to all that always ask; so
/// do rounds.
#[test]
fn turns_are_fair() {
    for allocator in [Allocator::RoundRobin, Allocator::Matrix, Allocator::Islip] {
        let pipeline = Pipeline { allocator, ..Pipeline::default() };
        let mut network = star(5, Settings { pipeline, ..Settings::default() });
        for src in 0..4 {
            for _ in 0..100 {
                network.send(0, packet(src, 4, 1), u64::from(src));
            }
        }
        let order: Vec<u64> = all(network).iter().map(|arrival| arrival.token).collect();
        for src in 0..4 {
            let share = order[40..360].iter().filter(|&&other| other == src).count();
            assert!((76..=84).contains(&share), "{allocator:?}: {share} of 320 from node {src}");
        }
    }
}

/// Alone in the network, all allocators and both kinds of flow control take the latency of the
/// pipeline: (h + 1) routers, links and the flits of the packet.
#[test]
fn an_empty_router_takes_its_pipeline() {
    for allocator in [Allocator::Islip, Allocator::RoundRobin, Allocator::Matrix, Allocator::Age] {
        for (speculation, route_computation, cycles) in [(false, 1, 4), (false, 0, 3), (true, 0, 2)]
        {
            for cut_through in [false, true] {
                let pipeline =
                    Pipeline { allocator, speculation, route_computation, ..Pipeline::default() };
                let settings = Settings { pipeline, cut_through, ..Settings::default() };
                let mut network = star(2, settings);
                network.send(0, packet(0, 1, 5), 0);
                let arrived = all(network);
                assert_eq!(arrived[0].network, cycles + 3 + 4, "{settings:?}");
            }
        }
    }
}

/// Stages of several cycles add up; a virtual channel asks for the switch again when the allocation
/// for the flit before is over.
#[test]
fn slow_stages_add_up() {
    for (channel_allocation, switch_allocation, switch_traversal) in
        [(1, 1, 2), (3, 1, 1), (2, 3, 1)]
    {
        for flits in [1, 4] {
            let stages = Pipeline { channel_allocation, switch_allocation, ..Pipeline::default() };
            let pipeline = Pipeline { switch_traversal, ..stages };
            let mut network = star(2, Settings { pipeline, vcs: 1, ..Settings::default() });
            network.send(0, packet(0, 1, flits), 0);
            let router = 1 + channel_allocation + switch_allocation + switch_traversal;
            let tail = (flits - 1) * switch_allocation;
            assert_eq!(all(network)[0].network, u64::from(router + 3 + tail), "{stages:?} {flits}");
        }
    }
}

/// Wormhole sends a packet that is longer than a buffer; virtual cut-through needs room for all of it.
#[test]
fn cut_through_needs_room_for_a_whole_packet() {
    for (cut_through, flits, arrives) in
        [(false, 9, true), (true, 8, true), (true, 9, false), (false, 8, true)]
    {
        let mut network = star(2, Settings { cut_through, vcs: 1, ..Settings::default() });
        network.send(0, packet(0, 1, flits), 0);
        let mut arrived = Vec::new();
        while network.advance(&mut arrived) {}
        assert_eq!((arrived.len(), network.deadlock().is_none()), (arrives.into(), arrives));
    }
}
