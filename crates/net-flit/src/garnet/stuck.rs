//! Deadlocks and checks.

use super::Garnet;
use super::state::NONE;
use crate::fabric::{End, Routing};

/// A virtual channel whose packet cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The channel.
    pub channel: u32,
    /// Virtual channel, numbered over all virtual networks.
    pub vc: u32,
}

impl<R: Routing> Garnet<R> {
    /// Virtual channels that wait for one another, each for the next, if packets are under way and
    /// nothing can move.
    pub fn deadlock(&self) -> Option<Vec<Blocked>> {
        if self.under_way == 0 || self.next().is_some() {
            return None;
        }
        let first = self.slots.down.iter().position(|down| down.packet != NONE && down.ready > 0);
        let Some(mut slot) = first else { return Some(Vec::new()) };
        let mut seen: Vec<usize> = Vec::new();
        loop {
            if let Some(from) = seen.iter().position(|&other| other == slot) {
                let place = |&slot: &usize| {
                    let (channel, vc) = self.slots.place[slot];
                    Blocked { channel, vc }
                };
                return Some(seen[from..].iter().map(place).collect());
            }
            seen.push(slot);
            let Some(next) = self.waits_for(slot) else { return Some(Vec::new()) };
            slot = next;
        }
    }

    /// The slot that a blocked packet waits for: of the channel that it has, or of one of those of
    /// which it needs one.
    fn waits_for(&self, slot: usize) -> Option<usize> {
        let down = &self.slots.down[slot];
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
        let held = |&slot: &usize| self.slots.down[slot].packet != NONE;
        (first..first + vcs).map(|vc| out.slot(vc)).find(held)
    }

    /// Credits, flits and bits agree: for each virtual channel, credits and flits of the buffer are
    /// never more than the buffer, and for each packet at most one channel is taken.
    pub(super) fn check(&self) {
        for (slot, (up, down)) in self.slots.up.iter().zip(&self.slots.down).enumerate() {
            let (channel, vc) = self.slots.place[slot];
            let line = &self.lines[channel as usize];
            let (word, bit) = line.bit(vc);
            let idle = self.slots.idle[word] & bit != 0;
            if let End::Router(_) = line.to {
                let depth = self.settings.buffers_per_vc;
                assert!(up.credits <= depth && down.ready <= depth, "channel {channel} vc {vc}");
                assert!(up.credits + down.ready <= depth, "channel {channel} vc {vc}: buffers");
                assert!(!idle || up.credits == depth, "channel {channel} vc {vc} is idle");
            }
            assert!(!idle || down.packet == NONE, "channel {channel} vc {vc} has a packet");
            assert!(!idle || up.owner == NONE, "channel {channel} vc {vc} has an owner");
            if let End::Router(router) = line.from {
                let vnet = vc / self.settings.vcs_per_vnet;
                let (group, state) = (line.group_of(vnet), self.routers[router as usize]);
                let open = self.ports.open[state.open() + group / 64] >> (group % 64) & 1 == 1;
                assert_eq!(open, self.any_idle(channel, vnet), "channel {channel} vc {vc}: open");
            }
        }
    }
}
