//! Hybrid slow start (Ha and Rhee, "Taming the elephants: New TCP slow start", Computer Networks
//! 55, 2011): slow start ends when the acknowledgements of a round trip come as a train longer than
//! the shortest round trip, or when round trips grow. Constants are those of Linux and ns-3.

use super::window::{Acked, Window};
use units::{Span, Time};

/// Segments below which slow start goes on.
const LOW_WINDOW: u64 = 16;
/// Acknowledgements at most so far apart are of one train.
const APART: Span = Span(2_000_000_000);
/// Round trips that stand for a round.
const SAMPLES: u8 = 8;
/// How much longer they must be: an eighth, within these bounds.
const DELAYS: (u64, u64) = (4_000_000_000, 16_000_000_000);

/// The state of hybrid slow start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HyStart {
    /// When the round began, and when the last acknowledgement of its train came; `None` before the
    /// first round.
    began: Time,
    last: Option<Time>,
    /// The round ends when this byte is acknowledged.
    end: u64,
    /// The shortest round trip, and that of this round.
    shortest: Option<Span>,
    current: Option<Span>,
    samples: u8,
}

impl HyStart {
    /// Hears of an acknowledgement in slow start. Returns whether slow start ends.
    pub(super) fn ends(&mut self, window: &Window, acked: &Acked) -> bool {
        let round_trip = acked.round_trip;
        let shortest = self.shortest.map_or(round_trip, |span| span.min(round_trip));
        self.shortest = Some(shortest);
        let ends =
            window.size >= LOW_WINDOW * window.segment && self.is_full(acked.now, shortest, acked);
        if acked.upto > self.end {
            (self.began, self.last, self.end) = (acked.now, Some(acked.now), acked.sent);
            (self.current, self.samples) = (None, 0);
        }
        ends
    }

    fn is_full(&mut self, now: Time, shortest: Span, acked: &Acked) -> bool {
        if self.last.is_some_and(|last| now.since(last) <= APART) {
            self.last = Some(now);
            if now.since(self.began) > shortest {
                return true;
            }
        }
        if self.samples < SAMPLES {
            self.samples += 1;
            let round_trip = acked.round_trip;
            self.current = Some(self.current.map_or(round_trip, |span| span.min(round_trip)));
            return false;
        }
        let more = Span((shortest.0 / 8).clamp(DELAYS.0, DELAYS.1));
        self.current.is_some_and(|current| current > shortest + more)
    }

    /// Forgets round trips after a timeout.
    pub(super) fn timed_out(&mut self) {
        *self = HyStart { end: self.end, ..HyStart::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Acknowledgements of one window of 20 segments, `apart` picoseconds from each other, with
    /// round trips of 100 us.
    fn ends(apart: u64) -> Option<u64> {
        let mut hystart = HyStart::default();
        let window = Window { size: 20_000, threshold: u64::MAX, segment: 1000, part: 0, rest: 0 };
        (1..=20).find(|&i| {
            let acked = Acked {
                now: Time(1_000_000_000_000 + i * apart),
                bytes: 1000,
                upto: i * 1000,
                sent: 20_000,
                marked: false,
                round_trip: Span(100_000_000),
            };
            hystart.ends(&window, &acked)
        })
    }

    /// A train as long as the round trip fills the path; a shorter one does not.
    #[test]
    fn a_long_train_ends_slow_start() {
        assert_eq!(ends(4_000_000), None, "19 times 4 us");
        assert_eq!(ends(10_000_000), Some(12), "after 10 times 10 us");
    }

    /// The first acknowledgement is not a train, however early in a run it comes.
    #[test]
    fn the_first_acknowledgement_does_not_end_slow_start() {
        let window = Window { size: 20_000, threshold: u64::MAX, segment: 1000, part: 0, rest: 0 };
        let round_trip = Span(100_000_000);
        let (now, sent) = (Time(100_000_001), 20_000);
        let acked = Acked { now, bytes: 1000, upto: 1000, sent, marked: false, round_trip };
        assert!(!HyStart::default().ends(&window, &acked));
    }
}
