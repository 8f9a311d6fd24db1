//! Both routers with settings at random, checked after every cycle: flits are conserved, buffers hold
//! what they can, credits stay as many, flits keep their order and have their turn. What cannot be
//! has a name.

use net_flit::garnet::{self, Garnet};
use net_flit::input_queued::{self, Allocator, InputQueued, Pipeline};
use net_flit::{
    Arrival, CYCLE, Channel, DimensionOrder, End, Fabric, Grid, Packet, Random, Refused, Routing,
    Way,
};
use peers::flits::Pattern;

/// Packets at random, in the order in which they are sent.
fn traffic(grid: &Grid, flits: u32, random: &mut Random) -> Vec<(u64, Packet)> {
    let patterns = [Pattern::Uniform, Pattern::Tornado, Pattern::Neighbor, Pattern::Diagonal];
    let pattern = patterns[random.below(4) as usize];
    let mut cycle = 0;
    let packet = |_| {
        cycle += random.below(3) / 2;
        let src = random.below(grid.nodes().into()) as u32;
        let dst = pattern.destination(grid, src, random);
        (cycle, Packet { src, dst, vnet: 0, flits, port: 0, way: 0 })
    };
    (0..300).map(packet).collect()
}

fn grid(random: &mut Random) -> Grid {
    let (n, wraps) = (1 + random.below(3) as u32, random.below(2) == 1);
    Grid { k: 2 + random.below(4) as u32, n, wraps }
}

const ALLOCATORS: [Allocator; 4] =
    [Allocator::Islip, Allocator::RoundRobin, Allocator::Matrix, Allocator::Age];

/// From two virtual channels on, tori have two classes, so nothing can lock up.
#[test]
fn input_queued_routers_pass_all_checks() {
    let mut random = Random::new(17);
    for case in 0..if cfg!(debug_assertions) { 40 } else { 200 } {
        let (grid, below) =
            (grid(&mut random), |most: u64, random: &mut Random| 1 + random.below(most) as u32);
        let settings = input_queued::Settings {
            vcs: 1 + below(8, &mut random),
            buffers_per_vc: below(8, &mut random),
            pipeline: Pipeline {
                route_computation: below(3, &mut random) - 1,
                channel_allocation: below(3, &mut random),
                switch_allocation: below(3, &mut random),
                switch_traversal: below(2, &mut random) - 1,
                credit_processing: below(3, &mut random) - 1,
                speculation: false,
                waits_for_tail_credit: random.below(2) == 1,
                allocator: ALLOCATORS[random.below(4) as usize],
                iterations: below(3, &mut random),
            },
            cut_through: random.below(2) == 1,
        };
        let pipeline = settings.pipeline;
        let slow = pipeline.channel_allocation.max(pipeline.switch_allocation) > 1;
        let speculation = !slow && random.below(2) == 1;
        let pipeline = Pipeline { speculation, ..pipeline };
        let settings = input_queued::Settings { pipeline, ..settings };
        let most = if settings.cut_through { settings.buffers_per_vc } else { 6 };
        let flits = below(most.into(), &mut random);
        let (fabric, ways) = grid.fabric([below(4, &mut random), 1], 1);
        let network = InputQueued::new(&fabric, settings, DimensionOrder::new(ways, case));
        let mut network = network.expect("in range").checked();
        let (mut arrived, sent) = (Vec::new(), traffic(&grid, flits, &mut random));
        for (token, &(cycle, packet)) in (0..).zip(&sent) {
            network.run(cycle, &mut arrived);
            network.send(cycle, packet, token);
        }
        while network.advance(&mut arrived) {}
        assert_eq!(network.deadlock(), None, "case {case}: {settings:?}");
        everything_arrives(&sent, &arrived);
    }
}

#[test]
fn garnets_routers_pass_all_checks() {
    let mut random = Random::new(18);
    for case in 0..if cfg!(debug_assertions) { 40 } else { 200 } {
        let grid = Grid { wraps: false, ..grid(&mut random) };
        let settings = garnet::Settings {
            vcs_per_vnet: 1 + random.below(100) as u32,
            buffers_per_vc: 1 + random.below(8) as u32,
            router_latency: 1 + random.below(3) as u32,
            interleaves: random.below(2) == 1,
            ..garnet::Settings::default()
        };
        let flits = 1 + random.below(6) as u32;
        let (fabric, ways) = grid.fabric([1 + random.below(4) as u32, 1], 1);
        let network = Garnet::new(&fabric, settings, DimensionOrder::new(ways, case));
        let mut network = network.expect("in range").checked();
        let (mut arrived, sent) = (Vec::new(), traffic(&grid, flits, &mut random));
        for (token, &(cycle, packet)) in (0..).zip(&sent) {
            network.run(cycle, &mut arrived);
            network.send(cycle, packet, token);
        }
        while network.advance(&mut arrived) {}
        assert_eq!(network.deadlock(), None, "case {case}: {settings:?}");
        everything_arrives(&sent, &arrived);
    }
}

/// Each packet once, where it goes.
fn everything_arrives(sent: &[(u64, Packet)], arrived: &[Arrival]) {
    assert_eq!(arrived.len(), sent.len());
    let mut seen = vec![false; sent.len()];
    for arrival in arrived {
        assert_eq!(arrival.packet.dst, sent[arrival.token as usize].1.dst);
        assert!(!std::mem::replace(&mut seen[arrival.token as usize], true));
    }
}

/// Four nodes of a ring that goes one way send to the node opposite, with one channel of one flit:
/// each packet has the buffer that the one behind it needs.
struct OneWay;

impl Routing for OneWay {
    fn next(&mut self, router: u32, packet: &Packet, _: u32) -> Way {
        Way { channel: router + if packet.dst == router { 4 } else { 0 }, vnet: 0 }
    }
}

