//! The quantity types. Parsing and printing are in `parse.rs` and `print.rs`.

use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Mul, Sub};

/// Picoseconds in one nanosecond.
pub const PS_PER_NS: u64 = 1_000;
/// Picoseconds in one microsecond.
pub const PS_PER_US: u64 = 1_000_000;
/// Picoseconds in one second.
const PS_PER_S: u128 = 1_000_000_000_000;

/// Bytes in a gigabyte, and nanoseconds in a second.
pub const GIGA: f64 = 1e9;
/// Operations in a teraoperation.
pub const TERA: f64 = 1e12;

/// A point in simulated time: picoseconds since the start of the run. Sums stop at [`Time::MAX`]
/// (213 days), which the executor refuses.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(pub u64);

/// A length of simulated time in picoseconds; sums and products stop at 2^64 - 1.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Span(pub u64);

/// A number of bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Bytes(pub u64);

/// Bytes per second; never zero when built by a parser.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Bandwidth(pub u64);

/// Floating-point operations per second; never zero when built by a parser.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Flops(pub u64);

/// Cycles per second; never zero when built by a parser.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Frequency(pub u64);

/// A factor in millionths; never zero when built by a parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ratio(pub u64);

impl Time {
    /// The start of every run.
    pub const ZERO: Time = Time(0);
    /// Later than any event.
    pub const MAX: Time = Time(u64::MAX);

    /// Length from `earlier` to `self`.
    ///
    /// # Panics
    /// When `earlier` is later than `self`: the caller's clock ran backwards.
    #[inline]
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.checked_sub(earlier.0).expect("time ran backwards"))
    }

    /// Nanoseconds, for people.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / PS_PER_NS as f64
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// Whole nanoseconds as a span.
    pub const fn from_ns(ns: u64) -> Span {
        Span(ns.saturating_mul(PS_PER_NS))
    }

    /// The span nearest to a number of microseconds: the only conversion from floating point.
    /// Negative numbers become zero, numbers beyond 2^64 ps that limit.
    pub fn from_us(us: f64) -> Span {
        Span((us * PS_PER_US as f64).round() as u64)
    }

    /// Nanoseconds, for people.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / PS_PER_NS as f64
    }

    /// Microseconds, for models in floating point.
    pub fn as_us(self) -> f64 {
        self.0 as f64 / PS_PER_US as f64
    }

    /// How much of an amount falls on this part of `whole`, over which it is spread evenly; rounded
    /// down.
    pub fn part(self, amount: u64, whole: Span) -> u64 {
        let product = u128::from(amount) * u128::from(self.0);
        product.checked_div(whole.0.into()).map_or(0, |part| part as u64).min(amount)
    }

    /// The length divided by `ratio`, rounded up to the picosecond.
    ///
    /// # Panics
    /// When the ratio is zero: parsers refuse it beforehand.
    pub fn over(self, ratio: Ratio) -> Span {
        let exact = u128::from(self.0) * u128::from(Ratio::ONE.0);
        Span(u64::try_from(exact.div_ceil(u128::from(ratio.0))).unwrap_or(u64::MAX))
    }

    /// The later part of two lengths, zero when `other` is longer.
    pub fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Bandwidth {
    /// Time to move `bytes` at this bandwidth, rounded up to the picosecond; `Span(u64::MAX)`
    /// beyond 2^64 ps (213 days).
    ///
    /// # Panics
    /// When the bandwidth is zero: parsers refuse it beforehand.
    #[inline]
    pub fn span(self, bytes: Bytes) -> Span {
        at_rate(u128::from(bytes.0), self.0)
    }

    /// This part of the bandwidth, rounded down to the byte per second but not to nothing.
    pub fn times(self, ratio: Ratio) -> Bandwidth {
        Bandwidth(ratio.of(self.0).max(1))
    }

    /// GB/s (1e9), for people.
    pub fn as_gb_per_s(self) -> f64 {
        self.0 as f64 / GIGA
    }
}

/// Time for `amount` at `rate` a second, rounded up to the picosecond.
#[inline]
fn at_rate(amount: u128, rate: u64) -> Span {
    let ps = amount.saturating_mul(PS_PER_S).div_ceil(u128::from(rate));
    Span(u64::try_from(ps).unwrap_or(u64::MAX))
}

impl Bytes {
    /// GB (1e9), for people.
    pub fn as_gb(self) -> f64 {
        self.0 as f64 / GIGA
    }
}

impl Flops {
    /// TFLOP/s (1e12), for people.
    pub fn as_tflops(self) -> f64 {
        self.0 as f64 / TERA
    }

    /// Time for `operations` at this rate, rounded up to the picosecond.
    pub fn span(self, operations: u128) -> Span {
        at_rate(operations, self.0)
    }

    /// This part of the rate, rounded down to the operation per second but not to nothing.
    pub fn times(self, ratio: Ratio) -> Flops {
        Flops(ratio.of(self.0).max(1))
    }
}

impl Frequency {
    /// Time of `cycles`, rounded up to the picosecond.
    pub fn span(self, cycles: u64) -> Span {
        Bandwidth(self.0).span(Bytes(cycles))
    }
}

impl Ratio {
    /// The whole.
    pub const ONE: Ratio = Ratio(1_000_000);

    /// The ratio as a number, for models in floating point.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Ratio::ONE.0 as f64
    }

    /// The product, rounded down but not to nothing.
    pub fn times(self, other: Ratio) -> Ratio {
        Ratio(other.of(self.0).max(1))
    }

    /// `value` times the ratio, rounded down.
    fn of(self, value: u64) -> u64 {
        let exact = u128::from(value) * u128::from(self.0) / u128::from(Ratio::ONE.0);
        u64::try_from(exact).unwrap_or(u64::MAX)
    }
}

impl Default for Ratio {
    fn default() -> Self {
        Ratio::ONE
    }
}

impl Add<Span> for Time {
    type Output = Time;
    #[inline]
    fn add(self, rhs: Span) -> Time {
        Time(self.0.saturating_add(rhs.0))
    }
}

impl Add for Span {
    type Output = Span;
    #[inline]
    fn add(self, rhs: Span) -> Span {
        Span(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, rhs: Span) {
        *self = *self + rhs;
    }
}

impl Sub for Span {
    type Output = Span;
    #[inline]
    fn sub(self, rhs: Span) -> Span {
        Span(self.0.checked_sub(rhs.0).expect("a negative span"))
    }
}

impl Mul<u64> for Span {
    type Output = Span;
    fn mul(self, rhs: u64) -> Span {
        Span(self.0.saturating_mul(rhs))
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, rhs: Bytes) -> Bytes {
        Bytes(self.0.checked_add(rhs.0).expect("a byte count passed 2^64"))
    }
}

impl std::iter::Sum for Span {
    fn sum<I: Iterator<Item = Span>>(iter: I) -> Span {
        iter.fold(Span::ZERO, |a, b| a + b)
    }
}
