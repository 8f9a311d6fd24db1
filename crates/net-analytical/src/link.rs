//! The link-queue backend: first-order contention. Every link sends one message at a time, first
//! come first served; every node has room for all messages that wait.
//!
//! A hop that starts at t keeps its link until `t + bytes / bandwidth`. With [`Switching::CutThrough`]
//! the head is at the next node at `t + latency` and goes on at once if the next link is free. The
//! tail leaves at `max(t + bytes / bandwidth, tail's arrival)`, so that no link is faster than the
//! one before it. With [`Switching::StoreAndForward`] a message goes on when it is there as a whole.
//! Not modelled: packets, finite buffers, loss, routing around congestion (`net-packet`,
//! `net-flit`). Source: ASTRA-sim 2.0's congestion-aware analytical backend, which stores and
//! forwards, on any stack and any explicit graph; cut-through: Kermani and Kleinrock, "Virtual
//! cut-through", Computer Networks 3 (1979).

use crate::agenda::Agenda;
pub use net_settings::link::Switching;
use network::{
    Alike, Backend, ClosedForm, Contention, Delivery, Footprint, LinkCost, LinkEnds, LinkUsage,
    NetworkSink, Ordered, Parts, Sending, Sequence, Stamp, Transfer, Uncontended, Usage,
};
use topology::{Hop, LaneId, Lanes, LinkGraph, Routing, SprayTurns};
use units::{Span, Time};

const NONE: u32 = u32::MAX;
/// Events between two looks at whether the run goes on.
const EVENTS_AT_ONCE: u32 = 1 << 12;
/// Bytes kept for a message, a link and a link in use, rounded up for tables that grow by doubling.
const MESSAGE: u64 = 56;
const LINK: u64 = 4;
const USED_LINK: u64 = 96;

#[derive(Clone, Copy)]
enum Event {
    Arrive { message: u32, node: u32 },
    Free { link: u32 },
}

#[derive(Clone, Copy)]
struct Message {
    transfer: Transfer,
    /// Next in the queue of the link it waits for.
    next: u32,
    since: Time,
    /// When its tail is at the node where its head is.
    tail: Time,
}

/// A link that a message leaves by.
#[derive(Clone, Copy)]
struct Out {
    link: u32,
    /// Index of its state.
    at: usize,
    dim: u32,
    from: u32,
    to: u32,
}

#[derive(Clone, Copy)]
struct LinkState {
    /// Since when the last message has been sent, its bytes, and when it has left.
    begin: Time,
    last: u64,
    free: Time,
    head: u32,
    tail: u32,
    queued: u32,
    longest: u32,
    messages: u64,
    bytes: u64,
    sending: Span,
    waited: Span,
}

const IDLE: LinkState = LinkState {
    begin: Time::ZERO,
    last: 0,
    free: Time::ZERO,
    head: NONE,
    tail: NONE,
    queued: 0,
    longest: 0,
    messages: 0,
    bytes: 0,
    sending: Span::ZERO,
    waited: Span::ZERO,
};

impl LinkState {
    /// Part of the message being sent that is left, and for how long.
    fn left(&self, until: Time) -> (u64, Span) {
        let left = Span(self.free.0.saturating_sub(until.max(self.begin).0));
        (left.part(self.last, self.free.since(self.begin)), left)
    }
}

/// The last spans computed for a cost: (bytes, transit, occupancy).
type Memo = (u64, Span, Span);

/// The link-queue backend.
pub struct LinkQueues {
    graph: LinkGraph,
    /// By dimension for a stack, by link for an explicit graph.
    costs: Vec<(LinkCost, Memo)>,
    by_link: bool,
    stores: bool,
    /// Links that only one NPU ever sends over; empty when nothing is known.
    private: Vec<bool>,
    /// States of the links used so far, and for each link which of them is its own (`NONE` while
    /// unused; no entries before the first transfer).
    states: Vec<LinkState>,
    state_of: Vec<u32>,
    messages: Vec<Message>,
    /// Keys of the messages where a policy needs them, and whose turn it is at each node.
    keys: Vec<u64>,
    turns: SprayTurns,
    /// Lanes of the message that starts, and messages under way on several lanes.
    lanes: Lanes,
    parts: Parts,
    /// Whether a message that starts needs a key.
    has_keys: bool,
    free: Vec<u32>,
    agenda: Agenda<Event>,
    sink: Option<Box<dyn NetworkSink>>,
    /// Bytes of each dimension, on links that leave an NPU, by weight.
    bytes: Vec<u128>,
    transfers: u128,
    stored: u128,
}

