//! The sending side of a connection: which segment to send next, and what acknowledgements and
//! timeouts mean.
//!
//! Sources: RFC 5681 (slow start, congestion avoidance, fast retransmit), RFC 6582 (NewReno's
//! recovery, without selective acknowledgements), RFC 6675 (recovery with them), RFC 9937
//! (proportional rate reduction), RFC 6298 (timer), RFC 3042 (limited transmit), RFC 3168 (marks).

use super::control::{Acked, Algorithm, Window};
use super::receiver::Sack;
use super::recovery::{Cause, Recovery};
use super::rtt::Rtt;
use super::{Flight, Rescue, Tcp, TcpRecovery};
use network::LossUsage;
use std::collections::VecDeque;
use units::{Span, Time};

/// Acknowledged selectively.
const SACKED: u8 = 1;
/// Held to be lost.
const LOST: u8 = 2;
/// Sent again since it was held to be lost.
const RESENT: u8 = 4;
/// Sent more than once, so it measures no round trip (Karn).
const TWICE: u8 = 8;

/// Most that a handshake can offer: its window is not scaled (RFC 7323, section 2.2).
const UNSCALED: u64 = 65_535;

/// Duplicate acknowledgements that mean a loss (RFC 5681).
const DUPLICATES: u32 = 3;

/// A segment that is not acknowledged yet.
#[derive(Clone, Copy, Debug)]
struct Segment {
    seq: u64,
    sent: Time,
    len: u16,
    state: u8,
}

impl Segment {
    fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }

    fn is(&self, state: u8) -> bool {
        self.state & state != 0
    }

    /// Bytes of it that are held to be in the network (RFC 6675, `SetPipe`).
    fn in_pipe(&self) -> u64 {
        let times = u64::from(!self.is(LOST | SACKED)) + u64::from(self.is(RESENT));
        times * u64::from(self.len)
    }
}

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emit {
    pub seq: u64,
    pub len: u16,
    pub again: bool,
    /// The first new segment since marks have shrunk the window (RFC 3168: CWR).
    pub reduced: bool,
}

/// The sending side.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// First byte not acknowledged, first not sent, and end of what was written.
    pub una: u64,
    pub next: u64,
    pub written: u64,
    window: Window,
    /// Bytes that the receiver can take, as it last said.
    offered: u64,
    algorithm: Algorithm,
    flight: VecDeque<Segment>,
    /// Bytes held to be in the network.
    pipe: u64,
    /// Segments of `flight` before this one are not lost without having been sent again.
    scan: usize,
    /// Whether any segment is lost and was not sent again.
    holes: u32,
    recovery: Option<Recovery>,
    /// No fast recovery before this byte is acknowledged (RFC 6582, section 4.1), and no answer to
    /// marks before more is (RFC 3168, section 6.1.2).
    recover: u64,
    /// The receiver has to hear that the window has shrunk because of marks.
    reduced: bool,
    duplicates: u32,
    /// Bytes that duplicates add to the window without selective acknowledgements.
    inflated: u64,
    rtt: Rtt,
    /// When the retransmission timer expires.
    pub deadline: Option<Time>,
    last_sent: Time,
    pub losses: LossUsage,
}

impl Sender {
    pub(crate) fn new(tcp: &Tcp, segment: u64, round_trip: Span) -> Sender {
        let window = Window {
            size: u64::from(tcp.initial_window.max(1)) * segment,
            threshold: u64::MAX,
            segment,
            part: 0,
            rest: 0,
        };
        Sender {
            una: 0,
            next: 0,
            written: 0,
            window,
            offered: tcp.window.0.min(UNSCALED),
            algorithm: Algorithm::new(tcp.control),
            flight: VecDeque::new(),
            pipe: 0,
            scan: 0,
            holes: 0,
            recovery: None,
            recover: 0,
            reduced: false,
            duplicates: 0,
            inflated: 0,
            rtt: Rtt::new(round_trip),
            deadline: None,
            last_sent: Time::ZERO,
            losses: LossUsage::default(),
        }
    }

