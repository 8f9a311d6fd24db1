//! Which requests run in a step, and with how many tokens: the scheduler of vLLM 0.19.
//!
//! Its rules are described in `lab/peers/record_vllm_scheduler.py`, and its decisions on drawn loads
//! are recorded in `tests/golden/peers/vllm_scheduler.json`. Requests that run come first, in the
//! order in which they were admitted. Each gets the tokens that it lacks, as long as the step's
//! budget lasts. Where the cache is full, the last one admitted (or the least urgent) gives its
//! blocks back, waits at the front and starts anew. Then waiting requests are admitted in order,
//! until one does not fit.

use crate::content::{Chain, Piece};
use crate::pool::Pool;
use crate::request::{Request, State};
use std::collections::{BTreeSet, VecDeque};

/// Settings of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Tokens of a block of the cache.
    pub block: u32,
    /// Blocks of the cache.
    pub blocks: u32,
    /// Requests that run at a time.
    pub sequences: u32,
    /// Tokens of a step.
    pub tokens: u32,
    /// Tokens of a request, with its output.
    pub longest: u32,
    /// A prompt may take several steps.
    pub chunked: bool,
    /// Tokens that one request may get in a step; 0 without a limit.
    pub long_prefill: u32,
    /// Urgent requests first.
    pub priority: bool,
    /// Blocks keep their prefixes for later requests.
    pub caching: bool,
    /// A step is scheduled while the one before it runs.
    pub asynchronous: bool,
    /// Tokens that are drafted for a request in each step; 0 without speculation.
    pub drafts: u32,
    /// Tokens for which a running request gets blocks ahead of time, as models that draft need.
    pub lookahead: u32,
    /// The last block of a cached prefix is computed again, because the model that drafts needs the
    /// hidden states.
    pub recomputes_last: bool,
    /// A request is admitted when there are blocks for all its tokens, not only for its first chunk.
    pub whole: bool,
}

/// A request's part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Request.
    pub request: u32,
    /// Index among the requests of the engine.
    pub(crate) slot: u32,
    /// How often the request had lost its blocks before.
    pub(crate) starts: u32,
    /// Tokens whose keys and values are there already.
    pub context: u32,
    /// Tokens that are computed.
    pub tokens: u32,
    /// Number of drafts among them.
    pub drafts: u32,
    /// Whether tokens are generated.
    pub generates: bool,
    /// Tokens found in the cache, where the request is admitted by this step.
    pub admitted: Option<u32>,
}

/// The requests of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Parts in the scheduler's order: requests that ran before, then admitted ones.
    pub parts: Vec<Part>,
    /// Requests that lost their blocks, in order.
    pub preempted: Vec<u32>,
}

impl Batch {
    /// Tokens of all parts.
    pub fn tokens(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.tokens)).sum()
    }
}

/// Tokens that a step generated for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Request.
    pub request: u32,
    /// Tokens.
    pub count: u32,
    /// Whether they are its first.
    pub first: bool,
    /// Whether it is done.
    pub last: bool,
}

/// Requests that wait, in the order in which they are admitted.
#[derive(Clone, Debug)]
enum Waiting {
    Arrived(VecDeque<u32>),
    Urgent(BTreeSet<(i64, u64, u32)>),
}

/// The scheduler of one engine with its requests.
#[derive(Clone, Debug)]
pub struct Scheduler {
    pub(crate) settings: Settings,
    pub(crate) pool: Pool,
    pub(crate) states: Vec<State>,
    vacant: Vec<u32>,
    pub(crate) running: Vec<u32>,
    waiting: Waiting,
    arrived: u64,
}

impl Scheduler {
    /// Without requests.
    pub fn new(settings: Settings) -> Scheduler {
        let waiting = if settings.priority {
            Waiting::Urgent(BTreeSet::new())
        } else {
            Waiting::Arrived(VecDeque::new())
        };
        Scheduler {
            pool: Pool::new(settings.blocks),
            settings,
            states: Vec::new(),
            vacant: Vec::new(),
            running: Vec::new(),
            waiting,
            arrived: 0,
        }
    }

