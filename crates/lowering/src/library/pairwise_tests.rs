//! All-to-all with and without PXN, gather, scatter and sends against the model worked out by hand,
//! and against what is said of NCCL.

use super::tests::{ask, platform, us};
use super::{Prediction, message};
use graph::CollectiveKind::{self, AllGather, AllReduce, AllToAll, Barrier, Gather, Scatter};
use platform::config::native::from_yaml;
use platform::library::{Algorithm, Protocol};

/// Four nodes of 8; a pair 1 us in the node (from `NODE`), 3 us between nodes; 50 GB/s within, 10
/// GB/s between for all-to-all.
fn on(more: &str, kind: CollectiveKind, bytes: u64) -> Prediction {
    let text = format!(
        "  network: {{efficiency: 0.2, step_latency: [5 us, 9 us, 15 us], ll_efficiency: [0.5, 0.9], peer_latency: 3 us, all_to_all_efficiency: 0.1{more}}}\n"
    );
    ask(&platform("Switch(8)_Switch(4)", &text), kind, bytes)
}

fn near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-4, "{found} {expected}");
}

/// Small: 7 peers in the node, which are served at once, and 24 beyond; with PXN one more is handed
/// on, and 3 nodes get one message of 8 each.
#[test]
fn pxn_divides_messages_by_the_gpus_of_a_node() {
    let (own, pxn) = (on("", AllToAll, 32), on(", pxn: 8", AllToAll, 32));
    assert_eq!((own.algorithm, pxn.algorithm), (Algorithm::Pairwise, Algorithm::Pxn));
    assert_eq!(pxn.name(), "PXN Simple");
    near(us(&own), 10.0 + 1.0 + 24.0 * 3.0);
    near(us(&pxn), 10.0 + 2.0 + 3.0 * 3.0 + 24.0 / 10e3);
    let (fours, threes, ones) =
        (on(", pxn: 4", AllToAll, 32), on(", pxn: 3", AllToAll, 32), on(", pxn: 1", AllToAll, 32));
    near(us(&fours), 10.0 + 2.0 + 6.0 * 3.0);
    near(us(&threes), 10.0 + 2.0 + 9.0 * 3.0);
    near(us(&ones), us(&own) + 1.0);
}

/// Large: the same bytes between nodes, and 7/8 of them through the node's switch before; the
/// network is the slower, so both take the same time. NCCL's authors say that PXN helps small sizes
/// and that the difference may disappear as they grow (NVIDIA/nccl issue 1189).
#[test]
fn pxn_moves_bytes_twice_in_the_node() {
    let bytes = 1 << 30;
    let (own, pxn) = (on("", AllToAll, bytes), on(", pxn: 8", AllToAll, bytes));
    let (near_by, far) = ((bytes / 32 * 7) as f64, (bytes / 32 * 24) as f64);
    assert_eq!((own.inside as f64, own.between as f64), (near_by, far));
    assert_eq!((pxn.inside as f64, pxn.between as f64), (near_by + far * 7.0 / 8.0, far));
    near(us(&own), 83.0 + far / 10e3);
    near(us(&pxn), 21.0 + far / 10e3);
    // A network as fast as the node's switch: what is handed on sets the time.
    let text = "  network: {efficiency: 0.5, step_latency: [5 us, 9 us, 15 us], ll_efficiency: [0.5, 0.9], peer_latency: 3 us, all_to_all_efficiency: 0.5, pxn: 8}\n";
    let fast = ask(&platform("Switch(8)_Switch(4)", text), AllToAll, bytes);
    near(us(&fast), 21.0 + (near_by + far * 7.0 / 8.0) / 50e3);
}

