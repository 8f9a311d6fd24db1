//! A distribution of times in bins that are 1.6 % wide.

use units::Span;

/// Bins for each power of two: 2^6.
const BITS: u32 = 6;

/// How often times occurred.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    bins: Vec<u64>,
    pub count: u64,
    sum: u128,
}

impl Histogram {
    #[inline]
    pub(crate) fn add(&mut self, span: Span) {
        let bin = bin(span.0);
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        self.count += 1;
        self.sum += u128::from(span.0);
    }

    /// The mean; zero of nothing.
    pub(crate) fn mean(&self) -> Span {
        let mean = self.sum / u128::from(self.count.max(1));
        Span(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The time below which `percent` of 100 lie, to 1.6 %; zero of nothing.
    pub(crate) fn percentile(&self, percent: u64) -> Span {
        let wanted = (u128::from(self.count) * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0u128;
        for (bin, &count) in self.bins.iter().enumerate() {
            seen += u128::from(count);
            if seen >= wanted {
                return Span(middle(bin));
            }
        }
        Span::ZERO
    }
}

fn bin(value: u64) -> usize {
    let power = value.max(1).ilog2();
    let shift = power.saturating_sub(BITS);
    ((shift as usize) << BITS) + (value >> shift) as usize
}

/// The value in the middle of a bin.
fn middle(bin: usize) -> u64 {
    if bin < 2 << BITS {
        return bin as u64;
    }
    let shift = (bin >> BITS) - 1;
    let first = ((bin - (shift << BITS)) as u64) << shift;
    first + (1 << shift >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_bin() {
        let mut histogram = Histogram::default();
        (1..=1000u64).for_each(|i| histogram.add(Span(i * 1_000_000)));
        for (percent, expected) in [(1, 10), (50, 500), (99, 990), (100, 1000)] {
            let found = histogram.percentile(percent).0 as f64 / 1e6;
            assert!((found / f64::from(expected) - 1.0).abs() < 0.016, "{percent}: {found}");
        }
        assert_eq!(histogram.mean(), Span(500_500_000));
        assert_eq!(Histogram::default().percentile(50), Span::ZERO);
    }

    #[test]
    fn every_value_is_in_the_bin_around_its_middle() {
        for value in (0..300).chain([1 << 20, (1 << 20) + 12_345, u64::MAX >> 1]) {
            let found = middle(bin(value));
            assert!(found.abs_diff(value) * 64 <= value, "{value} {found}");
        }
    }
}
