//! The order in which a pipeline stage works through micro-batches.
//!
//! Sources: Huang et al. 2019 (arXiv:1811.06965); Narayanan et al. 2021 (arXiv:2104.04473, section
//! 2.2); Qi et al. 2023 (arXiv:2401.10241); DeepSeek-AI 2024 (arXiv:2412.19437, section 3.2.1) and
//! deepseek-ai/DualPipe; NVIDIA/Megatron-LM (`pipeline_parallel/combined_1f1b.py`).

use std::collections::VecDeque;

/// The order of micro-batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// All forward passes, then all backward passes.
    GPipe,
    /// One forward, one backward.
    OneForwardOneBackward,
    /// The same with several chunks of the model in each stage.
    Interleaved,
    /// Weight gradients are passes of their own.
    ZeroBubble,
    /// Micro-batches enter the pipeline at both ends.
    DualPipe,
}

impl Schedule {
    /// The schedule of a name in options.
    pub fn named(name: &str) -> Option<Schedule> {
        Some(match name {
            "gpipe" => Schedule::GPipe,
            "1f1b" => Schedule::OneForwardOneBackward,
            "interleaved" => Schedule::Interleaved,
            "zb-h1" => Schedule::ZeroBubble,
            "dualpipe" => Schedule::DualPipe,
            _ => return None,
        })
    }
}

/// The kind of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Forward.
    Forward,
    /// Backward: both gradients, or only those of the inputs where a `Weights` pass follows.
    Backward,
    /// Gradients of the weights.
    Weights,
}

/// One pass of a micro-batch through one chunk of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Forward, backward or weights.
    pub kind: Kind,
    /// Micro-batch, from 0; in `DualPipe` from 0 for each direction.
    pub micro_batch: u32,
    /// Chunk of the stage.
    pub chunk: u32,
    /// Whether it runs side by side with the pass after it.
    pub overlaps: bool,
}

fn pass(kind: Kind, micro_batch: u32, chunk: u32) -> Pass {
    Pass { kind, micro_batch, chunk, overlaps: false }
}

/// The passes of `stage` in order; with `overlap` forward passes run side by side with backward
/// ones.
pub fn order(
    schedule: Schedule,
    stage: u32,
    stages: u32,
    micro_batches: u32,
    chunks: u32,
    overlap: bool,
) -> Vec<Pass> {
    let forward = || (0..micro_batches).map(|i| pass(Kind::Forward, i, 0)).collect::<Vec<_>>();
    let backward = || (0..micro_batches).map(|i| pass(Kind::Backward, i, 0)).collect::<Vec<_>>();
    let ahead = stages - 1 - stage;
    match schedule {
        Schedule::DualPipe => {
            let mut passes = both_ways(stage, stages, micro_batches / 2);
            passes.iter_mut().for_each(|each| each.overlaps &= overlap);
            passes
        }
        Schedule::Interleaved => interleaved(stage, stages, micro_batches, chunks, overlap),
        Schedule::GPipe => [forward(), backward()].concat(),
        Schedule::OneForwardOneBackward | Schedule::ZeroBubble => {
            let warm_up = if overlap { 2 * ahead + 1 } else { ahead }.min(micro_batches);
            let passes = alternating(&forward(), &backward(), warm_up as usize, overlap);
            if schedule == Schedule::ZeroBubble {
                with_weights(&passes, stage, micro_batches)
            } else {
                passes
            }
        }
    }
}

/// `warm_up` forward passes, then one forward and one backward, then the backward passes left.
fn alternating(forward: &[Pass], backward: &[Pass], warm_up: usize, overlap: bool) -> Vec<Pass> {
    let mut found = forward[..warm_up].to_vec();
    for (ahead, back) in forward[warm_up..].iter().zip(backward) {
        found.push(Pass { overlaps: overlap, ..*ahead });
        found.push(*back);
    }
    found.extend_from_slice(&backward[forward.len() - warm_up..]);
    found
}

/// ZB-H1: weight gradients `stage` micro-batches late, so that every stage holds the same number of
/// activations; the rest come at the end.
fn with_weights(passes: &[Pass], stage: u32, micro_batches: u32) -> Vec<Pass> {
    let mut found = Vec::with_capacity(passes.len() + micro_batches as usize);
    for each in passes {
        found.push(*each);
        if each.kind == Kind::Backward && each.micro_batch >= stage {
            found.push(pass(Kind::Weights, each.micro_batch - stage, 0));
        }
    }
    let late = micro_batches.saturating_sub(stage)..micro_batches;
    found.extend(late.map(|i| pass(Kind::Weights, i, 0)));
    found
}

