//! Activity of ranks and dimensions over time, summed over all ranks in bins.

use super::bins::Bins;
use super::{Activity, ChunkPhase, Observer};
use crate::folding::Folding;
use stats::PerPart;
use units::Time;

/// See the module.
#[derive(Default)]
pub(super) struct Activities {
    /// Ranks by what they do.
    pub parts: PerPart<Bins>,
    /// Ranks with a chunk in a phase, by dimension.
    pub dimensions: Vec<Bins>,
    /// Chunks in queues, by dimension.
    pub waiting: Vec<Bins>,
    multiplicity: Vec<u64>,
}

impl Activities {
    /// For a run of the representatives of `folding` over `dims` dimensions.
    pub(super) fn new(folding: &Folding, dims: usize) -> Activities {
        let bins = Bins::default;
        Activities {
            parts: PerPart::default(),
            dimensions: vec![bins(); dims],
            waiting: vec![bins(); dims],
            multiplicity: folding.multiplicity.clone(),
        }
    }

    /// Ranks that a simulated rank stands for, itself included.
    pub(super) fn multiplicity(&self, rank: u32) -> u64 {
        self.multiplicity[rank as usize]
    }

    /// All ranks.
    pub(super) fn ranks(&self) -> u64 {
        self.multiplicity.iter().sum()
    }
}

impl Observer for Activities {
    fn spent(&mut self, rank: u32, activity: Activity, from: Time, to: Time) {
        let ranks = self.multiplicity[rank as usize];
        for (part, _) in activity.iter().filter(|(_, does)| **does) {
            self.parts[part].add(from, to, ranks);
        }
    }

    fn chunk_starts(&mut self, chunk: &ChunkPhase, now: Time) {
        self.waiting[chunk.dim as usize].add(
            chunk.entered,
            now,
            self.multiplicity[chunk.rank as usize],
        );
    }

    fn dimension_busy(&mut self, rank: u32, dim: u32, from: Time, to: Time) {
        self.dimensions[dim as usize].add(from, to, self.multiplicity[rank as usize]);
    }
}
