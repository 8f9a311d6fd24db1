//! The backend keeps the contract of `network`, agrees with bandwidth and latency where nothing
//! contends, and refuses what could lock up.

use net_flit::{Flits, Random, Settings};
use network::{Backend, LinkCost, Transfer, conformance};
use topology::{
    Block, Dim, Fabric, GraphFabric, GraphLink, GraphNode, LinkGraph, Routing, Topology,
};
use units::{Bandwidth, Span, Time};

const SHAPES: [&str; 9] = [
    "R(2)",
    "R(7)",
    "FC(6)",
    "SW(5)",
    "R(4)_R(4)",
    "R(3)_FC(4)_SW(2)",
    "SW(4)_R(5)",
    "FC(3)_FC(3)",
    "M(5)_SW(3)",
];

const SETTINGS: Settings = Settings {
    cycle: Span::from_ns(1),
    flit: 512,
    packet: 4096,
    virtual_channels: Some(4),
    buffers: 8,
    router_latency: 1,
};

fn exact(bandwidth: Bandwidth, latency: Span) -> LinkCost {
    LinkCost::Exact { bandwidth, latency }
}

fn dims(shape: &str, random: &mut Random) -> Vec<Dim> {
    let shape: Topology = shape.parse().expect("a shape");
    let dim = |&(block, size): &(Block, u32)| Dim {
        block,
        size,
        bandwidth: Bandwidth(1_000_000_007 * (1 + random.below(400))),
        latency: Span(random.below(300_000)),
    };
    shape.dims.iter().map(dim).collect()
}

fn stack(dims: &[Dim], routing: Routing, settings: Settings) -> Flits {
    let fabric = Fabric::Stacked(dims.to_vec());
    let links = LinkGraph::new(&fabric).expect("a network").with_routing(routing);
    let costs = dims.iter().map(|dim| exact(dim.bandwidth, dim.latency)).collect();
    Flits::new(&fabric, links, (costs, false), settings).expect("no circle").checked()
}

fn traffic(npus: u32, random: &mut Random) -> Vec<(Time, Transfer)> {
    let mut now = 0;
    let transfer = |token| {
        now += [0, 0, 0, 50_000, 40_000_000][random.below(5) as usize];
        let src = random.below(npus.into()) as u32;
        let dst = (src + 1 + random.below(u64::from(npus) - 1) as u32) % npus;
        let bytes = [0, 1, 4096, 100_003][random.below(4) as usize];
        let weight = 1 + random.below(3);
        (Time(now), Transfer { src, dst, bytes, paced: bytes, token, weight })
    };
    (0..40).map(transfer).collect()
}

/// Longest that a transfer alone may take: each packet by itself.
fn alone(links: &LinkGraph, transfer: &Transfer) -> Span {
    let packets = transfer.bytes.div_ceil(4096).max(1);
    let hops = links.route(transfer.src, transfer.dst).map(|hop| links.link(hop.link));
    let one = |link: topology::Link| {
        link.latency + link.bandwidth.span(units::Bytes(2 * 4096)) + Span::from_ns(100)
    };
    let there: Span = hops.map(one).sum();
    Span(3 * there.0 * packets)
}

#[test]
fn stacks_keep_the_contract() {
    let mut random = Random::new(1);
    for (case, shape) in SHAPES.into_iter().cycle().take(18).enumerate() {
        let dims = dims(shape, &mut random);
        let fabric = Fabric::Stacked(dims.clone());
        let transfers = traffic(fabric.npus(), &mut random);
        let routing = [Routing::Lowest, Routing::Hash { seed: 3 }][case % 2];
        let links = LinkGraph::new(&fabric).unwrap().with_routing(routing);
        let result = conformance::check(
            || stack(&dims, routing, SETTINGS),
            &transfers,
            |_: &Flits, transfer| alone(&links, transfer),
        );
        assert_eq!(result, Ok(()), "{routing} on {shape}");
    }
}