/// Switches between rails that carry 0.5 of the bandwidth: without PXN 7 of 8 messages cross them,
/// with PXN none.
#[test]
fn only_without_pxn_are_rails_crossed() {
    let (bytes, far) = (1u64 << 30, (1u64 << 30) as f64 * 0.75);
    near(us(&on(", cross_rail_efficiency: 0.5", AllToAll, bytes)), 83.0 + far * 7.0 / 8.0 / 5e3);
    assert_eq!(
        on(", cross_rail_efficiency: 0.5, pxn: 8", AllToAll, bytes),
        on(", pxn: 8", AllToAll, bytes)
    );
    // The traffic across is less than a card carries: no difference.
    assert_eq!(
        us(&on(", cross_rail_efficiency: 0.9", AllToAll, bytes)),
        us(&on("", AllToAll, bytes))
    );
}

/// A root that scatters reaches the 8 cards of its node; one that gathers receives by its own.
#[test]
fn roots_and_their_cards() {
    let (bytes, far) = (1u64 << 30, (1u64 << 30) as f64 * 0.75);
    near(us(&on("", Scatter, bytes)), 83.0 + far / 10e3);
    near(us(&on(", pxn: 8", Scatter, bytes)), 21.0 + (far * 7.0 / 8.0 + far * 7.0 / 24.0) / 50e3);
    near(us(&on(", pxn: 8", Gather, bytes / 32)), 21.0 + far / 10e3);
}

/// With one GPU in a node no other GPU can hand anything on.
#[test]
fn pxn_needs_two_gpus_a_node() {
    let text = "  network: {efficiency: 0.2, step_latency: [5 us, 9 us, 15 us], ll_efficiency: [0.5, 0.9], peer_latency: 3 us, all_to_all_efficiency: 0.1, pxn: 8}\n";
    let alone = ask(&platform("Switch(1)_Switch(4)", text), AllToAll, 4);
    assert_eq!(alone.algorithm, Algorithm::Pairwise);
    near(us(&alone), 10.0 + 3.0 * 3.0);
}

/// NCCL drops collectives of no bytes: `alltoall_perf` on 8 H20 takes 3.2 us for 0 bytes and 10.6
/// us for 128 (deepseek-ai/DeepEP issue 303).
#[test]
fn no_bytes_make_a_call_only() {
    for kind in [AllToAll, AllReduce, AllGather, Gather] {
        near(us(&on(", inline: {threshold: 192 B, peer_latency: 12 us}", kind, 0)), 10.0);
    }
    assert!(us(&on("", Barrier, 0)) > 20.0);
}

/// One stream: the bandwidth of a ring's step, between nodes no more than `p2p_bandwidth_max`.
#[test]
fn sends_are_single_streams() {
    let alone = |more: &str, dim: u32| {
        let text = format!(
            "  p2p_overhead: 4 us\n  network: {{efficiency: 0.9, step_latency: [5 us, 9 us, 15 us], ll_efficiency: [0.5, 0.9], peer_latency: 3 us, all_to_all_efficiency: 0.1{more}}}\n"
        );
        let platform = platform("Switch(8)_Switch(4)", &text);
        let library = platform.library.as_ref().expect("has one");
        message(library, &platform.fabric, dim, 1_000_000).map(|span| span.as_ns() / 1e3)
    };
    assert_eq!(alone("", 0), Some(4.0 + 12.5));
    near(alone("", 1).expect("a network"), 4.0 + 1e6 / 90e3);
    assert_eq!(alone(", p2p_bandwidth_max: 40 GB/s", 1), Some(4.0 + 25.0));
    assert_eq!(alone("", 2), None);
}

