//! Workloads that can run pass; each way of being wrong is named with ranks, nodes and values.

use super::*;
use crate::{CollectiveKind, Group, Kernel, Node, ProgramBuilder};
use proptest::prelude::*;
use std::sync::Arc;
use units::{Bytes, Span};

fn all_reduce(bytes: u64, slot: u32) -> Op {
    let kind = CollectiveKind::AllReduce;
    Op::Collective { kind, bytes: Bytes(bytes), slot, priority: 0, dims: u32::MAX, root: 0 }
}

fn all_gather(bytes: u64) -> Op {
    let kind = CollectiveKind::AllGather;
    Op::Collective { kind, bytes: Bytes(bytes), slot: 0, priority: 0, dims: u32::MAX, root: 0 }
}

fn send(peer: i32, bytes: u64) -> Op {
    Op::Send { peer: peer.into(), bytes: Bytes(bytes), tag: 7 }
}

fn recv(peer: i32, bytes: u64) -> Op {
    Op::Recv { peer: peer.into(), bytes: Bytes(bytes), tag: 7 }
}

fn program(nodes: &[(u64, Op, &[u64])]) -> Program {
    let mut builder = ProgramBuilder::default();
    for &(id, op, deps) in nodes {
        builder.push(Node { id, duration: Span::ZERO, op }, "", deps.iter().copied());
    }
    builder.build().unwrap()
}

/// Ranks with a program each (equal ones not shared), every slot bound to `group`.
fn workload(programs: Vec<Program>, groups: Vec<Members>) -> Workload {
    let most = programs.iter().map(Program::slots).max().unwrap_or(0);
    let ranks =
        (0..programs.len() as u32).map(|program| RankBinding { program, slots: 0 }).collect();
    let name = |(i, members): (usize, Members)| Group { name: format!("g{i}"), members };
    Workload {
        programs: programs.into_iter().map(Arc::new).collect(),
        ranks,
        slots: (0..most).collect(),
        groups: groups.into_iter().enumerate().map(name).collect(),
        ..Workload::default()
    }
}

fn only(workload: &Workload) -> String {
    let problems = check(workload, workload.ranks.len() as u32);
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].to_string()
}

#[test]
fn a_million_equal_ranks_pass() {
    let ring = program(&[(1, all_reduce(64, 0), &[]), (2, all_reduce(64, 0), &[1])]);
    let workload = Workload::uniform(ring, 1_000_000);
    assert_eq!(check(&workload, 1_000_000), []);
    assert_eq!(check(&workload, 8).len(), 1, "the platform has another size");
}

#[test]
fn a_pipeline_of_shared_programs_passes_and_its_open_end_does_not() {
    let first = program(&[(1, send(1, 8), &[])]);
    let middle = program(&[(1, recv(-1, 8), &[]), (2, send(1, 8), &[1])]);
    let last = program(&[(1, recv(-1, 8), &[])]);
    let mut stages = workload(vec![first, middle, last], vec![]);
    let stage = |program| RankBinding { program, slots: 0 };
    stages.ranks =
        std::iter::once(stage(0)).chain((0..1000).map(|_| stage(1))).chain([stage(2)]).collect();
    assert_eq!(check(&stages, 1002), []);
    stages.ranks.pop();
    let text = only(&stages);
    assert!(text.contains("rank 1000 node 2") && text.contains("sends to rank 1001"), "{text}");
}

