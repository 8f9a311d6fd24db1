//! The backend keeps the contract of `network`, agrees with bandwidth and latency where nothing
//! contends, and refuses what could lock up.

use net_flit::input_queued::{Allocator, Pipeline};
use net_flit::{Flits, PacketsByKind, Random, Refusal, RoutingChoice, Settings};
use net_settings::flit::{Deadlock, Flit, FlitRouter};
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

/// Flits of 512 B on Garnet's routers.
fn plain() -> Settings {
    let keys = Flit { virtual_channels: Some(4), buffer: Some(8), ..Flit::default() };
    Settings { keys, flit: 512, ..Settings::default() }
}

/// Settings with other keys.
fn with(settings: Settings, change: impl FnOnce(&mut Flit)) -> Settings {
    let mut keys = settings.keys.clone();
    change(&mut keys);
    Settings { keys, ..settings }
}

type Router = (FlitRouter, Pipeline);

/// Garnet's router, and the textbook's with one pipeline and another.
fn routers() -> [Router; 3] {
    let one = Pipeline::default();
    let other = Pipeline {
        route_computation: 0,
        speculation: true,
        waits_for_tail_credit: true,
        allocator: Allocator::RoundRobin,
        ..one
    };
    let textbook = FlitRouter::InputQueued;
    [(FlitRouter::Garnet, one), (textbook, one), (textbook, other)]
}

fn on((router, pipeline): Router, settings: Settings) -> Settings {
    with(settings, |keys| (keys.router, keys.pipeline) = (router, Some(pipeline)))
}

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
        parallel: 1,
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
        let bytes = [0, 1, 4096, 20_011][random.below(4) as usize];
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

/// The same on any way: every link of the network once.
fn longest(links: &LinkGraph, transfer: &Transfer) -> Span {
    let packets = transfer.bytes.div_ceil(4096).max(1);
    let one = |link: topology::Link| {
        link.latency + link.bandwidth.span(units::Bytes(2 * 4096)) + Span::from_ns(100)
    };
    let all: Span = (0..links.len()).map(|link| one(links.link(link))).sum();
    Span(3 * all.0 * packets)
}

#[test]
fn stacks_keep_the_contract() {
    let mut random = Random::new(1);
    for (case, shape) in SHAPES.into_iter().cycle().take(18).enumerate() {
        let settings = on(routers()[(case + case / 9) % 3], plain());
        let dims = dims(shape, &mut random);
        let fabric = Fabric::Stacked(dims.clone());
        let transfers = traffic(fabric.npus(), &mut random);
        let routing = [Routing::Lowest, Routing::Hash { seed: 3 }][case % 2];
        let links = LinkGraph::new(&fabric).unwrap().with_routing(routing);
        let result = conformance::check(
            || stack(&dims, routing, settings.clone()),
            &transfers,
            |_: &Flits, transfer| alone(&links, transfer),
        );
        assert_eq!(result, Ok(()), "{routing} on {shape}, {:?}", settings.keys);
    }
}

/// Ways may be longer than the shortest, but the contract is the same.
#[test]
fn every_course_keeps_the_contract() {
    let mut random = Random::new(2);
    let shapes = ["R(4)_R(4)", "R(3)_FC(4)_SW(2)", "M(5)_SW(3)"];
    for (case, shape) in shapes.into_iter().enumerate() {
        let cases = [
            (RoutingChoice::UpDown, routers()[case]),
            (RoutingChoice::Valiant { seed: 3 }, routers()[(case + 1) % 3]),
            (RoutingChoice::Adaptive, routers()[0]),
        ];
        for (routing, router) in cases {
            let dims = dims(shape, &mut random);
            let fabric = Fabric::Stacked(dims.clone());
            let transfers = traffic(fabric.npus(), &mut random);
            let links = LinkGraph::new(&fabric).unwrap();
            let settings = on(router, Settings { routing: routing.clone(), ..plain() });
            let result = conformance::check(
                || stack(&dims, Routing::Lowest, settings.clone()),
                &transfers,
                |_: &Flits, transfer| longest(&links, transfer),
            );
            assert_eq!(result, Ok(()), "{routing:?} on {shape}, {router:?}");
        }
    }
}

