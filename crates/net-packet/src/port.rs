//! A port: the queue before a link, and the link.
//!
//! The queue is first in, first out, so the moment at which a packet leaves is known when it comes:
//! when the one before it has left. A packet costs one event, its arrival at the far end; packets
//! that wait and packets on the link stand in one line, in the order in which they arrive there.
//! The queue holds what has not begun to leave: a buffer limits that (tail drop), and marks look
//! at it.

use crate::packet::{ACK, CE, Packet};
use network::LinkCost;
use std::collections::VecDeque;
use units::{Span, Time};

/// A packet that waits or is on the link.
#[derive(Clone, Copy, Debug)]
struct Entry {
    packet: Packet,
    /// When it begins to leave.
    start: Time,
}

/// What became of a packet that came to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The buffer was full.
    Dropped,
    /// It stands in the line behind others.
    Behind,
    /// It is the first of the line and arrives at the far end then.
    First(Time),
}

/// What a port has done.
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
}

/// A port.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    cost: LinkCost,
    /// Sizes met last and how long the link takes for them.
    known: [(u16, Span); 2],
    latency: Span,
    /// When the link is free.
    free: Time,
    line: VecDeque<Entry>,
    /// How many of the line have begun to leave.
    begun: usize,
    /// Bytes of the others.
    queued: u64,
    buffer: u64,
    mark_above: u64,
    pub counters: Counters,
}

impl Port {
    pub(crate) fn new(cost: LinkCost, buffer: u64, mark_above: u64) -> Port {
        Port {
            known: [(0, Span::ZERO); 2],
            latency: cost.transit(1, 0),
            cost,
            free: Time::ZERO,
            line: VecDeque::new(),
            begun: 0,
            queued: 0,
            buffer,
            mark_above,
            counters: Counters::default(),
        }
    }

    /// How long the link takes to send so many bytes.
    #[inline]
    fn span(&mut self, wire: u16) -> Span {
        if self.known[0].0 == wire {
            return self.known[0].1;
        }
        if self.known[1].0 != wire {
            self.known[1] = (wire, self.cost.occupancy(wire.into()));
        }
        self.known.swap(0, 1);
        self.known[0].1
    }

    /// A packet comes.
    #[inline]
    pub(crate) fn accept(&mut self, now: Time, mut packet: Packet) -> Outcome {
        while let Some(entry) = self.line.get(self.begun)
            && entry.start <= now
        {
            self.queued -= u64::from(entry.packet.wire);
            self.begun += 1;
        }
        let wire = u64::from(packet.wire);
        let start = self.free.max(now);
        if start > now {
            if self.queued + wire > self.buffer {
                self.counters.drops += 1;
                return Outcome::Dropped;
            }
            if self.queued >= self.mark_above && !packet.is(ACK) {
                packet.flags |= CE;
                self.counters.marks += 1;
            }
            self.queued += wire;
            self.counters.longest = self.counters.longest.max(self.queued);
            let waiting = self.line.len() - self.begun + 1;
            self.counters.most = self.counters.most.max(waiting as u32);
            self.counters.waited += start.since(now);
        } else {
            self.begun += 1;
        }
        let span = self.span(packet.wire);
        self.counters.packets += 1;
        self.counters.bytes += wire;
        self.counters.busy += span;
        self.free = start + span;
        self.line.push_back(Entry { packet, start });
        if self.line.len() == 1 {
            Outcome::First(self.free + self.latency)
        } else {
            Outcome::Behind
        }
    }

    /// The first packet of the line arrives at the far end. Returns it, when it began to leave, and
    /// when the next one arrives.
    #[inline]
    pub(crate) fn arrive(&mut self) -> Option<(Packet, Time, Option<Time>)> {
        let Entry { packet, start } = self.line.pop_front()?;
        if self.begun == 0 {
            // It has begun since a packet came last.
            self.queued -= u64::from(packet.wire);
        } else {
            self.begun -= 1;
        }
        let next = self.line.front().map(|entry| (entry.packet.wire, entry.start));
        let next = next.map(|(wire, start)| start + self.span(wire) + self.latency);
        Some((packet, start, next))
    }

    /// The link's bandwidth and latency.
    pub(crate) fn cost(&self) -> LinkCost {
        self.cost
    }
}
