//! The backend: messages become segments, segments packets, packets cross links.
//!
//! Model. Every message goes over the connection of its two NPUs, or over one on each lane of their
//! cards; its bytes follow those of earlier messages. A segment leaves when the window or the rate allows, stands in the queue of each port
//! on its way (store and forward), and is acknowledged. A message is delivered when the receiver has
//! all of it in order. A packet costs one event for each link. Where ports of a switch share a
//! buffer, pause, or somebody watches, it costs a second one, when it begins to leave.
//!
//! Here: packets on their way; the order of events of one instant (`instants.rs`), what NPUs do
//! (`hosts.rs`), steady states (`skip.rs`), and what the run was (`totals.rs`, `usage.rs`).

mod hosts;
mod instants;
mod skip;
mod totals;
mod usage;

pub use skip::Skipped;

use crate::capture::{Capture, Leaving};
use crate::connection::Connection;
use crate::packet::{ACK, NO_SACK, Packet};
use crate::paths::{END, Paths};
use crate::port::{Counters, Outcome, Port};
use crate::protocols::Protocols;
use crate::settings::Transport;
use crate::switches::Switches;
use crate::tcp::Sack;
use engine::{EventQueue, Histogram, Random};
use instants::Instants;
use network::{
    Backend, BlockedPort, Delivery, Footprint, LinkCost, LinkEnds, LinkUsage, NetworkSink,
    PacketUsage, Parts, Sending, Stuck, Transfer, Usage,
};
use rustc_hash::FxHashMap;
use skip::Skip;
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use topology::{LaneId, Lanes, LinkGraph};
use units::{Span, Time};

/// Bytes of a frame that pauses, with preamble and gap (IEEE 802.1Qbb).
const PAUSE_FRAME: u64 = 84;
/// Events between two looks at whether the run goes on.
const EVENTS_AT_ONCE: u32 = 1 << 12;

#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// The first packet on the link of a port arrives.
    Arrive { port: u32 },
    /// A packet that waited begins to leave.
    Begin { port: u32 },
    /// A port stops or goes on.
    Pause { port: u32, on: bool },
}

#[derive(Clone, Copy)]
pub(crate) enum Timer {
    /// The retransmission timer of a connection.
    Retransmit { connection: u32 },
    /// A delayed acknowledgement of a connection.
    Acknowledge { connection: u32 },
    /// The rate of a connection lets its next packet leave.
    Send { connection: u32 },
    /// The next message enters the network.
    Inject,
    /// A window of steady-state skipping ends.
    Window,
}

/// The packet backend.
pub struct Packets {
    pub(crate) paths: Paths,
    pub(crate) protocols: Protocols,
    pub(crate) ports: Vec<Port>,
    switches: Switches,
    random: Random,
    /// Connections by source, destination and lane. `None`: each message has its own.
    pub(crate) known: Option<FxHashMap<(u32, u32, LaneId), u32>>,
    /// Lanes of the message that starts, and messages under way on several lanes.
    pub(crate) lanes: Lanes,
    pub(crate) parts: Parts,
    pub(crate) connections: Vec<Connection>,
    pub(crate) sacks: Vec<Sack>,
    pub(crate) free_sacks: Vec<u32>,
    queue: Instants,
    timers: EventQueue<Timer>,
    order: u64,
    /// Messages that wait for the latency of injection.
    pub(crate) injected: VecDeque<(Time, Transfer)>,
    /// Packets in lines, and messages that have not arrived.
    standing: u64,
    pub(crate) under_way: u64,
    /// Somebody has to know when packets begin to leave.
    watched: bool,
    /// Steady-state skipping, and how far the clock of the packets is behind that of the caller.
    pub(crate) skip: Option<Box<Skip>>,
    pub(crate) skipped_time: Span,
    /// Time and bytes that each link has sent in a skip, if a sink listens.
    pub(crate) skipped_links: BTreeMap<u32, (Span, u64)>,
    pub(crate) sink: Option<Box<dyn NetworkSink>>,
    capture: Option<Capture>,
    /// Bytes of each dimension, on links that leave an NPU, by weight.
    bytes: Vec<u128>,
    transfers: u128,
    by_link: bool,
    pub(crate) totals: PacketUsage,
    /// Packets that came to their end.
    pub(crate) arrived: u64,
    pub(crate) round_trips: Histogram<6>,
}

