//! Predictions against the model worked out by hand and against measurements.

use super::rings;
use super::*;
use crate::shape::Shape;
use graph::CollectiveKind;
use platform::Platform;
use platform::config::native::{from_yaml, load, presets, to_yaml};
use platform::library::{Algorithm, Protocol};
use proptest::prelude::{prop_assert, proptest};
use topology::Fabric;

pub(super) const NODE: &str = "  name: nccl
  call_overhead: 10 us
  node: {efficiency: 0.8, step_latency: [1 us, 2 us, 4 us], simple_overhead: 20 us, ll_efficiency: [0.25, 0.9], tree_efficiency: 0.5, peer_latency: 1 us, all_to_all_efficiency: 0.5}
";

pub(super) fn platform(topology: &str, more: &str) -> Platform {
    let text = format!(
        "topology: {topology}\nlinks: {{bandwidth: 100 GB/s, per: npu, latency: 500 ns}}\nlibrary:\n{NODE}{more}"
    );
    from_yaml(&text, "test.yml", &[]).unwrap_or_else(|problems| panic!("{problems:?}"))
}

pub(super) fn ask(platform: &Platform, kind: CollectiveKind, bytes: u64) -> Prediction {
    let place = Placement::of(&platform.fabric, &Shape::World, |_| true);
    predict(platform.library.as_ref().expect("has one"), &place, kind, bytes).expect("has a way")
}

pub(super) fn us(prediction: &Prediction) -> f64 {
    prediction.time.as_ns() / 1e3
}

/// Computed by hand: 8 members, 100 GB/s. Small: LL ring 10 + 14 * 1; large: Simple 30 + 14 * 4 +
/// 1.75 S / 80 GB/s.
#[test]
fn protocols_take_over_as_sizes_grow() {
    let platform = platform("Switch(8)", "");
    let small = ask(&platform, CollectiveKind::AllReduce, 8);
    assert_eq!((small.algorithm, small.protocol), (Algorithm::Ring, Protocol::Ll));
    assert!((us(&small) - 24.0).abs() < 0.01);
    let large = ask(&platform, CollectiveKind::AllReduce, 1 << 30);
    assert_eq!((large.algorithm, large.protocol), (Algorithm::Ring, Protocol::Simple));
    let expected = 30.0 + 56.0 + 1.75 * (1u64 << 30) as f64 / 80e3;
    assert!((us(&large) - expected).abs() < 0.01, "{} {expected}", us(&large));
    let middle = ask(&platform, CollectiveKind::AllReduce, 4 << 20);
    assert_eq!(middle.protocol, Protocol::Ll128);
}

/// All-gather sizes are contributions: 7/8 of 8 times as much at 80 GB/s.
#[test]
fn gathered_sizes_are_contributions() {
    let gathered = ask(&platform("Switch(8)", ""), CollectiveKind::AllGather, 1 << 27);
    let expected = 30.0 + 28.0 + 0.875 * (1u64 << 30) as f64 / 80e3;
    assert!((us(&gathered) - expected).abs() < 0.01);
}

/// Two nodes of 4 whose network carries 100 GB/s a GPU at 90 %: the nodes' rings set the time; a
/// tree of two moves half as much.
#[test]
fn the_slower_of_node_and_network_sets_the_time() {
    let network = "  network: {efficiency: 0.9, step_latency: [5 us, 9 us, 15 us], ll_efficiency: [0.5, 0.9]}\n";
    let two = platform("Switch(4)_Switch(2)", network);
    let large = ask(&two, CollectiveKind::AllReduce, 1 << 30);
    let expected = 30.0 + 12.0 * 4.0 + 1.75 * (1u64 << 30) as f64 / 80e3;
    assert!((us(&large) - expected).abs() < 0.01, "{large:?} {expected}");
    let mut slow = two.clone();
    if let Fabric::Stacked(dims) = &mut slow.fabric {
        dims[1].bandwidth = units::Bandwidth(5_000_000_000);
    }
    let tree = ask(&slow, CollectiveKind::AllReduce, 1 << 30);
    assert_eq!(tree.algorithm, Algorithm::Tree);
    let expected = 30.0 + 2.0 * (3.0 * 4.0 + 15.0) + (1u64 << 30) as f64 / (4.0 * 5.0 * 0.9 * 1e3);
    assert!((us(&tree) - expected).abs() < 0.01, "{} {expected}", us(&tree));
}

