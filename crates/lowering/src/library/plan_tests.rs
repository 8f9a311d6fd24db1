//! Plans against the checker, the bytes that algorithms are known to send, and predictions.

use super::rings;
use super::tests::{ask, platform};
use super::traffic::hops;
use crate::lowered::{Lowered, Lowering, PhaseSpec, Request};
use crate::native::NativeLowering;
use crate::shape::Shape;
use collective::Plan;
use collective::prove::{Meaning, prove_meaning};
use graph::CollectiveKind::{self, *};
use platform::Platform;
use platform::config::native::from_yaml;
use topology::Fabric;
use units::Span;

const NETWORK: &str = "  network: {efficiency: 0.9, step_latency: [5 us, 9 us, 15 us], ll_efficiency: [0.4, 0.9], \
     peer_latency: 3 us";

fn lowered(platform: &Platform, kind: CollectiveKind, bytes: u64, root: u32) -> Lowered {
    let request = Request { kind, bytes, shape: 0, node: None, dims: u32::MAX, root };
    NativeLowering::new(platform, platform.sizes())
        .lower(&request, &Shape::World)
        .expect("has a way")
}

fn phase(lowered: &Lowered, dim: usize) -> &PhaseSpec {
    &lowered.shapes[dim][0]
}

fn plan(phase: &PhaseSpec) -> &Plan {
    &phase.plans[0].forward.plan
}

/// Bytes that a position sends.
fn sent(plan: &Plan, position: u32) -> u64 {
    plan.script(position).steps.iter().map(|s| if s.to.is_some() { s.bytes } else { 0 }).sum()
}

/// Content of step `round` of a ring of `n` from place `at` of it: the chunk, and whether it is
/// reduced (Patarasuk and Yuan 2009).
fn chunk(kind: CollectiveKind, n: u32, at: u32, round: u32) -> (u32, bool) {
    let back = |k: u32| (at + 2 * n - k) % n;
    match kind {
        AllReduce if round >= n - 1 => (back(round - (n - 1)), false),
        AllGather => (back(round), false),
        _ => (back(round + 1), true),
    }
}

/// A ring plan on a switch brings every member its result in any order of events: of every
/// channel and, where the buffer is gone over twice, of both halves, every chunk.
#[test]
fn rings_on_a_switch_are_proved() {
    for n in [2u32, 3, 5, 8] {
        let platform = platform(&format!("Switch({n})"), "");
        for kind in [AllReduce, AllGather, ReduceScatter] {
            let lowered = lowered(&platform, kind, 1 << 30, 0);
            let plan = plan(phase(&lowered, 0));
            let opening = n.next_power_of_two().trailing_zeros();
            let waits = if kind == AllReduce { 2 } else { 1 } * (n - 1);
            let messages = plan.script(0).steps.len() as u32 - opening;
            let rounds = waits * (16 / waits);
            let each = messages / rounds;
            assert!(messages.is_multiple_of(rounds) && each == 1, "{n} {kind:?}");
            let channels = each * rounds / waits;
            let carries = |position: u32, step: u32| {
                let Some(at) = step.checked_sub(opening) else { return (Vec::new(), false) };
                let (round, channel) = (at / each, at % each);
                let (chunk, reduce) = chunk(kind, n, position, round % waits);
                (vec![u64::from((round / waits * each + channel) * n + chunk)], reduce)
            };
            let all = |_: u32| (0..u64::from(channels * n)).collect::<Vec<u64>>();
            let own = |p: u32| {
                (0..u64::from(channels)).map(|c| c * u64::from(n) + u64::from(p)).collect()
            };
            let meaning = match kind {
                AllReduce => Meaning { n, brings: &all, carries: &carries, gets: &all },
                AllGather => Meaning { n, brings: &own, carries: &carries, gets: &all },
                _ => Meaning { n, brings: &all, carries: &carries, gets: &own },
            };
            prove_meaning(plan, &meaning).unwrap_or_else(|e| panic!("{n} {kind:?}: {e}"));
        }
    }
}

