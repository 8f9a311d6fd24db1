//! Where the backends must agree they do, to the picosecond; where they must differ the difference
//! is the stated one.
//!
//! Everything is checked against formulas in integer picoseconds, `span(b) = ceil(b / bandwidth)`:
//! - a message over hops h_d in each dimension d: `sum h_d l_d + max span_d(b)` over the dimensions
//!   crossed; on link with store and forward `sum h_d (l_d + span_d(b))`;
//! - a collective of one chunk on the block its algorithm suits: the alpha-beta formula of the
//!   algorithm, on both.
//!
//! Native semantics throughout; ASTRA-sim's own are held by `conformance.rs`.

use crate::common::random::cases;
use graph::{
    CollectiveKind, Group, Kernel, Members, Node, Op, Program, ProgramBuilder, RankBinding,
    Workload,
};
use platform::config::native;
use proptest::prelude::*;
use sim::{BackendKind, Config, Source, Watch, run};
use std::sync::Arc;
use units::{Bytes, Span};

/// A dimension: block, size, GB/s, latency in ns.
type Dim = (&'static str, u32, u64, u64);

fn platform_text(dims: &[Dim], more: &str) -> String {
    let blocks: Vec<String> = dims.iter().map(|d| format!("{}({})", d.0, d.1)).collect();
    let link =
        |d: &Dim| format!("  - {{bandwidth: {} GB/s, per: link, latency: {} ns}}\n", d.2, d.3);
    format!(
        "topology: {}\nlinks:\n{}{more}",
        blocks.join("_"),
        dims.iter().map(link).collect::<String>()
    )
}

/// The end of the last rank in ps.
fn step_time(text: &str, workload: &Workload, backend: BackendKind) -> u64 {
    let platform = native::from_yaml(text, "p.yml", &[])
        .unwrap_or_else(|problems| panic!("{text}\n{problems:#?}"));
    let ranks = platform.fabric.npus();
    let workload = Source::Built(Box::new(workload.clone()));
    let config = Config {
        workload,
        groups: Vec::new(),
        platform,
        backend,
        fold: false,
        watch: Watch::default(),
    };
    let outcome = run(&config, &mut |_| true).unwrap_or_else(|error| panic!("{text}\n{error}"));
    (0..ranks).map(|r| outcome.finish(r).0).max().unwrap_or(0)
}

fn program(op: Op) -> Program {
    let mut builder = ProgramBuilder::default();
    builder.push(Node { id: 0, duration: Span::from_ns(1), op }, "", []);
    builder.build().expect("one node")
}

/// Nodes that receive messages whole before they send them on.
const STORES: &str = "network: {link: {switching: store_and_forward}}\n";

const IDLE: Op = Op::Compute { operations: None, bytes: None, cpu: false, kernel: Kernel::Other };

/// One message from `src` to `dst`; the other ranks compute for 1 ns.
fn message(npus: u32, src: u32, dst: u32, bytes: u64) -> Workload {
    let bytes = Bytes(bytes);
    let peer = dst as i32 - src as i32;
    let ops = [
        IDLE,
        Op::Send { peer: peer.into(), bytes, tag: 0 },
        Op::Recv { peer: (-peer).into(), bytes, tag: 0 },
    ];
    let binding = |rank| RankBinding {
        program: if rank == src {
            1
        } else if rank == dst {
            2
        } else {
            0
        },
        slots: 0,
    };
    Workload {
        programs: ops.into_iter().map(|op| Arc::new(program(op))).collect(),
        ranks: (0..npus).map(binding).collect(),
        groups: vec![Group { name: "world".into(), members: Members::All }],
        ..Workload::default()
    }
}

/// Time on one link: ceil(bytes / bandwidth) in ps.
fn span(bytes: u64, gb_per_s: u64) -> u64 {
    (bytes * 1_000).div_ceil(gb_per_s)
}

fn hops(block: &str, n: u32, a: u32, b: u32) -> u64 {
    let apart = a.abs_diff(b);
    u64::from(match block {
        _ if a == b => 0,
        "Ring" => apart.min(n - apart),
        "Switch" => 2,
        _ => 1,
    })
}

fn dim() -> impl Strategy<Value = Dim> {
    let block = prop::sample::select(vec!["Ring", "FullyConnected", "Switch"]);
    (block, 2u32..7, prop::sample::select(vec![1u64, 7, 50, 450]), 0u64..2_000)
}

/// Those that carry whole messages. Packets take longer by their headers and by the windows of TCP
/// (`packets.rs`).
const MESSAGES: [BackendKind; 3] = [BackendKind::Analytical, BackendKind::Link, BackendKind::Flow];

proptest! {
    #![proptest_config(cases(100))]

    /// One flow: every backend takes the latencies and the slowest link; with store and forward
    /// one more transmission for each further hop.
    #[test]
    fn one_message(dims in prop::collection::vec(dim(), 1..4), src in any::<u32>(), dst in any::<u32>(), bytes in 0u64..3_000_000) {
        let npus: u32 = dims.iter().map(|d| d.1).product();
        let (src, dst) = (src % npus, dst % npus);
        prop_assume!(src != dst);
        let (mut latencies, mut slowest, mut stored, mut stride) = (0, 0, 0, 1);
        for &(block, n, gb_per_s, latency) in &dims {
            let hops = hops(block, n, src / stride % n, dst / stride % n);
            latencies += hops * latency * 1_000;
            slowest = slowest.max(if hops > 0 { span(bytes, gb_per_s) } else { 0 });
            stored += hops * (latency * 1_000 + span(bytes, gb_per_s));
            stride *= n;
        }
        let (text, workload) = (platform_text(&dims, ""), message(npus, src, dst, bytes));
        // Whoever neither sends nor receives computes for 1 ns.
        let idle = if npus > 2 { 1_000 } else { 0 };
        for backend in MESSAGES {
            prop_assert_eq!(step_time(&text, &workload, backend), (latencies + slowest).max(idle));
        }
        let text = platform_text(&dims, STORES);
        prop_assert_eq!(step_time(&text, &workload, BackendKind::Link), stored.max(idle));
    }

    /// One chunk, nothing in the way: the formula, on every backend.
    #[test]
    fn one_chunk((kind, algorithm) in kind_and_algorithm(), n in 2u32..17, bytes in 0u64..5_000_000, e in 0u64..50,
                 gb_per_s in prop::sample::select(vec![1u64, 7, 50, 450]), latency in 0u64..2_000) {
        let n = if algorithm == "halving_doubling" { n.next_power_of_two() } else { n };
        let block = if algorithm == "ring" { "Ring" } else { "FullyConnected" };
        let more = format!("collectives: {{{}: {algorithm}}}\nscheduler: {{chunks: 1, endpoint_delay: {e} ns}}\n", kind.name());
        let text = platform_text(&[(block, n, gb_per_s, latency)], &more);
        let rounds: u64 = round_sizes(kind, algorithm, u64::from(n), bytes).iter()
            .map(|&bytes| latency * 1_000 + span(bytes, gb_per_s) + e * 1_000).sum();
        let workload = collective(kind, n, bytes);
        for backend in MESSAGES {
            prop_assert_eq!(step_time(&text, &workload, backend.clone()), e * 1_000 + rounds, "{:?} {}", backend, text);
        }
    }
}

fn collective(kind: CollectiveKind, npus: u32, bytes: u64) -> Workload {
    let op =
        Op::Collective { kind, bytes: Bytes(bytes), slot: 0, priority: 0, dims: u32::MAX, root: 0 };
    Workload::uniform(program(op), npus)
}

fn kind_and_algorithm() -> impl Strategy<Value = (CollectiveKind, &'static str)> {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, ReduceScatter};
    let pairs = [
        (AllReduce, "ring"),
        (AllGather, "ring"),
        (ReduceScatter, "ring"),
        (AllReduce, "direct"),
        (AllGather, "direct"),
        (ReduceScatter, "direct"),
        (AllToAll, "direct"),
        (AllReduce, "halving_doubling"),
        (AllGather, "halving_doubling"),
        (ReduceScatter, "halving_doubling"),
        (AllToAll, "halving_doubling"),
    ];
    prop::sample::select(pairs.to_vec())
}

/// Bytes of the message in each round that no NPU can shorten; f = ceil(bytes / n).
fn round_sizes(kind: CollectiveKind, algorithm: &str, n: u64, bytes: u64) -> Vec<u64> {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, ReduceScatter};
    let f = bytes.div_ceil(n);
    let distances: Vec<u64> = (0..n.ilog2()).map(|k| 1 << k).collect();
    // Halving sends n/2, n/4, ... fragments, doubling 1, 2, ... contributions.
    let halving: Vec<u64> = distances.iter().rev().map(|d| d * f).collect();
    let doubling = |each: u64| distances.iter().map(|d| d * each).collect::<Vec<u64>>();
    let steps = (n - 1) as usize;
    match (kind, algorithm) {
        (AllReduce, "ring") => vec![f; 2 * steps],
        (ReduceScatter, "ring") => vec![f; steps],
        (AllGather, "ring") => vec![bytes; steps],
        (AllReduce, "direct") => vec![f; 2],
        (ReduceScatter | AllToAll, "direct") => vec![f],
        (AllGather, "direct") => vec![bytes],
        (AllReduce, _) => halving.iter().copied().chain(doubling(f)).collect(),
        (ReduceScatter, _) => halving,
        (AllGather, _) => doubling(bytes),
        (AllToAll, _) => vec![f; steps],
        (other, _) => panic!("{other:?} has no formula here"),
    }
}