/// Every node of a ring or a torus sends to its neighbour: nothing contends, so the time is the
/// latency and the bytes over the bandwidth, within 2 %.
#[test]
fn large_messages_without_contention_take_the_links_time() {
    for (shape, sizes) in [("R(8)", vec![8]), ("R(4)_R(4)", vec![4, 4])] {
        let bandwidth = Bandwidth(50_000_000_000);
        let dims: Vec<Dim> = sizes
            .iter()
            .map(|&size| Dim { block: Block::Ring, size, bandwidth, latency: Span::from_ns(500) })
            .collect();
        let settings = Settings { flit: 64, virtual_channels: None, buffers: 64, ..SETTINGS };
        let mut network = stack(&dims, Routing::Lowest, settings);
        let bytes = 4_000_000;
        let npus: u32 = sizes.iter().product();
        for src in 0..npus {
            let dst = src / sizes[0] * sizes[0] + (src + 1) % sizes[0];
            let transfer = Transfer { src, dst, bytes, paced: bytes, token: src.into(), weight: 1 };
            network.start(Time::ZERO, transfer);
        }
        let (mut finished, mut last) = (Vec::new(), Time::ZERO);
        while network.next_event().is_some() {
            network.advance(Time::MAX, &mut finished);
            last = finished.drain(..).map(|delivery| delivery.time).fold(last, Time::max);
        }
        let expected = network.physical_minimum(0, 1, bytes).0 as f64;
        let ratio = last.0 as f64 / expected;
        assert!((1.0..1.02).contains(&ratio), "{shape}: {ratio}");
    }
}

/// The links of a fabric, by name of its ends.
fn graph(npus: u32, nodes: u32, ends: &[(u32, u32)]) -> (Fabric, LinkGraph, Vec<LinkCost>) {
    let (bandwidth, latency) = (Bandwidth(50_000_000_000), Span::from_ns(20));
    let link = |&(from, to): &(u32, u32)| GraphLink { from, to, bandwidth, latency, kind: 0 };
    let fabric = Fabric::Graph(GraphFabric {
        npus,
        links: ends.iter().map(link).collect(),
        nodes: (0..nodes).map(|node| GraphNode::npu(format!("n{node}"))).collect(),
        ..GraphFabric::default()
    });
    let links = LinkGraph::new(&fabric).expect("connected").with_routing(Routing::DModK);
    let costs = vec![exact(bandwidth, latency); ends.len()];
    (fabric, links, costs)
}

/// All NPUs send to all at once, with one channel and one flit of room.
fn all_to_all(mut network: Flits, npus: u32, name: &str) {
    let pairs = (0..npus).flat_map(|src| (0..npus).map(move |dst| (src, dst)));
    let mut left = 0;
    for (src, dst) in pairs.filter(|(src, dst)| src != dst) {
        let transfer = Transfer { src, dst, bytes: 10_000, paced: 0, token: left, weight: 1 };
        network.start(Time::ZERO, transfer);
        left += 1;
    }
    let mut finished = Vec::new();
    while network.next_event().is_some() {
        network.advance(Time::MAX, &mut finished);
    }
    assert_eq!(finished.len() as u64, left, "{name}: {:?}", network.stalled());
}

const TIGHT: Settings =
    Settings { virtual_channels: Some(1), buffers: 1, packet: 2048, ..SETTINGS };

/// Three switches in a ring of one-way links: each link would wait for the next. Some routes get
/// channels of their own.
#[test]
fn a_ring_of_switches_delivers_everything() {
    let ends = (0..3).flat_map(|at| [(at, 3 + at), (3 + at, at), (3 + at, 3 + (at + 1) % 3)]);
    let (fabric, links, costs) = graph(3, 6, &ends.collect::<Vec<_>>());
    let network = Flits::new(&fabric, links, (costs, true), TIGHT).expect("two classes");
    all_to_all(network, 3, "ring of switches");
}

/// Random connected graphs of NPUs and switches deliver everything.
#[test]
fn random_graphs_deliver_everything() {
    let mut random = Random::new(4);
    for case in 0..if cfg!(debug_assertions) { 60 } else { 1000 } {
        let (npus, switches) = (2 + random.below(8) as u32, random.below(6) as u32);
        let nodes = npus + switches;
        // A tree, and some links more.
        let tree = (1..nodes).map(|node| (node, random.below(node.into()) as u32));
        let mut both: Vec<(u32, u32)> = tree.collect();
        for _ in 0..random.below(nodes.into()) {
            let (from, to) = (random.below(nodes.into()) as u32, random.below(nodes.into()) as u32);
            if from != to {
                both.push((from, to));
            }
        }
        let ends: Vec<(u32, u32)> = both.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        let (fabric, links, costs) = graph(npus, nodes, &ends);
        let network = Flits::new(&fabric, links, (costs, true), TIGHT)
            .unwrap_or_else(|circle| panic!("graph {case}: {circle:?}"));
        all_to_all(network.checked(), npus, &format!("graph {case}"));
    }
}

/// All to all on rings and tori, with few channels and little room: nothing locks up.
#[test]
fn rings_and_tori_never_lock_up() {
    for shape in ["R(8)", "R(4)_R(4)", "R(3)_R(5)_R(2)"] {
        let dims = dims(shape, &mut Random::new(9));
        let npus = dims.iter().map(|dim| dim.size).product();
        all_to_all(stack(&dims, Routing::Lowest, TIGHT), npus, shape);
    }
}