/// Micro-batches go through a chunk in groups; a group has one micro-batch for each stage.
fn interleaved(
    stage: u32,
    stages: u32,
    micro_batches: u32,
    chunks: u32,
    overlap: bool,
) -> Vec<Pass> {
    let (total, round) = (micro_batches * chunks, stages * chunks);
    let at = |kind: Kind, k: u32| {
        let chunk = k % round / stages;
        let chunk = if kind == Kind::Forward { chunk } else { chunks - 1 - chunk };
        pass(kind, k / round * stages + k % stages, chunk)
    };
    let forward: Vec<Pass> = (0..total).map(|k| at(Kind::Forward, k)).collect();
    let backward: Vec<Pass> = (0..total).map(|k| at(Kind::Backward, k)).collect();
    let warm_up = 2 * (stages - 1 - stage) + (chunks - 1) * stages + u32::from(overlap);
    alternating(&forward, &backward, warm_up.min(total) as usize, overlap)
}

/// Passes of a stage of DualPipe as they are added: chunk 0 is of micro-batches that enter on the
/// stage's half.
#[derive(Default)]
struct Ways {
    passes: Vec<Pass>,
    forward: [u32; 2],
    backward: [u32; 2],
    /// Weight gradients that are put off, first in, first out.
    waiting: VecDeque<Pass>,
}

impl Ways {
    fn add(&mut self, kind: Kind, chunk: u32, overlaps: bool) -> Pass {
        let counts = if kind == Kind::Forward { &mut self.forward } else { &mut self.backward };
        let each = Pass { overlaps, ..pass(kind, counts[chunk as usize], chunk) };
        counts[chunk as usize] += 1;
        self.passes.push(each);
        each
    }

    /// A forward and a backward pass side by side.
    fn pair(&mut self, forward: u32, backward: u32) {
        self.add(Kind::Forward, forward, true);
        self.add(Kind::Backward, backward, false);
    }

    /// A backward pass that puts its weight gradients off.
    fn inputs(&mut self, chunk: u32) {
        let each = self.add(Kind::Backward, chunk, false);
        self.waiting.push_back(Pass { kind: Kind::Weights, ..each });
    }

    /// The weight gradients put off first.
    fn weights(&mut self) {
        let each = self.waiting.pop_front().expect("each that is taken up was put off");
        self.passes.push(each);
    }
}

/// DualPipe: the eight steps of deepseek-ai/DualPipe, `each_way` micro-batches from either end.
///
/// Every stage is the `nth` from its end. In the middle one pair isn't side by side: what it would
/// wait for comes from the other one of the two in the middle.
fn both_ways(stage: u32, stages: u32, each_way: u32) -> Vec<Pass> {
    let nth = stage.min(stages - 1 - stage);
    let inner = stages / 2 - 1 - nth;
    let mut ways = Ways::default();
    for _ in 0..2 * inner {
        ways.add(Kind::Forward, 0, false);
    }
    for _ in 0..=nth {
        ways.add(Kind::Forward, 0, false);
        ways.add(Kind::Forward, 1, false);
    }
    for _ in 0..inner {
        ways.inputs(1);
        ways.weights();
        ways.add(Kind::Forward, 1, false);
    }
    for i in 0..(each_way + nth + 1).saturating_sub(stages) {
        if i == 0 && inner == 0 {
            ways.add(Kind::Forward, 0, false);
            ways.add(Kind::Backward, 1, false);
        } else {
            ways.pair(0, 1);
        }
        ways.pair(1, 0);
    }
    for _ in 0..inner {
        ways.add(Kind::Backward, 1, false);
        ways.pair(1, 0);
    }
    drain(&mut ways, nth, inner);
    ways.passes
}

/// The last backward passes: the later half put weight gradients off, which fill the wait for what
/// is left.
fn drain(ways: &mut Ways, nth: u32, inner: u32) {
    for k in 0..2 * nth + 2 {
        let chunk = (k + 1) % 2;
        if k > nth {
            ways.inputs(chunk);
        } else {
            ways.add(Kind::Backward, chunk, false);
        }
    }
    for _ in 0..inner {
        ways.weights();
        ways.inputs(0);
    }
    while !ways.waiting.is_empty() {
        ways.weights();
    }
}
