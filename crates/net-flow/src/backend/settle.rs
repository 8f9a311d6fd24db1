//! New rates after starts and drains.
//!
//! A change spreads from the links where flows started or drained. Each link has the level at which
//! it is full. It follows from the levels of its flows that other links hold back, so a link is
//! looked at again when one of those has changed below its own level. Links are taken in the order
//! of the levels at which something changed: what is below is final. Most changes end after a few
//! links. Where one reaches so many that all flows joined to it are found sooner by one filling,
//! that is done instead. Both give the same levels: there is only one solution.

use crate::backend::{FairFlows, Flow};
use crate::fair::{Level, NOWHERE, Use, share};
use crate::limits::rate;
use std::cmp::Reverse;
use units::Time;

impl FairFlows {
    /// Gives new rates to all flows that the changes of the last instant reach.
    #[inline(never)]
    pub(crate) fn settle(&mut self) {
        self.problem += 1;
        if self.is_local() && self.ripple() {
            self.dirty.clear();
        } else {
            self.fill();
        }
        self.entered.clear();
        let changed = std::mem::take(&mut self.ripples.changed);
        for &at in &changed {
            self.apply(self.dirty_at, at);
        }
        self.ripples.changed = changed;
        self.ripples.changed.clear();
    }

    /// A flow goes on at the rate of its level.
    fn apply(&mut self, now: Time, at: u32) {
        let flow = &mut self.flows[at as usize];
        let rate = rate(flow.level.value, flow.weight);
        if (rate, flow.level.exact) != (flow.rate, !flow.rounded) {
            flow.change(now, rate, !flow.level.exact);
            self.plan(at);
        }
    }

    /// Whether few links have changed.
    fn is_local(&mut self) -> bool {
        let members = |&link: &u32| self.links.states[link as usize].members.len();
        let soiled: usize = self.dirty.iter().map(members).sum();
        self.ripples.patience = 2 * self.links.uses;
        4 * soiled <= self.links.uses
    }

    /// Spreads the changes; false when they reach too much.
    fn ripple(&mut self) -> bool {
        self.ripples.queue.clear();
        for at in 0..self.dirty.len() {
            let state = &mut self.links.states[self.dirty[at] as usize];
            (state.is_dirty, state.queued) = (false, NONE_QUEUED);
            self.look_at(self.dirty[at], 0);
        }
        for at in 0..self.entered.len() {
            self.level(self.entered[at], None);
        }
        while let Some(Reverse((level, link))) = self.ripples.queue.pop() {
            let state = &mut self.links.states[link as usize];
            if state.queued != level {
                continue;
            }
            state.queued = NONE_QUEUED;
            let old = state.full_at;
            let cost = state.members.len();
            let Some(left) = self.ripples.patience.checked_sub(cost) else {
                self.give_up();
                return false;
            };
            self.ripples.patience = left;
            let new = self.full_at(link);
            if new == old {
                continue;
            }
            let from = old.value.min(new.value);
            if self.ripples.queue.peek().is_some_and(|Reverse((next, _))| *next < from) {
                self.look_at(link, from);
                continue;
            }
            self.fills_at(link, new);
        }
        true
    }

    /// Leaves no traces in the links.
    fn give_up(&mut self) {
        for Reverse((_, link)) in self.ripples.queue.drain() {
            self.links.states[link as usize].queued = NONE_QUEUED;
        }
    }

    /// Something has changed on a link at this level.
    fn look_at(&mut self, link: u32, level: u64) {
        let state = &mut self.links.states[link as usize];
        if level < state.queued {
            state.queued = level;
            self.ripples.queue.push(Reverse((level, link)));
        }
    }

    /// The level at which the link is full, where its flows are held back as they are elsewhere.
    fn full_at(&mut self, link: u32) -> Level {
        let (states, flows) = (&self.links.states, &self.flows);
        let state = &states[link as usize];
        let held = &mut self.ripples.held;
        held.clear();
        let (mut left, mut demand, mut rough) = (state.capacity, 0, false);
        for member in &state.members {
            let flow = &flows[member.flow as usize];
            let used = flow.hops[member.hop as usize].used;
            demand += used.demand;
            // Where another link holds it back, that is its level.
            let level = if flow.level.value < state.full_at.value {
                flow.level
            } else {
                held_at(flow, Some(link), |link| states[link as usize].full_at)
            };
            held.push((level, used.demand));
        }
        loop {
            let value = share(left, demand);
            let before = held.len();
            held.retain(|&(level, one)| {
                let stays = level.value >= value;
                if !stays {
                    left -= one * u128::from(level.value);
                    demand -= one;
                    rough |= !level.exact;
                }
                stays
            });
            if demand == 0 {
                return NOWHERE;
            }
            if held.len() == before {
                return Level { value, exact: !rough && demand * u128::from(value) == left };
            }
        }
    }