    /// The congestion window, bytes.
    #[cfg(test)]
    pub(crate) fn window(&self) -> u64 {
        self.window.size
    }

    /// Whether everything was acknowledged and nothing is held to be under way.
    #[cfg(test)]
    pub(crate) fn is_settled(&self) -> bool {
        (self.flight.len(), self.pipe, self.holes, self.deadline) == (0, 0, 0, None)
    }

    /// `bytes` more to send.
    pub(crate) fn write(&mut self, now: Time, bytes: u64, tcp: &Tcp) {
        let idle = self.una == self.next && self.next > 0;
        if idle && tcp.restart && now.since(self.last_sent) > self.rtt.timeout(tcp) {
            let initial = u64::from(tcp.initial_window.max(1)) * self.window.segment;
            self.window.size = self.window.size.min(initial);
        }
        self.written += bytes;
    }

    /// The next segment that may leave now.
    #[inline]
    pub(crate) fn take(&mut self, now: Time, tcp: &Tcp) -> Option<Emit> {
        let allowed = self.window.size + self.inflated;
        if self.holes > 0 {
            return self.take_lost(now, tcp, allowed);
        }
        let mut len = (self.written - self.next).min(self.window.segment);
        if tcp.partial {
            len = len.min((self.una + tcp.window.0).saturating_sub(self.next));
        }
        let within = self.next + len <= self.una + self.offered || self.una == self.next;
        if len == 0 || !within {
            return self.recovery.and_then(|recovery| self.rescue(now, tcp, (allowed, recovery)));
        }
        if self.pipe + len > allowed && !self.recovery.is_some_and(|r| r.forced) {
            return None;
        }
        let reduced = std::mem::take(&mut self.reduced);
        let emit = Emit { seq: self.next, len: len as u16, again: false, reduced };
        self.flight.push_back(Segment { seq: self.next, sent: now, len: len as u16, state: 0 });
        self.next += len;
        self.sent(now, tcp, len);
        Some(emit)
    }

    /// The first lost segment that was not sent again.
    #[cold]
    fn take_lost(&mut self, now: Time, tcp: &Tcp, allowed: u64) -> Option<Emit> {
        let lost = |s: &Segment| s.is(LOST) && !s.is(RESENT | SACKED);
        while self.flight.get(self.scan).is_some_and(|s| !lost(s)) {
            self.scan += 1;
        }
        let first = self.recovery.is_some_and(|r| r.forced || self.scan == 0 && r.out == 0);
        let segment = self.flight.get_mut(self.scan)?;
        let len = u64::from(segment.len);
        // The first segment of a recovery leaves whatever the window (RFC 5681, section 3.2).
        if self.pipe + len > allowed && !first {
            return None;
        }
        segment.state |= RESENT | TWICE;
        segment.sent = now;
        let emit = Emit { seq: segment.seq, len: segment.len, again: true, reduced: false };
        self.holes -= 1;
        self.losses.retransmits += 1;
        self.sent(now, tcp, len);
        if emit.seq == self.una {
            self.deadline = Some(now + self.rtt.timeout(tcp));
        }
        Some(emit)
    }

    /// A segment that may be lost, where nothing else is left to send in a recovery.
    #[cold]
    fn rescue(
        &mut self,
        now: Time,
        tcp: &Tcp,
        (allowed, recovery): (u64, Recovery),
    ) -> Option<Emit> {
        if recovery.cause != Cause::Loss || !tcp.sack {
            return None;
        }
        let open = |s: &Segment| !s.is(SACKED | RESENT);
        let (mut at, mut last) = (self.flight.iter().position(open), false);
        if tcp.rescue == Rescue::Once {
            let highest = self.flight.iter().rposition(|s| s.is(SACKED)).unwrap_or(0);
            at = at.filter(|&at| at < highest);
            last = at.is_none() && !recovery.rescued;
            if last {
                at = self.flight.iter().rposition(|s| !s.is(SACKED)).filter(|&at| at >= highest);
            }
        }
        let at = at.or((recovery.forced && !self.flight.is_empty()).then_some(0))?;
        let len = u64::from(self.flight[at].len);
        if self.pipe + len > allowed && !recovery.forced {
            return None;
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.rescued |= last;
        }
        let segment = &mut self.flight[at];
        let before = segment.in_pipe();
        segment.state |= RESENT | TWICE;
        segment.sent = now;
        let more = segment.in_pipe() - before;
        let emit = Emit { seq: segment.seq, len: segment.len, again: true, reduced: false };
        self.losses.retransmits += 1;
        self.sent(now, tcp, len);
        self.pipe = self.pipe - len + more;
        Some(emit)
    }

