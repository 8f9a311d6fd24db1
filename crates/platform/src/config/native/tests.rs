//! Native files: what they mean, broken text against its exact message, and platforms that read
//! back.

use super::*;
use crate::platform::{Algorithm, Choice, DimensionOrder, Hierarchy, Policy};
use device::compute::{Compute, Roofline};
use device::memory::{Link, RemoteMemory, Sharing};
use graph::CollectiveKind;
use proptest::prelude::*;
use topology::{Block, Dim, Fabric, GraphFabric, GraphLink, Node};
use units::{Bandwidth, Bytes, Flops, Span};

const FULL: &str = r#"
name: dgx-h100-16n
source: a data sheet
topology: FullyConnected(8)_Switch(16)
links:
  - {bandwidth: 450 GB/s, per: npu, latency: 300 ns}
  - {bandwidth: 400 Gb/s, latency: 2 us}
npu: {name: H100, compute: roofline, peak: 989 TFLOPS, memory: {bandwidth: 3350 GB/s, capacity: 80 GB}}
remote_memory: {sharing: per_node, npus_per_node: 8, latency: 1 us, bandwidth: 100 GB/s}
collectives:
  hierarchy: hierarchical_optimal
  all_reduce: [direct, halving_doubling]
  all_to_all: direct(4)
  all_gather: {algorithm: ring, flat: true}
  reduce_scatter: {custom: rs.xml}
  broadcast: auto
scheduler: {policy: all_to_all_first, dimension_order: themis, chunks: 64, active_chunks: 2, queues_per_dim: 3, endpoint_delay: 5 ns, comm_streams: 2, rendezvous: true}
logical: [16, 8]
"#;

fn read(text: &str) -> Result<Platform, Vec<Problem>> {
    from_yaml(text, "p.yml", &[])
}

