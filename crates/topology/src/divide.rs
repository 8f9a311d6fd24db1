//! Division by a number known beforehand, as one multiplication: routes divide ranks by dimension
//! sizes for every hop.
//!
//! `floor(x / d) = floor(x * ceil(2^64 / d) / 2^64)` for all 32-bit `x` and `d > 1` (Granlund and
//! Montgomery, PLDI 1994).

/// A divisor above zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    by: u32,
    /// `ceil(2^64 / by)`; 0 stands for 2^64, that is for division by one.
    reciprocal: u64,
}

impl Divisor {
    pub(crate) fn new(by: u32) -> Divisor {
        let reciprocal = if by == 1 { 0 } else { u64::MAX / u64::from(by) + 1 };
        Divisor { by, reciprocal }
    }

    /// Quotient and remainder.
    #[inline]
    pub(crate) fn split(self, x: u32) -> (u32, u32) {
        if self.reciprocal == 0 {
            return (x, 0);
        }
        let quotient = ((u128::from(self.reciprocal) * u128::from(x)) >> 64) as u32;
        (quotient, x - quotient * self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ends_of_the_range_divide_exactly() {
        for by in
            [1, 2, 3, 5, 7, 10, 641, 65_535, 65_536, 65_537, u32::MAX / 2, u32::MAX - 1, u32::MAX]
        {
            for x in
                [0, 1, by - 1, by, by.saturating_add(1), u32::MAX - 1, u32::MAX, u32::MAX / by * by]
            {
                assert_eq!(Divisor::new(by).split(x), (x / by, x % by), "{x} / {by}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_division_is_exact(x in any::<u32>(), by in 1u32.., shift in 0u32..32) {
            let by = (by >> shift).max(1);
            prop_assert_eq!(Divisor::new(by).split(x), (x / by, x % by));
        }
    }
}