/// Between nodes only the network's protocols are offered, within a node all: LL128 is the fastest
/// here in the middle of the sizes, and without it the better of LL and Simple.
#[test]
fn a_network_offers_its_protocols() {
    let network =
        "  network: {efficiency: 0.9, step_latency: [5 us, 6 us, 50 us], ll_efficiency: [0.1, 0.9]";
    let all = platform("Switch(4)_Switch(2)", &format!("{network}}}\n"));
    let two = platform("Switch(4)_Switch(2)", &format!("{network}, protocols: [ll, simple]}}\n"));
    let simple = platform("Switch(4)_Switch(2)", &format!("{network}, protocols: [simple]}}\n"));
    let bytes = 1 << 20;
    let of = |platform: &Platform| ask(platform, CollectiveKind::AllReduce, bytes);
    assert_eq!(of(&all).protocol, Protocol::Ll128);
    assert_ne!(of(&two).protocol, Protocol::Ll128);
    assert!(of(&two).time > of(&all).time && of(&simple).time >= of(&two).time);
    assert_eq!(of(&simple).protocol, Protocol::Simple);
    let node = platform("Switch(4)", &format!("{network}, protocols: [simple]}}\n"));
    assert_ne!(ask(&node, CollectiveKind::AllReduce, 8).protocol, Protocol::Simple);
}

/// Steps between nodes and the transfer of a ring go on side by side: of 2 * 500 us and 1.75 S / 80
/// GB/s = 1000 us both together take 2^(1/4) of one.
#[test]
fn network_steps_hide_behind_the_transfer() {
    let network = "  network: {efficiency: 0.9, step_latency: [5 ms, 5 ms, 500 us], tree_level_latency: [5 ms, 5 ms, 5 ms], ll_efficiency: [0.5, 0.9]}\n";
    let two = platform("Switch(4)_Switch(2)", network);
    let bytes = (1000.0 * 80e3 / 1.75) as u64;
    let ring = ask(&two, CollectiveKind::AllReduce, bytes);
    assert_eq!((ring.algorithm, ring.protocol), (Algorithm::Ring, Protocol::Simple));
    let expected = 30.0 + 12.0 * 4.0 + 1000.0 * 2f64.powf(0.25);
    assert!((us(&ring) - expected).abs() < 0.01, "{} {expected}", us(&ring));
}

/// A message of at most 192 bytes costs 12 us more with each of 4 members of the other node: 8 *
/// 192 bytes in all are short, one more is not.
#[test]
fn short_messages_take_longer() {
    let ask = |short: &str, bytes: u64| {
        let network = format!(
            "  network: {{efficiency: 0.9, step_latency: [5 us, 9 us, 15 us], ll_efficiency: [0.5, 0.9], peer_latency: 2 us{short}}}\n"
        );
        us(&ask(&platform("Switch(4)_Switch(2)", &network), CollectiveKind::AllToAll, bytes))
    };
    let short = ", inline: {threshold: 192 B, peer_latency: 12 us}";
    assert!((ask(short, 8 * 192) - ask("", 8 * 192) - 48.0).abs() < 1e-6);
    assert_eq!(ask(short, 8 * 192 + 8), ask("", 8 * 192 + 8));
}

/// The switch adds up: (1 + 1/8) S at 60 GB/s.
#[test]
fn nvls_moves_the_buffer_once() {
    let nvls = platform(
        "Switch(8)",
        "  nvls: {efficiency: 0.6, latency: 30 us, ramp_latency: 2 us, min_ranks: 4}\n",
    );
    let large = ask(&nvls, CollectiveKind::AllReduce, 1 << 30);
    assert_eq!(large.algorithm, Algorithm::Nvls);
    let expected = 40.0 + 2.0 * 32.0 + 1.125 * (1u64 << 30) as f64 / 60e3;
    assert!((us(&large) - expected).abs() < 0.01, "{large:?} {expected}");
    assert_eq!(ask(&nvls, CollectiveKind::AllGather, 1 << 27).algorithm, Algorithm::Ring);
}

