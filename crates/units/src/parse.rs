//! Quantities from text: `50 GB/s`, `400 Gb/s`, `1.5 us`, `80 GiB`, `989 TFLOPS`, `940 MHz`, `70.5
//! %`.
//!
//! The number is an exact decimal, the unit is required. GB = 1e9, GiB = 2^30, b = bits, B = bytes.
//! What falls between two integers is rounded so that no time gets shorter: spans up to the
//! picosecond, rates down to the byte (or operation) per second. Byte counts must be whole.

use crate::decimal::{self, QuantityError, Reason, Rounding};
use crate::{Bandwidth, Bytes, Flops, Frequency, Ratio, Span};
use std::str::FromStr;

const BANDWIDTH_ALLOWED: &str = "a number above zero with B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s, \
                                 or bits: kb/s, Mb/s, Gb/s, Tb/s, such as \"50 GB/s\"";
const SPAN_ALLOWED: &str = "a number with ps, ns, us, ms or s, such as \"1.5 us\"";
const BYTES_ALLOWED: &str =
    "a whole number of bytes with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, such as \"80 GB\"";
const FLOPS_ALLOWED: &str =
    "a number above zero with MFLOPS, GFLOPS, TFLOPS, PFLOPS or EFLOPS, such as \"989 TFLOPS\"";
const FREQUENCY_ALLOWED: &str = "a number above zero with Hz, kHz, MHz or GHz, such as \"940 MHz\"";
const RATIO_ALLOWED: &str =
    "a number of at least a millionth, or a percentage, such as 0.705 or \"70.5 %\"";

/// Bytes in one decimal or binary multiple: `""`, `k`, `M`, ..., `Ki`, `Mi`, ...
fn multiple(prefix: &str) -> Option<u64> {
    Some(match prefix {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "P" => 1_000_000_000_000_000,
        "E" => 1_000_000_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "Pi" => 1 << 50,
        _ => return None,
    })
}

fn bytes_unit(name: &str) -> Option<(u64, u64)> {
    Some((multiple(name.strip_suffix('B')?)?, 1))
}

fn bandwidth_unit(name: &str) -> Option<(u64, u64)> {
    if let Some(bits) = name
        .strip_suffix("bps")
        .or_else(|| name.strip_suffix("b/s"))
        .or_else(|| name.strip_suffix("bit/s"))
    {
        return Some((multiple(bits)?, 8));
    }
    bytes_unit(name.strip_suffix("/s").or_else(|| name.strip_suffix("ps"))?)
}

fn span_unit(name: &str) -> Option<(u64, u64)> {
    let ps = match name {
        "ps" => 1,
        "ns" => 1_000,
        "us" | "µs" | "μs" => 1_000_000,
        "ms" => 1_000_000_000,
        "s" => 1_000_000_000_000,
        _ => return None,
    };
    Some((ps, 1))
}

fn flops_unit(name: &str) -> Option<(u64, u64)> {
    let lower = name.to_ascii_lowercase();
    let tail = ["flop/s", "flops"].into_iter().find(|tail| lower.ends_with(tail))?;
    let prefix = &name[..name.len() - tail.len()];
    if prefix.ends_with('i') { None } else { Some((multiple(prefix)?, 1)) }
}

fn frequency_unit(name: &str) -> Option<(u64, u64)> {
    let prefix = name.strip_suffix("Hz")?;
    if prefix.ends_with('i') { None } else { Some((multiple(prefix)?, 1)) }
}

/// In millionths; a bare number is given the unit `x` before it is parsed.
fn ratio_unit(name: &str) -> Option<(u64, u64)> {
    match name {
        "x" => Some((1_000_000, 1)),
        "%" => Some((10_000, 1)),
        _ => None,
    }
}

fn error(
    quantity: &'static str,
    text: &str,
    reason: Reason,
    allowed: &'static str,
) -> QuantityError {
    QuantityError { quantity, text: text.trim().to_string(), reason, allowed }
}

fn above_zero(value: u64) -> Result<u64, Reason> {
    if value == 0 { Err(Reason::Zero) } else { Ok(value) }
}

impl FromStr for Bandwidth {
    type Err = QuantityError;

    /// Above zero; rounded down to whole bytes per second.
    fn from_str(text: &str) -> Result<Bandwidth, QuantityError> {
        let value = decimal::parse(text, Rounding::Down, bandwidth_unit).and_then(above_zero);
        value.map(Bandwidth).map_err(|reason| error("bandwidth", text, reason, BANDWIDTH_ALLOWED))
    }
}

impl FromStr for Span {
    type Err = QuantityError;

    /// Zero or more; rounded up to whole picoseconds.
    fn from_str(text: &str) -> Result<Span, QuantityError> {
        let value = decimal::parse(text, Rounding::Up, span_unit);
        value.map(Span).map_err(|reason| error("time", text, reason, SPAN_ALLOWED))
    }
}

