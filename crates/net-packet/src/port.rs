//! A port: the queue before a link, and the link.
//!
//! The queue is first in, first out within a class, so the moment at which a packet leaves is known
//! when it comes: when the one before it has left. A packet costs one event, its arrival at the far
//! end; packets that wait and packets on the link stand in one line, in the order in which they
//! arrive there. A packet of a lower class goes before others that wait, and a pause stops those
//! that have not begun to leave: their times are then computed again. The queue holds what has not
//! begun to leave: a buffer limits that (tail drop), and marks look at it. At a port that sends a
//! packet of each connection in turn, the line has the next packet alone, and the others wait apart
//! ([`Turns`]).

use crate::packet::{ACK, CE, Packet};
use crate::turns::Turns;
use engine::Histogram;
use engine::Random;
use net_settings::packet::{Marking, Ties};
use network::LinkCost;
use std::collections::VecDeque;
use units::{Ratio, Span, Time};

/// A packet that is paused begins then.
const NEVER: Time = Time::MAX;

/// A packet that waits or is on the link.
#[derive(Clone, Copy, Debug)]
struct Entry {
    packet: Packet,
    /// When it begins to leave.
    start: Time,
    came: Time,
}

/// Fate of a packet that came to a port.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// The buffer was full.
    Dropped,
    /// It stands in the line behind others.
    Behind,
    /// So does it, and the buffer, which was full, dropped this one instead.
    Instead(Packet),
    /// It is the first of the line and arrives at the far end then.
    First(Time),
}

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets sent or waiting.
    pub packets: u64,
    /// Their bytes, headers and framing included.
    pub bytes: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
    /// Most bytes in the queue.
    pub longest: u64,
    /// Most packets in the queue.
    pub most: u32,
    /// Sum of the waits in the queue.
    pub waited: Span,
    /// Time sending.
    pub busy: Span,
    /// How often something was drawn: what comes first, is dropped, or is marked.
    pub drawn: u64,
    /// How often it was paused, and for how long.
    pub pauses: u64,
    /// See `pauses`.
    pub paused: Span,
}

/// When a port marks packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    from: u64,
    to: u64,
    most: Ratio,
}

impl Marks {
    pub(crate) fn new(marking: Option<Marking>) -> Marks {
        marking.map_or(Marks { from: u64::MAX, to: u64::MAX, most: Ratio::ONE }, |marking| Marks {
            from: marking.from.0,
            to: marking.to.0,
            most: marking.probability,
        })
    }

    /// Whether a packet is marked that finds `queued` bytes. Counts in `drawn` if that is chance.
    #[inline]
    fn apply(&self, queued: u64, random: &mut Random, drawn: &mut u64) -> bool {
        if queued < self.from || queued >= self.to {
            return queued >= self.from;
        }
        *drawn += 1;
        self.draw(queued, random)
    }

    fn draw(&self, queued: u64, random: &mut Random) -> bool {
        let span = u128::from(self.to - self.from) * u128::from(Ratio::ONE.0);
        let reached = u128::from(queued - self.from) * u128::from(self.most.0);
        u128::from(random.below(1 << 32)) * span < reached << 32
    }
}

/// A port.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    cost: LinkCost,
    /// See [`crate::Settings::tick`].
    tick: Span,
    /// Sizes met last and how long the link takes for them.
    known: [(u16, Span); 2],
    latency: Span,
    /// When the link is free of all that stands in line.
    free: Time,
    line: VecDeque<Entry>,
    /// How many of the line have begun to leave.
    begun: usize,
    /// Bytes of the others.
    queued: u64,
    marks: Marks,
    ties: Ties,
    /// Bytes that may wait.
    pub room: u64,
    /// Start of the present slot: packets that came from then on came while the present packet
    /// leaves; and the number of these that were dropped.
    slot: Time,
    refused: u64,
    /// When the first of the line arrives; the event of that time counts.
    due: Time,
    /// When the next packet begins, where somebody waits for that.
    pub begins: Time,
    /// Until when waits were counted.
    since: Time,
    /// Since when packets of a class above 0 stand still.
    paused: Option<Time>,
    /// Packets behind the next one, where connections take turns.
    turns: Option<Box<Turns>>,
    pub counters: Counters,
    /// Bytes that packets found waiting, at a port of a switch.
    pub found: Option<Box<Histogram<4>>>,
}