/// Twice the model at 1 KiB, half of it at 4 KiB, where the model is flat: between them the time
/// goes straight over the square root, at 2.25 KiB halfway; other collectives as they were.
#[test]
fn corrections_multiply_what_the_model_says() {
    let of = "collective: all_reduce, ranks_per_node: 8, nodes: 1, sizes: [1 KiB, 4 KiB], factors: [2, 0.5]";
    let corrected = platform("Switch(8)", &format!("  corrections: [{{{of}}}]\n"));
    let plain = platform("Switch(8)", "");
    let time = |platform: &Platform, bytes| us(&ask(platform, CollectiveKind::AllReduce, bytes));
    for (bytes, factor) in [(8, 2.0), (1024, 2.0), (4096, 0.5), (1 << 30, 0.5)] {
        let expected = factor * time(&plain, bytes);
        assert!((time(&corrected, bytes) / expected - 1.0).abs() < 1e-6, "{bytes}: {expected}");
    }
    let halfway = (time(&corrected, 1024) + time(&corrected, 4096)) / 2.0;
    assert!((time(&corrected, 2304) / halfway - 1.0).abs() < 1e-6, "{halfway}");
    assert_eq!(
        ask(&corrected, CollectiveKind::AllGather, 1024),
        ask(&plain, CollectiveKind::AllGather, 1024)
    );
    let read = from_yaml(&to_yaml(&corrected), "p.yml", &[]).expect("reads back");
    assert_eq!(read.library, corrected.library);
}

/// Where the model changes as the corrected times do, the time between two of them goes as far as
/// the model's has gone.
#[test]
fn corrected_times_change_as_the_model_does() {
    let of = "collective: all_reduce, ranks_per_node: 8, nodes: 1, sizes: [16 MiB, 1 GiB], factors: [1.5, 1.1]";
    let corrected = platform("Switch(8)", &format!("  corrections: [{{{of}}}]\n"));
    let plain = platform("Switch(8)", "");
    let time = |platform: &Platform, bytes| us(&ask(platform, CollectiveKind::AllReduce, bytes));
    let (low, middle, high) = (1 << 24, 1 << 27, 1 << 30);
    let [first, model, last] = [low, middle, high].map(|bytes| time(&plain, bytes));
    let expected = 1.5 * first + (1.1 * last - 1.5 * first) * (model - first) / (last - first);
    assert!((time(&corrected, middle) / expected - 1.0).abs() < 1e-6, "{expected}");
}

proptest! {
    /// Between two sizes a time lies between theirs, so that more bytes take less only where that
    /// was measured.
    #[test]
    fn corrected_times_stay_between_their_neighbours(a in 500_000u32..2_000_000, b in 500_000u32..2_000_000, part in 0u64..=1000) {
        let (low, high) = (1u64 << 16, 1u64 << 22);
        let factors = format!("factors: [{:.6}, {:.6}]", f64::from(a) / 1e6, f64::from(b) / 1e6);
        let of = format!("collective: all_reduce, ranks_per_node: 8, nodes: 1, sizes: [{low} B, {high} B], {factors}");
        let corrected = platform("Switch(8)", &format!("  corrections: [{{{of}}}]\n"));
        let time = |bytes| us(&ask(&corrected, CollectiveKind::AllReduce, bytes));
        let between = time(low + (high - low) / 1000 * part);
        let (first, last) = (time(low), time(high));
        prop_assert!(between >= first.min(last) - 1e-5 && between <= first.max(last) + 1e-5, "{first} {between} {last}");
    }
}

