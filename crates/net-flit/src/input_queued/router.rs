//! A router: allocation of virtual channels and of the switch, by iSLIP (McKeown, "The iSLIP
//! Scheduling Algorithm for Input-Queued Switches", 1999): outputs grant, inputs accept, and
//! pointers move past a pair that is accepted in the first iteration.

use super::separable::Choice;
use super::state::{Down, NONE, Router, Stage, Vc};
use super::{Allocator, InputQueued};
use crate::bits::{Row, first_from};
use crate::fabric::Routing;

/// A packet that wants a virtual channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub slot: u32,
    /// Number among all virtual channels of the router's inputs.
    pub index: u32,
    /// The first slot of the channel by which it leaves, and the number of the output.
    pub base: u32,
    pub output: u32,
    /// Virtual channels that it may have, and those that are granted.
    pub open: u64,
    pub granted: u64,
    pub taken: Option<u32>,
}

/// Room for the requests of a cycle.
pub(super) struct Scratch {
    pub wants: Vec<Want>,
    /// Bits of outputs that have one head that wants a virtual channel, and more than one.
    wanted: u64,
    shared: u64,
    /// Those that want one of the same output: virtual channels, index and number among `wants`.
    rivals: Vec<(u64, u64, u64)>,
    /// For each input and output, the virtual channel; for each output, bits of inputs; for each
    /// input, bits of outputs that it asks for, of outputs that ask it to guess, and of grants.
    pub named: Row<Row<u8>>,
    requests: Row<u64>,
    asks: Row<u64>,
    pub guesses: Row<u64>,
    pub grants: Row<u64>,
    pub matched: Vec<(u32, u32)>,
    /// Slots that ask for the switch, if that takes several cycles.
    pub asking: Vec<u32>,
    pub choices: Vec<Choice>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            wants: Vec::new(),
            wanted: 0,
            shared: 0,
            rivals: Vec::new(),
            named: Row::new(Row::new(0)),
            requests: Row::new(0),
            asks: Row::new(0),
            guesses: Row::new(0),
            grants: Row::new(0),
            matched: Vec::new(),
            asking: Vec::new(),
            choices: Vec::new(),
        }
    }
}

impl<R: Routing> InputQueued<R> {
    /// A cycle of a router. Returns whether anything may be asked for in the next one.
    pub(super) fn allocate(&mut self, number: usize) -> bool {
        let Some(mut scratch) = self.scratch.take() else { return false };
        let router = self.state.routers[number];
        let (left, crossed) = self.allocate_fully(&router, &mut scratch);
        self.scratch = Some(scratch);
        self.goes_on(number, left, crossed)
    }

    /// Whether anything may be asked for in the next cycle.
    #[inline(always)]
    pub(super) fn goes_on(&self, number: usize, left: bool, crossed: bool) -> bool {
        // A flit that has crossed may have left its virtual channel to a head.
        let router = &self.state.routers[number];
        left | (router.moving != 0) | (crossed & (router.wanting != 0))
    }

    /// Does what a router does in a cycle. Returns whether heads are left without a virtual channel, and
    /// whether a flit has crossed.
    fn allocate_fully(&mut self, router: &Router, scratch: &mut Scratch) -> (bool, bool) {
        self.collect(router, scratch);
        let is_slow = self.settings.pipeline.switch_allocation > 1;
        if is_slow {
            self.note(router, scratch);
        }
        if self.settings.pipeline.allocator == Allocator::Islip {
            let mut outputs = self.name(router, scratch);
            if self.settings.pipeline.speculation {
                outputs |= self.guess(router, scratch);
            }
            self.assign(router, scratch);
            self.switch(router, outputs, scratch);
        } else {
            self.switch_separable(router, scratch);
            self.assign_separable(router, scratch);
        }
        if self.settings.pipeline.channel_allocation > 1 {
            self.defer(router, scratch);
        }
        let mut left = false;
        // A guess that is right takes no cycle more.
        let since = self.now + u64::from(!self.settings.pipeline.speculation);
        for want in scratch.wants.drain(..) {
            left |= want.taken.is_none();
            self.settle(router, &want, since);
        }
        let crossed = !scratch.matched.is_empty();
        for (input, output) in scratch.matched.drain(..) {
            let vc = u32::from(scratch.named[input][output]);
            let guess = scratch.guesses[input] >> output & 1 == 1;
            self.cross(router, input, vc, guess);
        }
        if is_slow {
            self.rest(router, scratch);
        }
        (left, crossed)
    }

