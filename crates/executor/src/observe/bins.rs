//! Activity over time in a bounded number of bins: exact sums of rank time, in whatever order they
//! come.
//!
//! A bin is 2^k picoseconds wide. When a time lies beyond the last bin, pairs of bins are merged
//! and k grows by one.

use units::Time;

/// Bins by default.
const USUAL: u64 = 512;

/// Rank-picoseconds by bin, in at most `COUNT` bins.
#[derive(Clone, Debug, Default)]
pub(super) struct Bins<const COUNT: u64 = USUAL> {
    /// log2 of the width, ps.
    shift: u32,
    sums: Vec<u128>,
}

impl<const COUNT: u64> Bins<COUNT> {
    /// Adds `weight` ranks between two times.
    pub(super) fn add(&mut self, from: Time, to: Time, weight: u64) {
        if to <= from {
            return;
        }
        while (to.0 - 1) >> self.shift >= COUNT {
            self.merge();
        }
        let (first, last) = (from.0 >> self.shift, (to.0 - 1) >> self.shift);
        if self.sums.len() <= last as usize {
            self.sums.resize(last as usize + 1, 0);
        }
        for bin in first..=last {
            let begin = u128::from(bin) << self.shift;
            let end = begin + (1 << self.shift);
            let overlap = end.min(to.0.into()) - begin.max(from.0.into());
            self.sums[bin as usize] += overlap * u128::from(weight);
        }
    }

    fn merge(&mut self) {
        self.sums = self.sums.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.shift += 1;
    }

    /// Brings the bins to the width in which a run of `step` is shown.
    fn widen(&mut self, step: Time) {
        while step.0.saturating_sub(1) >> self.shift >= COUNT {
            self.merge();
        }
    }

    /// Rank time in each bin of a run of `step`, ns.
    pub(super) fn sums(mut self, step: Time) -> Vec<f64> {
        self.fit(step);
        self.sums.iter().map(|&sum| sum as f64 / 1e3).collect()
    }

    /// Rank time in each bin of a run of `step`, ps.
    pub(super) fn exact(mut self, step: Time) -> Vec<u128> {
        self.fit(step);
        self.sums
    }

    /// Brings the bins to those of a run of `step`.
    fn fit(&mut self, step: Time) {
        self.widen(step);
        self.sums.resize(step.0.div_ceil(width_in(step, COUNT)) as usize, 0);
    }

    /// The mean number of ranks in each bin of a run of `step`, divided by `ranks`. The last bin
    /// ends with the run.
    pub(super) fn means(mut self, step: Time, ranks: f64) -> Vec<f64> {
        self.fit(step);
        let width = width_in(step, COUNT);
        let long = |bin: usize| (width as f64).min((step.0 - bin as u64 * width) as f64);
        self.sums.iter().enumerate().map(|(bin, &sum)| sum as f64 / long(bin) / ranks).collect()
    }
}

/// Width of the bins of a run of `step`, ps.
pub(super) fn width(step: Time) -> u64 {
    width_in(step, USUAL)
}

/// The same for at most `count` bins.
pub(super) fn width_in(step: Time, count: u64) -> u64 {
    let mut shift = 0;
    while step.0.saturating_sub(1) >> shift >= count {
        shift += 1;
    }
    1 << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: for every bin, the overlap with every interval.
    fn by_definition(intervals: &[(u64, u64, u64)], step: u64) -> Vec<f64> {
        let width = width(Time(step));
        let overlap = |a: u64, b: u64, from: u64, to: u64| b.min(to).saturating_sub(a.max(from));
        (0..step.div_ceil(width))
            .map(|bin| (bin * width, ((bin + 1) * width).min(step)))
            .map(|(a, b)| {
                let sum: u64 = intervals
                    .iter()
                    .map(|&(from, to, weight)| overlap(a, b, from, to) * weight)
                    .sum();
                sum as f64 / (b - a) as f64
            })
            .collect()
    }

    proptest! {
        #[test]
        fn bins_hold_the_overlap_with_every_interval(
            mut intervals in prop::collection::vec((0u64..5000, 0u64..5000, 1u64..9), 1..40),
            scale in 0u32..20,
        ) {
            intervals.iter_mut().for_each(|i| *i = (i.0.min(i.1) << scale, i.0.max(i.1) << scale, i.2));
            let step = intervals.iter().map(|i| i.1).max().unwrap_or(0).max(1);
            let mut bins = <Bins>::default();
            intervals.iter().for_each(|&(from, to, weight)| bins.add(Time(from), Time(to), weight));
            let means = bins.means(Time(step), 1.0);
            let expected = by_definition(&intervals, step);
            prop_assert_eq!(means.len(), expected.len());
            prop_assert!(means.len() <= 512);
            for (mean, expected) in means.iter().zip(expected) {
                prop_assert!((mean - expected).abs() <= 1e-9 * expected.max(1.0), "{} is not {}", mean, expected);
            }
        }
    }

    #[test]
    fn a_run_that_takes_no_time_has_no_bins() {
        assert!(<Bins>::default().means(Time(0), 1.0).is_empty());
    }
}
