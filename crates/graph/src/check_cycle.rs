//! Dependency cycles: a node is in or behind one exactly when no order reaches it.

use super::{Classes, MOST, more, order};
use crate::{Problem, Program, Workload};
use std::rc::Rc;

/// Node ids of a cycle that are listed.
const SHOWN: usize = 12;

/// Reports one cycle for each program that has any, and says which programs those are.
pub(super) fn check(
    workload: &Workload,
    classes: &Classes,
    problems: &mut Vec<Problem>,
) -> Vec<bool> {
    let mut cyclic = vec![false; workload.programs.len()];
    let mut users: Vec<u64> = vec![0; workload.programs.len()];
    classes
        .all
        .iter()
        .for_each(|class| users[class.binding.program as usize] += u64::from(class.ranks));
    let cycles: Vec<Option<Rc<[u32]>>> = workload.by_body(|program| find(program).map(Into::into));
    for (i, program) in workload.programs.iter().enumerate() {
        let Some(cycle) = &cycles[i] else { continue };
        cyclic[i] = true;
        if problems.len() < MOST {
            problems.push(explain(
                program,
                cycle,
                classes.first_rank[i].unwrap_or(0),
                users[i].saturating_sub(1),
            ));
        }
    }
    cyclic
}

/// The indices of a cycle's nodes, each waiting for the next and the last for the first.
fn find(program: &Program) -> Option<Vec<u32>> {
    let n = program.nodes().len();
    let reached = order(program);
    if reached.len() == n {
        return None;
    }
    let mut runs = vec![false; n];
    reached.iter().for_each(|&node| runs[node as usize] = true);
    // A node that never runs waits for another such node, so walking on must come back somewhere.
    let mut at = runs.iter().position(|&runs| !runs)? as u32;
    let mut seen_at = vec![u32::MAX; n];
    let mut path = Vec::new();
    while seen_at[at as usize] == u32::MAX {
        seen_at[at as usize] = path.len() as u32;
        path.push(at);
        at = *program.deps(at as usize).iter().find(|&&dep| !runs[dep as usize])?;
    }
    path.drain(..seen_at[at as usize] as usize);
    Some(path)
}

fn explain(program: &Program, cycle: &[u32], rank: u32, others: u64) -> Problem {
    let id = |&node: &u32| program.nodes()[node as usize].id;
    let mut shown: Vec<String> =
        cycle.iter().take(SHOWN).map(|node| id(node).to_string()).collect();
    if cycle.len() > SHOWN {
        shown.push(format!("({} more)", cycle.len() - SHOWN));
    }
    shown.push(id(&cycle[0]).to_string());
    let message = format!(
        "nodes wait for each other in a cycle: {}{}",
        shown.join(" -> "),
        more(others, "rank")
    );
    let place = format!("rank {rank} node {}", id(&cycle[0]));
    Problem::new("", place, message).help("dependencies without a cycle")
}
