//! An engine: schedulers in step with each other, and the steps that they have in flight.

use crate::request::Request;
use crate::scheduler::{Batch, Part, Policy, Scheduler, Settings, Token};
use crate::timing::{Timing, Work};
use engine::Random;
use std::collections::VecDeque;

/// Engines that are all alike.
#[derive(Clone, Debug)]
pub struct Kind {
    /// How many.
    pub engines: u32,
    /// Schedulers of an engine, in step with each other (data parallelism of attention).
    pub ranks: u32,
    /// Stages of the pipeline.
    pub stages: u32,
    /// Settings of each scheduler.
    pub settings: Settings,
    /// Times of a step on a stage.
    pub timing: Timing,
    /// Probability that a draft is right where all before it are, by its place.
    pub acceptance: Vec<f64>,
}

/// A step that has begun.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub end: u64,
    /// Batch of each rank.
    pub batches: Vec<Batch>,
    /// Each request generates one token after another. None came, none ended.
    pub quiet: bool,
}

/// Sums over the steps of an engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// Steps.
    pub steps: u64,
    /// Parts of steps: one for each request in each.
    pub parts: u64,
    /// Tokens computed.
    pub tokens: u64,
    /// Picoseconds in which a step ran.
    pub busy: u64,
    /// Seconds of each term.
    pub terms: Vec<f64>,
}

#[derive(Debug)]
pub(crate) struct Engine<'a> {
    pub kind: &'a Kind,
    pub ranks: Vec<Scheduler>,
    /// Steps that may be in flight.
    pub depth: usize,
    /// A step is scheduled while the one before it runs.
    pub asynchronous: bool,
    /// When each stage is free.
    stages: Vec<u64>,
    pub flights: VecDeque<Flight>,
    /// Steps to schedule until each of those in flight has seen the last request come or go.
    pub stirred: usize,
    pub sums: Sums,
}

/// Changes by the scheduler, for records.
pub(crate) trait Notes {
    /// A request runs; the cache held `cached` of its tokens.
    fn admitted(&mut self, request: u32, cached: u32, now: u64);
    /// A request lost its blocks.
    fn preempted(&mut self, request: u32);
}

impl<'a> Engine<'a> {
    /// Without requests. A pipeline has steps of other requests in flight instead of the next step
    /// of the same ones. SGLang and TensorRT-LLM do not plan ahead where another model drafts.
    pub fn new(kind: &'a Kind) -> Engine<'a> {
        let of = &kind.settings;
        let ahead = of.policy == Policy::Vllm || of.drafts == 0;
        let asynchronous = of.asynchronous && kind.stages == 1 && ahead;
        let settings = Settings { asynchronous, ..kind.settings.clone() };
        Engine {
            depth: if asynchronous { 2 } else { kind.stages as usize },
            asynchronous,
            kind,
            ranks: (0..kind.ranks)
                .map(|_| Scheduler::in_stages(settings.clone(), kind.stages))
                .collect(),
            stages: vec![0; kind.stages as usize],
            flights: VecDeque::new(),
            stirred: 0,
            sums: Sums { terms: vec![0.0; kind.timing.terms.len()], ..Sums::default() },
        }
    }

    /// A request arrives at a rank.
    pub fn add(&mut self, rank: usize, number: u32, request: &Request, brought: u32) {
        self.ranks[rank].add(number, request, brought);
        self.stirred = self.depth;
    }

    /// Requests that wait or run.
    pub fn requests(&self, rank: usize) -> usize {
        self.ranks[rank].waiting() + self.ranks[rank].running()
    }

    /// Begins all steps that may begin now.
    pub fn begin(&mut self, now: u64, notes: &mut impl Notes) {
        while self.flights.len() < self.depth {
            let batches: Vec<Batch> = self.ranks.iter_mut().map(Scheduler::schedule).collect();
            for batch in &batches {
                batch.preempted.iter().for_each(|&request| notes.preempted(request));
                for part in &batch.parts {
                    if let Some(cached) = part.admitted {
                        notes.admitted(part.request, cached, now);
                    }
                }
            }
            if batches.iter().any(|batch| !batch.preempted.is_empty()) {
                // Steps in flight may hold a request that no longer runs.
                self.stirred = self.depth + 1;
                self.flights.iter_mut().for_each(|flight| flight.quiet = false);
            }
            if batches.iter().all(|batch| batch.parts.is_empty()) {
                if batches.iter().any(|batch| !batch.preempted.is_empty()) {
                    continue;
                }
                break;
            }
            self.stirred = self.stirred.saturating_sub(1);
            let quiet = batches.iter().all(|batch| batch.preempted.is_empty() && batch.steady);
            let work: Vec<Work> = batches.iter().map(Work::of).collect();
            let (terms, graph) = self.kind.timing.terms(&work);
            let time = self.kind.timing.total(&terms, graph);
            let end = self.pass(now, time);
            self.count(&batches, &terms, time, 1);
            self.flights.push_back(Flight { end, batches, quiet });
        }
    }

    /// A batch passes all stages, each `time` long. Its end.
    pub fn pass(&mut self, now: u64, time: u64) -> u64 {
        let mut at = now;
        for stage in &mut self.stages {
            at = at.max(*stage) + time;
            *stage = at;
        }
        at
    }

    /// Adds a step to the sums.
    fn count(&mut self, batches: &[Batch], terms: &[f64], time: u64, steps: u64) {
        let parts: usize = batches.iter().map(|batch| batch.parts.len()).sum();
        self.sums.steps += steps;
        self.sums.parts += parts as u64 * steps;
        self.sums.tokens += batches.iter().map(Batch::tokens).sum::<u64>() * steps;
        self.sums.busy += time;
        self.sums.terms.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
    }

    /// The oldest step ends. The tokens that it generated.
    pub fn end(&mut self) -> Vec<Token> {
        let Some(flight) = self.flights.pop_front() else { return Vec::new() };
        let (acceptance, drafts) = (&self.kind.acceptance, self.kind.settings.drafts);
        let mut tokens = Vec::new();
        for (scheduler, batch) in self.ranks.iter_mut().zip(&flight.batches) {
            tokens.extend(scheduler.update(batch, |part| (accepted(acceptance, part), drafts)));
        }
        if tokens.iter().any(|token| token.last) {
            self.stirred = self.depth;
        }
        tokens
    }
}

/// Drafts that are right, drawn from the request and its place.
fn accepted(acceptance: &[f64], part: &Part) -> u32 {
    if part.drafts == 0 {
        return 0;
    }
    let mut random = Random::new(u64::from(part.request) << 32 | u64::from(part.context));
    random.bits();
    let drafts = acceptance.iter().take(part.drafts as usize);
    let mut drawn = || (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
    drafts.take_while(|&&probability| drawn() < probability).count() as u32
}