/// Every node of a ring or a torus sends to its neighbour: nothing contends, so the time is the
/// latency and the bytes over the bandwidth, within 2 %.
#[test]
fn large_messages_without_contention_take_the_links_time() {
    let shapes = [("R(8)", vec![8]), ("R(4)_R(4)", vec![4, 4])];
    for ((shape, sizes), router) in
        shapes.iter().flat_map(|shape| routers().map(|router| (shape, router)))
    {
        let bandwidth = Bandwidth(50_000_000_000);
        let dims: Vec<Dim> = sizes
            .iter()
            .map(|&size| Dim {
                block: Block::Ring,
                size,
                bandwidth,
                latency: Span::from_ns(500),
                parallel: 1,
            })
            .collect();
        let settings = on(router, Settings::default());
        let mut network = stack(&dims, Routing::Lowest, settings);
        let bytes = 1_000_000;
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
        assert!((1.0..1.02).contains(&ratio), "{shape}, {router:?}: {ratio}");
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
        let transfer = Transfer { src, dst, bytes: 3_000, paced: 0, token: left, weight: 1 };
        network.start(Time::ZERO, transfer);
        left += 1;
    }
    let mut finished = Vec::new();
    while network.next_event().is_some() {
        network.advance(Time::MAX, &mut finished);
    }
    assert_eq!(finished.len() as u64, left, "{name}: {:?}", network.stalled());
}

/// Few channels and little room.
fn tight() -> Settings {
    let settings = Settings { packet: 2048, ..plain() };
    with(settings, |keys| (keys.virtual_channels, keys.buffer) = (Some(1), Some(1)))
}

/// Three switches in a ring of one-way links: each link would wait for the next. Some routes get
/// channels of their own.
#[test]
fn a_ring_of_switches_delivers_everything() {
    let ends = (0..3).flat_map(|at| [(at, 3 + at), (3 + at, at), (3 + at, 3 + (at + 1) % 3)]);
    let (fabric, links, costs) = graph(3, 6, &ends.collect::<Vec<_>>());
    let network = Flits::new(&fabric, links, (costs, true), tight()).expect("two classes");
    all_to_all(network, 3, "ring of switches");
}

/// A random connected graph of NPUs and switches, all links both ways.
fn random_graph(random: &mut Random) -> (u32, (Fabric, LinkGraph, Vec<LinkCost>)) {
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
    (npus, graph(npus, nodes, &ends))
}

/// Random connected graphs of NPUs and switches deliver everything, with every routing.
#[test]
fn random_graphs_deliver_everything() {
    let mut random = Random::new(4);
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { 1000 } else { 400u64 };
    for case in 0..cases {
        let (npus, (fabric, links, costs)) = random_graph(&mut random);
        let more = [RoutingChoice::Valiant { seed: case }, RoutingChoice::Adaptive];
        let more = &more[..if case % 4 == 0 { 2 } else { 0 }];
        for routing in [RoutingChoice::Topology, RoutingChoice::UpDown].iter().chain(more) {
            let router = match routing {
                RoutingChoice::Adaptive => routers()[0],
                _ => routers()[case as usize % 3],
            };
            let name = format!("graph {case}, {routing:?}, {router:?}");
            let settings = on(router, Settings { routing: routing.clone(), ..tight() });
            let network = Flits::new(&fabric, links.clone(), (costs.clone(), true), settings)
                .unwrap_or_else(|refusal| panic!("{name}: {refusal:?}"));
            all_to_all(network.checked(), npus, &name);
        }
    }
}

/// All to all on rings, tori, meshes and switches, with few channels and little room: nothing locks
/// up, with every routing, on single links and on links side by side. Links are short: what waits for
/// what does not depend on latency, and cycles in which flits only travel take most of the time.
#[test]
fn stacks_never_lock_up() {
    for shape in ["R(8)", "R(4)_R(4)", "R(3)_R(5)_R(2)", "M(4)_M(4)", "FC(2)_SW(3)_R(4)"] {
        for routing in [
            RoutingChoice::Topology,
            RoutingChoice::UpDown,
            RoutingChoice::Valiant { seed: 1 },
            RoutingChoice::Adaptive,
        ] {
            let mut dims = dims(shape, &mut Random::new(9));
            for dim in &mut dims {
                dim.latency.0 /= 20;
            }
            for parallel in 1..3 {
                let router = match routing {
                    RoutingChoice::Adaptive => routers()[0],
                    _ => routers()[(shape.len() + parallel as usize) % 3],
                };
                dims[0].parallel = parallel;
                let npus = dims.iter().map(|dim| dim.size).product();
                let ordered = parallel == 2
                    && matches!(routing, RoutingChoice::Topology | RoutingChoice::UpDown);
                let settings = on(router, Settings { routing: routing.clone(), ..tight() });
                let settings = with(settings, |keys| keys.ordered = ordered);
                let network = stack(&dims, Routing::Lowest, settings);
                all_to_all(network, npus, &format!("{shape}, {routing:?}, {parallel}, {router:?}"));
            }
        }
    }
}

