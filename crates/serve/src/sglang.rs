//! The rules of SGLang 0.5.10's scheduler.
//!
//! From its `managers/scheduler.py`, `schedule_policy.py`, `schedule_batch.py` and
//! `scheduler_output_processor_mixin.py`:
//!
//! - A step has prompts, or it generates tokens. Prompts go first. With mixed chunks, a step with
//!   prompts generates tokens too.
//! - Waiting requests are looked at in order: as they came, by urgency, or longest known prefix
//!   first. In the last case, whoever shares 32 tokens or more with another one that waits, and
//!   finds no more than that in the cache, comes last; and the order stays as it is while more than
//!   128 wait.
//! - A request is admitted if its prompt and its whole output (at most 4,096 tokens of it) are less
//!   than the room, less a part of what the others still generate. That part falls with each step
//!   from 0.7 (times `conservativeness`) to 14 % of it in 600 steps, and begins anew when the
//!   engine is idle.
//! - Prompts of a step have at most `prefill_tokens`, but for the first one. The last one is cut
//!   where the tokens of a step (`chunked_prefill_size`) end. It goes on first in the next step, and
//!   only one request is in parts at a time.
//! - Without a cache of prefixes, a request that ignores the end token is admitted if there is room
//!   until the last of those that run ends, each one giving its room back when it ends. Its chunk
//!   may end within a page.
//! - Once a request finds no room or no seat, no other one is looked at until one leaves.
//! - Where the tokens of a step find no room, requests are retracted: those with the fewest tokens
//!   of output first, the longest prompt among equals. With drafts it is the last one. Their pages
//!   are free at once, and they wait at the end of the queue. The part above is then estimated from
//!   those that are left, with 20 more tokens for each.
//! - Where a page has several tokens, prefixes are forgotten until there is room for a page more of
//!   each request of a step, and for all its tokens where it has prompts.
//! - The cache is a tree (`radix.rs`). A prompt is in it once it is computed, a part of a prompt
//!   when the next step is planned, an output when its request ends.
//! - A step that is planned while the one before it runs still has the requests that end there.
//! - The stages of a pipeline have requests of their own, which take turns.
//!
//! `tests/sglang.rs` compares with recorded decisions. Left out: preemption by urgency, other orders
//! than these three, and pages on hosts. A last request without room is aborted by SGLang. Here it
//! waits again.

use crate::content::Piece;
use crate::plans::{Lane, SglangPlan as Plan};
use crate::radix::{Text, Tree};
use crate::request::State;
use crate::scheduler::{Batch, Part, Scheduler, Token};
use crate::settings::{Settings, Sglang};
use std::cmp::Reverse;

/// The part of outputs for which room is kept, at the start; what is left of it; steps until then.
const RATIO: f64 = 0.7;
const LEAST: f64 = 0.14;
const STEPS: f64 = 600.0;
/// Tokens for each request for which room is made when others are retracted.
const AHEAD: u32 = 20;

fn is_done(scheduler: &Scheduler, slot: u32) -> bool {
    scheduler.states[slot as usize].is_done()
}

impl Plan {
    pub fn new(policy: Sglang, settings: &Settings, stages: u32) -> Plan {
        let mut plan = Plan {
            policy,
            page: settings.block,
            caching: settings.caching,
            tree: Tree::new(settings.block),
            free: settings.blocks,
            ratio: 0.0,
            lanes: vec![Lane::default(); stages as usize],
            next: 0,
            chunked: None,
        };
        plan.ratio = plan.ratios().0;
        plan
    }

    /// Pages that are free, or would be if prefixes were forgotten.
    pub fn room(&self) -> u32 {
        self.free + self.tree.evictable()
    }

    /// Tokens at the start of a prompt that the cache holds.
    pub fn held(&self, prompt: &[Piece]) -> u32 {
        let text = Text::of(prompt);
        let tokens = prompt.iter().map(|piece| piece.length).sum();
        self.tree.peek(&text, tokens) * self.page
    }

    /// Whether the steps in flight may follow each other again and again: none that waits is looked
    /// at, and no lane begins.
    pub fn stays(&self, waiting: usize) -> bool {
        let full = |lane: &Lane| lane.full && !lane.decoding.is_empty();
        let begins =
            |lane: &Lane| lane.flying == 0 && !(lane.decoding.is_empty() && lane.last.is_empty());
        self.chunked.is_none()
            && (waiting == 0 || self.lanes.iter().all(full))
            && !self.lanes.iter().any(begins)
    }

