//! Programs, the rank map and the communicator groups: one workload.

use crate::program::{bodies, by_body};
use crate::{Mesh, Program};
use std::sync::Arc;
use units::Bytes;

/// The ranks of a communicator group, in ring order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Members {
    /// Every rank of the workload, ascending.
    All,
    /// `first, first + step, ...`, `count` of them.
    Strided {
        /// First rank.
        first: u32,
        /// How many.
        count: u32,
        /// Distance between neighbours.
        step: u32,
    },
    /// Any list; its order is the ring order.
    List(Vec<u32>),
}

/// A communicator group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// The name the trace or file gives it.
    pub name: String,
    /// Who is in it.
    pub members: Members,
}

/// Which program a rank runs, and where its group table starts in [`Workload::slots`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RankBinding {
    /// Index into [`Workload::programs`].
    pub program: u32,
    /// Index into [`Workload::slots`] of the rank's slot 0.
    pub slots: u32,
}

/// Peak memory of one NPU by what it holds, and what lies outside of it; bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Footprint {
    /// Parameters.
    pub weights: u64,
    /// Their gradients.
    pub gradients: u64,
    /// Optimizer state.
    pub optimizer: u64,
    /// Activations kept for the backward pass.
    pub activations: u64,
    /// Contents of the memory outside of the NPU, where they are known.
    #[serde(default, skip_serializing_if = "Offloaded::is_nothing")]
    pub outside: Offloaded,
    /// Contents of a disk behind that memory, where they are known.
    #[serde(default, skip_serializing_if = "Offloaded::is_nothing")]
    pub disk: Offloaded,
}

/// Bytes of one NPU in a memory outside of it, by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Offloaded {
    /// Parameters.
    pub weights: u64,
    /// Their gradients.
    pub gradients: u64,
    /// Optimizer state.
    pub optimizer: u64,
    /// Embedding tables.
    pub tables: u64,
}

impl std::iter::Sum for Offloaded {
    fn sum<I: Iterator<Item = Offloaded>>(parts: I) -> Offloaded {
        parts.fold(Offloaded::default(), |sum, part| Offloaded {
            weights: sum.weights.saturating_add(part.weights),
            gradients: sum.gradients.saturating_add(part.gradients),
            optimizer: sum.optimizer.saturating_add(part.optimizer),
            tables: sum.tables.saturating_add(part.tables),
        })
    }
}

impl Offloaded {
    /// All of it.
    pub fn total(&self) -> u64 {
        [self.weights, self.gradients, self.optimizer, self.tables]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    fn is_nothing(&self) -> bool {
        self.total() == 0
    }
}

impl Footprint {
    /// All that is in the NPU's own memory.
    pub fn total(&self) -> u64 {
        [self.weights, self.gradients, self.optimizer, self.activations]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

/// Summary by the generator of a workload beyond the operations of the ranks; carried along, never
/// interpreted by a simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declaration {
    /// Name for people.
    pub name: String,
    /// The mesh it was bound to, which is a shorter form of the rank map.
    pub mesh: Option<Mesh>,
    /// Parameters, operations, volumes and memory, JSON text.
    pub summary: Option<String>,
    /// Warnings that a user of the results must know; shown at the top of the report.
    pub warnings: Vec<String>,
}

/// A set of programs, a map from rank to program, and communicator groups.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Distinct programs.
    pub programs: Vec<Arc<Program>>,
    /// One entry a rank; ranks may share `slots`.
    pub ranks: Vec<RankBinding>,
    /// Group indices, `program.slots()` of them from each binding's `slots`.
    pub slots: Vec<u32>,
    /// Communicator groups.
    pub groups: Vec<Group>,
    /// Peak memory of each program on its NPU, where it is known: one entry for each program, or
    /// none.
    pub footprints: Vec<Footprint>,
    /// Summary by the generator.
    pub declaration: Option<Box<Declaration>>,
    /// Notes of the reader: counts of unknown attributes and the like, `(what, count)`, sorted;
    /// shown in the report.
    pub notes: Vec<(String, u64)>,
    /// Where it was read from, as the user named it: what problems and reports call it. Empty when
    /// a program made it.
    pub origin: String,
    /// Arguments with which the workload can be read again.
    pub reading: Reading,
}

/// Arguments with which a workload was read, in addition to its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The file of its communicator groups, as the user named it.
    pub groups: Option<String>,
    /// How the layers of a text run.
    pub loop_settings: LoopSettings,
    /// The model it was made of and the options, JSON text, where it was not read from files.
    pub model: Option<String>,
}

