//! The router and the network interface of Garnet, to the cycle.
//!
//! A router takes one cycle (or `router_latency`): in a cycle each input port takes a flit from its
//! link, each output port a credit; then each input port names one flit, each output port takes one
//! of them, and it is on the link in the next cycle. A virtual channel holds one packet at a time.
//! Source: Agarwal, Krishna, Peh, Jha, "GARNET: A Detailed On-Chip Network Model inside a
//! Full-System Simulator", ISPASS 2009; the behaviour is that of gem5 24.1.
//!
//! Here: what a cycle does as a whole, links and credits. Allocation is in `router.rs`, network
//! interfaces are in `interface.rs`. A router is looked at only in cycles in which one of its flits
//! can move: bits say which flits have what they need, and events set and clear them.

mod border;
mod checks;
mod closed;
mod interface;
mod router;
mod side_by_side;
mod state;
mod stuck;
mod threaded;

use crate::array::Array;
use crate::calendar::Calendar;
use crate::checker::Checker;
use crate::fabric::{Fabric, Packet, Routing};
use crate::queue::Waiting;
use crate::refused::Refused;
pub use crate::report::{Arrival, Blocked};
pub use crate::virtual_network_usage::Use;
use border::Border;
use state::{Groups, NODE, NONE, Record, State};
pub use threaded::Whole;

/// The settings of Garnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Virtual networks; a packet stays in its own.
    pub vnets: u16,
    /// Virtual channels of each.
    pub vcs_per_vnet: u32,
    /// Flits that each virtual channel of a router holds.
    pub buffers_per_vc: u32,
    /// Cycles of a router, at least 1.
    pub router_latency: u32,
    /// Whether an interface takes turns between packets with every flit, as Garnet does, or sends
    /// one packet after the other as long as credits last.
    pub interleaves: bool,
    /// Whether packets that come by the same channel and leave by the same one, in the same virtual
    /// network, keep their order: a flit moves only when all packets that came before have left.
    /// (Garnet passes over packets without a flit ready, so its long ones may overtake.)
    pub ordered: bool,
}

impl Default for Settings {
    /// Those of gem5, with one virtual network.
    fn default() -> Settings {
        Settings {
            vnets: 1,
            vcs_per_vnet: 4,
            buffers_per_vc: 4,
            router_latency: 1,
            interleaves: true,
            ordered: false,
        }
    }
}

/// Something arrives: a slot, and two bits that say what.
type Event = u32;

/// The first flit of a packet.
const HEAD: u32 = 0;
/// Another flit.
const BODY: u32 = 1;
/// A credit.
const CREDIT: u32 = 2;
/// The last credit of a packet: the virtual channel is idle.
const FREE: u32 = 3;

/// A network of Garnet's routers.
pub struct Garnet<R> {
    settings: Settings,
    routing: R,
    now: u64,
    flits: Calendar<Event>,
    credits: Calendar<Event>,
    /// Nodes with packets that come into their queues.
    wakes: Calendar<u32>,
    state: State,
    /// Bits of the routers and nodes that may move something.
    busy_routers: Array<u64>,
    busy_nodes: Array<u64>,
    packets: Array<Record>,
    free_packets: Vec<u32>,
    under_way: u64,
    traversals: u64,
    scratch: router::Scratch,
    /// `None` unless checked.
    checker: Option<Box<Checker>>,
    border: Option<Box<Border>>,
}

impl<R: Routing> Garnet<R> {
    /// An empty network in cycle 0.
    ///
    /// # Errors
    /// If a setting is out of range, or a link or a node of the fabric cannot be simulated.
    pub fn new(fabric: &Fabric, settings: Settings, routing: R) -> Result<Garnet<R>, Refused> {
        checks::settings(&settings)?;
        checks::fabric(fabric, &settings)?;
        let state = State::new(fabric, &settings);
        Ok(Garnet {
            settings,
            routing,
            now: 0,
            flits: Calendar::default(),
            credits: Calendar::default(),
            wakes: Calendar::default(),
            busy_routers: vec![0; state.routers.len().div_ceil(64)].into(),
            busy_nodes: vec![0; state.nodes.len().div_ceil(64)].into(),
            packets: Array::default(),
            free_packets: Vec::new(),
            under_way: 0,
            traversals: 0,
            scratch: router::Scratch::new(&state.routers),
            state,
            checker: None,
            border: None,
        })
    }

