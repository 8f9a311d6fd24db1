//! The rules of vLLM 0.19's scheduler.
//!
//! `lab/peers/record_vllm_scheduler.py` describes them, and its decisions on drawn loads are
//! recorded in `tests/golden/peers/vllm_scheduler.json`. Requests that run come first, in the order
//! in which they were admitted. Each gets the tokens that it lacks, as long as the step's budget
//! lasts. Where the cache is full, the last one admitted (or the least urgent) gives its blocks
//! back, waits at the front and starts anew. Then waiting requests are admitted in order, until one
//! does not fit.

use crate::scheduler::{Batch, Part, Scheduler, Token, Waiting};

impl Scheduler {
    /// Chooses what runs in the next step.
    pub(crate) fn schedule_vllm(&mut self) -> Batch {
        let mut batch = Batch::default();
        let mut budget = self.settings.tokens;
        self.go_on(&mut batch, &mut budget);
        if batch.preempted.is_empty() {
            self.admit(&mut batch, &mut budget);
        }
        for part in &mut batch.parts {
            let state = &mut self.states[part.slot as usize];
            part.context = state.computed;
            state.computed += part.tokens;
            state.drafts = 0;
            part.generates = state.computed >= state.tokens() + state.expected;
            if part.generates && self.settings.asynchronous {
                state.expected += 1 + part.drafts;
                state.drafts = self.settings.drafts;
            }
        }
        batch.steady =
            batch.preempted.is_empty() && batch.parts.iter().all(|part| self.is_quiet(part));
        batch
    }

    /// Whether a part generates one token after another, and does nothing else.
    fn is_quiet(&self, part: &Part) -> bool {
        let goes_on = part.context >= self.states[part.slot as usize].prompt;
        goes_on && part.admitted.is_none() && part.tokens == 1 && self.settings.drafts == 0
    }

    /// A step has run.
    pub(crate) fn update_vllm(
        &mut self,
        batch: &Batch,
        drafted: impl Fn(&Part) -> (u32, u32),
    ) -> Vec<Token> {
        let mut tokens = Vec::with_capacity(batch.parts.len());
        let mut ended = false;
        for part in batch.parts.iter().filter(|part| part.generates) {
            let state = &mut self.states[part.slot as usize];
            // In a pipeline, a request that lost its blocks computes what is in flight again.
            let anew = state.starts != part.starts && !self.settings.asynchronous;
            if state.request != part.request || state.is_done() || anew {
                continue;
            }
            let (right, drafts) = drafted(part);
            let rejected = part.drafts - right.min(part.drafts);
            let count = (1 + part.drafts - rejected).min(state.output - state.produced);
            // A request that lost its blocks meanwhile still gets the token.
            state.computed = state.computed.saturating_sub(rejected);
            let first = state.produced == 0;
            state.produce(count);
            let last = state.is_done();
            if self.settings.asynchronous {
                state.expected -= 1 + part.drafts;
                let (runs, there) = (state.runs, state.computed.saturating_sub(state.expected));
                if runs {
                    self.remember(part.slot, there);
                }
            } else {
                state.drafts = drafts;
            }
            if last {
                ended = true;
                self.end(part.slot);
            }
            tokens.push(Token { request: part.request, count, first, last });
        }
        if ended {
            let states = &self.states;
            self.running.retain(|&slot| states[slot as usize].runs);
        }
        tokens
    }

    /// A request is done.
    fn end(&mut self, slot: u32) {
        self.give_back(slot);
        if !std::mem::take(&mut self.states[slot as usize].runs) {
            let key = self.key(slot);
            match &mut self.waiting {
                Waiting::Arrived(queue) => queue.retain(|&other| other != slot),
                Waiting::Urgent(queue) => drop(queue.remove(&key)),
            }
        }
        self.vacant.push(slot);
    }