    /// The link is full at another level. Its flows that are no lower get theirs again.
    fn fills_at(&mut self, link: u32, new: Level) {
        let state = &mut self.links.states[link as usize];
        let from = state.full_at.value.min(new.value);
        state.full_at = new;
        for member in 0..state.members.len() {
            let at = self.links.states[link as usize].members[member].flow;
            if self.flows[at as usize].level.value >= from {
                self.level(at, Some(link));
            }
        }
    }

    /// Gives a flow the level that its links allow, and looks at those for which that matters, but
    /// for the one that has changed.
    fn level(&mut self, at: u32, by: Option<u32>) {
        let (flow, states) = (&mut self.flows[at as usize], &self.links.states);
        let new = held_at(flow, None, |link| states[link as usize].full_at);
        let old = std::mem::replace(&mut flow.level, new);
        if new == old {
            return;
        }
        if std::mem::replace(&mut flow.seen, self.problem) != self.problem {
            self.ripples.changed.push(at);
        }
        let from = old.value.min(new.value);
        for hop in 0..self.flows[at as usize].hops.len() {
            let link = self.flows[at as usize].hops[hop].used.link;
            if Some(link) != by && from < self.links.states[link as usize].full_at.value {
                self.look_at(link, from);
            }
        }
    }

    /// Finds the levels of all links and flows that are joined to a dirty link.
    fn fill(&mut self) {
        self.problem += 1;
        self.reach();
        self.pose();
        self.solver.solve();
        for (&link, &level) in self.reached_links.iter().zip(self.solver.full_at()) {
            self.links.states[link as usize].full_at = level;
        }
        self.ripples.changed.clear();
        for (&at, &level) in self.reached_flows.iter().zip(self.solver.levels()) {
            self.flows[at as usize].level = level;
            self.ripples.changed.push(at);
        }
    }

    /// Collects the links and flows that are joined to a dirty link.
    fn reach(&mut self) {
        self.reached_links.clear();
        self.reached_flows.clear();
        for link in self.dirty.drain(..) {
            let state = &mut self.links.states[link as usize];
            state.is_dirty = false;
            if state.seen != self.problem {
                state.seen = self.problem;
                self.reached_links.push(link);
            }
        }
        let mut next = 0;
        while let Some(&link) = self.reached_links.get(next) {
            self.links.states[link as usize].local = next as u32;
            next += 1;
            for member in 0..self.links.states[link as usize].members.len() {
                let at = self.links.states[link as usize].members[member].flow;
                let flow = &mut self.flows[at as usize];
                if std::mem::replace(&mut flow.seen, self.problem) == self.problem {
                    continue;
                }
                self.reached_flows.push(at);
                for hop in &flow.hops {
                    let state = &mut self.links.states[hop.used.link as usize];
                    if state.seen != self.problem {
                        state.seen = self.problem;
                        self.reached_links.push(hop.used.link);
                    }
                }
            }
        }
    }

    /// States the problem of the links and flows that were reached.
    fn pose(&mut self) {
        self.solver.clear();
        for &link in &self.reached_links {
            self.solver.link(self.links.states[link as usize].capacity);
        }
        for &at in &self.reached_flows {
            let flow = &self.flows[at as usize];
            let states = &self.links.states;
            let local = |hop: &crate::backend::Hop| Use {
                link: states[hop.used.link as usize].local,
                demand: hop.used.demand,
            };
            self.solver.flow(flow.limit, flow.hops.iter().map(local));
        }
    }
}

/// No level at which a link waits to be looked at.
pub(crate) const NONE_QUEUED: u64 = u64::MAX;

/// The level at which a flow is held back by its limit and its links, but for one of them.
fn held_at(flow: &Flow, but: Option<u32>, full_at: impl Fn(u32) -> Level) -> Level {
    let limit = flow.limit.map(|value| Level { value, exact: true });
    let mut level = limit.unwrap_or(NOWHERE);
    for hop in flow.hops.iter().filter(|hop| Some(hop.used.link) != but) {
        let full = full_at(hop.used.link);
        if full.value < level.value {
            level = full;
        } else {
            level.exact |= full.exact && full.value == level.value;
        }
    }
    level
}
