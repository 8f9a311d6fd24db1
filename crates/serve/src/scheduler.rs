//! Which requests run in a step, and with how many tokens.
//!
//! Here: what all schedulers have in common, such as requests that wait and blocks of the cache.
//! The rules of each are in `vllm.rs`, `sglang.rs` and `trtllm.rs`.

use crate::content::{Chain, Piece};
use crate::plans::{SglangPlan, TrtllmPlan};
use crate::pool::Pool;
use crate::radix::Text;
use crate::request::{Request, Slots, State};
use crate::settings::{Policy, Settings};
use std::collections::{BTreeSet, VecDeque};

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
    /// Whether the tokens are those of a prompt, or are computed again.
    pub(crate) prefills: bool,
    /// Tokens found in the cache, where the request is admitted by this step.
    pub admitted: Option<u32>,
}

impl Part {
    /// Whether the tokens are those of a prompt, or are computed again.
    pub fn is_prompt(&self) -> bool {
        self.prefills
    }
}

/// The requests of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Parts in the scheduler's order: requests that ran before, then admitted ones.
    pub parts: Vec<Part>,
    /// Requests that lost their blocks, in order.
    pub preempted: Vec<u32>,
    /// Each request generates one token after another, and nothing else happens.
    pub(crate) steady: bool,
    /// Which of several batches that take turns it is.
    pub(crate) lane: u32,
    /// Nothing runs, and the scheduler looks again at once.
    pub(crate) again: bool,
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
pub(crate) enum Waiting {
    Arrived(VecDeque<u32>),
    Urgent(BTreeSet<(i64, u64, u32)>),
}

/// The scheduler of one engine with its requests.
#[derive(Clone, Debug)]
pub struct Scheduler {
    pub(crate) settings: Settings,
    pub(crate) pool: Pool,
    pub(crate) states: Vec<State>,
    pub(crate) vacant: Vec<u32>,
    pub(crate) running: Vec<u32>,
    pub(crate) waiting: Waiting,
    pub(crate) sglang: Option<Box<SglangPlan>>,
    pub(crate) trtllm: Option<Box<TrtllmPlan>>,
    arrived: u64,
}

impl Scheduler {
    /// Without requests.
    pub fn new(settings: Settings) -> Scheduler {
        Scheduler::in_stages(settings, 1)
    }

    /// Without requests, on a pipeline of `stages` stages.
    pub(crate) fn in_stages(settings: Settings, stages: u32) -> Scheduler {
        let waiting = if settings.priority && settings.policy == Policy::Vllm {
            Waiting::Urgent(BTreeSet::new())
        } else {
            Waiting::Arrived(VecDeque::new())
        };
        let mut scheduler = Scheduler {
            pool: Pool::new(settings.blocks),
            settings,
            states: Vec::new(),
            vacant: Vec::new(),
            running: Vec::new(),
            waiting,
            sglang: None,
            trtllm: None,
            arrived: 0,
        };
        match scheduler.settings.policy {
            Policy::Vllm => {}
            Policy::Sglang(policy) => {
                let plan = SglangPlan::new(policy, &scheduler.settings, stages);
                (scheduler.sglang, scheduler.pool) = (Some(Box::new(plan)), Pool::new(0));
            }
            Policy::Trtllm(policy) => {
                scheduler.trtllm = Some(Box::new(TrtllmPlan::new(policy, stages)));
            }
        }
        scheduler
    }

    /// A request arrives, with `brought` tokens of its prompt computed elsewhere.
    pub fn add(&mut self, number: u32, request: &Request, brought: u32) {
        let tree = self.sglang.is_some();
        let block = (self.settings.caching && !tree).then_some(self.settings.block);
        let mut state = State::new(number, self.arrived, request, block, self.settings.longest);
        state.brought = brought;
        if self.settings.caching && tree {
            state.slots = Slots { text: Text::of(&request.prompt), ..Slots::default() };
        }
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
        let queued = match &self.waiting {
            Waiting::Arrived(queue) => queue.len(),
            Waiting::Urgent(queue) => queue.len(),
        };
        queued + self.trtllm.as_ref().map_or(0, |plan| plan.active.len() - self.running.len())
    }

    /// Requests that run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Blocks of the cache without a request.
    pub fn free_blocks(&self) -> u32 {
        self.sglang.as_ref().map_or_else(|| self.pool.free(), |plan| plan.room())
    }

    /// Tokens at the start of a prompt that the cache holds.
    pub fn held(&self, prompt: &[Piece]) -> u32 {
        if !self.settings.caching {
            return 0;
        }
        if let Some(plan) = &self.sglang {
            return plan.held(prompt);
        }
        let chain = Chain::of(self.settings.block, prompt);
        let held = chain.hashes().iter().take_while(|&&hash| self.pool.holding(hash).is_some());
        held.count() as u32 * self.settings.block
    }

