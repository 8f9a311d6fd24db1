//! New rates after starts and drains.
//!
//! A change spreads from the links where flows started or drained. Each link has the level at which
//! it is full. It follows from the levels of its flows that other links hold back, so a link is
//! looked at again when one of those has changed below its own level. Links are taken in the order
//! of the levels at which something changed: what is below is final. Most changes end after a few
//! links. Where one reaches so many that all flows joined to it are found sooner by one filling,
//! that is done instead (`fill.rs`). Both give the same levels: there is only one solution.
//!
//! With a tolerance, a change spreads only to links whose flows use more or less than that allows.
//! Then the rates are the max-min fair ones of links whose capacities differ by at most the
//! tolerance, up or down: so times are not too long or too short on average. Links with changes at one level are taken together, so that links that are alike
//! remain alike, and folded runs give the bytes of unfolded ones.

use crate::backend::{FairFlows, Flow, Hop};
use crate::fair::{Level, NOWHERE, Use, share};
use crate::limits::rate;
use crate::links::{NOT_QUEUED, Room};
use std::cmp::Reverse;
use units::Time;

impl FairFlows {
    /// Gives new rates to all flows that the changes of the last instant reach.
    #[inline(never)]
    pub(crate) fn settle(&mut self) {
        self.problem += 1;
        if !(self.is_local() && self.ripple()) {
            self.fill();
        }
        self.stirred = 0;
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
        let (path, fluid) = (&mut self.paths[at as usize], &mut self.fluids[at as usize]);
        path.is_changed = false;
        let rate = rate(path.level.value, fluid.weight);
        if (rate, path.level.exact) != (fluid.rate, !fluid.rounded) {
            let is_faster = rate >= fluid.rate;
            fluid.change(now, rate, !path.level.exact);
            // A slower one drains later: that is found out when its turn comes.
            if is_faster {
                self.plan(at);
            }
        }
    }

    /// Whether few flows have started or drained.
    fn is_local(&self) -> bool {
        4 * self.stirred <= self.running
    }

    /// Spreads the changes; false when they reach too much.
    fn ripple(&mut self) -> bool {
        self.ripples.patience = 2 * self.links.load;
        for at in 0..self.entered.len() {
            self.level(self.entered[at], None);
        }
        self.begin();
        let mut level = 0;
        loop {
            if !self.find() {
                self.give_up();
                return false;
            }
            self.give(level);
            self.listen();
            let Some(&Reverse((next, _))) = self.ripples.queue.peek() else { break };
            level = next;
            self.gather(level);
        }
        for link in self.dirty.drain(..) {
            self.links.states[link as usize].is_dirty = false;
        }
        true
    }

    /// Takes the links on which flows have started or drained, as far as that matters.
    fn begin(&mut self) {
        for link in self.ripples.listed.drain(..) {
            self.links.rooms[link as usize].is_listed = false;
        }
        self.ripples.batch.clear();
        for &link in &self.dirty {
            let room = &mut self.links.rooms[link as usize];
            room.is_known = false;
            if self.limits.is_exact() || room.is_off() || room.is_full() {
                self.ripples.batch.push(link);
            }
        }
        self.ripples.round = self.ripples.round.wrapping_add(1);
    }

    /// Queues the links whose flows have changed by more than is allowed.
    fn listen(&mut self) {
        let mut listed = std::mem::take(&mut self.ripples.listed);
        for link in listed.drain(..) {
            let room = &mut self.links.rooms[link as usize];
            room.is_listed = false;
            if self.limits.is_exact() || room.is_off() {
                let level = room.touched;
                self.look_at(link, level);
            }
        }
        self.ripples.listed = listed;
        self.ripples.round = self.ripples.round.wrapping_add(1);
    }

    /// Something has changed on a link at this level.
    fn look_at(&mut self, link: u32, level: u64) {
        let state = &mut self.links.states[link as usize];
        if level < state.queued {
            state.queued = level;
            self.ripples.queue.push(Reverse((level, link)));
        }
    }

    /// Takes the links that wait at this level: all with a tolerance, one where rates are exact.
    fn gather(&mut self, level: u64) {
        self.ripples.batch.clear();
        while let Some(&Reverse((next, link))) = self.ripples.queue.peek() {
            if next != level || (self.limits.is_exact() && !self.ripples.batch.is_empty()) {
                break;
            }
            self.ripples.queue.pop();
            let state = &mut self.links.states[link as usize];
            if state.queued == level {
                state.queued = NOT_QUEUED;
                self.ripples.batch.push(link);
            }
        }
    }

    /// Finds where the links of the batch are full; false when that takes too long.
    fn find(&mut self) -> bool {
        for at in 0..self.ripples.batch.len() {
            let link = self.ripples.batch[at];
            if !self.links.rooms[link as usize].is_known {
                let found = self.full_at(link);
                let state = &mut self.links.states[link as usize];
                state.found = found;
                self.links.rooms[link as usize].is_known = true;
                self.ripples.patience = self.ripples.patience.saturating_sub(state.load);
            }
        }
        self.ripples.patience > 0 || self.links.load == 0
    }

