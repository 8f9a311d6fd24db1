//! Which prompts SGLang's scheduler takes into a step (`sglang.rs` has the rules).

use crate::plans::SglangPlan as Plan;
use crate::radix::Tree;
use crate::request::State;
use crate::scheduler::{Batch, Part, Scheduler, Waiting};
use crate::sglang::prompt;
use std::cmp::Reverse;

/// Tokens of an output for which room is looked for at most.
const CLIP: u32 = 4096;
/// Requests that are put in order of their prefixes at most, and tokens that make a common prefix.
const SORTED: usize = 128;
const COMMON: u32 = 32;

/// Tokens and room that are left for prompts of a step.
pub(crate) struct Budget {
    page: i64,
    /// Tokens that the others will need, and those that this step takes.
    kept: f64,
    taken: i64,
    input: i64,
    chunk: Option<i64>,
    /// Tokens that requests still generate, and those that they have; the next end first.
    ends: Option<Vec<(i64, i64)>>,
}

impl Budget {
    fn whole(&self, tokens: u32) -> i64 {
        (i64::from(tokens) + self.page - 1) / self.page * self.page
    }

    fn take(&mut self, tokens: u32, slots: u32, output: u32) {
        let (tokens, slots) = (self.whole(tokens), self.whole(slots));
        self.kept += (slots + i64::from(output) + self.page) as f64;
        self.taken += slots + self.page;
        self.input -= tokens;
        self.chunk = self.chunk.map(|chunk| chunk - tokens);
    }

    /// One more request counts among those whose ends are looked at; the first one with `others`. As
    /// in SGLang, a later one never is the last.
    fn counts(&mut self, states: &[State], slot: u32, others: impl Iterator<Item = u32>) {
        let end = |slot: u32| {
            let state = &states[slot as usize];
            let left = i64::from(state.output) - i64::from(state.produced);
            (left > 0).then(|| (left, i64::from(state.tokens())))
        };
        match &mut self.ends {
            None => {
                let mut ends: Vec<_> =
                    std::iter::once(slot).chain(others).filter_map(end).collect();
                ends.sort_by_key(|&(left, _)| left);
                self.ends = Some(ends);
            }
            Some(ends) => {
                let Some(new) = end(slot) else { return };
                let last = ends.len().saturating_sub(1);
                let at = ends.iter().position(|&(left, _)| new.0 <= left).unwrap_or(last);
                ends.insert(at, new);
            }
        }
    }

    /// Whether there is room until the last of these requests ends, if `more` tokens are computed.
    fn lasts(&self, room: i64, more: u32) -> bool {
        let ends = self.ends.as_deref().unwrap_or(&[]);
        let mut room = room - self.taken - self.whole(more);
        ends.iter().enumerate().all(|(at, &(left, has))| {
            let count = (ends.len() - at) as i64;
            let lasts = room - left * count > count;
            room += has;
            lasts
        })
    }
}

impl Plan {
    /// Puts those that wait in order.
    pub(crate) fn order(&mut self, scheduler: &mut Scheduler) {
        let Waiting::Arrived(queue) = &mut scheduler.waiting else { return };
        let states = &scheduler.states;
        if !self.policy.longest_prefix || !self.caching {
            if scheduler.settings.priority {
                queue.make_contiguous().sort_by_key(|&slot| states[slot as usize].priority);
            }
            return;
        }
        if queue.len() > SORTED {
            return;
        }
        // Token by token, whatever the pages of the cache are.
        let mut others = Tree::new(1);
        let mut rank = |slot: u32| {
            let state = &states[slot as usize];
            let text = state.slots.text.with_output(state.request, state.produced);
            let found = self.tree.search(&text, state.tokens()).1 * self.page;
            if found <= COMMON {
                if others.search(&text, state.tokens()).1 >= COMMON {
                    return (true, Reverse(0));
                }
                others.insert(&text, state.tokens());
            }
            (false, Reverse(found))
        };
        let mut ranks: Vec<_> = queue.iter().map(|&slot| (rank(slot), slot)).collect();
        ranks.sort_by_key(|&(rank, _)| rank);
        *queue = ranks.into_iter().map(|(_, slot)| slot).collect();
    }

    pub(crate) fn budget(&self, scheduler: &Scheduler, at: usize) -> Budget {
        let decoding = &self.lanes[at].decoding;
        let left = |&slot: &u32| {
            let state = &scheduler.states[slot as usize];
            f64::from((state.output - state.produced).min(CLIP)) * self.ratio
        };
        let mixed = if self.policy.mixed { decoding.len() as i64 } else { 0 };
        let settings = &scheduler.settings;
        Budget {
            page: i64::from(self.page),
            kept: mixed as f64 + decoding.iter().map(left).sum::<f64>(),
            taken: mixed,
            input: i64::from(self.policy.prefill_tokens) - mixed,
            chunk: settings.chunked.then(|| i64::from(settings.tokens) - mixed),
            ends: None,
        }
    }

