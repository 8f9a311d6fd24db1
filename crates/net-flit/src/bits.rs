//! Rows of bits, and of what each port has.

use crate::array::Array;
use std::ops::{Index, IndexMut};

/// The first bit that is set, from a place on and round; there is one.
#[inline(always)]
pub(crate) fn first_from(bits: u64, place: u32) -> u32 {
    (bits.rotate_right(place).trailing_zeros() + place) % 64
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

/// Most places of [`Bits`].
pub(crate) const PLACES: u32 = 64 * u16::MAX as u32;

/// The words of all [`Bits`] that need several.
pub(crate) type Words = Array<u64>;

/// A bit for each of many places. Up to 64 are in one word. More are in words of their own, and the
/// bits of one say in which spans of these any is set, so that places are found without a look at
/// every word. A span is one word for up to 4,096 places.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bits {
    top: u64,
    /// The first of its words and how many, if it has any. A span has 2^`span` of them.
    first: u32,
    words: u16,
    span: u8,
}

impl Bits {
    /// All clear.
    pub(crate) fn new(words: &mut Words, places: u32) -> Bits {
        debug_assert!(places <= PLACES);
        if places <= 64 {
            return Bits::default();
        }
        let (first, count) = (words.len() as u32, places.div_ceil(64));
        words.grow(count as usize, 0);
        let span = count.div_ceil(64).next_power_of_two().ilog2();
        Bits { top: 0, first, words: count as u16, span: span as u8 }
    }

