//! Common parts of schedulers: one collective as they see it.

use super::predict::Cost;
use collective::{Hierarchy, Phase, phases};
use graph::{CollectiveKind, Problem};
use platform::{Dispatch, Queues};
use units::Span;

/// Indices into the dimensions of a collective: those of a reduce-scatter in order; an all-gather
/// takes them backwards.
pub type Order = Vec<u32>;

/// One collective as a scheduler sees it.
pub struct Job<'a> {
    /// Kind.
    pub kind: CollectiveKind,
    /// Index and size of the dimensions that take part, innermost first.
    pub dims: &'a [(u32, u32)],
    /// Bytes of every chunk, as `graph::Op::Collective` means them.
    pub chunks: &'a [u64],
    /// How an all-reduce uses several dimensions.
    pub hierarchy: Hierarchy,
    /// Queues of each dimension.
    pub queues: &'a [Queues],
    /// When chunks leave the ready queue; `None`: at once.
    pub dispatch: Option<Dispatch>,
    /// Smaller chunks go first within a dimension.
    pub smallest_first: bool,
    /// Whether the backward direction of each dimension leaves by other links.
    pub directions: &'a [bool],
    /// Whether the algorithm of each dimension does all-reduces only: then it comes last.
    pub whole: &'a [bool],
}

/// Predicted cost of a phase.
pub type Costs<'a> = dyn Fn(&Phase) -> Result<Cost, Problem> + 'a;

impl Job<'_> {
    /// Whether orders differ in the bytes they put on the dimensions.
    pub(super) fn has_choice(&self) -> bool {
        let kind = match self.kind {
            CollectiveKind::AllReduce => self.hierarchy == Hierarchy::Enhanced,
            kind => matches!(kind, CollectiveKind::ReduceScatter | CollectiveKind::AllGather),
        };
        let free = self.whole.iter().filter(|&&whole| !whole).count();
        kind && free > 1 && self.chunks.len() > 1
    }

    /// The phases of a chunk that takes the dimensions in `order`.
    pub(super) fn phases(&self, bytes: u64, order: &[u32]) -> Vec<Phase> {
        let dims: Vec<(u32, u32)> = order.iter().map(|&at| self.dims[at as usize]).collect();
        phases(self.kind, bytes, &dims, self.hierarchy)
    }

    /// Kind of the phases whose sizes depend on the order: all-gather, or reduce-scatter, which an
    /// all-reduce begins with.
    pub(super) fn half(&self) -> CollectiveKind {
        if self.kind == CollectiveKind::AllGather {
            self.kind
        } else {
            CollectiveKind::ReduceScatter
        }
    }

    /// Where the dimension of a phase stands among those that take part.
    pub(super) fn place(&self, phase: &Phase) -> usize {
        self.dims
            .iter()
            .position(|&(dim, _)| Some(dim) == phase.dim)
            .expect("a phase's dimension takes part")
    }

    /// Adds to the load of each dimension what a chunk puts on it.
    pub(super) fn load(
        &self,
        bytes: u64,
        order: &[u32],
        weigh: &Weigh,
        loads: &mut [Span],
    ) -> Result<(), Problem> {
        for phase in self.phases(bytes, order) {
            loads[self.place(&phase)] += weigh(&phase)?;
        }
        Ok(())
    }

    /// Innermost first: the baseline's order.
    pub(super) fn inside_out(&self) -> Order {
        (0..self.dims.len() as u32).collect()
    }

    /// The orders of chunks that each begin on the least loaded dimension; that of the lines while
    /// loads differ by no more than `level`.
    pub(super) fn greedy(
        &self,
        weigh: &Weigh,
        level: impl Fn(u32, u64) -> Result<Span, Problem>,
    ) -> Result<Vec<Order>, Problem> {
        let mut loads = vec![Span::ZERO; self.dims.len()];
        let mut orders = Vec::with_capacity(self.chunks.len());
        for &bytes in self.chunks {
            let mut order: Order = (0..self.dims.len() as u32).collect();
            order.sort_by_key(|&at| (self.whole[at as usize], loads[at as usize]));
            let free = || order.iter().map(|&at| at as usize).filter(|&at| !self.whole[at]);
            let (least, most) = (order[0] as usize, free().next_back().unwrap_or(0));
            if loads[most].saturating_sub(loads[least]) <= level(self.dims[least].0, bytes)? {
                order = self.inside_out();
            }
            self.load(bytes, &order, weigh, &mut loads)?;
            orders.push(order);
        }
        Ok(orders)
    }
}

/// Load that a phase adds to its dimension.
pub(super) type Weigh<'a> = dyn Fn(&Phase) -> Result<Span, Problem> + 'a;

/// Part of a chunk whose time is the smallest difference of loads that is acted upon (Themis, and
/// ASTRA-sim).
pub(super) const THRESHOLD: u64 = 16;
