//! Deadlocks and checks.

use super::state::{ENDLESS, NONE, Vc};
use super::{Blocked, Garnet};
use crate::checker::Checker;
use crate::fabric::{End, Routing};
use crate::report::circle;

impl<R: Routing> Garnet<R> {
    /// Virtual channels that wait for one another, each for the next, if packets are under way and
    /// nothing can move.
    pub fn deadlock(&self) -> Option<Vec<Blocked>> {
        if self.under_way == 0 || self.next().is_some() {
            return None;
        }
        let first =
            self.slots.vcs.iter().position(|vc| vc.down.packet != NONE && vc.down.ready > 0);
        let slots = first.map_or(Vec::new(), |first| circle(first, |slot| self.waits_for(slot)));
        let place = |slot: usize| {
            let (channel, vc) = self.slots.vcs[slot].place;
            Blocked { channel, vc }
        };
        Some(slots.into_iter().map(place).collect())
    }

    /// The slot that a blocked packet waits for: of the channel that it has, or of one of those of
    /// which it needs one.
    fn waits_for(&self, slot: usize) -> Option<usize> {
        let down = &self.slots.vcs[slot].down;
        let (out, vnet) = match down.out {
            // Of several ways, none of which is idle, the last.
            NONE => {
                let way = self.slots.ways.get(slot)?.last()?;
                (way.channel, way.vnet.into())
            }
            out => (out, down.out_vnet),
        };
        let out = &self.lines[out as usize];
        if down.out_vc != NONE {
            return Some(out.slot(down.out_vc));
        }
        let vcs = self.settings.vcs_per_vnet;
        let first = vnet * vcs;
        let held = |&slot: &usize| self.slots.vcs[slot].down.packet != NONE;
        (first..first + vcs).map(|vc| out.slot(vc)).find(held)
    }

    /// Credits, flits and bits agree: credits, flits of the buffer and both on the link make up the
    /// buffer of each virtual channel, and an idle one has no packet.
    ///
    /// A flit that can move waits for at most inputs x channels^2 cycles: its input names another of
    /// its virtual channels at most once before it, because the round goes past each that moves. An
    /// input that names one waits until each other input had the output; this may begin again when
    /// another virtual channel before it can move, at most once for each.
    pub(super) fn check(&self, checker: &mut Checker) {
        let mut in_buffers = 0;
        for (slot, Vc { up, down, place, .. }) in self.slots.vcs.iter().enumerate() {
            let &(channel, vc) = place;
            let line = &self.lines[channel as usize];
            let (word, bit) = line.bit(vc);
            let idle = self.slots.idle[word] & bit != 0;
            assert!(!idle || down.packet == NONE, "channel {channel} vc {vc} has a packet");
            assert!(!idle || up.owner == NONE, "channel {channel} vc {vc} has an owner");
            match line.to {
                End::Router(router) => {
                    let depth = self.settings.buffers_per_vc;
                    let here = if down.packet == NONE { 0 } else { down.ready.into() };
                    checker.room(slot, (up.credits.into(), here), depth.into());
                    assert!(!idle || up.credits == depth, "channel {channel} vc {vc} is idle");
                    in_buffers += here;
                    let state = self.routers[router as usize];
                    let at = vc / 64 - line.word();
                    let first = !self.settings.ordered || self.is_first(line, vc);
                    let able = self.able(&state, line.input.into(), line, at) & bit != 0 && first;
                    let bound = u64::from(state.inputs) * u64::from(line.vcs).pow(2);
                    checker.waits(slot, able, bound);
                }
                End::Node(_) => checker.room(slot, (up.credits.into(), 0), ENDLESS.into()),
            }
            if let End::Router(router) = line.from {
                let vnet = vc / self.settings.vcs_per_vnet;
                let (group, state) = (line.group_of(vnet), self.routers[router as usize]);
                let open = self.ports.open[state.open() + group / 64] >> (group % 64) & 1 == 1;
                assert_eq!(open, self.any_idle(channel, vnet), "channel {channel} vc {vc}: open");
            }
        }
        checker.conserves(in_buffers);
    }
}
