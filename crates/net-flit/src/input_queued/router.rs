//! A router: allocation of virtual channels and of the switch, by iSLIP (McKeown, "The iSLIP
//! Scheduling Algorithm for Input-Queued Switches", 1999): outputs grant, inputs accept, and
//! pointers move past a pair that is accepted in the first iteration.

use super::state::{NONE, Router, Stage};
use super::{InputQueued, READY};
use crate::fabric::Routing;

/// A packet that wants a virtual channel.
#[derive(Clone, Copy, Debug)]
struct Want {
    slot: u32,
    /// Number among all virtual channels of the router's inputs.
    index: u32,
    output: u32,
    out: u32,
    /// Virtual channels that it may have, and those that are granted.
    open: u64,
    granted: u64,
    taken: Option<u32>,
}

/// Room for the requests of a cycle.
#[derive(Default)]
pub(super) struct Scratch {
    wants: Vec<Want>,
    /// For each input and output, the virtual channel; for each output, bits of inputs; for each
    /// input, bits of outputs that it asks for, of outputs that ask it to guess, and of grants.
    named: Vec<[u8; 64]>,
    requests: Vec<u64>,
    asks: Vec<u64>,
    guesses: Vec<u64>,
    grants: Vec<u64>,
    matched: Vec<(u32, u32)>,
}

impl Scratch {
    pub(super) fn new(routers: &[Router]) -> Scratch {
        let inputs = routers.iter().map(|router| router.inputs as usize).max().unwrap_or(0);
        let outputs = routers.iter().map(|router| router.outputs as usize).max().unwrap_or(0);
        Scratch {
            named: vec![[0; 64]; inputs],
            requests: vec![0; outputs],
            asks: vec![0; inputs],
            guesses: vec![0; inputs],
            grants: vec![0; inputs],
            ..Scratch::default()
        }
    }
}

/// The first bit that is set, from a place on and round; there is one.
#[inline]
fn first_from(bits: u64, place: u32) -> u32 {
    let high = bits & (u64::MAX << place);
    if high != 0 { high.trailing_zeros() } else { bits.trailing_zeros() }
}

impl<R: Routing> InputQueued<R> {
    /// A cycle of a router. Returns whether anything was asked for.
    pub(super) fn allocate(&mut self, number: usize) -> bool {
        let Some(mut scratch) = self.scratch.take() else { return false };
        self.collect(number, &mut scratch);
        let outputs = self.name(number, &mut scratch);
        let router = self.state.routers[number];
        self.assign(&router, &mut scratch.wants);
        self.switch(&router, outputs, &mut scratch);
        let any = outputs != 0 || !scratch.wants.is_empty();
        for want in &scratch.wants {
            if let Some(vc) = want.taken {
                self.occupy(number, want.slot, want.out, vc);
            }
        }
        for (input, output) in scratch.matched.drain(..) {
            let vc = u32::from(scratch.named[input as usize][output as usize]);
            let guess = scratch.guesses[input as usize] >> output & 1 == 1;
            self.cross(&router, input, vc, guess);
        }
        scratch.wants.clear();
        self.scratch = Some(scratch);
        any
    }

    /// The packets that may get a virtual channel.
    #[inline]
    fn collect(&mut self, router: usize, scratch: &mut Scratch) {
        let vcs = self.settings.vcs;
        let router = &mut self.state.routers[router];
        let mut places = router.wanting;
        while places != 0 {
            let place = places.trailing_zeros();
            places &= places - 1;
            let input = &self.state.inputs[(router.first_input + place) as usize];
            let mut bits = input.wants;
            if bits == 0 {
                router.wanting &= !(1 << place);
            }
            scratch.asks[place as usize] = 0;
            scratch.guesses[place as usize] = 0;
            while bits != 0 {
                let vc = bits.trailing_zeros();
                bits &= bits - 1;
                let slot = input.channel * vcs + vc;
                let down = &self.state.downs[slot as usize];
                let open = self.state.lines[down.out as usize].free & down.allowed;
                if open != 0 {
                    scratch.wants.push(Want {
                        slot,
                        index: place * vcs + vc,
                        output: down.output,
                        out: down.out,
                        open,
                        granted: 0,
                        taken: None,
                    });
                }
            }
        }
    }

