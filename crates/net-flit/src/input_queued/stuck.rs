//! Deadlocks and checks.

use super::state::{NONE, Stage};
use super::{Blocked, InputQueued};
use crate::checker::Checker;
use crate::fabric::Routing;
use crate::report::circle;

impl<R: Routing> InputQueued<R> {
    /// Virtual channels that wait for one another, each for the next, if packets are under way and
    /// nothing can move.
    pub fn deadlock(&self) -> Option<Vec<Blocked>> {
        if self.under_way == 0 || self.next().is_some() {
            return None;
        }
        let first = self.state.vcs.iter().position(|vc| vc.down.ready > 0);
        let slots = first.map_or(Vec::new(), |first| circle(first, |slot| self.waits_for(slot)));
        let place = |slot: usize| {
            let (channel, vc) = self.state.place(slot as u32);
            Blocked { channel, vc }
        };
        Some(slots.into_iter().map(place).collect())
    }

    /// The slot that a blocked packet waits for.
    fn waits_for(&self, slot: usize) -> Option<usize> {
        let down = &self.state.vcs[slot].down;
        let base = (down.out << self.state.shift) as usize;
        match down.stage {
            Stage::Switch => Some(base + usize::from(down.out_vc)),
            Stage::Channel => {
                let held = |&vc: &usize| {
                    down.allowed >> vc & 1 == 1 && self.state.vcs[base + vc].down.ready > 0
                };
                (0..self.settings.vcs as usize).find(held).map(|vc| base + vc)
            }
            Stage::Idle | Stage::Route => None,
        }
    }

    /// Credits, flits of the buffer and both on the link make up the buffer of each virtual channel,
    /// and a virtual channel that a packet has is not free.
    ///
    /// A flit that can move waits for at most inputs x outputs x channels^2 cycles. An output goes
    /// past an input only when that accepts, and an input past an output likewise: a pair waits for at
    /// most inputs x outputs cycles (McKeown, "The iSLIP Scheduling Algorithm", 1999, section III).
    /// The virtual channels of an input take turns for a pair, and those that it has for other outputs
    /// may turn the round back once for each. For a virtual channel of an output the same holds of
    /// the packets that want it.
    pub(super) fn check(&self, checker: &mut Checker) {
        let (vcs, depth) = (self.settings.vcs, self.settings.buffers_per_vc);
        let mut in_buffers = 0;
        for (channel, sink) in (0..).zip(self.state.sinks.iter()) {
            for vc in 0..vcs {
                let slot = ((channel << self.state.shift) + vc) as usize;
                let (up, down) = (&self.state.vcs[slot].up, &self.state.vcs[slot].down);
                checker.room(slot, (up.credits.into(), down.ready.into()), depth.into());
                in_buffers += u64::from(down.ready);
                let free = self.state.free[channel as usize] >> vc & 1 == 1;
                assert!(!free || up.owner == NONE, "channel {channel} vc {vc} has an owner");
                if !sink.is_node() {
                    let router = &self.state.routers[sink.router as usize];
                    let bound = u64::from(router.inputs * router.outputs) * u64::from(vcs).pow(2);
                    checker.waits(slot, self.could_move(sink.input, slot, vc), bound);
                }
            }
        }
        checker.conserves(in_buffers);
    }

    /// Whether the first flit of a virtual channel needs nothing but its turn.
    fn could_move(&self, input: u32, slot: usize, vc: u32) -> bool {
        let (input, down) = (&self.state.inputs[input as usize], &self.state.vcs[slot].down);
        let wants = match self.is_simple {
            true => down.stage == Stage::Channel,
            false => input.wants >> vc & 1 == 1,
        };
        if !wants {
            return input.able >> vc & 1 == 1;
        }
        let open = self.state.free[down.out as usize] & down.allowed;
        open != 0 && (!self.settings.cut_through || open & self.roomy(down) != 0)
    }
}