    /// The next step generates tokens alone for `requests` requests, and takes `pages` pages.
    pub fn steps_on(&mut self, pages: u32, requests: u32) {
        self.make_room(pages, pages);
        self.make_spare(requests);
        self.decay();
    }

    /// Room for a page of each request is made before tokens are placed, also where few need one.
    fn make_spare(&mut self, requests: u32) {
        if self.page > 1 {
            self.make_room(requests, requests);
        }
    }

    /// Steps of these lanes have begun, in this order, each with requests.
    pub fn turned(&mut self, lanes: impl Iterator<Item = u32>) {
        if let Some(last) = lanes.last() {
            self.next = last as usize + 1;
        }
    }

    /// A request takes a page for its next token.
    pub fn take(&mut self, state: &mut State) {
        self.free -= 1;
        state.slots.own += 1;
    }

    /// The part for which room is kept at the start, and at the end.
    fn ratios(&self) -> (f64, f64) {
        let first = (RATIO * self.policy.conservativeness).min(1.0);
        (first, (first * LEAST).min(1.0))
    }

    fn decay(&mut self) {
        let (first, least) = self.ratios();
        self.ratio = (self.ratio - (first - least) / STEPS).max(least);
    }

    /// Forgets `more` pages of prefixes unless `pages` are free. Whether they are then.
    fn make_room(&mut self, pages: u32, more: u32) -> bool {
        if self.free < pages {
            self.free += self.tree.evict(more);
        }
        self.free >= pages
    }

    /// Chooses what runs in the next step.
    pub fn schedule(&mut self, scheduler: &mut Scheduler) -> Batch {
        let lanes = self.lanes.len();
        let mut again = false;
        for turn in 0..lanes {
            let at = (self.next + turn) % lanes;
            if lanes > 1 && self.lanes[at].flying > 0 {
                continue;
            }
            let mut batch = self.step(scheduler, at);
            if !batch.parts.is_empty() || !batch.preempted.is_empty() {
                batch.lane = at as u32;
                self.lanes[at].flying += u32::from(!batch.parts.is_empty());
                self.next = at + 1;
                return batch;
            }
            again |= batch.again && scheduler.waiting() > 0;
        }
        if scheduler.running.is_empty() && self.lanes.iter().all(|lane| lane.flying == 0) {
            self.ratio = self.ratios().0;
        }
        Batch { steady: true, again, ..Batch::default() }
    }

    /// The next step of a lane.
    fn step(&mut self, scheduler: &mut Scheduler, at: usize) -> Batch {
        let mut batch = Batch::default();
        if let Some(slot) = self.chunked {
            let computed = scheduler.states[slot as usize].computed;
            self.keep(scheduler, slot, computed);
        }
        let lane = &mut self.lanes[at];
        let mut last = std::mem::take(&mut lane.last);
        if !last.is_empty() {
            let before = last.len();
            let parts = [self.chunked, lane.chunked.take()];
            let mut gone = Vec::new();
            // A request in parts may be in several lanes. It is kept by that of its last part.
            last.retain(|&slot| {
                let here = !parts.contains(&Some(slot));
                let done = here && is_done(scheduler, slot);
                if done {
                    gone.push(slot);
                }
                here && !done
            });
            scheduler.vacant.extend(gone);
            if last.len() < before || lane.decoding.is_empty() {
                lane.full = false;
            }
            lane.decoding.append(&mut last);
        }
        if self.prefill(scheduler, at, &mut batch) {
            return batch;
        }
        let idle = self.decode(scheduler, at, &mut batch);
        // Whoever waits is looked at again at once, or when the step in flight ends.
        batch.again = idle && self.lanes.iter().all(|lane| lane.flying == 0);
        batch
    }