/// Every time and part that a platform file may set can be changed by its key, and nothing else.
#[test]
fn parameters_change_by_their_keys() {
    let more =
        "  network: {efficiency: 0.9, step_latency: [5 us, 9 us, 15 us], ll_efficiency: [0.5, 0.9], inline: {threshold: 8 B, peer_latency: 1 us}}
  nvls: {efficiency: 0.6, latency: 30 us}\n";
    let mut changed = platform("Switch(4)_Switch(2)", more).library.expect("has one");
    for (key, value) in [
        ("call_overhead", 11.0),
        ("node.step_latency[2]", 4.5),
        ("network.tree_level_latency[0]", 6.0),
        ("network.inline.peer_latency", 2.0),
    ] {
        changed.change(key, value).expect("a parameter");
    }
    changed.change("nvls.efficiency", 0.7).expect("a parameter");
    assert_eq!((changed.call_overhead.0, changed.node.step_latency[2].0), (11_000_000, 4_500_000));
    let network = changed.network.as_ref().expect("has one");
    assert_eq!(
        (network.tree_level_latency[0].0, network.inline.as_ref().map(|s| s.peer_latency.0)),
        (6_000_000, Some(2_000_000))
    );
    assert_eq!(changed.nvls.as_ref().map(|n| n.efficiency.0), Some(700_000));
    for key in [
        "name",
        "node.step_latency[3]",
        "node.ramp_up",
        "node",
        "network.most",
        "network.cross_rail_efficiency",
        "",
    ] {
        assert_eq!(changed.change(key, 1.0), Err(key));
    }
}

#[test]
fn nothing_is_faster_than_the_host_issues_calls() {
    let slow = platform("Switch(8)", "  min_call_interval: 50 us\n");
    assert_eq!(us(&ask(&slow, CollectiveKind::AllReduce, 8)), 50.0);
}

/// Cycles over a DGX-1's GPUs as its peak bandwidths show them: 3 over 8 (134 of 150 GB/s
/// measured), 2 over a quad, 1 over 3 or 6.
#[test]
fn rings_of_a_cube_mesh() {
    let text = std::fs::read_to_string("../../systems/nvidia/dgx1-v100.yml").expect("the preset");
    let cube = from_yaml(&text, "../../systems/nvidia/dgx1-v100.yml", &[]).expect("reads");
    let Fabric::Graph(graph) = &cube.fabric else { panic!("a graph") };
    let count = |n: u32| rings::pack(graph, &(0..n).collect::<Vec<_>>());
    let bandwidths: Vec<f64> = [2, 3, 4, 6, 8].into_iter().map(|n| count(n).bandwidth).collect();
    assert_eq!(bandwidths, [25.0, 50.0, 100.0, 50.0, 150.0]);
    let five = count(5);
    assert!(five.cycles.is_empty(), "GPU 4 is joined to GPU 0 only");
    assert_eq!(five.tree, [(3, 0), (4, 0), (2, 3), (1, 2)], "the chain 4, 0, 3, 2, 1");
    assert_eq!(five.tree_bandwidth, 50.0, "double links");
    for cycle in count(8).cycles {
        let mut sorted = cycle.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..8).collect::<Vec<_>>());
    }
}

/// Five GPUs of a DGX-1 have no ring. Large: a tree of double links, at half of 50 GB/s and the
/// library's parts of it; an all-gather goes through the host.
#[test]
fn five_of_a_cube_mesh_build_a_tree() {
    let search = [std::path::PathBuf::from("../../systems")];
    let five = load("dgx1-v100", &search).expect("the preset");
    let Fabric::Graph(graph) = &five.fabric else { panic!("a graph") };
    let library = five.library.as_ref().expect("has one");
    let shape = Shape::Lines(vec![crate::shape::Line { dim: 0, stride: 1, size: 5 }]);
    let place = Placement::of(&Fabric::Graph(graph.clone()), &shape, |_| true);
    let bytes = 1u64 << 30;
    let reduced = predict(library, &place, CollectiveKind::AllReduce, bytes).expect("has a way");
    assert_eq!(reduced.name(), "Tree Simple");
    let node = &library.node;
    let rate = 0.5 * 50.0 * node.efficiency.as_f64() * node.tree_efficiency.as_f64();
    let start = library.call_overhead.as_us() + node.simple_overhead.as_us();
    let expected = start + 2.0 * 4.0 * node.step_latency[2].as_us() + bytes as f64 / rate / 1e3;
    assert!((us(&reduced) / expected - 1.0).abs() < 1e-6, "{reduced:?} {expected}");
    let gathered = predict(library, &place, CollectiveKind::AllGather, bytes / 5).expect("a way");
    let host = node.host_bandwidth.expect("has one").as_gb_per_s();
    assert!(us(&gathered) > 0.8 * bytes as f64 / host / 1e3);
}

