//! Stretches of a pipeline that repeat: the same passes of later micro-batches, period by period.
//!
//! Not here: walking through them (`rates.rs`).

use crate::passes::Kind;
use crate::stop::Stop;

/// Least periods of a stretch that is worth it.
const LEAST: usize = 3;
/// Lengths of a period that are tried, in micro-batches of the shortest one.
const TRIED: u32 = 4;
/// Periods after which a stretch may begin at most.
const MOVED: usize = 8;

/// Passes `first..first + length` and `count - 1` repetitions of them with later micro-batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repeat {
    pub first: usize,
    pub length: usize,
    pub count: usize,
    /// Places by which results of a period are after those of the one before.
    pub shift: u32,
    /// Results that exist before the first period and are waited for in it or later: whether they
    /// are backward, and their places. Before any other period they are the same, further on.
    pub live: Vec<(usize, u32)>,
}

/// The stretches of `stops` that repeat, whose results have `results` places of each kind. Micro-
/// batches go through chunks `group` at a time.
pub(crate) fn find(stops: &[Stop], results: usize, group: u32) -> Vec<Repeat> {
    let lives = Lives::new(stops, results);
    let mut found: Vec<Repeat> = Vec::new();
    for part in 1..8 {
        let probe = stops.len() * part / 8;
        if found.iter().any(|each| probe < each.first + each.length * each.count) {
            continue;
        }
        let from = found.last().map_or(0, |each| each.first + each.length * each.count);
        let mut tried = (1..=TRIED).map(|many| around(stops, &lives, (from, probe), many * group));
        found.extend(tried.find_map(|each| each));
    }
    found
}

/// The stretch around a pass, from `from` on, whose periods have `shift` micro-batches.
fn around(
    stops: &[Stop],
    lives: &Lives,
    (from, probe): (usize, usize),
    shift: u32,
) -> Option<Repeat> {
    let length =
        1 + stops[probe + 1..].iter().position(|each| again(&stops[probe], each, shift))?;
    let alike =
        |at: &usize| stops.get(at + length).is_some_and(|later| again(&stops[*at], later, shift));
    let begin = (from..=probe).rev().take_while(alike).last()?;
    let end = length + (probe..stops.len()).take_while(alike).last()? + 1;
    let most = (end - begin) / length;
    (0..most.saturating_sub(LEAST).min(MOVED)).find_map(|late| {
        let first = begin + late * length;
        let live = lives.at(first);
        let holds = |&count: &usize| {
            let (at, on) = (first + count * length, count as u32 * shift);
            lives.count[at] as usize == live.len()
                && live.iter().all(|&(kind, place)| lives.is(kind, place + on, at))
        };
        let count = (1..=most - late).take_while(holds).last().filter(|&count| count >= LEAST)?;
        Some(Repeat { first, length, count, shift, live })
    })
}

/// Whether a pass is the same as an earlier one, `shift` micro-batches later.
fn again(one: &Stop, later: &Stop, shift: u32) -> bool {
    let on = |place: u32| place + shift;
    one.stage == later.stage
        && one.part == later.part
        && one.kind == later.kind
        && on(one.own) == later.own
        && one.from.map(on) == later.from
        && (one.entry, one.inputs_only, one.overlaps)
            == (later.entry, later.inputs_only, later.overlaps)
        && (one.first, one.last) == (later.first, later.last)
}

/// When results exist and are waited for.
struct Lives {
    /// One past the pass that makes each result, and the pass that waits for it: 0 where none does.
    spans: [Vec<(usize, usize)>; 2],
    /// Results that exist before each pass and are waited for later.
    count: Vec<u32>,
}

impl Lives {
    fn new(stops: &[Stop], results: usize) -> Lives {
        let mut spans = [vec![(usize::MAX, 0); results], vec![(usize::MAX, 0); results]];
        let stages = stops.iter().map(|stop| stop.stage + 1).max().unwrap_or(0);
        let mut aside = vec![None; stages as usize];
        for (at, stop) in stops.iter().enumerate() {
            let kind = usize::from(stop.kind != Kind::Forward);
            if let Some(forward) = aside[stop.stage as usize].take() {
                // Both have their results at the end of the pair.
                spans[0][forward as usize].0 = at + 1;
            }
            if stop.overlaps {
                aside[stop.stage as usize] = Some(stop.own);
            } else if stop.kind != Kind::Weights {
                spans[kind][stop.own as usize].0 = at + 1;
            }
            if let Some(from) = stop.from {
                spans[kind][from as usize].1 = at;
            }
        }
        let mut changes = vec![0_i32; stops.len() + 2];
        for &(made, asked) in spans.iter().flatten().filter(|&&(made, asked)| made <= asked) {
            changes[made] += 1;
            changes[asked + 1] -= 1;
        }
        let mut now = 0;
        let count = changes.iter().map(|change| {
            now += change;
            now as u32
        });
        Lives { count: count.collect(), spans }
    }

    fn is(&self, kind: usize, place: u32, at: usize) -> bool {
        self.spans[kind].get(place as usize).is_some_and(|&(made, asked)| made <= at && at <= asked)
    }

    fn at(&self, at: usize) -> Vec<(usize, u32)> {
        let all =
            (0..2).flat_map(|kind| (0..self.spans[kind].len() as u32).map(move |p| (kind, p)));
        all.filter(|&(kind, place)| self.is(kind, place, at)).collect()
    }
}
