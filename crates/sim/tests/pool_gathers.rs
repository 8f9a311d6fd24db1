//! Gathers of groups in the switches of a pool, next to the same pool built as a fabric on fair
//! flows. There the switches are ranks: each passes a chunk on to whoever needs it once it has all
//! of it, and a memory group sends the next one when an earlier one has come everywhere.

use crate::common::built::WORK;
use crate::pools::{EXAMPLE, Shape, built, generator, outcome, pool};
use graph::{Group, Members, Op, Reach, Workload};
use sim::BackendKind;
use std::collections::{BTreeMap, BTreeSet};
use units::Bytes;

/// Chunks that may be under way between a memory group and the NPUs.
const UNDER_WAY: usize = 6;

/// What a memory group sends to a switch at a time, as `pool` has it.
const CHUNK: u64 = 64_000;

/// Ranks that gather the shards of all of them, and the bytes of a shard.
#[derive(Clone, Debug)]
struct Gather {
    ranks: Vec<u32>,
    shard: u64,
}

/// Operations of a rank: kind, recorded time and dependencies.
type Nodes = Vec<(Op, u64, Vec<u64>)>;

fn node_of(shape: &Shape, npu: u32) -> u32 {
    let (each, more) = (shape.npus / shape.nodes, shape.npus % shape.nodes);
    match npu < more * (each + 1) {
        true => npu / (each + 1),
        false => more + (npu - more * (each + 1)) / each,
    }
}

fn gathering(shape: &Shape, gathers: &[Gather], store: bool) -> Workload {
    let of = |rank: u32| gathers.iter().position(|gather| gather.ranks.contains(&rank));
    let access = |gather: &Gather| Op::Memory {
        store,
        bytes: Bytes(gather.shard),
        reach: Reach::InSwitch,
        tensor: 1,
        slot: Some(0),
    };
    let nodes =
        |rank: u32| of(rank).map_or((WORK, 0, vec![]), |at| (access(&gathers[at]), 0, vec![]));
    let mut workload = built((0..shape.npus).map(|rank| vec![nodes(rank)]).collect());
    let group = |(at, gather): (usize, &Gather)| Group {
        name: format!("g{at}"),
        members: Members::from_list(gather.ranks.clone(), shape.npus),
    };
    workload.groups = gathers.iter().enumerate().map(group).collect();
    workload.slots = (0..gathers.len() as u32).collect();
    for (rank, binding) in (0..).zip(&mut workload.ranks) {
        binding.slots = of(rank).unwrap_or(0) as u32;
    }
    workload
}

/// The switches and groups of a pool behind its NPUs.
struct Built<'a> {
    shape: &'a Shape,
    programs: Vec<Nodes>,
    tag: u32,
    /// The last send of a gather from a rank to another: a link carries one chunk at a time.
    last: BTreeMap<(u32, u32), u64>,
}

impl Built<'_> {
    fn switch(&self, at: u32) -> u32 {
        self.shape.npus + at
    }

    fn node(&self, at: u32) -> u32 {
        self.switch(self.shape.switches) + at
    }

    fn group(&self, at: u32) -> u32 {
        self.node(self.shape.nodes) + at
    }

    fn add(&mut self, rank: u32, op: Op, after: Vec<u64>) -> u64 {
        let nodes = &mut self.programs[rank as usize];
        nodes.push((op, 0, after));
        nodes.len() as u64 - 1
    }

    /// A message; the number of its receive.
    fn message(&mut self, from: u32, to: u32, bytes: u64, after: &[u64]) -> u64 {
        let (peer, tag) = (to as i32 - from as i32, self.tag);
        let after = after.iter().copied().chain(self.last.get(&(from, to)).copied()).collect();
        let send = self.add(from, Op::Send { peer: peer.into(), bytes: Bytes(bytes), tag }, after);
        self.last.insert((from, to), send);
        let recv =
            self.add(to, Op::Recv { peer: (-peer).into(), bytes: Bytes(bytes), tag }, vec![]);
        self.tag += 1;
        recv
    }

    /// Messages from some ranks to each of others once all of `after` is over; what each of the
    /// others has then received.
    fn pass(&mut self, from: &[(u32, Vec<u64>)], to: &[u32], bytes: u64) -> Vec<(u32, Vec<u64>)> {
        let mut received: Vec<(u32, Vec<u64>)> = to.iter().map(|&rank| (rank, vec![])).collect();
        for (source, after) in from {
            for (rank, all) in &mut received {
                all.push(self.message(*source, *rank, bytes, after));
            }
        }
        received
    }

    /// All chunks of a gather, each of which waits for an earlier one.
    fn gather(&mut self, gather: &Gather) {
        let Shape { switches, groups, .. } = *self.shape;
        let all = gather.shard * gather.ranks.len() as u64;
        let chunks = all.div_ceil(u64::from(groups * switches) * CHUNK);
        let places: BTreeSet<u32> =
            gather.ranks.iter().map(|&npu| node_of(self.shape, npu)).collect();
        let outer: Vec<u32> = (0..switches).map(|at| self.switch(at)).collect();
        let nodes: Vec<u32> = places.iter().map(|&at| self.node(at)).collect();
        let memory: Vec<u32> = (0..groups).map(|at| self.group(at)).collect();
        self.last.clear();
        let mut told: Vec<Vec<(u32, Vec<u64>)>> = Vec::new();
        for chunk in 0..chunks as usize {
            let part = |over: u32| all / chunks / u64::from(over);
            let sends = match chunk.checked_sub(UNDER_WAY) {
                Some(before) => told[before].clone(),
                None => memory.iter().map(|&rank| (rank, vec![])).collect(),
            };
            let at_outer = self.pass(&sends, &outer, part(groups * switches));
            let at_nodes = self.pass(&at_outer, &nodes, part(switches));
            let mut back = Vec::new();
            for (rank, received) in at_nodes {
                let there = |&npu: &u32| self.node(node_of(self.shape, npu)) == rank;
                let own: Vec<u32> = gather.ranks.iter().copied().filter(there).collect();
                let come = self.pass(&[(rank, received)], &own, part(1));
                back.push(self.pass(&come, &[rank], 1).remove(0));
            }
            let back = self.pass(&back, &outer, 1);
            told.push(self.pass(&back, &memory, 1));
        }
    }
}