    #[inline]
    fn sent(&mut self, now: Time, tcp: &Tcp, len: u64) {
        self.pipe += len;
        self.last_sent = now;
        if let Some(recovery) = &mut self.recovery {
            recovery.out += len;
            recovery.forced = false;
        }
        if self.deadline.is_none() {
            self.deadline = Some(now + self.rtt.timeout(tcp));
        }
    }

    /// An acknowledgement of everything before `upto` and of `sack`. Returns the round trip that
    /// it measures.
    #[inline]
    pub(crate) fn acknowledged(
        &mut self,
        now: Time,
        (upto, sack, marked): (u64, Option<&Sack>, bool),
        tcp: &Tcp,
    ) -> Option<Span> {
        if upto > self.next || upto < self.una {
            return None;
        }
        self.offered = tcp.window.0;
        let bytes = upto - self.una;
        let mut delivered = bytes;
        let mut round_trip = None;
        if bytes > 0 {
            (round_trip, delivered) = self.advance(now, upto, tcp);
        }
        let mut is_news = false;
        if let Some(sack) = sack {
            let sacked = self.mark_sacked(sack, tcp);
            delivered += sacked;
            is_news = sacked > 0;
        }
        let acked = Acked {
            now,
            bytes: delivered,
            upto,
            sent: self.next,
            marked,
            round_trip: self.rtt.smoothed(),
        };
        let less = self.algorithm.marks(&self.window, &acked);
        if marked && self.recovery.is_none() && upto > self.recover && !self.algorithm.measures() {
            self.shrink(tcp);
        } else if let Some(less) = less
            && self.recovery.is_none()
        {
            (self.window.size, self.window.threshold) = (less, less);
        } else if self.recovery.is_none() && self.duplicates == 0 && bytes > 0 {
            let acked = Acked { bytes, ..acked };
            self.algorithm.grow(&mut self.window, &acked, tcp);
        }
        if bytes == 0 && !self.flight.is_empty() && (is_news || !tcp.sack) {
            self.duplicate(tcp);
        }
        if self.recovery.is_some() || is_news {
            self.mend(now, (upto, bytes, delivered), tcp);
        }
        round_trip
    }

    /// Everything before `upto` has arrived. Returns the round trip of the first segment, and the
    /// bytes that were not known to have arrived.
    #[inline]
    fn advance(&mut self, now: Time, upto: u64, tcp: &Tcp) -> (Option<Span>, u64) {
        let (mut sample, mut delivered, mut popped) = (None, 0, 0);
        while let Some(first) = self.flight.front().copied() {
            if first.end() > upto {
                break;
            }
            if popped == 0 && !first.is(TWICE) {
                sample = Some(now.since(first.sent));
            }
            self.pipe -= first.in_pipe();
            if !first.is(SACKED) {
                delivered += u64::from(first.len);
                if first.is(LOST) && !first.is(RESENT) {
                    self.holes -= 1;
                }
            }
            popped += 1;
            self.flight.pop_front();
        }
        self.scan = self.scan.saturating_sub(popped);
        self.una = upto;
        self.duplicates = 0;
        self.rtt.progress();
        if let Some(sample) = sample {
            self.rtt.sample(sample);
        }
        self.deadline =
            if self.flight.is_empty() { None } else { Some(now + self.rtt.timeout(tcp)) };
        (sample, delivered)
    }

