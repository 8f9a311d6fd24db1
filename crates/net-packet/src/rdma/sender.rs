//! The sending side of a reliable connection: which packet to send next, and when.

use super::dcqcn::Dcqcn;
use crate::tcp::{Emit, Sack};
use net_settings::packet::{Rdma, RdmaRecovery};
use network::LossUsage;
use std::collections::VecDeque;
use units::{Bandwidth, Bytes, Span, Time};

/// A packet that is not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: u64,
    len: u16,
    arrived: bool,
    /// It is lost and was not sent again.
    lost: bool,
    time: Time,
    twice: bool,
}

/// The sending side.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub una: u64,
    pub next: u64,
    pub written: u64,
    /// Ends of messages that are not acknowledged: packets do not cross them.
    ends: VecDeque<u64>,
    segment: u64,
    flight: VecDeque<Sent>,
    /// Packets of `flight` to be sent again.
    holes: u32,
    /// The highest byte that was sent.
    pub highest: u64,
    /// Losses before this byte are being mended.
    recover: u64,
    /// DCQCN, and when its rate lets the next packet leave.
    rate: Option<Dcqcn>,
    pub free: Time,
    pub deadline: Option<Time>,
    pub losses: LossUsage,
}

impl Sender {
    /// `line`: the bandwidth of the NPU's link.
    pub(crate) fn new(rdma: &Rdma, segment: u64, line: Bandwidth) -> Sender {
        Sender {
            una: 0,
            next: 0,
            written: 0,
            ends: VecDeque::new(),
            segment,
            flight: VecDeque::new(),
            holes: 0,
            highest: 0,
            recover: 0,
            rate: rdma.dcqcn.map(|_| Dcqcn::new(line)),
            free: Time::ZERO,
            deadline: None,
            losses: LossUsage::default(),
        }
    }

