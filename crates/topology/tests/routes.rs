//! Links and routes against the textbook formulas of each shape.

use proptest::prelude::*;
use topology::{
    Block, Dim, Fabric, GraphFabric, GraphLink, GraphNode, LinkError, LinkGraph, Routing,
    SprayTurns, Topology, coordinates, rank,
};
use units::{Bandwidth, Span};

fn stacked(notation: &str) -> Fabric {
    let shape: Topology = notation.parse().unwrap();
    let dim = |(i, &(block, size)): (usize, &(Block, u32))| Dim {
        block,
        size,
        bandwidth: Bandwidth(1_000 + i as u64),
        latency: Span(10 + i as u64),
        parallel: 1,
    };
    Fabric::Stacked(shape.dims.iter().enumerate().map(dim).collect())
}

fn all_hops(fabric: &Fabric) -> Vec<u32> {
    let links = LinkGraph::new(fabric).unwrap();
    let n = links.npus();
    (0..n)
        .flat_map(|a| (0..n).filter(move |&b| b != a).map(move |b| (a, b)))
        .map(|(a, b)| links.hops(a, b))
        .collect()
}

#[test]
fn a_ring_has_its_diameter_links_and_mean() {
    for n in 2..20u32 {
        let fabric = stacked(&format!("Ring({n})"));
        let links = LinkGraph::new(&fabric).unwrap();
        assert_eq!(links.len(), if n == 2 { 2 } else { 2 * n });
        let hops = all_hops(&fabric);
        assert_eq!(*hops.iter().max().unwrap(), n / 2);
        // Sum of shortest distances from one node of a cycle: floor(n^2 / 4).
        assert_eq!(hops.iter().sum::<u32>(), n * (n * n / 4));
    }
}

#[test]
fn fully_connected_and_switch_have_their_counts() {
    for n in 2..12u32 {
        let full = stacked(&format!("FC({n})"));
        assert_eq!(LinkGraph::new(&full).unwrap().len(), n * (n - 1));
        assert!(all_hops(&full).iter().all(|&h| h == 1));
        let switch = stacked(&format!("SW({n})"));
        let links = LinkGraph::new(&switch).unwrap();
        assert_eq!((links.len(), links.nodes()), (2 * n, n + 1));
        assert!(all_hops(&switch).iter().all(|&h| h == 2));
    }
}

#[test]
fn a_mesh_has_its_diameter_links_and_mean() {
    for n in 2..20u32 {
        let fabric = stacked(&format!("Mesh({n})"));
        assert_eq!(LinkGraph::new(&fabric).unwrap().len(), 2 * (n - 1));
        let hops = all_hops(&fabric);
        assert_eq!(*hops.iter().max().unwrap(), n - 1);
        // Sum of distances over ordered pairs of a path: n (n^2 - 1) / 3 (its Wiener index twice).
        assert_eq!(hops.iter().sum::<u32>(), n * (n * n - 1) / 3);
    }
    // A k x k mesh has 4 k (k - 1) one-way links and a diameter of 2 (k - 1).
    let square = stacked("M(5)_M(5)");
    assert_eq!(LinkGraph::new(&square).unwrap().len(), 80);
    assert_eq!(*all_hops(&square).iter().max().unwrap(), 8);
}

#[test]
fn a_torus_has_its_diameter_and_mean() {
    // Each of three even rings adds a mean of n/4 over all pairs, the pair with itself included.
    let fabric = stacked("R(4)_R(4)_R(4)");
    let hops = all_hops(&fabric);
    assert_eq!(*hops.iter().max().unwrap(), 6);
    assert_eq!(hops.iter().sum::<u32>(), 64 * 64 * 3);
    assert_eq!(LinkGraph::new(&fabric).unwrap().len(), 64 * 6);
}

