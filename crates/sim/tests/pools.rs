//! Pools that some of the NPUs access, next to the same pool built as a fabric: NPUs, memory groups
//! and switches of a graph, on fair flows.

use crate::common::built::{WORK, config};
use graph::{Node, Op, Program, ProgramBuilder, RankBinding, Reach, Workload};
use sim::{BackendKind, Outcome, run};
use std::sync::Arc;
use units::{Bytes, Span};

/// NPUs of a node; nodes; out-node switches; memory groups. GB/s of a link from a group, to a node
/// and to an NPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub npus: u32,
    pub nodes: u32,
    pub switches: u32,
    pub groups: u32,
    pub gb: [u64; 3],
}

/// Section IV-D.
pub(crate) const EXAMPLE: Shape =
    Shape { npus: 256, nodes: 16, switches: 4, groups: 8, gb: [100, 50, 256] };

/// An access of a rank: it begins so many us after the one before has ended.
#[derive(Clone, Copy, Debug)]
struct Piece {
    after: u64,
    store: bool,
    bytes: u64,
}

/// Accesses of each rank, one after the other.
type Plan = Vec<Vec<Piece>>;

pub(crate) fn pool(shape: &Shape) -> String {
    let Shape { npus, nodes, switches, groups, gb: [memory, node, npu] } = shape;
    format!(
        "topology: SW({npus})\nlinks: {{bandwidth: 50 GB/s, latency: 0 ns}}\nremote_memory: \
         {{model: hierarchical, nodes: {nodes}, out_switches: {switches}, groups: {groups}, chunk_size: 64 kB, \
         memory_side: {{bandwidth: {memory} GB/s}}, npu_side: {{bandwidth: {node} GB/s}}, in_node: {{bandwidth: {npu} GB/s}}}}\n"
    )
}

/// The same pool as a graph; its groups are the last NPUs.
fn fabric(shape: &Shape) -> String {
    let Shape { npus, nodes, switches, groups, gb } = *shape;
    let names = |prefix: &'static str, count: u32| (0..count).map(move |i| format!("{prefix}{i}"));
    let link = |from: String, to: String, gb: u64| {
        format!("    - {{between: [{from}, {to}], bandwidth: {gb} GB/s, latency: 0 ns}}\n")
    };
    let memory = (0..groups).flat_map(|group| {
        names("s", switches).map(move |to| link(format!("npu{}", npus + group), to, gb[0]))
    });
    let between = names("s", switches)
        .flat_map(|from| names("n", nodes).map(move |to| link(from.clone(), to, gb[1])));
    let (each, more) = (npus / nodes, npus % nodes);
    let node = move |npu: u32| match npu < more * (each + 1) {
        true => npu / (each + 1),
        false => more + (npu - more * (each + 1)) / each,
    };
    let own = (0..npus).map(|npu| link(format!("n{}", node(npu)), format!("npu{npu}"), gb[2]));
    let all: Vec<String> = names("s", switches).chain(names("n", nodes)).collect();
    format!(
        "graph:\n  npus: {}\n  switches: [{}]\n  links:\n{}network: {{routing: spray, flow: {{exact: true}}}}\n\
         scheduler: {{endpoint_delay: 0 ns}}\n",
        npus + groups,
        all.join(", "),
        memory.chain(between).chain(own).collect::<String>()
    )
}

pub(crate) fn built(programs: Vec<Vec<(Op, u64, Vec<u64>)>>) -> Workload {
    let mut workload = Workload::default();
    for nodes in programs {
        let mut builder = ProgramBuilder::default();
        for (id, (op, us, after)) in (0..).zip(nodes) {
            builder.push(Node { id, duration: Span::from_ns(us * 1_000), op }, "n", after);
        }
        let program: Program = builder.build().expect("ids are unique");
        let known = workload.programs.iter().position(|p| **p == program);
        let index = known.unwrap_or(workload.programs.len());
        if known.is_none() {
            workload.programs.push(Arc::new(program));
        }
        workload.ranks.push(RankBinding { program: index as u32, slots: 0 });
    }
    workload
}

/// Ranks that load and store.
fn accesses(plan: &Plan) -> Workload {
    let programs = plan.iter().map(|pieces| {
        let mut nodes = vec![(WORK, 0, Vec::new())];
        for piece in pieces {
            let last = nodes.len() as u64 - 1;
            nodes.push((WORK, piece.after, vec![last]));
            let (store, bytes) = (piece.store, Bytes(piece.bytes));
            let op = Op::Memory { store, bytes, reach: Reach::Remote, tensor: 1, slot: None };
            nodes.push((op, 0, vec![last + 1]));
        }
        nodes
    });
    built(programs.collect())
}