fn messages(shape: &Shape, gathers: &[Gather]) -> Workload {
    let ranks = shape.npus + shape.switches + shape.nodes + shape.groups;
    let programs = vec![Vec::new(); ranks as usize];
    let mut all = Built { shape, programs, tag: 0, last: BTreeMap::new() };
    gathers.iter().for_each(|gather| all.gather(gather));
    let idle = |nodes: Nodes| if nodes.is_empty() { vec![(WORK, 0, vec![])] } else { nodes };
    built(all.programs.into_iter().map(idle).collect())
}

/// The links of a pool between NPUs, switches and groups, all of them ranks.
fn fabric(shape: &Shape) -> String {
    let Shape { npus, nodes, switches, groups, gb } = *shape;
    let (outer, inner, memory) = (npus, npus + switches, npus + switches + nodes);
    let mut links = Vec::new();
    for switch in outer..inner {
        links.extend((memory..memory + groups).map(|group| (group, switch, gb[0])));
        links.extend((inner..memory).map(|node| (switch, node, gb[1])));
    }
    links.extend((0..npus).map(|npu| (inner + node_of(shape, npu), npu, gb[2])));
    let link = |(a, b, gb): (u32, u32, u64)| {
        format!("    - {{between: [npu{a}, npu{b}], bandwidth: {gb} GB/s, latency: 0 ns}}\n")
    };
    format!(
        "graph:\n  npus: {}\n  links:\n{}network: {{flow: {{exact: true}}}}\nscheduler: {{endpoint_delay: 0 ns}}\n",
        memory + groups,
        links.into_iter().map(link).collect::<String>()
    )
}

/// A random pool whose NPUs are dealt to groups that gather shards of several sizes at once.
fn random(seed: u64) -> (Shape, Vec<Gather>) {
    let mut below = generator(seed);
    let nodes = 1 + below(3) as u32;
    let npus = nodes * (1 + below(4) as u32) + below(u64::from(nodes)) as u32;
    let (switches, groups) = (1 + below(2) as u32, 1 + below(2) as u32);
    let gb = [20 + below(200), 20 + below(100), 50 + below(200)];
    let shape = Shape { npus, nodes, switches, groups, gb };
    let kinds = 1 + below(3);
    let mut ranks = vec![Vec::new(); kinds as usize];
    (0..npus).for_each(|npu| ranks[below(kinds) as usize].push(npu));
    ranks.retain(|ranks| !ranks.is_empty());
    let gather = |ranks: Vec<u32>| {
        let chunks = 100 + below(60);
        let shard = chunks * CHUNK * u64::from(groups * switches) / ranks.len() as u64;
        Gather { ranks, shard }
    };
    let gathers = ranks.into_iter().map(gather).collect();
    (shape, gathers)
}

