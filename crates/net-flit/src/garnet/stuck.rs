//! Deadlocks and checks.

use super::state::{ENDLESS, NODE, NONE, Vc};
use super::{Blocked, Garnet};
use crate::checker::Checker;
use crate::fabric::{Routing, Way};
use crate::report::circle;

impl<R: Routing> Garnet<R> {
    /// Virtual channels that wait for one another, each for the next, if packets are under way and
    /// nothing can move.
    pub fn deadlock(&self) -> Option<Vec<Blocked>> {
        if self.under_way == 0 || self.next().is_some() {
            return None;
        }
        let waits = |vc: &Vc| vc.down.packet != NONE && vc.down.ready > 0;
        let first = self.state.vcs.iter().position(waits);
        let slots = first.map_or(Vec::new(), |first| circle(first, |slot| self.waits_for(slot)));
        let place = |slot: usize| {
            let group = &self.state.groups[self.state.vcs[slot].group as usize];
            let groups = self.state.groups_of[group.channel as usize];
            let first = u32::from(groups.vnet) * self.settings.vcs_per_vnet;
            Blocked { channel: group.channel, vc: first + self.state.vcs[slot].vc }
        };
        Some(slots.into_iter().map(place).collect())
    }

    /// The slot that a blocked packet waits for: of the channel that it has, or of one of those
    /// that it needs.
    fn waits_for(&self, slot: usize) -> Option<usize> {
        let down = &self.state.vcs[slot].down;
        if down.to != NONE {
            return Some(down.to as usize);
        }
        let group = match down.group {
            // The last of several ways that are all busy.
            NONE => self.state.group_of(*self.state.ways.get(slot)?.last()?),
            group => group as usize,
        };
        let first = self.state.groups[group].first as usize;
        let held = |&slot: &usize| self.state.vcs[slot].down.packet != NONE;
        (first..first + self.settings.vcs_per_vnet as usize).find(held)
    }

    /// Credits, flits and bits agree: credits, flits of the buffer and both on the link make up the
    /// buffer of each virtual channel, an idle one has no packet, and bits say what can move.
    ///
    /// A flit that can move waits for at most inputs x channels^2 cycles: its input names another of
    /// its virtual channels at most once before it, because the round goes past each that moves. An
    /// input that names one waits until each other input had the output; this may begin again when
    /// another virtual channel before it can move, at most once for each.
    pub(super) fn check(&self, checker: &mut Checker) {
        let state = &self.state;
        let mut in_buffers = 0;
        for (slot, Vc { up, down, group, place, sink, at, .. }) in state.vcs.iter().enumerate() {
            let group = &state.groups[*group as usize];
            let idle = group.idle.has(&state.words, *place);
            assert!(!idle || down.packet == NONE, "slot {slot} has a packet");
            assert!(!idle || up.owner == NONE, "slot {slot} has an owner");
            let sink = &state.sinks[*sink as usize];
            if sink.router & NODE != 0 {
                checker.room(slot, (up.credits.into(), 0), ENDLESS.into());
                continue;
            }
            let depth = self.settings.buffers_per_vc;
            let here = if down.packet == NONE { 0 } else { down.ready.into() };
            checker.room(slot, (up.credits.into(), here), depth.into());
            assert!(!idle || up.credits == depth, "slot {slot} is idle");
            in_buffers += here;
            let router = &state.routers[sink.router as usize];
            let able = router.able.has(&state.words, *at);
            assert_eq!(able, here > 0 && self.can_move(slot), "slot {slot}: able");
            let first = !self.settings.ordered || self.is_first(slot);
            let bound = u64::from(router.inputs);
            checker.waits(slot, able && first, bound * u64::from(sink.vcs).pow(2));
        }
        checker.conserves(in_buffers);
    }

    /// Whether the first flit of a virtual channel has what it needs.
    fn can_move(&self, slot: usize) -> bool {
        let state = &self.state;
        let down = &state.vcs[slot].down;
        match (down.to, down.group) {
            (NONE, NONE) => {
                let open = |way: &Way| !state.groups[state.group_of(*way)].idle.is_empty();
                state.ways[slot].iter().any(open)
            }
            (NONE, group) => !state.groups[group as usize].idle.is_empty(),
            (to, _) => state.vcs[to as usize].up.credits > 0,
        }
    }
}