#[test]
fn unmatched_messages_are_named_with_their_counts_and_sizes() {
    let pair = |a: &[(u64, Op, &[u64])], b: &[(u64, Op, &[u64])]| {
        only(&workload(vec![program(a), program(b)], vec![]))
    };
    let compute = Op::Compute { operations: None, bytes: None, cpu: false, kernel: Kernel::Other };
    let text = pair(&[(4, send(1, 8), &[])], &[(1, compute, &[])]);
    assert!(
        text.contains("rank 0 node 4")
            && text.contains("sends 1 messages with tag 7 to rank 1, which receives 0")
    );
    let text = pair(&[(1, compute, &[])], &[(5, recv(-1, 8), &[])]);
    assert!(text.contains("rank 1 node 5") && text.contains("rank 0 sends 0 messages"), "{text}");
    let text = pair(&[(4, send(1, 8), &[])], &[(5, recv(-1, 16), &[])]);
    assert!(
        text.contains("sends 8 bytes with tag 7 (node 4), but rank 1 receives 16 (node 5)"),
        "{text}"
    );
    let text = pair(&[(4, send(0, 8), &[])], &[(1, compute, &[])]);
    assert!(text.contains("itself"), "{text}");
}

#[test]
fn cycles_name_their_nodes() {
    let compute = Op::Compute { operations: None, bytes: None, cpu: false, kernel: Kernel::Other };
    let looped = program(&[
        (1, compute, &[]),
        (2, compute, &[1, 9]),
        (5, compute, &[2]),
        (9, compute, &[5]),
        (10, compute, &[9]),
    ]);
    let text = only(&workload(vec![looped], vec![]));
    assert!(text.contains("2 -> 9 -> 5 -> 2"), "{text}");
    let own = program(&[(3, compute, &[3])]);
    assert!(only(&workload(vec![own], vec![])).contains("3 -> 3"));
}

#[test]
fn members_that_disagree_are_named_with_ordinal_and_values() {
    let text = |a: Vec<(u64, Op, &[u64])>, b: Vec<(u64, Op, &[u64])>| {
        only(&workload(vec![program(&a), program(&a), program(&b)], vec![Members::All]))
    };
    let same = || vec![(1, all_reduce(8, 0), &[][..]), (2, all_gather(8), &[1])];
    let size = text(same(), vec![(1, all_reduce(8, 0), &[]), (2, all_gather(16), &[])]);
    assert!(size.contains("disagree about collective 2:"), "{size}");
    assert!(
        size.contains(
            "rank 0 has all_gather of 8 bytes (node 2), rank 2 has all_gather of 16 bytes"
        ),
        "{size}"
    );
    let fewer = text(same(), vec![(1, all_reduce(8, 0), &[])]);
    assert!(fewer.contains("rank 2 has none"), "{fewer}");
    let order = text(same(), vec![(1, all_gather(8), &[]), (2, all_reduce(8, 0), &[])]);
    assert!(order.contains("disagree about collective 1: rank 0 has all_reduce"), "{order}");
}

/// Ids may run against the order that the dependencies force.
#[test]
fn order_is_the_order_of_dependencies() {
    let a = program(&[(1, all_reduce(8, 0), &[]), (2, all_gather(8), &[1])]);
    let b = program(&[(1, all_gather(8), &[2]), (2, all_reduce(8, 0), &[])]);
    assert_eq!(check(&workload(vec![a, b], vec![Members::All]), 2), []);
}

#[test]
fn groups_with_wrong_members_and_outsiders_are_named() {
    let text = |members| {
        let user = || program(&[(3, all_reduce(8, 0), &[])]);
        only(&workload(vec![user(), user(), user()], vec![members]))
    };
    assert!(text(Members::List(vec![0, 1, 7])).contains("rank 7 is outside the 3 ranks"));
    assert!(text(Members::List(vec![0, 1, 1])).contains("rank 1 appears twice"));
    assert!(text(Members::List(vec![])).contains("no members"));
    assert!(text(Members::Strided { first: 0, count: 3, step: 2 }).contains("rank 4 is outside"));
    assert!(
        text(Members::Strided { first: 2, count: 2, step: 0 }).contains("rank 2 appears twice")
    );
    let outsider = text(Members::List(vec![1, 0]));
    assert!(outsider.contains("rank 2 node 3") && outsider.contains("group g0"), "{outsider}");
}