/// Drawn groups on drawn pools: each gather is over when it is on the fabric. There, NPUs of a node
/// with idle links are some chunks ahead of the last ones, so the last ones count.
#[test]
fn gathers_of_groups_are_as_fast_as_their_fabrics() {
    for seed in 0..24 {
        let (shape, gathers) = random(seed);
        let pooled =
            outcome(&pool(&shape), gathering(&shape, &gathers, false), BackendKind::Analytical);
        let flows = outcome(&fabric(&shape), messages(&shape, &gathers), BackendKind::Flow);
        for gather in &gathers {
            let last = |outcome: &sim::Outcome| {
                let ends = gather.ranks.iter().map(|&rank| outcome.finish(rank).0);
                ends.max().unwrap_or(0) as f64 * 1e-6
            };
            let (pooled, flows) = (last(&pooled), last(&flows));
            assert!(
                (pooled - flows).abs() <= 0.02 * flows,
                "seed {seed}: {pooled} us on the pool, {flows} us on the fabric\n\
                 {shape:?}\n{gather:?} of {gathers:?}"
            );
        }
    }
}

/// The 8 groups of tensor parallelism 8 in the paper's pool: the memory carries what one group of
/// all would, each node the same, and an NPU an eighth. Stores take as long as loads.
#[test]
fn groups_of_the_worked_example_take_what_its_equations_say() {
    let w = 64_000_000;
    let groups = |stride: u32, count: u32| -> Vec<Gather> {
        let ranks = |first| (first..256).step_by(stride as usize).collect();
        (0..count).map(|first| Gather { ranks: ranks(first), shard: w }).collect()
    };
    // One group of 32: 32 W / 4 to each node at 50 GB/s. All 8: eight times that, as one of 256.
    for (count, us) in [(1, 32.0 * 64e3 / 200.0), (8, 256.0 * 64e3 / 200.0)] {
        for store in [false, true] {
            let workload = gathering(&EXAMPLE, &groups(8, count), store);
            let took = outcome(&pool(&EXAMPLE), workload, BackendKind::Analytical);
            let took = took.report.step_time_ns * 1e-3;
            assert!((took - us).abs() < 0.005 * us, "{count} groups: {took} us, not {us}");
        }
    }
}

/// Four stages of 64 ranks on nodes of their own: 64 W to each node, a quarter of the shards.
#[test]
fn stages_of_a_pipeline_gather_apart() {
    let w = 64_000_000;
    let stage = |first: u32| Gather { ranks: (first..first + 64).collect(), shard: w };
    let gathers: Vec<Gather> = (0..4).map(|at| stage(64 * at)).collect();
    let workload = gathering(&EXAMPLE, &gathers, false);
    let took = outcome(&pool(&EXAMPLE), workload, BackendKind::Analytical).report;
    let us = 64.0 * 64e3 / 200.0;
    assert!((took.step_time_ns * 1e-3 - us).abs() < 0.005 * us, "{}", took.step_time_ns);
    assert_eq!(took.symmetry.classes, 1, "stages fold: {}", took.symmetry.reason);
}

/// One rank of each class stands for all, whatever groups and nodes they are in.
#[test]
fn folding_changes_no_time_of_gathers() {
    let mut folded = 0;
    for seed in 100..140 {
        let (mut shape, _) = random(seed);
        shape.npus *= 4;
        let stride = 1 + seed as u32 % 4;
        let ranks = |first| (first..shape.npus).step_by(stride as usize).collect();
        let gathers: Vec<Gather> =
            (0..stride).map(|first| Gather { ranks: ranks(first), shard: 6_000_000 }).collect();
        let run_as = |fold| {
            let workload = gathering(&shape, &gathers, false);
            let mut config =
                crate::common::built::config(&pool(&shape), workload, BackendKind::Analytical);
            config.fold = fold;
            sim::run(&config, &mut |_| true).unwrap_or_else(|error| panic!("{error}"))
        };
        let (one, all) = (run_as(true), run_as(false));
        folded += u32::from(one.simulated_ranks < all.simulated_ranks);
        for rank in 0..shape.npus {
            assert_eq!(one.finish(rank), all.finish(rank), "seed {seed} rank {rank} {shape:?}");
        }
    }
    assert!(folded > 10, "only {folded} runs were folded");
}

#[test]
fn a_rank_gathers_only_in_its_own_groups() {
    let mut workload = gathering(&EXAMPLE, &[Gather { ranks: vec![0, 1], shard: 8 }], false);
    workload.ranks[2].program = workload.ranks[0].program;
    let config = crate::common::built::config(&pool(&EXAMPLE), workload, BackendKind::Analytical);
    let Err(error) = sim::run(&config, &mut |_| true) else { panic!("not refused") };
    let error = error.to_string();
    assert!(error.contains("shards of group g0, but rank 2 is not in it"), "{error}");
}