    /// A packet gets the virtual channel that it has taken, and may ask for the switch from a cycle
    /// on; or others got it.
    #[inline(always)]
    pub(super) fn settle(&mut self, router: &Router, want: &Want, since: u64) {
        match want.taken {
            Some(vc) => self.occupy(router.number as usize, want.slot, vc, since),
            None => self.loses(want.slot, 1),
        }
    }

    /// The packets that may get a virtual channel.
    #[inline]
    fn collect(&mut self, router: &Router, scratch: &mut Scratch) {
        let shift = self.state.shift;
        let mut places = router.wanting;
        (scratch.wanted, scratch.shared) = (0, 0);
        while places != 0 {
            let place = places.trailing_zeros();
            places &= places - 1;
            let input = &self.state.inputs[(router.first_input + place) as usize];
            let mut bits = input.wants;
            scratch.asks[place] = 0;
            scratch.guesses[place] = 0;
            while bits != 0 {
                let vc = bits.trailing_zeros();
                bits &= bits - 1;
                let slot = (input.channel << shift) + vc;
                let down = &self.state.vcs[slot as usize].down;
                let mut open = self.state.free[down.out as usize] & down.allowed;
                if self.settings.cut_through {
                    open &= self.roomy(down);
                }
                if open != 0 {
                    scratch.shared |= scratch.wanted & 1 << down.output;
                    scratch.wanted |= 1 << down.output;
                    scratch.wants.push(Want {
                        slot,
                        index: (place << shift) + vc,
                        base: down.out << shift,
                        output: down.output.into(),
                        open,
                        granted: 0,
                        taken: None,
                    });
                }
            }
        }
    }

    /// The virtual channels with room for a whole packet.
    pub(super) fn roomy(&self, down: &Down) -> u64 {
        let flits = self.packets[(down.front >> 2) as usize].packet.flits;
        let base = down.out << self.state.shift;
        let fits = |vc: &u32| u32::from(self.state.vcs[(base + vc) as usize].up.credits) >= flits;
        (0..self.settings.vcs).filter(fits).fold(0, |bits, vc| bits | 1 << vc)
    }

    /// Gives virtual channels to packets. One that no other competes with gets one at once.
    #[inline]
    fn assign(&mut self, router: &Router, scratch: &mut Scratch) {
        let shared = scratch.shared;
        for want in scratch.wants.iter_mut().filter(|want| shared >> want.output & 1 == 0) {
            want.granted = want.open;
            self.accept(router, want, true);
        }
        if shared != 0 {
            self.contend(router, scratch);
        }
    }

    /// Gives virtual channels of outputs that several packets want.
    fn contend(&mut self, router: &Router, scratch: &mut Scratch) {
        for iteration in 0..self.settings.pipeline.iterations {
            let (mut outputs, mut any) = (scratch.shared, false);
            while outputs != 0 {
                any |= self.grant(router, scratch, outputs.trailing_zeros());
                outputs &= outputs - 1;
            }
            if !any {
                break;
            }
            for want in scratch.wants.iter_mut().filter(|want| want.granted != 0) {
                self.accept(router, want, iteration == 0);
            }
        }
    }

