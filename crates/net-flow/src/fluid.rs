//! Bytes that a flow has still to send, and their rate. Changes of rates read and write little else of a
//! flow, so it is kept apart.

use crate::limits::RATE_BITS;
use units::{PS_PER_US, Span, Time};

const PS_PER_S: u128 = PS_PER_US as u128 * 1_000_000;

/// The bytes of a flow that are on their way.
#[repr(align(64))]
pub(crate) struct Fluid {
    /// In units of rate times picoseconds, at the instant `at`.
    left: u128,
    /// Bytes sent in addition, had no rate been rounded.
    slack: u64,
    pub at: Time,
    /// When its drain is planned: no later than it drains.
    pub planned: Time,
    /// In units of rate.
    pub rate: u64,
    /// How much the flow counts where it shares a link.
    pub weight: u64,
    /// The rate was rounded down.
    pub rounded: bool,
}

/// Bytes in units of rate times picoseconds.
pub(crate) fn units_left(bytes: u64) -> u128 {
    (u128::from(bytes) * PS_PER_S) << RATE_BITS
}

impl Fluid {
    /// Fluid of a flow without a rate.
    pub(crate) fn new(bytes: u64, now: Time) -> Fluid {
        Fluid {
            left: units_left(bytes),
            slack: 0,
            at: now,
            planned: Time::MAX,
            rate: 0,
            weight: 1,
            rounded: false,
        }
    }

    /// Bytes that it has not sent then.
    pub(crate) fn left(&self, until: Time) -> u64 {
        let sent = u128::from(self.rate) * u128::from(until.since(self.at.min(until)).0);
        (self.left.saturating_sub(sent).div_ceil(PS_PER_S << RATE_BITS)) as u64
    }

    /// Goes on at another rate.
    #[inline]
    pub(crate) fn change(&mut self, now: Time, rate: u64, rounded: bool) {
        let span = now.since(self.at).0;
        let sent = u128::from(self.rate) * u128::from(span);
        self.left = self.left.saturating_sub(sent);
        if self.rounded {
            self.slack = self.slack.saturating_add(span.saturating_mul(self.weight));
        }
        (self.at, self.rate, self.rounded) = (now, rate, rounded);
    }

    /// When it drains at its rate: the first picosecond at which it can have sent everything. A
    /// rate that was rounded down is less than a unit of its weight too low.
    #[inline]
    pub(crate) fn drains(&self) -> Time {
        let left = self.left.saturating_sub(self.slack.into());
        let missing = if self.rounded { self.weight } else { 0 };
        let span = left.div_ceil(u128::from(self.rate) + u128::from(missing));
        self.at + Span(u64::try_from(span).unwrap_or(u64::MAX))
    }
}
