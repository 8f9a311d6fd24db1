//! An estimate of a simulated step: the bound of `step.rs`, and what its parts cost each other.
//!
//! Collectives of layers and of data parallelism wait for each other where they use the same
//! dimensions (`traffic.rs`). Kernels next to collectives of data parallelism are slower on some
//! platforms. Passes side by side take turns kernel by kernel. A pass that none of this concerns
//! takes the sum of its units.

use crate::parts::Unit;
use crate::passes::Kind;
use crate::pipeline::Stop;
use crate::step::{Of, Walk, of};
use crate::traffic::{State, Traffic};
use rustc_hash::FxHashMap;

/// One operation of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Kernels, one after the other.
    Kernel(u64),
    /// A collective that the next operation waits for, and the dimensions that it uses.
    Call(u64, u8),
    /// A collective or message that overlaps with what follows, with its number in the script.
    Start(u64, u8, u8),
    /// Waits for what was started under a number.
    Wait(u8),
}

/// Most collectives of a script that are started under numbers.
pub const STARTED: usize = 64;

/// The operations of scripts, by their index.
pub type Scripts = [Vec<Op>];

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
    ends: [Vec<u64>; 2],
    stages: Vec<Lane>,
    gathers: Vec<Vec<[usize; 2]>>,
    pairs: FxHashMap<Pair, Known<(u64, u64)>>,
    met: Met,
}

/// Passes by themselves that were met before.
#[derive(Debug, Default)]
struct Met {
    /// In traffic, by how long after the stage was free they began.
    passes: FxHashMap<(Of, u64, State), Known<u64>>,
    /// Next to nothing else.
    alone: FxHashMap<Of, u64>,
}

/// A forward and a backward pass, how long after the first of them each begins, and the traffic by
/// then.
type Pair = (Of, Of, u64, u64, State);

/// Times that passes took from a moment on, and the traffic after them, counted from it.
type Known<T> = (T, State);

#[derive(Debug, Default)]
struct Lane {
    free: u64,
    traffic: Traffic,
    pending: Option<(u64, Stop)>,
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

impl Estimate<'_> {
    /// The time of the step.
    pub fn step(&self, room: &mut Room) -> u64 {
        self.prepare(room);
        let walk = self.walk;
        let Room { ends, stages, gathers, pairs, met } = room;
        for stop in &walk.pipeline.stops {
            let lane = &mut stages[stop.stage as usize];
            let own = usize::from(stop.kind != Kind::Forward);
            let arrived = stop
                .from
                .map_or(0, |from| ends[own][from as usize] + walk.messages[stop.entry as usize]);
            if stop.overlaps {
                lane.pending = Some((arrived.max(lane.free), *stop));
                continue;
            }
            let begins = arrived.max(lane.free);
            if let Some((forward_begins, forward)) = lane.pending.take() {
                let both = (&forward, stop);
                let found = self.pair(lane, (forward_begins, begins), both, pairs);
                ends[0][forward.own as usize] = found.0;
                ends[1][stop.own as usize] = found.1;
                lane.free = found.0.max(found.1);
                continue;
            }
            lane.free = self.one(lane, begins, stop, gathers, met);
            if stop.kind != Kind::Weights {
                ends[own][stop.own as usize] = lane.free;
            }
        }
        self.finish(stages)
    }

    fn prepare(&self, room: &mut Room) {
        let Walk { pipeline, split, data, .. } = self.walk;
        for ends in &mut room.ends {
            ends.clear();
            ends.resize(pipeline.results, 0);
        }
        room.pairs.clear();
        room.met.passes.clear();
        room.met.alone.clear();
        room.stages.resize_with(pipeline.stages as usize, Lane::default);
        for lane in &mut room.stages {
            lane.free = 0;
            lane.pending = None;
            lane.traffic.clear(data.dims);
        }
        room.gathers.clear();
        if !(matches!(data.zero, 1 | 2) && data.overlaps_gathering) {
            return;
        }
        room.gathers.resize(split.parts.len() * 2, Vec::new());
        for stage in 0..pipeline.stages {
            let lane = &mut room.stages[stage as usize];
            for chunk in 0..pipeline.chunks {
                let part = pipeline.part(stage, chunk) as usize;
                let tickets =
                    split.parts[part].iter().map(|&unit| self.gather(&mut lane.traffic, 0, unit));
                let down = pipeline.both_ways && part != stage as usize;
                room.gathers[part * 2 + usize::from(down)] = tickets.collect();
            }
        }
    }

