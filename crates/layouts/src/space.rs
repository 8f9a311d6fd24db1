//! A space of layouts: parts that many layouts share, and the layouts as combinations of them.

use crate::apart;
use crate::estimate::{self, Estimate};
use crate::memory::{self, Held, Stage};
use crate::parts::{Block, Data, Split};
use crate::pipeline::Pipeline;
use crate::script::Op;
use crate::step::{Scratch, Walk};
use rustc_hash::FxHashMap;
use std::collections::BinaryHeap;

/// Layouts that differ only in what data parallelism does. Each has the first division that fits,
/// or the last one where none does.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Index of the pipeline.
    pub pipeline: u32,
    /// Indices of the divisions of units over its parts, the first and one past the last. Each
    /// needs at most the memory of the one before it, and recomputes more.
    pub splits: (u32, u32),
    /// Index of the block.
    pub block: u32,
    /// Index of the times of messages.
    pub messages: u32,
    /// Indices of the choices of data parallelism, the first and one past the last.
    pub data: (u32, u32),
}

/// Bytes up to which a rank surely fits, and up to which it may.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Surely.
    pub surely: u64,
    /// Perhaps.
    pub perhaps: u64,
}

/// Whether a layout fits the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Surely.
    Yes,
    /// Closer than memory is known.
    Near,
    /// Not.
    No,
}

/// One layout.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Index of its group.
    pub group: u32,
    /// Index of its choice of data parallelism.
    pub data: u32,
    /// Place of its division among those of the group.
    pub split: u32,
    /// Lower bound of its simulated step.
    pub bound: u64,
    /// Estimate of it.
    pub estimate: u64,
    /// Bytes of the fullest rank.
    pub bytes: u64,
    /// The stage of that rank.
    pub stage: u32,
    /// Whether it fits.
    pub answer: Answer,
}

/// Numbers of layouts by answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Layouts that surely fit.
    pub yes: u64,
    /// Layouts that may fit.
    pub near: u64,
    /// Layouts that do not fit.
    pub no: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Space {
    /// Pipelines.
    pub pipelines: Vec<Pipeline>,
    /// Divisions of units over parts.
    pub splits: Vec<Split>,
    /// Blocks.
    pub blocks: Vec<Block>,
    /// Choices of data parallelism.
    pub data: Vec<Data>,
    /// Times of messages into each part.
    pub messages: Vec<Vec<u64>>,
    /// Operations of scripts.
    pub scripts: Vec<Vec<Op>>,
    /// Part of their speed that kernels lose next to collectives.
    pub slowdown: f64,
    /// Layouts.
    pub groups: Vec<Group>,
}

/// Room that layouts use one after another.
#[derive(Debug, Default)]
pub(crate) struct Room {
    scratch: Scratch,
    estimate: estimate::Room,
    /// Dimensions that layers of each block use, as far as they were asked for.
    dims: FxHashMap<u32, Option<u8>>,
    /// Stages of the last group with each of its divisions; empty where not known.
    pub stages: Vec<Vec<Stage>>,
    /// Layouts that were asked for.
    pub wanted: Vec<Found>,
}

