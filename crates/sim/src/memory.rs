//! Memory that the most heavily loaded NPU needs, and whether it has that much.

use crate::parts::Parts;
use executor::RankTotals;
use graph::Footprint;
use platform::{BAND_PERCENT, Fits};
use units::{Bytes, GIGA};

/// The fullest NPU of a run.
pub(crate) struct Fullest {
    rank: u32,
    /// Bytes that it needs.
    pub(crate) bytes: u64,
    /// Bytes that it holds, where the generator of the workload gives them.
    declared: Option<Footprint>,
}

/// By what the generator of the workload says or, where that is more, by what the run held; `None`
/// where neither says anything.
pub(crate) fn fullest(parts: &Parts, ranks: &[RankTotals]) -> Option<Fullest> {
    let declared = declared(parts);
    let held = held(parts, ranks);
    match (declared, held) {
        (Some(declared), Some(held)) if held.bytes > declared.bytes => Some(held),
        (declared, held) => declared.or(held),
    }
}

fn declared(parts: &Parts) -> Option<Fullest> {
    let footprints = parts.workload.footprints.iter().enumerate();
    let (program, most) = footprints.max_by_key(|(i, f)| (f.total(), usize::MAX - i))?;
    let rank = parts.workload.ranks.iter().position(|r| r.program as usize == program)?;
    let found = Fullest { rank: rank as u32, bytes: most.total(), declared: Some(*most) };
    Some(found).filter(|found| found.bytes > 0)
}

fn held(parts: &Parts, ranks: &[RankTotals]) -> Option<Fullest> {
    let peak = |rank: u32| ranks[parts.folding.local(rank) as usize].peak;
    let rank = (0..parts.settings.ranks).max_by_key(|&rank| (peak(rank), u32::MAX - rank))?;
    let found = Fullest { rank, bytes: peak(rank), declared: None };
    Some(found).filter(|found| found.bytes > 0)
}

impl Fullest {
    /// Whether the NPU has that much memory; `None` for an unknown capacity.
    pub(crate) fn fits(&self, parts: &Parts) -> Option<Fits> {
        parts.platform.npu.fits(self.bytes.into())
    }

    /// A warning where it does not, or may not.
    pub(crate) fn warning(&self, parts: &Parts) -> Option<String> {
        let capacity = parts.platform.npu.memory_capacity?;
        let needs = format!("{}, but its NPU has {}", self.needs(), gb(capacity.0));
        match self.fits(parts)? {
            Fits::Yes => None,
            Fits::Near => {
                let (least, most) = Fits::limits(Bytes(self.bytes));
                Some(format!(
                    "the workload may not fit: {needs}, and what is needed is known to about \
                     {BAND_PERCENT} % ({} to {}). If it fits, it may be slow: an allocator \
                     then frees blocks and asks for them again in each step",
                    gb(least),
                    gb(most)
                ))
            }
            Fits::No => Some(format!("the workload does not fit: {needs}")),
        }
    }

    fn needs(&self) -> String {
        let (rank, needed) = (self.rank, gb(self.bytes));
        let Some(most) = self.declared else {
            return format!("rank {rank} holds {needed} at its peak");
        };
        let [weights, gradients, optimizer, activations] =
            [most.weights, most.gradients, most.optimizer, most.activations].map(gb);
        format!(
            "rank {rank} needs {needed} (weights {weights}, gradients {gradients}, optimizer \
             {optimizer}, activations {activations})"
        )
    }
}

/// `83.2 GB`.
fn gb(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / GIGA)
}