/// The same as messages: a byte asks each group for its part, or tells that it has come.
fn messages(shape: &Shape, plan: &Plan) -> Workload {
    let Shape { npus, groups, .. } = *shape;
    let tag = |rank: usize| rank as u32;
    let mut programs = Vec::new();
    for (rank, pieces) in plan.iter().enumerate() {
        let mut nodes = vec![(WORK, 0, Vec::new())];
        for piece in pieces {
            let last = nodes.len() as u64 - 1;
            nodes.push((WORK, piece.after, vec![last]));
            let part = piece.bytes / u64::from(groups);
            let (there, back) = if piece.store { (part, 1) } else { (1, part) };
            let peers = (0..groups).map(|group| (npus + group) as i32 - rank as i32);
            let first = nodes.len() as u64;
            for peer in peers {
                let tag = tag(rank);
                nodes.push((
                    Op::Send { peer: peer.into(), bytes: Bytes(there), tag },
                    0,
                    vec![last + 1],
                ));
                nodes.push((
                    Op::Recv { peer: peer.into(), bytes: Bytes(back), tag },
                    0,
                    vec![last + 1],
                ));
            }
            let all = (first..nodes.len() as u64).collect();
            nodes.push((WORK, 0, all));
        }
        programs.push(nodes);
    }
    for group in 0..groups {
        let mut nodes = Vec::new();
        for (rank, pieces) in plan.iter().enumerate() {
            let (peer, tag) = (rank as i32 - (npus + group) as i32, tag(rank));
            let mut before = Vec::new();
            for piece in pieces {
                let part = piece.bytes / u64::from(groups);
                let (there, back) = if piece.store { (part, 1) } else { (1, part) };
                let at = nodes.len() as u64;
                nodes.push((Op::Recv { peer: peer.into(), bytes: Bytes(there), tag }, 0, before));
                nodes.push((Op::Send { peer: peer.into(), bytes: Bytes(back), tag }, 0, vec![at]));
                before = vec![at + 1];
            }
        }
        if nodes.is_empty() {
            nodes.push((WORK, 0, Vec::new()));
        }
        programs.push(nodes);
    }
    built(programs)
}

pub(crate) fn outcome(platform: &str, workload: Workload, backend: BackendKind) -> Outcome {
    run(&config(platform, workload, backend), &mut |_| true)
        .unwrap_or_else(|error| panic!("{platform}\n{error}"))
}

/// When each rank is done, in us, on the pool and on the fabric.
fn both(shape: &Shape, plan: &Plan) -> Vec<(f64, f64)> {
    let pooled = outcome(&pool(shape), accesses(plan), BackendKind::Analytical);
    let flows = outcome(&fabric(shape), messages(shape, plan), BackendKind::Flow);
    let us = |outcome: &Outcome, rank| outcome.finish(rank).0 as f64 * 1e-6;
    (0..shape.npus).map(|rank| (us(&pooled, rank), us(&flows, rank))).collect()
}

fn assert_close(shape: &Shape, plan: &Plan) {
    for (rank, (pooled, flows)) in both(shape, plan).into_iter().enumerate() {
        assert!(
            (pooled - flows).abs() <= 0.02 * flows,
            "rank {rank}: {pooled} us on the pool, {flows} us on the fabric\n{shape:?}\n{plan:?}"
        );
    }
}

/// `count` of the NPUs load 64 MB, those of one node first.
fn first_ranks(count: u32) -> Plan {
    let piece = Piece { after: 0, store: false, bytes: 64_000_000 };
    (0..256).map(|rank| if rank < count { vec![piece] } else { Vec::new() }).collect()
}

/// The paper's pool. One NPU has 200 GB/s to its node, 16 share it, and so do those of all nodes:
/// 256 load at the 3,200 GB/s of the groups.
#[test]
fn a_load_takes_what_those_who_load_need() {
    let step = |count| {
        let outcome =
            outcome(&pool(&EXAMPLE), accesses(&first_ranks(count)), BackendKind::Analytical);
        outcome.report.step_time_ns * 1e-3
    };
    for (count, us) in
        [(1, 320.0), (16, 16.0 * 320.0), (32, 16.0 * 320.0), (256, 64.0 * 320.0 / 4.0)]
    {
        let took = step(count);
        assert!((took - us).abs() < 0.005 * us, "{count} NPUs: {took} us");
    }
}

#[test]
fn parts_of_a_pool_are_as_fast_as_its_fabric() {
    for count in [1, 16, 40] {
        assert_close(&EXAMPLE, &first_ranks(count));
    }
}

