//! The balance of an engine whose prompts and tokens take turns, as those of SGLang do.
//!
//! Prompts go first, and everybody else waits. So requests that run gather: those that end while
//! prompts wait come back together. The balance of `balance.rs`, where prompts come by chance,
//! misses that. Here the turns are followed with mean lengths of prompts and contexts: a step of
//! prompts, or the steps of tokens until the next request comes or ends. Outputs are
//! drawn evenly around their mean. There are no blocks, no cache and no scheduler, so a request
//! takes well below a microsecond.

use crate::engine::Kind;
use crate::means::{Balance, Means};
use crate::timing::Work;
use engine::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Rounds of all requests before and while they are measured, and the same of large loads.
const ROUNDS: (usize, usize) = (4, 12);
const LARGE: usize = 512;
const LARGE_ROUNDS: (usize, usize) = (1, 2);
/// Requests that are measured at least.
const LEAST: usize = 200;

/// A request: when it was sent, when its prompt began, its first token, the tokens of its prompt
/// that are computed, and those of its output.
#[derive(Clone, Copy, Default)]
struct Life {
    sent: f64,
    begun: f64,
    first: f64,
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
    fresh: u32,
    /// Tokens of a step of prompts.
    budget: u32,
    seats: usize,
    random: Random,
    /// Seconds of a step of tokens, by requests; of a step of whole prompts, by prompts.
    tokens: Vec<f64>,
    prompts: Vec<f64>,
}

/// The balance of one engine, by its turns. `running` requests have room.
pub(crate) fn turns(kind: &Kind, means: &Means, running: f64) -> Balance {
    let fresh = means.fresh.round().max(1.0) as u32;
    let chunk = if kind.settings.chunked { kind.settings.tokens } else { u32::MAX };
    let mut turns = Turns {
        kind,
        means,
        fresh,
        budget: chunk,
        seats: (running.round() as usize).max(1),
        random: Random::new(53),
        tokens: Vec::new(),
        prompts: Vec::new(),
    };
    turns.run()
}

