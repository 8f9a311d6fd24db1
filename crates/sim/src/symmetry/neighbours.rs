//! Ranks that share the links of a node to a pool: these are alike if their neighbours are, and
//! those of the groups whose shards they gather in its switches.

use super::fingerprints::Hash;
use executor::Settings;
use graph::{Members, Op, Reach, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// The members of a group on each node, and a hash of the nodes.
type Spread = (BTreeMap<u32, u64>, (u64, u64));

/// The nodes of a pool.
pub(super) struct Neighbours {
    /// Slots of the groups whose shards each program gathers.
    gathers: Vec<BTreeSet<u32>>,
    /// By group whose shards are gathered: its members on each node, and what is seen of them.
    groups: BTreeMap<u32, Spread>,
    /// Node of each rank that may access the pool.
    node: Vec<Option<u32>>,
    /// A hash of the colours of the ranks of each node.
    seen: Vec<(u64, u64)>,
}

impl Neighbours {
    /// None where no rank accesses a pool, or all its accesses have the same time.
    pub(super) fn of(workload: &Workload, settings: &Settings) -> Neighbours {
        let pool = settings.pool.as_ref().and_then(|access| access.pool.as_ref());
        let pool = pool.filter(|pool| pool.tells_places_apart());
        let reaches = |op: &Op| matches!(op, Op::Memory { reach, .. } if *reach != Reach::Local);
        let accesses = |program: &graph::Program| {
            settings.spill.is_some() || program.nodes().iter().any(|node| reaches(&node.op))
        };
        let accesses: Vec<bool> = workload.by_body(accesses);
        let ranks = pool.map_or(0, |_| workload.ranks.len() as u32);
        let node = |rank: u32| {
            let program = workload.ranks[rank as usize].program as usize;
            pool.filter(|_| accesses[program]).map(|pool| pool.place(rank))
        };
        let nodes = pool.map_or(0, |pool| pool.places());
        let gathers: Vec<BTreeSet<u32>> = match pool {
            Some(_) => workload.by_body(gathered),
            None => vec![BTreeSet::new(); workload.programs.len()],
        };
        let mut groups = BTreeMap::new();
        for (rank, binding) in (0..ranks).zip(&workload.ranks) {
            for &slot in &gathers[binding.program as usize] {
                let group = workload.group_of(rank, slot);
                groups.entry(group).or_insert_with(|| {
                    let members = &workload.groups[group as usize].members;
                    (on_nodes(members, ranks, |rank| pool.map_or(0, |p| p.place(rank))), (0, 0))
                });
            }
        }
        let (node, seen) = ((0..ranks).map(node).collect(), vec![(0, 0); nodes as usize]);
        Neighbours { gathers, groups, node, seen }
    }

    /// Looks at the ranks of each node by their colours.
    pub(super) fn look(&mut self, colours: &[u32]) {
        self.seen.fill((0, 0));
        for (&colour, node) in colours.iter().zip(&self.node) {
            let mut hash = Hash::default();
            hash.add(colour.into());
            let (a, b) = hash.value();
            // In any order, as their places within the node do not matter.
            if let Some(node) = node {
                add(&mut self.seen[*node as usize], (a, b));
            }
        }
        for (nodes, sum) in self.groups.values_mut() {
            *sum = (0, 0);
            for (&node, &count) in nodes.iter() {
                let (a, b) = self.seen[node as usize];
                let mut hash = Hash::default();
                [a, b, count].into_iter().for_each(|word| hash.add(word));
                add(sum, hash.value());
            }
        }
    }

    /// Hash of the ranks on the node of a rank, and on those of its groups.
    pub(super) fn view(&self, workload: &Workload, rank: u32) -> (u64, u64) {
        let node = self.node.get(rank as usize).copied().flatten();
        let Some(node) = node else { return (0, 0) };
        let slots = &self.gathers[workload.ranks[rank as usize].program as usize];
        let mut sum = self.seen[node as usize];
        for &slot in slots {
            let (nodes, (a, b)) = &self.groups[&workload.group_of(rank, slot)];
            let here = nodes.get(&node).copied().unwrap_or(0);
            let mut hash = Hash::default();
            [slot.into(), *a, *b, here].into_iter().for_each(|word| hash.add(word));
            add(&mut sum, hash.value());
        }
        sum
    }
}

fn add(sum: &mut (u64, u64), words: (u64, u64)) {
    *sum = (sum.0.wrapping_add(words.0), sum.1.wrapping_add(words.1));
}

/// Slots of the groups whose shards a program gathers.
fn gathered(program: &graph::Program) -> BTreeSet<u32> {
    let slot = |op: &Op| if let Op::Memory { slot, .. } = *op { slot } else { None };
    program.nodes().iter().filter_map(|node| slot(&node.op)).collect()
}

/// Members on each node.
fn on_nodes(members: &Members, world: u32, node: impl Fn(u32) -> u32) -> BTreeMap<u32, u64> {
    let mut found = BTreeMap::new();
    for position in 0..members.len(world) {
        *found.entry(node(members.rank(position))).or_insert(0) += 1;
    }
    found
}
