//! Contents of memory outside of the NPUs.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// Memories of one kind outside of the NPUs, and what lies in the fullest of them when that is most.
/// A tensor lies there once, however often it is accessed, and until the end of the step.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
    /// When that much lies there first.
    pub peak_ns: f64,
    /// The bytes by kind. The sum is `least_bytes`.
    pub contents: OutsideContents,
    /// Capacity of one of them. Null where it is unknown.
    pub capacity_bytes: Option<u64>,
}

/// Bytes by what they are.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OutsideContents {
    /// Parameters that the workload offloads.
    pub weights_bytes: u64,
    /// Gradients that the workload offloads.
    pub gradients_bytes: u64,
    /// Optimizer state that the workload offloads, that of tables too.
    pub optimizer_bytes: u64,
    /// Embedding tables.
    pub tables_bytes: u64,
    /// Bytes that did not fit in the NPUs.
    pub spilled_bytes: u64,
    /// Other tensors: the workload does not say what they are.
    pub other_bytes: u64,
}

/// The fullest memory of one kind over time.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OutsideOverTime {
    /// The name in `outside`.
    pub name: String,
    /// The most that lies there within each bin, at least, bytes.
    pub bytes: Vec<u64>,
}
