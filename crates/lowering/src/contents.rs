//! Contents of memory outside of the NPUs, by program.
//!
//! A tensor lies there once, however often it is loaded and stored. Nothing is removed, so the most
//! lies there at the end. Tensors are told apart by the numbers of accesses. Accesses without a
//! number give bounds: the largest of them is the least that lies there, and all of them together
//! are the most. What the generator of a workload says lies there is exact. Not here: what is moved
//! out of NPUs because it does not fit (`executor`), and how long accesses take (`memory`).

use crate::remote::remote;
use device::memory::{Access, Store};
use graph::{Node, Op, Problem, Program, RankBinding, Reach, Workload};
use platform::Platform;
use std::collections::BTreeMap;
use units::{Bytes, GIGA};

/// Bytes that the ranks keep in each store.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// The kinds of memory.
    pub stores: Vec<Store>,
    /// By program and store.
    pub programs: Vec<Vec<Kept>>,
}

/// Bytes that a rank keeps in a store at the end of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// At least.
    pub least: u64,
    /// At most.
    pub most: u64,
}

/// Contents of the memories of a platform; nothing in a replay and under ASTRA-sim's rules.
pub fn of(workload: &Workload, platform: &Platform) -> Contents {
    let access = remote(platform)
        .filter(|_| platform.profile.is_native() && !platform.scheduler.replay_only);
    let Some(access) = access else { return Contents::default() };
    let program = |(at, program): (usize, &std::sync::Arc<Program>)| {
        let declared = workload.footprints.get(at).map_or(0, |footprint| footprint.outside);
        let home = home(program, &access).filter(|_| declared > 0);
        let of_store = |store| {
            let declared = if home == Some(store) { declared } else { 0 };
            kept(&touches(program, &access, store), declared)
        };
        (0..access.stores.len()).map(of_store).collect()
    };
    let programs = workload.programs.iter().enumerate().map(program).collect();
    Contents { stores: access.stores, programs }
}

/// The store in which lies what a generator says is outside: that of the first access.
fn home(program: &Program, access: &Access) -> Option<usize> {
    let reached = program.nodes().iter().find_map(|node| match node.op {
        Op::Memory { reach, .. } => access.store(reach),
        _ => None,
    });
    reached.or_else(|| access.store(Reach::Remote))
}

/// Bytes and tensor of each access of a program to a store.
fn touches(program: &Program, access: &Access, store: usize) -> Vec<(u64, u32)> {
    let to = |node: &Node| match node.op {
        Op::Memory { bytes, reach, tensor, .. } => {
            (access.store(reach) == Some(store)).then_some((bytes.0, tensor))
        }
        _ => None,
    };
    program.nodes().iter().filter_map(to).collect()
}

/// Bytes of a rank that accesses a store by `touches`, if its generator says that `declared` bytes
/// lie there.
fn kept(touches: &[(u64, u32)], declared: u64) -> Kept {
    // A tensor is as large as its largest access.
    let (mut sizes, mut largest, mut unnamed) = (BTreeMap::new(), 0, 0u64);
    for &(bytes, tensor) in touches {
        if tensor == 0 {
            largest = bytes.max(largest);
            unnamed = unnamed.saturating_add(bytes);
        } else {
            let size = sizes.entry(tensor).or_insert(0);
            *size = bytes.max(*size);
        }
    }
    let known = sizes.into_values().fold(0, u64::saturating_add);
    let least = declared.max(known).max(largest);
    let most = if declared > 0 { least } else { least.max(known.saturating_add(unnamed)) };
    Kept { least, most }
}

impl Contents {
    /// Bytes of all ranks in each memory of store `store`, by its number.
    fn sums(&self, workload: &Workload, store: usize, of: fn(&Kept) -> u64) -> BTreeMap<u32, u128> {
        let bytes: Vec<u64> = self.programs.iter().map(|kept| of(&kept[store])).collect();
        let mut sums = BTreeMap::new();
        for (rank, binding) in (0..).zip(&workload.ranks) {
            let held = sums.entry(self.stores[store].index(rank)).or_insert(0);
            *held += u128::from(bytes[binding.program as usize]);
        }
        sums
    }