impl LinkQueues {
    /// A network over `graph`; `costs` by dimension, or by link when `by_link`.
    pub fn new(graph: LinkGraph, costs: Vec<LinkCost>, by_link: bool) -> LinkQueues {
        let memo = |cost: LinkCost| (cost, (0, cost.transit(1, 0), cost.occupancy(0)));
        LinkQueues {
            states: Vec::new(),
            state_of: Vec::new(),
            bytes: vec![0; if by_link { 1 } else { costs.len() }],
            costs: costs.into_iter().map(memo).collect(),
            by_link,
            stores: false,
            private: Vec::new(),
            has_keys: matches!(graph.routing(), Routing::DModK | Routing::Hash { .. }),
            graph,
            messages: Vec::new(),
            keys: Vec::new(),
            turns: SprayTurns::default(),
            lanes: Lanes::default(),
            parts: Parts::default(),
            free: Vec::new(),
            agenda: Agenda::default(),
            sink: None,
            transfers: 0,
            stored: 0,
        }
    }

    /// The same network with another way to send messages on; cut-through is the default.
    #[must_use]
    pub fn with_switching(self, switching: Switching) -> LinkQueues {
        LinkQueues { stores: switching == Switching::StoreAndForward, ..self }
    }

    /// The one link from `src` to `dst`, if there is one and no other NPU uses it.
    fn private_link(&self, src: u32, dst: u32) -> Option<Hop> {
        let lanes = Lanes::of(&self.graph, (src, dst));
        let [lane] = &lanes.found[..] else { return None };
        let hop = self.graph.lane(src, dst, lane.id).next()?;
        let private = self.private.get(hop.link as usize).copied().unwrap_or(false);
        (private && hop.to == dst).then_some(hop)
    }

    fn cost(&self, hop: Hop) -> LinkCost {
        self.costs[if self.by_link { hop.link } else { hop.dim } as usize].0
    }

    #[inline]
    fn spans(&mut self, link: u32, dim: u32, bytes: u64) -> (Span, Span) {
        let at = if self.by_link { link } else { dim };
        let (cost, memo) = &mut self.costs[at as usize];
        if memo.0 != bytes {
            *memo = (bytes, cost.transit(1, bytes), cost.occupancy(bytes));
        }
        (memo.1, memo.2)
    }

    /// Where the state of a link is, made on first use.
    #[inline]
    fn state(&mut self, link: u32) -> usize {
        if self.state_of.is_empty() {
            self.state_of.resize(self.graph.len() as usize, NONE);
        }
        let at = &mut self.state_of[link as usize];
        if *at == NONE {
            *at = self.states.len() as u32;
            self.states.push(IDLE);
        }
        *at as usize
    }

    /// Sends `message` on from `node`, or queues it there.
    #[inline]
    fn forward(&mut self, now: Time, message: u32, node: u32) {
        let dst = self.messages[message as usize].transfer.dst;
        let hop = match self.keys.get_mut(message as usize) {
            None => self.graph.take(node, dst, &mut 0, &mut self.turns),
            Some(key) => self.graph.take(node, dst, key, &mut self.turns),
        };
        let hop = hop.expect("a message that has arrived is not forwarded");
        let at = self.state(hop.link);
        let state = &mut self.states[at];
        // Free at this very instant is free, whichever of the two events comes first.
        if state.head == NONE && state.free <= now {
            let out = Out { link: hop.link, at, dim: hop.dim, from: node, to: hop.to };
            return self.serve(now, message, out);
        }
        state.queued += 1;
        state.longest = state.longest.max(state.queued);
        let before = std::mem::replace(&mut state.tail, message);
        if state.head == NONE {
            // No message waited, so nothing was scheduled for when the link is free.
            state.head = message;
            self.agenda.push(state.free, Event::Free { link: hop.link });
        } else {
            self.messages[before as usize].next = message;
        }
        let queued = state.queued;
        let entry = &mut self.messages[message as usize];
        (entry.next, entry.since) = (NONE, now);
        self.report_waiting(now, hop.link, queued);
    }

    /// Starts a message, or a part of it, on a lane.
    #[inline]
    fn enter(&mut self, now: Time, transfer: Transfer, lane: LaneId) {
        let entry = Message { transfer, next: NONE, since: now, tail: now };
        let message = match self.free.pop() {
            Some(at) => {
                self.messages[at as usize] = entry;
                at
            }
            None => {
                self.messages.push(entry);
                self.messages.len() as u32 - 1
            }
        };
        if self.has_keys {
            self.keys.resize(self.messages.len(), 0);
            self.keys[message as usize] = self.graph.lane_key(transfer.src, transfer.dst, lane);
        }
        self.forward(now, message, transfer.src);
    }