impl Port {
    /// `in_switch`: bytes that may wait, at a port of a switch.
    pub(crate) fn new(
        cost: LinkCost,
        tick: Span,
        (marks, ties): (Marks, Ties),
        in_switch: Option<u64>,
    ) -> Port {
        Port {
            tick,
            known: [(0, Span::ZERO); 2],
            latency: cost.transit(1, 0),
            cost,
            free: Time::ZERO,
            line: VecDeque::new(),
            begun: 0,
            queued: 0,
            marks,
            ties,
            slot: Time::ZERO,
            refused: 0,
            due: NEVER,
            begins: NEVER,
            since: Time::ZERO,
            paused: None,
            turns: None,
            counters: Counters::default(),
            found: in_switch.map(|_| Box::default()),
            room: in_switch.unwrap_or(u64::MAX),
        }
    }

    /// The port sends a packet of each connection in turn. Its room has no limit.
    pub(crate) fn take_turns(&mut self) {
        self.turns = Some(Box::default());
    }

    /// How long the link takes to send this number of bytes.
    #[inline]
    pub(crate) fn span(&mut self, wire: u16) -> Span {
        if self.known[0].0 == wire {
            return self.known[0].1;
        }
        if self.known[1].0 != wire {
            self.known[1] = (wire, self.takes(wire));
        }
        self.known.swap(0, 1);
        self.known[0].1
    }

    fn takes(&self, wire: u16) -> Span {
        let mut span = self.cost.occupancy(wire.into());
        if self.tick > Span::ZERO {
            span = Span((span.0 + self.tick.0 / 2) / self.tick.0 * self.tick.0);
        }
        span.max(Span(1))
    }

    /// Hands over the packets that have begun to leave, and when they did. A packet that comes at
    /// the very moment at which another begins still finds that one in the queue, as in ns-3, where
    /// the end of a transmission is an event after the arrivals of that moment.
    #[inline]
    pub(crate) fn begin(&mut self, now: Time, mut leaves: impl FnMut(Packet, Time)) {
        while let Some(&entry) = self.line.get(self.begun)
            && entry.start < now
        {
            self.wait_until(entry.start);
            self.queued -= u64::from(entry.packet.wire);
            self.begun += 1;
            (self.slot, self.refused) = (entry.start + Span(1), 0);
            leaves(entry.packet, entry.start);
            self.take_turn();
        }
    }

    /// The next packet in turn joins the end of the line.
    #[inline]
    fn take_turn(&mut self) {
        let next = self.turns.as_mut().and_then(|turns| turns.pop());
        if let Some(packet) = next {
            let start = if self.stops(&packet) { NEVER } else { self.free };
            self.free = if start == NEVER { NEVER } else { start + self.span(packet.wire) };
            self.line.push_back(Entry { packet, start, came: start });
        }
    }

    /// Counts how long packets have waited.
    #[inline]
    fn wait_until(&mut self, time: Time) {
        let waiting = u64::from(self.waiting());
        self.counters.waited += Span(time.since(self.since).0.saturating_mul(waiting));
        self.since = time;
    }

