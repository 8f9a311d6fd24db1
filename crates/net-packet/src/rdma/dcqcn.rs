//! DCQCN's reaction point: the rate of a connection.
//!
//! Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section
//! 5.2 and figure 7. Timers are computed when the rate is asked for: each interval that has passed
//! since takes effect in order.

use net_settings::packet::Dcqcn as Settings;
use units::{Bandwidth, Ratio, Span, Time};

/// `alpha` is counted in 1 / 2^20.
const ONE: u64 = 1 << 20;

/// The rate of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dcqcn {
    line: u64,
    /// Bytes per second: now, and the target.
    pub rate: u64,
    target: u64,
    alpha: u64,
    /// Since when no report has lowered the estimate, and since when the timer runs.
    alpha_since: Time,
    timer_since: Time,
    /// Steps by timer and by bytes since the last report.
    by_timer: u32,
    by_bytes: u32,
    sent: u64,
}

impl Dcqcn {
    /// A connection starts at the rate of its link.
    pub(crate) fn new(line: Bandwidth) -> Dcqcn {
        Dcqcn {
            line: line.0,
            rate: line.0,
            target: line.0,
            alpha: ONE,
            alpha_since: Time::ZERO,
            timer_since: Time::ZERO,
            by_timer: 0,
            by_bytes: 0,
            sent: 0,
        }
    }

    /// A report of congestion has come (equations 1 and 2).
    pub(crate) fn report(&mut self, now: Time, settings: &Settings) {
        self.update(now, settings);
        self.target = self.rate;
        let less = u128::from(self.rate) * u128::from(self.alpha) / u128::from(2 * ONE);
        self.rate = (self.rate - less as u64).max(settings.rate_min.0);
        self.alpha = weigh(self.alpha, settings.gain, ONE);
        (self.by_timer, self.by_bytes, self.sent) = (0, 0, 0);
        (self.alpha_since, self.timer_since) = (now, now);
    }

    /// `bytes` were sent.
    pub(crate) fn sent(&mut self, bytes: u64, settings: &Settings) {
        self.sent += bytes;
        while self.rate < self.line && self.sent >= settings.rate_bytes.0.max(1) {
            self.sent -= settings.rate_bytes.0.max(1);
            self.by_bytes += 1;
            self.rise(settings);
        }
    }

    /// Applies the changes of the time since then.
    pub(crate) fn update(&mut self, now: Time, settings: &Settings) {
        let alpha_interval = settings.alpha_interval.0.max(1);
        while now.since(self.alpha_since).0 >= alpha_interval && self.alpha > 0 {
            self.alpha = weigh(self.alpha, settings.gain, 0);
            self.alpha_since = self.alpha_since + Span(alpha_interval);
        }
        let rate_interval = settings.rate_interval.0.max(1);
        while self.rate < self.line && now.since(self.timer_since).0 >= rate_interval {
            self.timer_since = self.timer_since + Span(rate_interval);
            self.by_timer += 1;
            self.rise(settings);
        }
    }

    /// Fast recovery, additive increase, hyper increase (section 5.2, "rate increase").
    fn rise(&mut self, settings: &Settings) {
        let steps = settings.recovery_steps;
        if self.by_timer.min(self.by_bytes) > steps {
            let past = u64::from(self.by_timer.min(self.by_bytes) - steps);
            self.target =
                self.target.saturating_add(settings.hyper_increase.0.saturating_mul(past));
        } else if self.by_timer.max(self.by_bytes) > steps {
            self.target = self.target.saturating_add(settings.additive_increase.0);
        }
        self.target = self.target.min(self.line);
        self.rate = (self.rate + self.target).div_ceil(2).min(self.line);
    }
}

/// `(1 - gain) value + gain news`.
fn weigh(value: u64, gain: Ratio, news: u64) -> u64 {
    let one = u128::from(Ratio::ONE.0);
    let gain = u128::from(gain.0).min(one);
    ((u128::from(value) * (one - gain) + u128::from(news) * gain) / one) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Bandwidth = Bandwidth(5_000_000_000);

    fn us(time: u64) -> Time {
        Time(time * 1_000_000)
    }

    /// The first report halves the rate, as alpha starts at one. Five steps of fast recovery then
    /// each close half of the gap to the target.
    #[test]
    fn a_report_halves_the_rate_and_fast_recovery_returns() {
        let settings = Settings::default();
        let mut dcqcn = Dcqcn::new(LINE);
        dcqcn.report(us(10), &settings);
        assert_eq!(dcqcn.rate, LINE.0 / 2);
        let mut gap = LINE.0 / 2;
        for step in 1..=5 {
            dcqcn.update(us(10 + 55 * step), &settings);
            gap /= 2;
            assert!(dcqcn.rate.abs_diff(LINE.0 - gap) < 8, "step {step}: {}", dcqcn.rate);
        }
    }

    /// Without reports alpha falls by (1 - g) each 55 us: to 1/e after 256 intervals.
    #[test]
    fn the_estimate_decays() {
        let settings = Settings::default();
        let mut dcqcn = Dcqcn::new(LINE);
        dcqcn.update(us(256 * 55), &settings);
        let expected = ONE as f64 * (1.0f64 - 1.0 / 256.0).powi(256);
        assert!((dcqcn.alpha as f64 / expected - 1.0).abs() < 0.01, "{}", dcqcn.alpha);
    }

    /// After fast recovery the target rises by 40 Mb/s a step.
    #[test]
    fn the_target_rises_by_the_additive_step() {
        let settings = Settings::default();
        let mut dcqcn = Dcqcn::new(LINE);
        dcqcn.report(us(0), &settings);
        dcqcn.report(us(1), &settings);
        let target = dcqcn.target;
        dcqcn.update(us(1 + 55 * 8), &settings);
        assert_eq!(dcqcn.target, target + 3 * settings.additive_increase.0);
    }
}