    /// Each virtual channel of an output picks a packet: the first from where its round begins.
    pub(super) fn grant(&self, router: &Router, scratch: &mut Scratch, output: u32) -> bool {
        let Scratch { wants, rivals, .. } = scratch;
        let (mut given, mut union, mut base) = (0, 0, 0);
        rivals.clear();
        for (number, want) in (0..).zip(wants.iter()) {
            if want.output == output {
                base = want.base;
                match want.taken {
                    Some(vc) => given |= 1 << vc,
                    None => {
                        union |= want.open;
                        rivals.push((want.open, u64::from(want.index), number));
                    }
                }
            }
        }
        let mut bits: u64 = union & !given;
        let any = bits != 0;
        let count = u64::from(router.inputs << self.state.shift);
        while bits != 0 {
            let vc = bits.trailing_zeros();
            bits &= bits - 1;
            let turn = u64::from(self.state.vcs[(base + vc) as usize].up.turn);
            let key = |&(open, index, number): &(u64, u64, u64)| {
                let behind = index + if index < turn { count } else { 0 };
                let out = (open >> vc & 1) ^ 1;
                out << 63 | behind << 32 | number
            };
            if let Some(first) = rivals.iter().map(key).min() {
                wants[(first & 0xffff_ffff) as usize].granted |= 1 << vc;
            }
        }
        any
    }

    /// A packet picks one of the virtual channels that picked it.
    #[inline]
    pub(super) fn accept(&mut self, router: &Router, want: &mut Want, first: bool) {
        let down = &mut self.state.vcs[want.slot as usize].down;
        let turn = u32::from(down.turn);
        let place = if turn / 64 == want.output { turn % 64 } else { 0 };
        let vc = first_from(want.granted, place);
        want.granted = 0;
        want.taken = Some(vc);
        if first {
            down.turn = (want.output * 64 + vc + 1) as u16;
            let next = want.index + 1;
            let up = &mut self.state.vcs[(want.base + vc) as usize].up;
            up.turn = if next == router.inputs << self.state.shift { 0 } else { next as u16 };
        }
    }

    /// Each input names a virtual channel for each output. Returns bits of outputs.
    #[inline]
    fn name(&mut self, router: &Router, scratch: &mut Scratch) -> u64 {
        let mut outputs = 0;
        let mut places = router.moving;
        while places != 0 {
            let place = places.trailing_zeros();
            places &= places - 1;
            let input = &self.state.inputs[(router.first_input + place) as usize];
            if input.able & (input.able - 1) == 0 {
                let vc = input.able.trailing_zeros();
                let slot = (input.channel << self.state.shift) + vc;
                let output = u32::from(self.state.vcs[slot as usize].down.output);
                scratch.named[place][output] = vc as u8;
                scratch.requests[output] |= 1 << place;
                scratch.asks[place] = 1 << output;
                scratch.guesses[place] = 0;
                outputs |= 1 << output;
                continue;
            }
            let mut asked = 0u64;
            let (high, low) = (u64::MAX << input.turn, !(u64::MAX << input.turn));
            for mut bits in [input.able & high, input.able & low] {
                while bits != 0 {
                    let vc = bits.trailing_zeros();
                    bits &= bits - 1;
                    let slot = (input.channel << self.state.shift) + vc;
                    let output = u32::from(self.state.vcs[slot as usize].down.output);
                    if asked >> output & 1 == 0 {
                        asked |= 1 << output;
                        scratch.named[place][output] = vc as u8;
                        scratch.requests[output] |= 1 << place;
                    }
                }
            }
            scratch.asks[place] = asked;
            scratch.guesses[place] = 0;
            outputs |= asked;
        }
        outputs
    }