/// A ring with a single class is refused, and its channels are named; if it is built all the same, it
/// locks up, and the report names channels that wait for one another.
#[test]
fn a_ring_without_datelines_locks_up() {
    let dims = dims("R(8)", &mut Random::new(9));
    let fabric = Fabric::Stacked(dims.clone());
    let links = LinkGraph::new(&fabric).expect("a ring");
    let costs: Vec<LinkCost> = dims.iter().map(|dim| exact(dim.bandwidth, dim.latency)).collect();
    let one = with(tight(), |keys| keys.classes = Some(1));
    let refused = Flits::new(&fabric, links.clone(), (costs.clone(), false), one.clone()).err();
    let Some(Refusal::Circle(hops)) = refused else { panic!("{refused:?}") };
    assert_eq!(hops.len(), 8);
    for (at, hop) in hops.iter().enumerate() {
        let next = hops[(at + 1) % 8];
        assert_eq!(links.link(hop.link).to, links.link(next.link).from);
    }
    for router in routers() {
        let allowed = with(one.clone(), |keys| keys.deadlock = Deadlock::Allow);
        let settings = on(router, allowed);
        let network = Flits::new(&fabric, links.clone(), (costs.clone(), false), settings);
        lock_up(network.expect("overruled").checked());
    }
}

/// All of a ring of 8 send up to 3 places ahead until nothing moves: all links wait.
fn lock_up(mut network: Flits) {
    for (src, distance) in (0..8).flat_map(|src| (1..4).map(move |distance| (src, distance))) {
        let dst = (src + distance) % 8;
        let transfer =
            Transfer { src, dst, bytes: 100_000, paced: 0, token: src.into(), weight: 1 };
        network.start(Time::ZERO, transfer);
    }
    let mut finished = Vec::new();
    while network.next_event().is_some() {
        network.advance(Time::MAX, &mut finished);
    }
    let stuck = network.stalled().expect("a deadlock");
    assert!(finished.len() < 24 && stuck.transfers as usize == 24 - finished.len());
    assert_eq!(stuck.cycle.len(), 8, "{stuck:?}");
    for (at, port) in stuck.cycle.iter().enumerate() {
        assert_eq!(port.to, stuck.cycle[(at + 1) % 8].from);
    }
}

/// A message has the packets of its outermost dimension: it takes what it takes where all have them.
#[test]
fn packets_differ_by_dimension() {
    let shape: Topology = "FC(3)_FC(3)".parse().expect("a shape");
    let (bandwidth, latency) = (Bandwidth(64_000_000_000), Span::from_ns(20));
    let dim = |&(block, size): &(Block, u32)| Dim { block, size, bandwidth, latency, parallel: 1 };
    let dims: Vec<Dim> = shape.dims.iter().map(dim).collect();
    let links = LinkGraph::new(&Fabric::Stacked(dims.clone())).expect("a network");
    let kinds: Vec<u16> = (0..links.len()).map(|link| links.dim(link) as u16).collect();
    // One channel holds one packet at a time, so that small packets take longer.
    let one = with(Settings::default(), |keys| {
        (keys.virtual_channels, keys.buffer) = (Some(1), Some(64));
    });
    let run = |settings: Settings, dst: u32| {
        let mut network = stack(&dims, Routing::Auto, settings);
        let bytes = 8192;
        network.start(Time(0), Transfer { src: 0, dst, bytes, paced: bytes, token: 0, weight: 1 });
        let mut finished = Vec::new();
        while let Some(next) = network.next_event() {
            network.advance(next, &mut finished);
        }
        let packets = network.usage(Time::MAX).flits.expect("flits").packets;
        (finished[0].time, packets)
    };
    let packets = PacketsByKind { each: vec![1024, 512], kinds };
    let both = Settings { packet: 1024, packets: Some(packets), ..one.clone() };
    for (dst, packet, packets) in [(1, 1024, 8), (3, 512, 16), (4, 512, 16)] {
        let found = run(both.clone(), dst);
        assert_eq!(found, run(Settings { packet, ..one.clone() }, dst), "to {dst}");
        assert_eq!(found.1, packets, "to {dst}");
    }
    assert!(run(both.clone(), 1).0 < run(both, 3).0, "a channel waits for credits between packets");
}

