//! Actions of NPUs: they write messages, send packets, answer them, and mind their timers.

use crate::backend::{Packets, Timer};
use crate::connection::{Connection, Message, Sides};
use crate::packet::{ACK, AGAIN, CE, CNP, CWR, ECE, NAK, NO_SACK, Packet};
use crate::paths::END;
use crate::rdma::Reply;
use crate::settings::Transport;
use crate::tcp::{Answer, Sack};
use network::{Delivery, Transfer};
use topology::LaneId;
use units::{Bandwidth, Span, Time};

/// Control packets, which may leave first.
const FIRST: u8 = 0;
/// Data of small messages, which may leave before other data.
const SMALL: u8 = 1;
/// Other data.
const DATA: u8 = 2;

impl Packets {
    /// Each message has a connection of its own, which starts as new ones do, and NPUs send a packet
    /// of each in turn, as network cards and Linux's fair queue do. Otherwise messages between two
    /// NPUs share a connection, and packets leave in the order in which they are ready.
    #[must_use]
    pub fn with_own_connections(mut self) -> Packets {
        self.known = None;
        let graph = self.paths.graph();
        for (link, port) in self.ports.iter_mut().enumerate() {
            if graph.link(link as u32).from < graph.npus() {
                port.take_turns();
            }
        }
        self
    }

    /// The connection from `src` to `dst` on a lane, made on first use.
    fn connection(&mut self, now: Time, (src, dst): (u32, u32), lane: LaneId) -> u32 {
        let known = self.known.as_ref().and_then(|known| known.get(&(src, dst, lane)));
        if let Some(&known) = known {
            return known;
        }
        let ways = (self.paths.route(src, dst, lane), self.paths.route(dst, src, lane));
        let at = self.connections.len() as u32;
        let graph = self.paths.graph();
        let links = graph.lane(src, dst, lane).map(|hop| hop.link);
        let (kind, segment) = self.protocols.on_way(links);
        let settings = self.protocols.of(kind);
        // The handshake crossed the empty network.
        let around = u64::from(settings.around());
        let cost = |hop: topology::Hop| self.ports[hop.link as usize].cost().transit(1, around);
        let (there, back) = (graph.lane(src, dst, lane), graph.lane(dst, src, lane));
        let round_trip = there.chain(back).map(cost).sum();
        let first = graph.lane(src, dst, lane).next();
        let line = first.map_or(Bandwidth(1), |hop| graph.link(hop.link).bandwidth);
        let (protocol, now) = ((kind, segment, settings), now + self.skipped_time);
        self.connections.push(Connection::new((src, dst), ways, (round_trip, line), protocol, now));
        if let Some(known) = &mut self.known {
            known.insert((src, dst, lane), at);
        }
        at
    }

    /// Messages whose latency of injection is over enter together: a segment may hold the end of one
    /// and the start of the next.
    fn inject(&mut self, now: Time) {
        let mut written = Vec::new();
        while let Some(&(due, transfer)) = self.injected.front()
            && due <= now
        {
            self.injected.pop_front();
            self.enter(now, transfer, &mut written);
        }
        written.into_iter().for_each(|at| self.pump(now, at));
    }

    /// A message enters the streams of its connections, one on each lane. Adds them to `written`:
    /// they may send then.
    pub(crate) fn enter(&mut self, now: Time, transfer: Transfer, written: &mut Vec<u32>) {
        if !self.paths.graph().spreads() {
            written.push(self.write(now, transfer, LaneId::default()));
            return;
        }
        let mut lanes = std::mem::take(&mut self.lanes);
        lanes.find(self.paths.graph(), (transfer.src, transfer.dst));
        self.parts.start(transfer.token, lanes.parts(transfer.bytes).count() as u32);
        for (lane, bytes) in lanes.parts(transfer.bytes) {
            written.push(self.write(now, Transfer { bytes, ..transfer }, lane));
        }
        self.lanes = lanes;
    }

