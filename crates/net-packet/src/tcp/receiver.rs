//! The receiving side of a connection: what has arrived, and when to acknowledge it.
//!
//! Sources: RFC 9293, section 3.8.6.3, and RFC 5681, section 4.2 (delayed acknowledgements; at once
//! for a segment out of order and for one that fills a gap); RFC 2018 (selective
//! acknowledgements).

use super::{Tcp, TcpControl};
use units::Time;

/// Most blocks of a selective acknowledgement without timestamps (RFC 2018, section 3).
pub(crate) const BLOCKS: usize = 4;

/// Selective acknowledgements of one packet: ranges of the stream, the latest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sack {
    pub blocks: [(u64, u64); BLOCKS],
    pub len: u8,
}

impl Sack {
    pub(crate) fn ranges(&self) -> &[(u64, u64)] {
        &self.blocks[..usize::from(self.len)]
    }
}

/// Answer to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Acknowledge at once.
    Now,
    /// Acknowledge when more has come, or later.
    Delay,
}

/// The receiving side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    /// Next byte in order.
    pub next: u64,
    /// Ranges beyond it that have arrived, ascending, and the clock of their last change.
    beyond: Vec<(u64, u64, u64)>,
    clock: u64,
    /// Segments that have come; the first of them are acknowledged at once.
    prompt: u32,
    /// Segments not yet acknowledged.
    pending: u32,
    /// When an acknowledgement must leave, if any is pending.
    pub due: Option<Time>,
    /// Acknowledgements echo marks.
    pub marked: bool,
}

impl Receiver {
    /// `len` bytes from `seq` on have arrived.
    #[inline]
    pub(crate) fn data(&mut self, (seq, len): (u64, u64), tcp: &Tcp) -> Answer {
        let end = seq + len;
        if seq == self.next && self.beyond.is_empty() {
            self.next = end;
            self.pending += 1;
            let at_once = self.pending >= tcp.ack_every || self.prompt < tcp.prompt_acks;
            self.prompt = self.prompt.saturating_add(1);
            return if at_once { Answer::Now } else { Answer::Delay };
        }
        self.prompt = self.prompt.saturating_add(1);
        self.out_of_order(seq, end);
        Answer::Now
    }

    /// A segment was marked or not; `reduced`: its sender has shrunk its window. Returns whether that
    /// is acknowledged at once. Marks are echoed until the sender has answered (RFC 3168, section
    /// 6.1.3), or just as they come, and a change at once (RFC 8257, section 3.2).
    #[inline]
    pub(crate) fn hears(&mut self, marked: bool, reduced: bool, tcp: &Tcp) -> bool {
        let before = self.marked;
        let exact = tcp.control == TcpControl::Dctcp;
        self.marked = marked || before && !reduced && !exact;
        exact && self.marked != before
    }

    /// A segment that is not the next one, or that comes while a gap is open.
    fn out_of_order(&mut self, seq: u64, end: u64) {
        self.pending += 1;
        if end <= self.next {
            return;
        }
        self.clock += 1;
        let (mut from, mut to) = (seq.max(self.next), end);
        let first = self.beyond.partition_point(|&(_, end, _)| end < from);
        let last = first + self.beyond[first..].partition_point(|&(begin, ..)| begin <= to);
        if let (Some(&(begin, ..)), true) = (self.beyond.get(first), last > first) {
            from = from.min(begin);
            to = to.max(self.beyond[last - 1].1);
        }
        let merged = (from, to, self.clock);
        self.beyond.splice(first..last, [merged]);
        if from <= self.next {
            self.next = to;
            self.beyond.remove(0);
        }
    }

    /// An acknowledgement leaves.
    #[inline]
    pub(crate) fn acknowledge(&mut self) {
        self.pending = 0;
        self.due = None;
    }

    /// Whether any range has arrived beyond a gap.
    #[inline]
    pub(crate) fn has_gap(&self) -> bool {
        !self.beyond.is_empty()
    }

    /// The ranges beyond the gap, the latest first (RFC 2018, section 4).
    pub(crate) fn sack(&self) -> Sack {
        let mut order: Vec<&(u64, u64, u64)> = self.beyond.iter().collect();
        order.sort_unstable_by_key(|range| std::cmp::Reverse(range.2));
        let mut sack = Sack::default();
        for (place, &&(from, to, _)) in sack.blocks.iter_mut().zip(&order) {
            *place = (from, to);
            sack.len += 1;
        }
        sack
    }
}
