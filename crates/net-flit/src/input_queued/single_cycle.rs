//! Allocation for the usual settings: iSLIP in one iteration, each allocation in a cycle, no
//! speculation, wormhole. It decides what `router.rs` decides, but looks at outputs that are asked
//! for instead of all inputs, and acts at once.
//!
//! First flits cross, then heads get virtual channels. A virtual channel that a flit has left in
//! this cycle is free from the next one on.

use super::InputQueued;
use super::router::{Scratch, Want};
use super::state::{Router, all};
use crate::bits::first_from;
use crate::fabric::Routing;

impl<R: Routing> InputQueued<R> {
    /// A cycle of a router. Returns whether anything may be asked for in the next one.
    pub(super) fn allocate_simply(&mut self, number: usize) -> bool {
        let router = &{ self.state.routers[number] };
        let shift = self.state.shift;
        let (mut outputs, mut inputs) = (router.moving, 0u64);
        while outputs != 0 {
            let output = outputs.trailing_zeros();
            outputs &= outputs - 1;
            let out = &self.state.outs[(router.first_output + output) as usize];
            let first = out.able.first_from(&self.state.words, out.turn << shift);
            let place = first >> shift;
            let input = &self.state.inputs[(router.first_input + place) as usize];
            if input.able & (input.able - 1) == 0 {
                // It asks for nothing else.
                let vc = first & ((1 << shift) - 1);
                self.turn(router, (place, output));
                self.cross(router, place, vc, false);
                continue;
            }
            let own = out.able.word(&self.state.words, first / 64) >> ((place << shift) % 64);
            let vc = first_from(own & all(self.settings.vcs), input.turn.into());
            if let Some(scratch) = &mut self.scratch {
                scratch.named[place][output] = vc as u8;
                scratch.grants[place] |= 1 << output;
            }
            inputs |= 1 << place;
        }
        while inputs != 0 {
            let place = inputs.trailing_zeros();
            inputs &= inputs - 1;
            let Some(scratch) = &mut self.scratch else { continue };
            let input = &self.state.inputs[(router.first_input + place) as usize];
            let output =
                first_from(std::mem::take(&mut scratch.grants[place]), input.accepts.into());
            let vc = scratch.named[place][output];
            self.turn(router, (place, output));
            self.cross(router, place, vc.into(), false);
        }
        let (mut outputs, mut left) = (router.wanting, false);
        while outputs != 0 {
            let output = outputs.trailing_zeros();
            outputs &= outputs - 1;
            left |= self.assign_output(router, output);
        }
        self.goes_on(number, left, router.moving != 0)
    }

    /// Gives virtual channels of an output to heads. Returns whether one that could have had one is
    /// left.
    #[inline(always)]
    fn assign_output(&mut self, router: &Router, output: u32) -> bool {
        let out = &self.state.outs[(router.first_output + output) as usize];
        let fresh = out.left & 0u64.wrapping_sub(u64::from(out.left_at == self.now));
        let free = self.state.free[out.channel as usize] & !fresh;
        if free == 0 {
            return false;
        }
        if let Some(index) = out.wants.only(&self.state.words) {
            let mut want = self.want(router, output, index, free);
            if want.open != 0 {
                want.granted = want.open;
                self.accept(router, &mut want, true);
                self.settle(router, &want, self.now + 1);
            }
            return false;
        }
        let Some(mut scratch) = self.scratch.take() else { return false };
        let left = self.contend_for(router, output, free, &mut scratch);
        self.scratch = Some(scratch);
        left
    }

    /// The same for several heads.
    fn contend_for(
        &mut self,
        router: &Router,
        output: u32,
        free: u64,
        scratch: &mut Scratch,
    ) -> bool {
        let out = &self.state.outs[(router.first_output + output) as usize];
        if let Some(heads) = out.wants.in_one_word()
            && let Some(left) = self.contend_for_one(router, output, free, heads)
        {
            return left;
        }
        let out = &self.state.outs[(router.first_output + output) as usize];
        out.wants.each(&self.state.words, |index| {
            let want = self.want(router, output, index, free);
            if want.open != 0 {
                scratch.wants.push(want);
            }
        });
        self.grant(router, scratch, output);
        let mut left = false;
        for mut want in scratch.wants.drain(..) {
            if want.granted != 0 {
                self.accept(router, &mut want, true);
            }
            left |= want.taken.is_none();
            self.settle(router, &want, self.now + 1);
        }
        left
    }

    /// The same where all heads that can have a virtual channel can have only one, and that the same.
    /// `None` if it is otherwise.
    #[inline(always)]
    fn contend_for_one(
        &mut self,
        router: &Router,
        output: u32,
        free: u64,
        mut heads: u64,
    ) -> Option<bool> {
        let (mut union, mut rivals) = (0, 0u64);
        while heads != 0 {
            let index = heads.trailing_zeros();
            heads &= heads - 1;
            let open = free & self.state.vcs[self.slot(router, index) as usize].down.allowed;
            union |= open;
            rivals |= u64::from(open != 0) << index;
        }
        if union == 0 {
            return Some(false);
        }
        if union & (union - 1) != 0 {
            return None;
        }
        let base =
            self.state.outs[(router.first_output + output) as usize].channel << self.state.shift;
        let turn = self.state.vcs[(base + union.trailing_zeros()) as usize].up.turn;
        let first = first_from(rivals, turn.into());
        let mut want = self.want(router, output, first, free);
        want.granted = union;
        self.accept(router, &mut want, true);
        self.settle(router, &want, self.now + 1);
        let mut others = rivals & !(1 << first);
        let left = others != 0;
        while others != 0 {
            self.loses(self.slot(router, others.trailing_zeros()), 1);
            others &= others - 1;
        }
        Some(left)
    }

    /// The slot of a virtual channel of a router's inputs.
    #[inline(always)]
    fn slot(&self, router: &Router, index: u32) -> u32 {
        let shift = self.state.shift;
        let input = &self.state.inputs[(router.first_input + (index >> shift)) as usize];
        (input.channel << shift) + (index & ((1 << shift) - 1))
    }

    #[inline(always)]
    fn want(&self, router: &Router, output: u32, index: u32, free: u64) -> Want {
        let slot = self.slot(router, index);
        let down = &self.state.vcs[slot as usize].down;
        let (base, open) = (down.out << self.state.shift, free & down.allowed);
        Want { slot, index, base, output, open, granted: 0, taken: None }
    }
}