fn messages(result: Result<Platform, Vec<Problem>>) -> Vec<String> {
    result.unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn every_key_means_what_it_says() {
    let platform = read(FULL).unwrap();
    assert_eq!(
        (platform.name.as_str(), platform.source.as_str()),
        ("dgx-h100-16n", "a data sheet")
    );
    // 450 GB/s over the 7 links of an NPU, rounded down.
    let full = Dim {
        block: Block::FullyConnected,
        size: 8,
        bandwidth: Bandwidth(64_285_714_285),
        latency: Span::from_ns(300),
    };
    let switch = Dim {
        block: Block::Switch,
        size: 16,
        bandwidth: Bandwidth(50_000_000_000),
        latency: Span::from_ns(2_000),
    };
    assert_eq!(platform.fabric, Fabric::Stacked(vec![full, switch]));
    let (peak, memory) = (Flops(989_000_000_000_000), Bandwidth(3_350_000_000_000));
    assert_eq!(platform.npu.compute, Compute::Roofline(Roofline::ideal(peak, memory)));
    assert_eq!(
        (platform.npu.name.as_str(), platform.npu.memory_capacity),
        ("H100", Some(Bytes(80_000_000_000)))
    );
    let (sharing, bandwidth) = (Sharing::PerNode { npus: 8 }, Bandwidth(100_000_000_000));
    assert_eq!(
        platform.remote_memory,
        Some(RemoteMemory::Link(Link { sharing, latency: Span::from_ns(1_000), bandwidth }))
    );
    let choice = |kind: CollectiveKind| platform.collectives.choices[kind as usize].clone();
    let direct = |window| Algorithm::Direct { window };
    let mixed = Choice { per_dim: vec![direct(None), Algorithm::HalvingDoubling], flat: false };
    assert_eq!(choice(CollectiveKind::AllReduce), Some(mixed));
    assert_eq!(
        choice(CollectiveKind::AllToAll),
        Some(Choice { per_dim: vec![direct(Some(4)); 2], flat: false })
    );
    assert_eq!(
        choice(CollectiveKind::AllGather),
        Some(Choice { per_dim: vec![Algorithm::Ring], flat: true })
    );
    assert_eq!(
        (choice(CollectiveKind::ReduceScatter), choice(CollectiveKind::Broadcast)),
        (None, None)
    );
    assert_eq!(
        platform.custom_paths.kinds[CollectiveKind::ReduceScatter as usize].as_deref(),
        Some("rs.xml")
    );
    assert_eq!(platform.collectives.hierarchy, Hierarchy::HierarchicalOptimal);
    let s = &platform.scheduler;
    assert_eq!(
        (s.policy, s.chunks, s.active_chunks, s.queues_per_dim),
        (Policy::AllToAllFirst, 64, 2, 3)
    );
    assert_eq!(s.dimension_order, DimensionOrder::Themis);
    assert_eq!(
        (s.endpoint_delay, s.comm_streams, s.rendezvous, s.replay_only),
        (Span::from_ns(5), 2, true, false)
    );
    assert_eq!(platform.logical, Some(vec![16, 8]));
}

#[test]
fn little_is_needed_and_the_rest_is_as_documented() {
    let platform =
        read("topology: R(4)_R(4)\nlinks: {bandwidth: 50 GB/s, latency: 500 ns}\n").unwrap();
    assert_eq!(platform.name, "p");
    assert_eq!(platform.npu.compute, Compute::Recorded);
    assert_eq!(
        (platform.scheduler.chunks, platform.scheduler.policy, platform.scheduler.comm_streams),
        (16, Policy::Fifo, 0)
    );
    assert_eq!(platform.scheduler.endpoint_delay, Span::from_ns(10));
    assert_eq!(platform.scheduler.dimension_order, DimensionOrder::Baseline);
    assert_eq!(platform.collectives.hierarchy, Hierarchy::Enhanced);
    let flat = read("topology: SW(4)\nlinks: {bandwidth: 50 GB/s, latency: 500 ns}\n").unwrap();
    assert_eq!(flat.scheduler.chunks, 1);
}

#[test]
fn an_order_of_dimensions_that_changes_nothing_is_told() {
    let warnings = |rest: &str| {
        let text =
            format!("topology: R(4)_R(4)\nlinks: {{bandwidth: 50 GB/s, latency: 500 ns}}\n{rest}");
        read(&text).unwrap().warnings
    };
    assert_eq!(warnings("scheduler: {dimension_order: themis}"), [""; 0]);
    let start = "scheduler.dimension_order: themis has no effect";
    let single = warnings("scheduler: {dimension_order: themis, chunks: 1}");
    assert_eq!(single, [format!("{start} on a single chunk: set scheduler.chunks")]);
    let whole =
        warnings("scheduler: {dimension_order: themis}\ncollectives: {hierarchy: baseline}");
    assert_eq!(whole, [format!("{start} on all_reduce: it needs collectives.hierarchy: enhanced")]);
}

/// Only a library says that dimension 1 is a node; without one a single switch may be a cluster.
#[test]
fn a_node_made_larger_than_it_is_is_told() {
    let node = "efficiency: 0.8, step_latency: [1 us, 2 us, 4 us], ll_efficiency: [0.25, 0.9]";
    let library = format!("library: {{name: nccl, call_overhead: 10 us, node: {{{node}}}}}\n");
    let warnings = |npus: u32, library: &str| {
        let links = "links: {bandwidth: 450 GB/s, per: npu, latency: 300 ns}";
        read(&format!("topology: Switch(8)\nnpus: {npus}\n{links}\n{library}")).unwrap().warnings
    };
    let told = |npus: u32, nodes: &str| {
        format!(
            "npus: {npus} makes a single node of Switch({npus}) out of Switch(8), all at the bandwidth within a node; several nodes are a preset with a network, \
             or topology: Switch(8)_Switch({nodes}) with its links and library.network"
        )
    };
    assert_eq!(warnings(64, &library), [told(64, "8")]);
    assert_eq!(warnings(12, &library), [told(12, "m")]);
    assert_eq!(warnings(8, &library), [""; 0]);
    assert_eq!(warnings(4, &library), [""; 0]);
    assert_eq!(warnings(64, ""), [""; 0]);
}

#[test]
fn npus_resize_the_outermost_dimension() {
    let text = |npus: &str| {
        format!(
            "topology: FC(8)_SW(16)\nnpus: {npus}\nlinks: {{bandwidth: 50 GB/s, per: link, latency: 500 ns}}\n"
        )
    };
    assert_eq!(read(&text("1024")).unwrap().fabric.sizes(), [8, 128]);
    assert_eq!(read(&text("8")).unwrap().fabric.sizes(), [8, 1]);
    let problem = read(&text("100")).unwrap_err().swap_remove(0);
    assert_eq!(
        (problem.place.as_str(), problem.help.as_str()),
        ("line 2, npus", "96, 104 or another multiple of 8")
    );
    assert!(read(&text("0")).is_err());
    let graph = "graph:\n  npus: 3\n  links:\n    - {between: [npu0, npu1], bandwidth: 50 GB/s, latency: 1 us}\n    \
                 - {between: [npu1, npu2], bandwidth: 50 GB/s, latency: 1 us}\n";
    assert_eq!(read(graph).unwrap().fabric.npus(), 3);
    assert_eq!(read(&format!("{graph}npus: 2\n")).unwrap().fabric.npus(), 2);
    assert!(read(&format!("{graph}npus: 4\n")).is_err());
}

#[test]
fn per_npu_is_the_sum_over_leaving_links() {
    let link = |shape: &str| {
        let text =
            format!("topology: {shape}\nlinks: {{bandwidth: 60 GB/s, per: npu, latency: 0 ns}}\n");
        read(&text).unwrap().fabric.dims()[0].bandwidth.0 / 1_000_000_000
    };
    let cases =
        [("FC(7)", 10), ("FC(2)", 60), ("FC(1)", 60), ("R(8)", 30), ("R(2)", 60), ("SW(8)", 60)];
    for (shape, expected) in cases {
        assert_eq!(link(shape), expected, "{shape}");
    }
}

#[test]
fn a_graph_names_its_nodes() {
    let text = "graph:\n  npus: 2\n  switches: [spine]\n  links:\n\
                \x20   - {between: [npu0, spine], bandwidth: 25 GB/s, latency: 700 ns}\n\
                \x20   - {from: npu1, to: spine, bandwidth: 10 GB/s, latency: 1 us}\n\
                \x20   - {from: spine, to: npu1, bandwidth: 20 GB/s, latency: 1 us}\n";
    let link = |from, to, gb: u64, ns| GraphLink {
        from,
        to,
        bandwidth: Bandwidth(gb * 1_000_000_000),
        latency: Span::from_ns(ns),
        kind: 0,
    };
    let links = vec![
        link(0, 2, 25, 700),
        link(2, 0, 25, 700),
        link(1, 2, 10, 1_000),
        link(2, 1, 20, 1_000),
    ];
    let [a, b, spine] = ["npu0", "npu1", "spine"].map(String::from);
    let nodes = vec![Node::npu(a), Node::npu(b), Node::switch(spine, 1)];
    let expected = GraphFabric { npus: 2, nodes, links, ..GraphFabric::default() };
    assert_eq!(read(text).unwrap().fabric, Fabric::Graph(expected));
}

#[test]
fn a_graph_has_parallel_links_tiers_and_kinds() {
    let text = |radix: u32| {
        format!(
            "graph:\n  npus: 2\n  switches: [leaf, {{name: top, tier: 2, radix: {radix}}}]\n  links:\n\
             \x20   - {{between: [npu0, leaf], bandwidth: 25 GB/s, latency: 1 us}}\n\
             \x20   - {{between: [npu1, top], bandwidth: 25 GB/s, latency: 1 us, kind: nic}}\n\
             \x20   - {{between: [leaf, top], bandwidth: 25 GB/s, latency: 1 us, count: 3}}\n"
        )
    };
    let platform = read(&text(4)).unwrap();
    let Fabric::Graph(graph) = &platform.fabric else { panic!("a graph") };
    assert_eq!((graph.nodes[3].tier, graph.nodes[3].radix), (2, Some(4)));
    assert_eq!(graph.links.iter().filter(|l| (l.from, l.to) == (2, 3)).count(), 3);
    assert_eq!((graph.kinds.join("|"), graph.links[2].kind), ("|nic".to_string(), 1));
    assert_eq!(read(&to_yaml(&platform)).unwrap().fabric, platform.fabric);
    let refused = read(&text(3)).unwrap_err();
    assert!(refused[0].to_string().contains("\"top\" has 3 ports and 4 links"), "{refused:?}");
}

#[test]
fn a_generator_makes_a_fabric_with_coordinates() {
    let text =
        "topology: {generator: fat_tree, radix: 4}\nlinks: {bandwidth: 50 GB/s, latency: 1 us}\n";
    let platform = read(text).unwrap();
    assert_eq!((platform.fabric.npus(), platform.fabric.sizes()), (16, vec![2, 2, 4]));
    assert_eq!(read(&to_yaml(&platform)).unwrap(), platform);
    let smaller = read(&format!("{text}npus: 8\n")).unwrap();
    assert_eq!(smaller.fabric.sizes(), [2, 2, 2]);
    assert_eq!(read(&to_yaml(&smaller)).unwrap(), smaller);
    let json = to_json(&platform);
    assert_eq!(json["fabric"]["switches"], 20);
    assert_eq!(json["fabric"]["cables"][2]["cables"], 16);
}

#[test]
fn faults_of_a_generator_are_all_named() {
    let problems = |text: &str| -> Vec<String> {
        read(text).unwrap_err().iter().map(|p| format!("{}: {}", p.place, p.message)).collect()
    };
    let links = "links: {bandwidth: 50 GB/s, latency: 1 us}";
    assert_eq!(
        problems(&format!("topology: {{generator: fat_tree, radix: 5, pods: 7}}\n{links}")),
        [
            "line 1, topology.radix: a fat tree of switches with 5 ports",
            "line 1, topology.pods: 7 pods, and cores have 5 ports"
        ]
    );
    assert_eq!(
        problems(&format!("topology: {{generator: fat_tree, radix: 0, pods: x}}\n{links}")).len(),
        2
    );
    let unknown = problems(&format!("topology: {{generator: fat_tree, radx: 4}}\n{links}"));
    assert!(unknown[0].contains("did you mean \"radix\""), "{unknown:?}");
    assert!(problems(&format!("topology: {{generator: fattree}}\n{links}"))[0].contains("fattree"));
    let three = "links: [{bandwidth: 50 GB/s, latency: 1 us}]";
    assert_eq!(
        problems(&format!("topology: {{generator: fat_tree, radix: 4}}\n{three}")),
        ["line 2, links: 1 entries for 3 kinds of links"]
    );
}

#[test]
fn routing_is_a_policy_of_the_network() {
    let text = |routing: &str| {
        format!(
            "topology: R(8)\nlinks: {{bandwidth: 50 GB/s, latency: 1 us}}\n\
             network: {{routing: {routing}}}\n"
        )
    };
    for routing in ["lowest", "d_mod_k", "hash", "hash(7)", "spray"] {
        let platform = read(&text(routing)).unwrap();
        assert_eq!(platform.routing.to_string(), routing);
        assert_eq!(read(&to_yaml(&platform)).unwrap().routing, platform.routing);
    }
    let refused = read(&text("ecmp")).unwrap_err();
    assert!(refused[0].to_string().contains("allowed: lowest, d_mod_k, hash"), "{refused:?}");
}

/// `FULL` with one line replaced by another.
fn changed(from: &str, to: &str) -> String {
    assert!(FULL.contains(from), "{from}");
    FULL.replace(from, to)
}

const BANDWIDTH: &str = "(allowed: a number above zero with B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s, or bits: \
                         kb/s, Mb/s, Gb/s, Tb/s, such as \"50 GB/s\")";
const NAMES: &str = "(allowed: ring, direct, direct(W) with W messages in flight, halving_doubling, double_binary_tree, in_network)";

#[test]
fn broken_text_gives_its_message() {
    let cases = [
        (("450 GB/s", "-450 GB/s"), format!("line 6, links[0].bandwidth: bandwidth \"-450 GB/s\" is negative {BANDWIDTH}")),
        (("450 GB/s", "450"), format!("line 6, links[0].bandwidth: bandwidth \"450\" has no unit {BANDWIDTH}")),
        (("450 GB/s", ".nan"), format!("line 6, links[0].bandwidth: bandwidth \".nan\" is not a finite number {BANDWIDTH}")),
        (
            ("450 GB/s", "450 GHz"),
            format!("line 6, links[0].bandwidth: bandwidth \"450 GHz\" has the unknown unit \"GHz\" {BANDWIDTH}"),
        ),
        (("450 GB/s", "0 GB/s"), format!("line 6, links[0].bandwidth: bandwidth \"0 GB/s\" is zero {BANDWIDTH}")),
        (
            ("450 GB/s", "[1]"),
            format!("line 6, links[0].bandwidth: bandwidth \"a list\" does not start with a number {BANDWIDTH}"),
        ),
        (
            ("per: npu, ", ""),
            "line 6, links[0]: \"per\" is missing (allowed: link (each of an NPU's links has this bandwidth), \
                              npu (they share it))"
                .into(),
        ),
        (
            ("per: npu", "per: gpu"),
            "line 6, links[0].per: \"gpu\" is not allowed; did you mean \"npu\"? (allowed: link, npu)".into(),
        ),
        (
            ("latency: 300", "latecny: 300"),
            "line 6, links[0].latecny: unknown key \"latecny\"; did you mean \"latency\"? \
                                            (allowed: bandwidth, latency, per)|line 6, links[0]: \"latency\" is missing \
                                            (allowed: a time, such as \"500 ns\")"
                .into(),
        ),
        (
            ("450 GB/s, per: npu", "6 B/s, per: npu"),
            "line 6, links[0]: 6 B/s over 7 links leaves less than 1 B/s for each link \
                                                     (allowed: more bandwidth, or per: link)"
                .into(),
        ),
        (
            ("_Switch(16)", ""),
            "line 6, links: 2 entries for 1 dimension (allowed: one mapping a dimension, or a single mapping for all)".into(),
        ),
        (
            ("_Switch(16)", "_Switch(16"),
            format!(
                "line 4, topology: \"FullyConnected(8)_Switch(16\": \"Switch(16\" has no size in parentheses at character 26 \
                                                 (allowed: {})",
                topology::NOTATION
            ),
        ),
        (
            ("FullyConnected(8)_Switch(16)", "Ring(8"),
            format!(
                "line 4, topology: \"Ring(8\" has no size in parentheses at character 6 (allowed: {})",
                topology::NOTATION
            ),
        ),
        (
            ("_Switch(16)", "_Swich(16)"),
            format!(
                "line 4, topology: \"FullyConnected(8)_Swich(16)\": unknown block \"Swich\" at character 19 \
                                                 (allowed: {})",
                topology::NOTATION
            ),
        ),
        (
            ("peak: 989 TFLOPS, ", ""),
            "line 8, npu: the roofline needs \"peak\" \
                                      (allowed: peak: a rate such as \"989 TFLOPS\", or compute: recorded)"
                .into(),
        ),
        (
            ("compute: roofline", "compute: fast"),
            "line 8, npu.compute: \"fast\" is not allowed (allowed: roofline, recorded, systolic, measured)".into(),
        ),
        (
            ("80 GB}", "80.5 B}"),
            "line 8, npu.memory.capacity: size \"80.5 B\" is not a whole number of bytes (allowed: a whole number of bytes \
                                 with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, such as \"80 GB\")"
                .into(),
        ),
        (
            ("npus_per_node: 8, ", ""),
            "line 9, remote_memory: \"npus_per_node\" is missing (allowed: a whole number from 1)".into(),
        ),
        (
            ("sharing: per_node", "sharing: pool"),
            "line 9, remote_memory.npus_per_node: \"npus_per_node\" means something only with \
                                                  sharing: per_node (allowed: leave it out)"
                .into(),
        ),
        (
            ("hierarchical_optimal", "best"),
            "line 11, collectives.hierarchy: \"best\" is not allowed \
                                            (allowed: baseline, enhanced, hierarchical, hierarchical_optimal)"
                .into(),
        ),
        (
            ("[direct, halving_doubling]", "[direct]"),
            "line 12, collectives.all_reduce: 1 algorithms for 2 dimensions \
                                                      (allowed: one algorithm for all, or a list of 2)"
                .into(),
        ),
        (
            ("direct(4)", "direct(0)"),
            format!("line 13, collectives.all_to_all: unknown algorithm \"direct(0)\"; did you mean \"direct\"? {NAMES}"),
        ),
        (
            ("direct(4)", "rings"),
            format!("line 13, collectives.all_to_all: unknown algorithm \"rings\"; did you mean \"ring\"? {NAMES}"),
        ),
        (
            ("direct, halving", "double_binary_tree, halving"),
            "line 12, collectives.all_reduce[0]: double binary tree cannot run reduce_scatter, dimension 1 (allowed: all_reduce, reduce, \
             broadcast and barrier, or another algorithm)".into(),
        ),
        (
            ("algorithm: ring, flat: true", "algorithm: double_binary_tree, flat: true"),
            "line 14, collectives.all_gather.algorithm: double binary tree cannot run all_gather (allowed: all_reduce, reduce, broadcast and \
             barrier, or another algorithm)".into(),
        ),
        (
            ("[16, 8]", "[8, 4, 4]"),
            "line 12, collectives.all_reduce: 2 algorithms for 3 dimensions (allowed: one algorithm for all, or a list of 3)".into(),
        ),
        (("direct(4)", "7"), "line 13, collectives.all_to_all: 7 is not text (allowed: text)".into()),
        (("algorithm: ring, ", ""), format!("line 14, collectives.all_gather: \"algorithm\" is missing {NAMES}")),
        (("chunks: 64, ", "chunks: 0, "), "line 17, scheduler.chunks: 0 is not allowed (allowed: a whole number from 1)".into()),
        (
            ("policy: all_to_all_first", "policy: LIFO"),
            "line 17, scheduler.policy: \"LIFO\" is not allowed; did you mean \"lifo\"? \
                                                        (allowed: lifo, fifo, explicit, all_to_all_first, smallest_first)"
                .into(),
        ),
        (
            ("5 ns", "5 GB"),
            "line 17, scheduler.endpoint_delay: time \"5 GB\" has the unknown unit \"GB\" \
                            (allowed: a number with ps, ns, us, ms or s, such as \"1.5 us\")"
                .into(),
        ),
        (
            ("comm_streams: 2", "comm_streams: 0"),
            "line 17, scheduler.comm_streams: 0 is not allowed (allowed: a whole number from 1, or unlimited)".into(),
        ),
        (
            ("rendezvous: true", "rendezvous: 1"),
            "line 17, scheduler.rendezvous: 1 is neither true nor false (allowed: true, false)".into(),
        ),
        (
            ("[16, 8]", "[16, 9]"),
            "line 18, logical: the logical dimensions hold 144 NPUs, the network 128 \
                                  (allowed: sizes whose product is the number of NPUs)"
                .into(),
        ),
        (("[16, 8]", "[128, 1.5]"), "line 18, logical[1]: 1.5 is not allowed (allowed: a whole number from 1)".into()),
        (
            ("logical", "logicl"),
            "line 18, logicl: unknown key \"logicl\"; did you mean \"logical\"? (allowed: name, \
             source, extends, topology, npus, graph, links, network, npu, remote_memory, \
             collectives, library, scheduler, logical)"
                .into(),
        ),
    ];
    for ((from, to), expected) in cases {
        let expected: Vec<String> =
            expected.split('|').map(|line| format!("p.yml: {line}")).collect();
        assert_eq!(messages(read(&changed(from, to))), expected, "{to}");
    }
}

#[test]
fn broken_graphs_and_files_give_their_message() {
    let graph = |links: &str| {
        format!(
            "graph:\n  npus: [a, b]\n  links:\n    - {{{links}, bandwidth: 1 GB/s, latency: 1 ns}}\n"
        )
    };
    let cases = [
        (
            graph("between: [a, c]"),
            "line 4, graph.links[0].between[1]: there is no node \"c\" (allowed: a, b)",
        ),
        (
            graph("between: [a, a]"),
            "line 4, graph.links[0]: a link from \"a\" to \"a\" (allowed: two different nodes)",
        ),
        (
            graph("between: [a]"),
            "line 4, graph.links[0]: a link between 1 nodes (allowed: two nodes)",
        ),
        (
            graph("from: a"),
            "line 4, graph.links[0]: the ends are unclear (allowed: between: [a, b], or from: a and to: b)",
        ),
        (
            graph("from: a, to: b"),
            "line 4, graph.links: no way from \"b\" to \"a\" (allowed: links by which every NPU reaches every other)",
        ),
        (
            graph("between: [a, b]").replace("[a, b]\n", "[a, a]\n"),
            "line 2, graph: two nodes are called \"a\" (allowed: each name once)",
        ),
        (
            graph("between: [a, b]").replace("[a, b]\n", "0\n"),
            "line 2, graph: there is no NPU (allowed: one NPU or more)",
        ),
        (
            format!("{}topology: R(2)\n", graph("between: [a, b]")),
            "line 2, graph: \"graph\" and \"topology\" exclude each other (allowed: one of them)",
        ),
        (
            "topology: [R(4)\nlinks: 1\n".into(),
            "line 2, column 6: YAML syntax error: illegal placement of ':' indicator (allowed: valid YAML)",
        ),
        (
            "name: a\nname: b\n".into(),
            "line 2, column 1: the key \"name\" is given twice (allowed: valid YAML)",
        ),
        (
            "name: a\n---\nname: b\n".into(),
            "line 3, column 1: a second YAML document starts here (allowed: valid YAML)",
        ),
        (
            String::new(),
            "line 1: the file is empty (allowed: a mapping with name, source, extends, topology, npus, graph, links, network, npu, remote_memory, \
                         collectives, library, scheduler, logical)",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(messages(read(&text)), [format!("p.yml: {expected}")], "{text}");
    }
}

#[test]
fn every_fault_is_reported_at_once() {
    let text =
        changed("450 GB/s", "450").replace("chunks: 64", "chunks: none").replace("80 GB}", "80}");
    assert_eq!(
        read(&text).unwrap_err().len(),
        2,
        "a fabric that cannot be read hides what depends on it, and only that"
    );
    let text =
        changed("80 GB}", "80}").replace("chunks: 64", "chunks: none").replace("direct(4)", "4");
    assert_eq!(read(&text).unwrap_err().len(), 3);
}

fn set(key: &str, value: &str) -> Result<Platform, Vec<Problem>> {
    from_yaml(FULL, "p.yml", &[(key.to_string(), value.to_string())])
}

#[test]
fn overrides_replace_and_add() {
    assert_eq!(
        set("links[1].bandwidth", "100 GB/s").unwrap().fabric.dims()[1].bandwidth,
        Bandwidth(100_000_000_000)
    );
    assert_eq!(set("logical", "[8, 16]").unwrap().logical, Some(vec![8, 16]));
    assert!(set("scheduler.replay_only", "true").unwrap().scheduler.replay_only);
    let minimal = "topology: R(4)\nlinks: {bandwidth: 1 GB/s, latency: 1 ns}\n";
    let made =
        from_yaml(minimal, "p.yml", &[("npu.memory.capacity".into(), "1 GiB".into())]).unwrap();
    assert_eq!(made.npu.memory_capacity, Some(Bytes(1 << 30)));
}

#[test]
fn broken_overrides_give_their_message() {
    let cases = [
        (
            "links[0].bandwidth",
            "fast",
            format!("--set links[0].bandwidth: bandwidth \"fast\" does not start with a number {BANDWIDTH}"),
        ),
        (
            "links[2].bandwidth",
            "1 GB/s",
            "--set links[2].bandwidth: \"links\" has 2 entries (allowed: links[0] to links[1])".into(),
        ),
        (
            "links.bandwidth",
            "1 GB/s",
            "--set links.bandwidth: \"links\" is a list, not a mapping (allowed: links[0].bandwidth)".into(),
        ),
        ("npu[0]", "1", "--set npu[0]: \"npu\" is a mapping, not a list (allowed: npu without [0])".into()),
        ("name.x", "1", "--set name.x: \"name\" is \"dgx-h100-16n\", not a mapping (allowed: a key of a mapping)".into()),
        (
            "links[x]",
            "1",
            "--set links[x]: invalid key (allowed: keys joined by dots, such as links[0].bandwidth)".into(),
        ),
        ("", "1", "--set : invalid key (allowed: keys joined by dots, such as links[0].bandwidth)".into()),
        (
            "logical",
            "[1",
            "--set logical: the value \"[1\" is not valid YAML (allowed: a value as in the file, such as 100 GB/s or [8, 16])".into(),
        ),
        (
            "scheduler.chunk",
            "1",
            "--set scheduler.chunk: unknown key \"chunk\"; did you mean \"chunks\"? (allowed: policy, dimension_order, chunks, active_chunks, \
                                  queues_per_dim, endpoint_delay, comm_streams, rendezvous, replay_only)"
                .into(),
        ),
    ];
    for (key, value, expected) in cases {
        assert_eq!(messages(set(key, value)), [format!("p.yml: {expected}")], "{key}");
    }
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

#[test]
fn inline_platforms_say_what_files_say() {
    let inline_platform = InlinePlatform {
        topology: "R(4)_FC(4)_SW(16)".into(),
        bandwidth: words(&["100 GB/s", "90 GB/s", "50 GB/s"]),
        latency: words(&["1 us"]),
        per: words(&["link", "npu", "link"]),
        set: vec![("scheduler.chunks".into(), "4".into())],
    };
    let platform = inline(&inline_platform).unwrap();
    let rates: Vec<u64> =
        platform.fabric.dims().iter().map(|d| d.bandwidth.0 / 1_000_000_000).collect();
    assert_eq!(
        (rates, platform.scheduler.chunks, platform.name.as_str()),
        (vec![100, 30, 50], 4, "R(4)_FC(4)_SW(16)")
    );
    let short =
        InlinePlatform { bandwidth: words(&["1 GB/s", "1 GB/s"]), ..inline_platform.clone() };
    assert_eq!(
        messages(inline(&short)),
        [
            "Platform(...): bandwidth: 2 values where another list has 3 (allowed: one value for all dimensions, or one a dimension)"
        ]
    );
    let none = InlinePlatform { latency: Vec::new(), ..inline_platform.clone() };
    assert_eq!(
        messages(inline(&none)),
        [
            "Platform(...): latency: 0 values where another list has 3 (allowed: one value for all dimensions, or one a dimension)"
        ]
    );
    let bare = InlinePlatform { bandwidth: words(&["50"]), ..inline_platform };
    assert_eq!(
        messages(inline(&bare))[0],
        format!("Platform(...): links[0].bandwidth: bandwidth \"50\" has no unit {BANDWIDTH}")
    );
}

fn systems() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems")
}

#[test]
fn a_wrong_preset_name_offers_the_near_one() {
    let search = [systems()];
    let problems = load("dgx-h10", &search).unwrap_err();
    assert_eq!(
        problems[0].message,
        "there is no preset and no file of this name; did you mean \"dgx-h100\"?"
    );
    let problems = load("no/such.yml", &search).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "no/such.yml: cannot read the platform file: there is no such file (allowed: the path of a readable platform file)"
    );
}

#[test]
fn every_preset_loads_reads_back_and_names_its_source() {
    let search = [systems()];
    let names = presets(&search);
    assert!(names.len() >= 25, "{names:?}");
    for name in names {
        let platform =
            load(&name, &search).unwrap_or_else(|problems| panic!("{name}: {}", problems[0]));
        assert_eq!(platform.name, name, "the name in the file is the file's");
        assert!(!platform.source.is_empty(), "{name} has no source");
        topology::LinkGraph::new(&platform.fabric)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(from_yaml(&to_yaml(&platform), "again.yml", &[]), Ok(platform), "{name}");
    }
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        Just(Algorithm::Ring),
        prop::option::of(1u32..9).prop_map(|window| Algorithm::Direct { window }),
        Just(Algorithm::HalvingDoubling),
        Just(Algorithm::DoubleBinaryTree),
    ]
}