    /// Gives virtual channels to packets.
    fn assign(&mut self, router: &Router, wants: &mut [Want]) {
        for iteration in 0..self.settings.iterations {
            let mut any = false;
            for first in 0..wants.len() {
                let Want { output, out, .. } = wants[first];
                let unseen = |want: &Want| want.output != output;
                if wants[..first].iter().all(unseen) {
                    any |= self.grant(router, &mut wants[first..], output, out);
                }
            }
            if !any {
                break;
            }
            for want in wants.iter_mut().filter(|want| want.granted != 0) {
                self.accept(router, want, iteration == 0);
            }
        }
    }

    /// Each virtual channel of an output picks a packet.
    fn grant(&self, router: &Router, wants: &mut [Want], output: u32, out: u32) -> bool {
        if let [want] = wants {
            want.granted = if want.taken.is_none() { want.open } else { 0 };
            return want.granted != 0;
        }
        let mut given = 0;
        let mut union = 0;
        for want in wants.iter().filter(|want| want.output == output) {
            match want.taken {
                Some(vc) => given |= 1 << vc,
                None => union |= want.open,
            }
        }
        let mut bits: u64 = union & !given;
        let any = bits != 0;
        let count = router.inputs * self.settings.vcs;
        while bits != 0 {
            let bit = bits & bits.wrapping_neg();
            let vc = bits.trailing_zeros();
            bits ^= bit;
            let turn = self.state.ups[(out * self.settings.vcs + vc) as usize].turn;
            let behind = |want: &Want| {
                if want.index >= turn { want.index - turn } else { want.index + count - turn }
            };
            let fits = |want: &&mut Want| {
                want.output == output && want.taken.is_none() && want.open & bit != 0
            };
            if let Some(want) = wants.iter_mut().filter(fits).min_by_key(|want| behind(want)) {
                want.granted |= bit;
            }
        }
        any
    }

    /// A packet picks one of the virtual channels that picked it.
    fn accept(&mut self, router: &Router, want: &mut Want, first: bool) {
        let vcs = self.settings.vcs;
        let down = &mut self.state.downs[want.slot as usize];
        let place = if down.turn.0 == want.output { down.turn.1 } else { 0 };
        let vc = first_from(want.granted, place);
        want.granted = 0;
        want.taken = Some(vc);
        if first {
            down.turn = if vc + 1 < vcs { (want.output, vc + 1) } else { (want.output + 1, 0) };
            let next = want.index + 1;
            let up = &mut self.state.ups[(want.out * vcs + vc) as usize];
            up.turn = if next == router.inputs * vcs { 0 } else { next };
        }
    }

    /// Each input names a virtual channel for each output. Returns bits of outputs.
    #[inline]
    fn name(&mut self, router: usize, scratch: &mut Scratch) -> u64 {
        let vcs = self.settings.vcs;
        let mut outputs = 0;
        let router = &mut self.state.routers[router];
        let mut places = router.moving;
        while places != 0 {
            let place = places.trailing_zeros() as usize;
            places &= places - 1;
            let input = &self.state.inputs[router.first_input as usize + place];
            if input.able == 0 {
                router.moving &= !(1 << place);
            }
            let mut asked = 0u64;
            let (high, low) = (u64::MAX << input.turn, !(u64::MAX << input.turn));
            for mut bits in [input.able & high, input.able & low] {
                while bits != 0 {
                    let vc = bits.trailing_zeros();
                    bits &= bits - 1;
                    let output = self.state.downs[(input.channel * vcs + vc) as usize].output;
                    if asked >> output & 1 == 0 {
                        asked |= 1 << output;
                        scratch.named[place][output as usize] = vc as u8;
                        scratch.requests[output as usize] |= 1 << place;
                    }
                }
            }
            scratch.asks[place] = asked;
            scratch.guesses[place] = 0;
            outputs |= asked;
        }
        if self.settings.speculative {
            let router = *router;
            outputs |= self.guess(&router, scratch);
        }
        outputs
    }

    /// Packets without a virtual channel ask for the switch as well, after those that have one.
    fn guess(&self, router: &Router, scratch: &mut Scratch) -> u64 {
        let vcs = self.settings.vcs;
        let mut outputs = 0;
        for want in &scratch.wants {
            let base = want.out * vcs;
            let mut bits = want.open;
            let mut room = false;
            while bits != 0 && !room {
                room = self.state.ups[(base + bits.trailing_zeros()) as usize].credits > 0;
                bits &= bits - 1;
            }
            let (place, vc) = ((want.index / vcs) as usize, want.index % vcs);
            if !room || scratch.asks[place] >> want.output & 1 == 1 {
                continue;
            }
            let turn = self.state.inputs[router.first_input as usize + place].turn;
            let behind = |vc: u32| (vc + vcs - turn) % vcs;
            let named = &mut scratch.named[place][want.output as usize];
            let bit = 1 << want.output;
            if scratch.guesses[place] & bit == 0 || behind(vc) < behind(u32::from(*named)) {
                *named = vc as u8;
            }
            scratch.guesses[place] |= bit;
            scratch.requests[want.output as usize] |= 1 << place;
            outputs |= bit;
        }
        outputs
    }

