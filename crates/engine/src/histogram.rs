//! A distribution of times or bytes in bins whose width grows with the value.

/// How often values occurred. Bins are `2^-BITS` of their value wide; only those between the least
/// and the largest value are stored.
#[derive(Clone, Debug, Default)]
pub struct Histogram<const BITS: u32> {
    /// Number of the first bin that is stored.
    first: usize,
    bins: Vec<u64>,
    /// How many values were counted.
    pub count: u64,
    /// The largest of them.
    pub max: u64,
    sum: u128,
}

impl<const BITS: u32> Histogram<BITS> {
    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_times(value, 1);
    }

    /// Counts a value several times.
    #[inline]
    pub fn add_times(&mut self, value: u64, times: u64) {
        let bin = Self::bin(value);
        let at = bin.wrapping_sub(self.first);
        if at < self.bins.len() {
            self.bins[at] += times;
        } else {
            self.stretch(bin, times);
        }
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        self.max = self.max.max(value);
    }

    /// Counts in a bin that is not stored yet.
    #[cold]
    fn stretch(&mut self, bin: usize, times: u64) {
        if self.bins.is_empty() {
            self.first = bin;
        } else if bin < self.first {
            self.bins.splice(0..0, std::iter::repeat_n(0, self.first - bin));
            self.first = bin;
        }
        let at = bin - self.first;
        if at >= self.bins.len() {
            self.bins.resize(at + 1, 0);
        }
        self.bins[at] += times;
    }

    /// The mean; zero of nothing.
    pub fn mean(&self) -> u64 {
        self.mean_times(1)
    }

    /// The mean times a factor, rounded down; zero of nothing.
    pub fn mean_times(&self, factor: u64) -> u64 {
        let mean = self.sum * u128::from(factor) / u128::from(self.count.max(1));
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// The value that `percent` of 100 do not exceed, to half a bin; zero of nothing.
    pub fn percentile(&self, percent: u64) -> u64 {
        self.per_mille(percent * 10)
    }

    /// The value that `part` of 1,000 do not exceed, to half a bin; zero of nothing.
    pub fn per_mille(&self, part: u64) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(part)).div_ceil(1000).max(1);
        let mut seen = 0u128;
        for (at, &count) in self.bins.iter().enumerate() {
            seen += u128::from(count);
            if seen >= wanted {
                return Self::middle(self.first + at);
            }
        }
        0
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_bin() {
        // From the middle outwards, so that bins are added at both ends.
        let mut values: Vec<u64> = (1..=1000).map(|i| i * 1_000_000).collect();
        values.sort_by_key(|value| value.abs_diff(500_000_000));
        let mut histogram = Histogram::<6>::default();
        values.into_iter().for_each(|value| histogram.add(value));
        for (percent, expected) in [(1, 10), (50, 500), (99, 990), (100, 1000)] {
            let found = histogram.percentile(percent) as f64 / 1e6;
            assert!((found / f64::from(expected) - 1.0).abs() < 0.016, "{percent}: {found}");
        }
        assert_eq!(histogram.mean(), 500_500_000);
        assert_eq!(histogram.count, 1000);
        assert_eq!(histogram.max, 1_000_000_000);
        assert_eq!(Histogram::<6>::default().percentile(50), 0);
    }

    #[test]
    fn every_value_is_in_the_bin_around_its_middle() {
        for value in (0..300).chain([1 << 20, (1 << 20) + 12_345, u64::MAX >> 1]) {
            let found = Histogram::<6>::middle(Histogram::<6>::bin(value));
            assert!(found.abs_diff(value) * 64 <= value, "{value} {found}");
        }
    }
}
