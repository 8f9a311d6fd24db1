//! One load point: messages at a given rate until the mean latency is known, or until it is clear
//! that the network cannot carry them.
//!
//! Messages are numbered in the order in which they are created. A run is looked at when 2,000
//! messages (20 of each sender, if that is more) have been created, and again whenever their number
//! has doubled. Then the run goes on until all of them have arrived, with the same load, so that
//! the last of them meet the same traffic. The warm-up is cut off by MSER over 200 batches. The run
//! is over when what is left has a confidence interval that is narrow enough. Where it is known how
//! long each message takes alone, that is the interval of the slowdown, otherwise of the latency.

use crate::pattern::Destinations;
use crate::sizes::Sizes;
use crate::statistics::{Interval, interval, warm_up};
use engine::Random;
use network::{Backend, Delivery, Stuck, Transfer, Usage};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{Span, Time};

/// Messages before the first look at a run.
const FIRST: u64 = 2_000;
/// The same, for each sender.
const EACH: u64 = 20;
/// Batches over which the warm-up is searched.
const BATCHES: usize = 200;
/// Correlation of neighbouring batches from which the confidence interval is not trusted.
const CORRELATED: f64 = 0.4;
/// Messages between two calls of the progress hook.
const OFTEN: u64 = 4_096;
/// Latency that marks an open message.
const OPEN: u64 = u64::MAX;
/// Most messages that are timed alone.
const ALONE: u32 = 1_000;
/// Most messages that warm a connection up.
const WARM: u32 = 64;

/// When messages are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At random: a Poisson process for each NPU.
    Poisson,
    /// At equal distances, from a random start for each NPU.
    Periodic,
}

/// A load point.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Pattern of sources and destinations.
    pub destinations: Destinations,
    /// Bytes of a message.
    pub sizes: Sizes,
    /// Mean time between messages of the busiest sender, ps.
    pub gap: f64,
    /// When messages are created.
    pub arrivals: Arrivals,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Relative half-width of the confidence interval at which a run is over.
    pub precision: f64,
    /// Mean latency from which the network counts as saturated. Where slowdowns are known, the mean
    /// slowdown in millionths.
    pub latency_max: Span,
    /// Most messages of a run.
    pub messages_max: u64,
}

/// How long a message takes that is alone in the network, by source, destination and bytes.
pub type Unloaded<'a> = &'a dyn Fn(u32, u32, u64) -> Span;

/// A message of a run, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Source.
    pub src: u32,
    /// Destination.
    pub dst: u32,
    /// Bytes.
    pub bytes: u64,
    /// When it was created.
    pub created: Time,
    /// Time until it arrived. Of a message that had not arrived, its age.
    pub took: Span,
    /// Whether it had arrived.
    pub arrived: bool,
    /// Time that it takes alone.
    pub alone: Span,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The mean latency is known as well as asked for.
    Steady,
    /// The latency exceeds its limit, or messages pile up.
    Saturated,
    /// The number of messages ran out first.
    Undecided,
    /// The network locked up.
    Stuck(Stuck),
}

/// Latencies of messages, from creation to arrival, ps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Half the width of the mean's 95 % confidence interval.
    pub half_width: f64,
    /// Smallest.
    pub min: u64,
    /// 50th, 95th, 99th and 99.9th percentile.
    pub percentiles: [u64; 4],
    /// Largest.
    pub max: u64,
}

/// Traffic of a link in the second half of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkLoad {
    /// Node it leaves.
    pub from: u32,
    /// Node it enters.
    pub to: u32,
    /// Dimension, 0-based.
    pub dim: u32,
    /// Share of the time in which it was sending.
    pub utilisation: f64,
    /// Bytes per second.
    pub rate: f64,
}

