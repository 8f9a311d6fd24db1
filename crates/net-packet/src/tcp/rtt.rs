//! The retransmission timeout (RFC 6298).

use super::Tcp;
use units::Span;

/// A tick of Linux's clock at 1,000 Hz, and of ns-3's for TCP.
const TICK: Span = Span(1_000_000_000);

/// Smoothed round-trip time, its variation, and the timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    smoothed: (Span, Span),
    measured: bool,
    /// How often the timeout has doubled since something new was acknowledged.
    doubled: u32,
}

impl Rtt {
    /// The estimate after a handshake that took `round_trip`.
    pub(crate) fn new(round_trip: Span) -> Rtt {
        let mut rtt = Rtt { smoothed: (Span::ZERO, Span::ZERO), doubled: 0, measured: false };
        rtt.sample(round_trip);
        rtt
    }

    /// A segment that was sent once was acknowledged after `sample` (section 2, with alpha 1/8 and
    /// beta 1/4).
    pub(crate) fn sample(&mut self, sample: Span) {
        let (mean, variation) = self.smoothed;
        self.smoothed = if self.measured {
            let off = mean.0.abs_diff(sample.0);
            (Span((7 * mean.0 + sample.0) / 8), Span((3 * variation.0 + off) / 4))
        } else {
            (sample, Span(sample.0 / 2))
        };
        self.measured = true;
    }

    /// Something new was acknowledged: back-off ends.
    pub(crate) fn progress(&mut self) {
        self.doubled = 0;
    }

    /// Nothing has timed out since something new was acknowledged.
    pub(crate) fn is_first_timeout(&self) -> bool {
        self.doubled == 0
    }

    /// The timer has expired (section 5.5).
    pub(crate) fn back_off(&mut self) {
        self.doubled = (self.doubled + 1).min(40);
    }

    /// The timeout (sections 2.3 and 2.4). A steady path has no variation; so that its timeout does
    /// not expire when its acknowledgement is due, there is a granularity of the clock: Linux's and
    /// ns-3's 1 ms, or the least timeout if that is shorter.
    pub(crate) fn timeout(&self, tcp: &Tcp) -> Span {
        let (mean, variation) = self.smoothed;
        let granularity = TICK.min(tcp.rto_min);
        let base = Span(mean.0 + (4 * variation.0).max(granularity.0));
        let base = u128::from(base.max(tcp.rto_min).0) << self.doubled;
        Span(u64::try_from(base).unwrap_or(u64::MAX)).min(tcp.rto_max.max(tcp.rto_min))
    }

    /// The smoothed round-trip time.
    pub(crate) fn smoothed(&self) -> Span {
        self.smoothed.0
    }
}
