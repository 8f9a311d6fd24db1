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
use crate::spread_state::Waiting;
use std::cmp::Reverse;
use units::Time;

impl FairFlows {
    /// Gives new rates to all flows that the changes of the last instant reach.
    #[inline(never)]
    pub(crate) fn settle(&mut self) {
        self.problem += 1;
        if !(self.is_local() && self.spread_changes()) {
            self.fill();
        }
        self.stirred = 0;
        self.entered.clear();
        let mut changed = std::mem::take(&mut self.spread.changed);
        let mut faster = 0;
        for at in 0..changed.len() {
            let flow = changed[at];
            // Each flow is written, and kept where the next one does not take its place: no branch.
            changed[faster] = flow;
            faster += usize::from(self.apply(self.dirty_at, flow));
        }
        // A slower one drains later: that is found out when its turn comes.
        changed[..faster].iter().for_each(|&at| self.plan(at));
        changed.clear();
        self.spread.changed = changed;
    }

    /// A flow goes on at the rate of its level; returns whether it may drain earlier than planned.
    #[inline]
    fn apply(&mut self, now: Time, at: u32) -> bool {
        let (path, fluid) = (&mut self.paths[at as usize], &mut self.fluids[at as usize]);
        path.is_changed = false;
        let (rate, rounded) = (rate(path.level.value, fluid.weight), !path.level.exact);
        if (rate, rounded) == (fluid.rate, fluid.rounded) {
            return false;
        }
        let is_faster = rate >= fluid.rate;
        fluid.change(now, rate, rounded);
        is_faster
    }

    /// Whether few flows have started or drained.
    fn is_local(&self) -> bool {
        4 * self.stirred <= self.running
    }

    /// Spreads the changes; false when they reach too much.
    fn spread_changes(&mut self) -> bool {
        self.spread.patience = 2 * self.links.load;
        let listed = &mut self.spread.listed;
        listed.resize(listed.len().max(self.links.rooms.len() + 1), 0);
        let entered = std::mem::take(&mut self.entered);
        self.level(&entered, None);
        self.entered = entered;
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
        for &link in self.spread.take_listed() {
            self.links.rooms[link as usize].is_listed = false;
        }
        self.spread.batch.clear();
        for &link in &self.dirty {
            let room = &mut self.links.rooms[link as usize];
            room.is_known = false;
            if self.limits.is_exact() || room.is_off() || room.is_full() {
                self.spread.batch.push(link);
            }
        }
        self.spread.round = self.spread.round.wrapping_add(1);
    }

