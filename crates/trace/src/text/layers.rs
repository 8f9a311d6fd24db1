//! What a text workload holds, and how it is printed.
//!
//! A layer's columns: name, a reserved number, then for forward, input gradient and weight gradient
//! each compute time, collective and bytes, then the update time; HYBRID_CUSTOMIZED adds the
//! layer's own parallelisation. Times are cycles of 1 ns (ASTRA-sim 1.0's clock), bytes those of
//! one NPU's buffer: its contribution for ALLGATHER, its input otherwise.

use graph::CollectiveKind;
use std::fmt;

/// A text workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layers {
    /// The first line: which training loop, and who shares what.
    pub parallelism: Parallelism,
    /// The layers, first to last of the forward pass.
    pub layers: Vec<Layer>,
}

/// The first line of a text workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Parallelism {
    /// DATA
    Data,
    /// MODEL
    Model,
    /// HYBRID_DATA_MODEL: model-parallel along the innermost dimension, data-parallel along the
    /// others.
    HybridDataModel,
    /// HYBRID_MODEL_DATA: data-parallel along the innermost dimension, model-parallel along the
    /// others.
    HybridModelData,
    /// HYBRID_CUSTOMIZED: every layer names its own.
    HybridCustomized,
    /// HYBRID_TRANSFORMER, and HYBRID_TRANSFORMER_FWD_IN_BCKWD where it recomputes.
    Transformer {
        /// NPUs of a model-parallel group, which are consecutive ranks.
        model_group: u32,
        /// What is computed again in the back-propagation.
        recompute: Option<Recompute>,
    },
    /// HYBRID_DLRM, HYBRID_DLRM_ENHANCED
    Dlrm {
        /// Index of the last layer of the bottom MLP; layer 0 is the embedding.
        last_bottom: u32,
        /// The next pass doesn't wait for the embedding's gradients.
        enhanced: bool,
    },
    /// MICRO: one collective, nothing else.
    Micro,
    /// DISTRIBUTED_INFERENCE: forward passes only.
    DistributedInference,
}

/// Which layers are computed again. Before the input gradient of a layer in `starts`, the layers
/// from the last checkpoint below it up to it run forward once more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Recompute {
    /// Layers whose activations were kept.
    pub checkpoints: Vec<u32>,
    /// Layers that start a recomputation.
    pub starts: Vec<u32>,
}

/// What a layer of HYBRID_CUSTOMIZED may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum LayerParallelism {
    Data,
    Model,
    HybridDataModel,
    HybridModelData,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layer {
    /// Any word; names may repeat.
    pub name: String,
    /// The reserved column, -1 in practice; it means nothing.
    pub reserved: i64,
    /// Forward pass.
    pub forward: Part,
    /// Gradients of the inputs.
    pub input_gradient: Part,
    /// Gradients of the weights.
    pub weight_gradient: Part,
    /// ns from the end of each of the layer's collectives until what waits for it may go on.
    pub update: u64,
    /// The layer's own parallelisation; `Some` exactly for HYBRID_CUSTOMIZED.
    pub own: Option<LayerParallelism>,
}

/// What a layer does in one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Part {
    /// Compute time, ns.
    pub compute: u64,
    /// The collective afterwards.
    pub collective: Option<CollectiveKind>,
    /// Its size in bytes; the text gives one even without a collective.
    pub bytes: u64,
}

/// The passes of a training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Pass {
    Forward,
    InputGradient,
    WeightGradient,
}

impl Pass {
    /// Every pass, in the order of the columns.
    pub const ALL: [Pass; 3] = [Pass::Forward, Pass::InputGradient, Pass::WeightGradient];

    /// The word in the names of nodes.
    pub const fn name(self) -> &'static str {
        match self {
            Pass::Forward => "forward",
            Pass::InputGradient => "input_gradient",
            Pass::WeightGradient => "weight_gradient",
        }
    }
}

/// Who takes part in a collective: everybody, consecutive ranks, or the ranks at the same position
/// among those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    Everybody,
    Inner,
    Outer,
}

/// The collectives a text may name, in the order of the documentation.
pub(super) const KINDS: [(&str, Option<CollectiveKind>); 5] = [
    ("NONE", None),
    ("ALLREDUCE", Some(CollectiveKind::AllReduce)),
    ("ALLGATHER", Some(CollectiveKind::AllGather)),
    ("REDUCESCATTER", Some(CollectiveKind::ReduceScatter)),
    ("ALLTOALL", Some(CollectiveKind::AllToAll)),
];

impl LayerParallelism {
    /// Every kind with its word.
    pub const ALL: [(&'static str, LayerParallelism); 4] = [
        ("DATA", LayerParallelism::Data),
        ("MODEL", LayerParallelism::Model),
        ("HYBRID_DATA_MODEL", LayerParallelism::HybridDataModel),
        ("HYBRID_MODEL_DATA", LayerParallelism::HybridModelData),
    ];

    fn word(self) -> &'static str {
        LayerParallelism::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }

