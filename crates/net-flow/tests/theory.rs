//! All-to-alls reach the optimum that a cut or a count of links proves, and shares of a link are
//! what arithmetic says.

use crate::common::{graph, stack};
use net_flow::{FairFlows, Limits};
use net_settings::flow::{Flow, Weights};
use network::{Transfer, conformance};
use topology::generate::{Values, Wire, generate, generator};
use topology::{Dim, GraphFabric, Routing, Topology};
use units::{Bandwidth, Ratio, Span, Time};

const BANDWIDTH: Bandwidth = Bandwidth(50_000_000_000);
const MESSAGE: u64 = 1 << 20;

fn even(shape: &str) -> Vec<Dim> {
    let shape: Topology = shape.parse().expect("a shape");
    let dim = |&(block, size): &(topology::Block, u32)| Dim {
        block,
        size,
        bandwidth: BANDWIDTH,
        latency: Span(0),
        parallel: 1,
    };
    shape.dims.iter().map(dim).collect()
}

fn fabric(name: &str, numbers: &[(&'static str, &[u32])]) -> GraphFabric {
    let mut values = Values::default();
    numbers.iter().for_each(|&(key, list)| values.set(key, list.to_vec()));
    let made = generator(name).expect("a generator");
    // Links farther from the NPUs are longer, so that routes over few of them are nearer.
    let wire = |kind| Wire { bandwidth: BANDWIDTH, latency: Span(kind) };
    let wires = (0..made.kinds(&values).len() as u64).map(wire).collect();
    generate(made, values, wires).expect("a fabric")
}

/// Time of an all-to-all of `npus` in which every NPU sends everything at once, in messages on a
/// link.
fn all_to_all(mut backend: FairFlows, npus: u32) -> f64 {
    let pairs = (0..npus).flat_map(|src| (0..npus).map(move |dst| (src, dst)));
    let transfer = |(token, (src, dst))| {
        (Time::ZERO, Transfer { src, dst, bytes: MESSAGE, paced: MESSAGE, token, weight: 1 })
    };
    let transfers: Vec<_> = (0..).zip(pairs.filter(|(a, b)| a != b)).map(transfer).collect();
    let done = conformance::run(&mut backend, &transfers).expect("it ends");
    let end = done.last().expect("something arrives").time;
    end.since(Time::ZERO).0 as f64 / BANDWIDTH.span(units::Bytes(MESSAGE)).0 as f64
}

fn near(what: &str, ours: f64, optimum: f64) {
    assert!((ours / optimum - 1.0).abs() < 0.001, "{what}: {ours} messages, optimum {optimum}");
}

/// 8 leaves of 8 NPUs. With 8 spines every NPU's own link is the limit: 63 messages. With 4 spines
/// each leaf sends 8 * 56 messages over 4 links: 112.
#[test]
fn leaf_spine() {
    for (spines, optimum) in [(8, 63.0), (4, 112.0), (2, 224.0)] {
        let numbers: [(_, &[u32]); 3] =
            [("npus_per_leaf", &[8]), ("leaves", &[8]), ("spines", &[spines])];
        let fabric = fabric("leaf_spine", &numbers);
        for routing in [Routing::DModK, Routing::Spray] {
            let time = all_to_all(graph(&fabric, routing, Limits::default()), 64);
            near(&format!("{spines} spines, {routing}"), time, optimum);
        }
    }
}

/// Three tiers, 4 below each switch; 4 above at full bisection, 2 and 1 at a quarter: then each
/// pod's 16 NPUs send 48 messages each over 2 links.
#[test]
fn clos() {
    for (up, optimum) in [([4, 4], 63.0), ([2, 1], 384.0)] {
        let fabric = fabric("clos", &[("down", &[4, 4, 4]), ("up", &up), ("cables", &[1])]);
        let time = all_to_all(graph(&fabric, Routing::Spray, Limits::default()), 64);
        near(&format!("{up:?}"), time, optimum);
    }
}

/// Half of a torus sends (npus / 2)^2 messages over the links that leave it. In 4 x 4 x 4 these are
/// 32: 32 messages each. In 8 x 8 they are 16: 64.
#[test]
fn torus() {
    for (shape, npus, optimum) in [("R(4)_R(4)_R(4)", 64, 32.0), ("R(8)_R(8)", 64, 64.0)] {
        let backend = stack(&even(shape), Routing::Spray, Limits::default());
        near(shape, all_to_all(backend, npus), optimum);
    }
}

/// 4 groups of 4 routers with 4 NPUs, a global link at each router: the one cable between two
/// groups carries 16 * 16 messages, and a way over a third group would load two of these cables.
#[test]
fn dragonfly() {
    let numbers: [(_, &[u32]); 4] = [
        ("npus_per_router", &[4]),
        ("routers_per_group", &[4]),
        ("global_links", &[1]),
        ("groups", &[4]),
    ];
    let fabric = fabric("dragonfly", &numbers);
    for routing in [Routing::DModK, Routing::Spray] {
        let time = all_to_all(graph(&fabric, routing, Limits::default()), 64);
        near(&format!("dragonfly, {routing}"), time, 256.0);
    }
}

/// Dragonflies with several cables between two groups: those limit the first four, by the cut
/// between two groups: `(p a)^2 / cables` messages each. In the last one local links do: the router
/// with both cables to a group gets what 3 routers with 4 NPUs send to 16, for 3 groups and 4
/// routers 36 * 4, and a linear program over the routes with one global link finds nothing better.
#[test]
fn dragonflies_with_several_cables_between_groups() {
    let cases: [([u32; 4], f64); 5] = [
        ([2, 8, 1, 4], 128.0),
        ([8, 4, 1, 2], 256.0),
        ([4, 8, 2, 4], 204.8),
        ([8, 4, 2, 2], 128.0),
        ([4, 4, 2, 4], 144.0),
    ];
    for ([p, a, h, g], optimum) in cases {
        let numbers: [(_, &[u32]); 4] = [
            ("npus_per_router", &[p]),
            ("routers_per_group", &[a]),
            ("global_links", &[h]),
            ("groups", &[g]),
        ];
        let fabric = fabric("dragonfly", &numbers);
        let backend = graph(&fabric, Routing::Spray, Limits::default());
        near(&format!("{numbers:?}"), all_to_all(backend, p * a * g), optimum);
    }
}

fn send(token: u64, src: u32, dst: u32, bytes: u64) -> (Time, Transfer) {
    (Time::ZERO, Transfer { src, dst, bytes, token, weight: 1, paced: bytes })
}

fn arrivals(backend: &mut FairFlows, transfers: &[(Time, Transfer)]) -> Vec<u64> {
    let done = conformance::run(backend, transfers).expect("it ends");
    let time = |token| done.iter().find(|d| d.token == token).expect("it arrives").time.0;
    (0..transfers.len() as u64).map(time).collect()
}

/// Audit F6: 1 MB that starts behind 1 GB on a NIC of 50 GB/s. It has half of the link: 40 us, and
/// two links of 0.5 us.
#[test]
fn a_small_message_does_not_wait_for_a_large_one() {
    let dims: Vec<Dim> =
        even("SW(4)").into_iter().map(|dim| Dim { latency: Span(500_000), ..dim }).collect();
    let mut backend = stack(&dims, Routing::Lowest, Limits::default());
    let times = arrivals(&mut backend, &[send(0, 0, 1, 1_000_000_000), send(1, 0, 2, 1_000_000)]);
    assert_eq!(times, [20_020_000_000 + 1_000_000, 41_000_000]);
}

/// A flow that drains leaves its part to the others: 3 at a third each, then 2 at a half, then one.
#[test]
fn bandwidth_is_taken_up_as_flows_drain() {
    let mut backend = stack(&even("SW(4)"), Routing::Lowest, Limits::default());
    let sizes = [1_000_000, 2_000_000, 3_000_000];
    let sends: Vec<_> = (0..).zip(sizes).map(|(i, b)| send(i, i as u32 + 1, 0, b)).collect();
    assert_eq!(arrivals(&mut backend, &sends), [60_000_000, 100_000_000, 120_000_000]);
}

fn exact() -> Flow {
    Limits::default().settings
}

/// A stream of at most 10 GB/s leaves 40 GB/s to nobody; headers take 20 % of every link.
#[test]
fn limits_hold() {
    let stream = Flow { stream_bandwidth_max: Some(Bandwidth(10_000_000_000)), ..exact() };
    let mut backend = stack(&even("SW(4)"), Routing::Lowest, stream.into());
    assert_eq!(arrivals(&mut backend, &[send(0, 0, 1, 1_000_000)]), [100_000_000]);
    let headers = Flow { efficiency: Ratio(800_000), ..exact() };
    let mut backend = stack(&even("SW(4)"), Routing::Lowest, headers.into());
    assert_eq!(arrivals(&mut backend, &[send(0, 0, 1, 1_000_000)]), [25_000_000]);
}

/// By round-trip time, a flow over three hops has a third of one over one hop.
#[test]
fn far_flows_get_less_by_round_trip() {
    let dims: Vec<Dim> =
        even("R(8)").into_iter().map(|dim| Dim { latency: Span(1_000_000), ..dim }).collect();
    let limits = Flow { weights: Weights::RoundTrip, ..exact() };
    let mut backend = stack(&dims, Routing::Lowest, limits.into());
    // Both over the link from 0 to 1; at 37.5 and 12.5 GB/s the first drains after 26.7 us.
    let times = arrivals(&mut backend, &[send(0, 0, 1, 1_000_000), send(1, 0, 3, 1_000_000)]);
    let shares = 1_000_000 * 4 / 3 * 20;
    assert!(times[0].abs_diff(shares + 1_000_000) < 100_000, "{times:?}");
    assert!(times[1].abs_diff(40_000_000 + 3_000_000) < 100_000, "{times:?}");
}