/// Every reduction of a ring is charged: two reads and one write of a fragment, on n-1 of the
/// receptions.
#[test]
fn reductions_are_charged() {
    let more = "npu: {memory: {bandwidth: 10 GB/s}}\ncollectives: {all_reduce: ring}\nscheduler: {chunks: 1, endpoint_delay: 10 ns}\n";
    println!(" n   expected ps   analytical         link");
    for n in [2u32, 3, 5, 8, 16] {
        let text = platform_text(&[("Ring", n, 50, 500)], more);
        let f = (1u64 << 20).div_ceil(u64::from(n));
        let expected =
            10_000 + u64::from(n - 1) * (2 * (500_000 + span(f, 50) + 10_000) + span(3 * f, 10));
        let workload = collective(CollectiveKind::AllReduce, n, 1 << 20);
        let ours = [BackendKind::Analytical, BackendKind::Link]
            .map(|backend| step_time(&text, &workload, backend));
        println!("{n:>2} {expected:>13} {:>12} {:>12}", ours[0], ours[1]);
        assert_eq!(ours, [expected; 2], "{n}");
    }
}

/// A switch is two links: two latencies, and the bytes once as they pass through it, or twice where
/// it stores messages.
#[test]
fn a_switch_cuts_through_unless_it_stores() {
    let more = "collectives: {all_reduce: halving_doubling}\nscheduler: {chunks: 1, endpoint_delay: 10 ns}\n";
    for n in [2u32, 4, 8, 32] {
        let text = platform_text(&[("Switch", n, 50, 500)], more);
        let sizes =
            round_sizes(CollectiveKind::AllReduce, "halving_doubling", u64::from(n), 1 << 20);
        let twice: u64 = sizes.iter().map(|&bytes| span(bytes, 50)).sum();
        let once: u64 =
            10_000 + sizes.iter().map(|&bytes| 1_000_000 + span(bytes, 50) + 10_000).sum::<u64>();
        let workload = collective(CollectiveKind::AllReduce, n, 1 << 20);
        assert_eq!(step_time(&text, &workload, BackendKind::Analytical), once, "{n}");
        assert_eq!(step_time(&text, &workload, BackendKind::Link), once, "{n}");
        let stores = platform_text(&[("Switch", n, 50, 500)], &format!("{more}{STORES}"));
        assert_eq!(step_time(&stores, &workload, BackendKind::Link), once + twice, "{n}");
    }
}