    /// Bytes that wait, as of the last [`Port::begin`].
    #[inline]
    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }

    /// When the packet has left that is leaving; the beginning of time if none has begun.
    pub(crate) fn sending_until(&mut self) -> Time {
        let last = self.begun.checked_sub(1).and_then(|at| self.line.get(at)).copied();
        last.map_or(Time::ZERO, |entry| entry.start + self.span(entry.packet.wire))
    }

    /// Packets that wait.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        (self.line.len() - self.begun + self.apart()) as u32
    }

    /// Packets that wait apart from the line.
    #[inline]
    fn apart(&self) -> usize {
        self.turns.as_ref().map_or(0, |turns| turns.len())
    }

    /// Counters of the port, where a run ends at `end`.
    pub(crate) fn counters_at(&self, end: Time) -> Counters {
        let open = self.paused.filter(|&since| since < end);
        let open = open.map_or(Span::ZERO, |since| end.since(since));
        Counters { paused: self.counters.paused + open, ..self.counters }
    }

    /// The bytes of the line that have not left then, and how long the link takes for them.
    pub(crate) fn left(&self, until: Time) -> (u64, Span) {
        let mut sum = (0, Span::ZERO);
        for packet in self.turns.iter().flat_map(|turns| turns.packets()) {
            sum = (sum.0 + u64::from(packet.wire), sum.1 + self.takes(packet.wire));
        }
        for Entry { packet, start, .. } in self.line.iter().rev() {
            let span = self.takes(packet.wire);
            let end = Time(start.0.saturating_add(span.0));
            if end <= until {
                break;
            }
            let left = span.min(end.since(until.min(end)));
            sum = (sum.0 + left.part(packet.wire.into(), span), sum.1 + left);
        }
        sum
    }

    /// Packets that wait or are on the link.
    pub(crate) fn standing(&self) -> u64 {
        (self.line.len() + self.apart()) as u64
    }

    /// When the next waiting packet begins to leave; `None` where none waits or all stand still.
    pub(crate) fn next_begin(&self) -> Option<Time> {
        self.line.get(self.begun).map(|entry| entry.start).filter(|&start| start != NEVER)
    }

    /// A packet comes; [`Port::begin`] was called. It waits only if no more than `room` bytes do
    /// then.
    #[inline]
    pub(crate) fn accept(
        &mut self,
        now: Time,
        mut packet: Packet,
        room: u64,
        random: &mut Random,
    ) -> Outcome {
        let wire = u64::from(packet.wire);
        // Another packet came at this instant: which one is the first was drawn.
        self.counters.drawn += u64::from(self.since == now && self.ties == Ties::Drawn);
        self.wait_until(now);
        let waits = self.free > now || self.begun < self.line.len() || self.stops(&packet);
        if let Some(found) = &mut self.found {
            found.add(self.queued);
        }
        let mut outcome = None;
        if waits {
            if self.queued + wire > room {
                self.counters.drops += 1;
                let Some(other) = self.give_way(&packet, room, random) else {
                    return Outcome::Dropped;
                };
                outcome = Some(Outcome::Instead(other));
            }
            if !packet.is(ACK) && self.marks.apply(self.queued, random, &mut self.counters.drawn) {
                packet.flags |= CE;
                self.counters.marks += 1;
            }
            self.queued += wire;
            self.counters.longest = self.counters.longest.max(self.queued);
            self.counters.most = self.counters.most.max(self.waiting() + 1);
        } else {
            self.begun += 1;
            (self.slot, self.refused) = (now, 0);
        }
        let span = self.span(packet.wire);
        self.counters.packets += 1;
        self.counters.bytes += wire;
        self.counters.busy += span;
        // A packet that no pause stops goes before one that is paused.
        let behind = self.begun < self.line.len() && (self.free != NEVER || self.stops(&packet));
        if let Some(turns) = self.turns.as_mut().filter(|_| behind) {
            turns.push(packet);
            return Outcome::Behind;
        }
        if waits && (self.free == NEVER || self.stops(&packet) || self.overtakes(&packet)) {
            return self.insert(now, packet);
        }
        let start = self.free.max(now);
        self.free = start + span;
        self.line.push_back(Entry { packet, start, came: now });
        outcome.unwrap_or_else(|| self.first(self.line.len() == 1))
    }

    /// `packet` finds no room. Returns one that gives it its place: of all that came while the present
    /// packet leaves, each is dropped with the same probability.
    #[cold]
    fn give_way(&mut self, packet: &Packet, room: u64, random: &mut Random) -> Option<Packet> {
        let stands = self.begun == 0 || self.free == NEVER || self.stops(packet);
        if self.ties == Ties::InOrder || stands || self.overtakes(packet) {
            return None;
        }
        self.refused += 1;
        let waiting = self.line.range(self.begun..).rev();
        let rivals = waiting.take_while(|entry| entry.came >= self.slot).count() as u64;
        self.counters.drawn += u64::from(rivals + self.refused > 1);
        let drawn = random.below(rivals + self.refused);
        let at = self.line.len() - 1 - usize::try_from(drawn).ok().filter(|_| drawn < rivals)?;
        let less = u64::from(self.line[at].packet.wire);
        let fits = self.queued - less + u64::from(packet.wire) <= room;
        fits.then(|| self.withdraw(at))
    }

    /// A packet that waits leaves the line. Those behind it leave earlier.
    fn withdraw(&mut self, at: usize) -> Packet {
        let Entry { packet, start, .. } = self.line[at];
        self.line.remove(at);
        self.free = start;
        for behind in at..self.line.len() {
            self.line[behind].start = self.free;
            self.free = self.free + self.span(self.line[behind].packet.wire);
        }
        self.queued -= u64::from(packet.wire);
        self.counters.packets -= 1;
        self.counters.bytes -= u64::from(packet.wire);
        self.counters.busy = Span(self.counters.busy.0 - self.span(packet.wire).0);
        packet
    }

    #[inline]
    fn first(&mut self, is_first: bool) -> Outcome {
        if !is_first {
            return Outcome::Behind;
        }
        self.due = self.free + self.latency;
        Outcome::First(self.due)
    }

    /// Whether a pause holds the packet up.
    #[inline]
    fn stops(&self, packet: &Packet) -> bool {
        self.paused.is_some() && packet.class > 0
    }

    /// Whether the packet goes before the last of the line.
    #[inline]
    fn overtakes(&self, packet: &Packet) -> bool {
        self.begun < self.line.len()
            && self.line.back().is_some_and(|last| last.packet.class > packet.class)
    }

    /// Puts a packet before those of higher classes that wait.
    #[cold]
    fn insert(&mut self, now: Time, packet: Packet) -> Outcome {
        let waiting = self.line.range(self.begun..);
        let before = waiting.take_while(|entry| entry.packet.class <= packet.class).count();
        self.line.insert(self.begun + before, Entry { packet, start: NEVER, came: now });
        self.plan(now).map_or(Outcome::Behind, Outcome::First)
    }

    /// Computes anew when the waiting packets leave. Returns when the first of the line arrives, if
    /// that has changed.
    fn plan(&mut self, now: Time) -> Option<Time> {
        let begun = self.begun.checked_sub(1).and_then(|last| self.line.get(last)).copied();
        // Packets that have begun and arrived have left the link.
        let mut free = begun.map_or(Time::ZERO, |entry| entry.start + self.span(entry.packet.wire));
        for at in self.begun..self.line.len() {
            let packet = self.line[at].packet;
            let start = if free == NEVER || self.stops(&packet) { NEVER } else { free.max(now) };
            self.line[at].start = start;
            free = if start == NEVER { NEVER } else { start + self.span(packet.wire) };
        }
        self.free = free;
        if self.begun > 0 {
            return None;
        }
        let first = self.line.front().copied();
        let due = first.filter(|entry| entry.start != NEVER).map(|entry| {
            let span = self.span(entry.packet.wire);
            entry.start + span + self.latency
        });
        let changed = due.filter(|&due| due != self.due);
        self.due = due.unwrap_or(NEVER);
        changed
    }

    /// Stops or resumes packets of classes above 0. Returns when the first of the line arrives, if
    /// that has changed.
    pub(crate) fn pause(&mut self, now: Time, on: bool) -> Option<Time> {
        match (self.paused, on) {
            (None, true) => {
                self.paused = Some(now);
                self.counters.pauses += 1;
            }
            (Some(since), false) => {
                self.paused = None;
                self.counters.paused += now.since(since);
            }
            _ => return None,
        }
        self.plan(now)
    }

    /// The first packet of the line arrives at the far end, if it is due; [`Port::begin`] was
    /// called. Returns it and when the next one arrives.
    #[inline]
    pub(crate) fn arrive(&mut self, now: Time) -> Option<(Packet, Option<Time>)> {
        if self.due != now {
            return None;
        }
        let Entry { packet, .. } = self.line.pop_front()?;
        self.begun -= 1;
        let next = self.line.front().map(|entry| (entry.packet.wire, entry.start));
        let next = next.filter(|&(_, start)| start != NEVER);
        let next = next.map(|(wire, start)| start + self.span(wire) + self.latency);
        self.due = next.unwrap_or(NEVER);
        Some((packet, next))
    }

    /// The link's bandwidth and latency.
    pub(crate) fn cost(&self) -> LinkCost {
        self.cost
    }

    /// Links by which packets came that stand still here.
    pub(crate) fn held(&self) -> impl Iterator<Item = u32> + '_ {
        self.line.range(self.begun..).filter(|entry| entry.start == NEVER).map(|e| e.packet.via)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::NO_SACK;
    use units::Bandwidth;

    /// A packet of the link `via` that takes 1 us.
    fn packet(via: u32) -> Packet {
        let (seq, connection, route, flags, class) = (0, via, 0, 0, 0);
        Packet { seq, connection, route, via, sack: NO_SACK, wire: 1000, flags, class }
    }

    /// Losses of each of `inputs` at a port of their own speed with room for 20 packets. Each sends
    /// a packet every microsecond, `apart` picoseconds after the one before it.
    fn losses(inputs: u32, apart: u64, ties: Ties) -> Vec<u64> {
        let bandwidth = Bandwidth(1_000_000_000);
        let cost = LinkCost::Exact { bandwidth, latency: Span(1_000_000) };
        let mut port = Port::new(cost, Span::ZERO, (Marks::new(None), ties), Some(20_000));
        let mut random = Random::new(0);
        let mut lost = vec![0; inputs as usize];
        for round in 0..10_000u64 {
            for via in 0..inputs {
                let now = Time(round * 1_000_000 + u64::from(via) * apart);
                while port.due <= now {
                    port.begin(port.due, |_, _| {});
                    port.arrive(port.due);
                }
                port.begin(now, |_, _| {});
                match port.accept(now, packet(via), 20_000, &mut random) {
                    Outcome::Dropped => lost[via as usize] += 1,
                    Outcome::Instead(other) => lost[other.via as usize] += 1,
                    _ => {}
                }
            }
        }
        let waiting = u64::from(port.waiting());
        assert!(port.queued() == waiting * 1000 && waiting <= 20, "{waiting}");
        assert_eq!(port.counters.drops, lost.iter().sum::<u64>());
        assert_eq!(port.counters.packets + port.counters.drops, 10_000 * u64::from(inputs));
        lost
    }

    /// N equal inputs at a port of the speed of one: each loses all but one of N packets, whether
    /// the packets come at one moment or always one after the other (Floyd and Jacobson 1992).
    #[test]
    fn equal_inputs_lose_equally() {
        for inputs in [2, 3, 8] {
            for apart in [0, 1, 90_000] {
                let lost = losses(inputs, apart, Ties::Drawn);
                let expected = 10_000.0 * f64::from(inputs - 1) / f64::from(inputs);
                let is_even = |lost: &u64| (*lost as f64 / expected - 1.0).abs() < 0.03;
                assert!(lost.iter().all(is_even), "{inputs} inputs, {apart} ps apart: {lost:?}");
            }
        }
    }

    /// A connection with few packets does not wait for all of another one: they take turns. The next
    /// packet is known when one begins.
    #[test]
    fn connections_take_turns() {
        let cost = LinkCost::Exact { bandwidth: Bandwidth(1_000_000_000), latency: Span::ZERO };
        let mut port = Port::new(cost, Span::ZERO, (Marks::new(None), Ties::InOrder), None);
        port.take_turns();
        let mut random = Random::new(0);
        for (at, via) in [0, 0, 0, 0, 0, 1, 1, 2].into_iter().enumerate() {
            port.begin(Time(at as u64), |_, _| {});
            port.accept(Time(at as u64), packet(via), u64::MAX, &mut random);
        }
        assert_eq!((port.waiting(), port.queued(), port.standing()), (7, 7_000, 8));
        assert_eq!(port.left(Time::ZERO), (8_000, Span(8_000_000)));
        let mut left = Vec::new();
        while let Some(due) = Some(port.due).filter(|&due| due != NEVER) {
            port.begin(due, |_, _| {});
            left.extend(port.arrive(due).map(|(packet, _)| (packet.via, due.0 / 1_000_000)));
        }
        let expected = [0, 0, 0, 1, 2, 0, 1, 0].into_iter().zip(1..).collect::<Vec<_>>();
        assert_eq!(left, expected);
        assert_eq!(port.counters_at(Time(8_000_000)).busy, Span(8_000_000));
    }

    /// ns-3 drops those that come last: always the same.
    #[test]
    fn in_order_the_last_input_loses() {
        let lost = losses(2, 0, Ties::InOrder);
        assert!(lost[0] < 10 && lost[1] > 9_900, "{lost:?}");
    }
}