    /// Tokens for which there is room.
    pub(crate) fn tokens(&self) -> i64 {
        i64::from(self.room()) * i64::from(self.page)
    }

    /// The request in parts goes on. Its part, and the pages for it.
    pub(crate) fn go_on(
        &mut self,
        scheduler: &Scheduler,
        slot: u32,
        budget: &mut Budget,
    ) -> Option<(Part, u32)> {
        let state = &scheduler.states[slot as usize];
        let chunk = budget.chunk.unwrap_or(i64::MAX);
        let mut most = chunk.min((self.tokens() as f64 - budget.kept) as i64);
        if most <= 0 {
            most = chunk;
        }
        let rest = state.computed.next_multiple_of(self.page) - state.computed;
        let most = most.min(self.tokens() + i64::from(rest));
        if most <= 0 {
            return None;
        }
        let lacking = state.tokens() - state.computed;
        let tokens = i64::from(lacking).min(most) as u32;
        let whole = tokens == lacking;
        budget.take(tokens, tokens, if whole { state.output.min(CLIP) } else { 0 });
        if whole {
            self.chunked = None;
        }
        let pages =
            (state.computed + tokens).div_ceil(self.page) - state.computed.div_ceil(self.page);
        let part = Part { generates: whole, ..prompt(state, slot, state.computed, tokens) };
        Some((part, pages))
    }

    /// Admits those that wait in order, until there is no room, no seat or no budget.
    pub(crate) fn admit(
        &mut self,
        scheduler: &mut Scheduler,
        at: usize,
        seats: usize,
        budget: &mut Budget,
        pages: &mut u32,
        batch: &mut Batch,
    ) {
        let Waiting::Arrived(queue) = &mut scheduler.waiting else { return };
        let by_ends = self.policy.ignores_end && !self.caching;
        let mut admitted = 0;
        for &slot in queue.iter() {
            if batch.parts.len() >= seats {
                self.lanes[at].full = true;
            }
            if self.lanes[at].full {
                break;
            }
            let room = self.tokens();
            let state = &scheduler.states[slot as usize];
            let known = state.tokens();
            let (node, found) = if self.caching {
                let text = state.slots.text.with_output(state.request, state.produced);
                self.tree.search(&text, known - 1)
            } else {
                (0, 0)
            };
            let kept = found * self.page;
            let cached = kept.max(state.brought);
            let (compute, slots) = (known - cached, known - kept);
            if by_ends {
                let begun = batch.parts.iter().map(|part| part.slot);
                let others = self.lanes[at].decoding.iter().copied().chain(begun);
                budget.counts(&scheduler.states, slot, others);
                let left = (room as f64 - budget.kept).min((room - budget.taken) as f64);
                if budget.whole(slots) as f64 > left || !budget.lasts(room, slots) {
                    self.lanes[at].full = true;
                    break;
                }
            }
            let total = i64::from(slots + (state.output - state.produced).min(CLIP)) as f64;
            if !by_ends && total >= room as f64 - budget.kept {
                self.lanes[at].full = true;
                break;
            }
            if !by_ends && budget.whole(compute) >= budget.input && !batch.parts.is_empty() {
                break;
            }
            self.tree.hold(node);
            if !by_ends && total >= self.tokens() as f64 - budget.kept {
                self.tree.let_go(node);
                self.lanes[at].full = true;
                break;
            }
            let chunk = budget.chunk.unwrap_or(i64::MAX);
            let unit = if by_ends { 1 } else { budget.page };
            let whole = (i64::from(compute) + unit - 1) / unit * unit <= chunk;
            let tokens = if whole { i64::from(compute) } else { chunk / unit * unit };
            if tokens <= 0 || !whole && self.chunked.is_some() {
                self.tree.let_go(node);
                break;
            }
            let tokens = tokens as u32;
            if whole {
                budget.take(tokens, slots, state.output.min(CLIP));
            } else {
                budget.take(tokens, slots - (compute - tokens), 0);
                self.chunked = Some(slot);
            }
            let state = &mut scheduler.states[slot as usize];
            *pages += (cached + tokens).div_ceil(self.page) - found;
            (state.slots.node, state.slots.kept) = (node, kept);
            state.runs = true;
            batch.parts.push(Part {
                generates: whole,
                admitted: Some(cached),
                ..prompt(state, slot, cached, tokens)
            });
            scheduler.running.push(slot);
            admitted += 1;
            let room = self.tokens();
            if room as f64 - budget.kept <= 0.0 || room - budget.taken <= 0 {
                self.lanes[at].full = true;
                break;
            }
            if budget.input <= 0 || budget.chunk.is_some_and(|chunk| chunk <= 0) {
                break;
            }
        }
        queue.drain(..admitted);
    }
}
