//! Contents of memory outside of the NPUs, by program.
//!
//! A tensor lies there once, however often it is loaded and stored. Nothing is removed, so the most
//! lies there at the end. Tensors are distinguished by the numbers of accesses. Accesses without a
//! number give bounds: the largest of them is the least that lies there, and all of them together
//! are the most. What the generator of a workload says lies there is exact. Not here: what is moved
//! out of NPUs because it does not fit (`executor`), what lies there when (`sim`), and how long
//! accesses take (`memory`).

use crate::remote::remote;
use device::memory::{Access, Store};
use graph::{Node, Offloaded, Op, Problem, Program, Reach, Workload};
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
    /// The store of each reach, in the order of `Reach::ALL`.
    reaches: Vec<Option<usize>>,
}

/// Bytes that a rank keeps in a store at the end of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// At least.
    pub least: u64,
    /// At most.
    pub most: u64,
    /// The bytes that a generator states, a part of both.
    pub declared: Offloaded,
    /// Bytes by the number of the tensor, where that is all there is.
    pub tensors: BTreeMap<u32, u64>,
}

/// The memory of a kind in which most lies at the end of a step.
#[derive(Clone, Copy, Debug)]
pub struct Fullest {
    /// The kind.
    pub store: Store,
    /// Ranks whose tensors lie in it.
    pub ranks: u32,
    /// The first rank that has most there.
    pub rank: u32,
    /// Bytes of that rank, at least.
    pub own: u64,
    /// Bytes of all ranks, at least.
    pub bytes: u128,
}

/// Contents of the memories of a platform; nothing in a replay and under ASTRA-sim's rules.
pub fn of(workload: &Workload, platform: &Platform) -> Contents {
    let access = remote(platform)
        .filter(|_| platform.profile.is_native() && !platform.scheduler.replay_only);
    let Some(access) = access else { return Contents::default() };
    let program = |(at, program): (usize, &std::sync::Arc<Program>)| {
        let says = workload.footprints.get(at).copied().unwrap_or_default();
        let (home, disk) = (home(program, &access), access.store(Reach::Disk));
        let of_store = |store| {
            let parts = [(home, says.outside), (disk, says.disk)];
            let declared = parts.into_iter().filter(|(place, _)| *place == Some(store));
            kept(&touches(program, &access, store), declared.map(|(_, part)| part).sum())
        };
        (0..access.stores.len()).map(of_store).collect()
    };
    let programs = workload.programs.iter().enumerate().map(program).collect();
    let reaches = Reach::ALL.map(|reach| access.store(reach)).to_vec();
    Contents { stores: access.stores, programs, reaches }
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

/// Bytes of a rank that accesses a store by `touches`, if its generator says what lies there.
fn kept(touches: &[(u64, u32)], says: Offloaded) -> Kept {
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
    let (known, declared) = (sizes.values().copied().fold(0, u64::saturating_add), says.total());
    let least = declared.max(known).max(largest);
    let most = if declared > 0 { least } else { least.max(known.saturating_add(unnamed)) };
    let tensors = if declared + unnamed == 0 { sizes } else { BTreeMap::new() };
    Kept { least, most, declared: says, tensors }
}

impl Contents {
    /// The store that an access of this reach is to.
    pub fn store(&self, reach: Reach) -> Option<usize> {
        let at = Reach::ALL.iter().position(|&each| each == reach)?;
        self.reaches.get(at).copied().flatten()
    }

    /// Where most lies in a memory of store `store`: the memory with the lowest number of those.
    fn fullest_of(&self, workload: &Workload, store: usize) -> Option<Fullest> {
        let own: Vec<u64> = self.programs.iter().map(|kept| kept[store].least).collect();
        let mut memories: BTreeMap<u32, Fullest> = BTreeMap::new();
        let mut most = 0;
        for (rank, binding) in (0..).zip(&workload.ranks) {
            let bytes = own[binding.program as usize];
            let empty = Fullest { store: self.stores[store], ranks: 0, rank, own: 0, bytes: 0 };
            let memory = memories.entry(self.stores[store].index(rank)).or_insert(empty);
            if bytes > memory.own {
                (memory.rank, memory.own) = (rank, bytes);
            }
            memory.ranks += u32::from(bytes > 0);
            memory.bytes += u128::from(bytes);
            most = memory.bytes.max(most);
        }
        memories.into_values().find(|memory| memory.bytes == most)
    }

    /// The fullest memory of each kind in which anything lies.
    pub fn fullest(&self, workload: &Workload) -> Vec<Fullest> {
        (0..self.stores.len())
            .filter_map(|store| self.fullest_of(workload, store))
            .filter(|memory| memory.bytes > 0)
            .collect()
    }

    /// A store that must hold more than it can.
    pub fn problems(&self, workload: &Workload) -> Vec<Problem> {
        self.fullest(workload).iter().filter_map(Fullest::problem).collect()
    }
}

impl Fullest {
    fn problem(&self) -> Option<Problem> {
        let capacity = self.store.capacity.filter(|&capacity| self.bytes > capacity)?;
        let message = format!(
            "the {} must hold {} of {} NPUs, more than its {}",
            self.store.name,
            large(self.bytes),
            self.ranks,
            large(capacity)
        );
        let place = format!("rank {}, with {}", self.rank, large(self.own.into()));
        Some(Problem::new("", place, message).help(
            "less outside of the NPUs, or more or larger memory (docs/models/memory.md#what-lies-outside)",
        ))
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

    fn bounds(touches: &[(u64, u32)], tables: u64) -> (u64, u64) {
        let kept = kept(touches, Offloaded { tables, ..Offloaded::default() });
        (kept.least, kept.most)
    }

    /// Loads of one tensor count once, and a tensor is as large as its largest access.
    #[test]
    fn a_tensor_lies_there_once() {
        assert_eq!(bounds(&[(10, 1), (10, 1), (30, 2), (20, 2)], 0), (40, 40));
        assert_eq!(bounds(&[], 0), (0, 0));
    }

    /// Three accesses without a number: to one tensor of 30 bytes, or to three of 60 together.
    #[test]
    fn accesses_without_a_number_give_bounds() {
        assert_eq!(bounds(&[(10, 0), (30, 0), (20, 0)], 0), (30, 60));
        assert_eq!(bounds(&[(10, 0), (30, 0), (50, 4)], 0), (50, 90));
    }

    #[test]
    fn what_a_generator_says_is_exact() {
        assert_eq!(bounds(&[(10, 0), (30, 0)], 35), (35, 35));
    }
}
