//! Lookups by row: a stable radix sort, so that equal rows keep the order of the batch.

/// A lookup: its row, and what its gradient is found by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lookup {
    /// The row.
    pub row: u64,
    /// Which bag or which lookup of the batch.
    pub source: u64,
}

/// A packed lookup; rows and sources below 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packed(u64);

/// Properties of a lookup that the sort needs.
pub trait Key: Copy + Default + Ord + Send {
    /// A lookup of `row`.
    fn new(row: u64, source: u64) -> Self;
    /// Row of the lookup.
    fn row(self) -> u64;
    /// Source of the lookup.
    fn source(self) -> usize;
}

impl Key for Lookup {
    #[inline(always)]
    fn new(row: u64, source: u64) -> Self {
        Self { row, source }
    }
    #[inline(always)]
    fn row(self) -> u64 {
        self.row
    }
    #[inline(always)]
    fn source(self) -> usize {
        self.source as usize
    }
}

impl Key for Packed {
    #[inline(always)]
    fn new(row: u64, source: u64) -> Self {
        Self(row << 32 | source)
    }
    #[inline(always)]
    fn row(self) -> u64 {
        self.0 >> 32
    }
    #[inline(always)]
    fn source(self) -> usize {
        self.0 as u32 as usize
    }
}

/// Most bits of a digit: its counters stay in the first-level cache.
const DIGIT: u32 = 11;

/// Fewer lookups than this are sorted by comparison, because counters cost more.
const FEW: usize = 192;

/// Sorts `keys` by row, where all rows are in `first..=last`; equal rows keep their order, which is
/// that of their sources. `spare` is overwritten.
pub fn by_row<K: Key>(keys: &mut Vec<K>, spare: &mut Vec<K>, first: u64, last: u64) {
    if keys.len() < FEW {
        keys.sort_unstable();
        return;
    }
    let bits = (u64::BITS - (last - first).leading_zeros()).max(1);
    let passes = bits.div_ceil(DIGIT);
    let digit = bits.div_ceil(passes);
    spare.clear();
    spare.resize(keys.len(), K::default());
    let mut counts = vec![0u32; 1 << digit];
    for pass in 0..passes {
        let shift = pass * digit;
        let mask = (1u64 << digit) - 1;
        let bucket = |key: &K| ((key.row() - first) >> shift & mask) as usize;
        counts.fill(0);
        keys.iter().for_each(|key| counts[bucket(key)] += 1);
        let mut sum = 0;
        for count in &mut counts {
            sum += std::mem::replace(count, sum);
        }
        for key in &*keys {
            let place = &mut counts[bucket(key)];
            spare[*place as usize] = *key;
            *place += 1;
        }
        std::mem::swap(keys, spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::mix;

    fn sorts<K: Key + std::fmt::Debug>(count: u64, first: u64, last: u64) {
        let row = |at: u64| first + mix(at) % (last - first + 1);
        let mut keys: Vec<K> = (0..count).map(|at| K::new(row(at), at)).collect();
        let mut expected = keys.clone();
        expected.sort();
        by_row(&mut keys, &mut Vec::new(), first, last);
        assert_eq!(keys, expected);
    }

    #[test]
    fn lookups_are_sorted_by_row_and_then_by_source() {
        for count in [0, 1, 50, 500, 5000] {
            for last in [0, 1, 7, 1000, 1 << 20, u64::from(u32::MAX)] {
                sorts::<Packed>(count, 0, last);
                sorts::<Packed>(count, last / 2, last);
                sorts::<Lookup>(count, 0, last << 10);
            }
        }
    }
}
