//! The input-queued router of the textbook (Dally and Towles, "Principles and Practices of
//! Interconnection Networks", 2004, chapters 16 to 19), cycle by cycle as BookSim2 runs it (Jiang et
//! al., "A Detailed and Flexible Cycle-Accurate Network-on-Chip Simulator", ISPASS 2013).
//!
//! A head gets its route, then a virtual channel of its output; each flit then gets the switch and
//! crosses it. A virtual channel may buffer several packets. Here: what a cycle does as a whole,
//! links and credits. Allocation is in `router.rs`, network interfaces are in `interface.rs`. A router
//! is looked at only while one of its flits has something to ask for; events wake it.

mod arbiter;
mod checks;
mod interface;
mod multi_cycle;
mod router;
mod separable;
mod single_cycle;
mod state;
mod stuck;

use crate::array::Array;
use crate::calendar::Calendar;
use crate::checker::Checker;
use crate::fabric::{Fabric, Packet, Routing};
use crate::queue::Waiting;
use crate::refused::Refused;
pub use crate::report::{Arrival, Blocked};
use crate::virtual_network_usage::Use;
pub use net_settings::flit::{Allocator, Pipeline};
use state::{NODE, NONE, Record, Stage, State, Up, Vc};

/// The settings of the router. Delays in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Virtual channels of each channel, 1 to 64. Virtual networks have equal shares.
    pub vcs: u32,
    /// Flits that each holds, 1 to 65,535.
    pub buffers_per_vc: u32,
    /// Stages and allocators.
    pub pipeline: Pipeline,
    /// Virtual cut-through: a head gets a virtual channel only if that has room for its whole packet
    /// (Kermani and Kleinrock, Computer Networks 3, 1979). Otherwise wormhole: for one flit. Packets
    /// that are longer than a buffer do not leave their source then.
    pub cut_through: bool,
}

impl Default for Settings {
    /// A router of four cycles.
    fn default() -> Settings {
        let pipeline = Pipeline::default();
        Settings { vcs: 4, buffers_per_vc: 8, pipeline, cut_through: false }
    }
}

impl Settings {
    /// Whether `single_cycle.rs` allocates.
    fn is_simple(&self) -> bool {
        let Pipeline { allocator, iterations, speculation, .. } = self.pipeline;
        let cycles = (self.pipeline.channel_allocation, self.pipeline.switch_allocation);
        allocator == Allocator::Islip
            && iterations == 1
            && cycles == (1, 1)
            && !speculation
            && !self.cut_through
    }
}

/// Something happens: a slot and two bits that say what, and the flit.
#[derive(Clone, Copy, Debug)]
struct Event {
    what: u32,
    /// Packet, and two bits: whether it is the first and whether the last of it.
    flit: u32,
}

/// A flit arrives.
const FLIT: u32 = 0;
/// A head has its route.
const READY: u32 = 1;
/// A packet comes into the queue of a node's link.
const WAKE: u32 = 2;
/// An allocation of several cycles ends.
const LATER: u32 = 3;

/// A network of input-queued routers.
pub struct InputQueued<R> {
    settings: Settings,
    routing: R,
    now: u64,
    calendar: Calendar<Event>,
    /// Slots to which credits come back.
    credits: Calendar<u32>,
    /// Slots of heads that have their route in the next cycle.
    routed: Vec<u32>,
    state: State,
    buffers: Array<u32>,
    busy_routers: Array<u64>,
    busy_links: Array<u64>,
    packets: Array<Record>,
    free_packets: Vec<u32>,
    under_way: u64,
    traversals: u64,
    /// Cycles from the arrival of a head until it asks for a virtual channel.
    before_channel: u64,
    served: separable::Served,
    /// Whether `single_cycle.rs` allocates, and whether it matters that credits come back before
    /// there was none.
    is_simple: bool,
    awaits_credits: bool,
    /// `None` while a router uses it.
    scratch: Option<Box<router::Scratch>>,
    /// `None` unless checked.
    checker: Option<Box<Checker>>,
}