fn one_way() -> Fabric {
    let mut fabric = Fabric { routers: 4, nodes: 4, ..Fabric::default() };
    for at in 0..4 {
        fabric.channel(End::Router(at), End::Router((at + 1) % 4), 1, 0..1);
    }
    for at in 0..4 {
        fabric.channel(End::Router(at), End::Node(at), 1, 0..1);
    }
    for at in 0..4 {
        fabric.channel(End::Node(at), End::Router(at), 1, 0..1);
    }
    fabric
}

#[test]
fn a_deadlock_names_the_ring() {
    let pipeline = Pipeline { channel_allocation: 2, switch_allocation: 2, ..Pipeline::default() };
    let settings =
        input_queued::Settings { vcs: 1, buffers_per_vc: 1, pipeline, ..Default::default() };
    let mut network = InputQueued::new(&one_way(), settings, OneWay).expect("in range").checked();
    let settings =
        garnet::Settings { vcs_per_vnet: 1, buffers_per_vc: 1, ..garnet::Settings::default() };
    let mut other = Garnet::new(&one_way(), settings, OneWay).expect("in range").checked();
    for src in 0..4 {
        for _ in 0..4 {
            let packet = Packet { src, dst: (src + 2) % 4, vnet: 0, flits: 4, port: 0, way: 0 };
            network.send(0, packet, 0);
            other.send(0, packet, 0);
        }
    }
    let mut arrived = Vec::new();
    while network.advance(&mut arrived) {}
    while other.advance(&mut arrived) {}
    for blocked in [network.deadlock(), other.deadlock()] {
        let mut channels: Vec<u32> =
            blocked.expect("locked up").iter().map(|blocked| blocked.channel).collect();
        let first = channels.iter().position(|&channel| channel == 0).expect("all of the ring");
        channels.rotate_left(first);
        assert_eq!(channels, [0, 1, 2, 3]);
    }
}

/// What `change` makes of a good network.
fn refused(change: impl Fn(&mut input_queued::Settings, &mut Fabric)) -> Refused {
    let (mut settings, mut fabric) = (input_queued::Settings::default(), one_way());
    change(&mut settings, &mut fabric);
    InputQueued::new(&fabric, settings, OneWay).err().expect("refused")
}

#[test]
fn input_queued_routers_refuse_what_cannot_be() {
    type Change = fn(&mut input_queued::Settings, &mut Fabric);
    let cases: [(Change, &str); 12] = [
        (|settings, _| settings.vcs = 0, "virtual channels is 0; allowed: 1 to 64"),
        (|settings, _| settings.vcs = 65, "virtual channels is 65; allowed: 1 to 64"),
        (|settings, _| settings.buffers_per_vc = 0, "flits of a virtual channel is 0"),
        (|settings, _| settings.buffers_per_vc = 65_536, "allowed: 1 to 65,535"),
        (|settings, _| settings.pipeline.iterations = 0, "iterations of allocation is 0"),
        (
            |settings, _| settings.pipeline.channel_allocation = 0,
            "cycles of channel allocation is 0",
        ),
        (|settings, _| settings.pipeline.switch_allocation = u32::MAX, "allowed: 1 to 1,048,576"),
        (|_, fabric| fabric.channels[0].latency = 0, "latency of a link is 0"),
        (|_, fabric| fabric.channels[1].vnets = 0..2, "virtual networks is 0..2"),
        (
            |_, fabric| fabric.channels.iter_mut().for_each(|channel| channel.vnets = 0..3),
            "virtual channels is 4; allowed: a multiple of the virtual networks",
        ),
        (|_, fabric| fabric.channels[0].occupancy = CYCLE / 2, "cycles of a flit on a link is 0.5"),
        (|_, fabric| fabric.nodes = 5, "links of a node is 0; allowed: at least 1"),
    ];
    for (change, words) in cases {
        let refused = refused(change).to_string();
        assert!(refused.contains(words), "{refused}");
    }
    let many = refused(|_, fabric| {
        let channel = |at: u32| Channel {
            from: End::Router(0),
            to: End::Router(at % 4),
            ..fabric.channels[0].clone()
        };
        fabric.channels = fabric.channels.iter().cloned().chain((0..63).map(channel)).collect();
    });
    assert_eq!(many.to_string(), "ports of a router is 65; allowed: at most 64");
}

#[test]
fn garnets_routers_refuse_what_cannot_be() {
    type Change = fn(&mut garnet::Settings, &mut Fabric);
    let cases: [(Change, &str); 8] = [
        (|settings, _| settings.vnets = 0, "virtual networks is 0"),
        (|settings, _| settings.vcs_per_vnet = 0, "virtual channels of a virtual network is 0"),
        (|settings, _| settings.vcs_per_vnet = 1 << 22, "virtual channels of a link is 4194304"),
        (
            |settings, _| settings.vcs_per_vnet = 1 << 21,
            "virtual channels of all inputs of a router is 4194304; allowed: at most 4,194,240",
        ),
        (|settings, _| settings.buffers_per_vc = 0, "flits of a virtual channel is 0"),
        (|settings, _| settings.router_latency = 0, "cycles of a router is 0"),
        (|_, fabric| fabric.channels[0].occupancy = CYCLE / 2, "cycles of a flit on a link is 0.5"),
        (|_, fabric| fabric.channels[0].vnets = 0..2, "virtual networks of a link is 0..2"),
    ];
    for (change, words) in cases {
        let (mut settings, mut fabric) = (garnet::Settings::default(), one_way());
        change(&mut settings, &mut fabric);
        let refused = Garnet::new(&fabric, settings, OneWay).err().expect("refused").to_string();
        assert!(refused.contains(words), "{refused}");
    }
}