#[test]
fn two_names_of_one_group_count_as_one() {
    let two_slots = program(&[(1, all_reduce(8, 0), &[]), (2, all_reduce(16, 1), &[])]);
    let one_slot = program(&[(1, all_reduce(8, 0), &[]), (2, all_reduce(16, 0), &[])]);
    let mut both = workload(vec![two_slots, one_slot], vec![Members::All]);
    both.slots = vec![0, 0];
    assert_eq!(check(&both, 2), []);
}

#[test]
fn a_root_outside_the_group_is_named() {
    let kind = CollectiveKind::Broadcast;
    let op =
        Op::Collective { kind, bytes: Bytes(8), slot: 0, priority: 0, dims: u32::MAX, root: 2 };
    let user = || program(&[(3, op, &[])]);
    let problems = check(&workload(vec![user(), user()], vec![Members::All]), 2);
    assert!(
        problems[0].to_string().contains("invalid root 2: group g0 has 2 ranks"),
        "{problems:?}"
    );
}

#[test]
fn empty_programs_have_nothing_to_run() {
    assert!(only(&workload(vec![program(&[])], vec![])).contains("holds no nodes"));
    assert!(
        only(&workload(vec![program(&[(1, Op::Metadata, &[])])], vec![]))
            .contains("none of the trace's 1 nodes")
    );
    assert_eq!(check(&Workload::default(), 4).len(), 1);
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::Metadata),
        Just(Op::Compute { operations: None, bytes: None, cpu: true, kernel: Kernel::Other }),
        (-3i32..4, 0u64..3, 0u32..2).prop_map(|(peer, b, tag)| Op::Send {
            peer: peer.into(),
            bytes: Bytes(b),
            tag
        }),
        (-3i32..4, 0u64..3, 0u32..2).prop_map(|(peer, b, tag)| Op::Recv {
            peer: peer.into(),
            bytes: Bytes(b),
            tag
        }),
        (0u64..3, 0u32..2).prop_map(|(bytes, slot)| all_reduce(bytes, slot)),
    ]
}

/// The messages of a workload, counted rank by rank without sharing anything.
fn balanced(workload: &Workload) -> bool {
    let mut open = std::collections::BTreeMap::new();
    for rank in 0..workload.ranks.len() as i64 {
        let program = workload.program(rank as u32);
        for node in program.nodes() {
            let other = |peer| rank + i64::from(program.offset(peer));
            let (key, change) = match node.op {
                Op::Send { peer, bytes, tag } => ((rank, other(peer), tag, bytes), 1),
                Op::Recv { peer, bytes, tag } => ((other(peer), rank, tag, bytes), -1),
                _ => continue,
            };
            if key.0 == key.1
                || key.0.min(key.1) < 0
                || key.0.max(key.1) >= workload.ranks.len() as i64
            {
                return false;
            }
            *open.entry(key).or_insert(0) += change;
        }
    }
    open.values().all(|&count| count == 0)
}

proptest! {
    #[test]
    fn messages_are_found_wrong_exactly_when_a_plain_count_does(
        all in proptest::collection::vec(proptest::collection::vec(op(), 0..4), 1..4),
        map in proptest::collection::vec(0usize..4, 1..6),
    ) {
        let numbered = |ops: &Vec<Op>| {
            let nodes: Vec<_> = ops.iter().enumerate().map(|(i, &op)| (i as u64, op, &[][..])).collect();
            program(&nodes)
        };
        let mut workload = workload(all.iter().map(numbered).collect(), vec![Members::All, Members::All]);
        workload.slots = vec![0, 1];
        let count = all.len();
        workload.ranks = map.iter().map(|&p| RankBinding { program: (p % count) as u32, slots: 0 }).collect();
        let mut problems = Vec::new();
        messages::check(&workload, &mut problems);
        prop_assert_eq!(problems.is_empty(), balanced(&workload), "{:?}", problems);
        check(&workload, map.len() as u32);
    }
}