/// How long a permutation takes on a square torus or mesh, each NPU to `dst`.
fn permuted(shape: &str, routing: &RoutingChoice, dst: impl Fn(u32) -> u32) -> Span {
    let shape: Topology = shape.parse().expect("a shape");
    let (bandwidth, latency) = (Bandwidth(64_000_000_000), Span::from_ns(2));
    let dim = |&(block, size): &(Block, u32)| Dim { block, size, bandwidth, latency, parallel: 1 };
    let dims: Vec<Dim> = shape.dims.iter().map(dim).collect();
    let settings = Settings { routing: routing.clone(), packet: 256, ..Settings::default() };
    let settings =
        with(settings, |keys| (keys.virtual_channels, keys.buffer) = (Some(16), Some(8)));
    let mut network = stack(&dims, Routing::Lowest, settings);
    for src in 0..dims.iter().map(|dim| dim.size).product() {
        if dst(src) != src {
            let (token, bytes) = (src.into(), 64_000);
            let transfer = Transfer { src, dst: dst(src), bytes, paced: 0, token, weight: 1 };
            network.start(Time::ZERO, transfer);
        }
    }
    let (mut finished, mut last) = (Vec::new(), Time::ZERO);
    while network.next_event().is_some() {
        network.advance(Time::MAX, &mut finished);
        last = finished.drain(..).map(|delivery| delivery.time).fold(last, Time::max);
    }
    assert!(network.stalled().is_none());
    Span(last.0)
}

/// Tornado: everyone in a ring of k sends k/2 - 1 places ahead. Minimal routes load the links of one
/// way only. On a ring of 9, 4 places ahead, that is 4 messages a link. Over nodes at random each half
/// is 20/9 links long and uses both ways, so a link carries 20/9 messages (Dally and Towles,
/// "Principles and Practices of Interconnection Networks", section 9.2).
#[test]
fn valiant_beats_minimal_routes_on_tornado_traffic() {
    let ahead = |src| (src + 4) % 9;
    let minimal = permuted("R(9)", &RoutingChoice::Topology, ahead);
    let valiant = permuted("R(9)", &RoutingChoice::Valiant { seed: 1 }, ahead);
    // Messages of 1,000 flits.
    assert!(minimal.0 >= 4_000_000 && valiant.0 >= 2_222_000, "{minimal} {valiant}");
    let gain = minimal.0 as f64 / valiant.0 as f64;
    assert!(gain > 1.2, "{gain}");
}

/// Transpose on a mesh: in dimension order the messages of a row all turn at one corner, so the
/// busiest link carries k - 1 of them; minimal adaptive routes spread them (Dally and Towles,
/// section 10.2; Glass and Ni, "The Turn Model for Adaptive Routing", ISCA 1992, Fig. 13).
#[test]
fn adaptive_routes_beat_the_order_of_dimensions_on_transpose_traffic() {
    let transposed = |src| src % 8 * 8 + src / 8;
    let ordered = permuted("M(8)_M(8)", &RoutingChoice::Topology, transposed);
    let adaptive = permuted("M(8)_M(8)", &RoutingChoice::Adaptive, transposed);
    // 1,000 flits of each of 7 messages cross the busiest link.
    assert!(ordered.0 >= 7_000_000, "{ordered}");
    let gain = ordered.0 as f64 / adaptive.0 as f64;
    assert!(gain > 1.3, "{gain}");
    println!("adaptive gains {gain}");
}

/// Parallel links carry a message together, each with channels of its own.
#[test]
fn links_side_by_side_share_a_message() {
    let time = |parallel: u32, bandwidth: u64| {
        let (bandwidth, latency) = (Bandwidth(bandwidth), Span::from_ns(20));
        let dims = [Dim { block: Block::FullyConnected, size: 2, bandwidth, latency, parallel }];
        let settings = with(Settings::default(), |keys| keys.virtual_channels = Some(8));
        let mut network = stack(&dims, Routing::Lowest, settings);
        let transfer = Transfer { src: 0, dst: 1, bytes: 1 << 22, paced: 0, token: 0, weight: 1 };
        network.start(Time::ZERO, transfer);
        let mut finished = Vec::new();
        while finished.is_empty() {
            network.advance(Time::MAX, &mut finished);
        }
        assert_eq!(network.usage(Time::MAX).links[0].bytes, 1 << 22);
        finished[0].time.0 as f64
    };
    // Four links of 64 GB/s are four times one, within the latency of a packet.
    let gain = time(1, 64_000_000_000) / time(4, 256_000_000_000);
    assert!((3.9..4.0).contains(&gain), "{gain}");
}