impl<R: Routing> InputQueued<R> {
    /// An empty network in cycle 0. All channels have the same virtual networks.
    ///
    /// # Errors
    /// If a setting is out of range, or a channel or a router of the fabric cannot be simulated.
    pub fn new(fabric: &Fabric, settings: Settings, routing: R) -> Result<InputQueued<R>, Refused> {
        checks::settings(&settings)?;
        checks::fabric(fabric, &settings)?;
        let state = State::new(fabric, &settings);
        Ok(InputQueued {
            settings,
            routing,
            now: 0,
            calendar: Calendar::default(),
            credits: Calendar::default(),
            routed: Vec::new(),
            buffers: vec![0; state.vcs.len() * settings.buffers_per_vc as usize].into(),
            busy_routers: vec![0; state.routers.len().div_ceil(64)].into(),
            busy_links: vec![0; state.links.len().div_ceil(64)].into(),
            packets: Array::default(),
            free_packets: Vec::new(),
            under_way: 0,
            traversals: 0,
            before_channel: u64::from(settings.pipeline.route_computation),
            served: separable::Served::new(
                settings.pipeline.allocator,
                state.vcs.len(),
                state.outs.len(),
                state.shift,
            ),
            is_simple: settings.is_simple(),
            awaits_credits: settings.pipeline.speculation
                || settings.cut_through
                || settings.pipeline.waits_for_tail_credit,
            scratch: Some(Box::new(router::Scratch::default())),
            state,
            checker: None,
        })
    }

    /// Checks after every cycle that no flit and no credit is lost, that flits keep their order, and
    /// that none waits for ever.
    #[must_use]
    pub fn checked(mut self) -> InputQueued<R> {
        self.checker = Some(Box::new(Checker::new(self.state.vcs.len())));
        self
    }

    /// The cycle that was simulated last.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Packets that have not arrived.
    pub fn under_way(&self) -> u64 {
        self.under_way
    }

    /// Packets that have left their source but not arrived, and the first in each queue; each with
    /// its flits and the first cycle of its latency.
    pub fn in_flight(&self) -> impl Iterator<Item = (u32, u64)> {
        let mut counts = vec![true; self.packets.len()];
        for &number in &self.free_packets {
            counts[number as usize] = false;
        }
        let left = self.packets.iter().zip(counts).filter(|(_, counts)| *counts);
        let left = left.map(|(record, _)| (record.packet.flits, record.queued + 1));
        let queued = self.state.links.iter().filter_map(|link| link.queue.front());
        left.chain(queued.map(|waiting| (waiting.flits(), waiting.since + 1)))
    }

    /// Flits that have crossed a router.
    pub fn traversals(&self) -> u64 {
        self.traversals
    }