    /// Whether all are clear.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.top == 0
    }

    /// Sets one.
    #[inline(always)]
    pub(crate) fn set(&mut self, words: &mut Words, place: u32) {
        self.add(words, place / 64, 1 << (place % 64));
    }

    /// Clears one.
    #[inline(always)]
    pub(crate) fn clear(&mut self, words: &mut Words, place: u32) {
        self.remove(words, place / 64, 1 << (place % 64));
    }

    /// Sets bits of a word.
    #[inline(always)]
    pub(crate) fn add(&mut self, words: &mut Words, word: u32, bits: u64) {
        if self.words == 0 {
            self.top |= bits;
        } else {
            words[(self.first + word) as usize] |= bits;
            self.top |= u64::from(bits != 0) << (word >> self.span);
        }
    }

    /// Clears bits of a word.
    #[inline(always)]
    pub(crate) fn remove(&mut self, words: &mut Words, word: u32, bits: u64) {
        if self.words == 0 {
            self.top &= !bits;
        } else {
            words[(self.first + word) as usize] &= !bits;
            let span = word >> self.span;
            let any = self.filled(words, span << self.span).is_some();
            self.top &= !(u64::from(!any) << span);
        }
    }

    /// Sets the bits that `others` has, which has the same number of places.
    #[inline(always)]
    pub(crate) fn join(&mut self, words: &mut Words, others: &Bits) {
        if self.words == 0 {
            self.top |= others.top;
        } else {
            others.each_word(words, |words, word, bits| self.add(words, word, bits));
        }
    }

    /// Clears the bits that `others` has, which has the same number of places.
    #[inline(always)]
    pub(crate) fn part(&mut self, words: &mut Words, others: &Bits) {
        if self.words == 0 {
            self.top &= !others.top;
        } else {
            others.each_word(words, |words, word, bits| self.remove(words, word, bits));
        }
    }

    /// Calls `act` with each word that has a bit set.
    pub(crate) fn each_word(&self, words: &mut Words, mut act: impl FnMut(&mut Words, u32, u64)) {
        let mut spans = self.top;
        if self.words == 0 {
            return if spans != 0 {
                act(words, 0, spans)
            };
        }
        while spans != 0 {
            let first = spans.trailing_zeros() << self.span;
            spans &= spans - 1;
            for word in first..(first + (1 << self.span)).min(self.words.into()) {
                let bits = self.word(words, word);
                if bits != 0 {
                    act(words, word, bits);
                }
            }
        }
    }

    /// The bits of a word.
    #[inline(always)]
    pub(crate) fn word(&self, words: &Words, word: u32) -> u64 {
        if self.words == 0 { self.top } else { words[(self.first + word) as usize] }
    }

    /// Whether one is set.
    pub(crate) fn has(&self, words: &Words, place: u32) -> bool {
        self.word(words, place / 64) >> (place % 64) & 1 == 1
    }

    /// The first word from one on, up to the end of its span, with a bit that is set.
    #[inline(always)]
    fn filled(&self, words: &Words, from: u32) -> Option<u32> {
        let end = ((from >> self.span) + 1) << self.span;
        (from..end.min(self.words.into())).find(|&word| self.word(words, word) != 0)
    }

    /// The lowest place of a span; there is one.
    #[inline(always)]
    fn lowest_of(&self, words: &Words, span: u32) -> u32 {
        let word = self.filled(words, span << self.span).unwrap_or(0);
        word * 64 + self.word(words, word).trailing_zeros()
    }

    /// The one that is set, if there is only one.
    #[inline(always)]
    pub(crate) fn only(&self, words: &Words) -> Option<u32> {
        let is_one = |bits: u64| bits & bits.wrapping_sub(1) == 0;
        if self.words == 0 {
            return is_one(self.top).then(|| self.top.trailing_zeros());
        }
        let span = self.top.trailing_zeros();
        let word = self.filled(words, span << self.span)?;
        let is_last = (word + 1) >> self.span != span || self.filled(words, word + 1).is_none();
        let only = is_one(self.top) && is_one(self.word(words, word)) && is_last;
        only.then(|| word * 64 + self.word(words, word).trailing_zeros())
    }

    /// All, if they are in one word.
    #[inline(always)]
    pub(crate) fn in_one_word(&self) -> Option<u64> {
        (self.words == 0).then_some(self.top)
    }

    /// Calls `act` with each that is set, in order.
    pub(crate) fn each(&self, words: &Words, mut act: impl FnMut(u32)) {
        for word in 0..u32::from(self.words.max(1)) {
            let mut bits = self.word(words, word);
            while bits != 0 {
                act(word * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }

    /// The lowest that is set; there is one.
    #[inline(always)]
    pub(crate) fn lowest(&self, words: &Words) -> u32 {
        let first = self.top.trailing_zeros();
        if self.words == 0 { first } else { self.lowest_of(words, first) }
    }

    /// The first that is set, from a place on.
    #[inline(always)]
    pub(crate) fn next(&self, words: &Words, place: u32) -> Option<u32> {
        if self.words == 0 {
            let bits = if place < 64 { self.top & (u64::MAX << place) } else { 0 };
            return (bits != 0).then(|| bits.trailing_zeros());
        }
        let word = place / 64;
        if word >= self.words.into() {
            return None;
        }
        let here = self.word(words, word) & (u64::MAX << (place % 64));
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros());
        }
        let span = word >> self.span;
        if (word + 1) >> self.span == span
            && let Some(word) = self.filled(words, word + 1)
        {
            return Some(word * 64 + self.word(words, word).trailing_zeros());
        }
        let behind = self.top & (u64::MAX << span) & !(1 << span);
        (behind != 0).then(|| self.lowest_of(words, behind.trailing_zeros()))
    }

    /// The first that is set of 2^`shift` places that begin at a multiple of that, from the place
    /// `turn` of them on and round; there is one.
    #[inline(always)]
    pub(crate) fn first_of(&self, words: &Words, first: u32, shift: u32, turn: u32) -> u32 {
        if shift <= 6 {
            let own = self.word(words, first / 64) >> (first % 64);
            return first + first_from(own & (u64::MAX >> (64 - (1 << shift))), turn);
        }
        let behind =
            self.next(words, first + turn).filter(|place| place >> shift == first >> shift);
        behind.or_else(|| self.next(words, first)).unwrap_or(first)
    }

    /// The first that is set, from a place on and round; there is one.
    #[inline(always)]
    pub(crate) fn first_from(&self, words: &Words, place: u32) -> u32 {
        if self.words == 0 {
            return first_from(self.top, place);
        }
        self.next(words, place).unwrap_or_else(|| self.lowest(words))
    }
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
    use engine::Random;
    use std::collections::BTreeSet;

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

    #[test]
    fn bits_are_a_set_however_many_there_are() {
        let mut random = Random::new(3);
        for places in [1, 7, 64, 65, 128, 500, 4096, 4097, 70_000, 300_000] {
            let (mut words, mut set) = (Words::default(), BTreeSet::new());
            let mut bits = Bits::new(&mut words, places);
            let mut others = Bits::new(&mut words, places);
            let sparse = 1 + random.below(5);
            for _ in 0..2000 {
                let place = random.below(places.into()) as u32;
                if random.below(sparse + 1) == 0 {
                    set.insert(place);
                    bits.set(&mut words, place);
                } else {
                    set.remove(&place);
                    bits.clear(&mut words, place);
                }
                assert_eq!(bits.is_empty(), set.is_empty());
                assert_eq!(bits.has(&words, place), set.contains(&place));
                let Some(&lowest) = set.first() else { continue };
                assert_eq!(bits.lowest(&words), lowest);
                assert_eq!(bits.only(&words), (set.len() == 1).then_some(lowest));
                let mut all = Vec::new();
                bits.each(&words, |place| all.push(place));
                assert!(all.iter().eq(&set));
                let from = random.below(places.into()) as u32;
                let next = set.range(from..).next().copied();
                assert_eq!(bits.next(&words, from), next, "{set:?} from {from}");
                assert_eq!(bits.first_from(&words, from), next.unwrap_or(lowest));
                assert_eq!(bits.next(&words, places), None);
                let shift = random.below(12) as u32;
                let field = lowest >> shift << shift..((lowest >> shift) + 1) << shift;
                let turn = random.below(1 << shift) as u32;
                let behind = set.range(field.start + turn..field.end).next();
                let first = bits.first_of(&words, field.start, shift, turn);
                assert_eq!(first, *behind.unwrap_or(&lowest), "{set:?} {field:?} from {turn}");
                let both = (0..3).map(|_| random.below(places.into()) as u32);
                let both: BTreeSet<u32> = both.chain([lowest]).collect();
                both.iter().for_each(|&place| others.set(&mut words, place));
                bits.part(&mut words, &others);
                assert!(both.iter().all(|&place| !bits.has(&words, place)));
                bits.join(&mut words, &others);
                set.extend(&both);
                both.iter().for_each(|&place| others.clear(&mut words, place));
            }
        }
    }
}
