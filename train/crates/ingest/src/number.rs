//! Numbers as text.

const INVALID: u8 = 0xff;

/// The value of a hexadecimal digit.
const DIGITS: [u8; 256] = {
    let mut made = [INVALID; 256];
    let mut digit = 0;
    while digit < 16 {
        let byte = b"0123456789abcdef"[digit];
        made[byte as usize] = digit as u8;
        made[byte.to_ascii_uppercase() as usize] = digit as u8;
        digit += 1;
    }
    made
};

/// Digits of a hexadecimal number, at most.
pub const MOST_HEX: usize = 8;
/// Digits of a whole number in a dense column, at most.
pub const MOST_WHOLE: usize = 9;

const ONES: u64 = 0x0101_0101_0101_0101;

/// A number of eight hexadecimal digits, all of them at once.
#[inline]
fn eight_digits(text: [u8; 8]) -> Option<i64> {
    let word = u64::from_le_bytes(text);
    let small = word | (word & (ONES * 0x40)) >> 1;
    let digits = (word & (ONES * 0x0f)) + (word >> 6 & ONES) * 9;
    // The text of these digits, which equals the given one only if all bytes were digits.
    let letters = (digits + ONES * 0x76) >> 7 & ONES;
    let again = digits + ONES * 0x30 + letters * 0x27;
    if again != small || digits & (ONES * 0xf0) != 0 {
        return None;
    }
    let bytes = (digits << 4 | digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let pairs = (bytes << 8 | bytes >> 16) & 0x0000_ffff_0000_ffff;
    Some(i64::from((pairs << 16 | pairs >> 32) as u32))
}

/// A number of one to eight hexadecimal digits.
#[inline]
pub fn hexadecimal(text: &[u8]) -> Option<i64> {
    if let Ok(eight) = text.try_into() {
        return eight_digits(eight);
    }
    if text.is_empty() || text.len() > MOST_HEX {
        return None;
    }
    let (mut value, mut wrong) = (0_u32, 0_u8);
    for byte in text {
        let digit = DIGITS[usize::from(*byte)];
        wrong |= digit;
        value = value << 4 | u32::from(digit & 15);
    }
    (wrong < 16).then_some(i64::from(value))
}

/// A whole number of one to `most` digits, which may be negative.
#[inline]
pub fn whole(text: &[u8], most: usize) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > most {
        return None;
    }
    let mut value = 0_i64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if negative { -value } else { value })
}

/// The whole number in the first `count` bytes, 1 to 8, which are digits; without branches, since
/// numbers of few digits vary in length. `None` for everything else, such as a sign.
#[inline]
pub fn digits(text: [u8; 8], count: usize) -> Option<i64> {
    let zeros = ONES * 0x30;
    // The last digit is in the highest byte; zeros are in front of the first.
    let (word, bits) = (u64::from_le_bytes(text), 8 * count as u32);
    let filled = word << (64 - bits) | zeros.checked_shr(bits).unwrap_or(0);
    let digits = filled ^ zeros;
    if (digits | digits.wrapping_add(ONES * 6)) & (ONES * 0xf0) != 0 {
        return None;
    }
    // Two, four and eight digits at a time.
    let pairs = (digits.wrapping_mul(10 << 8 | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100 << 16 | 1) >> 16) & 0x0000_ffff_0000_ffff;
    Some((fours.wrapping_mul(10_000 << 32 | 1) >> 32) as i64)
}

/// Bytes of a decimal number, at most.
const MOST_DECIMAL: usize = 40;

/// A finite decimal number, such as `-1.5e3`.
pub fn decimal(text: &[u8]) -> Option<f64> {
    if text.len() > MOST_DECIMAL || !text.iter().any(u8::is_ascii_digit) {
        return None;
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::{decimal, digits, hexadecimal, whole};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hexadecimal_numbers_are_those_of_std(text in "[0-9a-gA-G+\\-\u{1}\u{11}o]{0,2}[0-9a-fA-FO]{0,7}") {
            let sound = !text.contains('+') && text.len() <= 8;
            let expected = i64::from_str_radix(&text, 16).ok().filter(|value| sound && *value >= 0);
            prop_assert_eq!(hexadecimal(text.as_bytes()), expected);
        }

        #[test]
        fn digits_are_those_of_std(text in "[0-9]{8}|[-+0-9:/\u{1}\u{7f}]{8}", count in 1_usize..=8) {
            let some = &text[..count];
            let sound = some.bytes().all(|byte| byte.is_ascii_digit());
            let expected = some.parse().ok().filter(|_| sound);
            prop_assert_eq!(digits(text.as_bytes().try_into().unwrap(), count), expected);
        }

        #[test]
        fn whole_numbers_are_those_of_std(text in "-?[0-9:/]{0,10}") {
            let digits = text.trim_start_matches('-').len();
            let expected = text.parse().ok().filter(|_| digits <= 9);
            prop_assert_eq!(whole(text.as_bytes(), 9), expected);
        }
    }

    #[test]
    fn decimal_numbers_are_finite() {
        assert_eq!(decimal(b"-1.5e3"), Some(-1500.0));
        for wrong in ["", "nan", "inf", "1e999", "1,5", "0x10", "1 "] {
            assert_eq!(decimal(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
