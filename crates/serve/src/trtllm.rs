//! The rules of TensorRT-LLM 1.0's scheduler (PyTorch backend).
//!
//! From its `_torch/pyexecutor/scheduler.py` and `py_executor.py`, and `capacityScheduler.cpp`,
//! `microBatchScheduler.cpp` and `kvCacheManager.cpp` of `cpp/tensorrt_llm/batch_manager`:
//!
//! - At most `sequences` requests for each stage are active. The others wait in a queue.
//! - First, the capacity: which active requests have room. With `GUARANTEED_NO_EVICT`, those that
//!   have started always have. Then others, in order, as long as the free blocks hold the whole
//!   prompt and output of each, less what those before still need. With `MAX_UTILIZATION`, all in
//!   order, as long as the blocks of the next step are free (of the next two in a pipeline). Where
//!   they are not, the last active request that has started pauses: its blocks are free, and it
//!   starts anew later, in its place, with its tokens so far as its prompt.
//! - A prompt whose first unknown block is that of another prompt of the step waits, to find it in
//!   the cache.
//! - Then the step: those with room, in order, until `sequences` requests or `tokens` tokens. A
//!   prompt counts with all its tokens, also those in the cache. With chunks, prompts get what
//!   those that generate leave, in order, and a cut is at the end of a block.
//! - A prompt takes its blocks as it starts, also those of later chunks. The cache gets to know full
//!   blocks when the prompt is computed, and when the request ends or pauses. Blocks are taken in
//!   the order in which they became free, the last one of a request first (`pool.rs`).
//! - A step that is planned while the one before it runs still has the requests that end there.
//!
//! There, a prompt in parts may lose its turn to one before it without room, and both wait for ever.
//! Here it goes on. Left out: parts of blocks that are used again (`enable_partial_reuse`), priorities of blocks,
//! and offloading. All requests are equally urgent.

use crate::plans::TrtllmPlan as Plan;
use crate::scheduler::{Batch, Part, Scheduler, Token, Waiting};
use crate::settings::Trtllm;
use rustc_hash::FxHashSet;

impl Plan {
    pub fn new(policy: Trtllm, stages: u32) -> Plan {
        Plan { policy, stages, active: Vec::new() }
    }

    /// Whether requests may pause.
    pub fn evicts(&self) -> bool {
        self.policy.evicts
    }

    /// Whether steps may follow each other again and again, as long as there is room. A prompt that
    /// has not started looks at the cache in each step, or makes others pause.
    pub fn stays(&self, scheduler: &Scheduler) -> bool {
        let alone = self.active.len() == scheduler.running.len();
        alone || !scheduler.settings.caching && !self.policy.evicts
    }

    /// Chooses what runs in the next step.
    pub fn schedule(&mut self, scheduler: &mut Scheduler) -> Batch {
        let most = (scheduler.settings.sequences * self.stages) as usize;
        if let Waiting::Arrived(queue) = &mut scheduler.waiting {
            let free = most.saturating_sub(self.active.len()).min(queue.len());
            self.active.extend(queue.drain(..free));
        }
        let mut batch = Batch::default();
        let fitting = if self.policy.evicts {
            self.pausing(scheduler, &mut batch)
        } else {
            self.lasting(scheduler)
        };
        let (prompts, generating) = self.choose(scheduler, &fitting);
        for (slot, tokens) in prompts {
            let part = start(scheduler, slot, tokens);
            batch.parts.push(part);
        }
        batch.steady = batch.parts.is_empty() && scheduler.settings.drafts == 0;
        for slot in generating {
            let tokens = step(scheduler, slot);
            let given = scheduler.allocate(slot, tokens, 0, &[]);
            assert!(given, "there are blocks for requests with room");
            let part = part(scheduler, slot, tokens, None);
            batch.parts.push(part);
        }
        batch
    }