    /// Who shares activations, and who shares weights.
    fn scopes(self) -> (Option<Scope>, Option<Scope>) {
        match self {
            LayerParallelism::Data => (None, Some(Scope::Everybody)),
            LayerParallelism::Model => (Some(Scope::Everybody), None),
            LayerParallelism::HybridDataModel => (Some(Scope::Inner), Some(Scope::Outer)),
            LayerParallelism::HybridModelData => (Some(Scope::Outer), Some(Scope::Inner)),
        }
    }
}

impl Parallelism {
    /// The words a text may begin with.
    pub const WORDS: [&'static str; 11] = [
        "DATA",
        "MODEL",
        "HYBRID_DATA_MODEL",
        "HYBRID_MODEL_DATA",
        "HYBRID_CUSTOMIZED",
        "HYBRID_TRANSFORMER",
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD",
        "HYBRID_DLRM",
        "HYBRID_DLRM_ENHANCED",
        "MICRO",
        "DISTRIBUTED_INFERENCE",
    ];

    /// The word it is written as.
    pub fn word(&self) -> &'static str {
        match self {
            Parallelism::Data => "DATA",
            Parallelism::Model => "MODEL",
            Parallelism::HybridDataModel => "HYBRID_DATA_MODEL",
            Parallelism::HybridModelData => "HYBRID_MODEL_DATA",
            Parallelism::HybridCustomized => "HYBRID_CUSTOMIZED",
            Parallelism::Transformer { recompute: None, .. } => "HYBRID_TRANSFORMER",
            Parallelism::Transformer { recompute: Some(_), .. } => {
                "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
            }
            Parallelism::Dlrm { enhanced: false, .. } => "HYBRID_DLRM",
            Parallelism::Dlrm { enhanced: true, .. } => "HYBRID_DLRM_ENHANCED",
            Parallelism::Micro => "MICRO",
            Parallelism::DistributedInference => "DISTRIBUTED_INFERENCE",
        }
    }
}

impl Layer {
    /// What it does in `pass`.
    pub fn part(&self, pass: Pass) -> &Part {
        match pass {
            Pass::Forward => &self.forward,
            Pass::InputGradient => &self.input_gradient,
            Pass::WeightGradient => &self.weight_gradient,
        }
    }
}

impl Layers {
    /// Who takes part in the collective of layer `index` in `pass`; `None` when nobody does.
    pub(super) fn scope(&self, index: usize, pass: Pass) -> Option<Scope> {
        let (activations, weights) = match &self.parallelism {
            Parallelism::HybridCustomized => {
                self.layers[index].own.map_or((None, None), LayerParallelism::scopes)
            }
            Parallelism::Dlrm { .. } if index == 0 => {
                (Some(Scope::Everybody), Some(Scope::Everybody))
            }
            Parallelism::Data | Parallelism::Dlrm { .. } | Parallelism::Micro => {
                LayerParallelism::Data.scopes()
            }
            Parallelism::Model | Parallelism::DistributedInference => {
                LayerParallelism::Model.scopes()
            }
            Parallelism::HybridModelData => LayerParallelism::HybridModelData.scopes(),
            Parallelism::HybridDataModel | Parallelism::Transformer { .. } => {
                LayerParallelism::HybridDataModel.scopes()
            }
        };
        if pass == Pass::WeightGradient { weights } else { activations }
    }
}

impl fmt::Display for Layers {
    /// Prints the text, columns apart by tabs; it reads back to the same layers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.parallelism)?;
        writeln!(f, "{}", self.layers.len())?;
        self.layers.iter().try_for_each(|layer| writeln!(f, "{layer}"))
    }
}

impl fmt::Display for Parallelism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self {
            Parallelism::Dlrm { last_bottom, .. } => write!(f, "\t{last_bottom}"),
            Parallelism::Transformer { model_group, recompute } => {
                write!(f, "\tmodel_parallel_NPU_group: {model_group}")?;
                let Some(Recompute { checkpoints, starts }) = recompute else { return Ok(()) };
                list(f, "checkpoints", checkpoints)?;
                list(f, "checkpoint_initiates", starts)
            }
            _ => Ok(()),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, key: &str, layers: &[u32]) -> fmt::Result {
    write!(f, " {key}: {}", layers.len())?;
    layers.iter().try_for_each(|layer| write!(f, " {layer}"))
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}", self.name, self.reserved)?;
        for part in [&self.forward, &self.input_gradient, &self.weight_gradient] {
            // Only the kinds of the table can be printed; `recover` lets no other through.
            let kind = KINDS
                .iter()
                .find(|(_, kind)| *kind == part.collective)
                .map_or("NONE", |(word, _)| word);
            write!(f, "\t{}\t{kind}\t{}", part.compute, part.bytes)?;
        }
        write!(f, "\t{}", self.update)?;
        self.own.map_or(Ok(()), |own| write!(f, "\t{}", own.word()))
    }
}