    /// Marks what selective acknowledgements name. Returns the bytes that are new.
    fn mark_sacked(&mut self, sack: &Sack, tcp: &Tcp) -> u64 {
        let mut bytes = 0;
        for &(from, to) in sack.ranges() {
            let first = self.flight.partition_point(|s| s.seq < from);
            for segment in self.flight.range_mut(first..) {
                if segment.end() > to {
                    break;
                }
                if segment.is(SACKED) {
                    continue;
                }
                self.pipe -= segment.in_pipe();
                if segment.is(LOST) && !segment.is(RESENT) {
                    self.holes -= 1;
                }
                segment.state |= SACKED;
                if !tcp.resent_in_pipe {
                    segment.state &= !RESENT;
                }
                self.pipe += segment.in_pipe();
                bytes += u64::from(segment.len);
            }
        }
        bytes
    }

    /// An acknowledgement that acknowledges nothing new in order.
    fn duplicate(&mut self, tcp: &Tcp) {
        self.duplicates += 1;
        if tcp.sack {
            return;
        }
        match self.recovery {
            // RFC 6582, section 3.2, step 3.
            Some(Recovery { cause: Cause::Loss, .. }) => self.inflated += self.window.segment,
            Some(Recovery { cause: Cause::Timeout, .. }) => {}
            // RFC 3042.
            _ if self.duplicates < DUPLICATES => {
                self.inflated = u64::from(self.duplicates) * self.window.segment;
            }
            _ if self.may_enter() => {
                self.inflated = u64::from(DUPLICATES) * self.window.segment;
                self.enter(tcp);
                self.lose_first();
            }
            _ => {}
        }
    }

    /// Goes on with a recovery, begins or ends one.
    #[cold]
    fn mend(&mut self, now: Time, (upto, bytes, delivered): (u64, u64, u64), tcp: &Tcp) {
        if let Some(recovery) = self.recovery
            && upto >= recovery.point
        {
            self.recovery = None;
            self.inflated = 0;
            if recovery.cause != Cause::Timeout {
                self.window.size = self.window.threshold;
            } else if !tcp.stalls {
                self.slow_start(now, (upto, bytes), tcp);
            }
        }
        let before = self.holes;
        if !tcp.sack {
            self.partial(bytes);
        } else {
            self.find_lost();
            let is_lost = self.holes > before
                || self.duplicates >= DUPLICATES
                    && self.flight.front().is_some_and(|s| s.state == 0);
            if is_lost && self.may_enter() {
                self.enter(tcp);
                if self.holes == 0 {
                    self.lose_first();
                }
            }
        }
        let is_safe = bytes > 0 && self.holes <= before;
        let again = self.flight.front().is_some_and(|s| {
            s.is(RESENT) && !s.is(SACKED) && u64::from(s.len) == self.window.segment
        });
        let Some(recovery) = &mut self.recovery else { return };
        recovery.forced |= tcp.rescue == Rescue::Always
            && tcp.sack
            && bytes > 0
            && recovery.out > 0
            && recovery.cause == Cause::Loss
            && !again;
        if recovery.cause == Cause::Timeout {
            self.slow_start(now, (upto, bytes), tcp);
        } else if tcp.sack && tcp.reduction == TcpRecovery::Proportional {
            let bounds = (self.window.threshold, self.window.segment);
            self.window.size = recovery.reduce(delivered, self.pipe, bounds, is_safe);
        }
    }

    /// The window grows after a timeout (RFC 5681, section 3.1).
    fn slow_start(&mut self, now: Time, (upto, bytes): (u64, u64), tcp: &Tcp) {
        if bytes == 0 {
            return;
        }
        let (sent, round_trip) = (self.next, self.rtt.smoothed());
        let acked = Acked { now, bytes, upto, sent, marked: false, round_trip };
        self.algorithm.grow(&mut self.window, &acked, tcp);
    }

    /// RFC 6582, section 3.2, step 3: an acknowledgement of a part of what was under way names the
    /// next loss.
    fn partial(&mut self, bytes: u64) {
        let Some(recovery) = self.recovery else { return };
        if bytes == 0 || recovery.cause != Cause::Loss {
            return;
        }
        let segment = self.window.segment;
        self.inflated = self.inflated.saturating_sub(bytes);
        if bytes >= segment {
            self.inflated += segment;
        }
        self.lose_first();
    }

