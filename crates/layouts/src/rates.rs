//! Walking through the passes of a pipeline, with few of its periods.
//!
//! Where all times of stages and results move by constant rates from period to period, one more
//! period is walked through with times and rates together. A maximum keeps its rate until another
//! time with a larger rate catches up. If rates come out as they went in, all periods before that
//! are known. So walks stop only where another stage or collective begins to decide. This is exact.
//! Not here: which periods there are (`repeats.rs`).

use crate::forms::{Form, PassForm};
use crate::parts::Work;
use crate::passes::Kind;
use crate::pipeline::Pipeline;
use crate::repeats::Repeat;
use crate::stop::{KINDS, Stop};

/// Where a stage is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lane {
    pub free: u64,
    /// From when on no collective concerns passes without any.
    pub busy: u64,
    /// Ends of the collectives of dense parameters, of experts, of replicas.
    pub chains: [u64; 3],
    /// A pass that runs next to the one after it: when its stage was free, when it begins.
    pub pending: Option<(u64, u64, Stop)>,
}

/// Where all stages are, and when results exist.
#[derive(Debug, Default)]
pub(crate) struct Track {
    pub lanes: Vec<Lane>,
    pub ends: [Vec<u64>; 2],
    /// Times of passes by themselves without collectives, by `Stop::of`; `UNKNOWN` of others.
    pub plain: Vec<u64>,
    moving: [Vec<Moving>; 2],
    stages: Vec<[Moving; TIMES]>,
    aside: Vec<Option<Stop>>,
    now: Vec<u64>,
    rates: Vec<i64>,
    /// Times of a stage that may move.
    counted: usize,
}

const UNKNOWN: u64 = u64::MAX;

/// Times of a stage: free, three chains, a pass that is pending.
const TIMES: usize = 6;

/// Content of a pass.
pub(crate) enum Does {
    /// It takes a time.
    Takes(u64),
    /// It has collectives.
    Has(PassForm),
}

/// A forward pass next to a backward one: the works of both, and what collectives follow.
pub(crate) type Both = (Work, Work, Option<PassForm>);

/// A walk through the passes of a pipeline in order.
pub(crate) trait Walker {
    /// Where it is.
    fn track(&mut self) -> &mut Track;

    /// Does a pass.
    fn pass(&mut self, stop: &Stop);

    /// The content of a pass by itself; none where its end may be anything but a maximum of sums.
    fn does(&mut self, stop: &Stop) -> Option<Does>;

    /// The content of two passes side by side.
    fn pair(&mut self, forward: &Stop, backward: &Stop) -> Option<Both>;

    /// Whether all else that later passes depend on is as it was a period ago, after `done` periods.
    /// Times have moved alike.
    fn settled(&mut self, _done: usize) -> bool {
        false
    }

    /// Moves all else to where the track is after more such periods.
    fn resume(&mut self) {}
}

/// A time, and by how much it is later one period on.
#[derive(Clone, Copy, Debug, Default)]
struct Moving {
    time: u64,
    rate: i64,
}

impl Moving {
    fn plus(self, time: u64) -> Moving {
        Moving { time: self.time + time, ..self }
    }

    /// The later one; `most` is the number of periods for which it stays so.
    fn max(self, other: Moving, most: &mut u64) -> Moving {
        let (late, early) = if (self.time, self.rate) >= (other.time, other.rate) {
            (self, other)
        } else {
            (other, self)
        };
        lasts(late.time - early.time, early.rate - late.rate, most);
        late
    }

    /// The earlier one.
    fn min(self, other: Moving, most: &mut u64) -> Moving {
        let (early, late) = if (self.time, self.rate) <= (other.time, other.rate) {
            (self, other)
        } else {
            (other, self)
        };
        lasts(late.time - early.time, early.rate - late.rate, most);
        early
    }
}

/// Periods until `closer` in each has used up a distance.
fn lasts(distance: u64, closer: i64, most: &mut u64) {
    if closer > 0 {
        *most = (*most).min(distance / closer as u64);
    }
}

/// The time that a form stands for.
fn of(form: &Form, before: &[Moving; 5], most: &mut u64) -> Moving {
    let mut terms = form.terms().map(|(place, constant)| {
        let Moving { time, rate } = before[place];
        Moving { time: (time as i64 + constant) as u64, rate }
    });
    let first = terms.next().unwrap_or_default();
    terms.fold(first, |late, term| late.max(term, most))
}

/// Goes through a pipeline; `messages` are the times of messages into its parts.
pub(crate) fn go(pipeline: &Pipeline, messages: &[u64], walker: &mut impl Walker) {
    let stops = &pipeline.stops;
    let mut next = 0;
    for repeat in &pipeline.repeats {
        walk(&stops[next..repeat.first], messages, walker);
        next = repeat.first + repeat.count * repeat.length;
        stretch(&stops[repeat.first..next], repeat, messages, walker);
    }
    walk(&stops[next..], messages, walker);
}

