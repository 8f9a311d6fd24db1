//! Peak memory of a rank of a stage: the one formula, of a run and of a whole space of layouts.
//!
//! Sizes of single units, and what lies where and why, are in
//! `python/armillary/workload/memory.py`. Sources: Rajbhandari et al. 2020 (arXiv:1910.02054,
//! figure 1); Korthikanti et al. 2022 (arXiv:2205.05198, table 2).

use crate::parts::{Block, Data, Gradients, Place, Sizes, Split};
use crate::passes::Pass;
use crate::pipeline::{Peaks, Pipeline};

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
pub struct Stage {
    pub(crate) dense: u64,
    pub(crate) expert: u64,
    frozen: [u64; 2],
    activations: u64,
    again: u64,
    narrow: u64,
    largest: u64,
    largest_trained: u64,
    placeholders: u64,
    head: u64,
    /// Parameters of the largest tensor of layers, and of other units.
    tensors: [u64; 2],
    has_layers: bool,
    has_head: bool,
}

/// The stages of a pipeline whose parts are `split`.
pub(crate) fn stages(pipeline: &Pipeline, split: &Split, block: &Block, out: &mut Vec<Stage>) {
    out.clear();
    let mut kept = Vec::with_capacity(pipeline.chunks as usize);
    for stage in 0..pipeline.stages {
        let chunks = (0..pipeline.chunks).map(|chunk| {
            let units = &split.parts[pipeline.part(stage, chunk) as usize];
            units.iter().map(|&unit| &block.units[unit as usize].sizes)
        });
        out.push(Stage::of(chunks, &pipeline.peaks[stage as usize], block, &mut kept));
    }
}

impl Stage {
    /// A stage of `chunks`, which runs `passes`.
    pub fn new(chunks: &[Vec<Sizes>], passes: &[Pass], block: &Block) -> Stage {
        let units = chunks.iter().map(|units| units.iter());
        Stage::of(units, &Peaks::new(passes, chunks.len()), block, &mut Vec::new())
    }

    /// A stage of `chunks` with its fullest moments; `kept` is room.
    fn of<'a, I: DoubleEndedIterator<Item = &'a Sizes>>(
        chunks: impl Iterator<Item = I> + Clone,
        peaks: &Peaks,
        block: &Block,
        kept: &mut Vec<u64>,
    ) -> Stage {
        let mut found = Stage::default();
        kept.clear();
        kept.extend(chunks.clone().map(|units| found.add(units)));
        let most = peaks.forward(kept);
        found.activations = if found.has_head { most.max(block.metric_logits) } else { most };
        let gone = found.gone(block);
        found.again = if block.counts_layers {
            let back = chunks.enumerate().map(|(chunk, units)| {
                peaks.backward(chunk, kept) + brought(units, gone, peaks.frees)
            });
            back.max().unwrap_or(0).saturating_sub(most)
        } else {
            block.dropped.saturating_sub(gone)
        };
        found
    }

