//! Steady-state skipping: once the rates of all connections have settled, they carry on as fluid
//! flows until shortly before the first message ends.
//!
//! Time is cut into windows. If every connection with something to send delivers as much in one
//! window as in the one before, to a quarter of the tolerance, twice in a row, the network is
//! steady. A skip then lets each
//! connection deliver at that rate, and stops the clock of the packets meanwhile: those under way,
//! queues, windows and timers stay as they are, and go on after it. If rates differ, windows grow
//! to twice their length, so that a sawtooth fits into one. A message that starts or arrives begins
//! anew. Source of the idea: Wormhole (NSDI 2026).
//!
//! The error is estimated, not bounded: rates may change after they were measured. Each skip counts
//! its length times the largest difference between the two windows.

use crate::backend::{Packets, Timer};
use crate::connection::Sides;
use network::{LinkEnds, Sending};
use units::{Ratio, Span, Time};

/// The first window, in round trips of the empty network.
const WINDOW: u64 = 16;
/// Most times that a window doubles.
const DOUBLINGS: u32 = 16;
/// A skip that is shorter than this many windows is not worth it.
const WORTH: u64 = 2;

/// Parts of a skip in which links are reported to send.
const PARTS: u64 = 32;

/// Parts of a run that were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How often.
    pub times: u64,
    /// How long, in all.
    pub time: Span,
    /// Estimate of the error of the end of the run.
    pub error: Span,
}

/// A connection in a window.
#[derive(Clone, Copy, Debug)]
struct Share {
    connection: u32,
    /// Bytes in order at the receiver when the window began.
    from: u64,
    /// Bytes of the window before.
    before: Option<u64>,
}

/// A skip that goes on.
#[derive(Clone, Debug)]
struct Open {
    /// When it began and ends at the latest, as the caller counts.
    from: Time,
    until: Time,
    /// Connections, and the bytes that each delivers in `period`.
    rates: Vec<(u32, u64)>,
    period: Span,
    /// Largest difference of the rates, in parts of 2^20.
    difference: u64,
}

/// The state of skipping.
#[derive(Clone, Debug)]
pub(crate) struct Skip {
    tolerance: Ratio,
    window: Span,
    doublings: u32,
    /// The last two windows were alike.
    alike: bool,
    shares: Vec<Share>,
    /// A message has started or arrived in this window.
    changed: bool,
    /// A window ends with an event that was set.
    waits: bool,
    open: Option<Open>,
    pub(crate) skipped: Skipped,
}

impl Skip {
    pub(crate) fn new(tolerance: Ratio) -> Skip {
        Skip {
            tolerance,
            window: Span::ZERO,
            doublings: 0,
            alike: false,
            shares: Vec::new(),
            changed: true,
            waits: false,
            open: None,
            skipped: Skipped::default(),
        }
    }

    /// When a skip ends, as the caller counts.
    pub(crate) fn until(&self) -> Option<Time> {
        self.open.as_ref().map(|open| open.until)
    }

    /// A message has started or arrived. Returns whether a window has to be begun.
    #[inline]
    pub(crate) fn change(&mut self) -> bool {
        self.changed = true;
        !std::mem::replace(&mut self.waits, true)
    }
}

impl Packets {
    /// Skips where the rates of two windows differ by at most `tolerance`.
    #[must_use]
    pub fn with_skipping(mut self, tolerance: Ratio) -> Packets {
        self.skip = Some(Box::new(Skip::new(tolerance)));
        self
    }

    /// Parts of the run that were skipped.
    pub fn skipped(&self) -> Skipped {
        self.skip.as_ref().map_or_else(Skipped::default, |skip| skip.skipped)
    }

    /// A message has started or arrived.
    #[inline]
    pub(crate) fn changes(&mut self, now: Time) {
        if self.skip.as_mut().is_some_and(|skip| skip.change()) {
            self.begin_window(now);
        }
    }

    /// Begins a first window.
    fn begin_window(&mut self, now: Time) {
        let active = |c: &&crate::connection::Connection| !c.messages.is_empty();
        let longest = self.connections.iter().filter(active).map(|c| c.round_trip).max();
        let Some(skip) = &mut self.skip else { return };
        let Some(longest) = longest else {
            skip.waits = false;
            return;
        };
        skip.window = Span((longest.0 * WINDOW).max(1));
        (skip.doublings, skip.alike, skip.changed) = (0, false, false);
        let share = |(at, connection): (usize, &crate::connection::Connection)| {
            let from = connection.received();
            (!connection.messages.is_empty()).then_some(Share {
                connection: at as u32,
                from,
                before: None,
            })
        };
        skip.shares = self.connections.iter().enumerate().filter_map(share).collect();
        let end = now + skip.window;
        self.set(end, Timer::Window);
    }

