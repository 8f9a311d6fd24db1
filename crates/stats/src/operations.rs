//! Operations of the workload and what they cost.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// Operations of one kind whose names differ only in numbers, over all ranks.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Operation {
    /// Their name, with a star for each number: `*.layer*.attention.norm`.
    pub name: String,
    /// `compute`, `host`, `load`, `store`, `send`, `recv`, `metadata`, `invalid`, or the
    /// collective.
    pub kind: String,
    /// Number of operations, over all ranks.
    pub count: u128,
    /// Time of all ranks that is charged to them. Each moment of a rank goes to one operation: to
    /// what computes, else to the communication that ends first, else to memory, a launch or the
    /// host. So a receive that is posted early costs nothing. The sum over all operations is the
    /// time of all ranks less their idle time.
    pub cost_ns: f64,
    /// Sum of their durations over all ranks, overlapped or not. A receive lasts from when it is
    /// posted.
    pub total_ns: f64,
    /// The longest duration.
    pub max_ns: f64,
    /// Bytes of communication and memory accesses over all ranks, as the trace gives them.
    pub bytes: u128,
    /// Floating-point operations over all ranks.
    pub flops: u128,
    /// Bytes that computations read and write, over all ranks.
    pub compute_bytes: u128,
}

/// Work done, over all ranks.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Counts {
    /// Number of operations.
    pub operations: u128,
    /// Number of transfers.
    pub transfers: u128,
}
