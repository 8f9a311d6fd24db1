//! Allocation that takes several cycles, as BookSim2 has it: what asks in a cycle learns after all of
//! them whether it was served, and does not ask again before.

use super::InputQueued;
use super::router::Scratch;
use super::state::{NONE, Router, Stage};
use crate::fabric::Routing;

/// A virtual channel may ask for the switch again.
const SWITCH: u32 = 0;
/// A head may ask for a virtual channel again.
const CHANNEL: u32 = 1 << 8;
/// A head gets the virtual channel whose number is in the lowest bits.
const TAKE: u32 = 2 << 8;
/// A packet gives its virtual channel back.
const RELEASE: u32 = 3 << 8;

impl<R: Routing> InputQueued<R> {
    /// The answer to a request of some cycles ago is known.
    pub(super) fn later(&mut self, slot: u32, what: u32) {
        match what & !0xff {
            SWITCH => self.resume(slot),
            CHANNEL => self.ask(slot),
            TAKE => self.take(slot, what & 0xff),
            _ => self.release(slot),
        }
    }

    /// Notes the virtual channels that ask for the switch in this cycle.
    pub(super) fn note(&self, router: &Router, scratch: &mut Scratch) {
        for place in 0..router.inputs {
            let input = &self.state.inputs[(router.first_input + place) as usize];
            let vcs = (0..self.settings.vcs).filter(|vc| input.able >> vc & 1 == 1);
            scratch.asking.extend(vcs.map(|vc| (input.channel << self.state.shift) + vc));
        }
    }

    /// Those that have asked for the switch rest.
    pub(super) fn rest(&mut self, router: &Router, scratch: &mut Scratch) {
        let cycle = self.now + u64::from(self.settings.pipeline.switch_allocation);
        for slot in scratch.asking.drain(..) {
            let (channel, vc) = self.state.place(slot);
            let sink = self.state.sinks[channel as usize];
            let input = &mut self.state.inputs[sink.input as usize];
            input.able &= !(1 << vc);
            let none = u64::from(input.able == 0);
            self.state.routers[router.number as usize].moving &= !(none << sink.place);
            self.state.resting[sink.input as usize] |= 1 << vc;
            self.event(cycle, slot << 2 | super::LATER, SWITCH);
        }
    }

    /// Whether a virtual channel has asked for the switch and does not know what came of it.
    #[inline]
    pub(super) fn rests(&self, slot: u32) -> bool {
        if self.settings.pipeline.switch_allocation == 1 {
            return false;
        }
        let (input, vc) = (self.state.vcs[slot as usize].input, self.state.place(slot).1);
        self.state.resting[input as usize] >> vc & 1 == 1
    }

    fn resume(&mut self, slot: u32) {
        let (channel, vc) = self.state.place(slot);
        let sink = self.state.sinks[channel as usize];
        self.state.resting[sink.input as usize] &= !(1 << vc);
        let down = &mut self.state.vcs[slot as usize].down;
        if down.ready == 0 {
            return;
        }
        match down.stage {
            Stage::Idle => self.route(slot, self.before_channel),
            Stage::Switch => {
                let out = (down.out << self.state.shift) + u32::from(down.out_vc);
                if self.state.vcs[out as usize].up.credits > 0 {
                    self.able(sink.router, slot);
                }
            }
            Stage::Route | Stage::Channel => {}
        }
    }

    /// Heads that have asked for a virtual channel know what came of it later. Those that found none
    /// to ask for wait for one.
    pub(super) fn defer(&mut self, router: &Router, scratch: &mut Scratch) {
        let cycle = self.now + u64::from(self.settings.pipeline.channel_allocation);
        for want in scratch.wants.drain(..) {
            let (channel, vc) = self.state.place(want.slot);
            let sink = self.state.sinks[channel as usize];
            let input = &mut self.state.inputs[sink.input as usize];
            input.wants &= !(1 << vc);
            let none = u64::from(input.wants == 0);
            self.state.routers[router.number as usize].wanting &= !(none << sink.place);
            if want.taken.is_none() {
                self.loses(want.slot, self.settings.pipeline.channel_allocation);
            }
            let what = want.taken.map_or(CHANNEL, |vc| TAKE | vc);
            self.event(cycle, want.slot << 2 | super::LATER, what);
        }
    }

    /// A head gets a virtual channel, unless another has taken it meanwhile.
    fn take(&mut self, slot: u32, vc: u32) {
        let down = &self.state.vcs[slot as usize].down;
        let is_free = self.state.free[down.out as usize] >> vc & 1 == 1;
        if is_free && (!self.settings.cut_through || self.roomy(down) >> vc & 1 == 1) {
            let router = self.state.sinks[self.state.place(slot).0 as usize].router;
            let down = &mut self.state.vcs[slot as usize].down;
            down.since = down.since.wrapping_add(self.settings.pipeline.channel_allocation);
            self.occupy(router as usize, slot, vc, self.now);
            self.busy_routers[router as usize / 64] |= 1 << (router % 64);
        } else {
            self.loses(slot, self.settings.pipeline.channel_allocation);
            self.ask(slot);
        }
    }

    /// A packet gives the virtual channel of a slot back after the allocation of its last flit.
    pub(super) fn release_later(&mut self, slot: u32) {
        let cycle = self.now + u64::from(self.settings.pipeline.switch_allocation);
        self.event(cycle, slot << 2 | super::LATER, RELEASE);
    }

    fn release(&mut self, slot: u32) {
        let (channel, vc) = self.state.place(slot);
        let up = &mut self.state.vcs[slot as usize].up;
        up.owner = NONE;
        let all_back = u32::from(up.credits) == self.settings.buffers_per_vc;
        if !self.settings.pipeline.waits_for_tail_credit || all_back {
            self.state.free[channel as usize] |= 1 << vc;
        }
        let router = self.state.sources[channel as usize].from;
        self.busy_routers[router as usize / 64] |= 1 << (router % 64);
    }
}
