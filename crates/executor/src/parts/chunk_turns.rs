//! Turns of chunks on the queues of a dimension and between two trees.
//!
//! Natively turns are counted on the group. In ASTRA-sim's profile they are counted on each rank.

use lowering::{Lane, Lowered, PhaseSpec};

/// How many chunks have been dealt to each (dimension, lane), and how many have taken turns between
/// trees.
#[derive(Clone, Default)]
pub(crate) struct ChunkTurns(Vec<u32>);

/// Counters of a dimension: lanes All, First, Second, then trees.
const COUNTERS: usize = 4;
/// The counter of trees.
pub(crate) const TREES: usize = 3;

impl ChunkTurns {
    pub(crate) fn get(&self, dim: u32, counter: usize) -> u32 {
        self.0.get(dim as usize * COUNTERS + counter).copied().unwrap_or(0)
    }

    fn add(&mut self, dim: u32, counter: usize, count: u32) {
        let at = dim as usize * COUNTERS + counter;
        self.0.resize(self.0.len().max(at + 1), 0);
        self.0[at] = self.0[at].wrapping_add(count);
    }

    /// Counts the chunks of a collective.
    pub(crate) fn deal(&mut self, lowered: &Lowered) {
        for phase in lowered.phases(0) {
            self.add(phase.dim, phase.lane as usize, lowered.chunks);
            if phase.plans.len() > 1 {
                self.add(phase.dim, TREES, lowered.chunks);
            }
        }
    }

    /// Whether chunk `chunk` of the next collective runs backwards in a phase, and which of the
    /// phase's plans it takes.
    pub(crate) fn direction(&self, phase: &PhaseSpec, queues: u32, chunk: u32) -> (bool, u32) {
        let nth = |counter: usize| self.get(phase.dim, counter).wrapping_add(chunk);
        let backward = match phase.lane {
            Lane::All => queues > 1 && nth(Lane::All as usize) % queues >= queues / 2,
            Lane::First => false,
            Lane::Second => true,
        };
        (backward, nth(TREES) % phase.plans.len().max(1) as u32)
    }
}
