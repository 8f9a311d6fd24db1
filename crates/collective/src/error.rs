//! Why a plan cannot be made.

use crate::Algorithm;

/// An algorithm that cannot run as asked. The caller knows the file and the field and adds them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Halving-doubling pairs positions by XOR, so `n` must be a power of two.
    #[error(
        "{algorithm} {kind} cannot run on {n} NPUs; allowed: a power of two (1, 2, 4, 8, ...), or ring or direct for any number"
    )]
    NotPowerOfTwo {
        /// The algorithm.
        algorithm: Algorithm,
        /// Name of the collective.
        kind: &'static str,
        /// Positions asked for.
        n: u32,
    },
    /// The algorithm has no form of this collective.
    #[error("{algorithm} cannot run {kind}; allowed: {allowed}")]
    Unsupported {
        /// The algorithm.
        algorithm: Algorithm,
        /// Name of the collective.
        kind: &'static str,
        /// What may be done instead.
        allowed: &'static str,
    },
    /// The root is no member of the group.
    #[error("root {root} is outside the group of {n} NPUs; allowed: 0 to {last}", last = n.saturating_sub(1))]
    Root {
        /// Position asked for.
        root: u32,
        /// Positions there are.
        n: u32,
    },
    /// A group without members.
    #[error("a collective over 0 NPUs; allowed: 1 or more")]
    Empty,
    /// A window through which nothing can pass.
    #[error("{kind} by direct with a window of 0 messages; allowed: 1 or more, or no window")]
    Window {
        /// Name of the collective.
        kind: &'static str,
    },
    /// The plan itself would not fit in memory.
    #[error(
        "{algorithm} {kind} on {n} NPUs takes {steps} steps, more than {max}; allowed: fewer NPUs a dimension, or another algorithm"
    )]
    TooLarge {
        /// The algorithm.
        algorithm: Algorithm,
        /// Name of the collective.
        kind: &'static str,
        /// Positions asked for.
        n: u32,
        /// Steps the plan would hold.
        steps: u64,
        /// Steps a plan may hold.
        max: u64,
    },
}
