//! Network cards that dimensions share.

use super::testing::*;
use super::*;

const SHARED: &str = "topology: SW(4)_SW(4)_R(4)
links:
- {bandwidth: 450 GB/s, latency: 300 ns}
- {bandwidth: 50 GB/s, latency: 1 us, nic: a}
- {bandwidth: 25 GB/s, latency: 1 us, nic: a}
nics: [{name: a, bandwidth: 50 GB/s}]
";

#[test]
fn dimensions_that_share_a_card_are_a_graph_with_coordinates() {
    let platform = read(SHARED).unwrap();
    assert_eq!((platform.fabric.npus(), platform.fabric.sizes()), (64, vec![4, 4, 4]));
    let topology::Fabric::Graph(graph) = &platform.fabric else { panic!("a graph") };
    // Each NPU has a link to its node's switch and one to its card; 16 + 16 switches.
    assert_eq!(graph.nodes.len(), 64 + 32 + 64);
    assert!((0..64).all(|npu| graph.links.iter().filter(|l| l.from == npu).count() == 2));
    assert_eq!(read(&to_yaml(&platform)).unwrap(), platform);
    assert_eq!(read(&format!("{SHARED}npus: 32\n")).unwrap().fabric.sizes(), [4, 4, 2]);
}

#[test]
fn cards_that_do_not_fit_are_refused() {
    let problems = |from: &str, to: &str| -> Vec<String> {
        let shown = |p: &graph::Problem| format!("{}: {}", p.place, p.message);
        read(&SHARED.replace(from, to)).unwrap_err().iter().map(shown).collect()
    };
    assert_eq!(
        problems("1 us, nic: a}\n- {", "1 us, nic: b}\n- {"),
        ["line 4, links[1].nic: unknown card \"b\""]
    );
    assert_eq!(
        problems("nics: [", "nics: [{name: b, bandwidth: 1 GB/s}, "),
        ["line 6, nics[0]: no dimension uses the card \"b\""]
    );
    assert_eq!(
        problems("nics: [{name: a, bandwidth: 50 GB/s}]", ""),
        ["line 4, links[1].nic: there are no cards to share"]
    );
    assert_eq!(
        problems("SW(4)_SW(4)_R(4)", "SW(4)_SW(4)_R(512)"),
        ["line 6, nics: 8192 NPUs with cards"]
    );
}