/// Does passes one after the other.
fn walk(stops: &[Stop], messages: &[u64], walker: &mut impl Walker) {
    for stop in stops {
        if !walker.track().plainly(stop, messages) {
            walker.pass(stop);
        }
    }
}

/// Goes through all periods of a stretch.
fn stretch(stops: &[Stop], repeat: &Repeat, messages: &[u64], walker: &mut impl Walker) {
    let period = |done: usize| &stops[done * repeat.length..][..repeat.length];
    let (mut done, mut known) = (0, false);
    walker.track().look(repeat, done);
    while done < repeat.count {
        walk(period(done), messages, walker);
        done += 1;
        let steady = walker.track().look(repeat, done) && known;
        known = true;
        let left = (repeat.count - done) as u64;
        if left == 0 || !steady {
            continue;
        }
        if walker.track().alike() && walker.settled(done) {
            walker.track().go_on(repeat, done, left);
            walker.resume();
            return;
        }
        let times = moving(period(done), repeat, done, messages, walker).unwrap_or(0).min(left);
        if times > 0 {
            walker.track().go_on(repeat, done, times);
            done += times as usize;
            walker.track().look(repeat, done);
            known = false;
        }
    }
}

/// Goes through the next period with times and rates, and leaves no trace. For how many periods from
/// here on rates stay as they are; none where they don't.
fn moving(
    period: &[Stop],
    repeat: &Repeat,
    done: usize,
    messages: &[u64],
    walker: &mut impl Walker,
) -> Option<u64> {
    walker.track().set_off(repeat, done);
    let mut most = u64::MAX;
    for stop in period {
        let track = walker.track();
        let own = usize::from(stop.kind != Kind::Forward);
        let stage = stop.stage as usize;
        let begins = match stop.from {
            Some(from) => {
                let arrived = track.moving[own][from as usize].plus(messages[stop.entry as usize]);
                arrived.max(track.stages[stage][0], &mut most)
            }
            None => track.stages[stage][0],
        };
        if stop.overlaps {
            track.stages[stage][4] = track.stages[stage][0];
            track.stages[stage][5] = begins;
            track.aside[stage] = Some(*stop);
            continue;
        }
        if let Some(forward) = track.aside[stage].take() {
            let (one, other, form) = walker.pair(&forward, stop)?;
            let track = walker.track();
            let [free, chains @ .., before, ahead] = track.stages[stage];
            let ends = ahead.plus(one.time).max(begins.plus(other.time), &mut most);
            let kernels = ahead.min(begins, &mut most).plus(one.kernels + other.kernels);
            let end = ends.max(kernels, &mut most).max(before, &mut most);
            if let Some(form) = form {
                let [dense, expert, replicas] = chains;
                let from = [free, begins, dense, expert, replicas];
                for (at, chain) in form.chains.iter().enumerate() {
                    track.stages[stage][at + 1] = of(chain, &from, &mut most);
                }
            }
            track.stages[stage][0] = end;
            track.moving[0][forward.own as usize] = ahead.plus(one.time);
            track.moving[1][stop.own as usize] = begins.plus(other.time);
            continue;
        }
        let does = walker.does(stop)?;
        let track = walker.track();
        let end = match does {
            Does::Takes(time) => begins.plus(time),
            Does::Has(form) => {
                let [free, dense, expert, replicas, ..] = track.stages[stage];
                let from = [free, begins, dense, expert, replicas];
                for (at, chain) in form.chains.iter().enumerate() {
                    track.stages[stage][at + 1] = of(chain, &from, &mut most);
                }
                of(&form.end, &from, &mut most)
            }
        };
        track.stages[stage][0] = end;
        if stop.kind != Kind::Weights {
            track.moving[own][stop.own as usize] = end;
        }
    }
    walker.track().is_steady(repeat, done + 1).then(|| most.saturating_add(1))
}

impl Track {
    /// Begins a step; in the middle of it chains may be used.
    pub fn begin(&mut self, pipeline: &Pipeline, chains: bool) {
        self.counted = match (pipeline.overlaps, chains) {
            (true, _) => TIMES,
            (false, true) => TIMES - 2,
            (false, false) => 1,
        };
        // Each result is there before anything waits for it.
        for ends in &mut self.ends {
            ends.resize(pipeline.results.max(ends.len()), 0);
        }
        for moving in &mut self.moving {
            moving.resize(pipeline.results.max(moving.len()), Moving::default());
        }
        self.plain.clear();
        self.plain.resize(pipeline.parts as usize * KINDS, UNKNOWN);
        self.lanes.clear();
        self.lanes.resize(pipeline.stages as usize, Lane::default());
    }

    /// Does a pass whose time is known and which no collective concerns; whether it is one.
    fn plainly(&mut self, stop: &Stop, messages: &[u64]) -> bool {
        let own = usize::from(stop.kind != Kind::Forward);
        let lane = &mut self.lanes[stop.stage as usize];
        let time = self.plain[stop.of as usize];
        let arrived = stop
            .from
            .map_or(0, |from| self.ends[own][from as usize] + messages[stop.entry as usize]);
        let begins = arrived.max(lane.free);
        if time == UNKNOWN || stop.overlaps || lane.busy > begins || lane.pending.is_some() {
            return false;
        }
        lane.free = begins + time;
        if stop.kind != Kind::Weights {
            self.ends[own][stop.own as usize] = lane.free;
        }
        true
    }

