//! The passes of all stages of a pipeline in an order in which each comes after those that it waits
//! for, and what a stage holds at most.
//!
//! Stage `s` has part `chunk * stages + s` of the model as its chunk. Under `DualPipe` it has part
//! `s` for micro-batches that go up and part `stages - 1 - s` for those that go down; the lower of
//! the two is its chunk 0.

use crate::passes::{Kind, Pass, Schedule, order};
use crate::repeats::{self, Repeat};
use crate::stop::{KINDS, Stop};
use std::collections::HashSet;

/// See the module.
#[derive(Clone, Debug)]
pub struct Pipeline {
    pub(crate) stages: u32,
    pub(crate) parts: u32,
    pub(crate) chunks: u32,
    pub(crate) both_ways: bool,
    /// Whether any passes run side by side.
    pub(crate) overlaps: bool,
    /// Micro-batches that go through a chunk.
    pub(crate) each_way: u32,
    /// Results of each kind.
    pub(crate) results: usize,
    pub(crate) stops: Vec<Stop>,
    /// Stretches of `stops` that repeat.
    pub(crate) repeats: Vec<Repeat>,
    /// The fullest moments of each stage.
    pub(crate) peaks: Vec<Peaks>,
}

impl Pipeline {
    /// The pipeline of `stages` stages of `chunks` chunks, through which `micro_batches` go; none
    /// where its passes wait for each other in a circle.
    pub fn new(
        schedule: Schedule,
        stages: u32,
        micro_batches: u32,
        chunks: u32,
        overlap: bool,
    ) -> Option<Pipeline> {
        let both_ways = schedule == Schedule::DualPipe;
        let chunks = if both_ways { 2 } else { chunks };
        let parts = if both_ways { stages } else { stages * chunks };
        let each_way = if both_ways { micro_batches / 2 } else { micro_batches };
        let orders: Vec<Vec<Pass>> = (0..stages)
            .map(|stage| order(schedule, stage, stages, micro_batches, chunks, overlap))
            .collect();
        let ways = if both_ways { 2 } else { 1 };
        let mut pipeline = Pipeline {
            stages,
            parts,
            chunks,
            both_ways,
            overlaps: orders.iter().flatten().any(|each| each.overlaps),
            each_way,
            results: (ways * parts * each_way) as usize,
            stops: Vec::new(),
            repeats: Vec::new(),
            peaks: orders.iter().map(|passes| Peaks::new(passes, chunks as usize)).collect(),
        };
        // A pass next to a later one has its result when both are done. Where passes wait for each
        // other so, it has it at once.
        if let Some(stops) = pipeline.in_order(&orders, each_way, true) {
            let group = if schedule == Schedule::Interleaved && chunks > 1 { stages } else { 1 };
            pipeline.repeats = repeats::find(&stops, pipeline.results, group);
            pipeline.stops = stops;
        } else {
            pipeline.stops = pipeline.in_order(&orders, each_way, false)?;
        }
        Some(pipeline)
    }

    /// The part of the model that is a chunk of a stage.
    pub(crate) fn part(&self, stage: u32, chunk: u32) -> u32 {
        if !self.both_ways {
            return chunk * self.stages + stage;
        }
        let other = self.stages - 1 - stage;
        if chunk == 0 { stage.min(other) } else { stage.max(other) }
    }

    /// All passes, each after those that it waits for; stages take turns. Passes that run next to
    /// the one after them are done `together` with it.
    fn in_order(&self, orders: &[Vec<Pass>], each_way: u32, together: bool) -> Option<Vec<Stop>> {
        let mut done = [vec![false; self.results], vec![false; self.results]];
        let mut next = vec![0; orders.len()];
        let total = orders.iter().map(Vec::len).sum();
        let mut found = Vec::with_capacity(total);
        let made: Vec<Vec<Stop>> = (0..)
            .zip(orders)
            .map(|(stage, passes)| self.stops_of(stage, passes, each_way))
            .collect();
        while found.len() < total {
            let before = found.len();
            for (stage, stops) in made.iter().enumerate() {
                let Some(stop) = stops.get(next[stage]) else { continue };
                let own = usize::from(stop.kind != Kind::Forward);
                if stop.from.is_some_and(|from| !done[own][from as usize]) {
                    continue;
                }
                if stop.kind != Kind::Weights && !(stop.overlaps && together) {
                    done[own][stop.own as usize] = true;
                }
                if let Some(aside) = next[stage].checked_sub(1).map(|at| &stops[at]) {
                    done[0][aside.own as usize] |= aside.overlaps;
                }
                found.push(*stop);
                next[stage] += 1;
            }
            if found.len() == before {
                return None;
            }
        }
        Some(found)
    }