    /// Pairs inputs and outputs.
    fn switch(&mut self, router: &Router, outputs: u64, scratch: &mut Scratch) {
        let (mut free_outputs, mut free_inputs) = (outputs, u64::MAX);
        for iteration in 0..self.settings.iterations {
            let mut bits = free_outputs;
            let mut inputs = 0u64;
            while bits != 0 {
                let output = bits.trailing_zeros();
                bits &= bits - 1;
                let requests = scratch.requests[output as usize] & free_inputs;
                if requests != 0 {
                    let turn = self.state.turns[(router.first_output + output) as usize];
                    let input = first_from(requests, turn);
                    scratch.grants[input as usize] |= 1 << output;
                    inputs |= 1 << input;
                }
            }
            while inputs != 0 {
                let place = inputs.trailing_zeros();
                inputs &= inputs - 1;
                let input = &mut self.state.inputs[(router.first_input + place) as usize];
                let grants = std::mem::take(&mut scratch.grants[place as usize]);
                let output = first_from(grants, input.accepts);
                free_inputs &= !(1 << place);
                free_outputs &= !(1 << output);
                scratch.matched.push((place, output));
                if iteration == 0 {
                    let next =
                        |place: u32, count: u32| if place + 1 == count { 0 } else { place + 1 };
                    input.accepts = next(output, router.outputs);
                    let turn = &mut self.state.turns[(router.first_output + output) as usize];
                    *turn = next(place, router.inputs);
                }
            }
        }
        let mut bits = outputs;
        while bits != 0 {
            scratch.requests[bits.trailing_zeros() as usize] = 0;
            bits &= bits - 1;
        }
    }

    /// A virtual channel belongs to the packet of a slot, which may ask for the switch.
    #[inline]
    fn occupy(&mut self, number: usize, slot: u32, out: u32, vc: u32) {
        let vcs = self.settings.vcs;
        let router = &mut self.state.routers[number];
        self.state.lines[out as usize].free &= !(1 << vc);
        let up = &mut self.state.ups[(out * vcs + vc) as usize];
        up.owner = slot;
        let down = &mut self.state.downs[slot as usize];
        down.stage = Stage::Switch;
        down.out_vc = vc;
        let input = &mut self.state.inputs[self.state.lines[(slot / vcs) as usize].input as usize];
        input.wants &= !(1 << (slot % vcs));
        if up.credits > 0 {
            input.able |= 1 << (slot % vcs);
            let line = &self.state.lines[(slot / vcs) as usize];
            router.moving |= 1 << line.place;
        }
    }

    /// An input has the switch for a virtual channel: a flit crosses, unless it guessed wrong.
    #[inline]
    fn cross(&mut self, router: &Router, place: u32, vc: u32, guess: bool) {
        let vcs = self.settings.vcs;
        let input = &mut self.state.inputs[(router.first_input + place) as usize];
        input.turn = if vc + 1 == vcs { 0 } else { vc + 1 };
        let bit = 1u64 << vc;
        if guess && input.able & bit == 0 {
            return;
        }
        let channel = input.channel;
        let slot = channel * vcs + vc;
        let down = &mut self.state.downs[slot as usize];
        let depth = self.settings.buffers_per_vc;
        let flit = self.buffers[(slot * depth + down.first) as usize];
        down.first = if down.first + 1 == depth { 0 } else { down.first + 1 };
        down.ready -= 1;
        let (out, out_vc, ready) = (down.out, down.out_vc, down.ready);
        let last = flit & 1 == 1;
        if last {
            down.stage = if ready == 0 { Stage::Idle } else { Stage::Route };
        }
        let up = &mut self.state.ups[(out * vcs + out_vc) as usize];
        up.credits -= 1;
        if last || ready == 0 || up.credits == 0 {
            input.able &= !bit;
        }
        if last {
            up.owner = NONE;
            if !self.settings.waits_for_tail_credit {
                self.state.lines[out as usize].free |= 1 << out_vc;
            }
            if ready > 0 {
                let cycle = self.now + 1 + self.before_channel;
                self.event(cycle, slot << 2 | READY, 0);
            }
        }
        self.traversals += 1;
        self.put(out, out_vc, flit);
        self.give_back(channel, vc);
    }
}
