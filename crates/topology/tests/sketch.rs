//! Sketches of fabrics: nothing is lost, what is drawn by itself stands where it belongs.

use topology::generate::{Values, Wire, generate, generator};
use topology::{GraphFabric, GraphLink, GraphNode, Layout, Sketch};
use units::{Bandwidth, Span};

fn fabric(name: &str, values: &[(&'static str, &[u32])]) -> GraphFabric {
    let generator = generator(name).unwrap();
    let mut read = Values::default();
    values.iter().for_each(|(key, list)| read.set(key, list.to_vec()));
    let kinds = generator.kinds(&read).len();
    let wire = Wire { bandwidth: Bandwidth(1), latency: Span(1) };
    generate(generator, read, vec![wire; kinds]).unwrap()
}

/// Every node is in one cell and every link in one cable, which [`Sketch::cable`] finds.
fn check(graph: &GraphFabric) -> Sketch {
    let sketch = Sketch::new(graph);
    let nodes: u32 = sketch.cells.iter().map(|cell| cell.count).sum();
    let links: u32 = sketch.cables.iter().map(|cable| cable.links).sum();
    assert_eq!((nodes as usize, links as usize), (graph.nodes.len(), graph.links.len()));
    let mut found = vec![0; sketch.cables.len()];
    graph.links.iter().for_each(|l| found[sketch.cable(l.from, l.to).unwrap()] += 1);
    let counted: Vec<u32> = sketch.cables.iter().map(|cable| cable.links).collect();
    assert_eq!(found, counted);
    sketch
}

fn tier(sketch: &Sketch, tier: u32) -> Vec<(u32, Vec<u32>)> {
    let of_tier = sketch.cells.iter().filter(|cell| cell.tier == tier);
    of_tier.map(|cell| (cell.count, cell.at.clone())).collect()
}

#[test]
fn a_fat_tree_is_pods_of_leaves() {
    let sketch = check(&fabric("fat_tree", &[("radix", &[4])]));
    assert_eq!(sketch.layout, Layout::Tiers);
    assert_eq!(tier(&sketch, 3), vec![(1, vec![]); 4]);
    // Two aggregation switches in each of four pods, and two leaves.
    let pods: Vec<_> = (0..4).flat_map(|pod| vec![(1, vec![pod]); 2]).collect();
    assert_eq!(tier(&sketch, 2), pods);
    let leaves: Vec<_> =
        (0..4).flat_map(|pod| (0..2).map(move |leaf| (1, vec![pod, leaf]))).collect();
    assert_eq!(tier(&sketch, 1), leaves);
    assert_eq!(sketch.cells[0].at, [0, 0, 0]);
    assert_eq!(tier(&sketch, 0).len(), 16);
}

#[test]
fn the_middle_of_many_alike_things_is_one_cell_for_each_tier() {
    let sketch = check(&fabric(
        "leaf_spine",
        &[("npus_per_leaf", &[32]), ("leaves", &[512]), ("spines", &[16]), ("cables", &[1])],
    ));
    assert!(sketch.cells.len() <= 300);
    let leaves = tier(&sketch, 1);
    let [.., (shared, _), (last, _)] = &leaves[..] else { panic!("{leaves:?}") };
    assert_eq!((*shared as usize, *last), (512 - leaves.len() + 1, 1));
    // The NPUs of the leaves that share a cell share one, too.
    assert!(tier(&sketch, 0).iter().any(|(count, _)| *count == shared * 32));
}

#[test]
fn a_torus_is_a_grid_and_a_dragonfly_groups() {
    let torus = check(&fabric("torus", &[("sizes", &[4, 3, 2])]));
    assert_eq!(torus.layout, Layout::Grid);
    assert_eq!(torus.cells.last().unwrap().at, [3, 2, 1]);
    let large = check(&fabric("torus", &[("sizes", &[16, 16, 16])]));
    assert!(large.cells.len() <= 256);
    let ring = check(&fabric("torus", &[("sizes", &[8])]));
    assert_eq!(ring.layout, Layout::Circle);
    let dragonfly = check(&fabric(
        "dragonfly",
        &[("npus_per_router", &[2]), ("routers_per_group", &[4]), ("global_links", &[2])],
    ));
    assert_eq!(dragonfly.layout, Layout::Groups);
    assert_eq!(tier(&dragonfly, 1).len(), 36);
    assert!(tier(&dragonfly, 0).iter().all(|(count, _)| *count == 2));
}

#[test]
fn switches_without_tiers_stand_by_their_distance() {
    let nodes = ["a", "b", "c", "d"].map(|name| GraphNode::npu(name.into())).into_iter();
    let switches = ["left", "right", "top"].map(|name| GraphNode::switch(name.into(), 1));
    let link = |(from, to): (u32, u32)| GraphLink {
        from,
        to,
        bandwidth: Bandwidth(u64::from(from + to)),
        latency: Span(1),
        kind: 0,
    };
    let ends = [(0, 4), (1, 4), (2, 5), (3, 5), (4, 6), (5, 6), (0, 1)];
    let both = ends.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]);
    let graph = GraphFabric {
        npus: 4,
        nodes: nodes.chain(switches).collect(),
        links: both.map(link).collect(),
        ..GraphFabric::default()
    };
    let sketch = check(&graph);
    let tiers: Vec<u32> = (0..7).map(|node| sketch.tier(node)).collect();
    assert_eq!(tiers, [0, 0, 0, 0, 1, 1, 2]);
    // NPUs that are joined to each other are in one group.
    assert_eq!(sketch.cells[0].at, sketch.cells[1].at);
    let speeds = sketch.cables[sketch.cable(6, 5).unwrap()].bandwidth;
    assert_eq!(speeds, (Bandwidth(11), Bandwidth(11)));
    assert_eq!(sketch.cable(0, 6), None);
}
