//! What lies in memory outside of the NPUs.

use schemars::JsonSchema;
use serde::Serialize;

/// Memories of one kind outside of the NPUs, and what lies in the fullest of them. A tensor lies
/// there once, however often it is accessed, and until the end of the step.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Outside {
    /// `memory pool`, `remote memory`, `CPU memory` or `NVMe`.
    pub name: String,
    /// Number of them in which something lies.
    pub memories: u64,
    /// Ranks whose tensors lie in the fullest one.
    pub ranks: u64,
    /// The least that lies in the fullest one.
    pub least_bytes: u64,
    /// The most that may lie in the fullest one: more than `least_bytes` if accesses do not say to
    /// which tensor they are.
    pub most_bytes: u64,
    /// What one of them can hold. Null where nothing says it.
    pub capacity_bytes: Option<u64>,
}
