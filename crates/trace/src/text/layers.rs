//! Content of a text workload, and how it is printed.
//!
//! A layer's columns: name, a reserved number, then for forward, input gradient and weight gradient
//! each compute time, collective and bytes, then the update time; HYBRID_CUSTOMIZED adds the
//! layer's own parallelisation. Times are cycles of 1 ns (ASTRA-sim 1.0's clock), bytes those of
//! one NPU's buffer: its contribution for ALLGATHER, its input otherwise.

use super::dialect::{self, Reach, SimAi};
use super::labels::{FIELDS, HEAD, INNER_DATA, LAYER, MODEL_GROUP, NAME};
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
        /// NPUs of a model-parallel group, and of a data-parallel one next to one another.
        blocks: Blocks,
        /// Forward passes that are computed again in the back-propagation.
        recompute: Option<Recompute>,
    },
    /// Either of these in SimAI's dialect.
    SimAi(SimAi),
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

/// How ranks are dealt to groups: `below` consecutive ranks are in the same outer group, and `inner`
/// such blocks next to one another make the inner groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// Neighbours that share an outer group; 1 where inner groups are consecutive ranks.
    pub below: u32,
    /// Members of an inner group.
    pub inner: u32,
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

/// Parallelism of a layer of HYBRID_CUSTOMIZED.
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
    /// From the end of each of the layer's collectives until what waits for it may go on.
    pub update: Update,
    /// The layer's own parallelisation; `Some` exactly for HYBRID_CUSTOMIZED.
    pub own: Option<LayerParallelism>,
}

/// How long an update takes, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Update {
    /// Whatever the collective's size: the tool's files.
    Whole(u64),
    /// For each [`KILOBYTE`] of the collective: the paper's section IV-C and Fig. 8.
    Kilobyte(u64),
}

/// Bytes of a KB of data. The paper does not say whether it is 1,000 bytes.
pub const KILOBYTE: u64 = 1024;

impl Update {
    /// ns after a collective of `bytes`, rounded up.
    pub fn ns(self, bytes: u64) -> u128 {
        match self {
            Update::Whole(ns) => ns.into(),
            Update::Kilobyte(ns) => {
                (u128::from(ns) * u128::from(bytes)).div_ceil(u128::from(KILOBYTE))
            }
        }
    }
}

/// Work of a layer in one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Part {
    /// Compute time, ns.
    pub compute: u64,
    /// The collective afterwards.
    pub collective: Option<CollectiveKind>,
    /// Size of the collective in bytes; the text gives one even without a collective.
    pub bytes: u64,
    /// The group that the collective's word names; only SimAI's dialect names others than the
    /// pass's own.
    pub reach: Reach,
}

impl Part {
    /// The word of its collective. Only the kinds of the table can be printed; `recover` lets no
    /// other through.
    pub(super) fn word(&self) -> &'static str {
        let own = KINDS.iter().find(|(_, kind)| *kind == self.collective);
        let own = own.filter(|_| self.reach == Reach::Own).map(|(word, _)| *word);
        let other = dialect::WORDS
            .iter()
            .find(|(_, kind, reach)| Some(*kind) == self.collective && *reach == self.reach);
        own.or(other.map(|(word, ..)| *word)).unwrap_or("NONE")
    }
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

/// Who takes part in a collective: everybody, the ranks of an inner group, or those at the same
/// position among those. Those are dealt to experts once more in SimAI's dialect: ranks with
/// different experts, and ranks with the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    Everybody,
    Inner,
    Outer,
    Experts,
    ExpertData,
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
            Parallelism::SimAi(simai) => simai.word(),
            Parallelism::Dlrm { enhanced: false, .. } => "HYBRID_DLRM",
            Parallelism::Dlrm { enhanced: true, .. } => "HYBRID_DLRM_ENHANCED",
            Parallelism::Micro => "MICRO",
            Parallelism::DistributedInference => "DISTRIBUTED_INFERENCE",
        }
    }
}

impl Layer {
    /// ns of its update behind the collective of `pass`.
    pub fn update(&self, pass: Pass) -> u128 {
        self.update.ns(self.part(pass).bytes)
    }

    /// Work of the layer in `pass`.
    pub fn part(&self, pass: Pass) -> &Part {
        match pass {
            Pass::Forward => &self.forward,
            Pass::InputGradient => &self.input_gradient,
            Pass::WeightGradient => &self.weight_gradient,
        }
    }
}

impl Layers {
    /// Whether updates take their time for each KB, which only the form of Fig. 8 can say.
    pub(super) fn is_labelled(&self) -> bool {
        self.layers.iter().any(|layer| matches!(layer.update, Update::Kilobyte(_)))
    }

    /// Prints one labelled field on a line.
    fn labelled(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", HEAD[0], self.parallelism)?;
        writeln!(f, "{} {}", HEAD[1], self.layers.len())?;
        for (layer, number) in self.layers.iter().zip(1..) {
            let parts = [layer.forward, layer.input_gradient, layer.weight_gradient];
            let line = |values: [String; 3]| values.join(" ");
            let (Update::Whole(ns) | Update::Kilobyte(ns)) = layer.update;
            writeln!(f, "{LAYER} {number}\n{NAME} {}", layer.name)?;
            writeln!(f, "{} {}", FIELDS[0].0, line(parts.map(|part| part.compute.to_string())))?;
            writeln!(f, "{} {}", FIELDS[1].0, line(parts.map(|part| part.word().to_string())))?;
            writeln!(f, "{} {}", FIELDS[2].0, line(parts.map(|part| part.bytes.to_string())))?;
            writeln!(f, "{} {ns}", FIELDS[3].0)?;
        }
        Ok(())
    }

    /// Group that takes part in the collective of layer `index` in `pass`; `None` when there is no
    /// collective.
    pub(super) fn scope(&self, index: usize, pass: Pass) -> Option<Scope> {
        let part = self.layers[index].part(pass);
        match part.reach {
            _ if part.collective == Some(CollectiveKind::Broadcast) => return None,
            Reach::Experts => return Some(Scope::Experts),
            Reach::ExpertData => return Some(Scope::ExpertData),
            Reach::Own => {}
        }
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
            Parallelism::HybridDataModel
            | Parallelism::Transformer { .. }
            | Parallelism::SimAi(_) => LayerParallelism::HybridDataModel.scopes(),
        };
        if pass == Pass::WeightGradient { weights } else { activations }
    }
}

impl fmt::Display for Layers {
    /// Prints the text, columns apart by tabs, or one labelled field on a line; it reads back to the
    /// same layers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_labelled() {
            return self.labelled(f);
        }
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
            Parallelism::SimAi(simai) => write!(f, "{simai}"),
            Parallelism::Transformer { blocks, recompute } => {
                write!(f, "\t{MODEL_GROUP} {}", blocks.inner)?;
                if blocks.below != 1 {
                    write!(f, " {INNER_DATA} {}", blocks.below)?;
                }
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
            write!(f, "\t{}\t{}\t{}", part.compute, part.word(), part.bytes)?;
        }
        let (Update::Whole(ns) | Update::Kilobyte(ns)) = self.update;
        write!(f, "\t{ns}")?;
        self.own.map_or(Ok(()), |own| write!(f, "\t{}", own.word()))
    }
}