/// A rack of hosts of 4: rings of 4 neighbours have the values of a node. Rings of 8, or of 4 that
/// are 4 apart, have those of several hosts, half of the rate and twice the steps.
#[test]
fn rings_over_several_hosts_have_values_of_their_own() {
    let hosts = "hosts: {ranks: 4, efficiency: 0.4, step_latency: [2 us, 4 us, 8 us]}, efficiency";
    let rack = from_yaml(
        &format!(
            "topology: Switch(16)\nlinks: {{bandwidth: 100 GB/s, per: npu, latency: 500 ns}}\nlibrary:\n{}",
            NODE.replacen("{efficiency", &format!("{{{hosts}"), 1)
        ),
        "test.yml",
        &[],
    )
    .unwrap_or_else(|problems| panic!("{problems:?}"));
    let library = rack.library.as_ref().expect("has one");
    let took = |size: u32, stride: u32| {
        let shape = Shape::Lines(vec![crate::shape::Line { dim: 0, stride, size }]);
        let place = Placement::of(&rack.fabric, &shape, |_| true);
        let found =
            predict(library, &place, CollectiveKind::AllGather, (1 << 30) / u64::from(size));
        us(&found.expect("a way"))
    };
    let by_hand = |n: f64, step: f64, rate: f64| {
        30.0 + (n - 1.0) * step + (n - 1.0) / n * (1u64 << 30) as f64 / rate / 1e3
    };
    assert!((took(4, 1) - by_hand(4.0, 4.0, 80.0)).abs() < 0.01);
    assert!((took(4, 4) - by_hand(4.0, 8.0, 40.0)).abs() < 0.01);
    assert!((took(8, 1) - by_hand(8.0, 8.0, 40.0)).abs() < 0.01);
}

/// Trees of a node that reach 8 GB/s of 4 * 100 GB/s: half of it over three nodes and more, all of it
/// over two.
#[test]
fn trees_have_a_limited_number_of_channels() {
    let network = "  network: {efficiency: 0.9, step_latency: [5 ms, 5 ms, 5 ms], tree_level_latency: [1 us, 1 us, 1 us], ll_efficiency: [0.5, 0.9], tree_bandwidth_max: 8 GB/s}\n";
    let bytes = 1u64 << 26;
    for (nodes, rate) in [(2, 8.0), (4, 4.0)] {
        let found = ask(
            &platform(&format!("Switch(4)_Switch({nodes})"), network),
            CollectiveKind::AllReduce,
            bytes,
        );
        assert_eq!(found.algorithm, Algorithm::Tree);
        let expected = bytes as f64 / rate / 1e3;
        assert!((us(&found) / expected - 1.0).abs() < 5e-3, "{found:?} {expected}");
    }
}

/// Rings over 8 nodes with a loss of 0.25: 1.5 times the bytes' time on two.
#[test]
fn many_nodes_slow_rings() {
    let network = "  network: {efficiency: 0.5, step_latency: [1 us, 1 us, 1 us], ll_efficiency: [0.5, 0.9], scale_loss: 0.25}\n";
    let mut slow = platform("Switch(4)_Switch(8)", network);
    if let Fabric::Stacked(dims) = &mut slow.fabric {
        dims[1].bandwidth = units::Bandwidth(10_000_000_000);
    }
    let found = ask(&slow, CollectiveKind::AllGather, 1 << 30);
    let bytes = 31.0 * (1u64 << 30) as f64;
    let expected = bytes / (4.0 * 10.0 * 0.5 / 1.5) / 1e3;
    assert!((us(&found) / expected - 1.0).abs() < 1e-3, "{found:?} {expected}");
}

