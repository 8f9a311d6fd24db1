//! When a whole collective would end that runs alone: chunks go from queue to queue as in the
//! executor.
//!
//! A phase ends at `max(start + alone, link free + link)`: it takes what it takes by itself, and a
//! link serves one phase after the other. Exact where one chunk at a time is in a dimension and all
//! positions run alike; else an estimate. Not here: transfers (the executor).

use super::job::{Costs, Job, Order};
use crate::lowered::{Lane, buffer};
use graph::Problem;
use platform::{Dispatch, Queues};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use units::Span;

/// A phase of a chunk: where it waits, what it leaves by, what it takes.
#[derive(Clone, Copy)]
struct Stage {
    queue: usize,
    link: usize,
    alone: Span,
    keeps: Span,
    bytes: u64,
}

/// The end of the last chunk when chunk i takes `orders[i]`.
///
/// # Errors
/// Those of `costs`.
pub(super) fn end(job: &Job, orders: &[Order], costs: &Costs) -> Result<Span, Problem> {
    let mut known: FxHashMap<(&Order, u64, u32), Rc<[Stage]>> = FxHashMap::default();
    let mut chunks = Vec::with_capacity(orders.len());
    for (chunk, (order, &bytes)) in (0..).zip(orders.iter().zip(job.chunks)) {
        // Turns between queues repeat.
        let turn = chunk % turns(job.queues);
        let stages = match known.get(&(order, bytes, turn)) {
            Some(stages) => stages.clone(),
            None => stages(job, order, bytes, turn, costs)?,
        };
        known.insert((order, bytes, turn), stages.clone());
        chunks.push(stages);
    }
    Ok(Pipeline::new(job, chunks).run())
}

/// A number that all counts of queues a lane can have divide.
fn turns(queues: &[Queues]) -> u32 {
    let mut counts: Vec<u32> = queues.iter().map(|queues| queues.count).collect();
    counts.sort_unstable();
    counts.dedup();
    let lanes = |count: u32| [count, count / 2, count - count / 2].into_iter().filter(|&n| n > 0);
    counts.into_iter().flat_map(lanes).fold(1, u32::saturating_mul)
}

/// The first queue of the dimension at a place, where those of all stand in a row.
fn first_queue(job: &Job, at: usize) -> usize {
    job.queues[..at].iter().map(|queues| queues.count as usize).sum()
}

fn stages(
    job: &Job,
    order: &Order,
    bytes: u64,
    turn: u32,
    costs: &Costs,
) -> Result<Rc<[Stage]>, Problem> {
    let phases = job.phases(bytes, order);
    let lanes = Lane::of(job.kind, &phases);
    let stage = |(phase, lane): (&collective::Phase, &Lane)| {
        let (at, cost) = (job.place(phase), costs(phase)?);
        let (queue, backward) = lane.queue(job.queues[at].count, turn);
        let link = 2 * at + usize::from(backward && job.directions[at]);
        let bytes = buffer(phase.kind, phase.bytes, job.dims[at].1);
        Ok(Stage {
            queue: first_queue(job, at) + queue as usize,
            link,
            alone: cost.alone,
            keeps: cost.link,
            bytes,
        })
    };
    phases.iter().zip(&lanes).map(stage).collect()
}

#[derive(Clone, Default)]
struct Queue {
    running: u32,
    waiting: VecDeque<usize>,
}

/// The chunks on their way.
struct Pipeline {
    chunks: Vec<Rc<[Stage]>>,
    /// The stage each chunk is at.
    at: Vec<usize>,
    queues: Vec<Queue>,
    /// When each link is free.
    free: Vec<Span>,
    /// Chunks at once in each queue.
    rooms: Vec<u32>,
    smallest_first: bool,
    /// Chunks in the ready queue, how many are in their first stage, and when they leave.
    ready: VecDeque<usize>,
    first: u32,
    dispatch: Option<Dispatch>,
    /// Ends of stages; at one instant by chunk.
    ends: BinaryHeap<Reverse<(Span, usize)>>,
}

impl Pipeline {
    fn new(job: &Job, chunks: Vec<Rc<[Stage]>>) -> Pipeline {
        let at = vec![0; chunks.len()];
        let rooms = job.queues.iter().flat_map(|dim| (0..dim.count).map(|_| dim.room));
        let rooms: Vec<u32> = rooms.collect();
        let queues = vec![Queue::default(); rooms.len()];
        let free = vec![Span::ZERO; 2 * job.dims.len()];
        Pipeline {
            chunks,
            at,
            queues,
            free,
            rooms,
            smallest_first: job.smallest_first,
            ready: VecDeque::new(),
            first: 0,
            dispatch: job.dispatch,
            ends: BinaryHeap::new(),
        }
    }

    fn run(mut self) -> Span {
        let mut now = Span::ZERO;
        for chunk in 0..self.chunks.len() {
            if self.dispatch.is_some() {
                self.wait(chunk);
            } else {
                self.enter(chunk, now);
            }
        }
        self.dispatch(now);
        while let Some(Reverse((time, chunk))) = self.ends.pop() {
            now = time;
            let old = self.chunks[chunk][self.at[chunk]].queue;
            self.queues[old].running -= 1;
            self.at[chunk] += 1;
            self.enter(chunk, now);
            self.fill(old, now);
            if self.at[chunk] == 1 && self.dispatch.is_some() {
                self.first -= 1;
                self.dispatch(now);
            }
        }
        now
    }

    /// Brings a chunk into the ready queue.
    fn wait(&mut self, chunk: usize) {
        let bytes = |chunk: usize| self.chunks[chunk].first().map(|stage| stage.bytes);
        let ahead = |&other: &usize| !self.smallest_first || bytes(other) <= bytes(chunk);
        let behind = self.ready.iter().rposition(ahead).map_or(0, |i| i + 1);
        self.ready.insert(behind, chunk);
    }

    /// Lets chunks out of the ready queue, as long as its limits allow.
    fn dispatch(&mut self, now: Span) {
        let Some(Dispatch { below, chunks }) = self.dispatch else { return };
        while self.first < below && !self.ready.is_empty() {
            let count = self.ready.len().min(chunks as usize);
            self.first += count as u32;
            let batch: Vec<usize> = self.ready.drain(..count).collect();
            batch.into_iter().for_each(|chunk| self.enter(chunk, now));
        }
    }

    /// Brings a chunk into the queue of its stage, and starts it if there is room; nothing when it
    /// is over.
    fn enter(&mut self, chunk: usize, now: Span) {
        let Some(stage) = self.chunks[chunk].get(self.at[chunk]).copied() else { return };
        let ahead = |&other: &usize| {
            !self.smallest_first || self.chunks[other][self.at[other]].bytes <= stage.bytes
        };
        let behind = self.queues[stage.queue].waiting.iter().rposition(ahead).map_or(0, |i| i + 1);
        self.queues[stage.queue].waiting.insert(behind, chunk);
        self.fill(stage.queue, now);
    }

    fn fill(&mut self, queue: usize, now: Span) {
        while self.queues[queue].running < self.rooms[queue] {
            let Some(chunk) = self.queues[queue].waiting.pop_front() else { return };
            self.queues[queue].running += 1;
            let stage = self.chunks[chunk][self.at[chunk]];
            let free = now.max(self.free[stage.link]) + stage.keeps;
            self.free[stage.link] = free;
            self.ends.push(Reverse(((now + stage.alone).max(free), chunk)));
        }
    }
}