    /// Packets without a virtual channel ask for the switch as well, after those that have one.
    fn guess(&self, router: &Router, scratch: &mut Scratch) -> u64 {
        let vcs = self.settings.vcs;
        let mut outputs = 0;
        for want in &scratch.wants {
            let room = self.has_room(want.base, want.open);
            let (place, vc) =
                (want.index >> self.state.shift, want.index & ((1 << self.state.shift) - 1));
            if !room || scratch.asks[place] >> want.output & 1 == 1 {
                continue;
            }
            let turn = self.state.inputs[(router.first_input + place) as usize].turn;
            let behind = |vc: u32| (vc + vcs - u32::from(turn)) % vcs;
            let named = &mut scratch.named[place][want.output];
            let bit = 1 << want.output;
            if scratch.guesses[place] & bit == 0 || behind(vc) < behind(u32::from(*named)) {
                *named = vc as u8;
            }
            scratch.guesses[place] |= bit;
            scratch.requests[want.output] |= 1 << place;
            outputs |= bit;
        }
        outputs
    }

    /// Pairs inputs and outputs. An input that asks for one output accepts it at once.
    #[inline]
    fn switch(&mut self, router: &Router, outputs: u64, scratch: &mut Scratch) {
        let (mut free_outputs, mut free_inputs) = (outputs, u64::MAX);
        for iteration in 0..self.settings.pipeline.iterations {
            let mut bits = free_outputs;
            let mut inputs = 0u64;
            while bits != 0 {
                let output = bits.trailing_zeros();
                bits &= bits - 1;
                let requests = scratch.requests[output] & free_inputs;
                if requests == 0 {
                    continue;
                }
                let place = first_from(
                    requests,
                    self.state.outs[(router.first_output + output) as usize].turn,
                );
                let asked = scratch.asks[place] | scratch.guesses[place];
                if asked == 1 << output {
                    free_inputs &= !(1 << place);
                    free_outputs &= !(1 << output);
                    self.pair(router, (place, output), iteration == 0, scratch);
                } else {
                    scratch.grants[place] |= 1 << output;
                    inputs |= 1 << place;
                }
            }
            while inputs != 0 {
                let place = inputs.trailing_zeros();
                inputs &= inputs - 1;
                let input = &self.state.inputs[(router.first_input + place) as usize];
                let grants = std::mem::take(&mut scratch.grants[place]);
                let output = first_from(grants, input.accepts.into());
                free_inputs &= !(1 << place);
                free_outputs &= !(1 << output);
                self.pair(router, (place, output), iteration == 0, scratch);
            }
        }
        let mut bits = outputs;
        while bits != 0 {
            scratch.requests[bits.trailing_zeros()] = 0;
            bits &= bits - 1;
        }
    }

    /// An input and an output have each other. In the first iteration both start behind next time.
    #[inline]
    fn pair(
        &mut self,
        router: &Router,
        (place, output): (u32, u32),
        first: bool,
        scratch: &mut Scratch,
    ) {
        scratch.matched.push((place, output));
        if first {
            self.turn(router, (place, output));
        }
    }

    /// An input and an output start behind each other next time.
    #[inline(always)]
    pub(super) fn turn(&mut self, router: &Router, (place, output): (u32, u32)) {
        let next = |place: u32, count: u32| if place + 1 == count { 0 } else { place + 1 };
        let input = &mut self.state.inputs[(router.first_input + place) as usize];
        input.accepts = next(output, router.outputs) as u8;
        let out = &mut self.state.outs[(router.first_output + output) as usize];
        out.turn = next(place, router.inputs);
    }

    /// A head could have had a virtual channel and others got it, for this number of cycles.
    #[inline]
    pub(super) fn loses(&mut self, slot: u32, cycles: u32) {
        let down = &mut self.state.vcs[slot as usize].down;
        // The rest of the time it waits without one.
        down.since = down.since.wrapping_add(cycles);
        let to = (down.out << self.state.shift) + down.allowed.trailing_zeros();
        self.state.used(to).lost += u64::from(cycles);
    }