    /// Use of each virtual network of each channel up to now.
    pub fn uses(&self) -> impl Iterator<Item = impl Iterator<Item = Use> + '_> + '_ {
        let until = self.now + 1;
        let channels = self.state.uses.chunks(self.state.vnets as usize);
        channels.map(move |uses| uses.iter().map(move |used| used.until(until)))
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Virtual networks.
    pub fn vnets(&self) -> u32 {
        self.state.vnets
    }

    /// Routing that decides where packets go.
    pub fn routing(&self) -> &R {
        &self.routing
    }

    /// The same.
    pub fn routing_mut(&mut self) -> &mut R {
        &mut self.routing
    }

    /// A packet comes into the queue of its source in a cycle, which is not before now. It can leave
    /// from the next cycle on, which is the first of its latency.
    pub fn send(&mut self, cycle: u64, packet: Packet, token: u64) {
        self.send_many(cycle, packet, (1, packet.flits), token);
    }

    /// `count` packets come at once, the last of them with `last` flits.
    pub fn send_many(&mut self, cycle: u64, packet: Packet, (count, last): (u64, u32), token: u64) {
        debug_assert!(cycle >= self.now && packet.flits > 0 && last > 0 && count > 0);
        self.under_way += count;
        let node = packet.src as usize;
        let (first, end) = (self.state.first_link[node], self.state.first_link[node + 1]);
        let number = first + u32::from(packet.port) % (end - first);
        let link = &mut self.state.links[number as usize];
        link.queue.push_back(Waiting { packet, left: count, last, token, since: cycle });
        if cycle == self.now {
            self.busy_links[number as usize / 64] |= 1 << (number % 64);
        } else if link.wakes != cycle + 1 {
            link.wakes = cycle + 1;
            self.event(cycle + 1, WAKE, number);
        }
    }

    /// The next cycle in which something can happen; `None` if nothing can.
    pub fn next(&self) -> Option<u64> {
        let busy = self.busy_routers.iter().chain(self.busy_links.iter()).any(|&bits| bits != 0);
        if busy || !self.routed.is_empty() {
            return Some(self.now + 1);
        }
        let next = [self.calendar.next(self.now), self.credits.next(self.now)];
        next.into_iter().flatten().min()
    }

    /// Simulates up to the end of a cycle. Packets that arrive come last in `arrived`.
    pub fn run(&mut self, until: u64, arrived: &mut Vec<Arrival>) {
        while let Some(next) = self.next().filter(|&next| next <= until) {
            self.now = next;
            self.cycle(arrived);
        }
        self.now = self.now.max(until);
    }

    /// Simulates cycles until packets arrive, and returns whether any did.
    pub fn advance(&mut self, arrived: &mut Vec<Arrival>) -> bool {
        let before = arrived.len();
        while arrived.len() == before {
            let Some(next) = self.next() else { return false };
            self.now = next;
            self.cycle(arrived);
        }
        true
    }

    fn cycle(&mut self, arrived: &mut Vec<Arrival>) {
        let mut routed = std::mem::take(&mut self.routed);
        for slot in routed.drain(..) {
            self.ready(slot);
        }
        // Heads that arrive now use the list again.
        self.routed = routed;
        let events = self.calendar.take(self.now);
        for &event in &events {
            self.happens(event, arrived);
        }
        self.calendar.over(events);
        let returned = self.credits.take(self.now);
        for &slot in &returned {
            self.credit(slot);
        }
        self.credits.over(returned);
        for word in 0..self.busy_links.len() {
            let mut bits = self.busy_links[word];
            while bits != 0 {
                let link = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if !self.inject(link) {
                    self.busy_links[word] &= !(1 << (link % 64));
                }
            }
        }
        for word in 0..self.busy_routers.len() {
            let mut bits = self.busy_routers[word];
            while bits != 0 {
                let router = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let goes_on = if self.is_simple {
                    self.allocate_simply(router)
                } else {
                    self.allocate(router)
                };
                self.busy_routers[word] &= !(u64::from(!goes_on) << (router % 64));
            }
        }
        if let Some(mut checker) = self.checker.take() {
            self.check(&mut checker);
            self.checker = Some(checker);
        }
    }

    #[inline]
    fn happens(&mut self, Event { what, flit }: Event, arrived: &mut Vec<Arrival>) {
        let slot = what >> 2;
        if what & 3 == FLIT
            && let Some(checker) = &mut self.checker
        {
            let at_node = self.state.vcs[slot as usize].router == NODE;
            checker.arrives(slot as usize, flit, at_node);
        }
        match what & 3 {
            FLIT => match self.state.vcs[slot as usize].router {
                NODE => self.eject(slot, flit, arrived),
                router => self.flit_arrives(router, slot, flit),
            },
            READY => self.ready(slot),
            LATER => self.later(slot, flit),
            _ => self.busy_links[flit as usize / 64] |= 1 << (flit % 64),
        }
    }

    #[inline]
    fn flit_arrives(&mut self, router: u32, slot: u32, flit: u32) {
        let down = &mut self.state.vcs[slot as usize].down;
        if down.ready == 0 {
            down.front = flit;
        } else {
            let depth = self.settings.buffers_per_vc;
            let at = u32::from(down.first) + u32::from(down.ready);
            let at = if at >= depth { at - depth } else { at };
            self.buffers[(slot * depth + at) as usize] = flit;
        }
        down.ready += 1;
        match down.stage {
            Stage::Idle => self.begins(slot),
            Stage::Switch if down.ready == 1 => {
                down.since = self.now as u32;
                let to = down.to;
                if self.state.vcs[to as usize].up.credits > 0 {
                    self.able(router, slot);
                }
            }
            _ => {}
        }
        self.state.used(slot).enters(self.now);
    }

    /// The first flit of a virtual channel is a head that has just come.
    #[inline]
    fn begins(&mut self, slot: u32) {
        if !self.rests(slot) {
            self.route(slot, self.before_channel);
        }
    }

    /// The first flit of a virtual channel has what it needs to cross the switch.
    #[inline(always)]
    fn able(&mut self, router: u32, slot: u32) {
        if self.rests(slot) {
            return;
        }
        let Vc { input, index, down, .. } = &self.state.vcs[slot as usize];
        let (input, index, output) = (*input, u32::from(*index), down.output);
        self.state.inputs[input as usize].able |= 1 << (index & ((1 << self.state.shift) - 1));
        self.marks_able(router as usize, index, output);
        self.busy_routers[router as usize / 64] |= 1 << (router % 64);
    }

    /// A router sees that a virtual channel may cross to an output.
    #[inline(always)]
    fn marks_able(&mut self, router: usize, index: u32, output: u8) {
        let state = &mut self.state;
        let router = &mut state.routers[router];
        if self.is_simple {
            let out = &mut state.outs[(router.first_output + u32::from(output)) as usize];
            out.able.set(&mut state.words, index);
            router.moving |= 1 << output;
        } else {
            router.moving |= 1 << (index >> state.shift);
        }
    }

    /// The route of a head, which it has after this number of cycles. It is looked up now, while
    /// the facts about the head are in the cache.
    fn route(&mut self, slot: u32, cycles: u64) {
        let Vc { router, down, is_hop, .. } = &mut self.state.vcs[slot as usize];
        let record = &mut self.packets[(down.front >> 2) as usize];
        record.hops += u32::from(*is_hop);
        down.stage = Stage::Route;
        let (router, vcs) = (*router, self.settings.vcs);
        let (way, allowed) = self.routing.next_of(router, &record.packet, record.hops, vcs);
        let source = self.state.sources.as_slice()[way.channel as usize];
        assert!(
            source.from == router && u32::from(way.vnet) < self.state.vnets,
            "router {router} has no virtual network {} of channel {}",
            way.vnet,
            way.channel
        );
        let allowed = allowed & self.state.of_vnet(way.vnet, vcs);
        let down = &mut self.state.vcs[slot as usize].down;
        down.out = way.channel;
        down.output = source.output;
        down.allowed = allowed;
        match cycles {
            0 => self.ready(slot),
            1 => self.routed.push(slot),
            _ => self.event(self.now + cycles, slot << 2 | READY, 0),
        }
    }

    /// A head has its route: it asks for a virtual channel.
    #[inline(always)]
    fn ready(&mut self, slot: u32) {
        let down = &mut self.state.vcs[slot as usize].down;
        down.stage = Stage::Channel;
        down.since = self.now as u32;
        self.ask(slot);
    }

    /// A head asks for a virtual channel.
    #[inline(always)]
    fn ask(&mut self, slot: u32) {
        let state = &mut self.state;
        let Vc { router, input, index, down, .. } = &state.vcs[slot as usize];
        let (router, index, output) = (*router, u32::from(*index), down.output);
        let at = &mut state.routers[router as usize];
        if self.is_simple {
            let out = &mut state.outs[(at.first_output + u32::from(output)) as usize];
            out.wants.set(&mut state.words, index);
            at.wanting |= 1 << output;
        } else {
            state.inputs[*input as usize].wants |= 1 << (index & ((1 << state.shift) - 1));
            at.wanting |= 1 << (index >> state.shift);
        }
        self.busy_routers[router as usize / 64] |= 1 << (router % 64);
    }

    /// A credit arrives where flits of the channel come from.
    #[inline]
    fn credit(&mut self, slot: u32) {
        if let Some(checker) = &mut self.checker {
            checker.credit(slot as usize);
        }
        let up = &mut self.state.vcs[slot as usize].up;
        up.credits += 1;
        let Up { owner, credits, .. } = *up;
        if credits > 1 && !self.awaits_credits {
            return;
        }
        let (channel, vc) = self.state.place(slot);
        let Settings { buffers_per_vc, pipeline, .. } = self.settings;
        let is_free = owner == NONE && u32::from(credits) == buffers_per_vc;
        if pipeline.waits_for_tail_credit && is_free {
            self.state.free[channel as usize] |= 1 << vc;
        }
        let from = self.state.sources[channel as usize].from;
        if from & NODE != 0 {
            let link = from & !NODE;
            self.busy_links[link as usize / 64] |= 1 << (link % 64);
        } else if owner == NONE {
            if self.awaits_credits {
                self.busy_routers[from as usize / 64] |= 1 << (from % 64);
            }
        } else if credits == 1 && self.state.vcs[owner as usize].down.ready > 0 {
            let down = &mut self.state.vcs[owner as usize].down;
            let waited = (self.now as u32).wrapping_sub(down.since);
            down.since = self.now as u32;
            self.state.used(slot).no_credit += u64::from(waited);
            self.able(from, owner);
        }
    }

    /// Puts a flit on its way to the other end of a channel.
    #[inline(always)]
    fn put(&mut self, slot: u32, flit: u32) {
        let channel = slot >> self.state.shift;
        let used = self.state.used(slot);
        used.flits += 1;
        used.packets += u64::from(flit >> 1 & 1);
        let delays = self.state.delays[channel as usize];
        let delay = u64::from(delays.flit);
        let cycle = match delays.narrow {
            NONE => self.now + delay,
            narrow => self.state.narrow[narrow as usize].arrival(self.now, delay),
        };
        if let Some(checker) = &mut self.checker {
            checker.sends(slot as usize, flit, !self.state.vcs[slot as usize].is_hop);
        }
        self.event(cycle, slot << 2 | FLIT, flit);
    }

    /// Returns a credit to where the flits of a virtual channel come from.
    #[inline(always)]
    fn give_back(&mut self, slot: u32) {
        let delays = &self.state.delays[(slot >> self.state.shift) as usize];
        let cycle = self.now + u64::from(delays.credit);
        if let Some(checker) = &mut self.checker {
            checker.gives_back(slot as usize);
        }
        self.credits.push(self.now, cycle, slot);
    }

    #[inline(always)]
    fn event(&mut self, cycle: u64, what: u32, flit: u32) {
        self.calendar.push(self.now, cycle, Event { what, flit });
    }
}