    /// A request arrives, with `brought` tokens of its prompt computed elsewhere.
    pub fn add(&mut self, number: u32, request: &Request, brought: u32) {
        let block = self.settings.caching.then_some(self.settings.block);
        let mut state = State::new(number, self.arrived, request, block, self.settings.longest);
        state.brought = brought;
        self.arrived += 1;
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.states[slot as usize] = state;
                slot
            }
            None => {
                self.states.push(state);
                self.states.len() as u32 - 1
            }
        };
        self.wait(slot);
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        match &self.waiting {
            Waiting::Arrived(queue) => queue.len(),
            Waiting::Urgent(queue) => queue.len(),
        }
    }

    /// Requests that run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Blocks of the cache without a request.
    pub fn free_blocks(&self) -> u32 {
        self.pool.free()
    }

    /// Tokens at the start of a prompt that the cache holds.
    pub fn held(&self, prompt: &[Piece]) -> u32 {
        if !self.settings.caching {
            return 0;
        }
        let chain = Chain::of(self.settings.block, prompt);
        let held = chain.hashes().iter().take_while(|&&hash| self.pool.holding(hash).is_some());
        held.count() as u32 * self.settings.block
    }

    /// Chooses what runs in the next step.
    pub fn schedule(&mut self) -> Batch {
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
        batch
    }

    /// Whether a part generates one token after another, and does nothing else.
    pub(crate) fn is_quiet(&self, part: &Part) -> bool {
        let goes_on = part.context >= self.states[part.slot as usize].prompt;
        goes_on && part.admitted.is_none() && part.tokens == 1 && self.settings.drafts == 0
    }

    /// A step has run. `drafted` says how many drafts of a part were right, and how many there are
    /// for the request's next step. An engine that runs ahead plans with all of them.
    pub fn update(&mut self, batch: &Batch, drafted: impl Fn(&Part) -> (u32, u32)) -> Vec<Token> {
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
            admitted,
        });
    }

    /// Blocks of the cache that hold the longest known prefix of a request, but for its last token.
    pub(crate) fn found(&self, slot: u32) -> Vec<u32> {
        let state = &self.states[slot as usize];
        let Some(chain) = &state.chain else { return Vec::new() };
        let most = (state.tokens() - 1) / self.settings.block;
        let known = chain.hashes().iter().take(most as usize);
        let mut found: Vec<u32> = known.map_while(|&hash| self.pool.holding(hash)).collect();
        if self.settings.recomputes_last {
            found.pop();
        }
        found
    }

    /// Blocks that a request lacks for `tokens` tokens in all, behind those that were `found`.
    fn lacks(&self, slot: u32, tokens: u32, found: &[u32]) -> u32 {
        let held = self.states[slot as usize].blocks.len() + found.len();
        let slots = tokens.min(self.settings.longest);
        slots.div_ceil(self.settings.block).saturating_sub(held as u32)
    }

    /// Whether there are blocks for `tokens` tokens in all.
    fn fits(&self, slot: u32, tokens: u32, found: &[u32]) -> bool {
        let sleeping = found.iter().filter(|&&block| self.pool.is_free(block)).count() as u32;
        self.lacks(slot, tokens, found) + sleeping <= self.pool.free()
    }

    /// Blocks for `tokens` more tokens of a request and some ahead, behind those that were `found`.
    /// Changes nothing where there are too few.
    pub(crate) fn allocate(&mut self, slot: u32, tokens: u32, ahead: u32, found: &[u32]) -> bool {
        let state = &self.states[slot as usize];
        let brought = if state.blocks.is_empty() { state.brought } else { 0 };
        let computed = state.computed + (found.len() as u32 * self.settings.block).max(brought);
        let slots = computed + tokens + ahead;
        if !self.fits(slot, slots, found) {
            return false;
        }
        let more = self.lacks(slot, slots, found);
        let state = &mut self.states[slot as usize];
        for &block in found {
            self.pool.touch(block);
        }
        state.blocks.extend_from_slice(found);
        state.known += found.len() as u32;
        state.computed = computed;
        state.blocks.extend((0..more).map(|_| self.pool.take()));
        self.remember(slot, computed + tokens);
        true
    }

    /// The cache of prefixes gets to know the full blocks of a request, as far as `computed`.
    pub(crate) fn remember(&mut self, slot: u32, computed: u32) {
        let state = &mut self.states[slot as usize];
        let full = computed.min(state.prompt + state.produced) / self.settings.block;
        while state.known < full {
            let Some(hash) = state.hash(state.known) else { break };
            self.pool.hold(state.blocks[state.known as usize], hash);
            state.known += 1;
        }
    }

    /// A request gives its blocks back, the last one first.
    pub(crate) fn give_back(&mut self, slot: u32) {
        let blocks = std::mem::take(&mut self.states[slot as usize].blocks);
        self.pool.release(blocks.into_iter().rev());
    }

    fn wait(&mut self, slot: u32) {
        let key = self.key(slot);
        match &mut self.waiting {
            Waiting::Arrived(queue) => queue.push_back(slot),
            Waiting::Urgent(queue) => drop(queue.insert(key)),
        }
    }

    fn wait_first(&mut self, slot: u32) {
        let key = self.key(slot);
        match &mut self.waiting {
            Waiting::Arrived(queue) => queue.push_front(slot),
            Waiting::Urgent(queue) => drop(queue.insert(key)),
        }
    }

    pub(crate) fn next_waiting(&self) -> Option<u32> {
        match &self.waiting {
            Waiting::Arrived(queue) => queue.front().copied(),
            Waiting::Urgent(queue) => queue.first().map(|&(_, _, slot)| slot),
        }
    }

    pub(crate) fn no_longer_waits(&mut self, slot: u32) {
        let key = self.key(slot);
        match &mut self.waiting {
            Waiting::Arrived(queue) => drop(queue.pop_front()),
            Waiting::Urgent(queue) => drop(queue.remove(&key)),
        }
    }

    fn key(&self, slot: u32) -> (i64, u64, u32) {
        let state = &self.states[slot as usize];
        (state.priority, state.arrived, slot)
    }
}
