//! The time of a step, composed of times of its parts.
//!
//! A stage does its passes one after the other. A pass begins when its input has come, and ends when
//! its units have run. Collectives of data parallelism follow each other next to the passes:
//! gradients as soon as they exist, parameters ahead of the pass that needs them. The time is that
//! of the longest chain. No part takes less in a simulated step than alone, so it is a lower bound
//! of that step. What parts cost each other is in `estimate.rs`.

use crate::forms::{Before, Form, PassForm};
use crate::memory::Stage;
use crate::parts::{Block, Data, Split, Unit, Work};
use crate::passes::Kind;
use crate::pipeline::Pipeline;
use crate::rates::{self, Both, Does, Lane, Track, Walker};
use crate::stop::{KINDS, Stop};

const UNKNOWN: u32 = u32::MAX;

/// Works of the passes of a part.
#[derive(Clone, Copy, Debug, Default)]
struct Passes {
    forward: Work,
    narrow: Work,
    /// Backward for both gradients, without sums.
    backward: Work,
    inputs: Work,
    /// For gradients of weights, without sums.
    weights: Work,
    /// Sums of gradients of the first micro-batch, and of each later one.
    sums: [u64; 2],
}

/// Room for the times of one step after another.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    passes: Vec<Passes>,
    /// The first of the parts next to each other that are like each part.
    like: Vec<u32>,
    track: Track,
    gathered: Vec<Vec<u64>>,
    forms: Vec<PassForm>,
    /// Index of the form of each part's passes, without and with parameters that are gathered.
    form_of: Vec<u32>,
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

/// A step as it is walked through.
struct Step<'a> {
    walk: &'a Walk<'a>,
    room: &'a mut Scratch,
}

impl Walker for Step<'_> {
    fn track(&mut self) -> &mut Track {
        &mut self.room.track
    }

    fn pass(&mut self, stop: &Stop) {
        let own = usize::from(stop.kind != Kind::Forward);
        let track = &mut self.room.track;
        let arrived = stop.from.map_or(0, |from| {
            track.ends[own][from as usize] + self.walk.messages[stop.entry as usize]
        });
        let lane = &mut track.lanes[stop.stage as usize];
        let begins = arrived.max(lane.free);
        if stop.overlaps {
            lane.pending = Some((lane.free, begins, *stop));
            let end = begins + self.forward(stop).time;
            self.room.track.ends[0][stop.own as usize] = end;
            return;
        }
        if let Some((free, ahead, forward)) = lane.pending.take() {
            let both = self.side_by_side(free, (ahead, begins), (&forward, stop));
            let ends = &mut self.room.track.ends;
            (ends[0][forward.own as usize], ends[1][stop.own as usize]) = both;
            return;
        }
        if !self.waits(stop) && self.gathers(stop).is_none() {
            self.room.track.plain[stop.of as usize] = self.work(stop).time;
        }
        let end = self.one(begins, stop);
        if stop.kind != Kind::Weights {
            self.room.track.ends[own][stop.own as usize] = end;
        }
    }

    fn does(&mut self, stop: &Stop) -> Option<Does> {
        if self.waits(stop) {
            return None;
        }
        let found = self.gathers(stop).map(|gathers| self.form(stop, gathers));
        Some(found.map_or_else(|| Does::Takes(self.work(stop).time), Does::Has))
    }

    fn pair(&mut self, forward: &Stop, backward: &Stop) -> Option<Both> {
        let reduces = !backward.inputs_only && self.walk.reduces(backward);
        let form = reduces.then(|| self.form(backward, false));
        Some((self.forward(forward), self.backward(backward), form))
    }
}