    /// Whether a loss may begin a fast recovery now. One that is found while the window shrinks
    /// because of a mark may.
    fn may_enter(&self) -> bool {
        self.recovery.map_or(self.una >= self.recover, |recovery| recovery.cause == Cause::Mark)
    }

    /// Fast recovery begins. After a mark of the same window nothing is reduced again (RFC 3168,
    /// section 6.1.2).
    fn enter(&mut self, tcp: &Tcp) {
        self.losses.fast_recoveries += 1;
        if self.recovery.is_none() {
            self.reduce(tcp);
        }
        self.begin(Cause::Loss);
    }

    /// The receiver echoes a mark: the window shrinks as after a loss, once for what is under way
    /// now.
    #[cold]
    fn shrink(&mut self, tcp: &Tcp) {
        self.reduced = true;
        self.reduce(tcp);
        self.begin(Cause::Mark);
    }

    fn reduce(&mut self, tcp: &Tcp) {
        let flight = self.under_way(tcp);
        self.window.threshold = self.algorithm.reduced(&self.window, flight);
        self.window.size = self.window.threshold;
    }

    fn begin(&mut self, cause: Cause) {
        let flight = self.next - self.una;
        self.recover = self.next;
        self.recovery = Some(Recovery::new(self.next, flight, cause));
    }

    /// Bytes that count as under way when the threshold is set.
    fn under_way(&self, tcp: &Tcp) -> u64 {
        match tcp.flight {
            Flight::Outstanding => self.next - self.una,
            Flight::Pipe => self.pipe,
            Flight::Window => self.window.size,
        }
    }

    /// Holds the first segment to be lost.
    fn lose_first(&mut self) {
        let Some(first) = self.flight.front_mut() else { return };
        if first.is(SACKED | LOST) {
            return;
        }
        self.pipe -= first.in_pipe();
        first.state = first.state & !RESENT | LOST;
        self.pipe += first.in_pipe();
        self.holes += 1;
        self.scan = 0;
    }

    /// Holds to be lost what three segments, or more than two segments' bytes, were acknowledged
    /// beyond (RFC 6675, `IsLost`).
    fn find_lost(&mut self) {
        let (mut segments, mut bytes) = (0, 0);
        let limit = u64::from(DUPLICATES - 1) * self.window.segment;
        let mut at = self.flight.len();
        while at > 0 && segments < DUPLICATES && bytes <= limit {
            at -= 1;
            if self.flight[at].is(SACKED) {
                segments += 1;
                bytes += u64::from(self.flight[at].len);
            }
        }
        if segments < DUPLICATES && bytes <= limit {
            return;
        }
        for place in (0..at).rev() {
            let segment = &mut self.flight[place];
            if segment.is(LOST) {
                break;
            }
            if segment.is(SACKED) {
                continue;
            }
            self.pipe -= segment.in_pipe();
            segment.state |= LOST;
            self.pipe += segment.in_pipe();
            if !segment.is(RESENT) {
                self.holes += 1;
                self.scan = self.scan.min(place);
            }
        }
    }

    /// The retransmission timer has expired (RFC 6298, section 5; RFC 5681, section 3.1).
    #[cold]
    pub(crate) fn timed_out(&mut self, now: Time, tcp: &Tcp) {
        self.losses.timeouts += 1;
        if self.rtt.is_first_timeout() {
            let lost_from = self.under_way(tcp);
            self.window.threshold = self.algorithm.reduced(&self.window, lost_from);
        }
        self.algorithm.timed_out();
        self.window.size = self.window.segment;
        self.rtt.back_off();
        self.deadline = Some(now + self.rtt.timeout(tcp));
        self.begin(Cause::Timeout);
        (self.duplicates, self.inflated, self.scan) = (0, 0, 0);
        (self.pipe, self.holes) = (0, 0);
        for segment in &mut self.flight {
            if !segment.is(SACKED) {
                segment.state = LOST | TWICE;
                self.holes += 1;
            } else {
                segment.state &= !RESENT;
            }
        }
    }
}