    /// Queues the links whose flows have changed by more than is allowed. Where these come next,
    /// they are taken at once, at the level that is returned.
    fn listen(&mut self) -> Option<u64> {
        self.spread.round = self.spread.round.wrapping_add(1);
        let (least, most) = self.sort_out();
        let waits = self.spread.queue.peek().is_some_and(|Reverse(next)| next.level() <= least);
        let is_one = least == most && (self.spread.batch.len() == 1 || !self.limits.is_exact());
        let takes = is_one && !waits;
        for at in 0..self.spread.batch.len() {
            let link = self.spread.batch[at];
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
        let mut batch = std::mem::take(&mut self.spread.batch);
        batch.clear();
        let (mut least, mut most) = (u64::MAX, 0);
        for &link in self.spread.take_listed() {
            let room = &mut self.links.rooms[link as usize];
            room.is_listed = false;
            if self.limits.is_exact() || room.is_off() {
                batch.push(link);
                (least, most) = (least.min(room.touched), most.max(room.touched));
            }
        }
        self.spread.batch = batch;
        (least, most)
    }

    /// Something has changed on a link at this level.
    fn look_at(&mut self, link: u32, level: u64) {
        let state = &mut self.links.states[link as usize];
        if level < state.queued {
            state.queued = level;
            self.spread.queue.push(Reverse(Waiting::new(level, link)));
        }
    }

    /// Takes the links that wait at the lowest level: all with a tolerance, one where rates are
    /// exact. Returns that level.
    fn gather(&mut self) -> Option<u64> {
        self.spread.batch.clear();
        let level = self.spread.queue.peek()?.0.level();
        while let Some(&Reverse(next)) = self.spread.queue.peek() {
            if next.level() != level || (self.limits.is_exact() && !self.spread.batch.is_empty()) {
                break;
            }
            self.spread.queue.pop();
            let link = next.link();
            let state = &mut self.links.states[link as usize];
            if state.queued == level {
                state.queued = NOT_QUEUED;
                self.spread.batch.push(link);
            }
        }
        Some(level)
    }

    /// Finds where the links of the batch are full; false when that takes too long.
    fn find(&mut self) -> bool {
        for at in 0..self.spread.batch.len() {
            let link = self.spread.batch[at];
            if !self.links.rooms[link as usize].is_known {
                let found = self.full_at(link);
                let state = &mut self.links.states[link as usize];
                state.found = found;
                self.links.rooms[link as usize].is_known = true;
                self.spread.patience = self.spread.patience.saturating_sub(state.load);
            }
        }
        self.spread.patience > 0 || self.links.load == 0
    }

    /// Links of the batch that are full at another level wait until nothing changes below. Those of
    /// this level give it to their flows.
    fn give(&mut self, level: u64) {
        let level = if level == 0 && !self.limits.is_exact() { self.lowest() } else { level };
        let mut given = std::mem::take(&mut self.spread.given);
        for at in 0..self.spread.batch.len() {
            let link = self.spread.batch[at];
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
        self.spread.given = given;
    }

    /// The lowest level at which something changes on a link of the batch.
    fn lowest(&self) -> u64 {
        let change = |&link: &u32| {
            let (old, new) =
                (self.links.rooms[link as usize].full_at, self.links.states[link as usize].found);
            (old != new).then_some(old.value.min(new.value))
        };
        self.spread.batch.iter().filter_map(change).min().unwrap_or(0)
    }

    /// The link gives its level to those of its flows that are not slower than this.
    fn hand_on(&mut self, link: u32, from: u64) {
        let members = &self.links.states[link as usize].members;
        let mut reached = std::mem::take(&mut self.spread.reached);
        reached.resize(reached.len().max(members.len()), 0);
        let mut count = 0;
        for &Member { flow, .. } in members {
            // Each flow is written, and kept where the next one does not take its place: no branch.
            reached[count] = flow;
            count += usize::from(self.paths[flow as usize].level.value >= from);
        }
        self.level(&reached[..count], Some(link));
        self.spread.reached = reached;
    }

    /// Leaves no traces in the links.
    fn give_up(&mut self) {
        for Reverse(waiting) in self.spread.queue.drain() {
            self.links.states[waiting.link() as usize].queued = NOT_QUEUED;
        }
    }

    /// Gives flows the levels that their links allow, and touches those for which that matters: with
    /// a tolerance all of them, else not the one that has changed.
    fn level(&mut self, flows: &[u32], by: Option<u32>) {
        if self.limits.is_exact() {
            self.level_each::<true>(flows, by);
        } else {
            self.level_each::<false>(flows, by);
        }
    }

    #[inline]
    fn level_each<const EXACT: bool>(&mut self, flows: &[u32], by: Option<u32>) {
        let (round, listed) = (self.spread.round, &mut self.spread.listed[..]);
        let mut lists = self.spread.lists;
        let rooms = &mut self.links.rooms[..];
        for &at in flows {
            let (path, flow) = (&mut self.paths[at as usize], &self.flows[at as usize]);
            let new = path.held_at(rooms, || uses(flow));
            let old = std::mem::replace(&mut path.level, new);
            if new == old {
                path.each(|| uses(flow), |one| rooms[one.link as usize].is_known = false);
                continue;
            }
            let from = old.value.min(new.value);
            path.each_shift(
                || uses(flow),
                (old.value, new.value),
                |link, shift| {
                    let room = &mut rooms[link as usize];
                    room.is_known = false;
                    room.left = room.left.wrapping_add(shift);
                    if EXACT && (Some(link) == by || from >= room.full_at.value) {
                        return;
                    }
                    room.touch(round, from);
                    // Each link is written, and kept where it counts: no branch.
                    let counts = (EXACT | room.is_off()) & !room.is_listed;
                    room.is_listed |= counts;
                    listed[lists] = link;
                    lists += usize::from(counts);
                },
            );
            if !std::mem::replace(&mut path.is_changed, true) {
                self.spread.changed.push(at);
            }
        }
        self.spread.lists = lists;
    }
}

pub(crate) fn uses(flow: &Flow) -> impl Iterator<Item = Use> {
    flow.hops.iter().map(|hop: &Hop| hop.used)
}
