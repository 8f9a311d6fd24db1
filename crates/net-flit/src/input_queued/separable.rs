//! Separable allocation, inputs first: each input picks one request, each output one input. Rounds
//! move past those that are served.

use super::arbiter::{Request, pick};
use super::router::Scratch;
use super::state::Router;
use super::{Allocator, InputQueued};
use crate::bits::first_from;
use crate::fabric::Routing;

/// When matrix arbiters have served what, plus one cycle; 0 if never.
#[derive(Clone, Debug, Default)]
pub(super) struct Served {
    /// For each virtual channel of each router's outputs, all virtual channels of its inputs.
    channels: Vec<u64>,
    /// For each output, all inputs.
    outputs: Vec<u64>,
}

/// Inputs of the largest router.
const PORTS: usize = 64;

impl Served {
    /// Nothing has been served. Empty unless arbiters are matrices.
    pub(super) fn new(allocator: Allocator, slots: usize, outputs: usize, shift: u32) -> Served {
        match allocator {
            Allocator::Matrix => Served {
                channels: vec![0; (slots * PORTS) << shift],
                outputs: vec![0; outputs * PORTS],
            },
            _ => Served::default(),
        }
    }
}

/// Request of an input to the switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    place: u32,
    output: u32,
    vc: u32,
    is_guess: bool,
}

impl<R: Routing> InputQueued<R> {
    fn created(&self, slot: u32) -> u64 {
        self.packets[(self.state.vcs[slot as usize].down.front >> 2) as usize].queued
    }

    /// Gives virtual channels: each packet asks for one of those that it may have, in turn, and each
    /// of these takes one packet.
    pub(super) fn assign_separable(&mut self, router: &Router, scratch: &mut Scratch) {
        let wants = &mut scratch.wants;
        for want in wants.iter_mut() {
            let turn = u32::from(self.state.vcs[want.slot as usize].down.turn);
            let place = if turn / 64 == want.output { turn % 64 } else { 0 };
            want.granted = 1 << first_from(want.open, place);
        }
        let shift = self.state.shift;
        let index = |slot: u32, index: u32| ((slot as usize * PORTS) << shift) + index as usize;
        for first in 0..wants.len() {
            let (base, vc) = (wants[first].base, wants[first].granted);
            if vc == 0 {
                continue;
            }
            let out = base + vc.trailing_zeros();
            let rivals = wants.iter().filter(|want| (want.base, want.granted) == (base, vc));
            let requests = rivals.map(|want| Request {
                index: want.index,
                is_guess: false,
                created: self.created(want.slot),
                served: *self.served.channels.get(index(out, want.index)).unwrap_or(&0),
            });
            let turn = self.state.vcs[out as usize].up.turn.into();
            let winner =
                pick(self.settings.pipeline.allocator, requests, turn).map(|request| request.index);
            for want in wants.iter_mut().filter(|want| (want.base, want.granted) == (base, vc)) {
                want.granted = 0;
                if Some(want.index) == winner {
                    want.taken = Some(vc.trailing_zeros());
                    let place = want.output * 64 + vc.trailing_zeros() + 1;
                    self.state.vcs[want.slot as usize].down.turn = place as u16;
                    let next = (want.index + 1) % (router.inputs << shift);
                    self.state.vcs[out as usize].up.turn = next as u16;
                    if let Some(served) = self.served.channels.get_mut(index(out, want.index)) {
                        *served = self.now + 1;
                    }
                }
            }
        }
    }

    /// Pairs inputs and outputs.
    pub(super) fn switch_separable(&mut self, router: &Router, scratch: &mut Scratch) {
        let mut choices = std::mem::take(&mut scratch.choices);
        let mut places =
            router.moving | if self.settings.pipeline.speculation { router.wanting } else { 0 };
        while places != 0 {
            let place = places.trailing_zeros();
            places &= places - 1;
            choices.extend(self.choice(router, place, scratch));
        }
        for first in 0..choices.len() {
            let output = choices[first].output;
            if choices[..first].iter().any(|choice| choice.output == output) {
                continue;
            }
            let number = (router.first_output + output) as usize;
            let rivals = choices[first..].iter().filter(|choice| choice.output == output);
            let requests = rivals.map(|choice| {
                let input = &self.state.inputs[(router.first_input + choice.place) as usize];
                let served = self.served.outputs.get(number * PORTS + choice.place as usize);
                Request {
                    index: choice.place,
                    is_guess: choice.is_guess,
                    created: self.created((input.channel << self.state.shift) + choice.vc),
                    served: *served.unwrap_or(&0),
                }
            });
            let turn = self.state.outs[number].turn;
            let Some(Request { index: place, .. }) =
                pick(self.settings.pipeline.allocator, requests, turn)
            else {
                continue;
            };
            self.state.outs[number].turn = (place + 1) % router.inputs;
            if let Some(served) = self.served.outputs.get_mut(number * PORTS + place as usize) {
                *served = self.now + 1;
            }
            for choice in choices.iter().filter(|choice| choice.place == place) {
                scratch.named[place][output] = choice.vc as u8;
                scratch.guesses[place] = u64::from(choice.is_guess) << output;
            }
            scratch.matched.push((place, output));
        }
        choices.clear();
        scratch.choices = choices;
    }

    /// Request of an input: one of its flits that can cross, or, if there is none, one that may get
    /// a virtual channel in this cycle.
    fn choice(&self, router: &Router, place: u32, scratch: &Scratch) -> Option<Choice> {
        let input = &self.state.inputs[(router.first_input + place) as usize];
        let base = input.channel << self.state.shift;
        let vcs = self.settings.vcs;
        let mut guesses = 0u64;
        if input.able == 0 {
            for want in scratch.wants.iter().filter(|want| want.index >> self.state.shift == place)
            {
                guesses |= u64::from(self.has_room(want.base, want.open))
                    << (want.index & ((1 << self.state.shift) - 1));
            }
        }
        let bits = if input.able == 0 { guesses } else { input.able };
        let requests = (0..vcs).filter(|vc| bits >> vc & 1 == 1).map(|vc| Request {
            index: vc,
            is_guess: false,
            created: self.created(base + vc),
            served: 0,
        });
        // The virtual channels of an input take turns also where outputs are matrices.
        let kind = match self.settings.pipeline.allocator {
            Allocator::Age => Allocator::Age,
            _ => Allocator::RoundRobin,
        };
        let vc = pick(kind, requests, input.turn.into())?.index;
        let output = self.state.vcs[(base + vc) as usize].down.output.into();
        Some(Choice { place, output, vc, is_guess: input.able == 0 })
    }

    /// Whether one of the virtual channels of an output has a credit.
    pub(super) fn has_room(&self, base: u32, mut open: u64) -> bool {
        while open != 0 {
            if self.state.vcs[(base + open.trailing_zeros()) as usize].up.credits > 0 {
                return true;
            }
            open &= open - 1;
        }
        false
    }
}
