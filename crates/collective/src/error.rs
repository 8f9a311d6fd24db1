//! Why a plan cannot be made.

use crate::Algorithm;

/// An algorithm that cannot run as asked. The caller knows the file and the field and adds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// Halving-doubling pairs positions by XOR, so `n` must be a power of two.
    NotPowerOfTwo {
        /// The algorithm.
        algorithm: Algorithm,
        /// Name of the collective.
        kind: &'static str,
        /// Positions asked for.
        n: u32,
    },
    /// The algorithm has no form of this collective.
    Unsupported {
        /// The algorithm.
        algorithm: Algorithm,
        /// Name of the collective.
        kind: &'static str,
        /// Allowed alternatives.
        allowed: &'static str,
    },
    /// The root is not a member of the group.
    Root {
        /// Position asked for.
        root: u32,
        /// Positions there are.
        n: u32,
    },
    /// A group without members.
    Empty,
    /// A window through which nothing can pass.
    Window {
        /// Name of the collective.
        kind: &'static str,
    },
    /// The plan itself would not fit in memory.
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

impl PlanError {
    /// Description of the fault.
    pub fn message(&self) -> String {
        match self {
            PlanError::NotPowerOfTwo { algorithm, kind, n } => {
                format!("{algorithm} {kind} cannot run on {n} NPUs")
            }
            PlanError::Unsupported { algorithm, kind, .. } => {
                format!("{algorithm} cannot run {kind}")
            }
            PlanError::Root { root, n } => {
                format!("root {root} is outside the group of {n} NPUs")
            }
            PlanError::Empty => "a collective over 0 NPUs".into(),
            PlanError::Window { kind } => {
                format!("direct {kind} has a window of 0 messages")
            }
            PlanError::TooLarge { algorithm, kind, n, steps, max } => {
                format!("{algorithm} {kind} on {n} NPUs takes {steps} steps, more than {max}")
            }
        }
    }

    /// Allowed values.
    pub fn allowed(&self) -> String {
        match self {
            PlanError::NotPowerOfTwo { .. } => {
                "a power of two (1, 2, 4, 8, ...), or ring or direct for any number".into()
            }
            PlanError::Unsupported { allowed, .. } => (*allowed).into(),
            PlanError::Root { n, .. } => format!("0 to {}", n.saturating_sub(1)),
            PlanError::Empty => "1 or more".into(),
            PlanError::Window { .. } => "1 or more, or no window".into(),
            PlanError::TooLarge { .. } => "fewer NPUs per dimension, or another algorithm".into(),
        }
    }
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; allowed: {}", self.message(), self.allowed())
    }
}

impl std::error::Error for PlanError {}
