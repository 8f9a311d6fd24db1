//! The time of a step, composed of times of its parts.
//!
//! A stage does its passes one after the other. A pass begins when its input has come, and ends when
//! its units have run. Collectives of data parallelism follow each other next to the passes:
//! gradients as soon as they exist, parameters ahead of the pass that needs them. The time is that
//! of the longest chain. No part takes less in a simulated step than alone, so it is a lower bound
//! of that step. What parts cost each other is in `estimate.rs`.

use crate::memory::Stage;
use crate::parts::{Block, Data, Split, Unit, Work};
use crate::passes::Kind;
use crate::pipeline::{Pipeline, Stop};
use rustc_hash::FxHashMap;

/// Times of the passes of a part.
#[derive(Clone, Copy, Debug, Default)]
struct Passes {
    forward: u64,
    narrow: u64,
    backward: u64,
    inputs: u64,
    weights: u64,
    /// Time that sums of the first micro-batch take more than those of a later one.
    first: i64,
}

/// Room for the times of one step after another.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    passes: Vec<Passes>,
    ends: [Vec<u64>; 2],
    stages: Vec<Lane>,
    gathered: Vec<Vec<u64>>,
    known: FxHashMap<Chained, (u64, [u64; 3])>,
}

/// A part and a pass of it, with what the pass does besides.
pub(crate) type Of = (u32, u8);

/// A pass, how long after its stage is free it begins, and when its chains are free by then.
type Chained = (Of, u64, [u64; 3]);

/// Where a stage is.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    free: u64,
    /// Ends of the collectives of dense parameters, of experts, of replicas.
    chains: [u64; 3],
    /// Where a pass that runs next to the one after it began, and its stop.
    pending: Option<(u64, u64, Stop)>,
}

/// One layout as far as its time is concerned.
pub(crate) struct Walk<'a> {
    pub pipeline: &'a Pipeline,
    pub split: &'a Split,
    pub block: &'a Block,
    pub data: &'a Data,
    /// Time of a message into each part, from the one before or after it.
    pub messages: &'a [u64],
    pub totals: &'a [Stage],
}

