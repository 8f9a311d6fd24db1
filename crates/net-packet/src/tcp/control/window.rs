//! The window, and what an algorithm learns.

use units::{Span, Time};

/// The congestion window and where slow start ends, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub size: u64,
    pub threshold: u64,
    pub segment: u64,
    /// Growth that congestion avoidance has not added yet, in bytes times the window.
    pub part: u64,
    /// Acknowledged bytes that do not fill a segment yet, where only whole ones count.
    pub rest: u64,
}

/// Facts that an algorithm learns from an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub now: Time,
    /// Bytes acknowledged by it.
    pub bytes: u64,
    /// The first byte that is not acknowledged, and the first not sent.
    pub upto: u64,
    pub sent: u64,
    /// The receiver echoes marks.
    pub marked: bool,
    pub round_trip: Span,
}

impl Window {
    /// The whole segments of this number of bytes acknowledged and of the rest before.
    pub(super) fn whole(&mut self, bytes: u64) -> u64 {
        let all = self.rest + bytes;
        self.rest = all % self.segment;
        all - self.rest
    }

    /// RFC 5681, section 3.1: at most `limit` segments for each acknowledgement. Returns the bytes that
    /// count for congestion avoidance because the threshold was reached before them.
    #[inline]
    pub(super) fn slow_start(&mut self, bytes: u64, limit: u32) -> u64 {
        let grown = self.size + bytes.min(self.segment * u64::from(limit.max(1)));
        self.size = grown.min(self.threshold);
        grown.saturating_sub(self.threshold)
    }
}