/// How the layers of a text workload run, which its file doesn't say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopSettings {
    /// How often they run; 1 for everything else.
    pub passes: u32,
    /// Computation goes on while collectives are under way, as far as the loop allows.
    pub overlap: bool,
    /// Size of the buckets in which layers exchange weight gradients; `None` for each on its own.
    pub bucket: Option<Bytes>,
}

impl Default for LoopSettings {
    fn default() -> LoopSettings {
        LoopSettings { passes: 1, overlap: true, bucket: None }
    }
}

impl From<u32> for LoopSettings {
    fn from(passes: u32) -> LoopSettings {
        LoopSettings { passes, ..LoopSettings::default() }
    }
}

impl Workload {
    /// A workload in which `ranks` ranks run one program whose only group (slot 0, if used) is
    /// everybody.
    pub fn uniform(program: Program, ranks: u32) -> Workload {
        Workload {
            slots: vec![0; program.slots() as usize],
            programs: vec![Arc::new(program)],
            ranks: vec![RankBinding { program: 0, slots: 0 }; ranks as usize],
            groups: vec![Group { name: "world".into(), members: Members::All }],
            ..Workload::default()
        }
    }

    /// The program of `rank`.
    pub fn program(&self, rank: u32) -> &Program {
        &self.programs[self.ranks[rank as usize].program as usize]
    }

    /// One program of each body, in order: what the operations of the programs are, whichever ranks
    /// they name.
    pub fn bodies(&self) -> impl Iterator<Item = &Program> {
        bodies(&self.programs)
    }

    /// A result for each program that does not depend on its peers; programs of one body share it.
    pub fn by_body<T: Clone>(&self, make: impl FnMut(&Program) -> T) -> Vec<T> {
        by_body(&self.programs, make)
    }

    /// The group index behind `slot` of `rank`.
    pub fn group_of(&self, rank: u32, slot: u32) -> u32 {
        self.slots[(self.ranks[rank as usize].slots + slot) as usize]
    }

    /// The slot in which `rank` has `group`.
    pub fn slot_of(&self, rank: u32, group: u32) -> Option<u32> {
        (0..self.program(rank).slots()).find(|&slot| self.group_of(rank, slot) == group)
    }

    /// Number of operations over all ranks.
    pub fn operations(&self) -> u128 {
        let mut uses = vec![0u128; self.programs.len()];
        self.ranks.iter().for_each(|r| uses[r.program as usize] += 1);
        uses.iter().zip(&self.programs).map(|(&n, p)| n * p.nodes().len() as u128).sum()
    }
}

impl Members {
    /// Number of ranks, `world` being the size of the workload.
    pub fn len(&self, world: u32) -> u32 {
        match self {
            Members::All => world,
            Members::Strided { count, .. } => *count,
            Members::List(list) => list.len() as u32,
        }
    }

    /// The rank at `position`.
    pub fn rank(&self, position: u32) -> u32 {
        match self {
            Members::All => position,
            Members::Strided { first, step, .. } => first + step * position,
            Members::List(list) => list[position as usize],
        }
    }

    /// The position of `rank`, if it is a member.
    pub fn position(&self, rank: u32, world: u32) -> Option<u32> {
        match self {
            Members::All => (rank < world).then_some(rank),
            Members::Strided { first, count, step } => {
                let d = rank.checked_sub(*first)?;
                (d % step == 0 && d / step < *count).then(|| d / step)
            }
            Members::List(list) => list.iter().position(|&r| r == rank).map(|p| p as u32),
        }
    }

    /// The shortest form of a list of ranks.
    pub fn from_list(list: Vec<u32>, world: u32) -> Members {
        let step = if list.len() > 1 { list[1].wrapping_sub(list[0]) } else { 1 };
        let strided = step > 0
            && step < u32::MAX / 2
            && list.windows(2).all(|w| w[1].wrapping_sub(w[0]) == step);
        match list.first() {
            Some(0) if strided && step == 1 && list.len() as u32 == world => Members::All,
            Some(&first) if strided => Members::Strided { first, count: list.len() as u32, step },
            _ => Members::List(list),
        }
    }
}
