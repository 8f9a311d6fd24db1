//! Rows of bits, and of what each port has.

use std::ops::{Index, IndexMut};

/// The first bit that is set, from a place on and round; there is one.
#[inline]
pub(crate) fn first_from(bits: u64, place: u32) -> u32 {
    let high = bits & (u64::MAX << place);
    if high != 0 { high.trailing_zeros() } else { bits.trailing_zeros() }
}

/// The same in a row of words; `None` if no bit is set.
#[inline]
pub(crate) fn next_from(words: &[u64], place: usize) -> Option<usize> {
    if let &[bits] = words {
        return (bits != 0).then(|| first_from(bits, place as u32 % 64) as usize);
    }
    let low = u64::MAX << (place % 64);
    let count = words.len();
    (0..=count).find_map(|step| {
        let at = (place / 64 + step) % count;
        let bits = match step {
            0 => words[at] & low,
            _ if step == count => words[at] & !low,
            _ => words[at],
        };
        (bits != 0).then(|| at * 64 + bits.trailing_zeros() as usize)
    })
}

/// Something for each of 64 ports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<T>([T; 64]);

impl<T: Copy> Row<T> {
    /// The same for all.
    pub(crate) fn new(all: T) -> Row<T> {
        Row([all; 64])
    }
}

impl<T> Index<u32> for Row<T> {
    type Output = T;

    #[inline]
    fn index(&self, port: u32) -> &T {
        &self.0[port as usize % 64]
    }
}

impl<T> IndexMut<u32> for Row<T> {
    #[inline]
    fn index_mut(&mut self, port: u32) -> &mut T {
        &mut self.0[port as usize % 64]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_bit_comes_round() {
        assert_eq!(
            [first_from(0b1010, 0), first_from(0b1010, 2), first_from(0b1010, 4)],
            [1, 3, 1]
        );
        let words = [1 << 5, 0, 1 << 63];
        let found = [0, 5, 6, 191].map(|place| next_from(&words, place));
        assert_eq!(found, [Some(5), Some(5), Some(191), Some(191)]);
        assert_eq!(next_from(&[1 << 3], 4), Some(3));
        assert_eq!(next_from(&[0, 0], 70), None);
    }
}
