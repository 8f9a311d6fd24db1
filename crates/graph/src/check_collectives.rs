//! Collectives: every member of a group must enter the same ones in the same order.

use super::{Classes, MOST, order};
use crate::{CollectiveKind, Members, Op, Problem, Program, Workload};
use rustc_hash::FxBuildHasher;
use std::hash::{BuildHasher, Hash, Hasher};
use std::rc::Rc;

/// Properties that members must agree about.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Entry {
    kind: CollectiveKind,
    bytes: u64,
    dims: u32,
    root: u32,
}

/// Operations of a program in one of its slots, in the order in which they can run.
#[derive(Clone, Default)]
struct Sequence {
    nodes: Vec<u32>,
    hash: u64,
    /// The largest root.
    root: u32,
}

/// How the ranks of a class use a group.
struct Use {
    group: u32,
    hash: u64,
    count: u32,
}

struct Checker<'w> {
    workload: &'w Workload,
    classes: &'w Classes,
    /// For each program its slots.
    sequences: Vec<Rc<[Sequence]>>,
    /// For each class the groups it uses.
    uses: Vec<Vec<Use>>,
}

/// Reports ranks that use a group they are not in, roots outside a group, and members that
/// disagree.
pub(super) fn check(
    workload: &Workload,
    classes: &Classes,
    sound: &[bool],
    cyclic: &[bool],
    problems: &mut Vec<Problem>,
) {
    let sequences = workload.by_body(|program| sequences(program).into());
    let mut checker = Checker { workload, classes, sequences, uses: Vec::new() };
    checker.uses = (0..classes.all.len()).map(|class| checker.uses_of(class)).collect();
    checker.membership(sound, problems);
    checker.roots(sound, problems);
    // Behind a cycle nothing is entered, which would read as disagreement.
    if cyclic.iter().all(|cyclic| !cyclic) {
        checker.agreement(sound, problems);
    }
}

fn entry(program: &Program, node: u32) -> Option<(u32, Entry)> {
    match program.nodes()[node as usize].op {
        Op::Collective { kind, bytes, slot, dims, root, .. } => {
            use CollectiveKind::*;
            let bytes = if kind == Barrier { 0 } else { bytes.0 };
            let root = if matches!(kind, Broadcast | Reduce | Gather | Scatter) { root } else { 0 };
            Some((slot, Entry { kind, bytes, dims, root }))
        }
        _ => None,
    }
}

fn sequences(program: &Program) -> Vec<Sequence> {
    let mut slots = vec![Sequence::default(); program.slots() as usize];
    if slots.is_empty() {
        return slots;
    }
    for node in order(program) {
        if let Some((slot, entry)) = entry(program, node) {
            let slot = &mut slots[slot as usize];
            slot.nodes.push(node);
            slot.root = slot.root.max(entry.root);
        }
    }
    for slot in &mut slots {
        slot.hash = hash(program, &slot.nodes);
    }
    slots
}

fn hash(program: &Program, nodes: &[u32]) -> u64 {
    let mut hasher = FxBuildHasher.build_hasher();
    nodes.iter().for_each(|&node| entry(program, node).map(|e| e.1).hash(&mut hasher));
    hasher.finish()
}