    /// A message enters the stream of its connection. Returns the connection.
    fn write(&mut self, now: Time, transfer: Transfer, lane: LaneId) -> u32 {
        let Transfer { src, dst, bytes, token, .. } = transfer;
        let at = self.connection(now, (src, dst), lane);
        // A stream has no empty messages: one byte stands for the header of an empty one.
        let written = bytes.max(1);
        let connection = &mut self.connections[at as usize];
        let end = match (&mut connection.sides, &self.protocols.of(connection.kind).transport) {
            (Sides::Tcp(sides), Transport::Tcp(tcp)) => {
                sides.0.write(now, written, tcp);
                sides.0.written
            }
            (Sides::Rdma(sides), _) => {
                sides.0.write(written);
                sides.0.written
            }
            (Sides::Tcp(sides), Transport::Rdma(_)) => sides.0.written,
        };
        let small = self.protocols.whole().switch.small_first.is_some_and(|most| bytes <= most.0);
        let class = if small { SMALL } else { DATA };
        connection.latest = token;
        connection.messages.push_back(Message { end, token, class });
        self.changes(now);
        at
    }

    /// Sends what a connection may send now.
    #[inline]
    pub(crate) fn pump(&mut self, now: Time, at: u32) {
        let Connection { kind, around, .. } = self.connections[at as usize];
        loop {
            let connection = &mut self.connections[at as usize];
            let emit = match (&mut connection.sides, &self.protocols.of(kind).transport) {
                (Sides::Tcp(sides), Transport::Tcp(tcp)) => sides.0.take(now, tcp),
                (Sides::Rdma(sides), Transport::Rdma(rdma)) => {
                    sides.0.take(now, rdma, around.into())
                }
                _ => None,
            };
            let Some(emit) = emit else { break };
            let mut class = DATA;
            if self.protocols.whole().switch.small_first.is_some() {
                let message = connection.messages.partition_point(|m| m.end <= emit.seq);
                class = connection.messages.get(message).map_or(DATA, |m| m.class);
            }
            let packet = Packet {
                seq: emit.seq,
                connection: at,
                route: connection.there,
                via: END,
                sack: NO_SACK,
                wire: emit.len + around,
                flags: if emit.again { AGAIN } else { 0 } | if emit.reduced { CWR } else { 0 },
                class,
            };
            let src = connection.src;
            self.totals.sent.data += 1;
            self.forward(now, src, packet);
        }
        self.mind(now, at);
    }

    /// Sets the timers of a sender.
    #[inline]
    fn mind(&mut self, now: Time, at: u32) {
        let connection = &mut self.connections[at as usize];
        if let Some(deadline) = connection.deadline()
            && connection.timeout_at.is_none_or(|armed| deadline < armed)
        {
            connection.timeout_at = Some(deadline);
            self.set(deadline, Timer::Retransmit { connection: at });
        }
        let connection = &mut self.connections[at as usize];
        if let (Sides::Rdma(sides), Transport::Rdma(rdma)) =
            (&connection.sides, &self.protocols.of(connection.kind).transport)
        {
            let free = sides.0.free;
            if free > now && connection.send_at != Some(free) && sides.0.waits(rdma) {
                connection.send_at = Some(free);
                self.set(free, Timer::Send { connection: at });
            }
        }
    }