    /// Links of the batch that are full at another level wait until nothing changes below. Those of
    /// this level give it to their flows.
    fn give(&mut self, level: u64) {
        let mut given = std::mem::take(&mut self.ripples.given);
        let mut held_here = std::mem::take(&mut self.ripples.held_here);
        for at in 0..self.ripples.batch.len() {
            let link = self.ripples.batch[at];
            let new = self.links.states[link as usize].found;
            let room = &mut self.links.rooms[link as usize];
            let from = room.full_at.value.min(new.value);
            if room.full_at != new && from > level {
                self.look_at(link, from);
                continue;
            }
            if room.full_at != new {
                room.full_at = new;
                given.push((link, from));
            }
        }
        for (link, from) in given.drain(..) {
            let (members, paths) = (&self.links.states[link as usize].members, &self.paths);
            let flows = members.iter().map(|member| member.flow);
            held_here.extend(flows.filter(|&at| paths[at as usize].level.value >= from));
            for at in held_here.drain(..) {
                self.level(at, Some(link));
            }
        }
        (self.ripples.given, self.ripples.held_here) = (given, held_here);
    }

    /// Leaves no traces in the links.
    fn give_up(&mut self) {
        for Reverse((_, link)) in self.ripples.queue.drain() {
            self.links.states[link as usize].queued = NOT_QUEUED;
        }
    }

    /// The level at which the link is full, where its flows are held back as they are elsewhere.
    fn full_at(&mut self, link: u32) -> Level {
        let (rooms, flows, paths) = (&self.links.rooms, &self.flows, &self.paths);
        let state = &self.links.states[link as usize];
        let Room { full_at: full, left, .. } = rooms[link as usize];
        let held = &mut self.ripples.held;
        held.clear();
        let mut open = Open { left: state.capacity, demand: state.demand, rough: false };
        let (value, mut least) = (open.share(), u64::MAX);
        for member in &state.members {
            let path = &paths[member.flow as usize];
            // Where another link holds it back, that is its level. Where this one is full at a lower
            // level, the others do not matter to the flows that it holds back.
            let level = if path.level.value < full.value {
                path.level
            } else if left < 0 {
                continue;
            } else {
                path.held_at(link, rooms, || uses(&flows[member.flow as usize]))
            };
            if !open.passes(level, member.demand, value) {
                least = least.min(level.value);
                held.push((level, member.demand));
            }
        }
        loop {
            let value = open.share();
            if open.demand == 0 {
                return NOWHERE;
            }
            if least >= value {
                return open.full(value);
            }
            least = u64::MAX;
            held.retain(|&(level, demand)| {
                let stays = !open.passes(level, demand, value);
                least = if stays { least.min(level.value) } else { least };
                stays
            });
        }
    }

    /// Gives a flow the level that its links allow, and touches those for which that matters: with
    /// a tolerance all of them, else not the one that has changed.
    fn level(&mut self, at: u32, by: Option<u32>) {
        let (path, rooms) = (&mut self.paths[at as usize], &mut self.links.rooms);
        let flow = &self.flows[at as usize];
        let new = path.held_at(NO_LINK, rooms, || uses(flow));
        let old = std::mem::replace(&mut path.level, new);
        if new == old {
            return path.each(|| uses(flow), |one| rooms[one.link as usize].is_known = false);
        }
        let (from, exact) = (old.value.min(new.value), self.limits.is_exact());
        let (round, listed) = (self.ripples.round, &mut self.ripples.listed);
        path.each(
            || uses(flow),
            |Use { link, demand }| {
                let room = &mut rooms[link as usize];
                room.is_known = false;
                room.shift(demand, (old.value, new.value));
                if exact && (Some(link) == by || from >= room.full_at.value) {
                    return;
                }
                room.touch(round, from);
                if (exact || room.is_off()) && !std::mem::replace(&mut room.is_listed, true) {
                    listed.push(link);
                }
            },
        );
        if !std::mem::replace(&mut path.is_changed, true) {
            self.ripples.changed.push(at);
        }
    }
}

/// What is left of a link for the flows that nothing else holds back, as far as they are known.
struct Open {
    left: u128,
    demand: u128,
    /// Levels of other flows were rounded.
    rough: bool,
}

impl Open {
    #[inline]
    fn share(&self) -> u64 {
        share(self.left, self.demand)
    }

    /// A flow that is held back below this value takes its part.
    #[inline]
    fn passes(&mut self, level: Level, demand: u128, value: u64) -> bool {
        let passes = level.value < value;
        if passes {
            self.left -= demand * u128::from(level.value);
            self.demand -= demand;
            self.rough |= !level.exact;
        }
        passes
    }

    fn full(&self, value: u64) -> Level {
        Level { value, exact: !self.rough && self.demand * u128::from(value) == self.left }
    }
}

/// No link.
const NO_LINK: u32 = u32::MAX;

fn uses(flow: &Flow) -> impl Iterator<Item = Use> {
    flow.hops.iter().map(|hop: &Hop| hop.used)
}
