//! The critical path.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// A chain of operations without a gap, from the beginning of the step to its end.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CriticalPath {
    /// Number of segments.
    pub count: u64,
    /// The longest segments (at most 400), in order of time.
    pub segments: Vec<PathSegment>,
    /// By kind of operation, the time of the path in each bin of `bin_ns`. The kinds of a bin sum
    /// to its width, so no moment is missing.
    pub over_time: Vec<PathSeries>,
    /// Sums of all segments by kind of operation, largest first.
    pub by_kind: Vec<PathPart>,
    /// Sums of all segments by layer, largest first.
    pub by_layer: Vec<PathPart>,
    /// Sums of all segments by cause, largest first.
    pub by_cause: Vec<PathPart>,
    /// Sums of all segments by operation, largest first, at most 200.
    pub by_operation: Vec<PathOperation>,
}

/// One kind of operation on the critical path, over time.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PathSeries {
    /// `compute`, `all_reduce`, ..., `launch`.
    pub kind: String,
    /// Time of the path in each bin.
    pub ns: Vec<f64>,
}

/// A segment of the critical path: an operation, when the path reaches it and leaves it, and why it
/// began then.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PathSegment {
    /// The rank it is on: the first of its class.
    pub rank: u64,
    /// Id of the operation in the trace.
    pub node: u64,
    /// Name of the operation.
    pub name: String,
    /// Kind of the operation: `compute`, `all_reduce`, ...; `launch` while it waits for its host to
    /// launch it.
    pub kind: String,
    /// Layer of the operation.
    pub layer: String,
    /// When the path reaches it.
    pub start_ns: f64,
    /// When it ends.
    pub end_ns: f64,
    /// Why it began then: `dependency` (ended), `resource` (what it needs became free), `last
    /// member` (of its collective arrived), `message` (was sent), `launch` (by its host), `start`
    /// (of the run).
    pub cause: String,
}

/// Operations of the same kind and name on the critical path.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PathOperation {
    /// Their name, with a star for each number.
    pub name: String,
    /// Their kind.
    pub kind: String,
    /// Number of segments.
    pub count: u64,
    /// Their time.
    pub ns: f64,
    /// Why most of it began when it did; see the causes of a segment.
    pub cause: String,
}

/// Segments of the critical path of one kind, layer or cause.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PathPart {
    /// Kind, layer or cause.
    pub name: String,
    /// Number of segments.
    pub count: u64,
    /// Their time.
    pub ns: f64,
}