    /// Requests that run get the tokens that they lack.
    fn go_on(&mut self, batch: &mut Batch, budget: &mut u32) {
        let mut at = 0;
        while at < self.running.len() && *budget > 0 {
            let slot = self.running[at];
            let Some(tokens) = self.lacking(slot, *budget) else {
                at += 1;
                continue;
            };
            let ahead = self.settings.lookahead;
            let mut fits = self.allocate(slot, tokens, ahead, &[]);
            while !fits {
                let victim = self.preempt(batch, budget, &mut at);
                if victim == slot {
                    break;
                }
                fits = self.allocate(slot, tokens, ahead, &[]);
            }
            if !fits {
                break;
            }
            *budget -= tokens;
            self.part(batch, slot, tokens, None);
            at += 1;
        }
    }

    /// Tokens that a running request gets next, if any.
    fn lacking(&self, slot: u32, budget: u32) -> Option<u32> {
        let state = &self.states[slot as usize];
        if state.expected > 0 && state.computed + 2 - state.expected >= state.prompt + state.output
        {
            return None;
        }
        let known = state.tokens() + state.drafts + state.expected;
        let mut tokens = known.saturating_sub(state.computed);
        if self.settings.long_prefill > 0 {
            tokens = tokens.min(self.settings.long_prefill);
        }
        tokens = tokens.min(budget).min((self.settings.longest - 1).saturating_sub(state.computed));
        (tokens > 0).then_some(tokens)
    }

    /// Takes the blocks of a running request, which waits again.
    fn preempt(&mut self, batch: &mut Batch, budget: &mut u32, at: &mut usize) -> u32 {
        let place = if self.settings.priority {
            let key = |place: usize| {
                let state = &self.states[self.running[place] as usize];
                (state.priority, state.arrived)
            };
            let places = 0..self.running.len();
            places.rev().max_by_key(|&place| key(place)).expect("the request itself runs")
        } else {
            self.running.len() - 1
        };
        let slot = self.running.remove(place);
        if let Some(found) = batch.parts.iter().position(|part| part.slot == slot) {
            *budget += batch.parts.remove(found).tokens;
            *at -= 1;
        }
        self.give_back(slot);
        let state = &mut self.states[slot as usize];
        (state.computed, state.known, state.brought, state.drafts) = (0, 0, 0, 0);
        state.runs = false;
        state.starts += 1;
        batch.preempted.push(state.request);
        self.wait_first(slot);
        slot
    }

    /// Admits waiting requests in order.
    fn admit(&mut self, batch: &mut Batch, budget: &mut u32) {
        while *budget > 0 && self.running.len() < self.settings.sequences as usize {
            let Some(slot) = self.next_waiting() else { break };
            let found = self.found(slot);
            let state = &self.states[slot as usize];
            let cached = (found.len() as u32 * self.settings.block).max(state.brought);
            let mut tokens = state.tokens() - cached.min(state.tokens() - 1);
            if self.settings.long_prefill > 0 {
                tokens = tokens.min(self.settings.long_prefill);
            }
            if tokens > *budget && !self.settings.chunked {
                break;
            }
            tokens = tokens.min(*budget);
            let fits = !self.settings.whole || self.fits(slot, state.tokens(), &found);
            if !fits || !self.allocate(slot, tokens, 0, &found) {
                break;
            }
            self.no_longer_waits(slot);
            self.running.push(slot);
            self.states[slot as usize].runs = true;
            *budget -= tokens;
            self.part(batch, slot, tokens, Some(cached));
        }
    }

    fn part(&self, batch: &mut Batch, slot: u32, tokens: u32, admitted: Option<u32>) {
        let state = &self.states[slot as usize];
        let lacking = state.tokens() + state.expected;
        let drafts = (state.computed + tokens).saturating_sub(lacking);
        let request = state.request;
        batch.parts.push(Part {
            request,
            slot,
            starts: state.starts,
            context: 0,
            tokens,
            drafts,
            generates: false,
            prefills: false,
            admitted,
        });
    }
}
