//! The receiving side of a reliable connection.

use crate::tcp::Sack;
use net_settings::packet::{Rdma, RdmaRecovery};
use units::{Span, Time};

/// Reply to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Nothing yet.
    None,
    /// An acknowledgement.
    Ack,
    /// A negative acknowledgement: something is missing.
    Nak,
}

/// The receiving side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    /// Next byte in order.
    pub next: u64,
    /// Ranges of bytes that have come beyond it, ascending; kept for selective repeat only.
    beyond: Vec<(u64, u64)>,
    pending: u32,
    /// A negative acknowledgement was sent for what is missing now.
    asked: bool,
    /// When the last report of congestion was sent.
    reported: Option<Time>,
}

impl Receiver {
    /// `len` bytes from `seq` on have come; `ends`: a message ends with them. Go-back-N drops what
    /// comes out of order.
    pub(crate) fn data(
        &mut self,
        (seq, len): (u64, u64),
        (ends, segment): (bool, u64),
        rdma: &Rdma,
    ) -> Reply {
        let end = seq + len;
        if end <= self.next {
            // It was acknowledged before, and the acknowledgement may be lost.
            return Reply::Ack;
        }
        if seq > self.next {
            let selective = rdma.recovery == RdmaRecovery::Selective;
            let news = selective && self.keep(seq, end);
            let tolerated = u64::from(rdma.reordering) * segment;
            if selective && end - self.next <= tolerated {
                return Reply::None;
            }
            let asks = !self.asked || news;
            self.asked = true;
            return if asks { Reply::Nak } else { Reply::None };
        }
        self.next = end;
        self.asked = false;
        let fills = !self.beyond.is_empty();
        while self.beyond.first().is_some_and(|&(from, _)| from <= self.next) {
            self.next = self.next.max(self.beyond.remove(0).1);
        }
        self.pending += 1;
        if ends || fills || self.pending >= rdma.ack_every { Reply::Ack } else { Reply::None }
    }

    /// Keeps what has come beyond a gap. Returns whether it was new.
    fn keep(&mut self, seq: u64, end: u64) -> bool {
        let first = self.beyond.partition_point(|&(_, to)| to < seq);
        let last = first + self.beyond[first..].partition_point(|&(from, _)| from <= end);
        let (mut from, mut to) = (seq, end);
        if let (Some(&(begin, until)), true) = (self.beyond.get(first), last > first) {
            if last == first + 1 && begin <= seq && end <= until {
                return false;
            }
            from = from.min(begin);
            to = to.max(self.beyond[last - 1].1);
        }
        self.beyond.splice(first..last, [(from, to)]);
        true
    }

    /// A reply leaves.
    pub(crate) fn replied(&mut self) {
        self.pending = 0;
    }

    /// The first ranges beyond the gap.
    pub(crate) fn sack(&self) -> Sack {
        let mut sack = Sack::default();
        for (place, &range) in sack.blocks.iter_mut().zip(self.beyond.iter().rev()) {
            *place = range;
            sack.len += 1;
        }
        sack
    }

    /// Whether something has come beyond a gap.
    pub(crate) fn has_gap(&self) -> bool {
        !self.beyond.is_empty()
    }

    /// A marked packet has come: whether to report congestion now (section 5.2 of DCQCN's paper).
    pub(crate) fn reports(&mut self, now: Time, interval: Span) -> bool {
        let due = self.reported.is_none_or(|last| now.since(last) >= interval);
        if due {
            self.reported = Some(now);
        }
        due
    }
}