    /// Starts a message on all lanes to its destination.
    #[cold]
    fn spread(&mut self, now: Time, transfer: Transfer) {
        let mut lanes = std::mem::take(&mut self.lanes);
        lanes.find(&self.graph, (transfer.src, transfer.dst));
        self.parts.start(transfer.token, lanes.parts(transfer.bytes).count() as u32);
        for (lane, bytes) in lanes.parts(transfer.bytes) {
            self.enter(now, Transfer { bytes, ..transfer }, lane);
        }
        self.lanes = lanes;
    }

    fn report_waiting(&mut self, now: Time, link: u32, messages: u32) {
        if let Some(sink) = &mut self.sink {
            sink.waits(now, ends(&self.graph, link), messages);
        }
    }

    #[inline]
    fn serve(&mut self, now: Time, message: u32, out: Out) {
        let Out { link, at, dim, from, to } = out;
        let from_npu = from < self.graph.npus();
        let stores = self.stores;
        let entry = self.messages[message as usize];
        let Transfer { src, dst, bytes, weight, token, .. } = entry.transfer;
        let (transit, occupancy) = self.spans(link, dim, bytes);
        let arrival = if stores {
            if from != src {
                self.stored += u128::from(occupancy.0) * u128::from(weight);
            }
            now + transit
        } else {
            let latency = transit - occupancy;
            let tail = (now + occupancy).max(entry.tail) + latency;
            self.messages[message as usize].tail = tail;
            if to == dst { tail } else { now + latency }
        };
        let state = &mut self.states[at];
        (state.begin, state.last, state.free) = (now, bytes, now + occupancy);
        state.messages += 1;
        state.bytes += bytes;
        state.sending += occupancy;
        let waiting = state.head != NONE;
        if from_npu {
            self.bytes[if self.by_link { 0 } else { dim as usize }] +=
                u128::from(bytes) * u128::from(weight);
        }
        self.agenda.push(arrival, Event::Arrive { message, node: to });
        if waiting {
            self.agenda.push(now + occupancy, Event::Free { link });
        }
        if let Some(sink) = &mut self.sink {
            let link = ends(&self.graph, link);
            sink.sends(&Sending { link, token, begin: now, end: now + occupancy, bytes });
        }
    }

    #[inline]
    fn freed(&mut self, now: Time, link: u32) {
        let at = self.state(link);
        let state = &mut self.states[at];
        let message = state.head;
        let waiting = self.messages[message as usize];
        state.head = waiting.next;
        state.queued -= 1;
        state.waited += now.since(waiting.since);
        let queued = state.queued;
        let ends = self.graph.link(link);
        self.report_waiting(now, link, queued);
        let out = Out { link, at, dim: ends.dim, from: ends.from, to: ends.to };
        self.serve(now, message, out);
    }
}

impl Backend for LinkQueues {
    #[inline]
    fn start(&mut self, now: Time, transfer: Transfer) {
        self.transfers += u128::from(transfer.weight);
        if let Some(sink) = &mut self.sink {
            sink.starts(now, &transfer);
        }
        if self.graph.spreads() {
            self.spread(now, transfer);
        } else {
            self.enter(now, transfer, LaneId::default());
        }
    }

    #[inline]
    fn next_event(&self) -> Option<Time> {
        self.agenda.next_event()
    }

    #[inline]
    fn advance(&mut self, until: Time, finished: &mut Vec<Delivery>) {
        self.run(Stamp { time: until, order: u64::MAX }, finished, EVENTS_AT_ONCE);
    }

    fn physical_minimum(&self, src: u32, dst: u32, bytes: u64) -> Span {
        let (lane, bytes) = self.graph.first_part((src, dst), bytes);
        if self.stores {
            return self.graph.least(src, dst, |hop| self.cost(hop).transit(1, bytes));
        }
        let occupancy = |hop: Hop| self.cost(hop).occupancy(bytes);
        let slowest = match self.graph.routing() {
            // Any of the first links may be taken; of what follows it is enough to count latency.
            Routing::Spray => self.graph.choices(src, dst).into_iter().map(occupancy).min(),
            _ => self.graph.lane(src, dst, lane).map(occupancy).max(),
        };
        let latency = self.graph.least(src, dst, |hop| self.cost(hop).transit(1, 0));
        latency + slowest.unwrap_or_default()
    }

