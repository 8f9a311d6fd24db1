//! Ranks that share the links of a node to a pool: these are alike if their neighbours are.

use super::sight::Hash;
use executor::Settings;
use graph::{Op, Reach, Workload};

/// The nodes of a pool.
pub(super) struct Neighbours {
    /// Node of each rank that may access the pool.
    node: Vec<Option<u32>>,
    /// By node, a hash of the colours of its ranks.
    seen: Vec<(u64, u64)>,
}

impl Neighbours {
    /// None where no rank accesses a pool, or all its accesses have the same time.
    pub(super) fn of(workload: &Workload, settings: &Settings) -> Neighbours {
        let pool = settings.pool.as_ref().and_then(|access| access.pool.as_ref());
        let pool = pool.filter(|pool| pool.tells_places_apart());
        let reaches = |op: &Op| matches!(op, Op::Memory { reach, .. } if *reach != Reach::Local);
        let accesses = |program: &std::sync::Arc<graph::Program>| {
            settings.spill.is_some() || program.nodes().iter().any(|node| reaches(&node.op))
        };
        let accesses: Vec<bool> = workload.programs.iter().map(accesses).collect();
        let ranks = pool.map_or(0, |_| workload.ranks.len() as u32);
        let node = |rank: u32| {
            let program = workload.ranks[rank as usize].program as usize;
            pool.filter(|_| accesses[program]).map(|pool| pool.place(rank))
        };
        let nodes = pool.map_or(0, |pool| pool.places());
        Neighbours { node: (0..ranks).map(node).collect(), seen: vec![(0, 0); nodes as usize] }
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
                let seen = &mut self.seen[*node as usize];
                *seen = (seen.0.wrapping_add(a), seen.1.wrapping_add(b));
            }
        }
    }

    /// Hash of the ranks on the node of a rank.
    pub(super) fn view(&self, rank: u32) -> (u64, u64) {
        let node = self.node.get(rank as usize).copied().flatten();
        node.map_or((0, 0), |node| self.seen[node as usize])
    }
}