fn stacked() -> impl Strategy<Value = Fabric> {
    let dim = (0usize..3, 1u32..9, 1u64.., any::<u64>());
    let dim = dim.prop_map(|(b, size, bandwidth, latency)| Dim {
        block: Block::ALL[b],
        size,
        bandwidth: Bandwidth(bandwidth),
        latency: Span(latency),
    });
    prop::collection::vec(dim, 1..5).prop_map(Fabric::Stacked)
}

/// A ring of named NPUs, each link doubled or one way, by way of a switch.
fn explicit() -> impl Strategy<Value = Fabric> {
    (2u32..6, 1u64.., any::<u64>(), any::<bool>()).prop_map(|(npus, bandwidth, latency, hub)| {
        let link = |from, to, extra| GraphLink {
            from,
            to,
            bandwidth: Bandwidth(bandwidth),
            latency: Span(latency / 2 + extra),
            kind: 0,
        };
        let mut links: Vec<GraphLink> =
            (0..npus).map(|i| link(i, (i + 1) % npus, u64::from(i))).collect();
        links.extend((0..npus).filter(|_| hub).flat_map(|i| [link(i, npus, 0), link(npus, i, 0)]));
        let nodes = (0..npus).map(|i| Node::npu(format!("n \"{i}\": é")));
        let nodes = nodes.chain([Node::switch("hub".into(), 1)]).collect();
        Fabric::Graph(GraphFabric { npus, nodes, links, ..GraphFabric::default() })
    })
}