    /// Chooses what runs in the next step.
    pub fn schedule(&mut self) -> Batch {
        if let Some(mut plan) = self.sglang.take() {
            let batch = plan.schedule(self);
            self.sglang = Some(plan);
            return batch;
        }
        if let Some(mut plan) = self.trtllm.take() {
            let batch = plan.schedule(self);
            self.trtllm = Some(plan);
            return batch;
        }
        self.schedule_vllm()
    }

    /// A step has run. `drafted` says how many drafts of a part were right, and how many there are
    /// for the request's next step. An engine that runs ahead plans with all of them.
    pub fn update(&mut self, batch: &Batch, drafted: impl Fn(&Part) -> (u32, u32)) -> Vec<Token> {
        if let Some(mut plan) = self.sglang.take() {
            let tokens = plan.update(self, batch, drafted);
            self.sglang = Some(plan);
            return tokens;
        }
        if let Some(mut plan) = self.trtllm.take() {
            let tokens = plan.update(self, batch, drafted);
            self.trtllm = Some(plan);
            return tokens;
        }
        self.update_vllm(batch, drafted)
    }

    /// Whether steps like this batch may follow, as long as there is room and none comes or ends.
    pub(crate) fn stays(&self, batch: &Batch) -> bool {
        match (&self.sglang, &self.trtllm) {
            (Some(plan), _) => plan.stays(self.waiting()),
            (_, Some(plan)) => plan.stays(self),
            _ => self.waiting() == 0 || batch.tokens() < u64::from(self.settings.tokens),
        }
    }

    /// Whether the requests of such a batch may take `blocks` blocks, and none loses its own.
    pub(crate) fn has_room(&self, blocks: u32) -> bool {
        match (&self.sglang, &self.trtllm) {
            (Some(plan), _) => blocks <= plan.room(),
            // Whoever looks two steps ahead pauses a request before it lacks a block.
            (_, Some(plan)) if plan.evicts() => {
                (blocks + 3 * self.running.len() as u32) <= self.pool.free()
            }
            _ => blocks <= self.pool.free(),
        }
    }

    /// The next step of such a batch of `requests` requests takes `blocks` blocks.
    pub(crate) fn steps_on(&mut self, blocks: u32, requests: u32) {
        if let Some(plan) = &mut self.sglang {
            plan.steps_on(blocks, requests);
        }
    }

    /// A request takes a block for its next token.
    pub(crate) fn take(&mut self, slot: u32) {
        let state = &mut self.states[slot as usize];
        match &mut self.sglang {
            Some(plan) => plan.take(state),
            None => state.blocks.push(self.pool.take()),
        }
    }

    /// Whether the cache gets to know blocks while their request runs.
    pub(crate) fn remembers(&self) -> bool {
        self.settings.caching && self.settings.policy == Policy::Vllm
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
    pub(crate) fn lacks(&self, slot: u32, tokens: u32, found: &[u32]) -> u32 {
        let held = self.states[slot as usize].blocks.len() + found.len();
        let slots = tokens.min(self.settings.longest);
        slots.div_ceil(self.settings.block).saturating_sub(held as u32)
    }

    /// Whether there are blocks for `tokens` tokens in all.
    pub(crate) fn fits(&self, slot: u32, tokens: u32, found: &[u32]) -> bool {
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
        if self.settings.policy == Policy::Vllm {
            self.remember(slot, computed + tokens);
        }
        true
    }

    /// The cache of prefixes gets to know the full blocks of a request, as far as `computed`.
    pub(crate) fn remember(&mut self, slot: u32, computed: u32) {
        let once = matches!(self.settings.policy, Policy::Trtllm(_));
        let state = &mut self.states[slot as usize];
        let full = computed.min(state.prompt + state.produced) / self.settings.block;
        while state.known < full {
            let Some(hash) = state.hash(state.known) else { break };
            // TensorRT-LLM keeps a prefix once, vLLM as often as it was computed.
            if once && self.pool.holding(hash).is_some() {
                state.known += 1;
                continue;
            }
            self.pool.hold(state.blocks[state.known as usize], hash);
            state.known += 1;
        }
    }

    /// A request gives its blocks back, the last one first.
    pub(crate) fn give_back(&mut self, slot: u32) {
        let blocks = std::mem::take(&mut self.states[slot as usize].blocks);
        self.pool.release(blocks.into_iter().rev());
    }

    pub(crate) fn wait(&mut self, slot: u32) {
        let key = self.key(slot);
        match &mut self.waiting {
            Waiting::Arrived(queue) => queue.push_back(slot),
            Waiting::Urgent(queue) => drop(queue.insert(key)),
        }
    }

    pub(crate) fn wait_first(&mut self, slot: u32) {
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

    pub(crate) fn key(&self, slot: u32) -> (i64, u64, u32) {
        let state = &self.states[slot as usize];
        (state.priority, state.arrived, slot)
    }
}
