//! The balance of an engine whose steps are followed, one after the other.
//!
//! Steps with prompts are longer than others. So requests gather: those that end while such a step
//! runs come back together, and share the next one. The balance of `balance.rs`, where prompts come
//! by chance, misses that. Here the turns are followed, with mean contexts: a
//! step with prompts, or the steps of tokens until the next request comes or ends. With SGLang's
//! rules, everybody else waits for prompts; with the others, a step has both. Prompts and outputs
//! are drawn evenly around their means. There are no blocks, no cache and no scheduler, so a request takes
//! about a microsecond.

use crate::engine::Kind;
use crate::means::{Balance, Means};
use crate::settings::Policy;
use crate::timing::Work;
use engine::Random;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Rounds of all requests before and while they are measured, and the same of large loads.
const ROUNDS: (usize, usize) = (4, 12);
const LARGE: usize = 1024;
const LARGE_ROUNDS: (usize, usize) = (2, 4);
/// Requests that are measured at least.
const LEAST: usize = 200;

/// A request: when it was sent, when the engine knows it, when its prompt began, its first token;
/// the tokens of its prompt that the cache has, that are to be computed and that are; those of its
/// output.
#[derive(Clone, Copy, Default)]
struct Life {
    sent: f64,
    known: f64,
    begun: f64,
    first: f64,
    before: u32,
    fresh: u32,
    done: u32,
    output: u64,
}

/// Sums over requests that have ended: how many, seconds to their first tokens, of their other
/// tokens, from sending to end and from the prompt to the end.
#[derive(Default)]
struct Sums {
    requests: f64,
    first: f64,
    later: f64,
    tokens: f64,
    whole: f64,
    inside: f64,
}

impl Sums {
    fn add(&mut self, life: &Life, now: f64) {
        self.requests += 1.0;
        self.first += life.first - life.sent;
        self.later += now - life.first;
        self.tokens += (life.output - 1) as f64;
        self.whole += now - life.sent;
        self.inside += now - life.begun;
    }

    /// The rate is that of Little's law: waves of requests do not count twice at the ends.
    fn balance(&self, there: f64) -> Balance {
        let rate = there * self.requests / self.whole;
        Balance {
            ttft: self.first / self.requests,
            tpot: self.later / self.tokens.max(1.0),
            rate,
            running: rate * self.inside / self.requests,
        }
    }
}

struct Turns<'a> {
    kind: &'a Kind,
    means: &'a Means,
    /// Tokens of a step.
    budget: u32,
    /// Chunks of prompts end at multiples of it.
    grain: u32,
    seats: usize,
    /// Steps with prompts generate tokens too.
    mixed: bool,
    /// A step that is planned ahead still has those that end in the one before it.
    lingers: bool,
    random: Random,
    /// Seconds of steps, by those that generate a token and by whole prompts.
    times: FxHashMap<(u32, u32), f64>,
}

/// The balance of one engine, by its turns. `running` requests have room.
pub(crate) fn turns(kind: &Kind, means: &Means, running: f64) -> Balance {
    let settings = &kind.settings;
    // Without chunks, SGLang fills a step with prompts up to another limit.
    let budget = match settings.policy {
        Policy::Sglang(policy) if !settings.chunked => policy.prefill_tokens,
        _ => settings.tokens,
    };
    let mut turns = Turns {
        kind,
        means,
        budget,
        grain: if matches!(settings.policy, Policy::Trtllm(_)) { settings.block } else { 1 },
        seats: (running.round() as usize).max(1),
        mixed: settings.mixes(),
        lingers: settings.asynchronous && settings.policy != Policy::Vllm,
        random: Random::new(53),
        times: FxHashMap::default(),
    };
    turns.run()
}