impl Space {
    /// Number of layouts.
    pub fn layouts(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.data.1 - group.data.0)).sum()
    }

    /// The layouts that fit, the fastest by estimate first, as far as their bounds are at most a
    /// floor: the estimate of the `count`-th, or `least` if that is more. Every other layout that
    /// fits has a bound above the floor.
    pub fn search(
        &self,
        limits: Limits,
        near: bool,
        (count, least): (usize, u64),
        goes_on: &mut dyn FnMut(usize, usize) -> bool,
    ) -> (Vec<Found>, Tally, u64) {
        let (mut room, mut tally) = (Room::default(), Tally::default());
        let mut groups = Vec::with_capacity(self.groups.len());
        for at in 0..self.groups.len() {
            self.weigh(at, (limits, near), &mut room, &mut tally, |fits| fits);
            if let Some(quick) = self.quick(&room.wanted) {
                groups.push((quick, at as u32, std::mem::take(&mut room.wanted)));
            }
        }
        groups.sort_by_key(|&(quick, at, _)| (quick, at));
        let mut found: Vec<Found> = Vec::new();
        let mut best = BinaryHeap::new();
        let total = groups.len();
        for (done, (quick, at, wanted)) in groups.into_iter().enumerate() {
            if quick > most(&best, count).max(least) || !goes_on(done, total) {
                break;
            }
            self.totals_of(at as usize, &mut room);
            for each in wanted {
                if let Some(timed) = self.timed(each, most(&best, count).max(least), &mut room) {
                    best.push(timed.estimate);
                    if best.len() > count {
                        best.pop();
                    }
                    found.push(timed);
                }
            }
        }
        let floor = most(&best, count).max(least);
        found.retain(|each| each.bound <= floor);
        found.sort_by_key(|each| (each.estimate, each.group, each.data));
        (found, tally, floor)
    }

    /// The layouts that do not fit, as far as their bounds are below `below`: the `count` fastest by
    /// estimate.
    pub fn refused(&self, limits: Limits, near: bool, below: u64, count: usize) -> Vec<Found> {
        let (mut room, mut tally, mut found) = (Room::default(), Tally::default(), Vec::new());
        for at in 0..self.groups.len() {
            self.weigh(at, (limits, near), &mut room, &mut tally, |fits| !fits);
            let wanted = std::mem::take(&mut room.wanted);
            if let Some(quick) = self.quick(&wanted).filter(|&quick| quick < below) {
                found.extend(wanted.into_iter().map(|each| (quick, each)));
            }
        }
        found.sort_by_key(|&(quick, each)| (quick, each.group, each.data));
        let mut timed: Vec<Found> = Vec::new();
        for (quick, each) in found {
            let most = timed.get(count.wrapping_sub(1)).map_or(below, |last| last.estimate);
            if quick > most || count == 0 {
                break;
            }
            self.totals_of(each.group as usize, &mut room);
            if let Some(each) = self.timed(each, most, &mut room).filter(|e| e.estimate < below) {
                timed.push(each);
                timed.sort_by_key(|each| (each.estimate, each.group, each.data));
                timed.truncate(count);
            }
        }
        timed
    }

    /// The least memory that the fullest rank of any layout needs.
    pub fn least_bytes(&self) -> u64 {
        let (mut room, mut tally) = (Room::default(), Tally::default());
        let limits = Limits { surely: 0, perhaps: 0 };
        let least = (0..self.groups.len()).filter_map(|at| {
            self.weigh(at, (limits, false), &mut room, &mut tally, |_| true);
            std::mem::take(&mut room.wanted).iter().map(|each| each.bytes).min()
        });
        least.min().unwrap_or(0)
    }

    fn stages_of(&self, group: &Group, split: u32, stages: &mut Vec<Stage>) {
        memory::stages(
            &self.pipelines[group.pipeline as usize],
            &self.splits[(group.splits.0 + split) as usize],
            &self.blocks[group.block as usize],
            stages,
        );
    }

    /// Makes room for a group's layouts, and finds what times need of their stages, which is the
    /// same with all divisions.
    pub(crate) fn totals_of(&self, at: usize, room: &mut Room) {
        let group = &self.groups[at];
        room.stages.resize((group.splits.1 - group.splits.0) as usize, Vec::new());
        room.stages.iter_mut().for_each(Vec::clear);
        self.stages_of(group, 0, &mut room.stages[0]);
    }

    /// The first division of a group that fits, or else the last.
    fn fewest(&self, group: &Group, data: u32, most: u64, stages: &mut [Vec<Stage>]) -> Weighed {
        let mut weighed = |split: u32| {
            let known = &mut stages[split as usize];
            if known.is_empty() {
                self.stages_of(group, split, known);
            }
            let block = &self.blocks[group.block as usize];
            let (stage, bytes) = fullest(known, block, &self.data[data as usize]);
            Weighed { split, stage, bytes }
        };
        let (mut low, mut high) = (0, group.splits.1 - group.splits.0 - 1);
        let mut found = None;
        while low < high {
            let middle = weighed(low.midpoint(high));
            if middle.bytes <= most {
                (high, found) = (middle.split, Some(middle));
            } else {
                low = middle.split + 1;
            }
        }
        found.filter(|each| each.split == high).unwrap_or_else(|| weighed(high))
    }

    /// Memory of the layouts of a group; `room` gets those that are wanted, by whether they fit.
    pub(crate) fn weigh(
        &self,
        at: usize,
        (limits, near): (Limits, bool),
        room: &mut Room,
        tally: &mut Tally,
        wants: impl Fn(bool) -> bool,
    ) {
        let group = &self.groups[at];
        self.totals_of(at, room);
        let most = if near { limits.perhaps } else { limits.surely };
        for index in group.data.0..group.data.1 {
            let Weighed { split, stage, bytes } = self.fewest(group, index, most, &mut room.stages);
            let answer = limits.answer(bytes);
            let count = match answer {
                Answer::Yes => &mut tally.yes,
                Answer::Near => &mut tally.near,
                Answer::No => &mut tally.no,
            };
            *count += 1;
            if wants(answer == Answer::Yes || near && answer == Answer::Near) {
                let group = at as u32;
                room.wanted.push(Found {
                    group,
                    data: index,
                    split,
                    bound: 0,
                    estimate: 0,
                    bytes,
                    stage,
                    answer,
                });
            }
        }
    }

    /// No bound of layouts of a group is below it.
    pub(crate) fn quick(&self, wanted: &[Found]) -> Option<u64> {
        let first = wanted.iter().min_by_key(|each| each.split)?;
        Some(self.walk(first, &[]).quick())
    }

    pub(crate) fn walk<'a>(&'a self, each: &Found, totals: &'a [Stage]) -> Walk<'a> {
        let group = &self.groups[each.group as usize];
        Walk {
            pipeline: &self.pipelines[group.pipeline as usize],
            split: &self.splits[(group.splits.0 + each.split) as usize],
            block: &self.blocks[group.block as usize],
            data: &self.data[each.data as usize],
            messages: &self.messages[group.messages as usize],
            totals,
        }
    }

    /// The layout with its times; none where its bound is above `most`.
    pub(crate) fn timed(&self, each: Found, most: u64, room: &mut Room) -> Option<Found> {
        let walk = self.walk(&each, &room.stages[0]);
        let bound = walk.step(&mut room.scratch);
        if bound > most {
            return None;
        }
        let group = &self.groups[each.group as usize];
        let dims = room.dims.entry(group.block);
        let dims = *dims.or_insert_with(|| apart::dims(walk.block, &self.scripts, self.slowdown));
        if dims.is_some_and(|dims| apart::holds(&walk, dims)) {
            return Some(Found { bound, estimate: bound, ..each });
        }
        let estimate = Estimate { walk: &walk, scripts: &self.scripts, slowdown: self.slowdown };
        let estimate = estimate.step(&mut room.estimate).max(bound);
        Some(Found { bound, estimate, ..each })
    }

    /// Peak bytes on a rank of each stage of a layout.
    pub fn held(&self, group: usize, data: usize, split: u32) -> Vec<Held> {
        let group = &self.groups[group];
        let block = &self.blocks[group.block as usize];
        let mut stages = Vec::new();
        self.stages_of(group, split, &mut stages);
        stages.iter().map(|stage| stage.held(block, &self.data[data])).collect()
    }

    /// The first division of a group with which a layout fits `most` bytes, and its bytes; the last
    /// one where none does.
    pub fn first_that_fits(&self, group: usize, data: u32, most: u64) -> (u32, u64) {
        let group = &self.groups[group];
        let mut stages = vec![Vec::new(); (group.splits.1 - group.splits.0) as usize];
        let found = self.fewest(group, data, most, &mut stages);
        (found.split, found.bytes)
    }
}

/// A division of a group: its place, the stage with the fullest rank, and its bytes.
#[derive(Clone, Copy)]
struct Weighed {
    split: u32,
    stage: u32,
    bytes: u64,
}

impl Limits {
    fn answer(&self, bytes: u64) -> Answer {
        if bytes <= self.surely {
            Answer::Yes
        } else if bytes <= self.perhaps {
            Answer::Near
        } else {
            Answer::No
        }
    }
}

/// The stage with the fullest rank, and its bytes.
fn fullest(stages: &[Stage], block: &Block, data: &Data) -> (u32, u64) {
    let totals = (0..).zip(stages).map(|(stage, each)| (stage, each.held(block, data).total()));
    totals.max_by_key(|&(stage, bytes)| (bytes, std::cmp::Reverse(stage))).unwrap_or((0, 0))
}

/// The most time of a layout that is among the `count` fastest, where `best` are known.
fn most(best: &BinaryHeap<u64>, count: usize) -> u64 {
    best.peek().copied().filter(|_| best.len() >= count).unwrap_or(u64::MAX)
}
