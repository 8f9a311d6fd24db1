//! Remainders by divisors that are known before, without divisions.
//!
//! For `value` and `rows` of 32 bits, `value mod rows` is the high half of `rows` times the low 64
//! bits of `value * ceil(2^64 / rows)` (Lemire, Kaser and Kurz, Faster remainder by direct
//! computation, 2019).

/// The row of a value in a table.
#[derive(Clone, Copy, Debug)]
pub enum Remainder {
    /// Values stay whole.
    Whole,
    /// By rows of 32 bits, and `ceil(2^64 / rows)`.
    Narrow(u32, u64),
    /// By rows of 64 bits.
    Wide(i64),
}

impl Remainder {
    pub fn new(rows: Option<i64>) -> Self {
        let Some(rows) = rows else { return Self::Whole };
        match u32::try_from(rows) {
            Ok(narrow) if narrow > 1 => {
                Self::Narrow(narrow, (u64::MAX / u64::from(narrow)).wrapping_add(1))
            }
            _ => Self::Wide(rows),
        }
    }

    /// The row of a value; from 0, also for a negative one.
    #[inline]
    pub fn of(self, value: i64) -> i64 {
        match (self, u32::try_from(value)) {
            (Self::Whole, _) => value,
            (Self::Narrow(rows, inverse), Ok(value)) => {
                let low = inverse.wrapping_mul(u64::from(value));
                ((u128::from(low) * u128::from(rows)) >> 64) as i64
            }
            (Self::Narrow(rows, _), Err(_)) => value.rem_euclid(i64::from(rows)),
            (Self::Wide(rows), _) => value.rem_euclid(rows),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Remainder;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn remainders_are_those_of_divisions(
            value in prop_oneof![any::<i64>(), 0..=i64::from(u32::MAX), -9..9_i64],
            rows in prop_oneof![1..=i64::MAX, 1..=i64::from(u32::MAX), 1..9_i64],
        ) {
            prop_assert_eq!(Remainder::new(Some(rows)).of(value), value.rem_euclid(rows));
            prop_assert_eq!(Remainder::new(None).of(value), value);
        }
    }
}