/// A node of 8 with 100 GB/s each, where LL has 1 GB/s for each peer: a message of 1 KB takes
/// 12 + 1 us. With Simple and all 7/8 of the bytes at 50 GB/s, 11 us from the first byte on. So LL
/// is shorter where it starts earlier, up to its bytes' time.
#[test]
fn short_messages_go_with_ll() {
    let on = |topology: &str, latency: &str, kind, bytes| {
        let node = super::tests::NODE.replace(
            "all_to_all_efficiency: 0.5",
            &format!(
                "all_to_all_efficiency: 0.5, ll_peer: {{latency: {latency}, efficiency: 0.01}}"
            ),
        );
        let text = format!(
            "topology: {topology}\nlinks: {{bandwidth: 100 GB/s, per: npu, latency: 0 ns}}\nlibrary:\n{node}"
        );
        ask(&from_yaml(&text, "test.yml", &[]).expect("a platform"), kind, bytes)
    };
    let short = on("Switch(8)", "0.5 us", AllToAll, 3200);
    assert_eq!((short.algorithm, short.protocol), (Algorithm::Pairwise, Protocol::Ll));
    near(us(&short), 10.0 + 0.5 + 0.4);
    assert_eq!(short.inside, 2800);
    let (gathered, scattered) =
        (on("Switch(8)", "0.5 us", Gather, 400), on("Switch(8)", "0.5 us", Scatter, 3200));
    assert_eq!((gathered.name(), scattered.name()), (short.name(), short.name()));
    let long = on("Switch(8)", "0.5 us", AllToAll, 8000);
    assert_eq!((long.protocol, us(&long)), (Protocol::Simple, 10.0 + 1.0 + 0.14));
    // 63 peers at 1 GB/s each are more than LL's 12.5 GB/s of the link.
    near(us(&on("Switch(64)", "0.1 us", AllToAll, 6400)), 10.0 + 0.4 + 6.3 / 12.5);
    near(us(&on("Switch(17)", "0.5 us", AllToAll, 17)), 10.0 + 0.5 + 0.001);
    near(us(&on("Switch(18)", "0.4 us", AllToAll, 18)), 10.0 + 0.8 + 0.001);
}

/// Two members have one step to fill their buffers, eight have seven: `1 + 0.5 / steps` as long.
#[test]
fn few_peers_do_not_fill_the_link() {
    let bytes = 1u64 << 30;
    for (topology, peers) in [("Switch(2)", 1.0), ("Switch(8)", 7.0)] {
        let node = super::tests::NODE.replace("efficiency: 0.8,", "efficiency: 0.8, ramp_up: 0.5,");
        let text = format!(
            "topology: {topology}\nlinks: {{bandwidth: 100 GB/s, per: npu, latency: 0 ns}}\nlibrary:\n{node}"
        );
        let platform = from_yaml(&text, "test.yml", &[]).expect("a platform");
        let part = bytes as f64 * peers / (peers + 1.0);
        near(us(&ask(&platform, AllToAll, bytes)), 11.0 + part * (1.0 + 0.5 / peers) / 50e3);
        let gathered = ask(&platform, AllGather, bytes / (peers as u64 + 1));
        near(us(&gathered), 30.0 + 4.0 * peers + part * (1.0 + 0.5 / peers) / 80e3);
        let reduced = us(&ask(&platform, AllReduce, bytes));
        near(reduced, 30.0 + 8.0 * peers + 2.0 * part * (1.0 + 0.25 / peers) / 80e3);
    }
}

/// A rack of 64 whose GPUs serve 16 peers at once: 63 of them take 4 turns.
#[test]
fn peers_of_a_rack_are_served_sixteen_at_once() {
    near(us(&ask(&platform("Switch(17)", ""), AllToAll, 17)), 10.0 + 1.0);
    near(us(&ask(&platform("Switch(64)", ""), AllToAll, 64)), 10.0 + 4.0);
}

/// 24 GiB of 32 members over 4 nodes: with a loss of 0.5, half of the time more than on two nodes.
#[test]
fn many_nodes_slow_all_to_alls() {
    let far = (1u64 << 30) as f64 * 0.75;
    near(us(&on(", scale_loss: 0.5", AllToAll, 1 << 30)), 83.0 + 1.5 * far / 10e3);
    near(us(&on(", scale_loss: 0.5, pxn: 8", AllToAll, 1 << 30)), 21.0 + 1.5 * far / 10e3);
}
