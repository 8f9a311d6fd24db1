//! Quantities for people: exact, in the largest unit that is not larger than the value; reading
//! them back gives the same.

use crate::decimal::print;
use crate::{Bandwidth, Bytes, Flops, Frequency, Ratio, Span, Time};
use std::fmt;

/// Decimal multiples with their power of ten, largest first.
const DECIMAL: [(&str, u32); 6] = [("E", 18), ("P", 15), ("T", 12), ("G", 9), ("M", 6), ("k", 3)];
/// Binary multiples with their power of two, largest first.
const BINARY: [(&str, u32); 5] = [("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];

/// `1 rank`, `8 ranks`: a count with a noun whose plural ends in "s".
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn decimal(value: u64, unit: &str) -> String {
    match DECIMAL.into_iter().find(|&(_, power)| value >= 10u64.pow(power)) {
        Some((prefix, power)) => format!("{} {prefix}{unit}", print(value, power)),
        None => format!("{value} {unit}"),
    }
}

/// The shorter of the decimal form and the whole binary one: `80 GB`, but `1 MiB`.
fn bytes(value: u64, unit: &str) -> String {
    let decimal = decimal(value, unit);
    let whole = BINARY.into_iter().find(|&(_, shift)| value > 0 && value.trailing_zeros() >= shift);
    let binary = whole.map(|(prefix, shift)| format!("{} {prefix}{unit}", value >> shift));
    binary.filter(|b| b.len() < decimal.len()).unwrap_or(decimal)
}

fn time(ps: u64) -> String {
    let units = [("s", 12), ("ms", 9), ("us", 6), ("ns", 3), ("ps", 0)];
    let (unit, power) =
        units.into_iter().find(|&(_, power)| ps >= 10u64.pow(power)).unwrap_or(("ns", 3));
    format!("{} {unit}", print(ps, power))
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&bytes(self.0, "B/s"))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&bytes(self.0, "B"))
    }
}

impl fmt::Display for Flops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&decimal(self.0, "FLOPS"))
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&decimal(self.0, "Hz"))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&print(self.0, 6))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&time(self.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&time(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_the_usual_units() {
        assert_eq!(Bandwidth(50_000_000_000).to_string(), "50 GB/s");
        assert_eq!(Bandwidth(50_036_368_998).to_string(), "50.036368998 GB/s");
        assert_eq!(Bandwidth(3_350_000_000_000).to_string(), "3.35 TB/s");
        assert_eq!(Bytes(80_000_000_000).to_string(), "80 GB");
        assert_eq!(Bytes(80 << 30).to_string(), "80 GiB");
        assert_eq!(Bytes(1000).to_string(), "1 kB");
        assert_eq!(Bytes(1024).to_string(), "1 KiB");
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Span(0).to_string(), "0 ns");
        assert_eq!(Span(1_500_000).to_string(), "1.5 us");
        assert_eq!(Span(700).to_string(), "700 ps");
        assert_eq!(Flops(989_000_000_000_000).to_string(), "989 TFLOPS");
        assert_eq!(Frequency(940_000_000).to_string(), "940 MHz");
        assert_eq!(
            (Ratio(705_000).to_string(), Ratio::ONE.to_string()),
            ("0.705".into(), "1".into())
        );
        assert_eq!(format!("{:>10}", Bytes(64)), "      64 B");
    }
}
