//! Whether a workload fits the memory of an NPU: the one rule, with three answers.
//!
//! What a workload needs is a prediction with an error (docs/models/memory.md). So an amount within
//! [`BAND_PERCENT`] of the capacity is neither said to fit nor said not to.

use crate::{Exceeded, Npu};
use units::Bytes;

/// Percent of the capacity, below and above it, in which an amount is near.
pub const BAND_PERCENT: u8 = 5;

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fits {
    /// It fits, or what is too much moves to memory outside of the NPU.
    Yes,
    /// The error of the prediction decides.
    Near,
    /// It does not.
    No,
}

impl Fits {
    /// Fit of `needed` bytes in a memory of `capacity` bytes.
    pub fn of(needed: u128, capacity: Bytes) -> Fits {
        let (sure, most) = Fits::limits(capacity);
        if needed > most.into() {
            Fits::No
        } else if needed > sure.into() {
            Fits::Near
        } else {
            Fits::Yes
        }
    }

    /// Fit of `least` to `most` bytes in a memory of `capacity` bytes. They are counted, so there
    /// is no band: it is near where only the count is uncertain.
    pub fn counted(least: u128, most: u128, capacity: u128) -> Fits {
        if least > capacity {
            Fits::No
        } else if most > capacity {
            Fits::Near
        } else {
            Fits::Yes
        }
    }

    /// The most bytes that fit a memory of `capacity` bytes, and the most that may.
    pub fn limits(capacity: Bytes) -> (u64, u64) {
        let (capacity, band) = (u128::from(capacity.0), u128::from(BAND_PERCENT));
        let part = |percent: u128| u64::try_from(capacity * percent / 100).unwrap_or(u64::MAX);
        (part(100 - band), part(100 + band))
    }

    /// `yes`, `near` or `no`, as reports say it.
    pub fn word(self) -> &'static str {
        match self {
            Fits::Yes => "yes",
            Fits::Near => "near",
            Fits::No => "no",
        }
    }
}

impl Npu {
    /// Whether a workload fits that needs `needed` bytes; `None` for an unknown capacity. A platform
    /// that refuses takes the amount as exact.
    pub fn fits(&self, needed: u128) -> Option<Fits> {
        let capacity = self.memory_capacity?;
        Some(match self.memory_on_overflow {
            Exceeded::Warn => Fits::of(needed, capacity),
            Exceeded::Refuse if needed > capacity.0.into() => Fits::No,
            Exceeded::Refuse | Exceeded::Spill => Fits::Yes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 80 GB with 5 % on both sides: 76 GB is the most that fits, 84 GB the most that is near.
    #[test]
    fn what_is_counted_has_no_band() {
        assert_eq!(Fits::counted(100, 100, 100), Fits::Yes);
        assert_eq!(Fits::counted(100, 101, 100), Fits::Near);
        assert_eq!(Fits::counted(101, 101, 100), Fits::No);
    }

    #[test]
    fn the_band_is_five_percent_on_both_sides() {
        let of = |needed| Fits::of(needed, Bytes(80_000_000_000));
        assert_eq!(of(0), Fits::Yes);
        assert_eq!(of(76_000_000_000), Fits::Yes);
        assert_eq!(of(76_000_000_001), Fits::Near);
        assert_eq!(of(83_170_000_000), Fits::Near);
        assert_eq!(of(84_000_000_000), Fits::Near);
        assert_eq!(of(84_000_000_001), Fits::No);
        assert_eq!(of(u128::MAX), Fits::No);
    }
}