/// Reduce-scatter in, all-reduce outside, all-gather back: the phases add up, on both backends.
#[test]
fn phases_of_two_dimensions_add_up() {
    let more = "collectives: {all_reduce: [ring, direct], hierarchy: enhanced}\nscheduler: {chunks: 1, endpoint_delay: 10 ns}\n";
    let text = platform_text(&[("Ring", 4, 100, 200), ("FullyConnected", 8, 25, 900)], more);
    let (m, e) = (1u64 << 22, 10_000);
    let ring = e + 3 * (200_000 + span(m / 4, 100) + e);
    let direct = e + 2 * (900_000 + span(m / 4 / 8, 25) + e);
    let workload = collective(CollectiveKind::AllReduce, 32, m);
    for backend in MESSAGES {
        assert_eq!(step_time(&text, &workload, backend.clone()), 2 * ring + direct, "{backend:?}");
    }
}

/// Contention: on a ring, direct all-to-all shares links. The link backend sees it, and the
/// analytical one counts what the busiest link needs.
#[test]
fn sharing_a_link_costs_time_on_both_backends() {
    let more = "collectives: {all_to_all: direct}\nscheduler: {chunks: 1, endpoint_delay: 0 ns}\n";
    for n in [4u32, 8, 16] {
        let text = platform_text(&[("Ring", n, 50, 500)], more);
        let f = (1u64 << 20) / u64::from(n);
        let workload = collective(CollectiveKind::AllToAll, n, 1 << 20);
        let far = u64::from(n / 2);
        // Distances 1 .. n/2-1 both ways, and half of those over n/2 links each way: every link
        // carries 1 + 2 + .. + n/2-1 messages, and n/4.
        let busiest = far * far / 2 * span(f, 50);
        // The message that goes farthest leaves last.
        let analytical = step_time(&text, &workload, BackendKind::Analytical);
        assert_eq!(analytical, busiest + far * 500_000, "{n}");
        let link = step_time(&text, &workload, BackendKind::Link);
        assert!(link >= busiest && link <= 2 * busiest, "{n}: {link}, the busiest link {busiest}");
    }
}