/// A small generator of random numbers below a bound.
pub(crate) fn generator(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// A random pool, and what some of its NPUs load and store when. `kinds` programs at most.
fn random(seed: u64, kinds: u64) -> (Shape, Plan) {
    let mut below = generator(seed);
    let nodes = 1 + below(4) as u32;
    let npus = nodes * (1 + below(5) as u32) + below(u64::from(nodes)) as u32;
    let (switches, groups) = (1 + below(3) as u32, 1 + below(3) as u32);
    let gb = [20 + below(200), 20 + below(100), 50 + below(200)];
    let shape = Shape { npus, nodes, switches, groups, gb };
    let unit = 12_000_000;
    let mut piece = |busy: bool| Piece {
        after: if busy { below(600) } else { below(4_000) },
        store: below(3) == 0,
        bytes: unit * (1 + below(12)),
    };
    let mut programs = vec![Vec::new()];
    for kind in 0..kinds {
        programs.push((0..1 + kind % 3).map(|_| piece(kind.is_multiple_of(2))).collect());
    }
    let plan = (0..npus).map(|_| programs[below(kinds + 1) as usize].clone()).collect();
    (shape, plan)
}

/// Random pools, random parts of their NPUs, accesses that begin at any time.
#[test]
fn random_parts_of_random_pools_are_as_fast_as_their_fabrics() {
    for seed in 0..40 {
        let (shape, plan) = random(seed, 8);
        assert_close(&shape, &plan);
    }
}

/// One NPU of each class stands for all, whatever nodes they are on.
#[test]
fn folding_changes_no_time() {
    let mut folded = 0;
    for seed in 100..140 {
        let (mut shape, _) = random(seed, 2);
        shape.npus *= 4;
        let (_, kinds) = random(seed, 2);
        let plan: Plan =
            (0..shape.npus).map(|rank| kinds[rank as usize % kinds.len()].clone()).collect();
        let run_as = |fold| {
            let mut config = config(&pool(&shape), accesses(&plan), BackendKind::Analytical);
            config.fold = fold;
            run(&config, &mut |_| true).unwrap_or_else(|error| panic!("{error}"))
        };
        let (one, all) = (run_as(true), run_as(false));
        folded += u32::from(one.simulated_ranks < all.simulated_ranks);
        for rank in 0..shape.npus {
            assert_eq!(one.finish(rank), all.finish(rank), "rank {rank} {shape:?} {plan:?}");
        }
    }
    assert!(folded > 10, "only {folded} runs were folded");
}

/// Whoever begins later cannot make an access faster than it is alone, or slower than it is with
/// everybody.
#[test]
fn an_access_is_between_alone_and_everybody() {
    let alone = 320.0;
    let mut plan = first_ranks(256);
    for (rank, pieces) in plan.iter_mut().enumerate().skip(1) {
        pieces[0].after = 40 * (rank as u64 % 16);
    }
    let outcome = outcome(&pool(&EXAMPLE), accesses(&plan), BackendKind::Analytical);
    for (rank, pieces) in plan.iter().enumerate() {
        let took = outcome.finish(rank as u32).0 as f64 * 1e-6 - pieces[0].after as f64;
        assert!((alone..20_600.0).contains(&took), "rank {rank}: {took} us");
    }
}

/// A pool on a ring, as a pool and as a fabric.
fn on_a_ring(stations: u32, npus: u32, groups: u32, between: u64) -> (String, String) {
    let pool = format!(
        "topology: SW({npus})\nlinks: {{bandwidth: 50 GB/s, latency: 0 ns}}\nremote_memory: \
         {{model: ring, stations: {stations}, groups: {groups}, chunk_size: 16 kB, \
         memory_side: {{bandwidth: 150 GB/s}}, between: {{bandwidth: {between} GB/s}}, npu_side: {{bandwidth: 80 GB/s}}}}\n"
    );
    let link = |from: String, to: String, gb: u64| {
        format!("    - {{between: [{from}, {to}], bandwidth: {gb} GB/s, latency: 0 ns}}\n")
    };
    // Counts that divide, so that each station has as many.
    let at = |of: u32, count: u32| format!("s{}", of / (count / stations));
    let ring =
        (0..stations).map(|s| link(format!("s{s}"), format!("s{}", (s + 1) % stations), between));
    let own = (0..npus).map(|npu| link(at(npu, npus), format!("npu{npu}"), 80));
    let memory = (0..groups).map(|g| link(format!("npu{}", npus + g), at(g, groups), 150));
    let names: Vec<String> = (0..stations).map(|s| format!("s{s}")).collect();
    let fabric = format!(
        "graph:\n  npus: {}\n  switches: [{}]\n  links:\n{}network: {{routing: spray, flow: {{exact: true}}}}\n\
         scheduler: {{endpoint_delay: 0 ns}}\n",
        npus + groups,
        names.join(", "),
        ring.chain(own).chain(memory).collect::<String>()
    );
    (pool, fabric)
}

/// Parts of the NPUs of a ring load at once: the last one is done when it is on the fabric.
#[test]
fn parts_of_a_ring_are_as_fast_as_its_fabric() {
    let mut below = generator(7);
    for _ in 0..12 {
        let stations = 3 + below(5) as u32;
        let (npus, groups) = (stations * (1 + below(2) as u32), stations * (1 + below(2) as u32));
        let (pool, fabric) = on_a_ring(stations, npus, groups, 20 + below(60));
        let piece = Piece { after: 0, store: false, bytes: u64::from(groups) * 6_000_000 };
        let plan: Plan = (0..npus)
            .map(|rank| if rank == 0 || below(3) == 0 { vec![piece] } else { Vec::new() })
            .collect();
        let shape = Shape { npus, groups, ..EXAMPLE };
        let pooled = outcome(&pool, accesses(&plan), BackendKind::Analytical).report.step_time_ns;
        let flows =
            outcome(&fabric, messages(&shape, &plan), BackendKind::Flow).report.step_time_ns;
        assert!((pooled - flows).abs() <= 0.02 * flows, "{pooled} {flows} {plan:?}\n{fabric}");
    }
}