impl Checker<'_> {
    fn uses_of(&self, class: usize) -> Vec<Use> {
        let binding = self.classes.all[class].binding;
        let slots = &self.sequences[binding.program as usize];
        let mut uses: Vec<Use> = Vec::with_capacity(slots.len());
        for (slot, sequence) in slots.iter().enumerate() {
            let group = self.workload.slots[binding.slots as usize + slot];
            match uses.iter().position(|u| u.group == group) {
                // Two names of one group: what counts is the order over both.
                Some(at) => {
                    let merged = self.merged(class, group);
                    uses[at].hash =
                        hash(&self.workload.programs[binding.program as usize], &merged);
                    uses[at].count = merged.len() as u32;
                }
                None => uses.push(Use {
                    group,
                    hash: sequence.hash,
                    count: sequence.nodes.len() as u32,
                }),
            }
        }
        uses
    }

    /// The nodes of a class that use `group`, in order.
    fn merged(&self, class: usize, group: u32) -> Vec<u32> {
        let binding = self.classes.all[class].binding;
        let slots = &self.sequences[binding.program as usize];
        let of_group = |slot: &usize| self.workload.slots[binding.slots as usize + slot] == group;
        let using: Vec<usize> = (0..slots.len()).filter(of_group).collect();
        match using[..] {
            [] => Vec::new(),
            [slot] => slots[slot].nodes.clone(),
            _ => {
                let program = &self.workload.programs[binding.program as usize];
                let in_group = |node: &u32| {
                    entry(program, *node).is_some_and(|e| using.contains(&(e.0 as usize)))
                };
                order(program).into_iter().filter(in_group).collect()
            }
        }
    }

    fn name(&self, group: u32) -> &str {
        &self.workload.groups[group as usize].name
    }

    /// Every rank must be in the groups it uses.
    fn membership(&self, sound: &[bool], problems: &mut Vec<Problem>) {
        let world = self.workload.ranks.len() as u32;
        let sorted: Vec<Option<Vec<u32>>> =
            self.workload.groups.iter().map(|g| sorted_list(&g.members)).collect();
        let is_member = |group: u32, rank: u32| match &sorted[group as usize] {
            Some(list) => list.binary_search(&rank).is_ok(),
            None => self.workload.groups[group as usize].members.position(rank, world).is_some(),
        };
        let partial = |u: &&Use| {
            sound[u.group as usize]
                && u.count > 0
                && self.workload.groups[u.group as usize].members != Members::All
        };
        let to_check: Vec<Vec<u32>> = self
            .uses
            .iter()
            .map(|uses| uses.iter().filter(partial).map(|u| u.group).collect())
            .collect();
        let mut wrong = 0usize;
        for (rank, &class) in self.classes.of_rank.iter().enumerate() {
            for &group in &to_check[class as usize] {
                if is_member(group, rank as u32) {
                    continue;
                }
                wrong += 1;
                if wrong <= MOST {
                    problems.push(self.outsider(rank as u32, class as usize, group));
                }
            }
        }
        if wrong > MOST {
            let message =
                format!("{} more uses of a group by a rank that is not in it", wrong - MOST);
            problems.push(Problem::new("", "", message));
        }
    }

    fn outsider(&self, rank: u32, class: usize, group: u32) -> Problem {
        let program = self.workload.program(rank);
        let node =
            self.merged(class, group).first().map_or(0, |&node| program.nodes()[node as usize].id);
        let message =
            format!("the collective uses group {}, but rank {rank} is not in it", self.name(group));
        let help = format!(
            "a member of the group: {}",
            members(&self.workload.groups[group as usize].members)
        );
        Problem::new("", format!("rank {rank} node {node}"), message).help(help)
    }

    /// A root is a position in the group.
    fn roots(&self, sound: &[bool], problems: &mut Vec<Problem>) {
        let world = self.workload.ranks.len() as u32;
        for (class, uses) in self.uses.iter().enumerate() {
            let rank = self.classes.all[class].first_rank;
            let program = self.workload.program(rank);
            for u in uses.iter().filter(|u| sound[u.group as usize]) {
                let size = self.workload.groups[u.group as usize].members.len(world);
                let wrong = |node: &u32| entry(program, *node).is_some_and(|e| e.1.root >= size);
                let slots = &self.sequences[self.classes.all[class].binding.program as usize];
                let has_wrong = slots.iter().any(|s| s.root >= size);
                let Some(node) = has_wrong
                    .then(|| self.merged(class, u.group).into_iter().find(wrong))
                    .flatten()
                else {
                    continue;
                };
                let root = entry(program, node).map_or(0, |e| e.1.root);
                let place = format!("rank {rank} node {}", program.nodes()[node as usize].id);
                let message =
                    format!("invalid root {root}: group {} has {size} ranks", self.name(u.group));
                if problems.len() < MOST {
                    problems
                        .push(Problem::new("", place, message).help(format!("0 to {}", size - 1)));
                }
            }
        }
    }

    /// All members of a group must do the same in it.
    fn agreement(&self, sound: &[bool], problems: &mut Vec<Problem>) {
        let mut used = vec![false; self.workload.groups.len()];
        self.uses
            .iter()
            .flatten()
            .filter(|u| u.count > 0)
            .for_each(|u| used[u.group as usize] = true);
        let mut wrong = 0usize;
        for group in (0..used.len()).filter(|&g| used[g] && sound[g]) {
            if let Some(problem) = self.disagreement(group as u32) {
                wrong += 1;
                if wrong <= MOST {
                    problems.push(problem);
                }
            }
        }
        if wrong > MOST {
            problems.push(Problem::new(
                "",
                "",
                format!("the members of {} more groups disagree", wrong - MOST),
            ));
        }
    }

    fn disagreement(&self, group: u32) -> Option<Problem> {
        let members = &self.workload.groups[group as usize].members;
        let none = (0, 0);
        let of_class = |class: u32| {
            let found = self.uses[class as usize].iter().find(|u| u.group == group && u.count > 0);
            found.map_or(none, |u| (u.hash, u.count))
        };
        // Everybody: one look a class. Other groups: one a member.
        let classes: Vec<(u32, u32, u32)> = match members {
            Members::All => {
                (0u32..).zip(&self.classes.all).map(|(i, c)| (i, c.first_rank, c.ranks)).collect()
            }
            some => {
                let ranks = (0..some.len(0)).map(|position| some.rank(position));
                ranks.map(|rank| (self.classes.of_rank[rank as usize], rank, 1)).collect()
            }
        };
        let &(reference, first, _) = classes.iter().find(|c| of_class(c.0) != none)?;
        let expected = of_class(reference);
        let mut other = None;
        let mut dissenters = 0u64;
        for &(class, rank, ranks) in &classes {
            if class != reference && of_class(class) != expected {
                dissenters += u64::from(ranks);
                other.get_or_insert((class, rank));
            }
        }
        let (class, rank) = other?;
        Some(self.explain(group, (reference, first), (class, rank), dissenters - 1))
    }

    fn explain(&self, group: u32, a: (u32, u32), b: (u32, u32), others: u64) -> Problem {
        let side = |(class, rank): (u32, u32)| {
            let nodes = self.merged(class as usize, group);
            let program = self.workload.program(rank);
            let entries: Vec<_> =
                nodes.iter().filter_map(|&n| Some((n, entry(program, n)?.1))).collect();
            entries
        };
        let (left, right) = (side(a), side(b));
        let at = (0..left.len().max(right.len()))
            .find(|&i| left.get(i).map(|e| e.1) != right.get(i).map(|e| e.1))
            .unwrap_or(0);
        let show = |(_, rank): (u32, u32), found: Option<&(u32, Entry)>| match found {
            None => format!("rank {rank} has none"),
            Some(&(node, e)) => {
                let id = self.workload.program(rank).nodes()[node as usize].id;
                format!("rank {rank} has {} (node {id})", describe(e))
            }
        };
        let more =
            if others > 0 { format!("; {others} more members differ") } else { String::new() };
        let sides = format!("{}, {}", show(a, left.get(at)), show(b, right.get(at)));
        let message = format!("its members disagree about collective {}: {sides}{more}", at + 1);
        Problem::new("", format!("group {}", self.name(group)), message)
            .help("the same kind and size in the same order for every member")
    }
}

fn describe(entry: Entry) -> String {
    let mut text = format!("{} of {} bytes", entry.kind.name(), entry.bytes);
    if entry.dims != u32::MAX {
        text.push_str(&format!(" on dimensions {:#b}", entry.dims));
    }
    if entry.root != 0 {
        text.push_str(&format!(" with root {}", entry.root));
    }
    text
}

fn sorted_list(members: &Members) -> Option<Vec<u32>> {
    let Members::List(list) = members else { return None };
    let mut list = list.clone();
    list.sort_unstable();
    Some(list)
}

fn members(members: &Members) -> String {
    let count = members.len(0);
    let shown: Vec<String> =
        (0..count.min(8)).map(|position| members.rank(position).to_string()).collect();
    let more = if count > 8 { format!(" and {} more", count - 8) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
