//! What a phase takes by itself: all positions of its line enter together and nobody else uses the links.
//!
//! A plan whose positions all run one script looks the same from everywhere, so one position is followed as if it sent to itself: a message
//! leaves when its link is free, arrives after `hops * latency + bytes / bandwidth`, and is usable after delay and reduction. For other plans an
//! estimate: the busiest script's bytes one after the other, and its receptions' latencies and delays.
//! Not here: contention with other phases (the backends), and whether a phase may really be timed so (`executor/lockstep.rs`).

use crate::lowering::ReadyPlan;
use collective::{Step, To};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use topology::{Block, Dim};
use units::{Bandwidth, Bytes, Span};

/// Steps of a script that are followed; longer ones are estimated.
const STEPS: usize = 1 << 16;

/// A line in a physical dimension: position p is `p * stride` places from the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire<'a> {
    dim: &'a Dim,
    stride: u32,
}

impl<'a> Wire<'a> {
    /// The dimension of a stack that holds the line of `size` positions `stride` ranks apart; `None` where it crosses dimensions.
    pub fn find(dims: &'a [Dim], stride: u32, size: u32) -> Option<Wire<'a>> {
        let mut inner = 1;
        for dim in dims {
            let outer = inner * dim.size;
            if stride >= inner && stride.is_multiple_of(inner) && u64::from(stride) * u64::from(size) <= outer.into() {
                return Some(Wire { dim, stride: stride / inner });
            }
            inner = outer;
        }
        None
    }

    /// Bandwidth of all links that leave an NPU in this dimension.
    pub fn all_links(&self) -> Bandwidth {
        Bandwidth(self.dim.bandwidth.0.saturating_mul(links(self.dim.block, self.dim.size).into()))
    }

    /// The link by which position 0 sends to `position`, and the links on the way.
    fn way(&self, position: u32) -> (u32, u32) {
        let (n, at) = (self.dim.size, position * self.stride);
        let link = match self.dim.block {
            Block::Ring => u32::from(2 * at > n),
            Block::FullyConnected => at,
            Block::Switch => 0,
        };
        (link, self.dim.block.hops(n, 0, at))
    }
}

/// Links that leave an NPU in a block of `size`.
pub(crate) fn links(block: Block, size: u32) -> u32 {
    match block {
        Block::Ring => size.saturating_sub(1).min(2),
        Block::FullyConnected => size.saturating_sub(1),
        Block::Switch => 1,
    }
}

/// Time of a phase by itself, from the moment it enters.
pub(crate) fn time(plan: &ReadyPlan, wire: &Wire, delay: Span) -> Span {
    let (script, charges) = (&plan.plan.scripts[0], &plan.charges[0]);
    if plan.plan.is_uniform() && script.steps.len() <= STEPS {
        let first = if script.steps.first().is_some_and(|s| s.to.is_some()) { delay } else { Span::ZERO };
        return Follow::new(&script.steps, plan.plan.n, wire, true).to_the_end(first, |j| delay + charges[j]);
    }
    estimate(plan, wire, delay)
}

/// Time in which the bytes of a phase leave an NPU by the links its algorithm uses, without latencies, delays and reductions, and those
/// bytes; `None` where it is not known.
pub(crate) fn bytes_alone(plan: &ReadyPlan, wire: &Wire) -> Option<(u64, Span)> {
    let script = &plan.plan.scripts[0];
    if !plan.plan.is_uniform() || script.steps.len() > STEPS {
        return None;
    }
    let sent = script.steps.iter().map(|s| if s.to.is_some() { s.bytes } else { 0 }).sum();
    Some((sent, Follow::new(&script.steps, plan.plan.n, wire, false).to_the_end(Span::ZERO, |_| Span::ZERO)))
}

fn estimate(plan: &ReadyPlan, wire: &Wire, delay: Span) -> Span {
    let hop = wire.dim.latency * u64::from(wire.dim.block.hops(wire.dim.size, 0, wire.stride % wire.dim.size));
    let of_script = |(script, charges): (&collective::Script, &Vec<Span>)| {
        let sent: u64 = script.steps.iter().map(|s| if s.to.is_some() { s.bytes } else { 0 }).sum();
        let waits = (hop + delay) * charges.len() as u64;
        wire.dim.bandwidth.span(Bytes(sent)) + waits + charges.iter().copied().sum::<Span>() + delay
    };
    plan.plan.scripts.iter().zip(&plan.charges).map(of_script).max().unwrap_or_default()
}

/// One position on its way through its script.
struct Follow<'a> {
    steps: &'a [Step],
    n: u32,
    wire: &'a Wire<'a>,
    /// Links take time to cross.
    latency: bool,
    fired: usize,
    received: u32,
    usable: u32,
    next: usize,
    arrival: Vec<Option<Span>>,
    posted: Vec<Option<Span>>,
    free: FxHashMap<u32, Span>,
    /// When something is received (false) or becomes usable (true).
    events: BinaryHeap<Reverse<(Span, bool)>>,
}

impl<'a> Follow<'a> {
    fn new(steps: &'a [Step], n: u32, wire: &'a Wire<'a>, latency: bool) -> Follow<'a> {
        let receives = steps.iter().filter(|s| s.from.is_some()).count();
        let (arrival, posted) = (vec![None; receives], vec![None; receives]);
        let (free, events) = (FxHashMap::default(), BinaryHeap::new());
        let (fired, next, received, usable) = (0, 0, 0, 0);
        Follow { steps, n, wire, latency, fired, received, usable, next, arrival, posted, free, events }
    }

    /// Follows the script from `start` on; `wait(j)` passes between the j-th reception and its use. The time of the last event.
    fn to_the_end(mut self, start: Span, wait: impl Fn(usize) -> Span) -> Span {
        let mut now = start;
        self.fire(now);
        while let Some(Reverse((time, usable))) = self.events.pop() {
            now = time;
            if usable {
                self.usable += 1;
                self.fire(now);
            } else {
                self.events.push(Reverse((now + wait(self.received as usize), true)));
                self.received += 1;
            }
        }
        now
    }

    fn fire(&mut self, now: Span) {
        while let Some(&step) = self.steps.get(self.fired) {
            if step.after_usable > self.usable || step.after_received > self.received {
                return;
            }
            self.fired += 1;
            if let Some(to) = step.to {
                self.send(now, to, &step);
            }
            if step.from.is_some() {
                self.posted[self.next] = Some(now);
                self.meet(self.next);
                self.next += 1;
            }
        }
    }

    fn send(&mut self, now: Span, to: To, step: &Step) {
        let (link, hops) = self.wire.way(to.position(0, self.n));
        let free = self.free.entry(link).or_default();
        *free = now.max(*free) + self.wire.dim.bandwidth.span(Bytes(step.bytes));
        let latency = if self.latency { self.wire.dim.latency * u64::from(hops) } else { Span::ZERO };
        let arrival = *free + latency;
        self.arrival[step.slot as usize] = Some(arrival);
        self.meet(step.slot as usize);
    }

    /// A message is received once it is there and its receive is posted.
    fn meet(&mut self, slot: usize) {
        if let (Some(arrival), Some(posted)) = (self.arrival[slot], self.posted[slot]) {
            self.events.push(Reverse((arrival.max(posted), false)));
        }
    }
}