impl Packets {
    /// A network over `graph`; `costs` by dimension, or by link when `by_link`.
    pub fn new(
        graph: LinkGraph,
        costs: Vec<LinkCost>,
        by_link: bool,
        settings: impl Into<Protocols>,
    ) -> Packets {
        let protocols: Protocols = settings.into();
        let whole = *protocols.whole();
        let port = |link: u32| {
            let place = if by_link { link } else { graph.link(link).dim };
            let in_switch = graph.link(link).from >= graph.npus();
            protocols.port(link, costs[place as usize], in_switch)
        };
        let ends = (0..graph.len()).map(|link| (graph.link(link).from, graph.link(link).to));
        let switches = Switches::new(&protocols, ends, graph.npus());
        Packets {
            ports: (0..graph.len()).map(port).collect(),
            bytes: vec![0; if by_link { 1 } else { costs.len() }],
            paths: Paths::new(graph, whole.spraying),
            watched: switches.counts(),
            switches,
            random: Random::new(whole.seed.into()),
            protocols,
            known: Some(FxHashMap::default()),
            lanes: Lanes::default(),
            parts: Parts::default(),
            connections: Vec::new(),
            sacks: Vec::new(),
            free_sacks: Vec::new(),
            queue: Instants::default(),
            timers: EventQueue::default(),
            order: 0,
            injected: VecDeque::new(),
            skip: None,
            skipped_time: Span::ZERO,
            skipped_links: BTreeMap::new(),
            standing: 0,
            under_way: 0,
            sink: None,
            capture: None,
            transfers: 0,
            by_link,
            totals: PacketUsage::default(),
            arrived: 0,
            round_trips: Histogram::default(),
        }
    }

    /// Puts a packet into the queue of the next port on its way from `node`.
    #[inline]
    pub(crate) fn forward(&mut self, now: Time, node: u32, mut packet: Packet) {
        let port = if self.paths.vary() {
            self.choose(node, &packet)
        } else {
            self.paths.link(packet.route)
        };
        packet.route += 1;
        if self.watched {
            return self.forward_watched(now, port, packet);
        }
        let at = &mut self.ports[port as usize];
        at.begin(now, |_, _| {});
        match at.accept(now, packet, at.room, &mut self.random) {
            Outcome::First(arrival) => self.push(arrival, Event::Arrive { port }),
            Outcome::Behind => {}
            Outcome::Instead(other) => self.forget(other.sack),
            Outcome::Dropped => self.forget(packet.sack),
        }
    }

    /// The link that a packet takes where each packet takes a way of its own.
    #[cold]
    fn choose(&mut self, node: u32, packet: &Packet) -> u32 {
        let Connection { src, dst, .. } = self.connections[packet.connection as usize];
        let to = if packet.is(ACK) { src } else { dst };
        self.paths.next(node, to, |link| self.ports[link as usize].queued())
    }

    /// The same where switches share buffers or pause, or where somebody watches.
    fn forward_watched(&mut self, now: Time, port: u32, packet: Packet) {
        self.begin(now, port);
        let at = &mut self.ports[port as usize];
        let queued = at.queued();
        let room = at.room.min(self.switches.room(port, queued));
        let outcome = at.accept(now, packet, room, &mut self.random);
        let waits = at.queued() > queued || matches!(outcome, Outcome::Instead(_));
        match outcome {
            Outcome::Dropped => return self.forget(packet.sack),
            Outcome::Instead(other) => self.withdraw(now, port, &other),
            Outcome::First(arrival) => self.push(arrival, Event::Arrive { port }),
            Outcome::Behind => {}
        }
        self.standing += 1;
        if waits {
            self.report_waits(now, port);
        }
        if !waits {
            self.report_sending(now, port, &packet);
        } else if self.switches.enters(port, &packet) {
            self.push_pause(now, packet.via, true);
        }
        self.watch(port);
    }

    /// A packet that waited at `port` was dropped.
    fn withdraw(&mut self, now: Time, port: u32, packet: &Packet) {
        self.standing -= 1;
        self.forget(packet.sack);
        if self.switches.leaves(port, packet) {
            self.push_pause(now, packet.via, false);
        }
    }

