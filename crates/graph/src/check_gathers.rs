//! Gathers in the switches of memory outside the NPUs: a rank has a shard only in its own groups.

use super::{MOST, more};
use crate::{Members, Op, Problem, Program, Workload};
use std::collections::BTreeMap;

/// Reports ranks that load or store shards of a group they are not in.
pub(super) fn check(workload: &Workload, sound: &[bool], problems: &mut Vec<Problem>) {
    let gathers: Vec<_> = workload.by_body(slots);
    if gathers.iter().all(BTreeMap::is_empty) {
        return;
    }
    let (world, mut found, mut others) = (workload.ranks.len() as u32, Vec::new(), 0);
    for (rank, binding) in (0..world).zip(&workload.ranks) {
        for (&slot, &node) in &gathers[binding.program as usize] {
            let group = workload.group_of(rank, slot) as usize;
            let members = &workload.groups[group].members;
            if !sound[group] || *members == Members::All || members.position(rank, world).is_some()
            {
                continue;
            }
            match found.len() < MOST {
                true => found.push((rank, node, group)),
                false => others += 1,
            }
        }
    }
    let last = found.len();
    for (at, (rank, node, group)) in (1..).zip(found) {
        let name = &workload.groups[group].name;
        let message = format!(
            "the access gathers shards of group {name}, but rank {rank} is not in it{}",
            more(if at == last { others } else { 0 }, "rank")
        );
        problems.push(
            Problem::new("", format!("rank {rank} node {node}"), message)
                .help("a group of the rank, or no group for all NPUs"),
        );
    }
}

/// Slots whose shards a program gathers, each with the first node that does.
fn slots(program: &Program) -> BTreeMap<u32, u64> {
    let mut found = BTreeMap::new();
    for node in program.nodes() {
        if let Op::Memory { slot: Some(slot), .. } = node.op {
            found.entry(slot).or_insert(node.id);
        }
    }
    found
}