    /// A step with prompts, if there are any for it.
    fn prefill(&mut self, scheduler: &mut Scheduler, at: usize, batch: &mut Batch) -> bool {
        let lane = &mut self.lanes[at];
        let closed = lane.full && !lane.decoding.is_empty() || scheduler.waiting() == 0;
        if closed && self.chunked.is_none() {
            return false;
        }
        let seats = (scheduler.settings.sequences as usize / self.lanes.len()).max(1);
        let lane = &mut self.lanes[at];
        let seats = seats.saturating_sub(lane.decoding.len());
        if seats == 0 && self.chunked.is_some() {
            lane.full = true;
            return false;
        }
        self.order(scheduler);
        let mut budget = self.budget(scheduler, at);
        let mut pages = 0;
        if let Some(slot) = self.chunked {
            match self.go_on(scheduler, slot, &mut budget) {
                Some((part, more)) => {
                    batch.parts.push(part);
                    pages += more;
                }
                None => return false,
            }
        }
        self.admit(scheduler, at, seats, &mut budget, &mut pages, batch);
        if batch.parts.is_empty() {
            return false;
        }
        let tokens: u32 = batch.parts.iter().map(|part| part.tokens).sum();
        let spare = if self.page > 1 { batch.parts.len() as u32 } else { 0 };
        let wanted = (tokens.div_ceil(self.page) + spare).max(pages);
        self.make_room(wanted, wanted);
        self.free = self.free.checked_sub(pages).expect("there is room for admitted prompts");
        for part in &batch.parts {
            let state = &mut scheduler.states[part.slot as usize];
            state.computed = part.context + part.tokens;
            state.slots.own = state.computed.div_ceil(self.page) - state.slots.kept / self.page;
        }
        let lane = &mut self.lanes[at];
        lane.last = batch.parts.iter().map(|part| part.slot).collect();
        lane.chunked = self.chunked;
        if self.policy.mixed {
            self.mix(scheduler, at, batch);
        }
        true
    }

    /// Those that generate tokens join a step with prompts.
    fn mix(&mut self, scheduler: &mut Scheduler, at: usize, batch: &mut Batch) {
        self.filter(scheduler, at);
        let pages = self.lacking(scheduler, &self.lanes[at].decoding);
        if !self.make_room(pages, pages) {
            return;
        }
        let decoding = std::mem::take(&mut self.lanes[at].decoding);
        self.make_spare(decoding.len() as u32);
        decoding.iter().for_each(|&slot| batch.parts.push(self.decodes(scheduler, slot)));
        self.lanes[at].last.extend(decoding);
    }

    /// Requests that are done leave.
    fn filter(&mut self, scheduler: &mut Scheduler, at: usize) {
        let states = &scheduler.states;
        let vacant = &mut scheduler.vacant;
        self.lanes[at].decoding.retain(|&slot| {
            let done = states[slot as usize].is_done();
            if done {
                vacant.push(slot);
            }
            !done
        });
    }

    /// Tokens that a request gets in its next step, with drafts.
    fn tokens_of(scheduler: &Scheduler, slot: u32) -> u32 {
        let state = &scheduler.states[slot as usize];
        (1 + scheduler.settings.drafts).min(state.prompt + state.output - state.computed)
    }

    /// Pages that requests lack for their next step.
    fn lacking(&self, scheduler: &Scheduler, slots: &[u32]) -> u32 {
        let lacks = |&slot: &u32| {
            let computed = scheduler.states[slot as usize].computed;
            let after = computed + Plan::tokens_of(scheduler, slot);
            after.div_ceil(self.page) - computed.div_ceil(self.page)
        };
        slots.iter().map(lacks).sum()
    }

    /// A request's part of a step that generates tokens.
    fn decodes(&mut self, scheduler: &mut Scheduler, slot: u32) -> Part {
        let tokens = Plan::tokens_of(scheduler, slot);
        let pages = self.lacking(scheduler, &[slot]);
        let state = &mut scheduler.states[slot as usize];
        self.free -= pages;
        state.slots.own += pages;
        let context = state.computed;
        state.computed += tokens;
        Part {
            generates: true,
            prefills: false,
            drafts: tokens - 1,
            ..prompt(state, slot, context, tokens)
        }
    }

    /// A step that generates tokens. Whether all its requests are done.
    fn decode(&mut self, scheduler: &mut Scheduler, at: usize, batch: &mut Batch) -> bool {
        let before = self.lanes[at].decoding.len();
        if before == 0 {
            return false;
        }
        self.filter(scheduler, at);
        if self.lanes[at].decoding.is_empty() {
            self.lanes[at].full = false;
            return true;
        }
        let pages = self.lacking(scheduler, &self.lanes[at].decoding);
        if self.make_room(pages, pages) {
            self.decay();
        } else {
            self.retract(scheduler, at, batch);
        }
        if self.lanes[at].decoding.len() < before {
            self.lanes[at].full = false;
        }
        let decoding = self.lanes[at].decoding.clone();
        self.make_spare(decoding.len() as u32);
        batch.parts = decoding.iter().map(|&slot| self.decodes(scheduler, slot)).collect();
        batch.steady = scheduler.settings.drafts == 0;
        false
    }