    /// Accounts for the packets of a port that have begun to leave.
    fn begin(&mut self, now: Time, port: u32) {
        let mut left: Vec<(Packet, Time)> = Vec::new();
        self.ports[port as usize].begin(now, |packet, start| left.push((packet, start)));
        if !left.is_empty() {
            self.report_waits(now, port);
        }
        for (packet, start) in left {
            self.report_sending(start, port, &packet);
            if self.switches.leaves(port, &packet) {
                self.push_pause(start, packet.via, false);
            }
        }
    }

    /// Waits for the next packet of a port to begin to leave.
    fn watch(&mut self, port: u32) {
        let at = &mut self.ports[port as usize];
        let next = at.next_begin().unwrap_or(Time::MAX);
        if next != at.begins {
            at.begins = next;
            if next != Time::MAX {
                // Events at that moment still find the packet.
                self.push(next + Span(1), Event::Begin { port });
            }
        }
    }

    /// Asks the sender of a link to stop or to go on.
    fn push_pause(&mut self, now: Time, link: u32, on: bool) {
        let delay = self.ports[link as usize].cost().transit(1, PAUSE_FRAME);
        self.push(now + delay, Event::Pause { port: link, on });
    }

    fn pause(&mut self, now: Time, port: u32, on: bool) {
        self.begin(now, port);
        if let Some(arrival) = self.ports[port as usize].pause(now, on) {
            self.push(arrival, Event::Arrive { port });
        }
        self.watch(port);
    }

    /// Writes every packet that an NPU sends from now on to `out`, in the pcap format.
    ///
    /// # Errors
    /// What `out` says.
    pub fn capture(&mut self, out: Box<dyn Write + Send>) -> Result<(), String> {
        self.capture = Some(Capture::new(out)?);
        self.watched = true;
        Ok(())
    }

    /// Why the capture is incomplete.
    pub fn capture_error(&self) -> Option<&str> {
        self.capture.as_ref()?.error.as_deref()
    }

    /// Reports how many packets wait at a port.
    fn report_waits(&mut self, now: Time, port: u32) {
        let Some(sink) = &mut self.sink else { return };
        let ends = self.paths.graph().link(port);
        let link =
            LinkEnds { link: port, dim: ends.dim, from: ends.from, to: ends.to, count: None };
        sink.waits(now + self.skipped_time, link, self.ports[port as usize].waiting());
    }

    #[cold]
    fn report_sending(&mut self, begin: Time, port: u32, packet: &Packet) {
        let begin = begin + self.skipped_time;
        let npu = self.paths.graph().link(port).from;
        if let Some(capture) = self.capture.as_mut().filter(|_| packet.via == END) {
            let of = &self.connections[packet.connection as usize];
            let sack = (packet.sack != NO_SACK).then(|| self.sacks[packet.sack as usize]);
            capture.write(&Leaving {
                time: begin,
                from: npu,
                to: if packet.is(ACK) { of.src } else { of.dst },
                packet,
                data: packet.wire - of.around,
                segment: of.segment.into(),
                sack,
                is_rdma: matches!(self.protocols.of(of.kind).transport, Transport::Rdma(_)),
            });
        }
        let Some(sink) = &mut self.sink else { return };
        let ends = self.paths.graph().link(port);
        let connection = &self.connections[packet.connection as usize];
        let messages = &connection.messages;
        let message = messages.partition_point(|message| message.end <= packet.seq);
        let token = messages.get(message).map_or(connection.latest, |message| message.token);
        let span = self.ports[port as usize].span(packet.wire);
        let link =
            LinkEnds { link: port, dim: ends.dim, from: ends.from, to: ends.to, count: None };
        let bytes = packet.wire.into();
        sink.sends(&Sending { link, token, begin, end: begin + span, bytes });
    }

    #[inline]
    fn push(&mut self, time: Time, event: Event) {
        self.order += 1;
        self.queue.push(time, self.order, event);
    }

    /// Sets a timer.
    #[inline]
    pub(crate) fn set(&mut self, time: Time, timer: Timer) {
        self.order += 1;
        self.timers.push(time, self.order, timer);
    }

    pub(crate) fn forget(&mut self, sack: u32) {
        if sack != NO_SACK {
            self.free_sacks.push(sack);
        }
    }

