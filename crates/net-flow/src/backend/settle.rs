//! New rates after starts and drains.
//!
//! A change spreads from the links where flows started or drained. Each link has the level at which
//! it is full. It follows from the levels of its flows that other links hold back, so a link is
//! looked at again when one of those has changed below its own level. Links are taken in the order
//! of the levels at which something changed: what is below is final. Most changes end after a few
//! links. Where one reaches more than that, and one filling finds all flows joined to it sooner,
//! that is done instead (`fill.rs`). Both give the same levels: there is only one solution.
//!
//! With a tolerance, a change spreads only to links whose flows use more or less than that allows.
//! Then the rates are the max-min fair ones of links whose capacities differ by at most the
//! tolerance, up or down: so times are not too long or too short on average. Links with changes at one level are taken together, so that links that are alike
//! remain alike, and folded runs give the bytes of unfolded ones.

use crate::backend::{FairFlows, Flow, Hop};
use crate::fair::Use;
use crate::limits::rate;
use crate::links::{Member, NOT_QUEUED};
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
            match self.listen().or_else(|| self.gather()) {
                Some(next) => level = next,
                None => break,
            }
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

    /// Queues the links whose flows have changed by more than is allowed. Where these come next,
    /// they are taken at once, at the level that is returned.
    fn listen(&mut self) -> Option<u64> {
        self.ripples.round = self.ripples.round.wrapping_add(1);
        let (least, most) = self.sort_out();
        let waits = self.ripples.queue.peek().is_some_and(|Reverse(next)| next.0 <= least);
        let is_one = least == most && (self.ripples.batch.len() == 1 || !self.limits.is_exact());
        let takes = is_one && !waits;
        for at in 0..self.ripples.batch.len() {
            let link = self.ripples.batch[at];
            if takes {
                self.links.states[link as usize].queued = NOT_QUEUED;
            } else {
                self.look_at(link, self.links.rooms[link as usize].touched);
            }
        }
        takes.then_some(least)
    }

    /// Makes a batch of the listed links whose flows have changed by more than is allowed. Returns
    /// the lowest and the highest level at which they did.
    fn sort_out(&mut self) -> (u64, u64) {
        self.ripples.batch.clear();
        let (mut least, mut most) = (u64::MAX, 0);
        for link in self.ripples.listed.drain(..) {
            let room = &mut self.links.rooms[link as usize];
            room.is_listed = false;
            if self.limits.is_exact() || room.is_off() {
                self.ripples.batch.push(link);
                (least, most) = (least.min(room.touched), most.max(room.touched));
            }
        }
        (least, most)
    }

    /// Something has changed on a link at this level.
    fn look_at(&mut self, link: u32, level: u64) {
        let state = &mut self.links.states[link as usize];
        if level < state.queued {
            state.queued = level;
            self.ripples.queue.push(Reverse((level, link)));
        }
    }

    /// Takes the links that wait at the lowest level: all with a tolerance, one where rates are
    /// exact. Returns that level.
    fn gather(&mut self) -> Option<u64> {
        self.ripples.batch.clear();
        let level = self.ripples.queue.peek()?.0.0;
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
        Some(level)
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
            self.hand_on(link, from);
        }
        self.ripples.given = given;
    }

    /// The link gives its level to those of its flows that are not slower than this.
    fn hand_on(&mut self, link: u32, from: u64) {
        let members = &self.links.states[link as usize].members;
        let mut reached = std::mem::take(&mut self.ripples.reached);
        reached.resize(reached.len().max(members.len()), 0);
        let mut count = 0;
        for &Member { flow, .. } in members {
            // Each flow is written, and kept where the next one does not take its place: no branch.
            reached[count] = flow;
            count += usize::from(self.paths[flow as usize].level.value >= from);
        }
        for &at in &reached[..count] {
            self.level(at, Some(link));
        }
        self.ripples.reached = reached;
    }

    /// Leaves no traces in the links.
    fn give_up(&mut self) {
        for Reverse((_, link)) in self.ripples.queue.drain() {
            self.links.states[link as usize].queued = NOT_QUEUED;
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

/// No link.
const NO_LINK: u32 = u32::MAX;

pub(crate) fn uses(flow: &Flow) -> impl Iterator<Item = Use> {
    flow.hops.iter().map(|hop: &Hop| hop.used)
}