    /// Requests give their pages back until the others have room.
    fn retract(&mut self, scheduler: &mut Scheduler, at: usize, batch: &mut Batch) {
        let mut order = std::mem::take(&mut self.lanes[at].decoding);
        if scheduler.settings.drafts == 0 {
            let states = &scheduler.states;
            let key = |slot: u32| {
                let state = &states[slot as usize];
                (Reverse(state.produced), state.prompt)
            };
            order.sort_by_key(|&slot| key(slot));
        }
        let mut first = order.len() > 1;
        while !order.is_empty() {
            let pages = self.lacking(scheduler, &order);
            if self.make_room(pages, pages) && !first {
                break;
            }
            first = false;
            let slot = order.pop().expect("a request is left");
            self.release(scheduler, slot);
            let ahead = (order.len() as u32 * AHEAD).div_ceil(self.page);
            self.make_room(ahead, ahead);
            let state = &mut scheduler.states[slot as usize];
            (state.computed, state.brought, state.runs) = (0, 0, false);
            state.starts += 1;
            batch.preempted.push(state.request);
            scheduler.running.retain(|&other| other != slot);
            scheduler.wait(slot);
        }
        let sum = |of: fn(&State) -> u32| -> f64 {
            order.iter().map(|&slot| f64::from(of(&scheduler.states[slot as usize]))).sum()
        };
        let produced = sum(|state| state.produced) + f64::from(AHEAD) * order.len() as f64;
        self.ratio = (produced / (sum(|state| state.output) + 1.0)).min(1.0);
        self.lanes[at].decoding = order;
    }

    /// A request gives all its pages back.
    fn release(&mut self, scheduler: &mut Scheduler, slot: u32) {
        let slots = &mut scheduler.states[slot as usize].slots;
        self.free += std::mem::take(&mut slots.own);
        self.tree.let_go(slots.leave());
    }

    /// The tree gets `tokens` tokens of a request.
    fn keep(&mut self, scheduler: &mut Scheduler, slot: u32, tokens: u32) {
        if !self.caching {
            return;
        }
        let state = &mut scheduler.states[slot as usize];
        let text = state.slots.text.with_output(state.request, state.produced);
        let (node, before) = self.tree.insert(&text, tokens);
        let whole = tokens / self.page;
        let kept = state.slots.kept / self.page;
        self.free += before - kept;
        state.slots.own -= whole - kept;
        self.tree.hold(node);
        self.tree.let_go(state.slots.leave());
        (state.slots.node, state.slots.kept) = (node, whole * self.page);
    }

    /// A step has run.
    pub fn update(
        &mut self,
        scheduler: &mut Scheduler,
        batch: &Batch,
        drafted: impl Fn(&Part) -> (u32, u32),
    ) -> Vec<Token> {
        let mut tokens = Vec::with_capacity(batch.parts.len());
        if !batch.parts.is_empty() {
            self.lanes[batch.lane as usize].flying -= 1;
        }
        for part in &batch.parts {
            let state = &mut scheduler.states[part.slot as usize];
            let gone = state.request != part.request || state.is_done();
            if gone || state.starts != part.starts || !part.generates {
                continue;
            }
            let rejected = part.drafts - drafted(part).0.min(part.drafts);
            let count = (1 + part.drafts - rejected).min(state.output - state.produced);
            state.computed -= rejected;
            let own = state.computed.div_ceil(self.page) - state.slots.kept / self.page;
            self.free += state.slots.own - own;
            state.slots.own = own;
            let first = state.produced == 0;
            state.produce(count);
            let last = state.is_done();
            if last {
                let known = state.tokens().min(state.computed);
                self.keep(scheduler, part.slot, known);
                self.release(scheduler, part.slot);
                scheduler.states[part.slot as usize].runs = false;
                scheduler.running.retain(|&slot| slot != part.slot);
            } else if part.prefills {
                self.keep(scheduler, part.slot, part.context + part.tokens);
            }
            tokens.push(Token { request: part.request, count, first, last });
        }
        tokens
    }
}

/// A request's part of a step with prompts.
pub(crate) fn prompt(state: &State, slot: u32, context: u32, tokens: u32) -> Part {
    Part {
        request: state.request,
        slot,
        starts: state.starts,
        context,
        tokens,
        drafts: 0,
        generates: false,
        prefills: true,
        admitted: None,
    }
}