    fn stops_of(&self, stage: u32, passes: &[Pass], each_way: u32) -> Vec<Stop> {
        let later = put_off(passes);
        let of = |each: &Pass| {
            let part = self.part(stage, each.chunk);
            // Under DualPipe, results of the two directions stand apart.
            let down = self.both_ways && part != stage;
            let at =
                |part: u32| (u32::from(down) * self.parts + part) * each_way + each.micro_batch;
            let inputs_only =
                each.kind == Kind::Backward && later.contains(&(each.micro_batch, each.chunk));
            let (from, entry) = match each.kind {
                Kind::Forward => (part.checked_sub(1).map(at), part),
                Kind::Backward => ((part + 1 < self.parts).then(|| at(part + 1)), part + 1),
                Kind::Weights => (None, 0),
            };
            let first = each.micro_batch == 0;
            let last = each.micro_batch + 1 == each_way && !inputs_only;
            let kind = [Kind::Forward, Kind::Backward, Kind::Weights]
                .iter()
                .position(|&kind| kind == each.kind);
            let flags = [first, last, inputs_only].map(u32::from);
            let kind = flags.iter().fold(kind.unwrap_or(0) as u32, |bits, flag| bits << 1 | flag);
            Stop {
                stage,
                part,
                of: part * KINDS as u32 + kind,
                kind: each.kind,
                inputs_only,
                overlaps: each.overlaps,
                first,
                last,
                own: at(part),
                from,
                entry,
            }
        };
        passes.iter().map(of).collect()
    }
}

/// Micro-batch and chunk of the backward passes whose weight gradients are passes of their own.
pub(crate) fn put_off(passes: &[Pass]) -> HashSet<(u32, u32)> {
    let weights = passes.iter().filter(|each| each.kind == Kind::Weights);
    weights.map(|each| (each.micro_batch, each.chunk)).collect()
}

/// Shows each forward and backward pass with the numbers of micro-batches that chunks hold then.
fn walk(passes: &[Pass], chunks: usize, mut shown: impl FnMut(&Pass, &[u32])) {
    let later = put_off(passes);
    let mut now = vec![0; chunks];
    for each in passes {
        let chunk = each.chunk as usize;
        now[chunk] += u32::from(each.kind == Kind::Forward);
        if each.kind != Kind::Weights {
            shown(each, &now);
        }
        let frees = match each.kind {
            Kind::Forward => false,
            Kind::Backward => !later.contains(&(each.micro_batch, each.chunk)),
            Kind::Weights => true,
        };
        now[chunk] -= u32::from(frees);
    }
}

/// Moments at which a stage is fullest: the numbers of micro-batches that its chunks hold when no
/// other moment of the kind has at least that for all chunks.
#[derive(Clone, Debug)]
pub(crate) struct Peaks {
    /// At forward passes.
    forward: Vec<Vec<u32>>,
    /// At backward passes of each chunk.
    backward: Vec<Vec<Vec<u32>>>,
    /// Whether backward passes free what units kept, because none puts its weight gradients off.
    pub(crate) frees: bool,
}

impl Peaks {
    /// The moments of a stage of `chunks` chunks that runs `passes`.
    pub(crate) fn new(passes: &[Pass], chunks: usize) -> Peaks {
        let frees = put_off(passes).is_empty();
        let mut found = Peaks { forward: Vec::new(), backward: vec![Vec::new(); chunks], frees };
        walk(passes, chunks, |each, now| match each.kind {
            Kind::Forward => keep(&mut found.forward, now),
            _ => keep(&mut found.backward[each.chunk as usize], now),
        });
        found
    }

    /// Most bytes at a forward pass if chunks keep `kept` of a micro-batch.
    pub(crate) fn forward(&self, kept: &[u64]) -> u64 {
        most(&self.forward, kept)
    }

    /// Most bytes at a backward pass of a chunk.
    pub(crate) fn backward(&self, chunk: usize, kept: &[u64]) -> u64 {
        most(&self.backward[chunk], kept)
    }
}

/// Most bytes at one of the moments if chunks keep `kept` of a micro-batch.
fn most(moments: &[Vec<u32>], kept: &[u64]) -> u64 {
    let held = |counts: &Vec<u32>| {
        counts.iter().zip(kept).map(|(&count, &each)| u64::from(count) * each).sum::<u64>()
    };
    moments.iter().map(held).max().unwrap_or(0)
}

fn keep(most: &mut Vec<Vec<u32>>, now: &[u32]) {
    let covers = |a: &[u32], b: &[u32]| a.iter().zip(b).all(|(a, b)| a >= b);
    if most.iter().any(|known| covers(known, now)) {
        return;
    }
    most.retain(|known| !covers(now, known));
    most.push(now.to_vec());
}
