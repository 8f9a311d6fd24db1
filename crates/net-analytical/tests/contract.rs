//! Both backends keep the contract of `network` on random traffic over random shapes, and take the
//! time of their equation alone.
//!
//! Bound of one message alone: the latencies of its hops, and `bytes / bandwidth` of the slowest
//! link, or of every link where nodes store messages. Hops are counted by the topology.

use net_analytical::{Analytical, Crossing, LinkQueues, Ports, Switching};
use network::{Backend, LinkCost, Transfer, conformance};
use topology::{Dim, Fabric, GraphFabric, GraphLink, LinkGraph, Topology};
use units::{Bandwidth, Span, Time};

/// A small generator of our own (Steele, Lea, Flood 2014, SplitMix64): the cases are the same on
/// every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }
}

const SHAPES: [&str; 8] = [
    "R(2)",
    "R(7)",
    "FC(6)",
    "SW(5)",
    "R(4)_R(4)",
    "R(3)_FC(4)_SW(2)",
    "SW(4)_R(5)",
    "FC(3)_FC(3)",
];

fn dims(shape: &str, random: &mut Random) -> Vec<Dim> {
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

fn cost(dim: &Dim) -> LinkCost {
    LinkCost::Exact { bandwidth: dim.bandwidth, latency: dim.latency }
}

fn analytical(dims: &[Dim], ports: Ports) -> Analytical {
    let axes: Vec<_> = dims.iter().map(|d| (d.block, d.size, cost(d))).collect();
    Analytical::stacked(&axes, Crossing::Every, ports)
}

fn links(fabric: &Fabric) -> LinkGraph {
    LinkGraph::new(fabric).expect("a connected network")
}

/// Transfers in bursts, so that many start at one instant and many meet.
fn traffic(npus: u32, random: &mut Random) -> Vec<(Time, Transfer)> {
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

/// Hops from `src` to `dst` along each dimension.
fn hops(graph: &LinkGraph, dims: usize, src: u32, dst: u32) -> Vec<u64> {
    let mut hops = vec![0; dims];
    graph.route(src, dst).for_each(|hop| hops[hop.dim as usize] += 1);
    hops
}

#[test]
fn stacks_keep_the_contract() {
    let mut random = Random(1);
    for shape in SHAPES.into_iter().cycle().take(64) {
        let dims = dims(shape, &mut random);
        let fabric = Fabric::Stacked(dims.clone());
        let (graph, transfers) = (links(&fabric), traffic(fabric.npus(), &mut random));
        let alone = |transfer: &Transfer, stores: bool| -> Span {
            let crossed = || dims.iter().zip(hops(&graph, dims.len(), transfer.src, transfer.dst));
            let busy = |dim: &Dim| dim.bandwidth.span(units::Bytes(transfer.bytes));
            let latency: Span = crossed().map(|(dim, hops)| dim.latency * hops).sum();
            let each = crossed().filter(|&(_, hops)| hops > 0);
            if stores {
                return latency + each.map(|(dim, hops)| busy(dim) * hops).sum::<Span>();
            }
            latency + each.map(|(dim, _)| busy(dim)).max().unwrap_or_default()
        };
        for ports in [Ports::OneAtATime, Ports::Unlimited] {
            let result =
                conformance::check(|| analytical(&dims, ports), &transfers, |_, t| alone(t, false));
            assert_eq!(result, Ok(()), "analytical, {ports:?}, on {shape}");
        }
        for switching in [Switching::CutThrough, Switching::StoreAndForward] {
            let stores = switching == Switching::StoreAndForward;
            let queues = || {
                LinkQueues::new(links(&fabric), dims.iter().map(cost).collect(), false)
                    .with_switching(switching)
            };
            let result = conformance::check(queues, &transfers, |_, t| alone(t, stores));
            assert_eq!(result, Ok(()), "link queues, {switching:?}, on {shape}");
        }
    }
}

/// A tree of two switches with four NPUs, and a shortcut.
fn tree(random: &mut Random) -> GraphFabric {
    let ends = [(0, 4), (1, 4), (2, 5), (3, 5), (4, 5), (1, 2)];
    let both = ends.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]);
    let link = |(from, to)| {
        let (bandwidth, latency) =
            (Bandwidth(1_000_000_000 + random.below(1 << 38)), Span(random.below(2_000_000)));
        GraphLink { from, to, bandwidth, latency, kind: 0 }
    };
    GraphFabric {
        npus: 4,
        nodes: (0..6).map(|n| topology::GraphNode::npu(format!("n{n}"))).collect(),
        links: both.map(link).collect(),
        ..GraphFabric::default()
    }
}