impl Walk<'_> {
    /// A lower bound of the simulated step.
    pub fn step(&self, scratch: &mut Scratch) -> u64 {
        self.prepare(scratch);
        let mut step = Step { walk: self, room: scratch };
        rates::go(self.pipeline, self.messages, &mut step);
        self.finish(&mut scratch.track.lanes)
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
        let parts = &self.split.parts;
        scratch.passes.clear();
        scratch.like.clear();
        for (at, units) in parts.iter().enumerate() {
            if at > 0 && parts[at - 1] == *units {
                scratch.passes.push(scratch.passes[at - 1]);
                scratch.like.push(scratch.like[at - 1]);
            } else {
                scratch.passes.push(self.passes(units));
                scratch.like.push(at as u32);
            }
        }
        scratch.track.begin(self.pipeline, zero > 1);
        scratch.forms.clear();
        scratch.form_of.clear();
        scratch.form_of.resize(parts.len() * KINDS * 2, UNKNOWN);
        scratch.gathered.clear();
        if matches!(zero, 1 | 2) && self.data.overlaps_gathering {
            self.gather_ahead(scratch);
        }
    }

    /// Works of the passes of a part.
    fn passes(&self, units: &[u8]) -> Passes {
        let mut found = Passes::default();
        for &unit in units {
            let unit = &self.block.units[unit as usize];
            let sums = if self.data.zero > 1 { [0, 0] } else { [unit.first, unit.more] };
            found.forward = found.forward.and(unit.forward);
            found.narrow = found.narrow.and(unit.narrow);
            found.backward = found.backward.and(unit.again).and(unit.backward);
            found.inputs = found.inputs.and(unit.again).and(unit.inputs);
            found.weights = found.weights.and(unit.weights);
            found.sums = [found.sums[0] + sums[0], found.sums[1] + sums[1]];
        }
        found
    }

    /// ZeRO 1 and 2: parameters come unit by unit from the beginning of the step.
    fn gather_ahead(&self, scratch: &mut Scratch) {
        scratch.gathered.resize(self.split.parts.len() * 2, Vec::new());
        for stage in 0..self.pipeline.stages {
            let lane = &mut scratch.track.lanes[stage as usize];
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

    /// The units of a part in the order of a pass.
    fn units(&self, stop: &Stop) -> impl Iterator<Item = u8> + '_ {
        let units = &self.split.parts[stop.part as usize];
        let forward = stop.kind == Kind::Forward;
        let last = units.len() - 1;
        (0..=last).map(move |i| units[if forward { i } else { last - i }])
    }

    /// A pass with collectives, unit by unit; those that gather parameters are one unit ahead.
    fn form(&self, stop: &Stop, gathers: bool) -> PassForm {
        let mut form = PassForm::new();
        let reduces = stop.kind != Kind::Forward && !stop.inputs_only && self.reduces(stop);
        let mut units = self.units(stop).peekable();
        let mut ready = Form::NONE;
        if let Some(&first) = units.peek().filter(|_| gathers) {
            ready = self.gather(&mut form, PassForm::free(), first);
        }
        while let Some(kind) = units.next() {
            form.end = form.end.max(ready);
            if let Some(&next) = units.peek().filter(|_| gathers) {
                let asked = form.end;
                ready = self.gather(&mut form, asked, next);
            }
            let unit = &self.block.units[kind as usize];
            let work = match stop.kind {
                Kind::Forward if stop.first => unit.narrow.and(unit.forward),
                Kind::Forward => unit.forward,
                _ if stop.inputs_only => unit.again.and(unit.inputs),
                _ => self.last_pass(unit, stop),
            };
            form.end = form.end.plus(work.time);
            if reduces {
                self.reduce(&mut form, kind, stop.last);
            }
        }
        form
    }

    /// Reduces a unit's gradients, which exist at the end of the form so far.
    fn reduce(&self, form: &mut PassForm, unit: u8, last: bool) {
        let times = self.data.reduce[unit as usize];
        let replicas = self.data.replicas.get(unit as usize).filter(|_| last);
        for (at, time) in times.into_iter().enumerate() {
            let mut done = form.end;
            if time > 0 {
                done = form.issue(at, form.end, time);
            }
            if let Some(over) = replicas.map(|over| over[at]).filter(|&over| over > 0) {
                form.issue(2, done, over);
            }
        }
    }

    /// Starts gathering a unit's parameters; when they are there.
    fn gather(&self, form: &mut PassForm, asked: Form, unit: u8) -> Form {
        let mut ready = Form::NONE;
        for (at, time) in self.data.gather[unit as usize].into_iter().enumerate() {
            if time > 0 {
                ready = ready.max(form.issue(at, asked, time));
            }
        }
        ready
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

impl Step<'_> {
    /// Work of a forward pass.
    fn forward(&self, stop: &Stop) -> Work {
        let times = &self.room.passes[stop.part as usize];
        if stop.first { times.narrow.and(times.forward) } else { times.forward }
    }

    /// Work of any other pass.
    fn backward(&self, stop: &Stop) -> Work {
        let times = &self.room.passes[stop.part as usize];
        let sums = times.sums[usize::from(!stop.first)];
        let sums = Work { time: sums, kernels: sums };
        match stop.kind {
            Kind::Weights => times.weights.and(sums),
            _ if stop.inputs_only => times.inputs,
            _ => times.backward.and(sums),
        }
    }

    /// Work of a pass by itself.
    fn work(&self, stop: &Stop) -> Work {
        if stop.kind == Kind::Forward { self.forward(stop) } else { self.backward(stop) }
    }

    /// Whether a pass waits for parameters that are gathered at the beginning of the step.
    fn waits(&self, stop: &Stop) -> bool {
        stop.first && stop.kind == Kind::Forward && !self.room.gathered.is_empty()
    }

    /// Whether a pass that has collectives also gathers parameters; none where it has none.
    fn gathers(&self, stop: &Stop) -> Option<bool> {
        let gathers = self.walk.data.zero == 3 && stop.kind != Kind::Weights;
        let reduces = stop.kind != Kind::Forward && !stop.inputs_only && self.walk.reduces(stop);
        (gathers || reduces).then_some(gathers)
    }

    /// A pass by itself; its end.
    fn one(&mut self, begins: u64, stop: &Stop) -> u64 {
        let walk = self.walk;
        let end = if self.waits(stop) {
            let down = walk.pipeline.both_ways && stop.part != stop.stage;
            let ends = &self.room.gathered[stop.part as usize * 2 + usize::from(down)];
            walk.units(stop).zip(ends).fold(begins, |end, (unit, &ready)| {
                let unit = &walk.block.units[unit as usize];
                end.max(ready) + unit.narrow.and(unit.forward).time
            })
        } else if let Some(gathers) = self.gathers(stop) {
            self.by_form(begins, stop, gathers)
        } else {
            begins + self.work(stop).time
        };
        self.room.track.lanes[stop.stage as usize].free = end;
        end
    }

    /// A pass with collectives.
    fn form(&mut self, stop: &Stop, gathers: bool) -> PassForm {
        let room = &mut *self.room;
        let kind = stop.of as usize % KINDS;
        let at = room.like[stop.part as usize] as usize * KINDS + kind;
        let known = &mut room.form_of[2 * at + usize::from(gathers)];
        if *known == UNKNOWN {
            *known = room.forms.len() as u32;
            room.forms.push(self.walk.form(stop, gathers));
        }
        room.forms[*known as usize]
    }

    /// A pass with collectives; its end.
    fn by_form(&mut self, begins: u64, stop: &Stop, gathers: bool) -> u64 {
        let form = self.form(stop, gathers);
        let lane = &mut self.room.track.lanes[stop.stage as usize];
        let [dense, expert, replicas] = lane.chains;
        let before: Before = [lane.free, begins, dense, expert, replicas];
        lane.chains = form.chains.map(|chain| chain.of(&before));
        form.end.of(&before)
    }

    /// A forward pass next to a backward one; the ends of both. Kernels of both take turns, and
    /// either may be done first.
    fn side_by_side(
        &mut self,
        free: u64,
        (forward_begins, backward_begins): (u64, u64),
        (forward, backward): (&Stop, &Stop),
    ) -> (u64, u64) {
        let (one, other) = (self.forward(forward), self.backward(backward));
        let begins = forward_begins.min(backward_begins);
        let both = (forward_begins + one.time, backward_begins + other.time);
        let end = both.0.max(both.1).max(begins + one.kernels + other.kernels);
        if !backward.inputs_only && self.walk.reduces(backward) {
            // No gradient exists before the kernels that come before it.
            self.by_form(backward_begins, backward, false);
        }
        self.room.track.lanes[backward.stage as usize].free = end.max(free);
        both
    }
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