    /// Data has arrived.
    #[inline]
    pub(crate) fn data(&mut self, now: Time, packet: Packet, finished: &mut Vec<Delivery>) {
        let connection = &mut self.connections[packet.connection as usize];
        let len = u64::from(packet.wire - connection.around);
        let data = (packet.seq, len);
        connection.last = now + self.skipped_time;
        match (&mut connection.sides, &self.protocols.of(connection.kind).transport) {
            (Sides::Tcp(sides), Transport::Tcp(tcp)) => {
                let receiver = &mut sides.1;
                let before = receiver.next;
                let answer = receiver.data(data, tcp);
                connection.carried += receiver.next - before;
                let changed = receiver.hears(packet.is(CE), packet.is(CWR), tcp);
                let next = receiver.next;
                let (is_due, due) = (receiver.due.is_some(), now + tcp.ack_delay);
                self.deliver(now, packet.connection, next, finished);
                if answer == Answer::Now || changed {
                    self.acknowledge(now, packet.connection);
                } else if !is_due {
                    self.delay(packet.connection, due);
                }
            }
            (Sides::Rdma(sides), Transport::Rdma(rdma)) => {
                let receiver = &mut sides.1;
                let end = packet.seq + len;
                let at = connection.messages.partition_point(|m| m.end < end);
                let ends = connection.messages.get(at).is_some_and(|m| m.end == end);
                let before = receiver.next;
                let reply = receiver.data(data, (ends, connection.segment.into()), rdma);
                connection.carried += receiver.next - before;
                let reports = packet.is(CE)
                    && rdma.dcqcn.is_some_and(|d| receiver.reports(now, d.report_interval));
                let next = receiver.next;
                self.deliver(now, packet.connection, next, finished);
                if reports {
                    self.reply(now, packet.connection, ACK | CNP);
                }
                match reply {
                    Reply::None => {}
                    Reply::Ack => self.reply(now, packet.connection, ACK),
                    Reply::Nak => self.reply(now, packet.connection, ACK | NAK),
                }
            }
            _ => {}
        }
    }

    /// Messages that end before byte `next` have arrived.
    #[inline]
    fn deliver(&mut self, now: Time, at: u32, next: u64, finished: &mut Vec<Delivery>) {
        let messages = &mut self.connections[at as usize].messages;
        let before = messages.len();
        while let Some(&Message { end, token, .. }) = messages.front()
            && end <= next
        {
            messages.pop_front();
            if self.parts.arrive(token) {
                self.under_way -= 1;
                finished.push(Delivery { token, time: now });
            }
        }
        if messages.len() < before {
            self.changes(now);
        }
    }

    /// The acknowledgement waits for more data until `due`.
    fn delay(&mut self, at: u32, due: Time) {
        let connection = &mut self.connections[at as usize];
        if let Sides::Tcp(sides) = &mut connection.sides {
            sides.1.due = Some(due);
        }
        if connection.ack_at.is_none() {
            connection.ack_at = Some(due);
            self.set(due, Timer::Acknowledge { connection: at });
        }
    }

    /// Sends an acknowledgement of TCP.
    #[inline]
    fn acknowledge(&mut self, now: Time, at: u32) {
        let connection = &mut self.connections[at as usize];
        let (Sides::Tcp(sides), Transport::Tcp(tcp)) =
            (&mut connection.sides, &self.protocols.of(connection.kind).transport)
        else {
            return;
        };
        let receiver = &mut sides.1;
        receiver.acknowledge();
        let flags = ACK | if receiver.marked { ECE } else { 0 };
        let seq = receiver.next;
        let sack = (tcp.sack && receiver.has_gap()).then(|| receiver.sack());
        self.answer(now, at, (seq, flags), sack);
    }

    /// Sends an acknowledgement or report of RDMA.
    fn reply(&mut self, now: Time, at: u32, flags: u8) {
        let Sides::Rdma(sides) = &mut self.connections[at as usize].sides else { return };
        let receiver = &mut sides.1;
        let seq = receiver.next;
        let mut sack = None;
        if flags & CNP == 0 {
            receiver.replied();
            sack = receiver.has_gap().then(|| receiver.sack());
        }
        self.answer(now, at, (seq, flags), sack);
    }

    #[inline]
    fn answer(&mut self, now: Time, at: u32, (seq, flags): (u64, u8), ranges: Option<Sack>) {
        let sack = ranges.map_or(NO_SACK, |ranges| {
            let place = self.free_sacks.pop().unwrap_or_else(|| {
                self.sacks.push(Sack::default());
                self.sacks.len() as u32 - 1
            });
            self.sacks[place as usize] = ranges;
            place
        });
        let class = if self.protocols.whole().switch.control_first { FIRST } else { DATA };
        let Connection { dst, back, around: wire, .. } = self.connections[at as usize];
        self.totals.sent.acknowledgements += 1;
        let packet =
            Packet { seq, connection: at, route: back, via: END, sack, wire, flags, class };
        self.forward(now, dst, packet);
    }