type Scheduling = (usize, u32, u32, u32, u64, u32, bool, bool);

fn platforms() -> impl Strategy<Value = Platform> {
    let fabric = prop_oneof![stacked(), explicit()];
    let npu = (
        ".{0,12}",
        prop::option::of(1u64..),
        prop::option::of(1u64..),
        prop::option::of(any::<u64>()),
        any::<bool>(),
    );
    let choices = prop::collection::vec(
        prop::option::of((prop::collection::vec(algorithm(), 4), any::<bool>())),
        9,
    );
    let paths = prop::collection::vec(prop::option::of("[a-z/.: ]{1,9}"), 9);
    let scheduling = (
        0usize..4,
        1u32..,
        1u32..,
        1u32..,
        any::<u64>(),
        any::<u32>(),
        any::<bool>(),
        any::<bool>(),
    );
    let remote = prop::option::of((0u32..9, any::<u64>(), 1u64..));
    (".{0,20}", fabric, npu, remote, choices, paths, 0usize..4, scheduling).prop_map(assemble)
}

type Parts = (
    String,
    Fabric,
    (String, Option<u64>, Option<u64>, Option<u64>, bool),
    Option<(u32, u64, u64)>,
    Vec<Option<(Vec<Algorithm>, bool)>>,
    Vec<Option<String>>,
    usize,
    Scheduling,
);