    /// The least that lies in the fullest memory of store `store` at the end.
    pub fn least(&self, workload: &Workload, store: usize) -> u128 {
        self.sums(workload, store, |kept| kept.least).into_values().max().unwrap_or(0)
    }

    /// The most that lies in the fullest memory of store `store`.
    pub fn most(&self, workload: &Workload, store: usize) -> u128 {
        self.sums(workload, store, |kept| kept.most).into_values().max().unwrap_or(0)
    }

    /// The memories of store `store` in which something lies, and the ranks whose tensors lie in the
    /// fullest of them.
    pub fn users(&self, workload: &Workload, store: usize) -> (u64, u64) {
        let mut sums = self.sums(workload, store, |kept| kept.most);
        sums.retain(|_, bytes| *bytes > 0);
        let fullest = sums.iter().max_by_key(|&(at, bytes)| (bytes, u32::MAX - at));
        let uses = |(rank, binding): &(u32, &RankBinding)| {
            let here = fullest.is_some_and(|(&at, _)| self.stores[store].index(*rank) == at);
            here && self.programs[binding.program as usize][store].most > 0
        };
        (sums.len() as u64, (0..).zip(&workload.ranks).filter(uses).count() as u64)
    }

    /// A store that must hold more than it can.
    pub fn problems(&self, workload: &Workload) -> Vec<Problem> {
        let problem = |store: usize| {
            let capacity = self.stores[store].capacity?;
            let sums = self.sums(workload, store, |kept| kept.least);
            let (&at, &bytes) = sums.iter().max_by_key(|&(at, bytes)| (bytes, u32::MAX - at))?;
            (bytes > capacity).then(|| self.too_much(workload, store, at, bytes, capacity))
        };
        (0..self.stores.len()).filter_map(problem).collect()
    }

    fn too_much(
        &self,
        workload: &Workload,
        store: usize,
        at: u32,
        bytes: u128,
        capacity: u128,
    ) -> Problem {
        let each = |rank: &u32| {
            let program = workload.ranks[*rank as usize].program as usize;
            self.programs[program][store].least
        };
        let here = (0..workload.ranks.len() as u32)
            .filter(|&rank| self.stores[store].index(rank) == at && each(&rank) > 0);
        let (count, rank) = here.fold((0u32, None), |(count, most), rank| {
            let fuller = most.is_none_or(|most| each(&rank) > each(&most));
            (count + 1, if fuller { Some(rank) } else { most })
        });
        let rank = rank.unwrap_or(0);
        let (name, own) = (self.stores[store].name, large(each(&rank).into()));
        let message = format!(
            "the {name} must hold {} of {count} NPUs, more than its {}",
            large(bytes),
            large(capacity)
        );
        Problem::new("", format!("rank {rank}, with {own}"), message).help(
            "less outside of the NPUs, or more or larger memory (docs/models/memory.md#what-lies-outside)",
        )
    }
}

/// Bytes for people: `83.2 GB`.
pub fn large(bytes: u128) -> String {
    match u64::try_from(bytes) {
        Ok(small) if bytes < GIGA as u128 => Bytes(small).to_string(),
        _ => format!("{:.1} GB", bytes as f64 / GIGA),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads of one tensor count once, and a tensor is as large as its largest access.
    #[test]
    fn a_tensor_lies_there_once() {
        let both = |bytes| Kept { least: bytes, most: bytes };
        assert_eq!(kept(&[(10, 1), (10, 1), (30, 2), (20, 2)], 0), both(40));
        assert_eq!(kept(&[], 0), both(0));
    }

    /// Three accesses without a number: to one tensor of 30 bytes, or to three of 60 together.
    #[test]
    fn accesses_without_a_number_give_bounds() {
        assert_eq!(kept(&[(10, 0), (30, 0), (20, 0)], 0), Kept { least: 30, most: 60 });
        assert_eq!(kept(&[(10, 0), (30, 0), (50, 4)], 0), Kept { least: 50, most: 90 });
    }

    #[test]
    fn what_a_generator_says_is_exact() {
        assert_eq!(kept(&[(10, 0), (30, 0)], 35), Kept { least: 35, most: 35 });
    }
}