    /// An acknowledgement has arrived.
    #[inline]
    pub(crate) fn acknowledged(&mut self, now: Time, packet: Packet) {
        let sack = (packet.sack != NO_SACK).then(|| self.sacks[packet.sack as usize]);
        self.forget(packet.sack);
        let connection = &mut self.connections[packet.connection as usize];
        let round_trip =
            match (&mut connection.sides, &self.protocols.of(connection.kind).transport) {
                (Sides::Tcp(sides), Transport::Tcp(tcp)) => {
                    let news = (packet.seq, sack.as_ref(), packet.is(ECE));
                    sides.0.acknowledged(now, news, tcp)
                }
                (Sides::Rdma(sides), Transport::Rdma(rdma)) if packet.is(CNP) => {
                    sides.0.report(now, rdma);
                    None
                }
                (Sides::Rdma(sides), Transport::Rdma(rdma)) => {
                    let news = (packet.seq, sack.as_ref(), packet.is(NAK));
                    sides.0.acknowledged(now, news, rdma)
                }
                _ => None,
            };
        if let Some(round_trip) = round_trip {
            connection.round_trips.measured(now, round_trip);
            self.round_trips.add(round_trip.0);
        }
        self.pump(now, packet.connection);
    }

    /// A timer expires, unless it was put off.
    pub(crate) fn expire(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Window => self.end_window(now),
            Timer::Inject => self.inject(now),
            Timer::Send { connection: at } => {
                let connection = &mut self.connections[at as usize];
                if connection.send_at == Some(now) {
                    connection.send_at = None;
                    self.pump(now, at);
                }
            }
            Timer::Retransmit { connection: at } => self.timed_out(now, at),
            Timer::Acknowledge { connection: at } => {
                let connection = &mut self.connections[at as usize];
                connection.ack_at = None;
                let Sides::Tcp(sides) = &connection.sides else { return };
                match sides.1.due {
                    Some(due) if due <= now => self.acknowledge(now, at),
                    Some(due) => self.delay(at, due),
                    None => {}
                }
            }
        }
    }

    fn timed_out(&mut self, now: Time, at: u32) {
        let connection = &mut self.connections[at as usize];
        if connection.timeout_at != Some(now) {
            return;
        }
        connection.timeout_at = None;
        if connection.deadline().is_some_and(|deadline| deadline <= now) {
            match (&mut connection.sides, &self.protocols.of(connection.kind).transport) {
                (Sides::Tcp(sides), Transport::Tcp(tcp)) => sides.0.timed_out(now, tcp),
                (Sides::Rdma(sides), Transport::Rdma(rdma)) => sides.0.timed_out(now, rdma),
                _ => {}
            }
            self.pump(now, at);
        } else {
            self.mind(now, at);
        }
    }

    /// A lower bound of the time of a transfer: its data alone on the links of the way.
    pub(crate) fn least(&self, src: u32, dst: u32, bytes: u64) -> Span {
        let graph = self.paths.graph();
        let cost = |hop: topology::Hop| self.ports[hop.link as usize].cost();
        let (lane, bytes) = graph.first_part((src, dst), bytes);
        let latency = graph.least(src, dst, |hop| cost(hop).transit(1, 0));
        // Sprayed packets use several links at once.
        let mut slowest = Span::ZERO;
        if !self.paths.vary() {
            slowest = graph
                .lane(src, dst, lane)
                .map(|hop| cost(hop).occupancy(bytes))
                .max()
                .unwrap_or_default();
        }
        let kind = self.protocols.outermost(|| graph.lane(src, dst, lane).map(|hop| hop.link));
        latency + slowest + self.protocols.of(kind).injection
    }
}
