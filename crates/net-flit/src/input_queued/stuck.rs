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
                let place = |&slot: &usize| {
                    let (channel, vc) = self.state.place(slot as u32);
                    Blocked { channel, vc }
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
        let base = (down.out << self.state.shift) as usize;
        match down.stage {
            Stage::Switch => Some(base + usize::from(down.out_vc)),
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
        let depth = self.settings.buffers_per_vc;
        for (slot, (up, down)) in self.state.ups.iter().zip(&self.state.downs).enumerate() {
            let (channel, vc) = self.state.place(slot as u32);
            assert!(
                u32::from(up.credits) + u32::from(down.ready) <= depth,
                "channel {channel} vc {vc}: buffers"
            );
            let free = self.state.free[channel as usize] >> vc & 1 == 1;
            assert!(!free || up.owner == NONE, "channel {channel} vc {vc} has an owner");
        }
    }
}