fn assemble((text, fabric, npu, remote, choices, paths, hierarchy, s): Parts) -> Platform {
    let mut platform = read("topology: R(4)\nlinks: {bandwidth: 1 GB/s, latency: 1 ns}\n").unwrap();
    let dims = fabric.sizes().len();
    let even = fabric.sizes().iter().all(|size| size.is_power_of_two());
    platform.fabric = fabric;
    platform.name = text.clone();
    platform.source = text;
    platform.npu.name = npu.0;
    platform.npu.peak = npu.1.map(Flops);
    platform.npu.memory_bandwidth = npu.2.map(Bandwidth);
    platform.npu.memory_capacity = npu.3.map(Bytes);
    if let (Some(peak), true) = (platform.npu.peak, npu.4) {
        let memory = platform.npu.memory_bandwidth.unwrap_or(Bandwidth(u64::MAX));
        platform.npu.compute = Compute::Roofline(Roofline::ideal(peak, memory));
    }
    platform.npu.memory_latency = Span(npu.3.unwrap_or(0));
    platform.npu.memory_contention = npu.3.is_none();
    platform.npu.memory_on_overflow = {
        use crate::platform::Exceeded::{Refuse, Spill, Warn};
        [Warn, Refuse, Spill][hierarchy % 3]
    };
    platform.remote_memory =
        remote.map(|(kind, latency, bandwidth)| super::memory_tests::any(kind, latency, bandwidth));
    for (i, choice) in choices.into_iter().enumerate() {
        let kind = CollectiveKind::ALL[i];
        platform.collectives.choices[i] = choice.map(|(mut per_dim, flat)| {
            per_dim.truncate(if flat { 1 } else { dims });
            // What can run everywhere stands in for what cannot run here.
            for algorithm in &mut per_dim {
                let fits = match algorithm {
                    Algorithm::HalvingDoubling => kind == CollectiveKind::AllReduce && even,
                    Algorithm::DoubleBinaryTree => kind == CollectiveKind::AllReduce && flat,
                    _ => true,
                };
                *algorithm = if fits { *algorithm } else { Algorithm::Ring };
            }
            Choice { per_dim, flat }
        });
    }
    for (i, path) in paths.into_iter().enumerate() {
        platform.custom_paths.kinds[i] = path;
    }
    platform.collectives.hierarchy = collectives::HIERARCHIES[hierarchy].1;
    platform.scheduler = crate::platform::Scheduler {
        policy: Policy::WORDS[s.0].1,
        dimension_order: DimensionOrder::WORDS[s.0 % DimensionOrder::WORDS.len()].1,
        chunks: s.1,
        active_chunks: s.2,
        queues_per_dim: s.3,
        endpoint_delay: Span(s.4),
        comm_streams: s.5,
        rendezvous: s.6,
        replay_only: s.7,
    };
    platform
}