/// Measurements of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// How it ended.
    pub outcome: Outcome,
    /// Messages created.
    pub messages: u64,
    /// Messages of the warm-up, which no statistic counts.
    pub warm_up: u64,
    /// Latencies after the warm-up. Messages that have not arrived count with their age.
    pub latency: Latency,
    /// Slowdowns in millionths, and the messages that have them; none where it is not known how
    /// long a message takes alone.
    pub slowdown: Option<(Latency, Vec<Sent>)>,
    /// Bytes per second and sender created in the second half of the run.
    pub offered: f64,
    /// Bytes per second and sender that arrived in that time.
    pub accepted: f64,
    /// Simulated time.
    pub end: Time,
    /// Links, in the order of the network; none where it does not report them.
    pub links: Vec<LinkLoad>,
}

/// How far a run is: messages created, most messages, and simulated time.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Messages created.
    pub messages: u64,
    /// Most messages.
    pub messages_max: u64,
    /// Simulated time.
    pub now: Time,
}

/// State of a run when this number of messages had been created.
#[derive(Clone, Default)]
struct Mark {
    time: Time,
    created: u64,
    created_bytes: u64,
    arrived_bytes: u64,
    usage: Usage,
}

struct Run<'a, B: Backend + ?Sized> {
    network: &'a mut B,
    unloaded: Option<Unloaded<'a>>,
    traffic: Traffic,
    /// The next message of each sender.
    next: BinaryHeap<Reverse<(Time, u32)>>,
    gaps: Vec<f64>,
    randoms: Vec<Random>,
    created: Vec<Time>,
    latencies: Vec<u64>,
    /// Source, destination, bytes and time alone of each message; empty where no slowdown is asked
    /// for.
    sent: Vec<(u32, u32, u64, Span)>,
    created_bytes: u64,
    arrived: u64,
    arrived_bytes: u64,
    /// All messages before it have arrived.
    open: usize,
    now: Time,
    deliveries: Vec<Delivery>,
}

impl Traffic {
    /// Runs on `network`, which must be new. With `unloaded`, slowdowns are known: how many times
    /// longer messages take than alone. `hook` is called now and then; the run ends when it returns
    /// false, with `None`. Sizes that are drawn need `unloaded`.
    pub fn run<B: Backend + ?Sized>(
        self,
        network: &mut B,
        unloaded: Option<Unloaded<'_>>,
        hook: &mut dyn FnMut(Progress) -> bool,
    ) -> Option<Measured> {
        Run::new(network, unloaded, self).finish(hook)
    }
}

/// Mean latencies of messages that are alone in the network, ps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lone {
    /// The first message between two NPUs, which opens their connection.
    pub first: f64,
    /// A later one, when it takes no less than the one before: windows have grown.
    pub later: f64,
}

/// Latencies of messages that are alone in the network: of one draw for each sender, at most 1,000.
pub fn alone<B: Backend + ?Sized>(
    mut destinations: Destinations,
    bytes: u64,
    seed: u64,
    network: &mut B,
) -> Lone {
    let mut random = Random::new(seed);
    let senders: Vec<u32> = destinations.senders().map(|(src, _)| src).collect();
    let count = (senders.len() as u32).min(ALONE);
    let (mut now, mut first, mut later) = (Time::ZERO, 0.0, 0.0);
    for number in 0..count {
        let src = senders[(u64::from(number) * senders.len() as u64 / u64::from(count)) as usize];
        let dst = destinations.next(src, &mut random);
        let mut send = || send(network, &mut now, message(src, dst, bytes, 0));
        let cold = send();
        let mut warm = cold;
        for _ in 0..WARM {
            let took = send();
            let is_warm = took >= warm;
            warm = took;
            if is_warm {
                break;
            }
        }
        (first, later) = (first + cold.0 as f64, later + warm.0 as f64);
    }
    let count = f64::from(count.max(1));
    Lone { first: first / count, later: later / count }
}

/// How long a message takes that starts `now`, and moves `now` to when everything is quiet.
fn send<B: Backend + ?Sized>(network: &mut B, now: &mut Time, message: Transfer) -> Span {
    let (mut deliveries, begin) = (Vec::new(), *now);
    network.start(begin, message);
    while let Some(event) = network.next_event() {
        network.advance(event, &mut deliveries);
    }
    let took = deliveries.first().map_or(Span::ZERO, |delivery| delivery.time.since(begin));
    *now = begin + took + took;
    took
}

