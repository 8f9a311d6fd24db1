//! Deadlocks and checks.

use super::state::{NONE, Stage};
use super::{Blocked, InputQueued};
use crate::fabric::Routing;

impl<R: Routing> InputQueued<R> {
    /// Virtual channels that wait for one another, each for the next, if packets are under way and
    /// nothing can move.
    pub fn deadlock(&self) -> Option<Vec<Blocked>> {
        if self.under_way == 0 || self.next().is_some() {
            return None;
        }
        let first = self.state.downs.iter().position(|down| down.ready > 0);
        let Some(mut slot) = first else { return Some(Vec::new()) };
        let mut seen: Vec<usize> = Vec::new();
        loop {
            if let Some(from) = seen.iter().position(|&other| other == slot) {
                let vcs = self.settings.vcs as usize;
                let place = |slot: &usize| Blocked {
                    channel: (slot / vcs) as u32,
                    vc: (slot % vcs) as u32,
                };
                return Some(seen[from..].iter().map(place).collect());
            }
            seen.push(slot);
            let Some(next) = self.waits_for(slot) else { return Some(Vec::new()) };
            slot = next;
        }
    }

    /// The slot that a blocked packet waits for.
    fn waits_for(&self, slot: usize) -> Option<usize> {
        let down = &self.state.downs[slot];
        let base = (down.out * self.settings.vcs) as usize;
        match down.stage {
            Stage::Switch => Some(base + down.out_vc as usize),
            Stage::Channel => {
                let held = |&vc: &usize| {
                    down.allowed >> vc & 1 == 1 && self.state.downs[base + vc].ready > 0
                };
                (0..self.settings.vcs as usize).find(held).map(|vc| base + vc)
            }
            Stage::Idle | Stage::Route => None,
        }
    }

    /// Credits and flits of each buffer are never more than the buffer, and a virtual channel that
    /// a packet has is not free.
    pub(super) fn check(&self) {
        let (vcs, depth) = (self.settings.vcs as usize, self.settings.buffers_per_vc);
        for (slot, (up, down)) in self.state.ups.iter().zip(&self.state.downs).enumerate() {
            let (channel, vc) = (slot / vcs, slot % vcs);
            assert!(up.credits + down.ready <= depth, "channel {channel} vc {vc}: buffers");
            let free = self.state.lines[channel].free >> vc & 1 == 1;
            assert!(!free || up.owner == NONE, "channel {channel} vc {vc} has an owner");
        }
    }
}
