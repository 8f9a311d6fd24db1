//! Where a field ends: eight bytes at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Marks zero bytes by their highest bit. Bytes above the lowest mark may be marked wrongly.
#[inline]
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGH
}

/// Finds one of two bytes.
#[derive(Clone, Copy)]
pub struct Ends {
    bytes: [u8; 2],
    words: [u64; 2],
}

impl Ends {
    pub fn new(one: u8, other: u8) -> Self {
        Self { bytes: [one, other], words: [ONES * u64::from(one), ONES * u64::from(other)] }
    }

    /// Place of the first such byte from `at` on; the length of the text if there is none.
    #[inline]
    pub fn find(&self, text: &[u8], mut at: usize) -> usize {
        while let Some(some) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) {
            let word = u64::from_le_bytes(*some);
            let marks = zeros(word ^ self.words[0]) | zeros(word ^ self.words[1]);
            if marks != 0 {
                return at + marks.trailing_zeros() as usize / 8;
            }
            at += 8;
        }
        let rest = text.get(at..).unwrap_or_default();
        at + rest.iter().position(|byte| self.bytes.contains(byte)).unwrap_or(rest.len())
    }
}

/// Lines of a text: its line ends, and what is behind the last one.
pub fn lines(text: &[u8]) -> usize {
    let whole: usize = text
        .chunks(255)
        .map(|some| usize::from(some.iter().fold(0_u8, |sum, byte| sum + u8::from(*byte == b'\n'))))
        .sum();
    whole + usize::from(text.last().is_some_and(|byte| *byte != b'\n'))
}

#[cfg(test)]
mod tests {
    use super::{Ends, lines};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_end_is_found(text in "[\t\n\u{8}\u{b}\u{c}a-c\u{ff}]{0,40}", at in 0_usize..50) {
            let bytes = text.as_bytes();
            let ends = Ends::new(b'\t', b'\n');
            let expected = bytes
                .iter()
                .enumerate()
                .skip(at)
                .find(|(_, byte)| **byte == b'\t' || **byte == b'\n')
                .map_or(bytes.len().max(at), |(place, _)| place);
            prop_assert_eq!(ends.find(bytes, at), expected);
        }

        #[test]
        fn lines_are_counted(text in "[\nab]{0,700}") {
            prop_assert_eq!(lines(text.as_bytes()), text.lines().count());
        }
    }
}
