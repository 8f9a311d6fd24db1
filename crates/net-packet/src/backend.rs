//! The backend: messages become segments, segments packets, packets cross links.
//!
//! Model. Every message goes over the connection of its two NPUs; its bytes follow those of earlier
//! messages. A segment leaves when the window allows, stands in the queue of each port on its way
//! (store and forward), and is acknowledged. A message is delivered when the receiver has all of it
//! in order. A packet costs one event for each link.

use crate::connection::{Connection, Message};
use crate::packet::{ACK, AGAIN, CE, ECE, NO_SACK, Packet};
use crate::port::{Counters, Outcome, Port};
use crate::settings::{Buffer, Settings, Tcp, Transport};
use crate::tcp::{Answer, Losses, Sack};
use engine::EventQueue;
use network::{Backend, Delivery, LinkCost, LinkUsage, Transfer, Usage};
use rustc_hash::FxHashMap;
use topology::LinkGraph;
use units::{Span, Time};

/// The end of a route.
const END: u32 = u32::MAX;

#[derive(Clone, Copy)]
enum Event {
    /// The first packet on the link of a port arrives.
    Arrive { port: u32 },
}

#[derive(Clone, Copy)]
enum Timer {
    /// The retransmission timer of a connection.
    Retransmit { connection: u32 },
    /// A delayed acknowledgement of a connection.
    Acknowledge { connection: u32 },
}

/// What a run has sent and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets with data.
    pub data: u64,
    /// Acknowledgements.
    pub acks: u64,
    /// Links crossed by packets.
    pub hops: u64,
    /// Packets dropped.
    pub drops: u64,
    /// What senders have been through.
    pub losses: Losses,
    /// Most bytes in any queue of a switch.
    pub longest_queue: u64,
}

/// The packet backend.
pub struct Packets {
    graph: LinkGraph,
    settings: Settings,
    tcp: Tcp,
    ports: Vec<Port>,
    /// Ports of all routes, each ended by [`END`].
    routes: Vec<u32>,
    known: FxHashMap<(u32, u32), u32>,
    connections: Vec<Connection>,
    sacks: Vec<Sack>,
    free_sacks: Vec<u32>,
    queue: EventQueue<Event>,
    timers: EventQueue<Timer>,
    order: u64,
    /// By dimension, on links that leave an NPU, by weight.
    bytes: Vec<u128>,
    transfers: u128,
    by_link: bool,
    totals: Totals,
}

impl Packets {
    /// A network over `graph`; `costs` by dimension, or by link when `by_link`.
    pub fn new(
        graph: LinkGraph,
        costs: Vec<LinkCost>,
        by_link: bool,
        settings: Settings,
    ) -> Packets {
        let npus = graph.npus();
        let port = |link: u32| {
            let ends = graph.link(link);
            let cost = costs[if by_link { link } else { ends.dim } as usize];
            // Packets of an NPU wait in its memory.
            let buffer = match settings.switch.buffer {
                Buffer::Port(bytes) if ends.from >= npus => bytes.0,
                _ => u64::MAX,
            };
            let mark_above = settings.switch.marking.map_or(u64::MAX, |marking| marking.to.0);
            Port::new(cost, buffer, mark_above)
        };
        Packets {
            ports: (0..graph.len()).map(port).collect(),
            bytes: vec![0; if by_link { 1 } else { costs.len() }],
            graph,
            settings,
            tcp: match settings.transport {
                Transport::Tcp(tcp) => tcp,
                Transport::Rdma(_) => Tcp::default(),
            },
            routes: Vec::new(),
            known: FxHashMap::default(),
            connections: Vec::new(),
            sacks: Vec::new(),
            free_sacks: Vec::new(),
            queue: EventQueue::default(),
            timers: EventQueue::default(),
            order: 0,
            transfers: 0,
            by_link,
            totals: Totals::default(),
        }
    }

    /// What the run has sent and lost so far.
    pub fn totals(&self) -> Totals {
        let mut totals = self.totals;
        for connection in &self.connections {
            let Losses { retransmits, recoveries, timeouts } = connection.sender.losses;
            totals.losses.retransmits += retransmits;
            totals.losses.recoveries += recoveries;
            totals.losses.timeouts += timeouts;
        }
        let npus = self.graph.npus();
        for (link, port) in (0..).zip(&self.ports) {
            totals.hops += port.counters.packets;
            totals.drops += port.counters.drops;
            if self.graph.link(link).from >= npus {
                totals.longest_queue = totals.longest_queue.max(port.counters.longest);
            }
        }
        totals
    }

