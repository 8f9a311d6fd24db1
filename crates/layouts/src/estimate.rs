//! An estimate of a simulated step: the bound of `step.rs`, and what its parts cost each other.
//!
//! Collectives of layers and of data parallelism wait for each other where they use the same
//! dimensions (`traffic.rs`). Kernels next to collectives of data parallelism are slower on some
//! platforms. Passes side by side take turns kernel by kernel. A pass that none of this concerns
//! takes the sum of its units.

use crate::parts::Unit;
use crate::passes::Kind;
use crate::rates::{self, Both, Does, Track, Walker};
use crate::script::{Op, STARTED, Scripts};
use crate::step::Walk;
use crate::stop::{KINDS, Stop};
use crate::traffic::{State, Traffic};
use rustc_hash::FxHashMap;

const UNKNOWN: u64 = u64::MAX;

/// Units of a part that are played again sooner than found among those that were met.
const FEW: usize = 4;

/// Works of a unit whose operations are known, in the order of `Unit::scripts`.
const FORWARD: usize = 0;
const NARROW: usize = 1;
const AGAIN: usize = 2;
const BACKWARD: usize = 3;
const INPUTS: usize = 4;
const WEIGHTS: usize = 5;

/// Room for the estimates of one layout after another.
#[derive(Debug, Default)]
pub(crate) struct Room {
    track: Track,
    /// Collectives of each stage.
    traffic: Vec<Traffic>,
    gathers: Vec<Vec<[usize; 2]>>,
    pairs: FxHashMap<Pair, Known<(u64, u64)>>,
    met: Met,
    kept: Kept,
}

/// Traffic of all stages after a number of periods.
#[derive(Debug, Default)]
struct Kept {
    done: usize,
    traffic: Option<Vec<State>>,
}

/// Passes by themselves that were met before.
#[derive(Debug, Default)]
struct Met {
    /// In traffic, by how long after the stage was free they began.
    passes: FxHashMap<(u32, u64, State), Known<u64>>,
    /// Next to nothing else, by part and kind.
    alone: Vec<u64>,
}

/// A forward and a backward pass, how long after the first of them each begins, and the traffic by
/// then.
type Pair = (u32, u32, u64, u64, State);

/// Times that passes took from a moment on, and the traffic after them, counted from it.
type Known<T> = (T, State);

/// A stage as a pass sees it: when it is free, and its collectives.
struct Lane<'a> {
    free: u64,
    traffic: &'a mut Traffic,
}

/// A script that is being played next to another.
struct Stream<'a> {
    /// Operations, each with the number of its unit; `None` ends a unit.
    ops: Vec<(usize, Option<&'a Op>)>,
    next: usize,
    at: u64,
    started: [u64; STARTED],
}

/// One layout, and what its estimate needs besides its bound.
pub(crate) struct Estimate<'a> {
    pub walk: &'a Walk<'a>,
    pub scripts: &'a Scripts,
    pub slowdown: f64,
}

/// A step as it is walked through.
struct Step<'a> {
    estimate: &'a Estimate<'a>,
    room: &'a mut Room,
}