impl Turns<'_> {
    fn run(&mut self) -> Balance {
        let there = (self.means.concurrency.round() as usize).max(1);
        let rounds = if there > LARGE { LARGE_ROUNDS } else { ROUNDS };
        let (before, measured) = (rounds.0 * there, (rounds.1 * there).max(LEAST));
        let ahead = self.kind.settings.asynchronous;
        // Requests that come; those that generate, by the step of their end.
        let mut coming: VecDeque<Life> = VecDeque::new();
        (0..there).for_each(|_| self.send(&mut coming, 0.0));
        let mut waiting: VecDeque<Life> = VecDeque::new();
        let mut ends: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let mut lives: Vec<Life> = Vec::new();
        // The end of the last step, when the next one is planned, and how many ended in the last.
        let (mut now, mut planned, mut gone) = (0.0f64, 0.0f64, 0usize);
        let (mut steps, mut ended) = (0u64, 0usize);
        let mut sums = Sums::default();
        while ended < before + measured {
            while coming.front().is_some_and(|life| life.known <= planned) {
                waiting.extend(coming.pop_front());
            }
            let free = self.seats.saturating_sub(ends.len());
            let lingering = if self.lingers { gone } else { 0 };
            let tokens = (ends.len() + lingering) as u32;
            let beside = if self.mixed { tokens } else { 0 };
            let began = now;
            if !waiting.is_empty() && free > 0 && beside < self.budget {
                let (time, done) = self.prompts(&mut waiting, free, beside, now);
                now += time;
                steps += u64::from(self.mixed);
                for mut life in done {
                    life.first = now;
                    ends.push(Reverse((steps + life.output - 1, lives.len())));
                    lives.push(life);
                }
                planned = if ahead { began } else { now };
            } else if let Some(&Reverse((end, _))) = ends.peek() {
                let step = self.tokens(tokens);
                let until = coming.front().filter(|_| free > 0).map_or(u64::MAX, |life| {
                    ((life.known - now) / step).ceil().max(0.0) as u64 + u64::from(ahead)
                });
                let count = if lingering > 0 { 1 } else { (end - steps).min(until).max(1) };
                steps += count;
                now += step * count as f64;
                planned = if ahead { now - step } else { now };
            } else if let Some(&Life { known, .. }) = coming.front() {
                // Nothing runs: the next one begins at once, or after the step in flight.
                planned = planned.max(known);
                now = now.max(known);
            } else {
                break;
            }
            gone = 0;
            while ends.peek().is_some_and(|&Reverse((end, _))| end <= steps) {
                let Some(Reverse((_, number))) = ends.pop() else { break };
                if ended >= before {
                    sums.add(&lives[number], now);
                }
                (ended, gone) = (ended + 1, gone + 1);
                self.send(&mut coming, now);
            }
        }
        sums.balance(there as f64)
    }

    /// The next request is sent.
    fn send(&mut self, coming: &mut VecDeque<Life>, now: f64) {
        let means = self.means;
        let prompt = self.drawn(means.prompt, means.prompt_squared);
        let output = self.drawn(means.output, means.output_squared);
        let fresh = (means.fresh * prompt / means.prompt).round().max(1.0) as u32;
        let life = Life {
            sent: now,
            known: now + self.kind.front.value(prompt),
            before: (prompt as u32).saturating_sub(fresh),
            fresh,
            output: output as u64,
            ..Life::default()
        };
        let place = coming.partition_point(|other| other.known <= life.known);
        coming.insert(place, life);
    }

    /// Tokens that spread evenly, with the deviation of the load.
    fn drawn(&mut self, mean: f64, squared: f64) -> f64 {
        let deviation = (squared - mean * mean).max(0.0);
        let part = (self.random.bits() >> 11) as f64 / (1u64 << 53) as f64;
        (mean + (3.0 * deviation).sqrt() * (2.0 * part - 1.0)).round().max(1.0)
    }

    /// Seconds of a step in which this number of requests generates a token, and no prompt runs.
    fn tokens(&mut self, requests: u32) -> f64 {
        if let Some(&known) = self.times.get(&(requests, 0)) {
            return known;
        }
        let seconds = self.seconds(self.work(requests));
        self.times.insert((requests, 0), seconds);
        seconds
    }

    /// A step of prompts next to `generating` requests that get a token: its seconds, and those
    /// that are complete.
    fn prompts(
        &mut self,
        waiting: &mut VecDeque<Life>,
        free: usize,
        generating: u32,
        now: f64,
    ) -> (f64, Vec<Life>) {
        let usual = self.means.fresh.round().max(1.0) as u32;
        let mut budget = self.budget - generating;
        let (mut chunks, mut done) = (Vec::new(), Vec::new());
        let mut whole = true;
        while chunks.len() < free && budget > 0 {
            let Some(prompt) = waiting.front_mut() else { break };
            let mut tokens = prompt.fresh - prompt.done;
            if tokens > budget && self.kind.settings.chunked {
                let end = prompt.done + budget;
                tokens = (end - end % self.grain).saturating_sub(prompt.done);
            }
            // Without chunks, a prompt that is longer than a step has one of its own.
            if tokens == 0 || tokens > budget && !chunks.is_empty() {
                break;
            }
            if prompt.done == 0 {
                prompt.begun = now;
            }
            chunks.push((prompt.before + prompt.done, tokens));
            whole &= tokens == usual;
            budget = budget.saturating_sub(tokens);
            prompt.done += tokens;
            if prompt.done < prompt.fresh {
                break;
            }
            done.extend(waiting.pop_front());
        }
        let count = chunks.len() as u32;
        let known = self.times.get(&(generating, count)).filter(|_| whole);
        if let Some(&known) = known {
            return (known, done);
        }
        let tokens = self.work(generating);
        let seconds = self.seconds(Work {
            rows: tokens.rows + chunks.iter().map(|&(_, tokens)| u64::from(tokens)).sum::<u64>(),
            sampled: generating + done.len() as u32,
            sequences: generating + count,
            chunks,
            ..tokens
        });
        if whole {
            self.times.insert((generating, count), seconds);
        }
        (seconds, done)
    }

    /// Requests that generate a token each.
    fn work(&self, requests: u32) -> Work {
        let grown = self.means.output_squared / self.means.output;
        let context = |at: u32| {
            let part = (f64::from(at) + 0.5) / f64::from(requests);
            (self.means.prompt + grown * part).round() as u32
        };
        let contexts: Vec<u32> = (0..requests).map(context).collect();
        Work {
            rows: u64::from(requests),
            sampled: requests,
            sequences: requests,
            decodes: requests,
            context: contexts.iter().map(|&context| u64::from(context)).sum(),
            contexts,
            chunks: Vec::new(),
        }
    }

    fn seconds(&self, work: Work) -> f64 {
        let (terms, graph) = self.kind.timing.terms(&[work]);
        self.kind.timing.total(&terms, graph, 1).period(1) as f64 / 1e12
    }
}