impl Walk<'_> {
    /// A lower bound of the simulated step.
    pub fn step(&self, scratch: &mut Scratch) -> u64 {
        self.prepare(scratch);
        let Scratch { passes, ends, stages, gathered, known } = scratch;
        for stop in &self.pipeline.stops {
            let lane = &mut stages[stop.stage as usize];
            let own = usize::from(stop.kind != Kind::Forward);
            let arrived = stop
                .from
                .map_or(0, |from| ends[own][from as usize] + self.messages[stop.entry as usize]);
            if stop.overlaps {
                lane.pending = Some((lane.free, arrived.max(lane.free), *stop));
                continue;
            }
            if let Some((free, begins, forward)) = lane.pending.take() {
                let both = self.pair(lane, free, (begins, arrived.max(free)), (&forward, stop));
                (ends[0][forward.own as usize], ends[1][stop.own as usize]) = both;
                continue;
            }
            let end = self.one(lane, arrived, stop, (passes, gathered), known);
            if stop.kind != Kind::Weights {
                ends[own][stop.own as usize] = end;
            }
        }
        self.finish(stages)
    }

    /// A lower bound of [`Walk::step`] that is quick to find: a stage does all its passes, after the
    /// first one has come through the stages before it. Of passes side by side the kernels alone
    /// take turns.
    pub fn quick(&self) -> u64 {
        let (pipeline, block) = (self.pipeline, self.block);
        let each = u64::from(pipeline.each_way);
        let of = |work: Work| if pipeline.overlaps { work.kernels } else { work.time };
        let part = |part: u32| {
            self.split.parts[part as usize].iter().fold((0, 0), |(forward, both), &unit| {
                let unit = &block.units[unit as usize];
                let apart = of(unit.inputs) + of(unit.weights);
                let back = of(unit.again) + of(unit.backward).min(apart);
                (forward + unit.forward.time, both + of(unit.forward) + back)
            })
        };
        let times: Vec<(u64, u64)> = (0..pipeline.parts).map(part).collect();
        let busy = |stage: u32| {
            let chunks = 0..pipeline.chunks;
            chunks.map(|chunk| times[pipeline.part(stage, chunk) as usize].1 * each).sum::<u64>()
        };
        let before = |stage: u32| {
            if pipeline.both_ways {
                return 0;
            }
            let way = (0..stage as usize).map(|part| times[part].0 + self.messages[part + 1]);
            way.sum::<u64>()
        };
        (0..pipeline.stages).map(|stage| busy(stage) + before(stage)).max().unwrap_or(0)
    }

    fn prepare(&self, scratch: &mut Scratch) {
        let zero = self.data.zero;
        scratch.passes.clear();
        scratch.passes.extend(self.split.parts.iter().map(|units| {
            let mut found = Passes::default();
            for &unit in units {
                let unit = &self.block.units[unit as usize];
                let (first, more) = if zero > 1 { (0, 0) } else { (unit.first, unit.more) };
                found.forward += unit.forward.time;
                found.narrow += unit.narrow.time;
                found.backward += unit.again.time + unit.backward.time + more;
                found.inputs += unit.again.time + unit.inputs.time;
                found.weights += unit.weights.time + more;
                found.first += first as i64 - more as i64;
            }
            found
        }));
        for ends in &mut scratch.ends {
            ends.clear();
            ends.resize(self.pipeline.results, 0);
        }
        scratch.known.clear();
        scratch.stages.clear();
        scratch.stages.resize(self.pipeline.stages as usize, Lane::default());
        scratch.gathered.clear();
        if matches!(zero, 1 | 2) && self.data.overlaps_gathering {
            self.gather_ahead(scratch);
        }
    }

    /// ZeRO 1 and 2: parameters come unit by unit from the beginning of the step.
    fn gather_ahead(&self, scratch: &mut Scratch) {
        scratch.gathered.resize(self.split.parts.len() * 2, Vec::new());
        for stage in 0..self.pipeline.stages {
            let lane = &mut scratch.stages[stage as usize];
            for chunk in 0..self.pipeline.chunks {
                let part = self.pipeline.part(stage, chunk) as usize;
                let ends = self.split.parts[part].iter().map(|&unit| {
                    let [dense, expert] = self.data.gather[unit as usize];
                    lane.chains[0] += dense;
                    lane.chains[1] += expert;
                    let waits = |time: u64, chain: u64| if time > 0 { chain } else { 0 };
                    waits(dense, lane.chains[0]).max(waits(expert, lane.chains[1]))
                });
                let place =
                    part * 2 + usize::from(self.pipeline.both_ways && part != stage as usize);
                scratch.gathered[place] = ends.collect();
            }
        }
    }

    /// A pass by itself; its end. Passes that wait for chains take the same time where these are
    /// free after the same time.
    fn one(
        &self,
        lane: &mut Lane,
        arrived: u64,
        stop: &Stop,
        (passes, gathered): (&[Passes], &[Vec<u64>]),
        known: &mut FxHashMap<Chained, (u64, [u64; 3])>,
    ) -> u64 {
        let (base, begins) = (lane.free, arrived.max(lane.free));
        let waits = stop.kind == Kind::Forward && stop.first && !gathered.is_empty();
        if self.data.zero < 2 || waits {
            return self.by_units(lane, begins, stop, passes, gathered);
        }
        let from = |time: u64| time.saturating_sub(base);
        let key = (of(stop), begins - base, lane.chains.map(from));
        if let Some(&(took, chains)) = known.get(&key) {
            (lane.free, lane.chains) = (base + took, chains.map(|time| base + time));
            return lane.free;
        }
        let end = self.by_units(lane, begins, stop, passes, gathered);
        known.insert(key, (end - base, lane.chains.map(from)));
        end
    }

    fn by_units(
        &self,
        lane: &mut Lane,
        begins: u64,
        stop: &Stop,
        passes: &[Passes],
        gathered: &[Vec<u64>],
    ) -> u64 {
        let times = &passes[stop.part as usize];
        let zero = self.data.zero;
        let mut end = begins;
        match stop.kind {
            Kind::Forward if zero == 3 => end = self.forward_gathering(lane, begins, stop),
            Kind::Backward if zero == 3 => end = self.backward_gathering(lane, begins, stop),
            Kind::Forward if stop.first && !gathered.is_empty() => {
                let down = self.pipeline.both_ways && stop.part != stop.stage;
                let ends = &gathered[stop.part as usize * 2 + usize::from(down)];
                for (&unit, &ready) in self.split.parts[stop.part as usize].iter().zip(ends) {
                    let unit = &self.block.units[unit as usize];
                    let work = unit.narrow.and(unit.forward);
                    end = end.max(ready) + work.time;
                }
            }
            Kind::Forward => end += times.forward + if stop.first { times.narrow } else { 0 },
            Kind::Backward if stop.inputs_only => end += times.inputs,
            Kind::Backward | Kind::Weights if self.reduces(stop) => {
                for &unit in self.split.parts[stop.part as usize].iter().rev() {
                    let work = self.last_pass(&self.block.units[unit as usize], stop);
                    end += work.time;
                    self.reduce(lane, end, unit, stop.last);
                }
            }
            kind => {
                let sums = if stop.first { times.first } else { 0 };
                let time = if kind == Kind::Weights { times.weights } else { times.backward };
                end = (end + time).saturating_add_signed(sums);
            }
        }
        lane.free = end;
        end
    }

    /// Whether gradients are reduced after a pass.
    pub(crate) fn reduces(&self, stop: &Stop) -> bool {
        match self.data.zero {
            0 | 1 => stop.last && self.data.overlaps_reduction,
            _ => true,
        }
    }

    /// A unit's pass in which its gradients become complete.
    fn last_pass(&self, unit: &Unit, stop: &Stop) -> Work {
        let sums = match (self.data.zero > 1, stop.first) {
            (true, _) => 0,
            (false, true) => unit.first,
            (false, false) => unit.more,
        };
        let sums = Work { time: sums, kernels: sums };
        if stop.kind == Kind::Weights {
            return unit.weights.and(sums);
        }
        unit.again.and(unit.backward).and(sums)
    }

    fn reduce(&self, lane: &mut Lane, ready: u64, unit: u8, last: bool) {
        let times = self.data.reduce[unit as usize];
        let replicas = self.data.replicas.get(unit as usize).filter(|_| last);
        for (at, time) in times.into_iter().enumerate() {
            let chain = &mut lane.chains[at];
            let mut done = ready;
            if time > 0 {
                *chain = (*chain).max(ready) + time;
                done = *chain;
            }
            if let Some(over) = replicas.map(|over| over[at]).filter(|&over| over > 0) {
                lane.chains[2] = lane.chains[2].max(done) + over;
            }
        }
    }

    /// Starts gathering a unit's parameters; when they are there.
    fn gather(&self, lane: &mut Lane, asked: u64, unit: u8) -> u64 {
        let mut ready = 0;
        for (at, time) in self.data.gather[unit as usize].into_iter().enumerate() {
            if time > 0 {
                let chain = &mut lane.chains[at];
                *chain = (*chain).max(asked) + time;
                ready = ready.max(*chain);
            }
        }
        ready
    }

    /// ZeRO 3: a forward pass with parameters gathered one unit ahead.
    fn forward_gathering(&self, lane: &mut Lane, begins: u64, stop: &Stop) -> u64 {
        let units = &self.split.parts[stop.part as usize];
        let mut end = begins;
        let mut ready = self.gather(lane, lane.free, units[0]);
        for (i, &unit) in units.iter().enumerate() {
            end = end.max(ready);
            if let Some(&next) = units.get(i + 1) {
                ready = self.gather(lane, end, next);
            }
            let unit = &self.block.units[unit as usize];
            let work = if stop.first { unit.narrow.and(unit.forward) } else { unit.forward };
            end += work.time;
        }
        end
    }

    /// ZeRO 3: a backward pass with parameters gathered one unit ahead, and gradients reduced.
    fn backward_gathering(&self, lane: &mut Lane, begins: u64, stop: &Stop) -> u64 {
        let units = &self.split.parts[stop.part as usize];
        let mut end = begins;
        let last = units.len() - 1;
        let mut ready = self.gather(lane, lane.free, units[last]);
        for (i, &kind) in units.iter().enumerate().rev() {
            end = end.max(ready);
            if i > 0 {
                ready = self.gather(lane, end, units[i - 1]);
            }
            let unit = &self.block.units[kind as usize];
            let work = if stop.inputs_only {
                unit.again.and(unit.inputs)
            } else {
                self.last_pass(unit, stop)
            };
            end += work.time;
            if !stop.inputs_only {
                self.reduce(lane, end, kind, stop.last);
            }
        }
        end
    }

    /// A forward pass next to a backward one; the ends of both. Kernels of both take turns, and
    /// either may be done first.
    fn pair(
        &self,
        lane: &mut Lane,
        free: u64,
        (forward_begins, backward_begins): (u64, u64),
        (forward, backward): (&Stop, &Stop),
    ) -> (u64, u64) {
        let (ahead, back) =
            (&self.split.parts[forward.part as usize], &self.split.parts[backward.part as usize]);
        let unit = |&at: &u8| &self.block.units[at as usize];
        let one = ahead.iter().map(unit).fold(Work::default(), |sum, unit| {
            let narrow = if forward.first { unit.narrow } else { Work::default() };
            sum.and(narrow).and(unit.forward)
        });
        let other = back.iter().map(unit).fold(Work::default(), |sum, unit| {
            sum.and(if backward.inputs_only {
                unit.again.and(unit.inputs)
            } else {
                self.last_pass(unit, backward)
            })
        });
        let begins = forward_begins.min(backward_begins);
        let both = (forward_begins + one.time, backward_begins + other.time);
        let end = both.0.max(both.1).max(begins + one.kernels + other.kernels);
        if !backward.inputs_only && self.reduces(backward) {
            // No gradient exists before the kernels that come before it.
            let mut ready = backward_begins;
            for &kind in back.iter().rev() {
                ready += self.last_pass(unit(&kind), backward).time;
                self.reduce(lane, ready, kind, backward.last);
            }
        }
        lane.free = end.max(free);
        both
    }

    /// Gradients complete, embeddings exchanged, the optimizer, parameters back.
    fn finish(&self, stages: &mut [Lane]) -> u64 {
        let data = self.data;
        for (stage, lane) in stages.iter_mut().enumerate() {
            if !data.overlaps_reduction && data.zero < 2 {
                for (at, &time) in data.reduce_all[stage].iter().enumerate() {
                    lane.chains[at] = lane.chains[at].max(lane.free) + time;
                }
            }
            lane.free = lane.chains.into_iter().fold(lane.free, u64::max);
        }
        let mut ends = stages.iter().map(|lane| lane.free).collect::<Vec<u64>>();
        self.update(&mut ends)
    }

    /// The end of the step where the gradients of each stage are complete at `ends`.
    pub(crate) fn update(&self, ends: &mut [u64]) -> u64 {
        let data = self.data;
        let first = ends[0];
        for &other in &self.split.sharing {
            let last = ends[other as usize];
            ends[0] = ends[0].max(last + data.shared);
            ends[other as usize] = last.max(first + data.shared);
        }
        let gathers = matches!(data.zero, 1 | 2) && !data.overlaps_gathering;
        let ended = ends.iter().enumerate().map(|(stage, &end)| {
            let owned = self.totals[stage].owned(data) as f64;
            let [dense, expert] = if gathers { data.gather_all[stage] } else { [0, 0] };
            end + (data.optimizer + data.optimizer_each * owned) as u64 + dense.max(expert)
        });
        ended.max().unwrap_or(0)
    }
}

/// The part of a pass, and all that decides what it does besides.
pub(crate) fn of(stop: &Stop) -> Of {
    let kind = match stop.kind {
        Kind::Forward => 0,
        Kind::Backward => 1,
        Kind::Weights => 2,
    };
    let flags = [stop.first, stop.last, stop.inputs_only];
    (stop.part, flags.into_iter().fold(kind, |bits, flag| bits << 1 | u8::from(flag)))
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