/// In a full mesh of even size the rounds are rings that use every link alike: rotations of
/// infinity, 0, 1, -1, 2, -2, ... both ways, each link by two of them (Walecki; Lucas 1892).
#[test]
fn rings_in_a_mesh_are_proved() {
    for n in [4u32, 8] {
        let m = n - 1;
        let zigzag = |j: u32| if j % 2 == 1 { j.div_ceil(2) } else { m - j / 2 } % m;
        let cycle = |r: u32| -> Vec<u32> {
            std::iter::once(m).chain((0..m).map(|j| (zigzag(j) + r) % m)).collect()
        };
        let mut channels: Vec<Vec<u32>> = (0..m).map(cycle).collect();
        channels.extend((0..m).map(|r| cycle(r).into_iter().rev().collect()));
        let at = |ring: &[u32], p: u32| ring.iter().position(|&q| q == p).expect("on it") as u32;
        let next = |ring: &[u32], p: u32| ring[(at(ring, p) as usize + 1) % n as usize];
        let on = |p: u32, q: u32| {
            (0u64..)
                .zip(&channels)
                .filter(|(_, c)| next(c, p) == q)
                .map(|(i, _)| i)
                .collect::<Vec<_>>()
        };
        let platform = platform(&format!("FullyConnected({n})"), "");
        let lowered = lowered(&platform, AllReduce, 1 << 30, 0);
        let plan = plan(phase(&lowered, 0));
        let opening = n.next_power_of_two().trailing_zeros();
        let waits = 2 * (n - 1);
        let loops = 16 / waits;
        assert_eq!(plan.script(0).steps.len() as u32, opening + waits * loops * m);
        let rings = channels.len() as u64;
        let carries = |position: u32, step: u32| {
            let Some(k) = step.checked_sub(opening) else { return (Vec::new(), false) };
            let (round, to) = (k / m, (position + 1 + k % m) % n);
            let rings_there = on(position, to);
            assert_eq!(rings_there.len(), 2);
            let block = |ring: u64| {
                let place = at(&channels[ring as usize], position);
                let (chunk, _) = chunk(AllReduce, n, place, round % waits);
                (u64::from(round / waits) * rings + ring) * u64::from(n) + u64::from(chunk)
            };
            (rings_there.into_iter().map(block).collect(), round % waits < n - 1)
        };
        let all = |_: u32| (0..u64::from(loops * n) * rings).collect::<Vec<u64>>();
        let meaning = Meaning { n, brings: &all, carries: &carries, gets: &all };
        prove_meaning(plan, &meaning).unwrap_or_else(|e| panic!("{n}: {e}"));
    }
}

/// Through a node of even size a ring's hops are all different, so that in a mesh each uses a link
/// of its own; it visits every place and leaves by another card, and comes back to its rail after
/// two nodes.
#[test]
fn a_ring_takes_every_link_of_a_node_once() {
    for g in (2..=72).step_by(2) {
        let steps: Vec<u32> = (0..g - 1).map(|hop| hops(g, hop)).collect();
        let mut sorted = steps.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (1..g).collect::<Vec<_>>());
        let mut places = vec![0];
        steps.iter().for_each(|hop| places.push((places[places.len() - 1] + hop) % g));
        let exit = places[places.len() - 1];
        places.sort_unstable();
        assert_eq!(places, (0..g).collect::<Vec<_>>());
        assert_eq!((2 * exit) % g, 0);
        assert_ne!(exit, 0);
    }
}

/// Bytes that a member sends: a ring of all 64 passes on 2 (n-1)/n buffers, 7 of 8 times within its
/// node; a tree sends its buffer up and down; LL puts twice as much on the wire, LL128 16/15.
#[test]
fn bytes_are_those_of_the_algorithm() {
    let bytes = 64 * 120 * 1024u64;
    for (network, factor) in [
        ("5 us, 900 us, 900 us", 2.0),
        ("900 us, 5 us, 900 us", 16.0 / 15.0),
        ("900 us, 900 us, 5 us", 1.0),
    ] {
        let text = format!(
            "  network: {{efficiency: 0.9, step_latency: [{network}], ll_efficiency: [0.4, 0.9]}}\n"
        );
        let platform = platform("Switch(8)_Switch(8)", &text);
        let lowered = lowered(&platform, ReduceScatter, bytes, 0);
        let all = bytes as f64 * 63.0 / 64.0 * factor;
        for (dim, part) in [(0, 7.0 / 8.0), (1, 1.0 / 8.0)] {
            let found = sent(plan(phase(&lowered, dim)), 0) as f64;
            assert!((found / (all * part) - 1.0).abs() < 1e-4, "{network} {dim}: {found}");
        }
    }
    let nvls = platform("Switch(8)", "  nvls: {efficiency: 0.9, latency: 1 us, min_ranks: 4}\n");
    let moved = lowered(&nvls, AllReduce, 1 << 30, 0);
    assert_eq!(&*phase(&moved, 0).algorithm, "NVLS Simple");
    assert_eq!(sent(plan(phase(&moved, 0)), 0), (1 << 30) + (1 << 27));
}

/// Every other member gets its message of an all-to-all, and what goes to another node leaves by
/// the sender's own card; with PXN one message a node.
#[test]
fn all_to_alls_send_to_every_member() {
    for (more, copies) in [("}\n", 4), (", pxn: 8}\n", 1)] {
        let platform = platform("Switch(4)_Switch(6)", &format!("{NETWORK}{more}"));
        let lowered = lowered(&platform, AllToAll, 24 << 10, 0);
        let (near, far) = (plan(phase(&lowered, 0)), plan(phase(&lowered, 1)));
        for distance in 1..6u32 {
            let there = |s: &&collective::Step| {
                s.bytes > 0 && s.to.is_some_and(|to| to.position(0, 6) == distance)
            };
            let messages: Vec<_> = far.script(0).steps.iter().filter(there).collect();
            assert_eq!(messages.len(), copies);
            assert_eq!(messages.iter().map(|s| s.bytes).sum::<u64>(), 4 << 10);
        }
        assert_eq!(sent(far, 0), 20 << 10);
        let handed = if copies == 1 { 15 << 10 } else { 0 };
        assert_eq!(sent(near, 0), (3 << 10) + handed);
    }
}

