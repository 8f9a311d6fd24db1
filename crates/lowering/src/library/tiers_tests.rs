//! Networks of several tiers, and generated fabrics, by hand.

use super::tests::{NODE, ask, us};
use super::*;
use crate::shape::{Line, Shape};
use graph::CollectiveKind;
use platform::Platform;
use platform::config::native::from_yaml;

const NETWORK: &str = "  network: {efficiency: 0.9, step_latency: [5 us, 9 us, 15 us], ll_efficiency: [0.5, 0.9], all_to_all_efficiency: 0.5}\n";

fn on(topology: &str, links: &str) -> Platform {
    let text = format!("topology: {topology}\nlinks: {links}\nlibrary:\n{NODE}{NETWORK}");
    from_yaml(&text, "test.yml", &[]).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn place(platform: &Platform) -> Placement {
    Placement::of(&platform.fabric, &Shape::World, |_| true)
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6 * expected, "{found} {expected}");
}

/// 4 nodes in 2 pods: a ring leaves a pod at every second node. Its step there takes 3 us more (two
/// links of 2 us instead of 0.5 us), and 5 GB/s between pods carry as much as 10 GB/s would.
#[test]
fn a_ring_crosses_a_farther_tier_once_a_block() {
    let links = "[{bandwidth: 100 GB/s, latency: 500 ns}, {bandwidth: 100 GB/s, latency: 500 ns}, {bandwidth: 5 GB/s, latency: 2 us}]";
    let pods = on("Switch(4)_Switch(2)_Switch(2)", links);
    let found = place(&pods);
    assert_eq!((found.inside, found.between), (4, 4));
    near(found.network, 10.0);
    let all = ask(&pods, CollectiveKind::AllGather, 1 << 26);
    let carried = 15.0 * f64::from(1 << 26) / (4.0 * 10.0 * 0.9 * 1e3);
    let steps: f64 = 3.0 * (15.0 + 1.5);
    let expected = 30.0 + 12.0 * 4.0 + (steps.powi(4) + carried.powi(4)).powf(0.25);
    assert!((us(&all) - expected).abs() < 0.01, "{} {expected}", us(&all));
    // Dimension by dimension: half of the bytes change pod, and all nodes' halves are 3/4 of all.
    near(found.network_pairs, 5.0 / (0.5 / 0.75));
}

/// Two levels are as they were: the network has what the second dimension has.
#[test]
fn one_tier_has_the_bandwidth_of_its_links() {
    let links = "[{bandwidth: 100 GB/s, latency: 500 ns}, {bandwidth: 25 GB/s, latency: 2 us}]";
    let found = place(&on("Switch(4)_Switch(8)", links));
    assert_eq!((found.network, found.network_pairs, found.step_extra()), (25.0, 25.0, 0.0));
}

/// 8 NPUs at a leaf, 2 spines: 4:1 oversubscribed. A ring leaves the leaf with an eighth of its
/// bytes, so its cards set the pace; an all-to-all sends 24 of 31 messages to other leaves.
#[test]
fn oversubscription_limits_an_all_to_all_and_not_a_ring() {
    let fabric = "{generator: leaf_spine, npus_per_leaf: 8, leaves: 4, spines: 2}";
    let found = place(&on(fabric, "{bandwidth: 50 GB/s, latency: 1 us}"));
    assert_eq!((found.inside, found.between), (1, 32));
    near(found.network, 50.0);
    near(found.network_pairs, 12.5 / (24.0 / 31.0));
    // Messages to other leaves take two links more.
    near(found.farthest_extra(), 2.0);
}

/// DGX-1: 8 V100 share 4 cards of 12.5 GB/s, 6.25 GB/s each; rings over NVLink in a node, three
/// cycles both ways at 25 GB/s.
#[test]
fn npus_that_share_cards_have_a_part_of_one() {
    let fabric = "{generator: nested, inner: {generator: cube_mesh}, outer: {generator: leaf_spine, npus_per_leaf: 16, leaves: 1, spines: 1}, nics: 4}";
    let links = "[{bandwidth: 25 GB/s, latency: 200 ns}, {bandwidth: 15.75 GB/s, latency: 300 ns}, {bandwidth: 12.5 GB/s, latency: 1 us}, {bandwidth: 12.5 GB/s, latency: 1 us}]";
    let found = place(&on(fabric, links));
    assert_eq!((found.inside, found.between, found.link), (8, 4, 150.0));
    near(found.network, 6.25);
}

/// NVL72: 18 links of 50 GB/s. Groups within a node, and of one NPU of each node.
#[test]
fn groups_lie_in_nodes_and_across_them() {
    let fabric = "{generator: rail_only, npus_per_node: 72, nodes: 4, switches_per_node: 18}";
    let platform =
        on(fabric, "[{bandwidth: 50 GB/s, latency: 250 ns}, {bandwidth: 100 GB/s, latency: 1 us}]");
    let of = |dim, stride, size| {
        let shape = Shape::Lines(vec![Line { dim, stride, size }]);
        let found = Placement::of(&platform.fabric, &shape, |_| true);
        (found.inside, found.between, found.link, found.network)
    };
    assert_eq!(of(0, 1, 36), (36, 1, 900.0, 100.0));
    assert_eq!(of(1, 72, 4), (1, 4, 900.0, 100.0));
}

/// Each NPU of a mesh of 4 has a link of 50 GB/s to every other: two of them share one, three share
/// two.
#[test]
fn some_members_of_a_mesh_have_the_links_between_them() {
    let fabric = "{generator: nested, inner: {generator: full_mesh, npus: 4}, outer: {generator: leaf_spine, npus_per_leaf: 2, leaves: 2, spines: 2}, rails: 4}";
    let links = "[{bandwidth: 50 GB/s, latency: 250 ns}, {bandwidth: 25 GB/s, latency: 1 us}, {bandwidth: 25 GB/s, latency: 1 us}]";
    let platform = on(fabric, links);
    let of = |size| {
        let shape = Shape::Lines(vec![Line { dim: 0, stride: 1, size }]);
        Placement::of(&platform.fabric, &shape, |_| true).link
    };
    assert_eq!([of(2), of(3), of(4)], [50.0, 100.0, 150.0]);
}

/// A torus passes messages through NPUs, which no library does.
#[test]
fn fabrics_that_libraries_do_not_run_on_are_refused() {
    let text = |topology: &str| {
        let links = "{bandwidth: 50 GB/s, latency: 1 us}";
        let text = format!("topology: {topology}\nlinks: {links}\nlibrary:\n{NODE}{NETWORK}");
        from_yaml(&text, "test.yml", &[]).unwrap_err()[0].message.clone()
    };
    let fabric = "the library has no rings for this fabric";
    assert_eq!(text("{generator: torus, sizes: [4, 4]}"), fabric);
    let nodes = "{generator: nested, inner: {generator: full_mesh, npus: 4}, outer: {generator: torus, sizes: [4]}, rails: 4}";
    assert_eq!(text(nodes), fabric);
    assert_eq!(text("Switch(4)_Ring(4)_Switch(2)"), "the library has no rings for this topology");
}