    fn usage(&self, until: Time) -> Usage {
        let mut links = Vec::with_capacity(self.states.len());
        for (id, &at) in self.state_of.iter().enumerate().filter(|&(_, &at)| at != NONE) {
            let state = &self.states[at as usize];
            let link = self.graph.link(id as u32);
            let (bytes, busy) = state.left(until);
            links.push(LinkUsage {
                from: link.from,
                to: link.to,
                dim: link.dim,
                count: None,
                bytes: state.bytes - bytes,
                messages: state.messages,
                busy: Span(state.sending.0 - busy.0),
                waited: state.waited,
                longest_queue: state.longest,
            });
        }
        Usage {
            bytes: self.bytes.clone(),
            outermost: Vec::new(),
            busiest: None,
            transfers: self.transfers,
            stored: self.stored,
            links,
            packets: None,
            flits: None,
        }
    }

    fn contention(&self) -> Contention {
        Contention::Links
    }

    fn alike(&self) -> Alike {
        if self.by_link { Alike::Nothing } else { Alike::OneLink }
    }

    fn footprint(&self) -> Footprint {
        let links = self.graph.len().into();
        Footprint { transfer: MESSAGE, links, link: LINK, used_link: USED_LINK, packet: 0 }
    }

    fn observe(&mut self, sink: Box<dyn NetworkSink>) -> bool {
        self.sink = Some(sink);
        true
    }

    fn closed_form(&self) -> Option<&dyn ClosedForm> {
        Some(self)
    }

    fn closed_form_mut(&mut self) -> Option<&mut dyn ClosedForm> {
        Some(self)
    }

    fn ordered(&mut self) -> Option<&mut dyn Ordered> {
        Some(self)
    }
}

impl Ordered for LinkQueues {
    fn share(&mut self, sequence: Sequence) {
        self.agenda.share(sequence);
    }

    #[inline]
    fn advance_to(&mut self, until: Stamp, finished: &mut Vec<Delivery>) -> bool {
        self.run(until, finished, u32::MAX)
    }
}

impl LinkQueues {
    /// Handles events until one delivers, at most `most`. False when there is none.
    #[inline]
    fn run(&mut self, until: Stamp, finished: &mut Vec<Delivery>, most: u32) -> bool {
        let (before, mut handled) = (finished.len(), false);
        for _ in 0..most {
            if finished.len() > before {
                break;
            }
            let Some((time, event)) = self.agenda.pop(until) else { break };
            handled = true;
            match event {
                Event::Free { link } => self.freed(time, link),
                Event::Arrive { message, node } => {
                    let transfer = self.messages[message as usize].transfer;
                    if node == transfer.dst {
                        self.free.push(message);
                        if !self.parts.arrive(transfer.token) {
                            continue;
                        }
                        let delivery = Delivery { token: transfer.token, time };
                        finished.push(delivery);
                        if let Some(sink) = &mut self.sink {
                            sink.arrives(&delivery);
                        }
                    } else {
                        self.forward(time, message, node);
                    }
                }
            }
        }
        handled
    }
}

impl ClosedForm for LinkQueues {
    fn uncontended(&self, src: u32, dst: u32, bytes: u64) -> Option<Uncontended> {
        let cost = self.cost(self.private_link(src, dst)?);
        Some(Uncontended { transit: cost.transit(1, bytes), occupancy: cost.occupancy(bytes) })
    }

    fn is_idle(&self, src: u32, dst: u32, at: Time) -> bool {
        let Some(hop) = self.private_link(src, dst) else { return false };
        let state = self.state_of.get(hop.link as usize).copied().unwrap_or(NONE);
        state == NONE
            || self.states[state as usize].head == NONE && self.states[state as usize].free <= at
    }

    fn carry(&mut self, transfer: Transfer, times: u64) {
        let Some(hop) = self.private_link(transfer.src, transfer.dst) else { return };
        let (_, occupancy) = self.spans(hop.link, hop.dim, transfer.bytes);
        let at = self.state(hop.link);
        let state = &mut self.states[at];
        state.messages += times;
        state.bytes += transfer.bytes * times;
        state.sending += occupancy * times;
        let dim = if self.by_link { 0 } else { hop.dim as usize };
        let started = u128::from(transfer.weight) * u128::from(times);
        self.bytes[dim] += started * u128::from(transfer.bytes);
        self.transfers += started;
    }

    fn occupancy(&self, src: u32, dst: u32, bytes: u64) -> Span {
        let first = self.graph.route(src, dst).next();
        first.map_or(Span::ZERO, |hop| self.cost(hop).occupancy(bytes))
    }

    fn departure(&self, src: u32, dst: u32) -> u32 {
        self.graph.departure(src, dst)
    }

    fn set_private_links(&mut self, private: Vec<bool>) {
        self.private = private;
    }
}

/// Number, ends and dimension of a link.
fn ends(graph: &LinkGraph, link: u32) -> LinkEnds {
    let topology::Link { from, to, dim, .. } = graph.link(link);
    LinkEnds { link, from, to, dim, count: None }
}