/// An all-gather of 4 bytes over 8 nodes of 4: its ring has 31 steps, 7 of them between nodes, and
/// a link between nodes takes 31 messages. At 100 us each, 3100 us are all there is to see; at 10 ns
/// each, the 7 steps of 5 us are.
#[test]
fn messages_of_a_ring_take_turns_at_a_card() {
    let network = |interval: &str| {
        let between =
            "efficiency: 0.9, step_latency: [5 us, 5 us, 5 us], ll_efficiency: [0.5, 0.9]";
        format!("  network: {{{between}, step_interval: {interval}}}\n")
    };
    for (interval, waits) in [("100 us", 3100.0), ("10 ns", 35.0)] {
        let eight = platform("Switch(4)_Switch(8)", &network(interval));
        let found = ask(&eight, CollectiveKind::AllGather, 4);
        let expected = 10.0 + 24.0 + waits;
        assert!((us(&found) / expected - 1.0).abs() < 1e-3, "{found:?} {expected}");
    }
    // Nothing of it within a node.
    let one = platform("Switch(4)", "");
    let alone = platform("Switch(4)", &network("100 us"));
    let ask = |platform| us(&ask(platform, CollectiveKind::AllGather, 4));
    assert!((ask(&one) - ask(&alone)).abs() < 1e-9);
}

/// Every preset with a library, printed and read again, is the same platform.
#[test]
fn presets_read_back() {
    let mut with_library = 0;
    let search = [std::path::PathBuf::from("../../systems")];
    for name in presets(&search) {
        let platform =
            load(&name, &search).unwrap_or_else(|problems| panic!("{name} {problems:?}"));
        with_library += u32::from(platform.library.is_some());
        let again = from_yaml(&to_yaml(&platform), "p.yml", &[]).expect("reads back");
        assert_eq!(platform.library, again.library, "{name}");
    }
    assert!(with_library > 20);
}

/// Faults are named with the allowed values, all of them at once.
#[test]
fn faults_are_listed() {
    let fault = |topology: &str, library: &str| {
        let text = format!(
            "topology: {topology}\nlinks: {{bandwidth: 1 GB/s, latency: 1 us}}\nlibrary:\n{library}"
        );
        let problems = from_yaml(&text, "p.yml", &[]).expect_err("is refused");
        problems.iter().map(|p| format!("{}: {}", p.place, p.message)).collect::<Vec<_>>()
    };
    assert_eq!(
        fault("Ring(4)", NODE),
        ["line 4, library: the library has no rings for this topology"]
    );
    assert_eq!(fault("Switch(4)_Switch(2)", NODE), ["line 4, library: \"network\" is missing"]);
    let missing = fault(
        "Switch(4)",
        "  name: mpi\n  node: {efficiency: 0.8, step_latency: [1 us, 2 us], ll_efficiency: [0.5, 0.9], tre: 1}\n",
    );
    assert_eq!(
        missing,
        [
            "line 4, library.name: \"mpi\" is not allowed",
            "line 4, library: \"call_overhead\" is missing",
            "line 5, library.node.tre: unknown key \"tre\"",
            "line 5, library.node.step_latency: 2 values instead of 3",
        ]
    );
    let of = "collective: all_reduce, ranks_per_node: 4, nodes: 1";
    let corrected = format!(
        "{NODE}  corrections:\n    - {{{of}, sizes: [8 B, 4 B], factors: [1, 2]}}\n    - {{{of}, sizes: [8 B], factors: [1, 2]}}\n"
    );
    assert_eq!(
        fault("Switch(4)", &corrected),
        [
            "line 8, library.corrections[0]: the sizes do not ascend, or a factor is 0",
            "line 9, library.corrections[1]: 2 factors for 1 sizes",
        ]
    );
}
