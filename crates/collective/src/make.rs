//! From a request to its plan: which algorithm makes it, and what it refuses.

use crate::{
    Algorithm, Plan, PlanError, PlanRequest, bidirectional_ring, direct, double_binary_tree,
    halving_doubling, in_network, is_rooted, ring,
};
use graph::CollectiveKind;

/// Steps a plan may hold (48 bytes each, and a message's token has 23 bits for its step); beyond it
/// [`PlanError::TooLarge`].
pub const MAX_STEPS: u64 = 1 << 23;

/// Positions a plan may have, so that sums of two positions stay in 32 bits.
const MAX_POSITIONS: u32 = 1 << 30;

/// The plan of one collective of one chunk on one group: `bytes` per NPU as `graph::Op::Collective`
/// means them, `root` a position (unrooted kinds ignore it), `chunk` the ordinal whose parity picks
/// the tree of the double binary tree.
///
/// # Errors
/// [`PlanError`]: an empty group, a root outside, an algorithm that cannot run this kind or number.
pub fn plan(
    kind: CollectiveKind,
    algorithm: Algorithm,
    n: u32,
    bytes: u64,
    root: u32,
    chunk: u32,
) -> Result<Plan, PlanError> {
    PlanRequest { kind, algorithm, n, bytes, root, chunk }.plan()
}

impl PlanRequest {
    /// Whether [`plan`] would make a plan of it; makes none.
    ///
    /// # Errors
    /// Every [`PlanError`].
    pub fn check(&self) -> Result<(), PlanError> {
        if self.n == 0 {
            return Err(PlanError::Empty);
        }
        if is_rooted(self.kind) && self.root >= self.n {
            return Err(PlanError::Root { root: self.root, n: self.n });
        }
        self.check_algorithm()?;
        let steps = self.steps();
        if steps > MAX_STEPS || self.n > MAX_POSITIONS {
            let (algorithm, kind) = (self.algorithm, self.kind.name());
            return Err(PlanError::TooLarge { algorithm, kind, n: self.n, steps, max: MAX_STEPS });
        }
        Ok(())
    }

    fn check_algorithm(&self) -> Result<(), PlanError> {
        let (algorithm, kind) = (self.algorithm, self.kind.name());
        match algorithm {
            Algorithm::Direct { window: Some(0) } => Err(PlanError::Window { kind }),
            Algorithm::HalvingDoubling if !halving_doubling::fits(self.kind, self.n) => {
                Err(PlanError::NotPowerOfTwo { algorithm, kind, n: self.n })
            }
            Algorithm::BidirectionalRing if !bidirectional_ring::fits(self.kind) => {
                let allowed = "kinds without a root, or another algorithm";
                Err(PlanError::Unsupported { algorithm, kind, allowed })
            }
            Algorithm::DoubleBinaryTree if !double_binary_tree::fits(self.kind) => {
                let allowed = "all_reduce, reduce, broadcast and barrier, or another algorithm";
                Err(PlanError::Unsupported { algorithm, kind, allowed })
            }
            Algorithm::InNetwork if !in_network::fits(self.kind) => {
                let allowed = "all_reduce and barrier, or another algorithm";
                Err(PlanError::Unsupported { algorithm, kind, allowed })
            }
            _ => Ok(()),
        }
    }

    /// Steps the plan holds, at most.
    fn steps(&self) -> u64 {
        let n = u64::from(self.n);
        match (self.algorithm, self.kind) {
            (
                Algorithm::Ring,
                CollectiveKind::AllToAll | CollectiveKind::Gather | CollectiveKind::Scatter,
            ) => n * (n - 1) / 2,
            _ => 4 * n,
        }
    }

    /// Same as [`plan`].
    ///
    /// # Errors
    /// Every [`PlanError`].
    pub fn plan(&self) -> Result<Plan, PlanError> {
        self.check()?;
        if self.n == 1 {
            return Ok(Plan::uniform(1, crate::Script::default()));
        }
        Ok(match self.algorithm {
            Algorithm::Ring => ring::make(self),
            Algorithm::BidirectionalRing => bidirectional_ring::make(self),
            Algorithm::Direct { window } => direct::make(self, window),
            Algorithm::HalvingDoubling => halving_doubling::make(self),
            Algorithm::DoubleBinaryTree => double_binary_tree::make(self),
            Algorithm::InNetwork => in_network::make(self),
        })
    }
}
