//! Exact decimal numbers times a unit, and the error every quantity parser gives.

/// Fault in the text of a quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing there.
    Empty,
    /// No number in front.
    NotANumber,
    /// Below zero.
    Negative,
    /// NaN or infinity.
    NotFinite,
    /// A number alone.
    NoUnit,
    /// An unknown unit.
    UnknownUnit(String),
    /// Zero, where zero means nothing.
    Zero,
    /// Not a whole number of the smallest unit (bytes).
    NotWhole,
    /// Beyond 64 bits.
    TooLarge,
    /// More significant digits than 64 bits hold.
    TooManyDigits,
}

/// A text that is not a quantity: the text, the reason, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantityError {
    /// `bandwidth`, `time`, ...
    pub quantity: &'static str,
    /// The text as given.
    pub text: String,
    /// Fault in the text.
    pub reason: Reason,
    /// Units and an example: `GB/s, GiB/s, Gb/s, ..., such as "50 GB/s"`.
    pub allowed: &'static str,
}

impl QuantityError {
    /// Description of the fault, with the value; the allowed values are in `allowed`.
    pub fn message(&self) -> String {
        let (quantity, text) = (self.quantity, &self.text);
        match &self.reason {
            Reason::Empty => format!("the {quantity} is empty"),
            Reason::NotANumber => format!("{quantity} \"{text}\" does not start with a number"),
            Reason::Negative => format!("{quantity} \"{text}\" is negative"),
            Reason::NotFinite => format!("{quantity} \"{text}\" is not a finite number"),
            Reason::NoUnit => format!("{quantity} \"{text}\" has no unit"),
            Reason::UnknownUnit(unit) => {
                format!("{quantity} \"{text}\" has the unknown unit \"{unit}\"")
            }
            Reason::Zero => format!("{quantity} \"{text}\" is zero"),
            Reason::NotWhole => format!("{quantity} \"{text}\" is not a whole number of bytes"),
            Reason::TooLarge => format!("{quantity} \"{text}\" is too large"),
            Reason::TooManyDigits => format!("{quantity} \"{text}\" has too many digits"),
        }
    }
}

impl std::fmt::Display for QuantityError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (allowed: {})", self.message(), self.allowed)
    }
}

impl std::error::Error for QuantityError {}

/// How a value between two integers becomes one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Spans: never shorter than stated.
    Up,
    /// Rates: never faster than stated, so that times are never shorter.
    Down,
    /// Bytes: refused unless whole.
    Exact,
}

/// `digits * 10^exponent`, exactly.
#[derive(Clone, Copy, Debug)]
struct Decimal {
    digits: u64,
    exponent: i32,
}

/// Splits `text` into a number and a unit and multiplies: `unit(name)` gives the unit as a fraction
/// `(numerator, denominator)`.
pub(crate) fn parse(
    text: &str,
    rounding: Rounding,
    unit: impl Fn(&str) -> Option<(u64, u64)>,
) -> Result<u64, Reason> {
    let text = text.trim();
    let (number, name) = split(text)?;
    let decimal = decimal(number)?;
    if name.is_empty() {
        return Err(Reason::NoUnit);
    }
    let scale = unit(name).ok_or_else(|| Reason::UnknownUnit(name.to_string()))?;
    multiply(decimal, scale, rounding)
}

/// The number and the trimmed rest; refuses what no quantity starts with.
fn split(text: &str) -> Result<(&str, &str), Reason> {
    let bare = text.trim_start_matches(['+', '-']);
    let letters = bare.trim_start_matches('.').chars().take_while(char::is_ascii_alphabetic);
    let word = letters.collect::<String>().to_ascii_lowercase();
    if text.is_empty() {
        return Err(Reason::Empty);
    }
    if matches!(word.as_str(), "nan" | "inf" | "infinity") {
        return Err(Reason::NotFinite);
    }
    if !bare.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit())
        || text.len() - bare.len() > 1
    {
        return Err(Reason::NotANumber);
    }
    if text.starts_with('-') {
        return Err(Reason::Negative);
    }
    let mantissa = bare.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(bare.len());
    let end = mantissa + exponent_length(&bare[mantissa..]);
    Ok((&bare[..end], bare[end..].trim_start()))
}

/// Length of `e12`, `E-3` at the start of `rest`; 0 when the `e` belongs to a unit.
fn exponent_length(rest: &str) -> usize {
    let Some(after) = rest.strip_prefix(['e', 'E']) else { return 0 };
    let digits = after.trim_start_matches(['+', '-']);
    let count = digits.chars().take_while(char::is_ascii_digit).count();
    if count == 0 || after.len() - digits.len() > 1 { 0 } else { rest.len() - digits.len() + count }
}

fn decimal(number: &str) -> Result<Decimal, Reason> {
    let (mantissa, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if fraction.contains('.') {
        return Err(Reason::NotANumber);
    }
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    let stripped = digits.trim_start_matches('0');
    let digits = if stripped.is_empty() {
        0
    } else {
        stripped.parse().map_err(|_| Reason::TooManyDigits)?
    };
    let power: i32 = power.parse().map_err(|_| Reason::TooLarge)?;
    Ok(Decimal {
        digits,
        exponent: power.clamp(-4_000, 4_000) - i32::try_from(fraction.len()).unwrap_or(i32::MAX),
    })
}

fn multiply(
    decimal: Decimal,
    (numerator, denominator): (u64, u64),
    rounding: Rounding,
) -> Result<u64, Reason> {
    if decimal.digits == 0 {
        return Ok(0);
    }
    let product = u128::from(decimal.digits) * u128::from(numerator);
    let power = 10u128.checked_pow(decimal.exponent.unsigned_abs());
    let (top, bottom) = if decimal.exponent >= 0 {
        let top = power.and_then(|p| product.checked_mul(p)).ok_or(Reason::TooLarge)?;
        (top, u128::from(denominator))
    } else {
        // A divisor past 2^128 leaves something between nothing and one.
        (product, power.and_then(|p| p.checked_mul(u128::from(denominator))).unwrap_or(u128::MAX))
    };
    let value = match rounding {
        Rounding::Up => top.div_ceil(bottom),
        Rounding::Down => top / bottom,
        Rounding::Exact if top % bottom != 0 => return Err(Reason::NotWhole),
        Rounding::Exact => top / bottom,
    };
    u64::try_from(value).map_err(|_| Reason::TooLarge)
}

/// `value / 10^places` as decimal text without trailing zeros.
pub(crate) fn print(value: u64, places: u32) -> String {
    let scale = 10u64.pow(places);
    let (whole, fraction) = (value / scale, value % scale);
    if fraction == 0 {
        return whole.to_string();
    }
    let fraction = format!("{fraction:0width$}", width = places as usize);
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}