fn message(src: u32, dst: u32, bytes: u64, token: u64) -> Transfer {
    Transfer { src, dst, bytes, paced: bytes, token, weight: 1 }
}

impl<'a, B: Backend + ?Sized> Run<'a, B> {
    fn new(network: &'a mut B, unloaded: Option<Unloaded<'a>>, traffic: Traffic) -> Run<'a, B> {
        let senders: Vec<(u32, f64)> = traffic.destinations.senders().collect();
        let most = senders.last().map_or(0, |(src, _)| *src as usize + 1);
        let mut seeds = Random::new(traffic.seed);
        let mut run = Run {
            network,
            unloaded,
            next: BinaryHeap::new(),
            gaps: vec![0.0; most],
            randoms: (0..most).map(|_| Random::new(seeds.bits())).collect(),
            created: Vec::new(),
            latencies: Vec::new(),
            sent: Vec::new(),
            created_bytes: 0,
            arrived: 0,
            arrived_bytes: 0,
            open: 0,
            now: Time::ZERO,
            deliveries: Vec::new(),
            traffic,
        };
        for (src, rate) in senders {
            run.gaps[src as usize] = run.traffic.gap / rate;
            let first = match run.traffic.arrivals {
                Arrivals::Poisson => run.gap(src),
                Arrivals::Periodic => {
                    let share = run.randoms[src as usize].below(1 << 32) as f64 / 2f64.powi(32);
                    Span((run.gaps[src as usize] * share) as u64)
                }
            };
            run.next.push(Reverse((Time::ZERO + first, src)));
        }
        run
    }

    /// Time to the next message of a sender.
    fn gap(&mut self, src: u32) -> Span {
        let mean = self.gaps[src as usize];
        let times = match self.traffic.arrivals {
            Arrivals::Poisson => self.randoms[src as usize].exponential() as f64 / 2f64.powi(32),
            Arrivals::Periodic => 1.0,
        };
        Span((mean * times).round() as u64)
    }

    /// Creates the next message, when everything before it has happened.
    fn create(&mut self) -> Result<(), Stuck> {
        let Some(Reverse((at, src))) = self.next.pop() else { return Ok(()) };
        self.advance(at)?;
        self.now = at;
        let dst = self.traffic.destinations.next(src, &mut self.randoms[src as usize]);
        let bytes = self.traffic.sizes.next(&mut self.randoms[src as usize]);
        let token = self.created.len() as u64;
        self.created.push(at);
        self.latencies.push(OPEN);
        self.created_bytes += bytes;
        if let Some(unloaded) = self.unloaded {
            self.sent.push((src, dst, bytes, unloaded(src, dst, bytes)));
        }
        self.network.start(at, message(src, dst, bytes, token));
        let gap = self.gap(src);
        self.next.push(Reverse((at + gap, src)));
        Ok(())
    }

    /// Lets everything happen that comes before `at`.
    fn advance(&mut self, at: Time) -> Result<(), Stuck> {
        while let Some(event) = self.network.next_event() {
            if event >= at {
                return Ok(());
            }
            self.network.advance(Time(at.0 - 1), &mut self.deliveries);
            for Delivery { token, time } in self.deliveries.drain(..) {
                self.latencies[token as usize] = time.since(self.created[token as usize]).0;
                self.arrived += 1;
                self.arrived_bytes += match self.traffic.sizes {
                    Sizes::Fixed(bytes) => bytes,
                    Sizes::Drawn(_) => self.sent[token as usize].2,
                };
            }
        }
        match self.arrived < self.created.len() as u64 {
            true => self.network.stalled().map_or(Ok(()), Err),
            false => Ok(()),
        }
    }

    fn mark(&self) -> Mark {
        Mark {
            time: self.now,
            created: self.created.len() as u64,
            created_bytes: self.created_bytes,
            arrived_bytes: self.arrived_bytes,
            usage: self.network.usage(self.now),
        }
    }

    fn finish(mut self, hook: &mut dyn FnMut(Progress) -> bool) -> Option<Measured> {
        let senders = self.next.len() as u64;
        let first = (EACH * senders).max(FIRST).min(self.traffic.messages_max.max(2));
        let mut goal = first;
        let mut begin = match self.create_until(first / 2, hook)? {
            Ok(()) => self.mark(),
            Err(stuck) => return Some(self.measured(Outcome::Stuck(stuck), &Mark::default())),
        };
        loop {
            let (outcome, end) = match self.round(goal, hook)? {
                Ok((outcome, end)) => (outcome, end),
                Err(stuck) => (Some(Outcome::Stuck(stuck)), self.mark()),
            };
            if let Some(outcome) = outcome {
                let mut found = self.measured(outcome, &begin);
                found.between(&begin, &end, senders);
                return Some(found);
            }
            (begin, goal) = (end, (2 * goal).min(self.traffic.messages_max));
        }
    }

    /// Goes on to `goal` messages and until they have arrived. Returns how the run ends there, if
    /// it does, and where it was at `goal`. `None` when the hook stops it.
    #[allow(clippy::type_complexity)] // stopped, stuck, or how far it is
    fn round(
        &mut self,
        goal: u64,
        hook: &mut dyn FnMut(Progress) -> bool,
    ) -> Option<Result<(Option<Outcome>, Mark), Stuck>> {
        if let Err(stuck) = self.create_until(goal, hook)? {
            return Some(Err(stuck));
        }
        let end = self.mark();
        while !self.have_arrived(goal as usize) && (self.created.len() as u64) < 2 * goal {
            if let Err(stuck) = self.create_until(self.created.len() as u64 + 1, hook)? {
                return Some(Err(stuck));
            }
        }
        Some(Ok((self.verdict(goal), end)))
    }

    /// Latencies of the first `count` messages. One that has not arrived counts with its age.
    fn ages(&self, count: usize) -> Vec<u64> {
        let age = |(&latency, &created): (&u64, &Time)| match latency {
            OPEN => self.now.since(created).0,
            latency => latency,
        };
        self.latencies.iter().zip(&self.created).take(count).map(age).collect()
    }

    /// Values of the first `count` messages whose mean decides: slowdowns in millionths where they
    /// are known, otherwise latencies.
    fn values(&self, count: usize) -> Vec<u64> {
        let ages = self.ages(count);
        match self.unloaded {
            Some(_) => self.slowdowns(&ages),
            None => ages,
        }
    }

    /// Slowdowns in millionths of the first messages, which have these ages. One that has not
    /// arrived will take no less than alone.
    fn slowdowns(&self, ages: &[u64]) -> Vec<u64> {
        let slowdown = |at: usize| {
            let alone = self.sent[at].3.0.max(1);
            let age = if self.latencies[at] == OPEN { ages[at].max(alone) } else { ages[at] };
            (u128::from(age) * 1_000_000 / u128::from(alone)) as u64
        };
        (0..ages.len()).map(slowdown).collect()
    }

    fn create_until(
        &mut self,
        goal: u64,
        hook: &mut dyn FnMut(Progress) -> bool,
    ) -> Option<Result<(), Stuck>> {
        while (self.created.len() as u64) < goal {
            let messages = self.created.len() as u64;
            let messages_max = self.traffic.messages_max;
            if messages.is_multiple_of(OFTEN)
                && !hook(Progress { messages, messages_max, now: self.now })
            {
                return None;
            }
            if let Err(stuck) = self.create() {
                return Some(Err(stuck));
            }
        }
        Some(Ok(()))
    }

    fn have_arrived(&mut self, goal: usize) -> bool {
        while self.open < goal && self.latencies[self.open] != OPEN {
            self.open += 1;
        }
        self.open >= goal
    }

    /// How the run ends after the first `goal` messages, if it does.
    fn verdict(&self, goal: u64) -> Option<Outcome> {
        let all = self.values(goal as usize);
        let cut = cut(&all);
        let Interval { mean, half_width, correlation } = interval(&all[cut..]);
        if mean > self.traffic.latency_max.0 as f64 {
            return Some(Outcome::Saturated);
        }
        let is_known = half_width <= mean * self.traffic.precision && correlation <= CORRELATED;
        let has_arrived = self.open >= goal as usize;
        if is_known && has_arrived && (cut as u64) < goal * 2 / 5 {
            return Some(Outcome::Steady);
        }
        (goal >= self.traffic.messages_max).then_some(Outcome::Undecided)
    }

    fn measured(&self, outcome: Outcome, begin: &Mark) -> Measured {
        let count = match outcome {
            Outcome::Steady => self.open,
            _ => self.created.len(),
        };
        let all = self.ages(count);
        let cut = match outcome {
            Outcome::Steady | Outcome::Undecided => cut(&self.values(count)),
            Outcome::Saturated | Outcome::Stuck(_) => begin.created as usize,
        };
        Measured {
            outcome,
            messages: self.created.len() as u64,
            warm_up: cut as u64,
            latency: Latency::of(&all[cut..]),
            slowdown: self.unloaded.map(|_| self.sent(&all, cut)),
            offered: 0.0,
            accepted: 0.0,
            end: self.now,
            links: Vec::new(),
        }
    }

    /// Slowdowns of the messages after the first `cut`, and these messages. All have these ages.
    fn sent(&self, ages: &[u64], cut: usize) -> (Latency, Vec<Sent>) {
        let sent = |at: usize| {
            let (src, dst, bytes, alone) = self.sent[at];
            let (created, took) = (self.created[at], Span(ages[at]));
            Sent { src, dst, bytes, created, took, arrived: self.latencies[at] != OPEN, alone }
        };
        let slowdown = Latency::of(&self.slowdowns(ages)[cut..]);
        (slowdown, (cut..ages.len()).map(sent).collect())
    }
}