    /// Checks after every cycle that no flit and no credit is lost, that flits keep their order, and
    /// that none waits for ever.
    #[must_use]
    pub fn checked(mut self) -> Garnet<R> {
        self.checker = Some(Box::new(Checker::new(self.state.vcs.len())));
        self
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Routing that decides where packets go.
    pub fn routing(&self) -> &R {
        &self.routing
    }

    /// The same.
    pub fn routing_mut(&mut self) -> &mut R {
        &mut self.routing
    }

    /// The cycle that was simulated last.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Packets that have not arrived.
    pub fn under_way(&self) -> u64 {
        self.under_way
    }

    /// Flits that have crossed a router.
    pub fn traversals(&self) -> u64 {
        self.traversals
    }

    /// Use of each virtual network of each channel up to now.
    pub fn uses(&self) -> impl Iterator<Item = impl Iterator<Item = Use> + '_> + '_ {
        let until = self.now + 1;
        self.state.groups_of.iter().map(move |&Groups { first, vnets, .. }| {
            let uses = &self.state.uses.as_slice()[first as usize..][..usize::from(vnets)];
            uses.iter().map(move |used| used.until(until))
        })
    }

    /// A packet comes into the queue of its source in a cycle, which is not before now. It can leave
    /// from the next cycle on.
    pub fn send(&mut self, cycle: u64, packet: Packet, token: u64) {
        self.send_many(cycle, packet, (1, packet.flits), token);
    }

    /// `count` packets come at once, the last of them with `last` flits.
    pub fn send_many(&mut self, cycle: u64, packet: Packet, (count, last): (u64, u32), token: u64) {
        debug_assert!(cycle >= self.now && packet.flits > 0 && last > 0 && count > 0);
        // A part counts what it sends and what arrives there; only the sum over parts says more.
        self.under_way = self.under_way.wrapping_add(count);
        let node = &mut self.state.nodes[packet.src as usize];
        let lanes = &node.lanes_of[usize::from(packet.vnet)];
        let lane = lanes[usize::from(packet.port) % lanes.len()];
        node.lanes[lane as usize].queue.push_back(Waiting {
            packet,
            left: count,
            last,
            token,
            since: cycle,
        });
        if cycle == self.now {
            node.waiting |= 1 << lane;
            self.wake_node(packet.src);
        } else if node.wakes != cycle + 1 {
            node.wakes = cycle + 1;
            self.wakes.push(self.now, cycle + 1, packet.src);
        }
    }

    /// The next cycle in which something can happen; `None` if nothing can.
    pub fn next(&self) -> Option<u64> {
        let busy = self.busy_routers.iter().chain(self.busy_nodes.iter()).any(|&bits| bits != 0);
        if busy {
            return Some(self.now + 1);
        }
        let next = [self.flits.next(self.now), self.credits.next(self.now)];
        next.into_iter().chain([self.wakes.next(self.now)]).flatten().min()
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
        let flits = self.flits.take(self.now);
        for &flit in &flits {
            self.flit(flit, arrived);
        }
        self.flits.over(flits);
        let credits = self.credits.take(self.now);
        for &credit in &credits {
            self.credit(credit);
        }
        self.credits.over(credits);
        let wakes = self.wakes.take(self.now);
        for &node in &wakes {
            self.state.nodes[node as usize].look();
            self.wake_node(node);
        }
        self.wakes.over(wakes);
        for word in 0..self.busy_nodes.len() {
            let mut bits = self.busy_nodes[word];
            while bits != 0 {
                let node = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let is_done = !self.inject(node);
                self.busy_nodes[word] &= !(u64::from(is_done) << (node % 64));
            }
        }
        for word in 0..self.busy_routers.len() {
            let mut bits = self.busy_routers[word];
            while bits != 0 {
                let router = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let is_done = !self.allocate(router);
                self.busy_routers[word] &= !(u64::from(is_done) << (router % 64));
            }
        }
        if let Some(mut checker) = self.checker.take() {
            self.check(&mut checker);
            self.checker = Some(checker);
        }
    }

    /// A flit arrives.
    #[inline(always)]
    fn flit(&mut self, event: Event, arrived: &mut Vec<Arrival>) {
        let (slot, what) = ((event >> 2) as usize, event & 3);
        let at_node = self.state.vcs[slot].sink >= self.state.inputs;
        if let Some(checker) = &mut self.checker {
            checker.arrives(slot, what, at_node);
        }
        if at_node {
            self.eject(slot, arrived);
        } else if what == HEAD {
            self.head_arrives(slot);
        } else {
            self.body_arrives(slot);
        }
    }

    /// A credit arrives where flits of the channel come from.
    #[inline(always)]
    fn credit(&mut self, event: Event) {
        let (slot, what) = ((event >> 2) as usize, event & 3);
        if let Some(checker) = &mut self.checker {
            checker.credit(slot);
        }
        let state = &mut self.state;
        let this = &mut state.vcs[slot];
        let (number, place) = (this.group as usize, this.place);
        this.up.credits += 1;
        let is_blocked = this.up.credits == 1 && this.up.owner != NONE;
        if self.routing.is_adaptive() {
            state.ahead[state.groups[number].channel as usize] -= 1;
        }
        if what == FREE {
            let group = &mut state.groups[number];
            let was_closed = group.idle.is_empty();
            group.idle.set(&mut state.words, place);
            if was_closed {
                self.opens(number);
            }
        } else if is_blocked {
            self.unblocks(slot);
        }
    }

    /// Puts a flit of a group on its channel: it was granted in this cycle.
    #[inline(always)]
    fn put(&mut self, group: usize, slot: usize, what: u32) {
        let state = &mut self.state;
        let used = &mut state.uses[group];
        used.flits += 1;
        used.packets += u64::from(what == HEAD);
        let group = &state.groups[group];
        let mut cycle = self.now + u64::from(group.flit_delay);
        if group.is_narrow {
            cycle = state.narrow[group.channel as usize].flit(cycle);
        }
        if self.routing.is_adaptive() {
            state.ahead[group.channel as usize] += 1;
        }
        if let Some(checker) = &mut self.checker {
            checker.sends(slot, what, group.from & NODE != 0);
        }
        let event = (slot as u32) << 2 | what;
        if let Some(border) = &mut self.border
            && border.takes_flit(group.channel, cycle, event)
        {
            return;
        }
        self.flits.push(self.now, cycle, event);
    }

    /// Returns a credit to where the flits of a virtual channel come from.
    #[inline(always)]
    fn give_back(&mut self, slot: usize, free: bool) {
        let state = &mut self.state;
        let sink = &state.sinks[state.vcs[slot].sink as usize];
        let mut cycle = self.now + u64::from(sink.credit_delay);
        if sink.is_narrow {
            cycle = state.narrow[sink.channel as usize].credit(cycle);
        }
        if let Some(checker) = &mut self.checker {
            checker.gives_back(slot);
        }
        let event = (slot as u32) << 2 | if free { FREE } else { CREDIT };
        if let Some(border) = &mut self.border
            && border.takes_credit(sink.channel, cycle, event)
        {
            return;
        }
        self.credits.push(self.now, cycle, event);
    }

    fn wake_router(&mut self, router: u32) {
        self.busy_routers[router as usize / 64] |= 1 << (router % 64);
    }

    fn wake_node(&mut self, node: u32) {
        self.busy_nodes[node as usize / 64] |= 1 << (node % 64);
    }
}