    /// Adds the units of a chunk; the bytes that they keep of a micro-batch.
    fn add<'a>(&mut self, units: impl Iterator<Item = &'a Sizes>) -> u64 {
        let mut kept = 0;
        for sizes in units {
            let trained = sizes.dense + sizes.expert;
            self.dense += sizes.dense;
            self.expert += sizes.expert;
            self.frozen[0] += sizes.frozen[0];
            self.frozen[1] += sizes.frozen[1];
            self.narrow += sizes.narrow;
            self.largest = self.largest.max(trained + sizes.frozen[0] + sizes.frozen[1]);
            self.largest_trained = self.largest_trained.max(trained);
            let outside = usize::from(sizes.place != Place::Layer);
            self.tensors[outside] = self.tensors[outside].max(sizes.tensor);
            match sizes.place {
                Place::Embedding => (),
                Place::Layer => {
                    self.has_layers = true;
                    self.placeholders = self.placeholders.max(sizes.placeholders);
                }
                Place::Head => {
                    self.has_head = true;
                    self.head = sizes.placeholders;
                }
            }
            kept += sizes.kept;
        }
        kept
    }

    /// Bytes of the loss, which are gone when layers run backwards.
    fn gone(&self, block: &Block) -> u64 {
        if self.has_head { block.loss } else { 0 }
    }

    /// Parameters that a rank updates.
    pub(crate) fn owned(&self, data: &Data) -> u64 {
        match data.owned {
            _ if data.zero == 0 => self.dense + self.expert,
            Some(owned) => owned,
            None => share([self.dense, self.expert], data),
        }
    }

    /// Bytes of weights, gradients and optimizer state, wherever they are.
    fn states(&self, block: &Block, data: &Data) -> [u64; 3] {
        let (trained, owned) = (self.dense + self.expert, self.owned(data));
        let weights = if data.zero < 3 {
            trained + self.frozen[0] + self.frozen[1]
        } else {
            owned + share(self.frozen, data)
        };
        let gradients = if data.zero < 2 { trained } else { owned };
        let widths = [block.weight_bytes, data.gradient_bytes, block.optimizer_bytes];
        [weights * widths[0], gradients * widths[1], owned * widths[2]]
    }

    /// Peak bytes on a rank.
    pub fn held(&self, block: &Block, data: &Data) -> Held {
        let states = self.states(block, data);
        let keeps = |at: u8| if at < data.stays { states[usize::from(at)] } else { 0 };
        let gathered = if data.zero == 3 { 2 * self.largest * block.weight_bytes } else { 0 };
        Held {
            weights: keeps(0) + gathered + 2 * self.narrow,
            gradients: keeps(1),
            optimizer: keeps(2),
            activations: self.activations,
            temporary: self.temporary(block, data) + self.again,
        }
    }

    /// Bytes of weights, gradients and optimizer state that lie outside of the NPU.
    pub fn away(&self, block: &Block, data: &Data) -> [u64; 3] {
        let states = self.states(block, data);
        std::array::from_fn(|at| if at < usize::from(data.stays) { 0 } else { states[at] })
    }

    /// Parameters of the largest tensor whose gradient comes while layers run backwards. That of
    /// the head comes when its loss is gone, and that of the embedding when layers are: both are
    /// less than what was there before.
    fn tensor(&self) -> u64 {
        self.tensors[usize::from(!self.has_layers)]
    }

    fn temporary(&self, block: &Block, data: &Data) -> u64 {
        if data.zero == 3 {
            return block.whole + self.largest_trained * data.gradient_bytes;
        }
        let copies = if data.copied { (self.dense + self.expert) * block.weight_bytes } else { 0 };
        let moved = match block.gradients {
            Gradients::Fused => (self.head + self.placeholders) * block.weight_bytes,
            Gradients::Counted => copies,
            Gradients::Eager if data.in_place => self.tensor() * block.weight_bytes,
            Gradients::Eager => copies + self.largest_trained * (block.weight_bytes + 4),
        };
        block.whole + moved
    }
}

/// Dense and expert parameters of a rank's share where each tensor is cut, rounded up.
fn share([dense, expert]: [u64; 2], data: &Data) -> u64 {
    if data.experts_apart {
        dense.div_ceil(data.dense_ranks) + expert.div_ceil(data.expert_ranks)
    } else {
        (dense + expert).div_ceil(data.dense_ranks)
    }
}

/// Most bytes that recomputation of single layers brings back at once when `gone` bytes of others
/// are gone, in a backward pass that `frees` what units after it kept.
fn brought<'a>(
    units: impl DoubleEndedIterator<Item = &'a Sizes>,
    mut gone: u64,
    frees: bool,
) -> u64 {
    let mut most = 0;
    for unit in units.rev() {
        most = most.max(unit.back.saturating_sub(gone));
        gone += if frees { unit.spared } else { 0 };
    }
    most
}