impl FromStr for Bytes {
    type Err = QuantityError;

    /// Zero or more; must be a whole number of bytes.
    fn from_str(text: &str) -> Result<Bytes, QuantityError> {
        let value = decimal::parse(text, Rounding::Exact, bytes_unit);
        value.map(Bytes).map_err(|reason| error("size", text, reason, BYTES_ALLOWED))
    }
}

impl FromStr for Flops {
    type Err = QuantityError;

    /// Above zero; rounded down to whole operations per second.
    fn from_str(text: &str) -> Result<Flops, QuantityError> {
        let value = decimal::parse(text, Rounding::Down, flops_unit).and_then(above_zero);
        value.map(Flops).map_err(|reason| error("compute rate", text, reason, FLOPS_ALLOWED))
    }
}

impl FromStr for Frequency {
    type Err = QuantityError;

    /// Above zero; rounded down to whole cycles per second.
    fn from_str(text: &str) -> Result<Frequency, QuantityError> {
        let value = decimal::parse(text, Rounding::Down, frequency_unit).and_then(above_zero);
        value.map(Frequency).map_err(|reason| error("frequency", text, reason, FREQUENCY_ALLOWED))
    }
}

impl FromStr for Ratio {
    type Err = QuantityError;

    /// Above zero; rounded down to whole millionths.
    fn from_str(text: &str) -> Result<Ratio, QuantityError> {
        let bare = text.trim_end().ends_with(|c: char| c.is_ascii_digit() || c == '.');
        let whole = if bare { format!("{text} x") } else { text.to_string() };
        let value = decimal::parse(&whole, Rounding::Down, ratio_unit).and_then(above_zero);
        value.map(Ratio).map_err(|reason| error("ratio", text, reason, RATIO_ALLOWED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bandwidth_means_what_its_unit_says() {
        let cases = [
            ("50 GB/s", 50_000_000_000),
            ("50GB/s", 50_000_000_000),
            ("400 Gb/s", 50_000_000_000),
            ("400Gbps", 50_000_000_000),
            ("100 Gbit/s", 12_500_000_000),
            ("1 GiB/s", 1 << 30),
            // 46.6 * 2^30 = 50,036,368,998.4
            ("46.6 GiB/s", 50_036_368_998),
            ("3.35 TB/s", 3_350_000_000_000),
            ("1e3 MB/s", 1_000_000_000),
            ("1 B/s", 1),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse(), Ok(Bandwidth(expected)), "{text}");
        }
    }

    #[test]
    fn spans_round_up_and_sizes_must_be_whole() {
        let spans = [
            ("500 ns", 500_000),
            ("1.5 us", 1_500_000),
            ("0.7 ps", 1),
            ("0 ns", 0),
            ("2s", 2_000_000_000_000),
        ];
        for (text, expected) in spans {
            assert_eq!(text.parse(), Ok(Span(expected)), "{text}");
        }
        assert_eq!("1e-30 s".parse(), Ok(Span(1)));
        assert_eq!("1872.5 ns".parse(), Ok(Span(1_872_500)));
        let sizes = [
            ("80 GB", 80_000_000_000),
            ("80 GiB", 80 << 30),
            ("1 MiB", 1 << 20),
            ("64MB", 64_000_000),
            ("0.5 KiB", 512),
        ];
        for (text, expected) in sizes {
            assert_eq!(text.parse(), Ok(Bytes(expected)), "{text}");
        }
        let rates = [
            ("989 TFLOPS", 989_000_000_000_000),
            ("234 TFLOP/s", 234_000_000_000_000),
            ("1.5 PFlops", 1_500_000_000_000_000),
        ];
        for (text, expected) in rates {
            assert_eq!(text.parse(), Ok(Flops(expected)), "{text}");
        }
    }

    #[test]
    fn ratios_and_frequencies_mean_what_they_say() {
        let ratios = [
            ("0.705", 705_000),
            ("70.5 %", 705_000),
            ("2", 2_000_000),
            ("1e-6", 1),
            ("78.6%", 786_000),
        ];
        for (text, expected) in ratios {
            assert_eq!(text.parse(), Ok(Ratio(expected)), "{text}");
        }
        assert_eq!("0".parse::<Ratio>().unwrap_err().message(), "ratio \"0\" is zero");
        assert_eq!("-1".parse::<Ratio>().unwrap_err().message(), "ratio \"-1\" is negative");
        assert_eq!(
            "1 GB".parse::<Ratio>().unwrap_err().message(),
            "ratio \"1 GB\" has the unknown unit \"GB\""
        );
        assert_eq!("940 MHz".parse(), Ok(Frequency(940_000_000)));
        assert_eq!(
            "940".parse::<Frequency>().unwrap_err().message(),
            "frequency \"940\" has no unit"
        );
    }

    #[test]
    fn ratios_divide_spans_up_and_multiply_rates_down() {
        // 10 / 0.3 = 33.3..., 100 * 0.705 = 70.5
        assert_eq!(Span(10).over(Ratio(300_000)), Span(34));
        assert_eq!(Span(10).over(Ratio::ONE), Span(10));
        assert_eq!(Span(u64::MAX).over(Ratio(1)), Span(u64::MAX));
        assert_eq!(
            (Flops(100).times(Ratio(705_000)), Bandwidth(1).times(Ratio(1))),
            (Flops(70), Bandwidth(1))
        );
        // 3 cycles of 940 MHz: 3191.49 ps
        assert_eq!(Frequency(940_000_000).span(3), Span(3_192));
    }

    #[test]
    fn broken_text_gives_its_message() {
        let cases = [
            ("", "the bandwidth is empty"),
            ("fast", "bandwidth \"fast\" does not start with a number"),
            ("GB/s", "bandwidth \"GB/s\" does not start with a number"),
            ("1.2.3 GB/s", "bandwidth \"1.2.3 GB/s\" does not start with a number"),
            ("--5 GB/s", "bandwidth \"--5 GB/s\" does not start with a number"),
            ("-5 GB/s", "bandwidth \"-5 GB/s\" is negative"),
            ("nan GB/s", "bandwidth \"nan GB/s\" is not a finite number"),
            (".nan", "bandwidth \".nan\" is not a finite number"),
            ("-inf GB/s", "bandwidth \"-inf GB/s\" is not a finite number"),
            ("50", "bandwidth \"50\" has no unit"),
            ("50 GHz", "bandwidth \"50 GHz\" has the unknown unit \"GHz\""),
            ("50 gb/s", "bandwidth \"50 gb/s\" has the unknown unit \"gb/s\""),
            ("50 mB/s", "bandwidth \"50 mB/s\" has the unknown unit \"mB/s\""),
            ("0 GB/s", "bandwidth \"0 GB/s\" is zero"),
            ("0.1 B/s", "bandwidth \"0.1 B/s\" is zero"),
            ("1e30 GB/s", "bandwidth \"1e30 GB/s\" is too large"),
            ("1e99999999999 GB/s", "bandwidth \"1e99999999999 GB/s\" is too large"),
            (
                "1.00000000000000000001 GB/s",
                "bandwidth \"1.00000000000000000001 GB/s\" has too many digits",
            ),
        ];
        for (text, message) in cases {
            let error = text.parse::<Bandwidth>().unwrap_err();
            assert_eq!(error.message(), message);
            assert_eq!(error.allowed, BANDWIDTH_ALLOWED);
        }
        assert_eq!(
            "1.5 B".parse::<Bytes>().unwrap_err().message(),
            "size \"1.5 B\" is not a whole number of bytes"
        );
        assert_eq!(
            "10 TiFLOPS".parse::<Flops>().unwrap_err().reason,
            Reason::UnknownUnit("TiFLOPS".into())
        );
        assert_eq!(
            "5 min".parse::<Span>().unwrap_err().to_string(),
            "time \"5 min\" has the unknown unit \"min\" (allowed: a number with ps, ns, us, ms or s, such as \"1.5 us\")"
        );
    }

    proptest! {
        #[test]
        fn printed_quantities_read_back(value in 1u64..) {
            prop_assert_eq!(Bandwidth(value).to_string().parse(), Ok(Bandwidth(value)));
            prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
            prop_assert_eq!(Flops(value).to_string().parse(), Ok(Flops(value)));
            prop_assert_eq!(Span(value).to_string().parse(), Ok(Span(value)));
            prop_assert_eq!(Frequency(value).to_string().parse(), Ok(Frequency(value)));
            prop_assert_eq!(Ratio(value).to_string().parse(), Ok(Ratio(value)));
        }

        #[test]
        fn binary_multiples_read_back(value in 1u64..1 << 20, shift in 0u32..5) {
            let bytes = Bytes(value << (10 * shift));
            prop_assert_eq!(bytes.to_string().parse(), Ok(bytes));
            prop_assert_eq!(Bandwidth(bytes.0).to_string().parse(), Ok(Bandwidth(bytes.0)));
        }

        #[test]
        fn spans_are_the_smallest_that_are_not_shorter(thousandths in 0u64..1 << 50) {
            let text = format!("{}.{:03} ps", thousandths / 1000, thousandths % 1000);
            prop_assert_eq!(text.parse(), Ok(Span(thousandths.div_ceil(1000))));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<Bandwidth>();
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Flops>();
            let _ = text.parse::<Span>();
            let _ = text.parse::<Ratio>();
        }

        #[test]
        fn no_number_panics(text in "[-+]?[0-9.]{0,25}(e[-+]?[0-9]{0,12})? ?[a-zA-Zµ/]{0,8}") {
            let _ = text.parse::<Bandwidth>();
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Flops>();
            let _ = text.parse::<Span>();
        }
    }
}
