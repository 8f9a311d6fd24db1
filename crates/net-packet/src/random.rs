//! A generator of numbers that is the same everywhere.

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(pub u64);

impl Random {
    /// A number below `most`.
    #[inline]
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        ((u128::from(split_mix(&mut self.0)) * u128::from(most)) >> 64) as u64
    }
}

/// The next number of a state.
#[inline]
pub(crate) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
