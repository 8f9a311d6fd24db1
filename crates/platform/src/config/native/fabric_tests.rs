//! Topologies and explicit graphs.

use super::testing::*;
use super::*;
use topology::{Fabric, GraphFabric, GraphLink, GraphNode};
use units::{Bandwidth, Span};

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
    let nodes = vec![GraphNode::npu(a), GraphNode::npu(b), GraphNode::switch(spine, 1)];
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
fn broken_graphs_and_files_give_their_message() {
    let graph = |links: &str| {
        format!(
            "graph:\n  npus: [a, b]\n  links:\n    - {{{links}, bandwidth: 1 GB/s, latency: 1 ns}}\n"
        )
    };
    let cases = [
        (
            graph("between: [a, c]"),
            "line 4, graph.links[0].between[1]: unknown node \"c\" (allowed: a, b)",
        ),
        (
            graph("between: [a, a]"),
            "line 4, graph.links[0]: a link from \"a\" to \"a\" (allowed: two different nodes)",
        ),
        (
            graph("between: [a]"),
            "line 4, graph.links[0]: a link needs two nodes, not 1 (allowed: between: [a, b])",
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
            "line 2, graph: the graph has no NPU (allowed: one NPU or more)",
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
            "line 1: the file is empty (allowed: a mapping with name, source, measured, extends, topology, npus, graph, links, nics, failed, network, npu, remote_memory, \
                         collectives, library, scheduler, logical)",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(messages(read(&text)), [format!("p.yml: {expected}")], "{text}");
    }
}

#[test]
fn routing_is_a_policy_of_the_network() {
    let text = |routing: &str| {
        format!(
            "topology: R(8)\nlinks: {{bandwidth: 50 GB/s, latency: 1 us}}\n\
             network: {{routing: {routing}}}\n"
        )
    };
    for routing in ["auto", "lowest", "d_mod_k", "hash", "hash(7)", "spray"] {
        let platform = read(&text(routing)).unwrap();
        assert_eq!(platform.network.routing.to_string(), routing);
        assert_eq!(read(&to_yaml(&platform)).unwrap().network, platform.network);
    }
    let refused = read(&text("ecmp")).unwrap_err();
    assert!(refused[0].to_string().contains("allowed: auto, lowest, d_mod_k"), "{refused:?}");
}

/// Table IV of ASTRA-SIM (ISPASS 2020): two rings of both ways are four links by which an NPU sends.
/// Each has 25 GB/s, 94 % of it data.
#[test]
fn links_side_by_side_carry_together_what_headers_leave() {
    let bandwidths = |link: &str| {
        let text = format!("topology: Ring(4)\nlinks: {{latency: 200 ns, {link}}}\n");
        let Fabric::Stacked(dims) = read(&text).unwrap().fabric else { unreachable!() };
        dims.iter().map(|dim| dim.bandwidth).collect::<Vec<_>>()
    };
    let of = |gb: u64| vec![Bandwidth(gb * 1_000_000_000)];
    assert_eq!(bandwidths("bandwidth: 25 GB/s, count: 2, efficiency: 94 %"), of(47));
    assert_eq!(bandwidths("bandwidth: 25 GB/s, count: 4, per: npu, efficiency: 0.94"), of(47));
    assert_eq!(bandwidths("bandwidth: 25 GB/s, count: 4"), of(100));
    let faults = |link: &str| {
        let text = format!("topology: R(4)\nlinks: {{bandwidth: 1 GB/s, latency: 0 ns, {link}}}\n");
        read(&text).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        faults("efficiency: 1.2"),
        [
            "p.yml: line 2, links.efficiency: 1.2 is more than the whole link (allowed: a ratio up to 1, such as 0.94 or 94 %)"
        ]
    );
    assert_eq!(
        faults("count: 0"),
        ["p.yml: line 2, links.count: 0 is not allowed (allowed: a whole number from 1 to 65536)"]
    );
}
