//! The algorithms, one collective on one group as a request, and the dispatcher that makes a plan
//! of it.

use crate::{Plan, PlanError, direct, double_binary_tree, halving_doubling, in_network, ring};
use graph::CollectiveKind;

/// Steps a plan may hold (48 bytes each, and a message's token has 23 bits for its step); beyond it
/// [`PlanError::TooLarge`].
pub const MAX_STEPS: u64 = 1 << 23;

/// Positions a plan may have, so that sums of two positions stay in 32 bits.
const MAX_POSITIONS: u32 = 1 << 30;

/// An algorithm for one collective kind on one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// Neighbour to neighbour (pipelined chain for rooted kinds).
    Ring,
    /// Everybody to everybody at once; with a window, that many messages in flight.
    Direct {
        /// Messages in flight, `None` for all.
        window: Option<u32>,
    },
    /// Recursive halving and doubling, powers of two only; a binomial tree for rooted kinds and
    /// dissemination for the barrier, any number.
    HalvingDoubling,
    /// Two complementary binary trees, alternate chunks on each; all-reduce, reduce, broadcast and
    /// barrier.
    DoubleBinaryTree,
    /// The switch between the positions reduces; all-reduce and barrier, on a switch only.
    InNetwork,
}

impl std::fmt::Display for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Algorithm::Ring => f.write_str("ring"),
            Algorithm::Direct { window: None } => f.write_str("direct"),
            Algorithm::Direct { window: Some(w) } => write!(f, "direct (window {w})"),
            Algorithm::HalvingDoubling => f.write_str("halving-doubling"),
            Algorithm::DoubleBinaryTree => f.write_str("double binary tree"),
            Algorithm::InNetwork => f.write_str("in-network"),
        }
    }
}

/// One collective on one group of `n` positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// What it promises.
    pub kind: CollectiveKind,
    /// How.
    pub algorithm: Algorithm,
    /// Positions, 1 or more.
    pub n: u32,
    /// Bytes per NPU, as `graph::Op::Collective` means them; a barrier ignores them.
    pub bytes: u64,
    /// Position of the root; other kinds ignore it.
    pub root: u32,
    /// Ordinal of the chunk: its parity picks the tree of the double binary tree, nothing else
    /// looks at it.
    pub chunk: u32,
}

impl Request {
    /// Bytes of one of `n` equal fragments, the last one padded: `ceil(bytes / n)`.
    pub fn fragment(&self) -> u64 {
        self.bytes.div_ceil(u64::from(self.n.max(1)))
    }

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
}

/// True for the kinds that have a root.
pub fn is_rooted(kind: CollectiveKind) -> bool {
    use CollectiveKind::{Broadcast, Gather, Reduce, Scatter};
    matches!(kind, Broadcast | Reduce | Gather | Scatter)
}

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
    Request { kind, algorithm, n, bytes, root, chunk }.plan()
}

impl Request {
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
            Algorithm::Direct { window } => direct::make(self, window),
            Algorithm::HalvingDoubling => halving_doubling::make(self),
            Algorithm::DoubleBinaryTree => double_binary_tree::make(self),
            Algorithm::InNetwork => in_network::make(self),
        })
    }
}
