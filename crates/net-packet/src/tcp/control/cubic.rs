//! CUBIC (RFC 9438), in integers: windows in bytes, times in nanoseconds.

use super::hystart::HyStart;
use super::window::{Acked, Window};
use units::Time;

const NS_PER_S: u128 = 1_000_000_000;
const PS_PER_NS: u64 = 1_000;

/// Acknowledged segments for which the window grows by one at least while no loss has shown where
/// the path is full, as in Linux and ns-3: 5 % a round trip.
const PROBE: u64 = 20;

/// The state of CUBIC.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cubic {
    /// Window before the last reduction, less with fast convergence (`W_max`); 0 where none is known:
    /// before any loss, and after a timeout.
    most: u64,
    /// Window before the last reduction (`cwnd_prior`).
    prior: u64,
    /// Start of the present congestion avoidance.
    epoch: Option<Time>,
    /// The plateau of its curve, and nanoseconds until the window is there (`K`).
    plateau: u64,
    until: u64,
    /// Window of Reno since then (`W_est`).
    reno: u64,
    /// Parts of a segment by which `reno` will grow, bytes acknowledged times 17ths.
    part: u64,
    pub(super) hystart: HyStart,
}

impl Cubic {
    /// Sections 4.2 to 4.5. `probes`: while `W_max` is unknown the window grows by a segment for
    /// each [`PROBE`] at least.
    pub(super) fn avoid(&mut self, window: &mut Window, acked: &Acked, probes: bool) {
        let start = self.epoch.unwrap_or_else(|| self.begin(window, acked.now));
        // The window one round trip from now (section 4.2), between the present one and 1.5 times
        // it.
        let t = (acked.now.since(start) + acked.round_trip).0 / PS_PER_NS;
        let target = self.curve(t, window.segment).clamp(window.size, window.size * 3 / 2);
        let grown = u128::from(target - window.size) * u128::from(acked.bytes);
        let grown = (grown / u128::from(window.size)) as u64;
        let probes = probes && self.most == 0;
        let least = if probes { acked.bytes / PROBE } else { 0 };
        window.size += grown.max(least);
        self.be_friendly(window, acked.bytes, probes);
    }

    /// Congestion avoidance begins. K = cbrt((W_max - cwnd_epoch) / C), windows in segments, C =
    /// 0.4; 0 where `W_max` is unknown (sections 4.8 and 4.10).
    #[cold]
    fn begin(&mut self, window: &Window, now: Time) -> Time {
        self.epoch = Some(now);
        (self.reno, self.part) = (window.size, 0);
        self.plateau = self.most.max(window.size);
        let lack = u128::from(self.plateau - window.size) * 10;
        self.until = cube_root(lack * NS_PER_S.pow(3) / (4 * u128::from(window.segment)));
        now
    }

    /// Section 4.3: at least the window of Reno, with alpha = 3 (1 - beta) / (1 + beta) = 9 / 17
    /// until the window before the reduction, 1 from then on. `slowly`: 9 / 17 in any case.
    fn be_friendly(&mut self, window: &mut Window, bytes: u64, slowly: bool) {
        self.part += if slowly || self.reno < self.prior { 9 * bytes } else { 17 * bytes };
        let grown =
            u128::from(self.part) * u128::from(window.segment) / (17 * u128::from(window.size));
        if grown > 0 {
            self.reno += grown as u64;
            self.part = 0;
        }
        window.size = window.size.max(self.reno);
    }

    /// `C (t - K)^3 + W_max` with C = 0.4 segments per cubic second.
    fn curve(&self, t: u64, segment: u64) -> u64 {
        let off = u128::from(t.abs_diff(self.until)).min(60 * NS_PER_S);
        let bytes = 4 * u128::from(segment) * off.pow(3) / (10 * NS_PER_S.pow(3));
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if t < self.until {
            self.plateau.saturating_sub(bytes)
        } else {
            self.plateau.saturating_add(bytes)
        }
    }

    /// Section 4.6: 0.7 of what is under way. Section 4.7: a flow that is reduced before it has
    /// its window again leaves more to others.
    pub(super) fn reduced(&mut self, window: &Window, flight: u64) -> u64 {
        self.epoch = None;
        self.prior = window.size;
        self.most = if window.size < self.most { window.size * 17 / 20 } else { window.size };
        (flight * 7 / 10).max(2 * window.segment)
    }

