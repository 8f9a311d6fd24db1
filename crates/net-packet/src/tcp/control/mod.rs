//! Congestion control: what sets the window. One algorithm one file.

mod cubic;
mod dctcp;
mod hystart;
mod new_reno;

use super::Tcp;
use cubic::Cubic;
use dctcp::Dctcp;
use units::{Span, Time};

/// The congestion window and where slow start ends, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub size: u64,
    pub threshold: u64,
    pub segment: u64,
    /// What congestion avoidance has not added yet, in bytes times the window.
    pub part: u64,
}

/// What an algorithm learns from an acknowledgement.
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

/// An algorithm and its state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Algorithm {
    NewReno,
    Cubic(Cubic),
    Dctcp(Dctcp),
}

impl Algorithm {
    pub(crate) fn new(control: super::Control) -> Algorithm {
        match control {
            super::Control::NewReno => Algorithm::NewReno,
            super::Control::Cubic => Algorithm::Cubic(Cubic::default()),
            super::Control::Dctcp => Algorithm::Dctcp(Dctcp::default()),
        }
    }

    /// Something new was acknowledged outside of recovery: the window grows.
    #[inline]
    pub(crate) fn grow(&mut self, window: &mut Window, acked: &Acked, tcp: &Tcp) {
        if let Algorithm::Cubic(cubic) = self
            && tcp.hystart
            && window.size < window.threshold
            && cubic.hystart.ends(window, acked)
        {
            window.threshold = window.size;
        }
        let bytes = if window.size < window.threshold {
            window.slow_start(acked.bytes, tcp.slow_start_limit)
        } else {
            acked.bytes
        };
        if bytes == 0 || window.size < window.threshold {
            return;
        }
        match self {
            Algorithm::NewReno | Algorithm::Dctcp(_) => new_reno::avoid(window),
            Algorithm::Cubic(cubic) => cubic.avoid(window, acked),
        }
    }

    /// The threshold after a loss or a mark with so many bytes under way.
    pub(crate) fn reduced(&mut self, window: &Window, flight: u64) -> u64 {
        match self {
            Algorithm::NewReno | Algorithm::Dctcp(_) => new_reno::reduced(window, flight),
            Algorithm::Cubic(cubic) => cubic.reduced(window, flight),
        }
    }

    /// The retransmission timer has expired.
    pub(crate) fn timed_out(&mut self) {
        if let Algorithm::Cubic(cubic) = self {
            cubic.timed_out();
        }
    }

    /// Hears of every acknowledgement. Returns the window to go on with where marks ask for less.
    #[inline]
    pub(crate) fn marks(&mut self, window: &Window, acked: &Acked) -> Option<u64> {
        match self {
            Algorithm::Dctcp(dctcp) => dctcp.acknowledged(window, acked),
            _ => None,
        }
    }
}

impl Window {
    /// RFC 5681, section 3.1: at most `limit` segments for each acknowledgement. Returns the bytes that
    /// count for congestion avoidance because the threshold was reached before them.
    #[inline]
    fn slow_start(&mut self, bytes: u64, limit: u32) -> u64 {
        let grown = self.size + bytes.min(self.segment * u64::from(limit.max(1)));
        self.size = grown.min(self.threshold);
        grown.saturating_sub(self.threshold)
    }
}
