//! Checks of a workload that need no platform: what can't run, said before anything runs.
//!
//! Found: programs with nothing to run, dependency cycles, groups with wrong members, ranks outside
//! the groups they use, members that disagree about a collective, and sends and receives without
//! counterpart. Not found: deadlocks that depend on time (the executor names those). The checks
//! look at programs, slots and peer offsets instead of ranks wherever ranks share them; only
//! membership and the program at the other end of a message are looked up rank by rank.

#[path = "check_collectives.rs"]
mod collectives;
#[path = "check_cycle.rs"]
mod cycle;
#[path = "check_gathers.rs"]
mod gathers;
#[path = "check_messages.rs"]
mod messages;

use crate::{Members, Op, Problem, Program, RankBinding, Workload};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::counted;

/// Problems of one kind that are listed one by one.
const MOST: usize = 200;

/// Every problem of `workload` on a platform of `npus` ranks, in a fixed order; empty when it can
/// run.
pub fn check(workload: &Workload, npus: u32) -> Vec<Problem> {
    let mut problems = Vec::new();
    if workload.ranks.len() as u64 != u64::from(npus) {
        let message = format!(
            "the workload has {} and the platform {}",
            counted(workload.ranks.len(), "rank"),
            counted(npus as usize, "NPU")
        );
        problems.push(Problem::new("", "", message).help(format!(
            "one rank for each NPU; --npus {} resizes a platform",
            workload.ranks.len()
        )));
    }
    if workload.ranks.is_empty() {
        return problems;
    }
    let classes = Classes::new(workload);
    nothing_to_run(workload, &classes, &mut problems);
    let cyclic = cycle::check(workload, &classes, &mut problems);
    let sound_groups = groups(workload, &mut problems);
    collectives::check(workload, &classes, &sound_groups, &cyclic, &mut problems);
    gathers::check(workload, &sound_groups, &mut problems);
    messages::check(workload, &mut problems);
    problems
}

/// Ranks with the same program and the same groups behind its slots.
struct Class {
    binding: RankBinding,
    first_rank: u32,
    ranks: u32,
}

struct Classes {
    all: Vec<Class>,
    of_rank: Vec<u32>,
    /// For each program the first rank that runs it, `None` for none.
    first_rank: Vec<Option<u32>>,
}

impl Classes {
    fn new(workload: &Workload) -> Classes {
        let mut found: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut classes = Classes {
            all: Vec::new(),
            of_rank: Vec::new(),
            first_rank: vec![None; workload.programs.len()],
        };
        classes.of_rank.reserve_exact(workload.ranks.len());
        let mut last = None;
        for (rank, &binding) in workload.ranks.iter().enumerate() {
            let class = match last {
                Some((same, class)) if same == binding => class,
                _ => *found.entry((binding.program, binding.slots)).or_insert_with(|| {
                    classes.first_rank[binding.program as usize].get_or_insert(rank as u32);
                    classes.all.push(Class { binding, first_rank: rank as u32, ranks: 0 });
                    classes.all.len() as u32 - 1
                }),
            };
            classes.all[class as usize].ranks += 1;
            classes.of_rank.push(class);
            last = Some((binding, class));
        }
        classes
    }
}

/// "; the same for 7 more ranks".
fn more(count: u64, noun: &str) -> String {
    match count {
        0 => String::new(),
        1 => format!("; the same for 1 more {noun}"),
        n => format!("; the same for {n} more {noun}s"),
    }
}

fn nothing_to_run(workload: &Workload, classes: &Classes, problems: &mut Vec<Problem>) {
    let mut idle: Vec<u64> = vec![0; workload.programs.len()];
    classes
        .all
        .iter()
        .for_each(|class| idle[class.binding.program as usize] += u64::from(class.ranks));
    for (i, program) in workload.programs.iter().enumerate() {
        let acts =
            program.nodes().iter().any(|node| !matches!(node.op, Op::Metadata | Op::Invalid));
        let Some(rank) = classes.first_rank[i].filter(|_| !acts) else { continue };
        let what = match program.nodes().len() {
            0 => "the trace holds no nodes".to_string(),
            n => format!("none of the trace's {n} nodes computes, loads, stores or communicates"),
        };
        let message = format!("{what}: there is nothing to run{}", more(idle[i] - 1, "rank"));
        problems.push(
            Problem::new("", format!("rank {rank}"), message)
                .help("at least one node that computes, loads, stores or communicates"),
        );
    }
}

/// Checks the members of every group; true for those whose members can be looked at further.
fn groups(workload: &Workload, problems: &mut Vec<Problem>) -> Vec<bool> {
    let world = workload.ranks.len() as u32;
    let mut wrong = 0;
    let sound = workload.groups.iter().map(|group| match group.members.fault(world) {
        None => true,
        Some(message) => {
            wrong += 1;
            if wrong <= MOST {
                let place = format!("group {}", group.name);
                problems.push(
                    Problem::new("", place, message)
                        .help(format!("ranks 0 to {}, each once", world - 1)),
                );
            }
            false
        }
    });
    let sound = sound.collect();
    if wrong > MOST {
        problems.push(Problem::new(
            "",
            "",
            format!("{} more groups have wrong members", wrong - MOST),
        ));
    }
    sound
}

impl Members {
    /// Fault of these members of a workload of `world` ranks, if there is one.
    pub fn fault(&self, world: u32) -> Option<String> {
        match self {
            Members::All => None,
            Members::Strided { count: 0, .. } => Some("the group has no members".into()),
            Members::Strided { first, step: 0, count } => {
                (*count > 1).then(|| format!("rank {first} appears twice"))
            }
            Members::Strided { first, count, step } => {
                let last = u64::from(*first) + u64::from(*step) * u64::from(count - 1);
                (last >= u64::from(world))
                    .then(|| format!("rank {last} is outside the {world} ranks"))
            }
            Members::List(list) => {
                if let Some(rank) = list.iter().find(|&&rank| rank >= world) {
                    return Some(format!("rank {rank} is outside the {world} ranks"));
                }
                let mut sorted = list.clone();
                sorted.sort_unstable();
                match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                    Some(pair) => Some(format!("rank {} appears twice", pair[0])),
                    None => list.is_empty().then(|| "the group has no members".into()),
                }
            }
        }
    }
}

/// Nodes in an order in which they may run, lower ids first; those in or behind a cycle are left
/// out.
pub fn order(program: &Program) -> Vec<u32> {
    let n = program.nodes().len();
    if (0..n).all(|i| program.deps(i).iter().all(|&dep| (dep as usize) < i)) {
        return (0..n as u32).collect();
    }
    let mut waits: Vec<u32> = (0..n).map(|i| program.deps(i).len() as u32).collect();
    let mut ready: BinaryHeap<Reverse<u32>> =
        (0..n as u32).filter(|&i| waits[i as usize] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(n);
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for &child in program.children(node as usize) {
            waits[child as usize] -= 1;
            if waits[child as usize] == 0 {
                ready.push(Reverse(child));
            }
        }
    }
    order
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