impl Walker for Step<'_> {
    fn track(&mut self) -> &mut Track {
        &mut self.room.track
    }

    fn pass(&mut self, stop: &Stop) {
        let Room { track, traffic, gathers, pairs, met, .. } = &mut *self.room;
        let estimate = self.estimate;
        let Track { lanes, ends, plain, .. } = &mut *track;
        let lane = &mut lanes[stop.stage as usize];
        let own = usize::from(stop.kind != Kind::Forward);
        let arrived = stop.from.map_or(0, |from| {
            ends[own][from as usize] + estimate.walk.messages[stop.entry as usize]
        });
        let begins = arrived.max(lane.free);
        if stop.overlaps {
            lane.pending = Some((lane.free, begins, *stop));
            // Only passes that wait for each other see this.
            ends[0][stop.own as usize] = begins + estimate.quiet(stop, met);
            return;
        }
        let traffic = &mut traffic[stop.stage as usize];
        let mut now = Lane { free: lane.free, traffic };
        if let Some((_, forward_begins, forward)) = lane.pending.take() {
            let both = (&forward, stop);
            let found = estimate.pair(&mut now, (forward_begins, begins), both, pairs);
            ends[0][forward.own as usize] = found.0;
            ends[1][stop.own as usize] = found.1;
            lane.free = found.0.max(found.1);
            lane.busy = now.traffic.busy();
            return;
        }
        if !estimate.has(stop, gathers).any() {
            plain[stop.of as usize] = estimate.quiet(stop, met);
        }
        lane.free = estimate.one(&mut now, begins, stop, gathers, met);
        lane.busy = now.traffic.busy();
        if stop.kind != Kind::Weights {
            ends[own][stop.own as usize] = lane.free;
        }
    }

    fn does(&mut self, stop: &Stop) -> Option<Does> {
        let Room { track, traffic, gathers, met, .. } = &mut *self.room;
        let estimate = self.estimate;
        let free = track.lanes[stop.stage as usize].free;
        let plain =
            !estimate.has(stop, gathers).any() && traffic[stop.stage as usize].is_quiet(free);
        plain.then(|| Does::Takes(estimate.quiet(stop, met)))
    }

    fn pair(&mut self, _: &Stop, _: &Stop) -> Option<Both> {
        None
    }

    fn settled(&mut self, done: usize) -> bool {
        let Room { track, traffic, kept, .. } = &mut *self.room;
        let stages = track.lanes.iter().zip(traffic);
        let now: Option<Vec<State>> =
            stages.map(|(lane, traffic)| traffic.state(lane.free)).collect();
        let settled = now.is_some() && kept.done + 1 == done && kept.traffic == now;
        *kept = Kept { done, traffic: now };
        settled
    }

    fn resume(&mut self) {
        let Room { track, traffic, kept, .. } = &mut *self.room;
        let states = kept.traffic.iter().flatten();
        for ((lane, traffic), state) in track.lanes.iter_mut().zip(traffic).zip(states) {
            traffic.resume(lane.free, state);
            lane.busy = traffic.busy();
        }
    }
}

/// Collectives that go with a pass.
#[derive(Clone, Copy)]
struct Has {
    /// Parameters are gathered one unit ahead.
    ahead: bool,
    /// It waits for parameters that are gathered at the beginning.
    waits: bool,
    /// Gradients are reduced.
    reduces: bool,
}

impl Has {
    fn any(self) -> bool {
        self.ahead || self.waits || self.reduces
    }
}