    /// Section 4.8: where the path is full is unknown again.
    pub(super) fn timed_out(&mut self) {
        (self.epoch, self.most) = (None, 0);
        self.hystart.timed_out();
    }
}

/// The largest integer whose cube is at most `value`.
fn cube_root(value: u128) -> u64 {
    let (mut low, mut high) = (0u128, 1u128 << 42);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if middle.pow(3) <= value { low = middle } else { high = middle - 1 }
    }
    low as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

    #[test]
    fn cube_roots_are_exact() {
        for (value, root) in [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3)] {
            assert_eq!(cube_root(value), root);
        }
        let large = 1u128 << 41;
        assert_eq!(cube_root(large.pow(3)), 1 << 41);
        assert_eq!(cube_root(large.pow(3) - 1), (1 << 41) - 1);
    }

    /// Linux and ns-3: before any loss the window grows by a segment for every 20 acknowledged, which
    /// is 5 % a round trip; after one it follows the curve, which is flat within milliseconds.
    #[test]
    fn the_window_grows_by_5_percent_a_round_trip_before_any_loss() {
        for (probes, most, factor) in [(true, 0, 1.05f64), (false, 0, 1.0), (true, 250_000, 1.0)] {
            let mut cubic = Cubic { most, prior: most, ..Cubic::default() };
            let mut window =
                Window { size: 200_000, threshold: 0, segment: 1000, part: 0, rest: 0 };
            let mut now = Time(0);
            for _ in 0..10 {
                now = now + Span(200_000_000);
                for _ in 0..window.size / 2000 {
                    let acked = Acked {
                        now,
                        bytes: 2000,
                        upto: 0,
                        sent: 0,
                        marked: false,
                        round_trip: Span(200_000_000),
                    };
                    cubic.avoid(&mut window, &acked, probes);
                }
            }
            let (got, want) = (window.size as f64 / 2e5, factor.powi(10));
            // Reno's window adds at most a segment a round trip: 5 % of 200 in 10.
            assert!((got / want - 1.0).abs() < 0.06, "{probes} {most}: {got} against {want}");
            assert!(!probes || most > 0 || (got / want - 1.0).abs() < 0.01, "{got} against {want}");
        }
    }

    /// RFC 9438, section 4.8: after a timeout the curve begins at the window with K = 0.
    #[test]
    fn a_timeout_forgets_the_window_of_the_loss() {
        let mut cubic = Cubic::default();
        let mut window = Window { size: 100_000, threshold: 0, segment: 1000, part: 0, rest: 0 };
        assert_eq!(cubic.reduced(&window, 100_000), 70_000);
        cubic.timed_out();
        window.size = 70_000;
        cubic.begin(&window, Time(0));
        assert_eq!((cubic.until, cubic.plateau), (0, 70_000));
    }

    /// RFC 9438, section 4.2: at 0 the window is 0.7 W_max, at K it is W_max, and the curve is
    /// symmetric about K.
    #[test]
    fn the_window_follows_the_cubic_function() {
        let segment = 1000;
        let mut cubic = Cubic { most: 100 * segment, prior: 100 * segment, ..Cubic::default() };
        let mut window = Window { size: 70 * segment, threshold: 0, segment, part: 0, rest: 0 };
        let round_trip = Span(100_000_000_000);
        let mut now = Time(0);
        let mut at = Vec::new();
        // A window of segments each 100 ms, for 6 s.
        for _ in 0..60 {
            at.push(window.size);
            let (begin, segments) = (now, window.size / segment);
            for i in 0..segments {
                now = begin + Span(100_000_000_000 * i / segments);
                let acked =
                    Acked { now, bytes: segment, upto: 0, sent: 0, marked: false, round_trip };
                cubic.avoid(&mut window, &acked, false);
            }
            now = begin + Span(100_000_000_000);
        }
        // K = cbrt(30 / 0.4) = 4.217 s.
        let expected = |t: f64| 0.4 * (t - 4.217f64).powi(3) + 100.0;
        for (i, &size) in at.iter().enumerate().skip(1) {
            let (got, want) = (size as f64 / 1000.0, expected(i as f64 * 0.1 + 0.1));
            assert!((got / want - 1.0).abs() < 0.03, "at {i}: {got} against {want}");
        }
    }
}
