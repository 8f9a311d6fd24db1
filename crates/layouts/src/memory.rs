//! Peak memory of a rank of each stage.
//!
//! What lies where, and why, is described in `python/armillary/workload/memory.py`, which computes
//! the sizes of single units. Sources: Rajbhandari et al. 2020 (arXiv:1910.02054, figure 1);
//! Korthikanti et al. 2022 (arXiv:2205.05198, table 2).

use crate::parts::{Block, Data, Split};
use crate::pipeline::Pipeline;

/// Peak bytes on a rank, by what they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Parameters.
    pub weights: u64,
    /// Gradients.
    pub gradients: u64,
    /// Optimizer state.
    pub optimizer: u64,
    /// Activations.
    pub activations: u64,
    /// Tensors on their way.
    pub temporary: u64,
}

impl Held {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.weights + self.gradients + self.optimizer + self.activations + self.temporary
    }
}

/// Sizes of a stage's units together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stage {
    pub dense: u64,
    pub expert: u64,
    activations: u64,
    narrow: u64,
    largest: u64,
    placeholders: u64,
    tensor: u64,
    has_head: bool,
}

/// The stages of a pipeline whose parts are `split`.
pub(crate) fn stages(pipeline: &Pipeline, split: &Split, block: &Block, out: &mut Vec<Stage>) {
    out.clear();
    let mut kept = vec![0; pipeline.chunks as usize];
    for stage in 0..pipeline.stages {
        let mut found = Stage::default();
        let (mut head, mut layers) = (0, 0);
        for chunk in 0..pipeline.chunks {
            let part = pipeline.part(stage, chunk);
            kept[chunk as usize] = 0;
            for &unit in &split.parts[part as usize] {
                let sizes = &block.units[unit as usize].sizes;
                found.dense += sizes.dense;
                found.expert += sizes.expert;
                found.narrow += sizes.narrow;
                found.largest = found.largest.max(sizes.dense + sizes.expert);
                found.tensor = found.tensor.max(sizes.tensor);
                kept[chunk as usize] += sizes.kept;
                if split.heads.contains(&unit) {
                    found.has_head = true;
                    head = sizes.placeholders;
                } else {
                    layers = layers.max(sizes.placeholders);
                }
            }
        }
        found.placeholders = head + layers;
        let held = |counts: &Vec<u32>| {
            counts.iter().zip(&kept).map(|(&count, &each)| u64::from(count) * each).sum::<u64>()
        };
        found.activations = pipeline.held[stage as usize].iter().map(held).max().unwrap_or(0);
        if found.has_head {
            found.activations = found.activations.max(block.metric_logits);
        }
        out.push(found);
    }
}

impl Stage {
    /// Parameters that a rank updates.
    pub(crate) fn owned(&self, data: &Data) -> u64 {
        if data.zero == 0 { self.dense + self.expert } else { self.share(data) }
    }

    /// Parameters of a rank's share where each tensor is cut, rounded up.
    fn share(&self, data: &Data) -> u64 {
        if data.experts_apart {
            self.dense.div_ceil(data.dense_ranks) + self.expert.div_ceil(data.expert_ranks)
        } else {
            (self.dense + self.expert).div_ceil(data.dense_ranks)
        }
    }

    /// Peak bytes on a rank.
    pub(crate) fn held(&self, block: &Block, data: &Data) -> Held {
        let all = self.dense + self.expert;
        let share = if data.zero == 0 { all } else { self.share(data) };
        let weights = if data.zero < 3 { all } else { share };
        let gradients = if data.zero < 2 { all } else { share };
        let keeps = |away: u8, bytes: u64| if away < data.stays { bytes } else { 0 };
        let gathered = if data.zero == 3 { 2 * self.largest * block.weight_bytes } else { 0 };
        let again = block.dropped.saturating_sub(if self.has_head { block.loss } else { 0 });
        Held {
            weights: keeps(0, weights * block.weight_bytes) + gathered + 2 * self.narrow,
            gradients: keeps(1, gradients * data.gradient_bytes),
            optimizer: keeps(2, share * block.optimizer_bytes),
            activations: self.activations,
            temporary: self.temporary(block, data) + again,
        }
    }

    fn temporary(&self, block: &Block, data: &Data) -> u64 {
        if data.zero == 3 {
            return block.whole + self.largest * data.gradient_bytes;
        }
        if !block.eager {
            return block.whole + self.placeholders * block.weight_bytes;
        }
        if data.in_place {
            return block.whole + self.tensor * block.weight_bytes;
        }
        let copies = if data.copied { (self.dense + self.expert) * block.weight_bytes } else { 0 };
        block.whole + copies + self.largest * (block.weight_bytes + 4)
    }
}