    /// What each link's port has done, by link.
    pub fn counters(&self) -> impl Iterator<Item = (u32, Counters)> + '_ {
        (0..).zip(self.ports.iter().map(|port| port.counters))
    }

    fn route(&mut self, src: u32, dst: u32) -> u32 {
        let start = self.routes.len() as u32;
        self.routes.extend(self.graph.route(src, dst).map(|hop| hop.link));
        self.routes.push(END);
        start
    }

    /// The connection from `src` to `dst`, made on first use.
    fn connection(&mut self, src: u32, dst: u32) -> u32 {
        if let Some(&known) = self.known.get(&(src, dst)) {
            return known;
        }
        let (there, back) = (self.route(src, dst), self.route(dst, src));
        let at = self.connections.len() as u32;
        // The handshake crossed the empty network.
        let wire = u64::from(self.settings.header) + u64::from(self.settings.framing);
        let cost = |hop: topology::Hop| self.ports[hop.link as usize].cost().transit(1, wire);
        let ways = self.graph.route(src, dst).chain(self.graph.route(dst, src));
        let round_trip = ways.map(cost).sum();
        self.connections.push(Connection::new(
            (there, back),
            round_trip,
            &self.settings,
            &self.tcp,
        ));
        self.known.insert((src, dst), at);
        at
    }

    /// Sends what the window of a connection allows.
    #[inline]
    fn pump(&mut self, now: Time, at: u32) {
        let around = u64::from(self.settings.header) + u64::from(self.settings.framing);
        loop {
            let connection = &mut self.connections[at as usize];
            let Some(emit) = connection.sender.take(now, &self.tcp) else { break };
            let packet = Packet {
                seq: emit.seq,
                connection: at,
                route: connection.there,
                wire: (u64::from(emit.len) + around) as u16,
                flags: if emit.again { AGAIN } else { 0 },
                sack: NO_SACK,
            };
            self.totals.data += 1;
            self.forward(now, packet);
        }
        let connection = &mut self.connections[at as usize];
        if let Some(deadline) = connection.sender.deadline
            && connection.timeout_at.is_none_or(|armed| deadline < armed)
        {
            connection.timeout_at = Some(deadline);
            self.order += 1;
            self.timers.push(deadline, self.order, Timer::Retransmit { connection: at });
        }
    }

    /// Puts a packet into the queue of the next port on its route.
    #[inline]
    fn forward(&mut self, now: Time, mut packet: Packet) {
        let port = self.routes[packet.route as usize];
        packet.route += 1;
        match self.ports[port as usize].accept(now, packet) {
            Outcome::First(arrival) => self.push(arrival, port),
            Outcome::Behind => {}
            Outcome::Dropped => self.forget(packet.sack),
        }
    }

    #[inline]
    fn push(&mut self, time: Time, port: u32) {
        self.order += 1;
        self.queue.push(time, self.order, Event::Arrive { port });
    }

    fn forget(&mut self, sack: u32) {
        if sack != NO_SACK {
            self.free_sacks.push(sack);
        }
    }

    /// The first packet on the link of `port` is at its end.
    #[inline]
    fn arrive(&mut self, now: Time, port: u32, finished: &mut Vec<Delivery>) {
        let Some((packet, _, next)) = self.ports[port as usize].arrive() else { return };
        if let Some(next) = next {
            self.push(next, port);
        }
        if self.routes[packet.route as usize] != END {
            self.forward(now, packet);
        } else if packet.is(ACK) {
            self.acknowledged(now, packet);
        } else {
            self.data(now, packet, finished);
        }
    }

    /// Data has arrived.
    #[inline]
    fn data(&mut self, now: Time, packet: Packet, finished: &mut Vec<Delivery>) {
        let around = self.settings.header + self.settings.framing;
        let len = u64::from(packet.wire - around);
        let tcp = &self.tcp;
        let connection = &mut self.connections[packet.connection as usize];
        let receiver = &mut connection.receiver;
        // RFC 8257, section 3.2: a change of marks is acknowledged at once.
        let marked = packet.is(CE);
        let changed = marked != receiver.marked;
        let answer = receiver.data((packet.seq, len), tcp);
        receiver.marked = marked;
        while let Some(&Message { end, token }) = connection.messages.front()
            && end <= receiver.next
        {
            connection.messages.pop_front();
            finished.push(Delivery { token, time: now });
        }
        if answer == Answer::Now || changed {
            self.acknowledge(now, packet.connection);
        } else if receiver.due.is_none() {
            let due = now + tcp.ack_delay;
            receiver.due = Some(due);
            if connection.ack_at.is_none() {
                connection.ack_at = Some(due);
                let timer = Timer::Acknowledge { connection: packet.connection };
                self.order += 1;
                self.timers.push(due, self.order, timer);
            }
        }
    }

    /// Sends an acknowledgement.
    #[inline]
    fn acknowledge(&mut self, now: Time, at: u32) {
        let connection = &mut self.connections[at as usize];
        let receiver = &mut connection.receiver;
        receiver.acknowledge();
        let flags = ACK | if receiver.marked { ECE } else { 0 };
        let (seq, route) = (receiver.next, connection.back);
        let mut sack = NO_SACK;
        if self.tcp.sack && receiver.has_gap() {
            let ranges = receiver.sack();
            sack = self.free_sacks.pop().unwrap_or_else(|| {
                self.sacks.push(Sack::default());
                self.sacks.len() as u32 - 1
            });
            self.sacks[sack as usize] = ranges;
        }
        let wire = self.settings.header + self.settings.framing;
        self.totals.acks += 1;
        self.forward(now, Packet { seq, connection: at, route, wire, flags, sack });
    }

    /// An acknowledgement has arrived.
    #[inline]
    fn acknowledged(&mut self, now: Time, packet: Packet) {
        let sack = (packet.sack != NO_SACK).then(|| self.sacks[packet.sack as usize]);
        self.forget(packet.sack);
        let connection = &mut self.connections[packet.connection as usize];
        let news = (packet.seq, sack.as_ref(), packet.is(ECE));
        connection.sender.acknowledged(now, news, &self.tcp);
        self.pump(now, packet.connection);
    }

    /// A timer of a connection expires, unless it was put off.
    fn expire(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Retransmit { connection: at } => {
                let connection = &mut self.connections[at as usize];
                if connection.timeout_at != Some(now) {
                    return;
                }
                connection.timeout_at = None;
                match connection.sender.deadline {
                    Some(deadline) if deadline <= now => {
                        connection.sender.timed_out(now, &self.tcp);
                        self.pump(now, at);
                    }
                    Some(deadline) => {
                        connection.timeout_at = Some(deadline);
                        self.order += 1;
                        let timer = Timer::Retransmit { connection: at };
                        self.timers.push(deadline, self.order, timer);
                    }
                    None => {}
                }
            }
            Timer::Acknowledge { connection: at } => {
                let connection = &mut self.connections[at as usize];
                connection.ack_at = None;
                match connection.receiver.due {
                    Some(due) if due <= now => self.acknowledge(now, at),
                    Some(due) => {
                        connection.ack_at = Some(due);
                        self.order += 1;
                        let timer = Timer::Acknowledge { connection: at };
                        self.timers.push(due, self.order, timer);
                    }
                    None => {}
                }
            }
        }
    }
}

