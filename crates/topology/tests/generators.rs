//! Generated fabrics against the formulas of their sources, and against a search that knows none.

use crate::common::{distances, draw, make, nested, read, with_latency};
use topology::generate::{Fault, Generator, Values, generate, generator};
use topology::{Fabric, GraphFabric, LinkGraph, Routing, Symmetry, coordinates, rank};
use units::{Bandwidth, Span};

type Case = (&'static str, Values);
/// Parameters that are numbers.
type Given = Vec<(&'static str, &'static [u32])>;

/// One of each generator and its corners.
fn cases() -> Vec<Case> {
    let plain: Vec<(&'static str, Given)> = vec![
        ("leaf_spine", vec![("npus_per_leaf", &[4]), ("leaves", &[6]), ("spines", &[2])]),
        ("leaf_spine", vec![("npus_per_leaf", &[3]), ("leaves", &[1]), ("spines", &[2])]),
        ("fat_tree", vec![("radix", &[4])]),
        ("fat_tree", vec![("radix", &[6]), ("pods", &[3])]),
        ("clos", vec![("down", &[3, 2, 4]), ("up", &[2, 2]), ("cables", &[1, 1, 2])]),
        ("clos", vec![("down", &[2, 3]), ("up", &[2]), ("planes", &[2]), ("cables", &[1])]),
        ("clos", vec![("down", &[5]), ("up", &[]), ("cables", &[3])]),
        ("rail_optimized", vec![("npus_per_node", &[4]), ("nodes", &[3])]),
        (
            "rail_optimized",
            vec![
                ("npus_per_node", &[2]),
                ("nodes", &[6]),
                ("nodes_per_leaf", &[3]),
                ("spines", &[2]),
            ],
        ),
        (
            "dragonfly",
            vec![("npus_per_router", &[2]), ("routers_per_group", &[4]), ("global_links", &[2])],
        ),
        (
            "dragonfly",
            vec![
                ("npus_per_router", &[1]),
                ("routers_per_group", &[3]),
                ("global_links", &[2]),
                ("groups", &[4]),
            ],
        ),
        ("torus", vec![("sizes", &[4, 3, 2])]),
        ("mesh", vec![("sizes", &[3, 4])]),
        (
            "leaf_spine",
            vec![("npus_per_leaf", &[2]), ("leaves", &[3]), ("spines", &[2]), ("planes", &[2])],
        ),
        ("fat_tree", vec![("radix", &[4]), ("planes", &[2])]),
        ("rail_only", vec![("npus_per_node", &[4]), ("nodes", &[3]), ("switches_per_node", &[3])]),
        (
            "dragonfly_plus",
            vec![
                ("npus_per_leaf", &[2]),
                ("leaves", &[3]),
                ("spines", &[2]),
                ("global_links", &[2]),
            ],
        ),
        (
            "dragonfly_plus",
            vec![
                ("npus_per_leaf", &[1]),
                ("leaves", &[2]),
                ("spines", &[3]),
                ("global_links", &[2]),
                ("groups", &[3]),
            ],
        ),
        ("hyperx", vec![("npus_per_switch", &[2]), ("sizes", &[3, 2, 4])]),
        ("hyperx", vec![("npus_per_switch", &[1]), ("sizes", &[4, 3]), ("cables", &[2, 1])]),
        ("concentrated_mesh", vec![("npus_per_router", &[4]), ("sizes", &[3, 4])]),
        ("concentrated_mesh", vec![("npus_per_router", &[1]), ("sizes", &[5])]),
        ("concentrated_torus", vec![("npus_per_router", &[2]), ("sizes", &[4, 2, 3])]),
        ("twisted_torus", vec![("sizes", &[2, 4])]),
        ("twisted_torus", vec![("sizes", &[3, 6, 3])]),
        ("twisted_torus", vec![("sizes", &[6, 3, 6])]),
        ("torus", vec![("sizes", &[2, 3, 2, 5])]),
        ("nvlink_domain", vec![("npus", &[6]), ("switches", &[4]), ("cables", &[2])]),
        ("full_mesh", vec![("npus", &[5]), ("cables", &[2])]),
        ("cube_mesh", vec![("ports", &[6])]),
    ];
    let plain = plain.into_iter().map(|(name, values)| (name, read(&values)));
    plain.chain(nests().into_iter().map(|values| ("nested", values))).collect()
}

/// Nodes of each kind in networks of each kind, with cards for each NPU, shared and several, on one
/// rail and on several.
fn nests() -> Vec<Values> {
    let domain = ("nvlink_domain", &[("npus", &[4][..]), ("switches", &[2])][..]);
    let mesh = ("full_mesh", &[("npus", &[4][..])][..]);
    let cube = ("cube_mesh", &[("ports", &[6][..])][..]);
    let ring = ("torus", &[("sizes", &[6][..])][..]);
    let spines =
        ("leaf_spine", &[("npus_per_leaf", &[4][..]), ("leaves", &[3]), ("spines", &[2])][..]);
    let tree = ("fat_tree", &[("radix", &[4][..])][..]);
    let torus = ("torus", &[("sizes", &[4, 4][..])][..]);
    let hyper = ("hyperx", &[("npus_per_switch", &[2][..]), ("sizes", &[3])][..]);
    vec![
        nested(domain, spines, 4, 1),
        nested(domain, spines, 4, 4),
        nested(domain, tree, 4, 2),
        nested(domain, spines, 2, 1),
        nested(domain, spines, 8, 2),
        nested(mesh, torus, 4, 4),
        nested(mesh, torus, 4, 1),
        nested(mesh, hyper, 1, 1),
        nested(cube, tree, 4, 1),
        nested(cube, spines, 4, 4),
        nested(ring, hyper, 6, 6),
        nested(ring, hyper, 6, 1),
    ]
}

#[test]
fn all_is_joined_at_the_stated_diameter_by_shortest_routes() {
    for (name, values) in cases() {
        let fabric = draw(name, &values);
        let links = LinkGraph::new(&Fabric::Graph(fabric.clone())).unwrap();
        let mut most = 0;
        for src in 0..fabric.npus {
            let far = distances(&fabric, src);
            for dst in 0..fabric.npus {
                let shortest = links.hops(src, dst) == far[dst as usize];
                assert!(shortest || name == "dragonfly", "{name} {src} {dst}");
                most = most.max(far[dst as usize]);
            }
        }
        let stated = Fabric::Graph(fabric).facts().unwrap().diameter;
        assert_eq!(stated, Some(most), "{name} {values:?}");
    }
}

/// Kim, section 4.1: a local link to a router with a cable to the other group, that cable, a local
/// link; a router that has such a cable takes it.
#[test]
fn routes_of_a_dragonfly_cross_one_global_link() {
    for (p, a, h, g) in [(2, 4, 2, 9), (1, 3, 2, 4), (2, 4, 2, 4), (1, 4, 1, 2), (2, 8, 2, 4)] {
        let list = |number: u32| -> &'static [u32] { Box::leak(Box::new([number])) };
        let values = [("npus_per_router", list(p)), ("routers_per_group", list(a))];
        let values = [&values[..], &[("global_links", list(h)), ("groups", list(g))]].concat();
        let fabric = make("dragonfly", &values);
        let router = |npu: u32| fabric.npus + npu / p;
        let group = |router: u32| (router - fabric.npus) / a;
        let kind = |link: u32| fabric.links[link as usize].kind;
        for routing in [Routing::Lowest, Routing::DModK, Routing::Hash { seed: 1 }] {
            let links = LinkGraph::new(&Fabric::Graph(fabric.clone())).unwrap();
            let links = links.with_routing(routing);
            for (src, dst) in (0..fabric.npus).flat_map(|s| (0..fabric.npus).map(move |d| (s, d))) {
                let kinds: Vec<u32> = links.route(src, dst).map(|hop| kind(hop.link)).collect();
                let (from, to) = (router(src), router(dst));
                let has = |l: &topology::GraphLink| l.from == from && group(l.to) == group(to);
                let own = fabric.links.iter().filter(|l| l.kind == 2).any(has);
                let allowed: &[&[u32]] = match () {
                    () if src == dst => &[&[]],
                    () if from == to => &[&[0, 0]],
                    () if group(from) == group(to) => &[&[0, 1, 0]],
                    () if own => &[&[0, 2, 0], &[0, 2, 1, 0]],
                    () => &[&[0, 1, 2, 0], &[0, 1, 2, 1, 0]],
                };
                assert!(allowed.contains(&&kinds[..]), "{values:?}: {src} to {dst}: {kinds:?}");
            }
        }
    }
}

#[test]
fn next_hops_are_all_those_on_shortest_routes() {
    for (name, values) in cases().into_iter().filter(|&(name, _)| name != "dragonfly") {
        let fabric = draw(name, &values);
        let links = LinkGraph::new(&Fabric::Graph(fabric.clone())).unwrap();
        let far: Vec<Vec<u32>> =
            (0..fabric.nodes.len() as u32).map(|node| distances(&fabric, node)).collect();
        for (node, dst) in (0..fabric.nodes.len() as u32)
            .flat_map(|node| (0..fabric.npus).map(move |dst| (node, dst)))
            .filter(|(node, dst)| node != dst)
        {
            let nearer = |l: &topology::GraphLink| {
                far[l.to as usize][dst as usize] + 1 == far[node as usize][dst as usize]
            };
            let mut expected: Vec<(u32, u32)> = (0u32..)
                .zip(&fabric.links)
                .filter(|(_, l)| l.from == node && nearer(l))
                .map(|(id, l)| (l.to, id))
                .collect();
            expected.sort_unstable();
            let found: Vec<(u32, u32)> =
                links.choices(node, dst).iter().map(|h| (h.to, h.link)).collect();
            assert_eq!(found, expected, "{name} from {node} to {dst}");
        }
    }
}

#[test]
fn counts_are_those_of_the_formulas() {
    let count = |name, values: &[(&'static str, &'static [u32])]| {
        let fabric = make(name, values);
        (fabric.npus, fabric.nodes.len() as u32 - fabric.npus, fabric.links.len() as u32 / 2)
    };
    // Al-Fares: k^3/4 hosts, 5 k^2/4 switches, 3 k^3/4 cables.
    for k in [2, 4, 8, 16] {
        let found = count("fat_tree", &[("radix", Box::leak(Box::new([k])))]);
        assert_eq!(found, (k * k * k / 4, 5 * k * k / 4, 3 * k * k * k / 4), "k = {k}");
    }
    // Kim: g = a h + 1 groups, a g routers, a (a - 1) / 2 local cables a group, g (g - 1) / 2
    // global.
    let (p, a, h) = (2, 4, 2);
    let g = a * h + 1;
    let found = count(
        "dragonfly",
        &[("npus_per_router", &[2]), ("routers_per_group", &[4]), ("global_links", &[2])],
    );
    assert_eq!(found, (p * a * g, a * g, p * a * g + g * a * (a - 1) / 2 + g * (g - 1) / 2));
    // Leaves times spines times cables, and one for each NPU.
    let cables =
        [("npus_per_leaf", &[4][..]), ("leaves", &[6]), ("spines", &[2]), ("cables", &[3])];
    assert_eq!(count("leaf_spine", &cables), (24, 8, 24 + 6 * 2 * 3));
    // A torus has n cables a dimension (half of them where it has two places), a mesh fewer.
    assert_eq!(count("torus", &[("sizes", &[4, 3, 2])]), (24, 0, 24 + 24 + 12));
    assert_eq!(count("mesh", &[("sizes", &[3, 4])]), (12, 0, 2 * 4 + 3 * 3));
    let rails =
        [("npus_per_node", &[2][..]), ("nodes", &[6]), ("nodes_per_leaf", &[3]), ("spines", &[2])];
    assert_eq!(count("rail_optimized", &rails), (12, 6 + 4 + 2, 12 + 12 + 4 * 2));
}

#[test]
fn no_dragonfly_router_has_more_global_links_than_stated() {
    for groups in 2..=9u32 {
        let list: &'static [u32] = Box::leak(Box::new([groups]));
        let values = [
            ("npus_per_router", &[1][..]),
            ("routers_per_group", &[4]),
            ("global_links", &[2]),
            ("groups", list),
        ];
        let fabric = make("dragonfly", &values);
        for router in fabric.npus..fabric.nodes.len() as u32 {
            let global = fabric.links.iter().filter(|l| l.from == router && l.kind == 2).count();
            assert!(global <= 2, "router {router} of {groups} groups: {global}");
        }
    }
}

fn bisection(fabric: &GraphFabric) -> u64 {
    Fabric::Graph(fabric.clone()).facts().unwrap().bisection.unwrap().0
}

#[test]
fn bisection_is_that_of_the_formulas() {
    // Full bisection: half of the NPUs' links.
    assert_eq!(bisection(&make("fat_tree", &[("radix", &[4])])), 8);
    // Spine links are twice as fast here: 3 leaves of 2 spines at 2 against 12 NPUs at 1.
    let leaf_spine = [("npus_per_leaf", &[4][..]), ("leaves", &[6]), ("spines", &[1])];
    assert_eq!(bisection(&make("leaf_spine", &leaf_spine)), 3 * 2);
    let more = [("npus_per_leaf", &[4][..]), ("leaves", &[6]), ("spines", &[2])];
    assert_eq!(bisection(&make("leaf_spine", &more)), 12);
    // A torus is cut twice: 2 links at each of 4 x 4 places, z links at 3 bytes a second.
    assert_eq!(bisection(&make("torus", &[("sizes", &[4, 4, 4])])), 2 * 16 * 3);
    assert_eq!(bisection(&make("mesh", &[("sizes", &[4, 4])])), 4 * 2);
    // Two groups of a dragonfly with 4 x 2 global links at 3 bytes a second.
    let two = [
        ("npus_per_router", &[8][..]),
        ("routers_per_group", &[4]),
        ("global_links", &[2]),
        ("groups", &[2]),
    ];
    assert_eq!(bisection(&make("dragonfly", &two)), 8 * 3);
    // Rail-only: every NPU of a node sends by its rail, at 2 bytes a second.
    let rails = [("npus_per_node", &[4][..]), ("nodes", &[4])];
    assert_eq!(bisection(&make("rail_optimized", &rails)), 8 * 2);
}

/// Stacks have the bisections of the textbook: a ring is cut twice, a line once, a full connection
/// of n NPUs at (n/2)^2 links, a switch carries half of its ports.
#[test]
fn facts_of_stacks_are_those_of_the_textbook() {
    let facts = |shape: &str| {
        let shape: topology::Topology = shape.parse().unwrap();
        let dim = |&(block, size): &(topology::Block, u32)| topology::Dim {
            block,
            size,
            bandwidth: Bandwidth(5),
            latency: Span(1),
            parallel: 1,
        };
        Fabric::Stacked(shape.dims.iter().map(dim).collect()).facts().unwrap()
    };
    for (shape, diameter, cut, switches) in [
        ("Ring(8)", 4, 2, 0),
        ("Mesh(8)", 7, 1, 0),
        ("FullyConnected(8)", 1, 16, 0),
        ("Switch(8)", 2, 4, 1),
        ("Ring(4)_Ring(4)", 4, 8, 0),
        ("Switch(4)_Switch(2)", 4, 4, 2 + 4),
    ] {
        let found = facts(shape);
        let all: u32 = found.switches.iter().sum();
        assert_eq!(
            (found.diameter, found.bisection, all),
            (Some(diameter), Some(Bandwidth(5 * cut)), switches),
            "{shape}"
        );
    }
}

/// What a generator says of its dimensions: along a line of one, paths depend on what it says only.
#[test]
fn dimensions_are_as_symmetric_as_stated() {
    // Links of other kinds have other latencies, inner ones the least or the most.
    let latencies: [fn(u64) -> u64; 2] = [|kind| 10 + kind, |kind| 20 - kind];
    for ((name, values), latency) in
        cases().into_iter().flat_map(|c| latencies.map(|l| (c.clone(), l)))
    {
        let fabric = with_latency(name, &values, latency);
        let sizes: Vec<u32> = fabric.dims.iter().map(|d| d.size).collect();
        assert_eq!(sizes.iter().product::<u32>(), fabric.npus, "{name}");
        let links = LinkGraph::new(&Fabric::Graph(fabric.clone())).unwrap();
        for (dim, place) in fabric.dims.iter().enumerate() {
            let far = |npu: u32, to: u32| {
                let mut at = coordinates(npu, &sizes);
                at[dim] = to % place.size;
                let route = links.route(npu, rank(&at, &sizes));
                let latencies: Vec<u64> = route.map(|h| links.link(h.link).latency.0).collect();
                (latencies.len(), latencies.iter().sum::<u64>())
            };
            for npu in 0..fabric.npus {
                let here = coordinates(npu, &sizes)[dim];
                for k in 1..place.size {
                    let first = match place.symmetry {
                        Symmetry::Full => far(0, 1),
                        Symmetry::Rotation => far(0, k),
                        Symmetry::None => continue,
                    };
                    assert_eq!(far(npu, here + k), first, "{name} {values:?} {dim} {npu} {k}");
                }
            }
        }
    }
}

#[test]
fn the_same_parameters_give_the_same_wiring() {
    for (name, values) in cases() {
        assert_eq!(draw(name, &values), draw(name, &values), "{name}");
    }
}

#[test]
fn a_large_fat_tree_is_drawn_and_routed_in_little_room() {
    // 16,384 NPUs: 1,024 leaves of 16, in 64 pods.
    let values = [("down", &[16, 16, 64][..]), ("up", &[16, 16]), ("cables", &[1])];
    let fabric = make("clos", &values);
    assert_eq!((fabric.npus, fabric.nodes.len()), (16_384, 16_384 + 1024 + 1024 + 256));
    let links = LinkGraph::new(&Fabric::Graph(fabric)).unwrap().with_routing(Routing::DModK);
    for npu in (0..16_384).step_by(97) {
        assert_eq!(links.route(npu, (npu + 8192) % 16_384).count(), 6);
        assert_eq!(links.choices(16_384 + npu / 16, (npu + 8192) % 16_384).len(), 16);
    }
}

#[test]
fn wrong_parameters_are_all_refused_with_what_is_allowed() {
    let refused = |name: &str, values: &[(&'static str, &'static [u32])]| -> Vec<String> {
        let generator = generator(name).unwrap();
        let faults = generate(generator, read(values), Vec::new()).unwrap_err();
        let shown = |f: Fault| format!("{}: {} ({})", f.path.join("."), f.message, f.allowed);
        faults.into_iter().map(shown).collect()
    };
    assert_eq!(
        refused("fat_tree", &[("radix", &[5]), ("pods", &[9])]),
        [
            "radix: a fat tree of switches with 5 ports (an even number from 2 to 256)",
            "pods: 9 pods, but core switches have 5 ports (at most 5)"
        ]
    );
    assert_eq!(
        refused("clos", &[("down", &[4, 4]), ("up", &[]), ("cables", &[1, 1, 1])]),
        ["up: 0 values for 2 tiers (1 values)", "cables: 3 values for 2 tiers (1 or 2 values)"]
    );
    assert_eq!(
        refused("torus", &[("sizes", &[1024, 1024, 2])]),
        ["sizes: 2097152 NPUs (at most 1048576 NPUs)"]
    );
    assert_eq!(
        refused("twisted_torus", &[("sizes", &[4, 4, 12])]),
        ["sizes: a twisted torus of 4 x 4 x 12 (sizes k and 2k, at least one of each, k from 2)"]
    );
    assert_eq!(
        refused(
            "leaf_spine",
            &[("npus_per_leaf", &[65536]), ("leaves", &[65536]), ("spines", &[1])]
        )
        .len(),
        1
    );
}

#[test]
fn the_outermost_dimension_takes_what_is_left_of_a_number_of_npus() {
    let grows = |(name, _): &Case| !matches!(*name, "twisted_torus" | "cube_mesh");
    for (name, mut values) in cases().into_iter().filter(grows) {
        let generator: &dyn Generator = generator(name).unwrap();
        let unit = generator.unit(&values) as u32;
        generator.resize(&mut values, 6 * unit).unwrap();
        if name == "nested" && !generator.faults(&values).is_empty() {
            // More pods than the switches of the outer fat tree have ports.
            continue;
        }
        let sizes = generator.dims(&values).into_iter().map(|d| d.size);
        assert_eq!(sizes.product::<u32>(), 6 * unit, "{name}");
        if unit > 1 {
            assert_eq!(generator.resize(&mut values, 2 * unit + 1), Err(u64::from(unit)), "{name}");
        }
    }
}