    /// `bytes` more to send, a message.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.written += bytes;
        self.ends.push_back(self.written);
    }

    /// The next packet that may leave now; `around`: bytes of its headers on the link.
    pub(crate) fn take(&mut self, now: Time, rdma: &Rdma, around: u64) -> Option<Emit> {
        if self.free > now {
            return None;
        }
        let emit = if self.holes > 0 { self.take_lost(now) } else { self.take_new(now, rdma) }?;
        if let (Some(rate), Some(settings)) = (&mut self.rate, &rdma.dcqcn) {
            rate.update(now, settings);
            let bytes = u64::from(emit.len) + around;
            self.free = now + Bandwidth(rate.rate.max(1)).span(Bytes(bytes));
            rate.sent(bytes, settings);
        }
        self.deadline.get_or_insert(now + rdma.timeout);
        Some(emit)
    }

    /// Whether something could leave if the rate allowed it.
    pub(crate) fn waits(&self, rdma: &Rdma) -> bool {
        self.holes > 0 || self.next < self.written && self.next - self.una < rdma.window.0
    }

    fn take_new(&mut self, now: Time, rdma: &Rdma) -> Option<Emit> {
        let message = self.ends.partition_point(|&end| end <= self.next);
        let len = (*self.ends.get(message)? - self.next).min(self.segment);
        if self.next + len > self.una + rdma.window.0 && self.next > self.una {
            return None;
        }
        let emit = Emit {
            seq: self.next,
            len: len as u16,
            again: self.next < self.highest,
            reduced: false,
        };
        self.losses.retransmits += u64::from(emit.again);
        self.flight.push_back(Sent {
            seq: self.next,
            len: len as u16,
            arrived: false,
            lost: false,
            time: now,
            twice: emit.again,
        });
        self.next += len;
        self.highest = self.highest.max(self.next);
        Some(emit)
    }

    fn take_lost(&mut self, now: Time) -> Option<Emit> {
        let sent = self.flight.iter_mut().find(|sent| sent.lost)?;
        (sent.lost, sent.twice, sent.time) = (false, true, now);
        self.holes -= 1;
        self.losses.retransmits += 1;
        Some(Emit { seq: sent.seq, len: sent.len, again: true, reduced: false })
    }

    /// Everything before `upto` has arrived, and what `sack` names; `nak`: something is missing.
    /// Returns the round trip that it measures.
    pub(crate) fn acknowledged(
        &mut self,
        now: Time,
        (upto, sack, nak): (u64, Option<&Sack>, bool),
        rdma: &Rdma,
    ) -> Option<Span> {
        if upto < self.una || upto > self.highest {
            return None;
        }
        let mut sample = None;
        while let Some(&first) = self.flight.front()
            && first.seq + u64::from(first.len) <= upto
        {
            self.flight.pop_front();
            self.holes -= u32::from(first.lost);
            sample = sample.or((!first.twice).then(|| now.since(first.time)));
        }
        while self.ends.front().is_some_and(|&end| end <= upto) {
            self.ends.pop_front();
        }
        // After going back, an acknowledgement can be ahead of what was sent again.
        self.next = self.next.max(upto);
        if upto > self.una || nak {
            self.una = upto;
            self.deadline = (self.una < self.next).then_some(now + rdma.timeout);
        }
        match rdma.recovery {
            RdmaRecovery::GoBackN if nak => self.go_back(),
            RdmaRecovery::Selective => {
                self.mend(sack, nak, u64::from(rdma.reordering) * self.segment)
            }
            RdmaRecovery::GoBackN => {}
        }
        sample
    }

    /// Sends again from the first byte that is missing.
    fn go_back(&mut self) {
        if self.next > self.una {
            self.losses.fast_recoveries += 1;
        }
        self.next = self.una;
        self.flight.clear();
        self.holes = 0;
    }

    /// Packets before the last one that has arrived and not arrived themselves are lost (Mittal et
    /// al., section 3.1); once for each recovery.
    fn mend(&mut self, sack: Option<&Sack>, nak: bool, tolerated: u64) {
        let ranges = sack.map_or(&[][..], Sack::ranges);
        for &(from, to) in ranges {
            let first = self.flight.partition_point(|sent| sent.seq < from);
            let inside = self.flight.range_mut(first..);
            for sent in inside.take_while(|sent| sent.seq + u64::from(sent.len) <= to) {
                self.holes -= u32::from(sent.lost);
                (sent.arrived, sent.lost) = (true, false);
            }
        }
        if !nak {
            return;
        }
        let highest = ranges.iter().map(|range| range.1).max().unwrap_or(self.una + 1);
        let highest = highest.saturating_sub(tolerated);
        let begins = self.una >= self.recover;
        let mut found = 0;
        for sent in self.flight.iter_mut().take_while(|sent| sent.seq < highest) {
            if !sent.arrived && !sent.lost && !sent.twice {
                sent.lost = true;
                found += 1;
            }
        }
        self.holes += found;
        if begins && found > 0 {
            self.losses.fast_recoveries += 1;
            self.recover = self.highest;
        }
    }

    /// Bytes that were not sent were carried in another way.
    pub(crate) fn forgo(&mut self, bytes: u64) {
        let highest = self.highest;
        self.written -= bytes;
        self.ends.iter_mut().filter(|end| **end > highest).for_each(|end| *end -= bytes);
    }

    /// The timer has expired: everything that is not acknowledged goes again.
    pub(crate) fn timed_out(&mut self, now: Time, rdma: &Rdma) {
        self.deadline = Some(now + rdma.timeout);
        self.losses.timeouts += 1;
        if rdma.recovery == RdmaRecovery::GoBackN {
            return self.go_back();
        }
        for sent in self.flight.iter_mut().filter(|sent| !sent.arrived && !sent.lost) {
            sent.lost = true;
            self.holes += 1;
        }
    }

    /// A report of congestion has come.
    pub(crate) fn report(&mut self, now: Time, rdma: &Rdma) {
        if let (Some(rate), Some(settings)) = (&mut self.rate, &rdma.dcqcn) {
            rate.report(now, settings);
        }
    }
}