/// How many latencies belong to the warm-up.
fn cut(latencies: &[u64]) -> usize {
    let size = (latencies.len() / BATCHES).max(1);
    let mean = |batch: &[u64]| batch.iter().map(|&x| x as f64).sum::<f64>() / size as f64;
    let means: Vec<f64> = latencies.chunks_exact(size).map(mean).collect();
    warm_up(&means) * size
}

impl Latency {
    fn of(latencies: &[u64]) -> Latency {
        let mut sorted = latencies.to_vec();
        sorted.sort_unstable();
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            return Latency::default();
        };
        let Interval { mean, half_width, .. } = interval(latencies);
        // The smallest value that a share of all does not exceed.
        let at = |thousandths: usize| sorted[(sorted.len() * thousandths).div_ceil(1000) - 1];
        Latency { mean, half_width, min, percentiles: [500, 950, 990, 999].map(at), max }
    }
}

impl Measured {
    /// Adds what was offered, accepted and carried from `begin` to `end`.
    fn between(&mut self, begin: &Mark, end: &Mark, senders: u64) {
        let span = end.time.since(begin.time).0 as f64;
        if span == 0.0 {
            return;
        }
        let rate = |bytes: u64| bytes as f64 / span * 1e12 / senders as f64;
        self.offered = rate(end.created_bytes - begin.created_bytes);
        self.accepted = rate(end.arrived_bytes - begin.arrived_bytes);
        let mut before = begin.usage.links.iter().peekable();
        for link in &end.usage.links {
            let same =
                before.next_if(|old| (old.from, old.to, old.dim) == (link.from, link.to, link.dim));
            let (busy, carried) = same.map_or((Span::ZERO, 0), |old| (old.busy, old.bytes));
            self.links.push(LinkLoad {
                from: link.from,
                to: link.to,
                dim: link.dim,
                // A network of cycles counts what was sent in a cycle that has begun.
                utilisation: ((link.busy - busy).0 as f64 / span).min(1.0),
                rate: (link.bytes - carried) as f64 / span * 1e12,
            });
        }
    }
}
