//! An engine: schedulers in step with each other, and the steps that they have in flight.

use crate::diary::Step;
use crate::request::Request;
use crate::scheduler::{Batch, Part, Scheduler, Token};
use crate::settings::{Policy, Settings};
use crate::timing::{Line, Pass, Timing, Work};
use engine::Random;
use std::collections::VecDeque;

/// When an engine takes up the prompts that wait. One that runs nothing does so at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admission {
    /// Steps without prompts between two looks at what arrived (SGLang's receive interval).
    pub every: u32,
    /// Steps that prompts wait for others at most; 0 for none.
    pub patience: u32,
    /// Part of a step's tokens that ends the wait (TensorRT-LLM's batch wait).
    pub part: f64,
    /// A prompt on each rank ends the wait (TensorRT-LLM's balance of attention ranks).
    pub balanced: bool,
}

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
    /// Times of a step.
    pub timing: Timing,
    /// Probability that a draft is right where all before it are, by its place.
    pub acceptance: Vec<f64>,
    /// When prompts are taken up.
    pub admission: Admission,
    /// Seconds by tokens of a prompt until the scheduler knows the request: server and tokenizer.
    pub front: Line,
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
    /// Picoseconds in which a step ran, on the first stage of a pipeline.
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
    /// Requests for each rank that its scheduler does not know yet, with the tokens brought.
    mail: Vec<Vec<(u32, Request, u32)>>,
    /// Steps since the last look at what arrived.
    looked: u32,
    /// Steps for which prompts have waited for others.
    waited: u32,
}

/// Changes by the scheduler, for records.
pub(crate) trait Notes {
    /// A request runs; the cache held `cached` of its tokens.
    fn admitted(&mut self, request: u32, cached: u32, now: u64);
    /// A request lost its blocks.
    fn preempted(&mut self, request: u32, now: u64);
    /// A step begins.
    fn stepped(&mut self, step: impl FnOnce() -> Step);
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
            mail: vec![Vec::new(); kind.ranks as usize],
            looked: 0,
            waited: 0,
        }
    }

    /// A request arrives at a rank.
    pub fn add(&mut self, rank: usize, number: u32, request: &Request, brought: u32) {
        let rule = &self.kind.admission;
        if rule.every > 1 || rule.patience > 0 {
            self.mail[rank].push((number, request.clone(), brought));
        } else {
            self.ranks[rank].add(number, request, brought);
        }
        self.stirred = self.depth;
    }

    /// Requests that wait, in the scheduler of a rank or for it.
    pub fn waiting(&self, rank: usize) -> usize {
        self.ranks[rank].waiting() + self.mail[rank].len()
    }

    /// Requests that wait or run.
    pub fn requests(&self, rank: usize) -> usize {
        self.waiting(rank) + self.ranks[rank].running()
    }

    /// Begins all steps that may begin now.
    pub fn begin(&mut self, now: u64, notes: &mut impl Notes) {
        while self.flights.len() < self.depth {
            if self.admits() {
                self.deliver();
            }
            let batches: Vec<Batch> = self.ranks.iter_mut().map(Scheduler::schedule).collect();
            for batch in &batches {
                batch.preempted.iter().for_each(|&request| notes.preempted(request, now));
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
                if batches.iter().any(|batch| !batch.preempted.is_empty() || batch.again) {
                    continue;
                }
                break;
            }
            self.stirred = self.stirred.saturating_sub(1);
            let quiet = batches.iter().all(|batch| batch.preempted.is_empty() && batch.steady);
            let work: Vec<Work> = batches.iter().map(Work::of).collect();
            let prompts = work.iter().any(|work| !work.chunks.is_empty());
            self.looked = if prompts { self.kind.admission.every } else { self.looked + 1 };
            let (terms, graph) = self.kind.timing.terms(&work);
            let times = self.kind.timing.total(&terms, graph, self.stages.len());
            let begin = now.max(self.free());
            let end = self.pass(now, times);
            notes.stepped(|| Step {
                begin,
                end: self.free(),
                steps: 1,
                requests: batches.iter().map(|batch| batch.parts.len() as u64).sum(),
                tokens: batches.iter().map(Batch::tokens).sum(),
                prompts: work
                    .iter()
                    .flat_map(|work| &work.chunks)
                    .map(|&(_, n)| u64::from(n))
                    .sum(),
                terms: terms.clone(),
                ..self.state()
            });
            self.count(&batches, &terms, times.first, 1);
            self.flights.push_back(Flight { end, batches, quiet });
        }
    }

    /// When the first stage is free.
    pub fn free(&self) -> u64 {
        self.stages[0]
    }

    /// Requests and blocks as they are now, as a step without anything else.
    pub fn state(&self) -> Step {
        let used = |rank: &Scheduler| rank.settings.blocks - rank.free_blocks();
        Step {
            running: self.ranks.iter().map(|rank| rank.running() as u32).sum(),
            waiting: (0..self.ranks.len()).map(|rank| self.waiting(rank) as u32).sum(),
            blocks: self.ranks.iter().map(used).sum(),
            ..Step::default()
        }
    }

    /// Counts quiet steps, whose looks at what arrived found nothing.
    pub fn looked_in_vain(&mut self, steps: u64) {
        let every = u64::from(self.kind.admission.every.max(1));
        if steps > 0 {
            self.looked = ((u64::from(self.looked) + steps - 1) % every + 1) as u32;
        }
    }

    /// Whether prompts that wait are held back by a rule.
    pub fn holds(&self) -> bool {
        self.mail.iter().any(|mail| !mail.is_empty())
    }

    /// Gives schedulers what arrived.
    fn deliver(&mut self) {
        for (rank, mail) in self.ranks.iter_mut().zip(&mut self.mail) {
            for (number, request, brought) in mail.drain(..) {
                rank.add(number, &request, brought);
                self.stirred = self.depth;
            }
        }
    }

    /// Whether the next step takes up prompts.
    fn admits(&mut self) -> bool {
        let rule = &self.kind.admission;
        let idle = self.ranks.iter().all(|rank| rank.running() == 0);
        let looks = idle || self.looked >= rule.every;
        if looks {
            self.looked = 0;
        }
        if idle || !self.holds() {
            self.waited = 0;
            return true;
        }
        if !looks {
            return false;
        }
        let enough = if rule.balanced {
            self.mail.iter().all(|mail| !mail.is_empty())
        } else {
            let most = f64::from(self.kind.settings.tokens) * rule.part;
            self.ranks.iter().zip(&self.mail).any(|(rank, mail)| {
                let prompts: u64 = mail.iter().map(|each| u64::from(each.1.prompt_tokens())).sum();
                (rank.running() as u64 + prompts) as f64 >= most
            })
        };
        if !enough && self.waited < rule.patience {
            self.waited += 1;
            return false;
        }
        self.waited = 0;
        true
    }

    /// A batch passes all stages. Its end.
    pub fn pass(&mut self, now: u64, times: Pass) -> u64 {
        let mut at = now;
        let stages = self.stages.len();
        for (place, stage) in self.stages.iter_mut().enumerate() {
            let way = if place == 0 { 0 } else { times.way };
            at = at.saturating_add(way).max(*stage).saturating_add(times.on(place, stages));
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
