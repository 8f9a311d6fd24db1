//! The time of a phase by itself: all positions of its line enter together, and nothing else uses
//! the links.
//!
//! A plan whose positions all run one script looks the same from everywhere, so one position is
//! followed as if it sent to itself (`loopback.rs`): a message leaves when its link is free,
//! arrives after `hops * latency + bytes / bandwidth`, and is usable after delay and reduction. For
//! other plans an estimate: the busiest script's bytes one after the other, and its receptions'
//! latencies and delays. Not here: contention with other phases (the backends), and whether a phase
//! may really be timed so (`executor/lockstep.rs`).

use crate::loopback::{self, Loopback, Ties};
use crate::lowered::ReadyPlan;
use collective::{Script, To};
use rustc_hash::FxHashMap;
use topology::{Dim, Paths, Symmetry};
use units::{Bytes, Span};

/// Steps of a script that are followed; longer ones are estimated.
const STEPS: usize = 1 << 16;

/// A line in a physical dimension: position p is `p * stride` places from the first.
#[derive(Clone, Copy, Debug)]
pub struct Wire<'a> {
    /// Index of the dimension.
    pub index: usize,
    dim: &'a Dim,
    stride: u32,
    size: u32,
}

impl<'a> Wire<'a> {
    /// The dimension of a stack that holds the line of `size` positions `stride` ranks apart;
    /// `None` where it crosses dimensions.
    pub fn find(dims: &'a [Dim], stride: u32, size: u32) -> Option<Wire<'a>> {
        let mut inner = 1;
        for (index, dim) in dims.iter().enumerate() {
            let outer = inner * dim.size;
            let length = u64::from(stride) * u64::from(size);
            if stride >= inner
                && stride.is_multiple_of(inner)
                && u64::from(outer).is_multiple_of(length)
            {
                return Some(Wire { index, dim, stride: stride / inner, size });
            }
            inner = outer;
        }
        None
    }

    /// Distance between positions along the dimension.
    pub fn stride(&self) -> u32 {
        self.stride
    }

    /// Whether what runs backwards leaves by other links.
    pub fn has_directions(&self) -> bool {
        self.dim.block.has_ways_round(self.dim.size)
    }

    /// The link by which position 0 sends `to`, and the links on the way; where positions differ,
    /// those of the position that has most.
    fn way(&self, to: To, n: u32) -> (u32, u32) {
        let &Dim { block, size, .. } = self.dim;
        let way = |position: u32| {
            let (from, at) = (position * self.stride, to.position(position, n) * self.stride);
            let link = if at == from { 0 } else { block.direction(size, from, at) };
            (link, block.hops(size, from, at))
        };
        match block.symmetry() {
            Symmetry::None => (0..self.size).map(way).max_by_key(|w| w.1).unwrap_or_default(),
            Symmetry::Full | Symmetry::Rotation => way(0),
        }
    }
}

/// Cost of a phase by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes an NPU sends, over every link.
    pub sent: u64,
    /// From entering it to its end.
    pub alone: Span,
    /// The same without latencies, delays and reductions: the bytes alone.
    pub serial: Span,
    /// For how long it keeps the link it uses most.
    pub link: Span,
}

/// Cost of `plan` on a line of `wire`; `delay` passes before the first send and after each
/// reception.
pub fn cost(plan: &ReadyPlan, wire: &Wire, delay: Span) -> Cost {
    let (script, charges) = (&plan.plan.scripts[0], &plan.charges[0]);
    if !plan.plan.is_uniform() || script.steps.len() > STEPS {
        return estimate(plan, wire, delay);
    }
    let first =
        if script.steps.first().is_some_and(|s| s.to.is_some()) { delay } else { Span::ZERO };
    let wait = |j: u32| delay + charges[j as usize];
    Cost {
        sent: sent(script),
        alone: follow(plan, wire, Crossing::TakesLatency, first, wait),
        serial: bytes_alone(plan, wire),
        link: busiest(script, &plan.paced[0], wire),
    }
}

/// How fast a phase sends by itself, in GB/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// From its first byte to its last.
    pub alone: f64,
    /// Capacity of its links, were the busiest one never idle.
    pub links: f64,
    /// Whether what runs backwards may leave by other links.
    pub has_directions: bool,
}