    /// Requests with room until their end.
    fn lasting(&self, scheduler: &Scheduler) -> Vec<u32> {
        let needed = |slot: u32| {
            let state = &scheduler.states[slot as usize];
            scheduler.lacks(slot, state.prompt + state.output, &[])
        };
        let state = |slot: u32| &scheduler.states[slot as usize];
        let mut free = scheduler.pool.free();
        let (mut fitting, pending): (Vec<u32>, Vec<u32>) =
            self.active.iter().partition(|&&slot| state(slot).generates);
        // Requests that have started have room until their end.
        for &slot in self.active.iter().filter(|&&slot| !state(slot).blocks.is_empty()) {
            free -= needed(slot);
        }
        let mut coming = self.coming(scheduler);
        let mut full = false;
        for slot in pending {
            if state(slot).blocks.is_empty() {
                if full || awaits(scheduler, slot, &mut coming) {
                    continue;
                }
                match free.checked_sub(needed(slot)) {
                    Some(rest) => free = rest,
                    None => {
                        full = true;
                        continue;
                    }
                }
            }
            fitting.push(slot);
        }
        fitting
    }

    /// Requests with room for the next step. Others pause for them.
    fn pausing(&mut self, scheduler: &mut Scheduler, batch: &mut Batch) -> Vec<u32> {
        let steps = if self.stages > 1 { 2 } else { 1 };
        let (mut fitting, mut taken) = (Vec::new(), 0);
        let (mut at, mut end) = (0, self.active.len());
        let mut coming = self.coming(scheduler);
        while at < end {
            let slot = self.active[at];
            if awaits(scheduler, slot, &mut coming) {
                at += 1;
                continue;
            }
            let needed = needed(scheduler, slot, steps);
            if taken + needed <= scheduler.pool.free() {
                taken += needed;
                fitting.push(slot);
                at += 1;
                continue;
            }
            let started =
                |&place: &usize| !scheduler.states[self.active[place] as usize].blocks.is_empty();
            let Some(last) = (at..end).rev().find(started) else { break };
            pause(scheduler, self.active[last], batch);
            end = last;
        }
        fitting
    }

    /// First unknown blocks of prompts that are being computed.
    fn coming(&self, scheduler: &Scheduler) -> FxHashSet<u64> {
        let computing = self.active.iter().filter(|&&slot| {
            let state = &scheduler.states[slot as usize];
            !state.generates && !state.blocks.is_empty()
        });
        computing.filter_map(|&slot| unknown(scheduler, slot)).collect()
    }

    /// Prompts of the next step with their tokens, and requests that generate tokens in it.
    fn choose(&self, scheduler: &Scheduler, fitting: &[u32]) -> (Vec<(u32, u32)>, Vec<u32>) {
        let settings = &scheduler.settings;
        let mut budget = settings.tokens;
        let (mut prompts, mut generating) = (Vec::new(), Vec::new());
        for &slot in fitting {
            let state = &scheduler.states[slot as usize];
            if state.flying > 0 && !settings.asynchronous {
                continue;
            }
            let generates = state.generates;
            let tokens =
                if generates { step(scheduler, slot) } else { state.tokens() - state.computed };
            if generates || !settings.chunked {
                match budget.checked_sub(tokens) {
                    Some(rest) => budget = rest,
                    None => break,
                }
            }
            if generates {
                generating.push(slot);
            } else {
                prompts.push((slot, tokens));
            }
            if prompts.len() + generating.len() >= settings.sequences as usize {
                break;
            }
        }
        if settings.chunked {
            for (_, tokens) in &mut prompts {
                if *tokens > budget {
                    *tokens = budget / settings.block * settings.block;
                }
                budget -= *tokens;
            }
            prompts.retain(|&(_, tokens)| tokens > 0);
        }
        (prompts, generating)
    }

    /// A step has run.
    pub fn update(
        &mut self,
        scheduler: &mut Scheduler,
        batch: &Batch,
        drafted: impl Fn(&Part) -> (u32, u32),
    ) -> Vec<Token> {
        let mut tokens = Vec::with_capacity(batch.parts.len());
        for part in &batch.parts {
            let state = &mut scheduler.states[part.slot as usize];
            let gone = state.request != part.request || state.is_done();
            if gone || state.starts != part.starts {
                continue;
            }
            state.flying -= 1;
            if !part.generates {
                continue;
            }
            let rejected = part.drafts - drafted(part).0.min(part.drafts);
            let count = (1 + part.drafts - rejected).min(state.output - state.produced);
            state.computed -= rejected;
            let first = state.produced == 0;
            state.produce(count);
            let (last, known) = (state.is_done(), state.tokens() - 1);
            let held = state.computed.div_ceil(scheduler.settings.block) as usize;
            let unused = state.blocks.split_off(held.min(state.blocks.len()));
            scheduler.pool.release(unused.into_iter().rev());
            if part.prefills {
                scheduler.remember(part.slot, part.context + part.tokens);
            }
            if last {
                scheduler.remember(part.slot, known);
                leave(scheduler, part.slot);
                self.active.retain(|&slot| slot != part.slot);
                scheduler.vacant.push(part.slot);
            }
            tokens.push(Token { request: part.request, count, first, last });
        }
        tokens
    }
}

