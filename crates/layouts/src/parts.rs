//! Parts of a step that many layouts share: blocks of units, divisions of a model, choices of data
//! parallelism.

/// Sizes of a unit on a rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// Trained parameters that are replicated over all of data parallelism.
    pub dense: u64,
    /// Trained parameters of routed experts.
    pub expert: u64,
    /// The same of parameters that are not trained.
    pub frozen: [u64; 2],
    /// Bytes kept of a micro-batch.
    pub kept: u64,
    /// Parameters for which fused sums of gradients hold an empty gradient.
    pub placeholders: u64,
    /// Parameters of the largest tensor.
    pub tensor: u64,
    /// Parameters with copies in 8 bits.
    pub narrow: u64,
    /// Bytes that recomputation brings back for the backward pass, where it counts layers.
    pub back: u64,
    /// Bytes among `kept` that recomputation would not keep, where it counts layers.
    pub spared: u64,
    /// Where it is in the model.
    pub place: Place,
}

/// Where a unit is in a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Before the layers.
    Embedding,
    /// A layer, or a module like one.
    #[default]
    Layer,
    /// After the layers.
    Head,
}

/// How gradients get to where they are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gradients {
    /// Multiplications add them up themselves.
    #[default]
    Fused,
    /// Plain PyTorch's kernels do.
    Eager,
    /// As with `Eager`, but `Block::whole` counts them until they are copied.
    Counted,
}

/// Time of a script, and the time of its kernels without communication.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// All of it.
    pub time: u64,
    /// Time of the kernels.
    pub kernels: u64,
}

impl Work {
    pub(crate) fn and(self, other: Work) -> Work {
        Work { time: self.time + other.time, kernels: self.kernels + other.kernels }
    }
}

/// A kind of units: a layer, the embedding or the head, with its passes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unit {
    /// Forward pass.
    pub forward: Work,
    /// Casts of weights in the first forward pass.
    pub narrow: Work,
    /// Operations computed again before a backward pass.
    pub again: Work,
    /// Backward pass for both gradients.
    pub backward: Work,
    /// Backward pass for gradients of the inputs only.
    pub inputs: Work,
    /// Pass for gradients of the weights only.
    pub weights: Work,
    /// Sums of gradients of the first micro-batch.
    pub first: u64,
    /// Sums of gradients of each later one.
    pub more: u64,
    /// Operations of each of these, in the order above without `first` and `more`.
    pub scripts: [u32; 6],
    /// Sizes.
    pub sizes: Sizes,
}

/// Kinds of units in one division of a layer, with one size of micro-batches.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Kinds of units.
    pub units: Vec<Unit>,
    /// Bytes of tensors that live within a pass, such as hidden states that are gathered whole.
    pub whole: u64,
    /// Bytes of what is computed again in a layer.
    pub dropped: u64,
    /// Whether recomputation counts layers: `Sizes::back` is what it brings back, not `dropped`.
    pub counts_layers: bool,
    /// Bytes that the loss holds.
    pub loss: u64,
    /// Bytes that metrics of training hold.
    pub metric_logits: u64,
    /// Bytes of a parameter.
    pub weight_bytes: u64,
    /// Bytes of a parameter's optimizer state.
    pub optimizer_bytes: u64,
    /// How gradients get to where they are kept.
    pub gradients: Gradients,
}

/// The units of each part of a pipeline.
#[derive(Clone, Debug, Default)]
pub struct Split {
    /// Kinds of units in model order, by part.
    pub parts: Vec<Vec<u8>>,
    /// Stages other than the first that hold a copy of the embedding.
    pub sharing: Vec<u32>,
}

/// Data parallelism of a block's units. Pairs are of dense parameters and of experts.
#[derive(Clone, Debug, Default)]
pub struct Data {
    /// ZeRO.
    pub zero: u8,
    /// Gradients are reduced as soon as they exist.
    pub overlaps_reduction: bool,
    /// Parameters are gathered during the forward pass (ZeRO 1 and 2).
    pub overlaps_gathering: bool,
    /// Times of the reduction of a unit's gradients.
    pub reduce: Vec<[u64; 2]>,
    /// Pieces in which they are reduced.
    pub pieces: Vec<[u32; 2]>,
    /// Times of a gathering of a unit's parameters.
    pub gather: Vec<[u64; 2]>,
    /// Times of the reduction over replicas of a shard; empty where there is one.
    pub replicas: Vec<[u64; 2]>,
    /// Times of a reduction of all gradients of a stage at the end.
    pub reduce_all: Vec<[u64; 2]>,
    /// Times of a gathering of all parameters of a stage at the end.
    pub gather_all: Vec<[u64; 2]>,
    /// Time of the exchange of the embedding's gradients.
    pub shared: u64,
    /// Time of the optimizer without parameters.
    pub optimizer: f64,
    /// Time of the optimizer for each parameter.
    pub optimizer_each: f64,
    /// Whether experts are sharded over ranks of their own.
    pub experts_apart: bool,
    /// Ranks that a shard of dense parameters is split over.
    pub dense_ranks: u64,
    /// Ranks that a shard of experts is split over.
    pub expert_ranks: u64,
    /// Parameters that the fullest rank updates, where whole tensors are dealt.
    pub owned: Option<u64>,
    /// Bytes of a gradient.
    pub gradient_bytes: u64,
    /// How many of parameters, gradients and optimizer state stay on the NPU.
    pub stays: u8,
    /// Whether each gradient is added to the one before as soon as it exists (eager kernels).
    pub in_place: bool,
    /// Whether gradients are copied into buckets (eager kernels).
    pub copied: bool,
    /// Dimensions that the collectives of dense parameters, of experts and of replicas use, a bit
    /// for each.
    pub dims: [u8; 3],
}
