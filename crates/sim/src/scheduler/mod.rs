//! Which dimension each chunk of a collective goes through first, second, ...: a list of orders, one a chunk.
//!
//! Here: the contract and what schedulers share. One scheduler one file (`baseline.rs`, `themis.rs`, `offline_greedy.rs`); what a
//! phase takes by itself is `predict.rs`. Not here: how phases follow from an order (`collective::phases`), who goes first within
//! a dimension (`Policy`), and when a chunk starts (`executor/phases.rs`).
//!
//! A schedule is a function of the collective alone, so that all members choose alike, whether the run is folded or not.
//! Bytes an NPU sends for a chunk of `m` on `N` NPUs are `2 m (1 - 1/N)` in any order: orders move load between dimensions only.

mod baseline;
mod offline_greedy;
pub(crate) mod predict;
mod themis;

use collective::{Hierarchy, Phase, phases};
use graph::{CollectiveKind, Problem};
use units::Span;

/// How the order of dimensions is chosen for each chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DimensionOrder {
    /// Innermost first, every chunk.
    #[default]
    Baseline,
    /// Greedy by predicted load (Rashidi et al., ISCA 2022).
    Themis,
    /// Greedy by bytes over bandwidth, as ASTRA-sim's scheduler of that name.
    OfflineGreedy,
}

/// Indices into the dimensions of a collective: those of a reduce-scatter in order; an all-gather takes them backwards.
pub(crate) type Order = Vec<u32>;

/// One collective as a scheduler sees it.
pub(crate) struct Job<'a> {
    pub kind: CollectiveKind,
    /// Index and size of the dimensions that take part, innermost first.
    pub dims: &'a [(u32, u32)],
    /// Bytes of every chunk, as `graph::Op::Collective` means them.
    pub chunks: &'a [u64],
    pub hierarchy: Hierarchy,
}

/// What a phase is predicted to take.
pub(crate) type Time<'a> = dyn Fn(&Phase) -> Result<Span, Problem> + 'a;

impl Job<'_> {
    /// Whether orders differ in the bytes they put on the dimensions.
    fn has_choice(&self) -> bool {
        let kind = match self.kind {
            CollectiveKind::AllReduce => self.hierarchy == Hierarchy::Enhanced,
            kind => matches!(kind, CollectiveKind::ReduceScatter | CollectiveKind::AllGather),
        };
        kind && self.dims.len() > 1 && self.chunks.len() > 1
    }

    /// The phases of a chunk that takes the dimensions in `order`.
    fn phases(&self, bytes: u64, order: &[u32]) -> Vec<Phase> {
        let dims: Vec<(u32, u32)> = order.iter().map(|&at| self.dims[at as usize]).collect();
        phases(self.kind, bytes, &dims, self.hierarchy)
    }

    /// Kind of the phases whose sizes depend on the order: all-gather, or reduce-scatter, which an all-reduce begins with.
    fn half(&self) -> CollectiveKind {
        if self.kind == CollectiveKind::AllGather { self.kind } else { CollectiveKind::ReduceScatter }
    }

    /// Where dimension `dim` stands among those that take part.
    fn place(&self, dim: u32) -> usize {
        self.dims.iter().position(|d| d.0 == dim).expect("a phase's dimension takes part")
    }

    /// Adds the predicted time of each phase of a chunk to the load of its dimension.
    fn load(&self, bytes: u64, order: &[u32], time: &Time, loads: &mut [Span]) -> Result<(), Problem> {
        for phase in self.phases(bytes, order) {
            let dim = phase.dim.expect("phases over dimensions name one");
            loads[self.place(dim)] += time(&phase)?;
        }
        Ok(())
    }
}

/// The order of every chunk; empty: all take the baseline's.
///
/// # Errors
/// Those of `time`: an algorithm that cannot run a phase on its dimension.
pub(crate) fn orders(policy: DimensionOrder, job: &Job, time: &Time) -> Result<Vec<Order>, Problem> {
    match policy {
        _ if !job.has_choice() => Ok(Vec::new()),
        DimensionOrder::Baseline => Ok(Vec::new()),
        DimensionOrder::Themis => themis::orders(job, time),
        DimensionOrder::OfflineGreedy => offline_greedy::orders(job, time),
    }
}

/// Dimensions by load, the least loaded first; equal ones innermost first.
fn by_load(loads: &[Span]) -> Order {
    let mut order: Order = (0..loads.len() as u32).collect();
    order.sort_by_key(|&at| loads[at as usize]);
    order
}

fn most(loads: &[Span]) -> Span {
    loads.iter().copied().max().unwrap_or_default()
}

fn least(loads: &[Span]) -> (usize, Span) {
    loads.iter().copied().enumerate().min_by_key(|&(at, load)| (load, at)).unwrap_or_default()
}
