//! Failed links and nodes.

use super::testing::*;
use super::*;

const FABRIC: &str = "topology: {generator: leaf_spine, npus_per_leaf: 2, leaves: 3, spines: 2}
links: {bandwidth: 50 GB/s, latency: 1 us}
";

fn problems(text: &str) -> Vec<String> {
    let shown = |p: &graph::Problem| format!("{}: {}", p.place, p.message);
    read(text).unwrap_err().iter().map(shown).collect()
}

#[test]
fn what_has_failed_is_gone_and_reads_back() {
    let text = format!("{FABRIC}failed: {{links: [leaf0-spine1], nodes: [spine0]}}\n");
    let cut = problems(&text);
    assert_eq!(
        cut,
        ["line 3, failed: npu0 and npu1 are cut off: no way is left to the 4 other NPUs"]
    );
    let platform = read(&format!("{FABRIC}failed: {{links: [leaf0-spine1]}}\n")).unwrap();
    let topology::Fabric::Graph(graph) = &platform.fabric else { panic!("a graph") };
    // 6 cables to NPUs and 6 between leaves and spines, less one.
    assert_eq!((graph.links.len(), graph.all_links().len()), (22, 24));
    assert_eq!(read(&to_yaml(&platform)).unwrap(), platform);
}

#[test]
fn an_explicit_graph_with_failures_reads_back() {
    let text = "graph:
  npus: [gpu-0, gpu-1, gpu-2]
  links:
  - {between: [gpu-0, gpu-1], bandwidth: 1 GB/s, latency: 1 us, count: 2}
  - {between: [gpu-1, gpu-2], bandwidth: 1 GB/s, latency: 1 us}
  - {between: [gpu-2, gpu-0], bandwidth: 1 GB/s, latency: 1 us}
failed: {links: [gpu-1-gpu-0]}
";
    let platform = read(text).unwrap();
    assert_eq!(read(&to_yaml(&platform)).unwrap(), platform);
    let topology::Fabric::Graph(graph) = &platform.fabric else { panic!("a graph") };
    assert_eq!(graph.links.len(), 4);
}

#[test]
fn names_that_are_not_there_are_all_said() {
    let text =
        format!("{FABRIC}failed: {{links: [leaf0-leaf1, leaf9-spine0], nodes: [npu3, core0]}}\n");
    assert_eq!(
        problems(&text),
        [
            "line 3, failed.nodes[0]: npu3 is cut off: it has failed, and rank 3 runs on it",
            "line 3, failed.nodes[1]: no node is called \"core0\"",
            "line 3, failed.links[0]: no link joins leaf0 and leaf1",
            "line 3, failed.links[1]: no link is called \"leaf9-spine0\"",
        ]
    );
}

#[test]
fn blocks_name_the_generator_that_has_names() {
    let text = "topology: R(4)_R(2)\nlinks: {bandwidth: 50 GB/s, latency: 1 us}\n\
                failed: {links: [npu0-npu1]}\n";
    let problems = read(text).unwrap_err();
    assert_eq!(problems[0].help, "topology: {generator: torus, sizes: [4, 2]}");
}