#[test]
fn ties_on_a_ring_go_up() {
    let links = LinkGraph::new(&stacked("R(4)")).unwrap();
    assert_eq!(links.route(0, 2).map(|h| h.to).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(links.route(3, 1).map(|h| h.to).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(links.route(0, 3).map(|h| h.to).collect::<Vec<_>>(), [3]);
}

#[test]
fn a_stack_crosses_dimensions_in_order() {
    let links = LinkGraph::new(&stacked("R(2)_SW(3)_FC(4)")).unwrap();
    assert_eq!(
        links.route(0, 1 + 2 * (2 + 3 * 3)).map(|h| h.dim).collect::<Vec<_>>(),
        [0, 1, 1, 2]
    );
    // One switch for each of the 2 * 4 instances of the second dimension.
    assert_eq!(links.nodes(), 24 + 8);
}

#[test]
fn a_dimension_of_one_adds_nothing() {
    let links = LinkGraph::new(&stacked("SW(1)_R(1)_R(3)_FC(1)")).unwrap();
    assert_eq!((links.len(), links.nodes()), (6, 3));
    assert_eq!(links.dim(0), 2);
    assert_eq!(links.route(0, 2).count(), 1);
}

#[test]
fn a_million_npus_cost_nothing_to_describe() {
    let links = LinkGraph::new(&stacked("R(100)_R(100)_R(100)")).unwrap();
    assert_eq!(links.len(), 6_000_000);
    assert_eq!(links.hops(0, 50 + 100 * (50 + 100 * 50)), 150);
    assert_eq!(LinkGraph::new(&stacked("FC(100000)")).unwrap_err(), LinkError::TooLarge);
}

fn graph(npus: u32, nodes: u32, links: &[(u32, u32, u64)]) -> GraphFabric {
    let link = |&(from, to, latency): &(u32, u32, u64)| GraphLink {
        from,
        to,
        bandwidth: Bandwidth(1),
        latency: Span(latency),
        kind: 0,
    };
    GraphFabric {
        npus,
        nodes: nodes_named(nodes),
        links: links.iter().map(link).collect(),
        ..GraphFabric::default()
    }
}

fn nodes_named(count: u32) -> Vec<GraphNode> {
    (0..count).map(|n| GraphNode::npu(format!("n{n}"))).collect()
}

#[test]
fn a_graph_takes_fewest_links_then_least_latency_then_lowest() {
    // 0 reaches 1 by way of 2, 3 or 4 (two links each), or 5 and 6 (three fast ones).
    let down = [(2, 1, 5), (3, 1, 1), (4, 1, 1)];
    let up =
        [(0, 2, 1), (0, 3, 5), (0, 4, 3), (0, 5, 0), (5, 6, 0), (6, 1, 0), (1, 0, 9), (1, 0, 9)];
    let all: Vec<_> = down.into_iter().chain(up).collect();
    let links = LinkGraph::new(&Fabric::Graph(graph(2, 7, &all))).unwrap();
    assert_eq!(links.route(0, 1).map(|h| h.to).collect::<Vec<_>>(), [4, 1]);
    assert_eq!(links.route(1, 0).map(|h| h.link).collect::<Vec<_>>(), [9]);
    let even = [(0, 3, 1), (3, 1, 1), (0, 2, 1), (2, 1, 1), (1, 0, 1)];
    let links = LinkGraph::new(&Fabric::Graph(graph(2, 4, &even))).unwrap();
    assert_eq!(links.route(0, 1).map(|h| h.to).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn a_broken_graph_is_refused() {
    assert_eq!(graph(2, 2, &[(0, 1, 0)]).check(), Err(LinkError::Unreachable { from: 1, to: 0 }));
    assert_eq!(graph(2, 2, &[(1, 0, 0)]).check(), Err(LinkError::Unreachable { from: 0, to: 1 }));
    assert_eq!(graph(2, 2, &[(0, 1, 0), (1, 1, 0)]).check(), Err(LinkError::BadEnds { link: 1 }));
    assert_eq!(graph(2, 2, &[(0, 7, 0)]).check(), Err(LinkError::BadEnds { link: 0 }));
    assert_eq!(graph(1, 1, &[]).check(), Ok(()));
}

/// All routes from `src` to `dst` that the next hops allow, as the nodes they pass.
fn all_routes(links: &LinkGraph, src: u32, dst: u32) -> Vec<Vec<u32>> {
    if src == dst {
        return vec![vec![dst]];
    }
    let through = |hop: topology::Hop| all_routes(links, hop.to, dst);
    let mut found: Vec<Vec<u32>> = links.choices(src, dst).into_iter().flat_map(through).collect();
    found.iter_mut().for_each(|route| route.insert(0, src));
    found
}

#[test]
fn opposite_npus_of_an_even_ring_have_two_routes() {
    let links = LinkGraph::new(&stacked("R(6)_R(3)")).unwrap();
    assert_eq!(all_routes(&links, 0, 3), [vec![0, 1, 2, 3], vec![0, 5, 4, 3]]);
    assert_eq!(all_routes(&links, 0, 2).len(), 1);
    assert_eq!(all_routes(&links, 0, 3 + 6).len(), 2);
}

/// Two leaves of four NPUs and three spines; two cables from each leaf to the last spine.
fn leaf_spine() -> LinkGraph {
    let both = |a: u32, b: u32| [(a, b, 1), (b, a, 1)];
    let up = (0..8).flat_map(|npu| both(npu, 8 + npu / 4));
    let spines = [10, 11, 12, 12].into_iter().flat_map(|s| (8..10).flat_map(move |l| both(l, s)));
    let all: Vec<_> = up.chain(spines).collect();
    LinkGraph::new(&Fabric::Graph(graph(8, 13, &all))).unwrap()
}

fn spines_taken(routing: Routing, pairs: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let links = leaf_spine().with_routing(routing);
    let mut turns = SprayTurns::default();
    let spine = |&(src, dst): &(u32, u32)| {
        let (mut at, mut key, mut route) = (src, routing.key(src, dst), Vec::new());
        while let Some(hop) = links.take(at, dst, &mut key, &mut turns) {
            at = hop.to;
            route.push(hop);
        }
        assert_eq!(at, dst);
        (route[1].to, route[1].link)
    };
    pairs.iter().map(spine).collect()
}

#[test]
fn each_policy_chooses_as_it_says() {
    let to_all: Vec<(u32, u32)> = (4..8).map(|dst| (0, dst)).collect();
    let count = |found: Vec<(u32, u32)>| {
        let mut found = found;
        found.sort_unstable();
        found.dedup();
        found.len()
    };
    // Four ways from leaf to leaf: three spines, one of them by two cables.
    assert_eq!(
        leaf_spine().choices(8, 5).iter().map(|h| h.to).collect::<Vec<_>>(),
        [10, 11, 12, 12]
    );
    assert_eq!(count(spines_taken(Routing::Lowest, &to_all)), 1);
    assert_eq!(count(spines_taken(Routing::DModK, &to_all)), 4);
    // The same pair: one way by hash, all four in turn by spray.
    let same = [(0, 5); 8];
    assert_eq!(count(spines_taken(Routing::Hash { seed: 3 }, &same)), 1);
    assert_eq!(count(spines_taken(Routing::Spray, &same)), 4);
    // Of 16 pairs some hash differently, and another seed gives another choice.
    let pairs: Vec<(u32, u32)> = (0..4).flat_map(|a| (4..8).map(move |b| (a, b))).collect();
    let hashed = |seed| spines_taken(Routing::Hash { seed }, &pairs);
    assert!(count(hashed(1)) > 1);
    assert_ne!(hashed(1), hashed(2));
}

#[test]
fn the_least_cost_of_sprayed_routes_is_that_of_the_best() {
    // Two ways of two links: by node 2 the links cost 5 and 1, by node 3 they cost 2 and 3.
    let all = [(0, 2, 1), (2, 1, 1), (0, 3, 1), (3, 1, 1), (1, 0, 1)];
    let links = LinkGraph::new(&Fabric::Graph(graph(2, 4, &all))).unwrap();
    let cost = |hop: topology::Hop| Span([5, 1, 2, 3, 9][hop.link as usize]);
    assert_eq!(links.least(0, 1, cost), Span(6));
    assert_eq!(links.with_routing(Routing::Spray).least(0, 1, cost), Span(5));
}

fn shapes() -> impl Strategy<Value = Fabric> {
    prop::collection::vec((0..Block::ALL.len(), 1u32..6), 1..5).prop_map(|dims| {
        let parts: Vec<String> =
            dims.iter().map(|&(b, n)| format!("{}({n})", Block::ALL[b].name())).collect();
        stacked(&parts.join("_"))
    })
}

/// The same links as an explicit graph.
fn as_graph(links: &LinkGraph) -> Fabric {
    let list = (0..links.len()).map(|id| links.link(id));
    let copy = |l: topology::Link| GraphLink {
        from: l.from,
        to: l.to,
        bandwidth: l.bandwidth,
        latency: Span(1),
        kind: 0,
    };
    let nodes = nodes_named(links.nodes());
    let links_of = list.map(copy).collect();
    Fabric::Graph(GraphFabric { npus: links.npus(), nodes, links: links_of, ..Default::default() })
}

proptest! {
    #[test]
    fn coordinates_and_ranks_are_inverse(sizes in prop::collection::vec(1u32..9, 1..6), pick in any::<u32>()) {
        let at = pick % sizes.iter().product::<u32>();
        prop_assert_eq!(rank(&coordinates(at, &sizes), &sizes), at);
    }

    #[test]
    fn every_route_is_connected_and_as_long_as_its_hops(fabric in shapes(), a in any::<u32>(), b in any::<u32>()) {
        let links = LinkGraph::new(&fabric).unwrap();
        let (a, b) = (a % links.npus(), b % links.npus());
        let (from, to) = (coordinates(a, &fabric.sizes()), coordinates(b, &fabric.sizes()));
        let expected: u32 = fabric.dims().iter().zip(from.iter().zip(&to)).map(|(d, (&x, &y))| d.block.hops(d.size, x, y)).sum();
        let mut at = a;
        let mut count = 0;
        for hop in links.route(a, b) {
            let link = links.link(hop.link);
            prop_assert_eq!((link.from, link.to, link.dim), (at, hop.to, hop.dim));
            prop_assert_eq!(links.dim(hop.link), hop.dim);
            prop_assert_eq!(link.latency, fabric.dims()[hop.dim as usize].latency);
            at = hop.to;
            count += 1;
        }
        prop_assert_eq!((at, count), (b, expected));
        prop_assert_eq!(links.hops(a, b), expected);
    }

    #[test]
    fn links_are_dense_and_distinct(fabric in shapes()) {
        let links = LinkGraph::new(&fabric).unwrap();
        let mut seen: Vec<_> = (0..links.len()).map(|id| links.link(id)).map(|l| (l.from, l.to, l.dim)).collect();
        prop_assert!(seen.iter().all(|l| l.0 < links.nodes() && l.1 < links.nodes() && l.0 != l.1));
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen.len() as u32, links.len());
    }

    #[test]
    fn no_stack_route_is_longer_than_the_shortest(fabric in shapes(), a in any::<u32>(), b in any::<u32>()) {
        let links = LinkGraph::new(&fabric).unwrap();
        let free = LinkGraph::new(&as_graph(&links)).unwrap();
        let (a, b) = (a % links.npus(), b % links.npus());
        prop_assert_eq!(links.hops(a, b), free.hops(a, b));
    }
}
