//! Where fields end: 64 bytes at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
/// Bytes that are looked at together.
const BLOCK: usize = 64;

/// The highest bit of each byte that is zero, and no other.
#[inline]
fn zeros(word: u64) -> u64 {
    !(((word & LOW) + LOW) | word | LOW)
}

/// The highest bits of eight bytes, next to each other.
#[inline]
fn gathered(marks: u64) -> u64 {
    (marks >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// The places of two bytes in a text, in order.
#[derive(Clone)]
pub struct Ends<'a> {
    text: &'a [u8],
    words: [u64; 2],
    /// Where the block that is looked at begins.
    base: usize,
    /// Places in the block that are left, one bit each.
    left: u64,
}

impl<'a> Ends<'a> {
    pub fn new(text: &'a [u8], one: u8, other: u8) -> Self {
        let words = [ONES * u64::from(one), ONES * u64::from(other)];
        let mut made = Self { text, words, base: 0, left: 0 };
        made.left = made.block();
        made
    }

    /// The next place; the length of the text if there is none.
    #[inline]
    pub fn next(&mut self) -> usize {
        while self.left == 0 {
            self.base += BLOCK;
            if self.base >= self.text.len() {
                self.base = self.text.len();
                return self.base;
            }
            self.left = self.block();
        }
        let place = self.base + self.left.trailing_zeros() as usize;
        self.left &= self.left - 1;
        place
    }

    /// Goes on with the first place from `at` on.
    pub fn seek(&mut self, at: usize) {
        self.base = at.min(self.text.len());
        self.left = self.block();
    }

    /// The places in the block at `base`.
    #[inline]
    fn block(&self) -> u64 {
        let rest = &self.text[self.base..];
        if let Some(block) = rest.first_chunk::<BLOCK>() {
            return self.places(block);
        }
        let mut block = [0; BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        self.places(&block) & ((1 << rest.len()) - 1)
    }

    #[inline]
    fn places(&self, block: &[u8; BLOCK]) -> u64 {
        let mut found = 0;
        for (number, some) in block.as_chunks::<8>().0.iter().enumerate() {
            let word = u64::from_le_bytes(*some);
            let marks = zeros(word ^ self.words[0]) | zeros(word ^ self.words[1]);
            found |= gathered(marks) << (8 * number);
        }
        found
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
        fn all_ends_are_found(text in "[\t\n\u{8}\u{b}\u{c}a-c\u{ff}\u{0}]{0,200}", at in 0_usize..210) {
            let bytes = text.as_bytes();
            let mut ends = Ends::new(bytes, b'\t', b'\n');
            let expected = |at: usize| -> Vec<usize> {
                let is_end = |place: &usize| matches!(bytes[*place], b'\t' | b'\n');
                (at.min(bytes.len())..bytes.len()).filter(is_end).collect()
            };
            let all = |ends: &mut Ends<'_>| -> Vec<usize> {
                std::iter::from_fn(|| Some(ends.next()).filter(|place| *place < bytes.len())).collect()
            };
            prop_assert_eq!(all(&mut ends), expected(0));
            prop_assert_eq!(ends.next(), bytes.len());
            ends.seek(at);
            prop_assert_eq!(all(&mut ends), expected(at));
        }

        #[test]
        fn lines_are_counted(text in "[\nab]{0,700}") {
            prop_assert_eq!(lines(text.as_bytes()), text.lines().count());
        }
    }
}
