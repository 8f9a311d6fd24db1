//! The round trips of a connection: all of them, and one each millisecond.

use engine::Histogram;
use units::{Span, Time};

/// How often one is taken (Rashidi et al., HOTI 2020, section IV-A).
const EVERY: u64 = 1_000_000_000;

/// Times from a packet to its acknowledgement.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundTrips {
    /// Every one, ps.
    pub all: Histogram<4>,
    pub longest: Span,
    /// The latest and when it was measured.
    latest: (Span, Time),
    /// How many were taken, and their sum.
    taken: (u64, u128),
}

impl RoundTrips {
    /// One was measured. Whatever whole milliseconds have passed since the one before take that.
    #[inline]
    pub(crate) fn measured(&mut self, now: Time, round_trip: Span) {
        let (latest, at) = self.latest;
        if self.all.count > 0 {
            let passed = now.0 / EVERY - at.0 / EVERY;
            self.taken.0 += passed;
            self.taken.1 += u128::from(passed) * u128::from(latest.0);
        }
        self.latest = (round_trip, now);
        self.all.add(round_trip.0);
        self.longest = self.longest.max(round_trip);
    }

    /// The mean of those that were taken; `None` where no millisecond passed.
    pub(crate) fn sampled(&self) -> Option<Span> {
        let (count, sum) = self.taken;
        (count > 0).then(|| Span(u64::try_from(sum / u128::from(count)).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_millisecond_takes_what_was_measured_last() {
        let (ms, us) = (1_000_000_000, 1_000_000);
        let mut trips = RoundTrips::default();
        trips.measured(Time(ms / 2), Span(10 * us));
        assert_eq!(trips.sampled(), None);
        trips.measured(Time(ms - 1), Span(20 * us));
        // The clock passes 1, 2 and 3 ms with 20 us, and 4 ms with 60.
        trips.measured(Time(3 * ms), Span(60 * us));
        trips.measured(Time(4 * ms + 1), Span(500 * us));
        assert_eq!(trips.sampled(), Some(Span((3 * 20 + 60) * us / 4)));
        assert_eq!((trips.all.count, trips.longest), (4, Span(500 * us)));
    }
}