/// A scatter leaves the root's node by the root's card, with PXN by all cards; no other rank sends
/// data, and a root in the middle is the root.
#[test]
fn only_the_root_scatters() {
    for (more, rails) in [("}\n", false), (", pxn: 8}\n", true)] {
        let platform = platform("Switch(4)_Switch(3)", &format!("{NETWORK}{more}"));
        let lowered = lowered(&platform, Scatter, 144 << 10, 6);
        let (near, far) = (phase(&lowered, 0), phase(&lowered, 1));
        assert_eq!((near.only.len(), near.only[0].at), (1, 1));
        assert_eq!(
            far.only.iter().map(|f| f.at).collect::<Vec<_>>(),
            if rails { vec![] } else { vec![2] }
        );
        let each: u64 = if rails { 12 << 10 } else { 48 << 10 };
        assert_eq!((0..3).map(|p| sent(plan(far), p)).collect::<Vec<_>>(), [0, 2 * each, 0]);
        let handed: u64 = if rails { 36 << 10 } else { 12 << 10 };
        assert_eq!((0..4).map(|p| sent(plan(near), p)).collect::<Vec<_>>(), [0, 0, 3 * handed, 0]);
    }
}

/// However many members, a position sends no more than 16 rounds of 8 messages, or 512 to others;
/// and all of its bytes.
#[test]
fn large_groups_have_small_plans() {
    let nodes = 2048u32;
    let platform =
        platform(&format!("Switch(8)_Switch({nodes})"), &format!("{NETWORK}, pxn: 8}}\n"));
    for kind in CollectiveKind::ALL.into_iter().filter(|&k| !matches!(k, Gather | Scatter)) {
        let bytes = 1 << 36;
        let lowered =
            lowered(&platform, kind, if kind == AllGather { bytes >> 14 } else { bytes }, 0);
        let prediction = ask(&platform, kind, if kind == AllGather { bytes >> 14 } else { bytes });
        for (dim, expected) in [(0, prediction.inside), (1, prediction.between)] {
            let plan = plan(phase(&lowered, dim));
            assert!(plan.is_uniform() && plan.script(0).steps.len() <= 512 + 11, "{kind:?}");
            assert_eq!(sent(plan, 0), prediction.protocol.wire(expected), "{kind:?}");
        }
    }
}

/// Charges are spread: no round of a large ring is charged more than one step and the time of its
/// bytes beyond the wire.
#[test]
fn charges_are_those_of_steps() {
    let platform = platform("Switch(8)", "");
    let lowered = lowered(&platform, AllReduce, 1 << 30, 0);
    let ready = &phase(&lowered, 0).plans[0].forward;
    let charged: Vec<Span> = ready.charges[0].iter().copied().filter(|&c| c > Span::ZERO).collect();
    // Three opening rounds of 1 us, the call of 30 us; 14 steps of 4 us whose bytes move at 80 % of
    // 100 GB/s.
    let step = 4.0 + 1.75 * (1u64 << 30) as f64 / 14.0 * (1.0 / 80e3 - 1.0 / 100e3) - 1.0;
    assert_eq!(charged.len(), 15);
    assert!((charged[0].as_ns() / 1e3 - 27.0).abs() < 1e-3, "{charged:?}");
    assert!(
        charged[1..].iter().all(|c| (c.as_ns() / 1e3 - step).abs() < 0.01),
        "{charged:?} {step}"
    );
}

/// On a mesh without a switch everything goes along its cycles, both ways.
#[test]
fn a_cube_mesh_uses_its_cycles() {
    let file = "../../systems/nvidia/dgx1-v100.yml";
    let text = std::fs::read_to_string(file).expect("the preset");
    let cube = from_yaml(&text, file, &[]).expect("reads");
    let Fabric::Graph(graph) = &cube.fabric else { panic!("a graph") };
    let cycles = rings::pack(graph, &(0..8).collect::<Vec<_>>()).cycles;
    let lowered = lowered(&cube, AllReduce, 1 << 30, 0);
    let plan = plan(phase(&lowered, 0));
    for p in 0..8 {
        let mut to: Vec<u32> = plan
            .script(p)
            .steps
            .iter()
            .filter(|s| s.bytes > 0)
            .filter_map(|s| s.to.map(|to| to.position(p, 8)))
            .collect();
        to.sort_unstable();
        to.dedup();
        let hops_along = |c: &Vec<u32>| {
            let at = c.iter().position(|&q| q == p).expect("on it");
            [c[(at + 1) % 8], c[(at + 7) % 8]]
        };
        let mut expected: Vec<u32> = cycles.iter().flat_map(hops_along).collect();
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(to, expected);
        assert!(sent(plan, p).abs_diff((1 << 30) / 4 * 7) < 8);
    }
}