    /// The first packet on the link of `port` is at its end.
    #[inline]
    fn arrive(&mut self, now: Time, port: u32, finished: &mut Vec<Delivery>) {
        if self.watched {
            self.begin(now, port);
        } else {
            self.ports[port as usize].begin(now, |_, _| {});
        }
        let Some((mut packet, next)) = self.ports[port as usize].arrive(now) else { return };
        if let Some(next) = next {
            self.push(next, Event::Arrive { port });
        }
        if self.watched {
            self.standing -= 1;
            self.watch(port);
        }
        packet.via = port;
        let vary = self.paths.vary();
        if !vary && self.paths.link(packet.route) != END {
            return self.forward(now, 0, packet);
        }
        if vary {
            let node = self.paths.graph().link(port).to;
            let Connection { src, dst, .. } = self.connections[packet.connection as usize];
            if node != if packet.is(ACK) { src } else { dst } {
                return self.forward(now, node, packet);
            }
        }
        self.arrived += 1;
        if packet.is(ACK) {
            self.acknowledged(now, packet);
        } else {
            self.data(now, packet, finished);
        }
    }

    /// Packets stand before paused ports, and nothing moves that could let them go on.
    fn is_stuck(&self) -> bool {
        self.standing > 0
            && self.queue.is_empty()
            && self.injected.is_empty()
            && self.protocols.pauses()
    }

    /// Paused ports that each wait for the next.
    fn circle(&self) -> Vec<u32> {
        let stands = |link: u32| self.ports[link as usize].held().next().is_some();
        let links = self.ports.len() as u32;
        let Some(mut at) = (0..links).find(|&link| stands(link) && self.switches.is_paused(link))
        else {
            return Vec::new();
        };
        let mut path: Vec<u32> = Vec::new();
        loop {
            if let Some(first) = path.iter().position(|&seen| seen == at) {
                return path.split_off(first);
            }
            path.push(at);
            // Packets that came over this link block that one.
            let next = (0..links).find(|&link| {
                stands(link) && self.ports[link as usize].held().any(|via| via == at)
            });
            let Some(next) = next else { return Vec::new() };
            at = next;
        }
    }
}

impl Packets {
    /// A time of the caller by the clock of the packets.
    pub(crate) fn inside(&self, time: Time) -> Time {
        Time(time.0.saturating_sub(self.skipped_time.0))
    }

    /// The next event, by the clock of the packets. What follows the last delivery, such as its
    /// acknowledgement, waits for the next start.
    fn next(&self) -> Option<Time> {
        if self.under_way == 0 || self.is_stuck() {
            return None;
        }
        let packet = self.queue.peek().map(|(time, _)| time);
        let timer = self.timers.peek().map(|(time, _)| time);
        match (packet, timer) {
            (Some(packet), Some(timer)) => Some(packet.min(timer)),
            (packet, timer) => packet.or(timer),
        }
    }

    /// Handles events up to `until` by the clock of the packets, and stops after the first instant
    /// that delivers, when a skip begins, or when none of the `left` events is left. An instant
    /// that delivers is never cut.
    fn run(&mut self, until: Time, finished: &mut Vec<Delivery>, left: &mut u32) {
        let before = finished.len();
        while *left > 0 || finished.len() > before {
            *left = left.saturating_sub(1);
            let (packet, timer) = (self.queue.peek(), self.timers.peek());
            let is_timer = match (packet, timer) {
                (Some(packet), Some(timer)) => timer < packet,
                (None, None) => return,
                (packet, _) => packet.is_none(),
            };
            let next = if is_timer { timer } else { packet };
            let Some((time, _)) = next.filter(|&(time, _)| time <= until) else { return };
            if finished.get(before).is_some_and(|first| first.time < time) || self.is_stuck() {
                return;
            }
            if is_timer {
                if let Some((time, timer)) = self.timers.pop() {
                    self.expire(time, timer);
                }
                if self.skip.as_ref().is_some_and(|skip| skip.until().is_some()) {
                    return;
                }
                continue;
            }
            let drawn = self.switches.draws().then_some(|event| match event {
                Event::Arrive { port } => self.switches.is_entered_by(port),
                _ => false,
            });
            match self.queue.pop(drawn, &mut self.random) {
                Some((time, Event::Arrive { port })) => self.arrive(time, port, finished),
                Some((time, Event::Begin { port })) => {
                    self.begin(time, port);
                    self.watch(port);
                }
                Some((time, Event::Pause { port, on })) => self.pause(time, port, on),
                None => {}
            }
        }
    }
}