impl Estimate<'_> {
    /// The time of the step.
    pub fn step(&self, room: &mut Room) -> u64 {
        self.prepare(room);
        let Walk { pipeline, messages, .. } = self.walk;
        rates::go(pipeline, messages, &mut Step { estimate: self, room });
        self.finish(room)
    }

    fn has(&self, stop: &Stop, gathers: &[Vec<[usize; 2]>]) -> Has {
        let forward = stop.kind == Kind::Forward;
        Has {
            ahead: self.walk.data.zero == 3 && stop.kind != Kind::Weights,
            waits: forward && stop.first && !gathers.is_empty(),
            reduces: !forward && !stop.inputs_only && self.walk.reduces(stop),
        }
    }

    fn prepare(&self, room: &mut Room) {
        let Walk { pipeline, split, data, .. } = self.walk;
        room.track.begin(pipeline, false);
        room.pairs.clear();
        room.met.passes.clear();
        room.met.alone.clear();
        room.met.alone.resize(split.parts.len() * KINDS, UNKNOWN);
        room.kept = Kept::default();
        room.traffic.resize_with(pipeline.stages as usize, Traffic::default);
        room.traffic.iter_mut().for_each(|traffic| traffic.clear(data.dims));
        room.track.lanes.iter_mut().for_each(|lane| lane.busy = 0);
        room.gathers.clear();
        if !(matches!(data.zero, 1 | 2) && data.overlaps_gathering) {
            return;
        }
        room.gathers.resize(split.parts.len() * 2, Vec::new());
        for stage in 0..pipeline.stages {
            let traffic = &mut room.traffic[stage as usize];
            for chunk in 0..pipeline.chunks {
                let part = pipeline.part(stage, chunk) as usize;
                let tickets = split.parts[part].iter().map(|&unit| self.gather(traffic, 0, unit));
                let down = pipeline.both_ways && part != stage as usize;
                room.gathers[part * 2 + usize::from(down)] = tickets.collect();
            }
            room.track.lanes[stage as usize].busy = traffic.busy();
        }
    }

    /// A pass by itself; its end. Passes of a part in equal traffic take the same time.
    fn one(
        &self,
        lane: &mut Lane<'_>,
        begins: u64,
        stop: &Stop,
        gathers: &[Vec<[usize; 2]>],
        met: &mut Met,
    ) -> u64 {
        let has = self.has(stop, gathers);
        if !has.any() && lane.traffic.is_quiet(begins) {
            return begins + self.quiet(stop, met);
        }
        let base = lane.free;
        if self.walk.split.parts[stop.part as usize].len() <= FEW && !has.waits {
            lane.traffic.catch_up(base);
            return self.by_units(lane, begins, stop, has, None);
        }
        let key = if has.waits { None } else { lane.traffic.state(base) };
        let key = key.map(|state| (stop.of, begins - base, state));
        if let Some((took, state)) = key.as_ref().and_then(|key| met.passes.get(key)) {
            lane.traffic.resume(base, state);
            return base + took;
        }
        let end = self.by_units(lane, begins, stop, has, gathers.get(..).filter(|_| has.waits));
        if let Some(key) = key
            && let Some(state) = lane.traffic.state(base)
        {
            met.passes.insert(key, (end - base, state));
        }
        end
    }

    /// Time of a pass next to nothing else.
    fn quiet(&self, stop: &Stop, met: &mut Met) -> u64 {
        let Walk { split, block, .. } = self.walk;
        let known = &mut met.alone[stop.of as usize];
        if *known == UNKNOWN {
            let units = split.parts[stop.part as usize].iter();
            *known = units.map(|&unit| self.alone(&block.units[unit as usize], stop)).sum();
        }
        *known
    }

    /// A pass, unit by unit; its end.
    fn by_units(
        &self,
        lane: &mut Lane<'_>,
        begins: u64,
        stop: &Stop,
        Has { ahead, reduces, .. }: Has,
        gathers: Option<&[Vec<[usize; 2]>]>,
    ) -> u64 {
        let Walk { pipeline, split, block, .. } = self.walk;
        let units = &split.parts[stop.part as usize];
        let mut end = begins;
        let down = pipeline.both_ways && stop.part != stop.stage;
        let known = gathers.map(|known| &known[stop.part as usize * 2 + usize::from(down)]);
        let forward = stop.kind == Kind::Forward;
        let in_order = |i: usize| if forward { i } else { units.len() - 1 - i };
        let mut ready = [0; 2];
        if ahead {
            ready = self.gather(lane.traffic, lane.free, units[in_order(0)]);
        }
        for i in 0..units.len() {
            let at = in_order(i);
            let unit = &block.units[units[at] as usize];
            if let Some(tickets) = known {
                end = end.max(self.gathered(lane.traffic, tickets[at]));
            }
            if ahead {
                end = end.max(self.gathered(lane.traffic, ready));
                if i + 1 < units.len() {
                    ready = self.gather(lane.traffic, end, units[in_order(i + 1)]);
                }
            }
            end = self.unit(lane, end, unit, stop);
            if reduces {
                self.reduce(lane.traffic, end, units[at], stop.last);
            }
        }
        end
    }

    /// A unit's part of a pass; its end.
    fn unit(&self, lane: &mut Lane<'_>, begins: u64, unit: &Unit, stop: &Stop) -> u64 {
        if lane.traffic.is_quiet(begins) {
            return begins + self.alone(unit, stop);
        }
        let mut end = begins;
        for &at in works(stop) {
            let script = &self.scripts[unit.scripts[at] as usize];
            end = lane.traffic.play(end, script, self.slowdown);
        }
        let sums = self.sums(unit, stop);
        if sums > 0 { lane.traffic.kernel(end, sums, self.slowdown) } else { end }
    }

    /// Time of a unit's part of a pass next to nothing else.
    fn alone(&self, unit: &Unit, stop: &Stop) -> u64 {
        let Unit { forward, narrow, again, backward, inputs, weights, .. } = unit;
        let times = [forward, narrow, again, backward, inputs, weights];
        works(stop).iter().map(|&at| times[at].time).sum::<u64>() + self.sums(unit, stop)
    }

    /// Time of the sums of gradients at the end of a unit's pass.
    fn sums(&self, unit: &Unit, stop: &Stop) -> u64 {
        let has_sums = stop.kind != Kind::Forward && !stop.inputs_only && self.walk.data.zero < 2;
        match (has_sums, stop.first) {
            (false, _) => 0,
            (true, true) => unit.first,
            (true, false) => unit.more,
        }
    }

    fn gather(&self, traffic: &mut Traffic, asked: u64, unit: u8) -> [usize; 2] {
        let times = self.walk.data.gather[unit as usize];
        let mut tickets = [usize::MAX; 2];
        for (at, time) in times.into_iter().enumerate().filter(|&(_, time)| time > 0) {
            tickets[at] = traffic.add(at, asked, time);
        }
        tickets
    }

    fn gathered(&self, traffic: &mut Traffic, tickets: [usize; 2]) -> u64 {
        let known = tickets.into_iter().filter(|&ticket| ticket != usize::MAX);
        known.map(|ticket| traffic.end(ticket)).max().unwrap_or(0)
    }

    fn reduce(&self, traffic: &mut Traffic, ready: u64, unit: u8, last: bool) {
        let data = self.walk.data;
        let times = data.reduce[unit as usize];
        let replicas = data.replicas.get(unit as usize).filter(|_| last);
        for (at, time) in times.into_iter().enumerate() {
            let count = u64::from(data.pieces[unit as usize][at]);
            let each = |i: u64| time * (i + 1) / count - time * i / count;
            let Some(over) = replicas.map(|over| over[at]).filter(|&over| over > 0) else {
                (0..count).for_each(|i| traffic.append(at, ready, each(i)));
                continue;
            };
            let ticket = (0..count).map(|i| traffic.add(at, ready, each(i))).last();
            let ready = ticket.map_or(ready, |ticket| traffic.end(ticket));
            traffic.append(2, ready, over);
        }
    }

    /// A forward pass next to a backward one; the ends of both.
    fn pair(
        &self,
        lane: &mut Lane<'_>,
        (forward_begins, backward_begins): (u64, u64),
        (forward, backward): (&Stop, &Stop),
        pairs: &mut FxHashMap<Pair, Known<(u64, u64)>>,
    ) -> (u64, u64) {
        let base = forward_begins.min(backward_begins);
        let reduces = !backward.inputs_only && self.walk.reduces(backward);
        let (later, latest) = (forward_begins - base, backward_begins - base);
        let key = lane.traffic.state(base);
        let key = key.map(|state| (forward.of, backward.of, later, latest, state));
        if let Some(((one, other), state)) = key.as_ref().and_then(|key| pairs.get(key)) {
            lane.traffic.resume(base, state);
            return (base + one, base + other);
        }
        let mut streams =
            [self.stream(forward, forward_begins), self.stream(backward, backward_begins)];
        self.together(lane, &mut streams, backward, reduces);
        let (one, other) = (streams[0].at, streams[1].at);
        if let Some(key) = key
            && let Some(state) = lane.traffic.state(base)
        {
            pairs.insert(key, ((one - base, other - base), state));
        }
        (one, other)
    }

    fn stream(&self, stop: &Stop, at: u64) -> Stream<'_> {
        let units = &self.walk.split.parts[stop.part as usize];
        let forward = stop.kind == Kind::Forward;
        let mut ops = Vec::new();
        for i in 0..units.len() {
            let kind = units[if forward { i } else { units.len() - 1 - i }];
            let unit = &self.walk.block.units[kind as usize];
            for &work in works(stop) {
                let script = &self.scripts[unit.scripts[work] as usize];
                ops.extend(script.iter().map(|op| (i, Some(op))));
            }
            ops.push((i, None));
        }
        Stream { ops, next: 0, at, started: [0; STARTED] }
    }

    /// Plays two streams side by side. Of kernels that could start, that of the earlier unit does.
    fn together(
        &self,
        lane: &mut Lane<'_>,
        streams: &mut [Stream<'_>; 2],
        backward: &Stop,
        reduces: bool,
    ) {
        let units = &self.walk.split.parts[backward.part as usize];
        let mut npu = 0;
        loop {
            let turn = (0..2).filter_map(|at| {
                let stream = &streams[at];
                let &(unit, op) = stream.ops.get(stream.next)?;
                let is_kernel = matches!(op, Some(Op::Kernel(_)));
                let start = if is_kernel { stream.at.max(npu) } else { stream.at };
                Some((start, unit, at))
            });
            let Some((start, unit, at)) = turn.min() else { return };
            let stream = &mut streams[at];
            let (_, op) = stream.ops[stream.next];
            stream.next += 1;
            match op.copied() {
                Some(Op::Kernel(time)) => {
                    stream.at = lane.traffic.kernel(start, time, self.slowdown);
                    npu = stream.at;
                }
                Some(Op::Call(time, dims)) => {
                    stream.at = lane.traffic.call(start, time, dims);
                }
                Some(Op::Start(time, dims, slot)) => {
                    stream.started[slot as usize] = lane.traffic.call(start, time, dims);
                }
                Some(Op::Wait(slot)) => stream.at = start.max(stream.started[slot as usize]),
                None if at == 1 => {
                    let kind = units[units.len() - 1 - unit];
                    let sums = self.sums(&self.walk.block.units[kind as usize], backward);
                    if sums > 0 {
                        stream.at = lane.traffic.kernel(stream.at.max(npu), sums, self.slowdown);
                        npu = stream.at;
                    }
                    if reduces {
                        self.reduce(lane.traffic, stream.at, kind, backward.last);
                    }
                }
                None => {}
            }
        }
    }

    fn finish(&self, room: &mut Room) -> u64 {
        let data = self.walk.data;
        let stages = room.track.lanes.iter().zip(&mut room.traffic).enumerate();
        let ends = stages.map(|(stage, (lane, traffic))| {
            if !data.overlaps_reduction && data.zero < 2 {
                let times = data.reduce_all[stage].into_iter().enumerate();
                for (at, time) in times.filter(|&(_, time)| time > 0) {
                    traffic.append(at, lane.free, time);
                }
            }
            lane.free.max(traffic.end_of_all())
        });
        self.walk.update(&mut ends.collect::<Vec<u64>>())
    }
}

/// Works of a unit in a pass.
fn works(stop: &Stop) -> &'static [usize] {
    match stop.kind {
        Kind::Forward if stop.first => &[NARROW, FORWARD],
        Kind::Forward => &[FORWARD],
        Kind::Backward if stop.inputs_only => &[AGAIN, INPUTS],
        Kind::Backward => &[AGAIN, BACKWARD],
        Kind::Weights => &[WEIGHTS],
    }
}