    /// A window ends.
    pub(crate) fn end_window(&mut self, now: Time) {
        let Some(skip) = &mut self.skip else { return };
        if skip.changed {
            return self.begin_window(now);
        }
        let one = Ratio::ONE.0;
        let compares = skip.shares.iter().all(|share| share.before.is_some());
        let (mut steady, mut worst, mut rates) = (true, 0u64, Vec::new());
        for share in &mut skip.shares {
            let connection = &self.connections[share.connection as usize];
            let (received, packet) = (connection.received(), connection.segment);
            let bytes = received - share.from;
            let before = share.before.replace(bytes);
            share.from = received;
            let difference = before.map_or(u64::MAX, |before| before.abs_diff(bytes));
            let both = before.unwrap_or(0) + bytes;
            let allowed = u128::from(both) * u128::from(skip.tolerance.0) / u128::from(8 * one);
            // A packet more or less in a window must not count.
            steady &= u128::from(difference) <= allowed && allowed >= u128::from(packet);
            let parts = (u128::from(difference.min(both)) << 21) / u128::from(both.max(1));
            worst = worst.max(parts as u64);
            rates.push((share.connection, both));
        }
        let period = Span(skip.window.0 * 2);
        let twice = std::mem::replace(&mut skip.alike, steady) && steady;
        let length = (twice && !rates.is_empty()).then(|| self.room_to_skip(&rates, period));
        if let (Some(length), Some(skip)) = (length.flatten(), &mut self.skip) {
            let from = now + self.skipped_time;
            let until = from + length;
            skip.open = Some(Open { from, until, rates, period, difference: worst });
            return;
        }
        let Some(skip) = &mut self.skip else { return };
        if compares && !steady && skip.doublings < DOUBLINGS {
            // The next window is as long as the last two together, and is compared with them.
            skip.doublings += 1;
            skip.window = Span(skip.window.0 * 2);
            for (share, (_, both)) in skip.shares.iter_mut().zip(rates) {
                share.before = Some(both);
            }
        }
        let end = now + skip.window;
        self.set(end, Timer::Window);
    }

    /// How long connections can go on at their rates (bytes in a period) until a window before the
    /// first message ends.
    fn room_to_skip(&self, rates: &[(u32, u64)], period: Span) -> Option<Span> {
        let window = period.0 / 2;
        let mut least = u64::MAX;
        for &(at, bytes) in rates {
            let connection = &self.connections[at as usize];
            let end = connection.messages.front()?.end;
            let left = end.checked_sub(connection.sent())?;
            let time = u128::from(left) * u128::from(period.0) / u128::from(bytes.max(1));
            least = least.min(u64::try_from(time).unwrap_or(u64::MAX));
        }
        let length = least.saturating_sub(window);
        (length >= WORTH * window).then_some(Span(length))
    }

    /// Ends a skip at `now`, as the caller counts: what was delivered meanwhile is taken off the
    /// messages.
    pub(crate) fn end_skip(&mut self, now: Time) {
        let Some(open) = self.skip.as_mut().and_then(|skip| skip.open.take()) else { return };
        let length = now.since(open.from);
        for &(at, bytes) in &open.rates {
            let carried = u128::from(bytes) * u128::from(length.0) / u128::from(open.period.0);
            // Whole packets, so that those that follow are cut as before.
            let payload = u64::from(self.connections[at as usize].segment);
            let carried = carried as u64 / payload * payload;
            self.carry(at, carried);
        }
        self.report_skip(open.from, length);
        self.skipped_time += length;
        if let Some(skip) = &mut self.skip {
            let error = (u128::from(length.0) * u128::from(open.difference)) >> 20;
            skip.skipped.times += 1;
            skip.skipped.time += length;
            skip.skipped.error += Span(error as u64);
        }
        self.begin_window(self.inside(now));
    }

    /// Takes bytes that were carried as a fluid off what a connection still has to send.
    fn carry(&mut self, at: u32, bytes: u64) {
        let connection = &mut self.connections[at as usize];
        connection.carried += bytes;
        let sent = connection.sent();
        connection.messages.iter_mut().filter(|m| m.end > sent).for_each(|m| m.end -= bytes);
        match &mut connection.sides {
            Sides::Tcp(sides) => sides.0.written -= bytes,
            Sides::Rdma(sides) => sides.0.forgo(bytes),
        }
        if self.paths.vary() {
            return;
        }
        let (payload, around) = (u64::from(connection.segment), u64::from(connection.around));
        let packets = bytes / payload;
        let acks = match &self.protocols.of(connection.kind).transport {
            crate::Transport::Tcp(tcp) => packets / u64::from(tcp.ack_every.max(1)),
            crate::Transport::Rdma(rdma) => packets / u64::from(rdma.ack_every.max(1)),
        };
        let (there, back) = (connection.there, connection.back);
        self.count(there, packets, packets * (payload + around));
        self.count(back, acks, acks * around);
    }

    /// Counts packets that were not simulated on the links of a route.
    fn count(&mut self, route: u32, packets: u64, bytes: u64) {
        let mut place = route;
        while self.paths.link(place) != crate::paths::END {
            let port = &mut self.ports[self.paths.link(place) as usize];
            let busy = port.cost().occupancy(bytes);
            port.counters.packets += packets;
            port.counters.bytes += bytes;
            port.counters.busy += busy;
            if self.sink.is_some() {
                let sum = self.skipped_links.entry(self.paths.link(place)).or_default();
                *sum = (sum.0 + busy, sum.1 + bytes);
            }
            place += 1;
        }
    }

    /// Reports what links have sent in a skip: the same in each of a few parts of it, behind the
    /// packet that a link was sending when it began.
    fn report_skip(&mut self, from: Time, length: Span) {
        let links = std::mem::take(&mut self.skipped_links);
        let Some(sink) = &mut self.sink else { return };
        let mut all: Vec<Sending> = Vec::new();
        let inside = Time(from.0 - self.skipped_time.0);
        for (link, (busy, bytes)) in links {
            let left = self.ports[link as usize].sending_until().max(inside).since(inside);
            let ends = self.paths.graph().link(link);
            let link = LinkEnds { link, dim: ends.dim, from: ends.from, to: ends.to, count: None };
            all.extend((0..PARTS).map(|part| {
                let begin = from + left + Span(length.0 / PARTS * part);
                let end = begin + Span((busy.0 / PARTS).min(length.0 / PARTS));
                // The last part has what is left of the bytes.
                let rest = if part + 1 == PARTS { bytes % PARTS } else { 0 };
                Sending { link, token: 0, begin, end, bytes: bytes / PARTS + rest }
            }));
        }
        all.sort_by_key(|sending| (sending.begin, sending.link.link));
        all.iter().for_each(|sending| sink.sends(sending));
    }
}
