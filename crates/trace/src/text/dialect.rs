//! Keys and words of SimAI's dialect, as data (`simai.rs` reads them).

use super::labels::MODEL_GROUP;
use graph::CollectiveKind::{self, AllGather, AllReduce, AllToAll, Broadcast, ReduceScatter};
use std::fmt;

/// The first line of SimAI's dialect. `None` where it does not have a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SimAi {
    /// Whether its word is HYBRID_TRANSFORMER_FWD_IN_BCKWD. SimAI repeats no forward pass with it.
    pub again: bool,
    /// `model_parallel_NPU_group`: ranks that share activations.
    pub model: u32,
    /// `ep`: ranks that exchange tokens of experts.
    pub experts: Option<u32>,
    /// `pp`, which is 1.
    pub pipeline: Option<u32>,
    /// `vpp`: layers of a pipeline's stage.
    pub stage: Option<u32>,
    /// `ga`: the number of times that the layers stand in the file.
    pub repeats: Option<u32>,
    /// `all_gpus`: ranks.
    pub ranks: Option<u32>,
    /// `pp_comm`, which is 0.
    pub pipeline_bytes: Option<u32>,
}

/// The group that a word of a collective names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reach {
    /// That of the pass: of activations, or of weights.
    #[default]
    Own,
    /// `_EP`: ranks that exchange tokens of experts.
    Experts,
    /// `_DP_EP`: ranks that have the same experts.
    ExpertData,
}

/// Words that ASTRA-sim 1.0 does not have.
pub(super) const WORDS: [(&str, CollectiveKind, Reach); 9] = [
    ("ALLREDUCE_EP", AllReduce, Reach::Experts),
    ("ALLREDUCE_DP_EP", AllReduce, Reach::ExpertData),
    ("ALLGATHER_EP", AllGather, Reach::Experts),
    ("ALLGATHER_DP_EP", AllGather, Reach::ExpertData),
    ("REDUCESCATTER_EP", ReduceScatter, Reach::Experts),
    ("REDUCESCATTER_DP_EP", ReduceScatter, Reach::ExpertData),
    ("ALLTOALL_EP", AllToAll, Reach::Experts),
    ("ALLTOALL_DP_EP", AllToAll, Reach::ExpertData),
    ("BROADCAST", Broadcast, Reach::Own),
];

const KEYS: [&str; 7] = ["ep:", "pp:", "vpp:", "ga:", "all_gpus:", "pp_comm:", "pp_comm"];
pub(super) const AGAIN: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD";
pub(super) const FORM: &str = "model_parallel_NPU_group: 8 ep: 2 pp: 1 vpp: 1 ga: 1 all_gpus: 32 checkpoints: 0 checkpoint_initiates: 0";

/// Whether the words behind the first one have a key that only SimAI has.
pub(super) fn is_header(rest: &[&str]) -> bool {
    rest.iter().any(|word| KEYS.contains(word))
}

impl SimAi {
    /// The word of the first line.
    pub(super) fn word(&self) -> &'static str {
        if self.again { AGAIN } else { "HYBRID_TRANSFORMER" }
    }
}

impl fmt::Display for SimAi {
    /// Prints what stands behind the word.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\t{MODEL_GROUP} {}", self.model)?;
        let keys = [
            ("ep", self.experts),
            ("pp", self.pipeline),
            ("vpp", self.stage),
            ("ga", self.repeats),
            ("all_gpus", self.ranks),
            ("pp_comm", self.pipeline_bytes),
        ];
        for (name, number) in keys {
            if let Some(number) = number {
                write!(f, " {name}: {number}")?;
            }
        }
        if self.again { f.write_str(" checkpoints: 0 checkpoint_initiates: 0") } else { Ok(()) }
    }
}