/// Tokens of a request's next step, with drafts.
fn step(scheduler: &Scheduler, slot: u32) -> u32 {
    let state = &scheduler.states[slot as usize];
    (1 + scheduler.settings.drafts).min(state.prompt + state.output - state.computed)
}

/// Blocks that a request lacks for its next steps.
fn needed(scheduler: &Scheduler, slot: u32, steps: u32) -> u32 {
    let state = &scheduler.states[slot as usize];
    let tokens = if state.generates {
        let most = state.prompt + state.output;
        (state.computed + steps * (1 + scheduler.settings.drafts)).min(most)
    } else {
        state.tokens()
    };
    scheduler.lacks(slot, tokens, &[])
}

/// Hash of the first block of a prompt that the cache does not know.
fn unknown(scheduler: &Scheduler, slot: u32) -> Option<u64> {
    let hashes = scheduler.states[slot as usize].chain.as_ref()?.hashes();
    hashes.iter().copied().find(|&hash| scheduler.pool.holding(hash).is_none())
}

/// Whether a prompt that has not started waits for a block that another one computes. If not,
/// others wait for it.
fn awaits(scheduler: &Scheduler, slot: u32, coming: &mut FxHashSet<u64>) -> bool {
    let state = &scheduler.states[slot as usize];
    if state.generates || !state.blocks.is_empty() {
        return false;
    }
    unknown(scheduler, slot).is_some_and(|hash| !coming.insert(hash))
}

/// A request gives its blocks back, and no longer runs.
fn leave(scheduler: &mut Scheduler, slot: u32) {
    scheduler.give_back(slot);
    scheduler.states[slot as usize].runs = false;
    scheduler.running.retain(|&other| other != slot);
}

/// A request starts anew later.
fn pause(scheduler: &mut Scheduler, slot: u32, batch: &mut Batch) {
    let state = &scheduler.states[slot as usize];
    let known = state.computed.min(state.tokens() - 1);
    if state.generates {
        scheduler.remember(slot, known);
    }
    leave(scheduler, slot);
    let state = &mut scheduler.states[slot as usize];
    (state.computed, state.known, state.brought, state.flying) = (0, 0, 0, 0);
    state.generates = false;
    state.starts += 1;
    batch.preempted.push(state.request);
}

/// A prompt starts or goes on with `tokens` tokens, less those in the cache.
fn start(scheduler: &mut Scheduler, slot: u32, tokens: u32) -> Part {
    let state = &scheduler.states[slot as usize];
    if !state.blocks.is_empty() {
        return part(scheduler, slot, tokens, None);
    }
    let found = scheduler.found(slot);
    let state = &scheduler.states[slot as usize];
    let (known, block) = (state.tokens(), scheduler.settings.block);
    let cached = (found.len() as u32 * block).max(state.brought.min(known - 1));
    let given = scheduler.allocate(slot, known - cached, 0, &found);
    assert!(given, "there are blocks for prompts with room");
    scheduler.states[slot as usize].runs = true;
    scheduler.running.push(slot);
    let end = cached + tokens;
    let end = if end < known { end / block * block } else { known };
    part(scheduler, slot, end - cached, Some(cached))
}

/// A request's part of a step.
fn part(scheduler: &mut Scheduler, slot: u32, tokens: u32, admitted: Option<u32>) -> Part {
    let state = &mut scheduler.states[slot as usize];
    let prefills = !state.generates;
    let context = state.computed;
    state.computed += tokens;
    state.flying += 1;
    state.generates = state.computed >= state.tokens();
    Part {
        request: state.request,
        slot,
        starts: state.starts,
        context,
        tokens,
        drafts: if prefills { 0 } else { tokens - 1 },
        generates: state.generates,
        prefills,
        admitted,
    }
}