impl Turns<'_> {
    fn run(&mut self) -> Balance {
        let there = (self.means.concurrency.round() as usize).max(1);
        let rounds = if there > LARGE { LARGE_ROUNDS } else { ROUNDS };
        let (before, measured) = (rounds.0 * there, (rounds.1 * there).max(LEAST));
        let front = self.kind.front.value(self.means.prompt);
        let ahead = self.kind.settings.asynchronous;
        // When requests come, and are sent; those that generate, by the step of their end.
        let mut coming: VecDeque<(f64, f64)> = (0..there).map(|_| (front, 0.0)).collect();
        let mut waiting: VecDeque<Life> = VecDeque::new();
        let mut ends: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let mut lives: Vec<Life> = Vec::new();
        // The end of the last step, when it began, and how many ended in it.
        let (mut now, mut began, mut gone) = (0.0f64, 0.0f64, 0usize);
        let (mut steps, mut ended) = (0u64, 0usize);
        let mut sums = Sums::default();
        while ended < before + measured {
            // A step that is planned ahead has what came before the last one.
            let planned = if ahead { began } else { now };
            while coming.front().is_some_and(|&(known, _)| known <= planned) {
                let (_, sent) = coming.pop_front().expect("one comes");
                waiting.push_back(Life { sent, ..Life::default() });
            }
            let free = self.seats.saturating_sub(ends.len());
            if !waiting.is_empty() && free > 0 {
                let (time, done) = self.prefill(&mut waiting, free, now);
                (began, now, gone) = (now, now + time, 0);
                for mut life in done {
                    life.first = now;
                    life.output = self.output();
                    ends.push(Reverse((steps + life.output - 1, lives.len())));
                    lives.push(life);
                }
            } else if let Some(&Reverse((end, _))) = ends.peek() {
                let step = self.decode(ends.len() + if ahead { gone } else { 0 });
                let until = coming.front().filter(|_| free > 0).map_or(u64::MAX, |&(known, _)| {
                    ((known - now) / step).ceil().max(0.0) as u64 + u64::from(ahead)
                });
                let count = if gone > 0 && ahead { 1 } else { (end - steps).min(until).max(1) };
                steps += count;
                now += step * count as f64;
                (began, gone) = (now - step, 0);
            } else if let Some(&(known, _)) = coming.front() {
                // Nothing runs: the next one begins at once.
                now = now.max(known);
                (began, gone) = (now, 0);
            } else {
                break;
            }
            while ends.peek().is_some_and(|&Reverse((end, _))| end <= steps) {
                let Some(Reverse((_, number))) = ends.pop() else { break };
                if ended >= before {
                    sums.add(&lives[number], now);
                }
                (ended, gone) = (ended + 1, gone + 1);
                coming.push_back((now + front, now));
            }
        }
        sums.balance(there as f64)
    }

    /// Tokens of the next output: spread evenly, with the deviation of the load.
    fn output(&mut self) -> u64 {
        let mean = self.means.output;
        let deviation = (self.means.output_squared - mean * mean).max(0.0);
        let part = (self.random.bits() >> 11) as f64 / (1u64 << 53) as f64;
        (mean + (3.0 * deviation).sqrt() * (2.0 * part - 1.0)).round().max(1.0) as u64
    }

    /// Seconds of a step in which this number of requests generates a token.
    fn decode(&mut self, requests: usize) -> f64 {
        if self.tokens.len() <= requests {
            self.tokens.resize(requests + 1, -1.0);
        }
        if self.tokens[requests] < 0.0 {
            let grown = self.means.output_squared / self.means.output;
            let context = |at: usize| {
                let part = (at as f64 + 0.5) / requests as f64;
                (self.means.prompt + grown * part).round() as u32
            };
            let contexts: Vec<u32> = (0..requests).map(context).collect();
            let count = requests as u32;
            self.tokens[requests] = self.seconds(Work {
                rows: requests as u64,
                sampled: count,
                sequences: count,
                decodes: count,
                context: contexts.iter().map(|&context| u64::from(context)).sum(),
                contexts,
                chunks: Vec::new(),
            });
        }
        self.tokens[requests]
    }

    /// A step of prompts: its seconds, and those that are complete.
    fn prefill(&mut self, waiting: &mut VecDeque<Life>, free: usize, now: f64) -> (f64, Vec<Life>) {
        let before = (self.means.prompt - self.means.fresh).max(0.0).round() as u32;
        let mut budget = self.budget;
        let (mut chunks, mut done) = (Vec::new(), Vec::new());
        let mut whole = true;
        while chunks.len() < free && budget > 0 {
            let Some(prompt) = waiting.front_mut() else { break };
            let tokens = (self.fresh - prompt.done).min(budget);
            if prompt.done == 0 {
                prompt.begun = now;
            }
            chunks.push((before + prompt.done, tokens));
            whole &= tokens == self.fresh;
            budget -= tokens;
            prompt.done += tokens;
            if prompt.done < self.fresh {
                break;
            }
            done.extend(waiting.pop_front());
        }
        let count = chunks.len();
        if whole && self.prompts.get(count).is_some_and(|&known| known >= 0.0) {
            return (self.prompts[count], done);
        }
        let seconds = self.seconds(Work {
            rows: chunks.iter().map(|&(_, tokens)| u64::from(tokens)).sum(),
            sampled: done.len() as u32,
            sequences: count as u32,
            chunks,
            ..Work::default()
        });
        if whole {
            if self.prompts.len() <= count {
                self.prompts.resize(count + 1, -1.0);
            }
            self.prompts[count] = seconds;
        }
        (seconds, done)
    }

    fn seconds(&self, work: Work) -> f64 {
        let (terms, graph) = self.kind.timing.terms(&[work]);
        self.kind.timing.total(&terms, graph, 1).period(1) as f64 / 1e12
    }
}