impl Backend for Packets {
    fn start(&mut self, now: Time, transfer: Transfer) {
        let Transfer { src, dst, bytes, token, weight, .. } = transfer;
        self.transfers += u128::from(weight);
        let at = self.connection(src, dst);
        let carried = u128::from(bytes) * u128::from(weight);
        let mut from = src;
        for hop in self.graph.route(src, dst) {
            if from < self.graph.npus() {
                let place = if self.by_link { 0 } else { hop.dim as usize };
                self.bytes[place] += carried;
            }
            from = hop.to;
        }
        let connection = &mut self.connections[at as usize];
        // A stream has no empty messages: one byte stands for the header of an empty one.
        connection.sender.write(now, bytes.max(1), &self.tcp);
        let end = connection.sender.written;
        connection.messages.push_back(Message { end, token });
        self.pump(now, at);
    }

    fn next_event(&self) -> Option<Time> {
        let packet = self.queue.peek().map(|(time, _)| time);
        let timer = self.timers.peek().map(|(time, _)| time);
        match (packet, timer) {
            (Some(packet), Some(timer)) => Some(packet.min(timer)),
            (packet, timer) => packet.or(timer),
        }
    }

    fn advance(&mut self, until: Time, finished: &mut Vec<Delivery>) {
        let before = finished.len();
        loop {
            let (packet, timer) = (self.queue.peek(), self.timers.peek());
            let is_timer = match (packet, timer) {
                (Some(packet), Some(timer)) => timer < packet,
                (None, None) => return,
                (packet, _) => packet.is_none(),
            };
            let next = if is_timer { timer } else { packet };
            let Some((time, _)) = next.filter(|&(time, _)| time <= until) else { return };
            if finished.get(before).is_some_and(|first| first.time < time) {
                return;
            }
            if is_timer {
                if let Some((time, timer)) = self.timers.pop() {
                    self.expire(time, timer);
                }
            } else if let Some((time, Event::Arrive { port })) = self.queue.pop() {
                self.arrive(time, port, finished);
            }
        }
    }

    fn physical_minimum(&self, src: u32, dst: u32, bytes: u64) -> Span {
        // Payload alone: every packet but the last may overlap on the links of the way.
        let cost = |hop: topology::Hop| self.ports[hop.link as usize].cost();
        let latency: Span = self.graph.route(src, dst).map(|hop| cost(hop).transit(1, 0)).sum();
        let slowest = self.graph.route(src, dst).map(|hop| cost(hop).occupancy(bytes)).max();
        latency + slowest.unwrap_or_default()
    }

    fn usage(&self) -> Usage {
        let used = self.counters().filter(|(_, counters)| counters.packets > 0);
        let usage = |(link, counters): (u32, Counters)| {
            let ends = self.graph.link(link);
            LinkUsage {
                from: ends.from,
                to: ends.to,
                dim: ends.dim,
                count: None,
                bytes: counters.bytes,
                messages: counters.packets,
                busy: counters.busy,
                waited: counters.waited,
                longest_queue: counters.most,
            }
        };
        Usage {
            bytes: self.bytes.clone(),
            outermost: Vec::new(),
            busiest: None,
            transfers: self.transfers,
            stored: 0,
            links: used.map(usage).collect(),
        }
    }
}