impl Backend for Packets {
    fn start(&mut self, now: Time, transfer: Transfer) {
        self.end_skip(now);
        if self.under_way == 0 {
            let before = self.inside(now).0.saturating_sub(1);
            self.run(Time(before), &mut Vec::new(), &mut u32::MAX.clone());
        }
        let Transfer { src, dst, bytes, weight, .. } = transfer;
        self.transfers += u128::from(weight);
        self.under_way += 1;
        let carried = u128::from(bytes) * u128::from(weight);
        let (mut from, mut kind) = (src, 0);
        for hop in self.paths.graph().route(src, dst) {
            if from < self.paths.graph().npus() {
                let place = if self.by_link { 0 } else { hop.dim as usize };
                self.bytes[place] += carried;
            }
            from = hop.to;
            kind = self.protocols.kind(hop.link).max(kind);
        }
        if let Some(sink) = &mut self.sink {
            sink.starts(now, &transfer);
        }
        let now = self.inside(now);
        let injection = self.protocols.of(kind).injection;
        if injection > Span::ZERO {
            let due = now + injection;
            let place = self.injected.partition_point(|&(before, _)| before <= due);
            self.injected.insert(place, (due, transfer));
            self.set(due, Timer::Inject);
        } else {
            let mut written = Vec::new();
            self.enter(now, transfer, &mut written);
            written.into_iter().for_each(|at| self.pump(now, at));
        }
    }

    fn next_event(&self) -> Option<Time> {
        let skip = self.skip.as_ref().and_then(|skip| skip.until());
        skip.or_else(|| self.next().map(|time| time + self.skipped_time))
    }

    fn advance(&mut self, until: Time, finished: &mut Vec<Delivery>) {
        let before = finished.len();
        let mut left = EVENTS_AT_ONCE;
        while finished.len() == before
            && left > 0
            && self.next_event().is_some_and(|next| next <= until)
        {
            if let Some(end) = self.skip.as_ref().and_then(|skip| skip.until()) {
                self.end_skip(end);
            }
            self.run(self.inside(until), finished, &mut left);
        }
        for delivery in &mut finished[before..] {
            delivery.time = delivery.time + self.skipped_time;
        }
        if let Some(sink) = &mut self.sink {
            finished[before..].iter().for_each(|delivery| sink.arrives(delivery));
        }
    }

    fn physical_minimum(&self, src: u32, dst: u32, bytes: u64) -> Span {
        self.least(src, dst, bytes)
    }

    fn usage(&self, until: Time) -> Usage {
        let until = self.inside(until);
        let used = self.counters().filter(|(_, counters)| counters.packets > 0);
        let usage = |(link, counters): (u32, Counters)| {
            let (bytes, busy) = self.ports[link as usize].left(until);
            let ends = self.paths.graph().link(link);
            LinkUsage {
                from: ends.from,
                to: ends.to,
                dim: ends.dim,
                count: None,
                bytes: counters.bytes - bytes,
                messages: counters.packets,
                busy: Span(counters.busy.0 - busy.0),
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
            packets: Some(Box::new(self.packet_usage())),
            flits: None,
        }
    }

    fn footprint(&self) -> Footprint {
        let link = size_of::<Port>() as u64;
        Footprint {
            transfer: size_of::<Connection>() as u64,
            links: self.ports.len() as u64,
            link,
            used_link: 0,
            packet: self.protocols.least_payload(),
        }
    }

    fn stalled(&self) -> Option<Stuck> {
        if !self.is_stuck() {
            return None;
        }
        let blocked = |link: u32| {
            let ends = self.paths.graph().link(link);
            BlockedPort { from: ends.from, to: ends.to, channel: None, waits_for: "paused".into() }
        };
        let cycle = self.circle().into_iter().map(blocked).collect();
        Some(Stuck { transfers: self.under_way, cycle })
    }

    fn observe(&mut self, sink: Box<dyn NetworkSink>) -> bool {
        self.sink = Some(sink);
        self.watched = true;
        true
    }
}