proptest! {
    #[test]
    fn shown_platforms_read_back(platform in platforms()) {
        let text = to_yaml(&platform);
        let again = from_yaml(&text, "again.yml", &[]).map(|read| Platform { warnings: Vec::new(), ..read });
        prop_assert_eq!(again, Ok(platform), "{}", text);
    }

    #[test]
    fn no_text_panics(text in "[a-z:\\[\\]{}, 0-9\n\"'&*!|>.-]{0,80}") {
        let _ = read(&text);
    }

    #[test]
    fn no_changed_file_panics(at in 0usize..800, text in "[a-z0-9:\\[\\]{}\n -]{0,6}", drop in 0usize..12) {
        let mut changed: Vec<char> = FULL.chars().collect();
        let at = at.min(changed.len());
        changed.splice(at..(at + drop).min(changed.len()), text.chars());
        if let Err(problems) = read(&changed.into_iter().collect::<String>()) {
            prop_assert!(!problems.is_empty());
        }
    }

    #[test]
    fn no_override_panics(key in "[a-z.\\[\\]0-9_]{0,20}", value in "[a-z0-9:\\[\\]{} ]{0,12}") {
        let _ = set(&key, &value);
    }
}

#[test]
fn an_algorithm_must_suit_its_dimension() {
    let text = |shape: &str, collectives: &str| {
        format!(
            "topology: {shape}\nlinks: {{bandwidth: 1 GB/s, per: npu, latency: 1 ns}}\ncollectives: {{{collectives}}}\n"
        )
    };
    let power = "(allowed: a power of two (1, 2, 4, 8, ...), or ring or direct for any number)";
    let expected = format!(
        "p.yml: line 3, collectives.all_reduce: halving-doubling all_reduce cannot run on 6 NPUs, dimension 2 {power}"
    );
    assert_eq!(messages(read(&text("R(4)_SW(6)", "all_reduce: halving_doubling"))), [expected]);
    assert!(read(&text("R(4)_SW(8)", "all_reduce: halving_doubling")).is_ok());
    // A dimension of one NPU runs nothing.
    assert!(read(&text("R(4)_SW(1)", "all_reduce: [ring, double_binary_tree]")).is_ok());
    // On the last dimension of the multi-rail all-reduce runs a whole all-reduce.
    assert!(read(&text("R(4)_SW(6)", "all_reduce: [ring, double_binary_tree]")).is_ok());
    assert!(
        read(&text("R(4)_SW(6)", "hierarchy: baseline, all_reduce: double_binary_tree")).is_ok()
    );
}