/// The rate of `plan` on a line of `wire`, without latencies, delays and reductions; `None` where
/// positions differ, the script is long, or messages take links of NPUs in between.
pub fn rate(plan: &ReadyPlan, wire: &Wire) -> Option<Rate> {
    let script = &plan.plan.scripts[0];
    let passes =
        |to: To| wire.dim.block.paths() == Paths::Relayed && wire.way(to, plan.plan.n).1 > 1;
    if !plan.plan.is_uniform()
        || script.steps.len() > STEPS
        || script.steps.iter().filter_map(|s| s.to).any(passes)
    {
        return None;
    }
    let serial = bytes_alone(plan, wire);
    let gb_per_s =
        |time: Span| if time == Span::ZERO { 0.0 } else { sent(script) as f64 / time.as_ns() };
    let (alone, links) = (gb_per_s(serial), gb_per_s(busiest(script, &plan.paced[0], wire)));
    Some(Rate { alone, links, has_directions: wire.dim.block.paths() != Paths::Switched })
}

/// The time of a phase without latencies, delays and reductions.
fn bytes_alone(plan: &ReadyPlan, wire: &Wire) -> Span {
    follow(plan, wire, Crossing::IsInstant, Span::ZERO, |_| Span::ZERO)
}

fn sent(script: &Script) -> u64 {
    script.steps.iter().map(|s| if s.to.is_some() { s.bytes } else { 0 }).sum()
}

/// For how long position 0 of a uniform plan keeps its busiest link.
fn busiest(script: &Script, paced: &[u64], wire: &Wire) -> Span {
    let n = wire.size;
    let mut by_link: FxHashMap<u32, Span> = FxHashMap::default();
    let sends = script.steps.iter().zip(paced).filter_map(|(s, &bytes)| Some((s.to?, bytes)));
    for (to, bytes) in sends {
        *by_link.entry(wire.way(to, n).0).or_default() += wire.dim.bandwidth.span(Bytes(bytes));
    }
    by_link.into_values().max().unwrap_or_default()
}

fn estimate(plan: &ReadyPlan, wire: &Wire, delay: Span) -> Cost {
    let hop = wire.dim.latency * u64::from(wire.dim.block.hops(wire.dim.size, 0, wire.stride));
    let of_script = |(script, charges): (&Script, &Vec<Span>)| {
        let serial = wire.dim.bandwidth.span(Bytes(sent(script)));
        let waits = (hop + delay) * charges.len() as u64 + charges.iter().copied().sum::<Span>();
        Cost { sent: sent(script), alone: serial + waits + delay, serial, link: serial }
    };
    plan.plan
        .scripts
        .iter()
        .zip(&plan.charges)
        .map(of_script)
        .max_by_key(|c| c.alone)
        .unwrap_or_default()
}

/// Follows the script of a uniform plan (see [`mod@crate::loopback`]): a message leaves when its
/// link is free. `wait(j)` passes between the j-th reception and its use. The time of the last
/// event.
fn follow(
    plan: &ReadyPlan,
    wire: &Wire,
    crossing: Crossing,
    start: Span,
    wait: impl Fn(u32) -> Span,
) -> Span {
    let (dim, n) = (wire.dim, plan.plan.n);
    let mut free: FxHashMap<u32, Span> = FxHashMap::default();
    let send = |now: Span, step: u32, to: To, _: u64| {
        let (link, hops) = wire.way(to, n);
        let free = free.entry(link).or_default();
        *free = now.max(*free) + dim.bandwidth.span(Bytes(plan.paced[0][step as usize]));
        Some(match crossing {
            Crossing::TakesLatency => *free + dim.latency * u64::from(hops),
            Crossing::IsInstant => *free,
        })
    };
    let steps = &plan.plan.scripts[0].steps;
    let script = Loopback { steps, start, wait, ties: Ties::Rounds };
    loopback::follow(&script, send).map_or(start, |followed| followed.end)
}

/// Time on the way over a link in addition to the bytes.
#[derive(Clone, Copy)]
enum Crossing {
    TakesLatency,
    IsInstant,
}