    /// Looks where all is before a period; whether it has moved by the same as in the last one.
    fn look(&mut self, repeat: &Repeat, done: usize) -> bool {
        let on = done as u32 * repeat.shift;
        let Track { lanes, ends, now, rates, counted, .. } = self;
        let counted = *counted;
        let times = lanes.iter().flat_map(|lane| lane.times().into_iter().take(counted));
        let results = repeat.live.iter().map(|&(kind, place)| ends[kind][(place + on) as usize]);
        let mut same = now.len() == rates.len();
        now.resize(lanes.len() * counted + repeat.live.len(), 0);
        rates.resize(now.len(), 0);
        for ((time, now), rate) in times.chain(results).zip(now).zip(rates) {
            let found = time as i64 - *now as i64;
            same &= found == *rate;
            (*now, *rate) = (time, found);
        }
        same
    }

    /// Whether all but the chains has moved by the same.
    fn alike(&self) -> bool {
        let rate = self.rates[0];
        let (stages, results) = self.rates.split_at(self.lanes.len() * self.counted);
        let lanes = stages.chunks(self.counted).zip(&self.lanes).all(|(rates, lane)| {
            rates[0] == rate && (lane.pending.is_none() || rates[4..] == [rate, rate])
        });
        lanes && results.iter().all(|&each| each == rate)
    }

    /// Times and rates before a period.
    fn set_off(&mut self, repeat: &Repeat, done: usize) {
        let on = done as u32 * repeat.shift;
        let Track { lanes, now, rates, moving, stages, aside, counted, .. } = self;
        let mut all = now.iter().zip(&*rates).map(|(&time, &rate)| Moving { time, rate });
        stages.clear();
        stages.extend(lanes.iter().map(|lane| {
            let mut found = lane.times().map(|time| Moving { time, rate: 0 });
            found.iter_mut().zip(all.by_ref().take(*counted)).for_each(|(each, now)| *each = now);
            found
        }));
        aside.clear();
        aside.extend(lanes.iter().map(|lane| lane.pending.map(|(_, _, stop)| stop)));
        for (&(kind, place), each) in repeat.live.iter().zip(all) {
            moving[kind][(place + on) as usize] = each;
        }
    }

    /// Whether times of the period after that of `set_off` are as rates say, and rates as before.
    fn is_steady(&self, repeat: &Repeat, done: usize) -> bool {
        let on = done as u32 * repeat.shift;
        let known = self.now.chunks(self.counted).zip(self.rates.chunks(self.counted));
        let lanes = self.stages.iter().zip(&self.lanes).zip(known).all(|((times, lane), known)| {
            // A stage without a pending pass has no times of one.
            let counted = if lane.pending.is_some() { TIMES } else { TIMES - 2 };
            let known = known.0.iter().zip(known.1);
            times
                .iter()
                .zip(known)
                .take(counted)
                .all(|(each, (&time, &rate))| each.follows(time, rate))
        });
        let first = self.lanes.len() * self.counted;
        lanes
            && repeat.live.iter().enumerate().all(|(i, &(kind, place))| {
                let each = self.moving[kind][(place + on) as usize];
                each.follows(self.now[first + i], self.rates[first + i])
            })
    }

    /// Goes on by periods.
    fn go_on(&mut self, repeat: &Repeat, done: usize, times: u64) {
        let Track { lanes, ends, now, rates, counted, .. } = self;
        let mut later = now
            .iter()
            .zip(&*rates)
            .map(|(&time, &rate)| (time as i64 + rate * times as i64) as u64);
        for lane in lanes {
            let mut found = lane.times();
            found
                .iter_mut()
                .zip(later.by_ref().take(*counted))
                .for_each(|(each, time)| *each = time);
            let [free, dense, expert, replicas, before, begins] = found;
            (lane.free, lane.chains) = (free, [dense, expert, replicas]);
            if let Some((free, begun, stop)) = &mut lane.pending {
                (*free, *begun) = (before, begins);
                stop.own += times as u32 * repeat.shift;
            }
        }
        let on = (done as u32 + times as u32) * repeat.shift;
        for (&(kind, place), time) in repeat.live.iter().zip(later) {
            ends[kind][(place + on) as usize] = time;
        }
    }
}

impl Moving {
    /// Whether it is one period after `time`, at the same rate.
    fn follows(self, time: u64, rate: i64) -> bool {
        self.rate == rate && self.time as i64 == time as i64 + rate
    }
}

impl Lane {
    fn times(&self) -> [u64; TIMES] {
        let [dense, expert, replicas] = self.chains;
        let (free, begins) = self.pending.map_or((0, 0), |(free, begins, _)| (free, begins));
        [self.free, dense, expert, replicas, free, begins]
    }
}

#[cfg(test)]
#[path = "rates_tests.rs"]
mod tests;