#[test]
fn graphs_keep_the_contract() {
    let mut random = Random(2);
    for _ in 0..16 {
        let fabric = Fabric::Graph(tree(&mut random));
        let transfers = traffic(4, &mut random);
        let Fabric::Graph(GraphFabric { links: list, .. }) = &fabric else {
            unreachable!("it was just made")
        };
        let costs: Vec<LinkCost> = list
            .iter()
            .map(|l| LinkCost::Exact { bandwidth: l.bandwidth, latency: l.latency })
            .collect();
        let route = |t: &Transfer| {
            links(&fabric).route(t.src, t.dst).map(|hop| hop.link as usize).collect::<Vec<_>>()
        };
        let busy = |t: &Transfer, link: usize| list[link].bandwidth.span(units::Bytes(t.bytes));
        let slowest = |t: &Transfer| -> Span {
            let latency: Span = route(t).into_iter().map(|l| list[l].latency).sum();
            latency + route(t).into_iter().map(|l| busy(t, l)).max().unwrap_or_default()
        };
        let make = || Analytical::graph(links(&fabric), costs.clone());
        assert_eq!(conformance::check(make, &transfers, |_, t| slowest(t)), Ok(()), "analytical");
        let every = |_: &LinkQueues, t: &Transfer| {
            route(t).into_iter().map(|l| list[l].latency + busy(t, l)).sum()
        };
        let stores = || {
            LinkQueues::new(links(&fabric), costs.clone(), true)
                .with_switching(Switching::StoreAndForward)
        };
        assert_eq!(conformance::check(stores, &transfers, every), Ok(()), "stored whole");
        let make = || LinkQueues::new(links(&fabric), costs.clone(), true);
        assert_eq!(conformance::check(make, &transfers, |_, t| slowest(t)), Ok(()), "link queues");
    }
}

/// Where every transfer has a link of its own, link queues know their times, too.
#[test]
fn private_links_keep_the_contract() {
    let mut random = Random(5);
    for shape in ["FC(6)", "FC(3)", "R(2)"] {
        let dims = dims(shape, &mut random);
        let fabric = Fabric::Stacked(dims.clone());
        let transfers = traffic(fabric.npus(), &mut random);
        let make = || {
            let graph = links(&fabric);
            let private = vec![true; graph.len() as usize];
            let mut queues = LinkQueues::new(graph, dims.iter().map(cost).collect(), false);
            let form = queues.closed_form_mut().expect("link queues have a closed form");
            form.set_private_links(private);
            assert!(form.uncontended(0, 1, 1).is_some(), "NPU 0 has a link to NPU 1");
            queues
        };
        let one = |_: &LinkQueues, t: &Transfer| cost(&dims[0]).transit(1, t.bytes);
        assert_eq!(conformance::check(make, &transfers, one), Ok(()), "{shape}");
    }
}

/// The suite finds a backend that delivers too early, or it would prove nothing.
#[test]
fn the_suite_can_fail() {
    let mut random = Random(3);
    let dims = dims("R(7)", &mut random);
    let transfers = traffic(7, &mut random);
    let halved = |_: &Analytical, _: &Transfer| Span(1);
    let found = conformance::check(|| analytical(&dims, Ports::Unlimited), &transfers, halved);
    assert!(found.is_err_and(|why| why.contains("bound")), "a bound of 1 ps was kept");
}