    /// A virtual channel belongs to a packet, which may ask for the switch from a cycle on.
    #[inline(always)]
    pub(super) fn occupy(&mut self, number: usize, slot: u32, vc: u32, since: u64) {
        let Vc { input, index, down, .. } = &mut self.state.vcs[slot as usize];
        let (input, index) = (*input, u32::from(*index));
        let waited = (self.now as u32).wrapping_sub(down.since);
        let (out, output) = (down.out, down.output);
        let to = (out << self.state.shift) + vc;
        down.since = since as u32;
        down.stage = Stage::Switch;
        (down.out_vc, down.to) = (vc as u8, to);
        if let Some(checker) = &mut self.checker {
            checker.moves(slot as usize);
        }
        self.state.free[out as usize] &= !(1 << vc);
        let Vc { up, used, .. } = &mut self.state.vcs[to as usize];
        up.owner = slot;
        let has_credits = up.credits > 0;
        self.state.uses[*used as usize].no_channel += u64::from(waited);
        let state = &mut self.state;
        let from = index & ((1 << state.shift) - 1);
        let input = &mut state.inputs[input as usize];
        let router = &mut state.routers[number];
        input.able |= u64::from(has_credits) << from;
        if self.is_simple {
            let out = &mut state.outs[(router.first_output + u32::from(output)) as usize];
            out.wants.clear(&mut state.words, index);
            router.wanting &= !(u64::from(out.wants.is_empty()) << output);
        } else {
            input.wants &= !(1 << from);
            router.wanting &= !(u64::from(input.wants == 0) << (index >> state.shift));
        }
        if has_credits {
            self.marks_able(number, index, output);
        }
    }

    /// An input has the switch for a virtual channel: a flit crosses, unless it guessed wrong.
    #[inline(always)]
    pub(super) fn cross(&mut self, router: &Router, place: u32, vc: u32, guess: bool) {
        let input = &mut self.state.inputs[(router.first_input + place) as usize];
        input.turn = if vc + 1 == self.settings.vcs { 0 } else { vc as u8 + 1 };
        let bit = 1u64 << vc;
        if guess && input.able & bit == 0 {
            return;
        }
        let slot = (input.channel << self.state.shift) + vc;
        let down = &mut self.state.vcs[slot as usize].down;
        if let Some(checker) = &mut self.checker {
            checker.moves(slot as usize);
        }
        let flit = down.front;
        down.ready -= 1;
        let Down { out, out_vc, to, ready, since, output, .. } = *down;
        let (out_vc, output) = (u32::from(out_vc), u32::from(output));
        let now = self.now as u32;
        down.since = now.wrapping_add(1);
        let last = flit & 1 == 1;
        let up = &mut self.state.vcs[to as usize].up;
        up.credits -= 1;
        if last || ready == 0 || up.credits == 0 {
            input.able &= !bit;
            let at = &mut self.state.routers[router.number as usize];
            if self.is_simple {
                let out = &mut self.state.outs[(router.first_output + output) as usize];
                out.able.clear(&mut self.state.words, (place << self.state.shift) + vc);
                at.moving &= !(u64::from(out.able.is_empty()) << output);
                if last {
                    (out.left, out.left_at) = (1 << out_vc, self.now);
                }
            } else {
                at.moving &= !(u64::from(input.able == 0) << place);
            }
        }
        let is_slow = self.settings.pipeline.switch_allocation > 1;
        if last && !is_slow {
            up.owner = NONE;
            if !self.settings.pipeline.waits_for_tail_credit {
                self.state.free[out as usize] |= 1 << out_vc;
            }
        }
        let down = &mut self.state.vcs[slot as usize].down;
        down.stage = if last { Stage::Idle } else { down.stage };
        if ready > 0 {
            let depth = self.settings.buffers_per_vc;
            let first = u32::from(down.first) + 1;
            down.first = if first == depth { 0 } else { first as u16 };
            down.front = self.buffers[(slot * depth + u32::from(down.first)) as usize];
            if last && !is_slow {
                self.route(slot, 1 + self.before_channel);
            }
        }
        if last && is_slow {
            self.release_later(to);
        }
        self.traversals += 1;
        self.state.used(to).lost += u64::from(now.wrapping_sub(since));
        self.state.used(slot).leaves(self.now);
        self.put(to, flit);
        self.give_back(slot);
    }
}