/// On a concentrated mesh the lowest next hop goes down in y first, then along x, then up in y: of the
/// turns from x to y only those up are taken, so a single class has no circle (the turn model: Glass
/// and Ni, ISCA 1992). Nor has it in the order of dimensions. Rings need more. Every routing delivers
/// all.
#[test]
fn concentrated_meshes_never_lock_up() {
    use topology::generate::{Values, Wire, generate, generator};
    let (bandwidth, latency) = (Bandwidth(50_000_000_000), Span::from_ns(20));
    for name in ["concentrated_mesh", "concentrated_torus"] {
        let mut values = Values::default();
        values.set("npus_per_router", vec![2]);
        values.set("sizes", vec![5, 3]);
        let wires = vec![Wire { bandwidth, latency }; 3];
        let made = generate(generator(name).expect("known"), values, wires).expect("a fabric");
        let costs = vec![exact(bandwidth, latency); made.links.len()];
        let fabric = Fabric::Graph(made);
        let links = LinkGraph::new(&fabric).expect("connected").with_routing(Routing::Lowest);
        let one = with(tight(), |keys| keys.classes = Some(1));
        let lowest = Flits::new(&fabric, links.clone(), (costs.clone(), true), one);
        assert_eq!(lowest.is_ok(), name == "concentrated_mesh");
        let one = with(tight(), |keys| keys.classes = Some(1));
        let one = Settings { routing: RoutingChoice::DimensionOrder, ..one };
        let ordered = Flits::new(&fabric, links.clone(), (costs.clone(), true), one);
        assert_eq!(ordered.is_ok(), name == "concentrated_mesh");
        for routing in [
            RoutingChoice::Topology,
            RoutingChoice::DimensionOrder,
            RoutingChoice::UpDown,
            RoutingChoice::Valiant { seed: 1 },
            RoutingChoice::Adaptive,
        ] {
            let settings = Settings { routing: routing.clone(), ..tight() };
            let network = Flits::new(&fabric, links.clone(), (costs.clone(), true), settings);
            all_to_all(network.expect("no circle").checked(), 30, &format!("{name}, {routing:?}"));
        }
    }
}

/// Deliveries of random transfers, and what the network reports, on so many threads.
fn on_threads(
    dims: &[Dim],
    routing: &RoutingChoice,
    threads: u32,
) -> (Vec<(u64, Time)>, network::Usage) {
    let fabric = Fabric::Stacked(dims.to_vec());
    let links = LinkGraph::new(&fabric).expect("a network");
    let costs = dims.iter().map(|dim| exact(dim.bandwidth, dim.latency)).collect();
    let settings = Settings { routing: routing.clone(), ..plain() };
    let settings = with(settings, |keys| keys.threads = Some(threads));
    let mut network = Flits::new(&fabric, links, (costs, false), settings).expect("no circle");
    let mut random = Random::new(8);
    let (mut deliveries, mut found) = (Vec::new(), Vec::new());
    for (token, (now, transfer)) in (0..).zip(traffic(fabric.npus(), &mut random)) {
        while network.next_event().is_some_and(|next| next < now) {
            network.advance(Time(now.0 - 1), &mut deliveries);
        }
        network.start(now, Transfer { token, ..transfer });
    }
    while let Some(next) = network.next_event() {
        network.advance(next, &mut deliveries);
    }
    found.extend(deliveries.iter().map(|delivery| (delivery.token, delivery.time)));
    (found, network.usage(Time::MAX))
}

/// The same to the byte on one thread and on several.
#[test]
fn threads_change_nothing() {
    let mut random = Random::new(2);
    for (shape, threads, routing) in
        [("R(4)_R(4)", 2, RoutingChoice::Adaptive), ("M(5)_SW(3)", 3, RoutingChoice::Topology)]
    {
        let dims = dims(shape, &mut random);
        let one = on_threads(&dims, &routing, 1);
        assert_eq!(one.0.len(), 40);
        let several = on_threads(&dims, &routing, threads);
        assert!(one.0 == several.0, "{shape} {routing:?} {threads}: other deliveries");
        assert!(one.1 == several.1, "{shape} {routing:?} {threads}: other usage");
    }
}
