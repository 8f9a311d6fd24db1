//! Trees find routes by formula, and turn onto themselves.

use crate::common::{draw, make};
use topology::generate::Values;
use topology::{Fabric, GraphFabric, LinkGraph, Routing, Splitter};

const ROUTINGS: [Routing; 3] = [Routing::Lowest, Routing::DModK, Routing::Spray];

/// Trees of one to three tiers, narrow and wide, with parallel cables and planes.
fn trees() -> Vec<GraphFabric> {
    let clos: [[&[u32]; 4]; 7] = [
        [&[5], &[], &[3], &[1]],
        [&[4, 6], &[2], &[1], &[1]],
        [&[2, 3], &[2], &[1, 2], &[2]],
        [&[3, 2, 4], &[2, 2], &[1, 1, 2], &[1]],
        [&[4, 2, 6], &[2, 4], &[1], &[1]],
        [&[1, 4, 3], &[1, 2], &[1], &[2]],
        [&[4, 1, 2], &[3, 1], &[2], &[1]],
    ];
    let clos = clos.into_iter().map(|[down, up, cables, planes]| {
        let mut values = Values::default();
        let keys = ["down", "up", "cables", "planes"];
        keys.iter().zip([down, up, cables, planes]).for_each(|(k, v)| values.set(k, v.to_vec()));
        draw("clos", &values)
    });
    let leaf_spine =
        [("npus_per_leaf", &[4][..]), ("leaves", &[6]), ("spines", &[2]), ("cables", &[2])];
    clos.chain([make("leaf_spine", &leaf_spine), make("fat_tree", &[("radix", &[4])])]).collect()
}

/// A search over the links alone, which knows no generator, finds the same next hops.
#[test]
fn next_hops_are_those_of_a_search() {
    for fabric in trees() {
        let plain = GraphFabric { recipe: None, ..fabric.clone() };
        let [quick, slow] = [fabric, plain].map(|f| LinkGraph::new(&Fabric::Graph(f)).unwrap());
        for (node, dst) in (0..quick.nodes()).flat_map(|n| (0..quick.npus()).map(move |d| (n, d))) {
            assert_eq!(quick.choices(node, dst), slow.choices(node, dst), "{node} to {dst}");
        }
    }
}

/// Turned by its NPUs, every route goes over links that are turned as well, and no link comes back
/// to itself before the whole fabric does.
#[test]
fn turns_take_routes_to_routes() {
    let mut turned = 0;
    for (fabric, routing) in trees().into_iter().flat_map(|f| ROUTINGS.map(|r| (f.clone(), r))) {
        let npus = fabric.npus;
        let links = LinkGraph::new(&Fabric::Graph(fabric)).unwrap().with_routing(routing);
        let Some(turn) = links.rotation() else { continue };
        turned += 1;
        assert!(turn.npus < npus && npus.is_multiple_of(turn.npus));
        let mut splitter = Splitter::default();
        let mut lowest = |src: u32, dst: u32| -> Vec<(u32, u64)> {
            splitter.find(&links, (src, dst), u64::MAX);
            let parts = splitter.found.iter().map(|part| (turn.lowest(part.link), part.parts));
            let mut parts: Vec<_> = parts.collect();
            parts.sort_unstable();
            parts
        };
        for (src, dst) in (0..npus).flat_map(|s| (0..npus).map(move |d| (s, d))) {
            let on = |npu: u32| (npu + turn.npus) % npus;
            assert_eq!(lowest(src, dst), lowest(on(src), on(dst)), "{src} to {dst}, {routing}");
            for (a, b) in links.route(src, dst).zip(links.route(on(src), on(dst))) {
                assert_ne!(a.link, b.link);
            }
        }
        let mut orbit = vec![0; links.len() as usize];
        (0..links.len()).for_each(|link| orbit[turn.lowest(link) as usize] += 1);
        assert!(orbit.iter().all(|&size| size == 0 || size == npus / turn.npus));
    }
    assert!(turned > 12, "only {turned} turns");
}

/// Hashes follow no turn.
#[test]
fn hashes_do_not_turn() {
    for fabric in trees() {
        let links = LinkGraph::new(&Fabric::Graph(fabric)).unwrap();
        assert!(links.with_routing(Routing::Hash { seed: 1 }).rotation().is_none());
    }
}
