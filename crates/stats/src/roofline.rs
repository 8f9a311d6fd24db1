//! The roofline of a recommendation model's step.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// The least time of a recommendation model's step by the times of its parts: Eq. 1 of Neo and
/// `ZionEX` (Mudigere et al., ISCA 2022, appendix B). Parts are as long as in this run, the mean of
/// all ranks, so the times of exchanges contain what ranks wait for each other.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Roofline {
    /// The parts of Eq. 1.
    pub parts: RooflineParts,
    /// Forward pass.
    pub forward_ns: f64,
    /// Backward pass.
    pub backward_ns: f64,
    /// Both.
    pub step_ns: f64,
    /// Ratio of Eq. 1 to the time of a step in this run, 0 to 1; above 1 where steps overlap.
    pub reached: f64,
    /// Samples of a step on all ranks. Null where the workload does not say.
    pub samples: Option<u64>,
    /// Samples per second by Eq. 1. Null where samples are.
    pub samples_per_second: Option<f64>,
    /// The resource that needs most of the step.
    pub binding: String,
    /// Time that each resource needs by itself.
    pub resources: Vec<RooflineResource>,
}

/// Times of the parts of Eq. 1.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RooflineParts {
    /// Bottom MLP, forward.
    pub bottom_forward: f64,
    /// Lookup and pooling of embedding rows.
    pub lookup: f64,
    /// Exchange of pooled rows; with tables sharded by rows, their reduce-scatter.
    pub all_to_all_forward: f64,
    /// Interaction, forward.
    pub interaction_forward: f64,
    /// Top MLP, forward.
    pub top_forward: f64,
    /// Top MLP, backward.
    pub top_backward: f64,
    /// Interaction, backward.
    pub interaction_backward: f64,
    /// Exchange of the gradients of pooled rows; with tables sharded by rows, their all-gather.
    pub all_to_all_backward: f64,
    /// Backward pass and optimizer of the tables.
    pub update: f64,
    /// Bottom MLP, backward.
    pub bottom_backward: f64,
    /// All-reduce of the gradients of top MLP and interaction, or of all MLPs together.
    pub top_all_reduce: f64,
    /// All-reduce of the gradients of bottom MLP and copied tables.
    pub bottom_all_reduce: f64,
}

/// A resource that a step needs.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RooflineResource {
    /// `memory bandwidth of tables`, `compute`, `all-to-all` or `all-reduce`.
    pub name: String,
    /// Time of a step that it needs by itself.
    pub time_ns: f64,
    /// Samples per second that it allows. Null where samples are unknown.
    pub samples_per_second: Option<f64>,
}