    /// A pass by itself; its end. Passes of a part in equal traffic take the same time.
    fn one(
        &self,
        lane: &mut Lane,
        begins: u64,
        stop: &Stop,
        gathers: &[Vec<[usize; 2]>],
        met: &mut Met,
    ) -> u64 {
        let Walk { split, block, data, .. } = self.walk;
        let ahead = data.zero == 3 && stop.kind != Kind::Weights;
        let waits = stop.kind == Kind::Forward && stop.first && !gathers.is_empty();
        let reduces = stop.kind != Kind::Forward && !stop.inputs_only && self.walk.reduces(stop);
        if !(ahead || waits || reduces) && lane.traffic.is_quiet(begins) {
            let units = split.parts[stop.part as usize].iter();
            let unit = |&unit: &u8| self.alone(&block.units[unit as usize], stop);
            return begins + *met.alone.entry(of(stop)).or_insert_with(|| units.map(unit).sum());
        }
        let base = lane.free;
        let key = if waits { None } else { lane.traffic.state(base) };
        let key = key.map(|state| (of(stop), begins - base, state));
        if let Some((took, state)) = key.as_ref().and_then(|key| met.passes.get(key)) {
            lane.traffic.resume(base, state);
            return base + took;
        }
        let end =
            self.by_units(lane, begins, stop, (ahead, reduces), gathers.get(..).filter(|_| waits));
        if let Some(key) = key
            && let Some(state) = lane.traffic.state(base)
        {
            met.passes.insert(key, (end - base, state));
        }
        end
    }

    /// A pass, unit by unit; its end.
    fn by_units(
        &self,
        lane: &mut Lane,
        begins: u64,
        stop: &Stop,
        (ahead, reduces): (bool, bool),
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
            ready = self.gather(&mut lane.traffic, lane.free, units[in_order(0)]);
        }
        for i in 0..units.len() {
            let at = in_order(i);
            let unit = &block.units[units[at] as usize];
            if let Some(tickets) = known {
                end = end.max(self.gathered(&mut lane.traffic, tickets[at]));
            }
            if ahead {
                end = end.max(self.gathered(&mut lane.traffic, ready));
                if i + 1 < units.len() {
                    ready = self.gather(&mut lane.traffic, end, units[in_order(i + 1)]);
                }
            }
            end = self.unit(lane, end, unit, stop);
            if reduces {
                self.reduce(&mut lane.traffic, end, units[at], stop.last);
            }
        }
        end
    }

    /// A unit's part of a pass; its end.
    fn unit(&self, lane: &mut Lane, begins: u64, unit: &Unit, stop: &Stop) -> u64 {
        if lane.traffic.is_quiet(begins) {
            return begins + self.alone(unit, stop);
        }
        let mut end = begins;
        for &at in works(stop) {
            end = self.play(&mut lane.traffic, end, &self.scripts[unit.scripts[at] as usize]);
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

    fn play(&self, traffic: &mut Traffic, begins: u64, ops: &[Op]) -> u64 {
        let mut started = [0; STARTED];
        let mut end = begins;
        for op in ops {
            match *op {
                Op::Kernel(time) => end = traffic.kernel(end, time, self.slowdown),
                Op::Call(time, dims) => end = traffic.call(end, time, dims),
                Op::Start(time, dims, slot) => {
                    started[slot as usize] = traffic.call(end, time, dims);
                }
                Op::Wait(slot) => end = end.max(started[slot as usize]),
            }
        }
        end
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
        lane: &mut Lane,
        (forward_begins, backward_begins): (u64, u64),
        (forward, backward): (&Stop, &Stop),
        pairs: &mut FxHashMap<Pair, Known<(u64, u64)>>,
    ) -> (u64, u64) {
        let base = forward_begins.min(backward_begins);
        let reduces = !backward.inputs_only && self.walk.reduces(backward);
        let (later, latest) = (forward_begins - base, backward_begins - base);
        let key = lane.traffic.state(base);
        let key = key.map(|state| (of(forward), of(backward), later, latest, state));
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
        lane: &mut Lane,
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
                        self.reduce(&mut lane.traffic, stream.at, kind, backward.last);
                    }
                }
                None => {}
            }
        }
    }

    fn finish(&self, stages: &mut [Lane]) -> u64 {
        let data = self.walk.data;
        let mut ends = Vec::with_capacity(stages.len());
        for (stage, lane) in stages.iter_mut().enumerate() {
            if !data.overlaps_reduction && data.zero < 2 {
                let times = data.reduce_all[stage].into_iter().enumerate();
                for (at, time) in times.filter(|&(_, time)| time > 0) {
                    lane.traffic.append(at, lane.free, time);
                }
            }
            ends.push(lane.free.max(lane.traffic.end_of_all()));
        }
        self.walk.update(&mut ends)
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
