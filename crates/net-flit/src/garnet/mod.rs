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
mod whole;

use crate::array::Array;
use crate::calendar::Calendar;
use crate::checker::Checker;
use crate::fabric::{End, Fabric, Packet, Routing};
use crate::queue::Waiting;
use crate::refused::Refused;
pub use crate::report::{Arrival, Blocked};
pub use crate::uses::Use;
use border::Border;
use state::{Line, NONE, Node, Ports, Record, Router, Slots};
pub use whole::Whole;

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

/// Something happens on a channel: a virtual channel, and two bits that say what.
#[derive(Clone, Copy, Debug)]
struct Event {
    channel: u32,
    vc: u32,
}

/// The first flit of a packet arrives.
const HEAD: u32 = 0;
/// Another flit arrives.
const BODY: u32 = 1;
/// A credit arrives.
const CREDIT: u32 = 2;
/// The last credit of a packet arrives: the virtual channel is idle.
const FREE: u32 = 3;
/// Instead of a channel: a packet comes into the queue of the node whose number `vc` is.
const WAKE: u32 = u32::MAX;

/// A network of Garnet's routers.
pub struct Garnet<R> {
    settings: Settings,
    /// Of `vcs_per_vnet` where that is a power of two, else `NONE`; and where virtual networks also
    /// fit into words of bits, the bits of one, else 0.
    shift: u32,
    in_a_word: u64,
    routing: R,
    now: u64,
    calendar: Calendar<Event>,
    events: Vec<Event>,
    lines: Array<Line>,
    slots: Slots,
    routers: Array<Router>,
    ports: Ports,
    nodes: Vec<Node>,
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
        let (lines, slots) = state::lines(fabric, &settings);
        let (routers, ports) = state::routers(fabric);
        let nodes = state::nodes(fabric, &settings);
        let scratch = router::Scratch::new(&routers);
        let vcs = settings.vcs_per_vnet;
        Ok(Garnet {
            settings,
            shift: if vcs.is_power_of_two() { vcs.ilog2() } else { NONE },
            in_a_word: if vcs.is_power_of_two() && vcs <= 64 { u64::MAX >> (64 - vcs) } else { 0 },
            routing,
            now: 0,
            calendar: Calendar::default(),
            events: Vec::new(),
            lines: lines.into(),
            slots,
            busy_routers: vec![0; routers.len().div_ceil(64)].into(),
            busy_nodes: vec![0; nodes.len().div_ceil(64)].into(),
            routers: routers.into(),
            ports,
            nodes,
            packets: Array::default(),
            free_packets: Vec::new(),
            under_way: 0,
            traversals: 0,
            scratch,
            checker: None,
            border: None,
        })
    }

    /// Checks after every cycle that no flit and no credit is lost, that flits keep their order, and
    /// that none waits for ever.
    #[must_use]
    pub fn checked(mut self) -> Garnet<R> {
        self.checker = Some(Box::new(Checker::new(self.slots.vcs.len())));
        self
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What decides where packets go.
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

    /// What each virtual network of each channel has done up to now.
    pub fn uses(&self) -> impl Iterator<Item = impl Iterator<Item = Use> + '_> + '_ {
        let first = self.slots.first_use.iter().map(|&first| first as usize);
        let ends = first.clone().skip(1).chain([self.slots.uses.len()]);
        let until = self.now + 1;
        first.zip(ends).map(move |(first, end)| {
            self.slots.uses.as_slice()[first..end].iter().map(move |used| used.until(until))
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
        let node = &mut self.nodes[packet.src as usize];
        let lanes = &node.lanes_of[usize::from(packet.vnet)];
        let lane = lanes[usize::from(packet.port) % lanes.len()];
        node.lanes[lane as usize].queue.push_back(Waiting {
            packet,
            left: count,
            last,
            token,
            since: cycle,
        });
        if node.wakes != cycle + 1 {
            node.wakes = cycle + 1;
            self.calendar.push(self.now, cycle + 1, Event { channel: WAKE, vc: packet.src });
        }
    }

    /// The next cycle in which something can happen; `None` if nothing can.
    pub fn next(&self) -> Option<u64> {
        let busy = self.busy_routers.iter().chain(self.busy_nodes.iter()).any(|&bits| bits != 0);
        if busy { Some(self.now + 1) } else { self.calendar.next(self.now) }
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
        let mut events = std::mem::take(&mut self.events);
        self.calendar.take(self.now, &mut events);
        for event in events.drain(..) {
            self.happens(event, arrived);
        }
        self.events = events;
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

    #[inline]
    fn happens(&mut self, Event { channel, vc }: Event, arrived: &mut Vec<Arrival>) {
        if channel == WAKE {
            self.nodes[vc as usize].look();
            return self.wake_node(vc);
        }
        let (what, vc) = (vc & 3, vc >> 2);
        if let Some(checker) = &mut self.checker {
            let line = &self.lines[channel as usize];
            match what {
                HEAD | BODY => {
                    checker.arrives(line.slot(vc), what, matches!(line.to, End::Node(_)))
                }
                _ => checker.credit(line.slot(vc)),
            }
        }
        if what >= CREDIT {
            return self.credit(channel, vc, what == FREE);
        }
        match (self.lines[channel as usize].to, what) {
            (End::Router(router), HEAD) => self.head_arrives(router, channel, vc),
            (End::Router(router), _) => self.body_arrives(router, channel, vc),
            (End::Node(_), _) => self.eject(channel, vc, arrived),
        }
    }

    /// A credit arrives where flits of the channel come from.
    #[inline]
    fn credit(&mut self, channel: u32, vc: u32, free: bool) {
        if self.routing.is_adaptive() {
            self.slots.ahead[channel as usize] -= 1;
        }
        let line = &self.lines[channel as usize];
        let slot = line.slot(vc);
        let up = &mut self.slots.vcs[slot].up;
        up.credits += 1;
        if free {
            let (word, bit) = line.bit(vc);
            let vnet = self.vnet_of(vc);
            let was_closed = !self.any_idle(channel, vnet);
            self.slots.idle[word] |= bit;
            if was_closed {
                self.opens(channel, vnet);
            }
        } else if up.credits == 1 && up.owner != NONE {
            self.unblocks(channel, vc, slot);
        }
    }

    /// Puts a flit on a channel: it was granted in this cycle.
    #[inline(always)]
    fn put(&mut self, channel: u32, vc: u32, what: u32) {
        if self.routing.is_adaptive() {
            self.slots.ahead[channel as usize] += 1;
        }
        let line = &self.lines[channel as usize];
        let used = &mut self.slots.uses[self.slots.vcs[line.slot(vc)].used as usize];
        used.flits += 1;
        used.packets += u64::from(what == HEAD);
        let mut cycle = self.now + u64::from(line.flit_delay);
        if line.is_narrow {
            cycle = self.slots.narrow[channel as usize].flit(cycle);
        }
        if let Some(checker) = &mut self.checker {
            checker.sends(line.slot(vc), what, matches!(line.from, End::Node(_)));
        }
        let event = Event { channel, vc: vc << 2 | what };
        if self.border.as_mut().is_some_and(|border| border.takes_flit(cycle, event)) {
            return;
        }
        self.calendar.push(self.now, cycle, event);
    }

    /// Returns a credit to where the flits of a channel come from.
    #[inline(always)]
    fn give_back(&mut self, channel: u32, vc: u32, free: bool) {
        let line = &self.lines[channel as usize];
        let mut cycle = self.now + u64::from(line.credit_delay);
        if line.is_narrow {
            cycle = self.slots.narrow[channel as usize].credit(cycle);
        }
        if let Some(checker) = &mut self.checker {
            checker.gives_back(line.slot(vc));
        }
        let event = Event { channel, vc: vc << 2 | if free { FREE } else { CREDIT } };
        if self.border.as_mut().is_some_and(|border| border.takes_credit(cycle, event)) {
            return;
        }
        self.calendar.push(self.now, cycle, event);
    }

    /// The virtual network of a virtual channel.
    #[inline]
    fn vnet_of(&self, vc: u32) -> u32 {
        if self.shift == NONE { vc / self.settings.vcs_per_vnet } else { vc >> self.shift }
    }

    fn wake_router(&mut self, router: u32) {
        self.busy_routers[router as usize / 64] |= 1 << (router % 64);
    }

    fn wake_node(&mut self, node: u32) {
        self.busy_nodes[node as usize / 64] |= 1 << (node % 64);
    }
}
