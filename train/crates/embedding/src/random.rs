//! Random numbers by counter: a number depends on what it is for, not on what was drawn before. So
//! initial weights and rounding do not depend on threads, order or sharding.

/// Mixes all bits of a word (SplitMix64's finalizer, Steele et al. 2014).
pub fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A word for a `seed` and a `name`.
pub fn named(seed: u64, name: &str) -> u64 {
    name.bytes().fold(mix(seed ^ 0x9e37_79b9_7f4a_7c15), |word, byte| mix(word ^ u64::from(byte)))
}

/// A word for row `row` of what `key` names.
pub fn of_row(key: u64, row: u64) -> u32 {
    (mix(key ^ row.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 32) as u32
}

/// 32 random bits for column `column` of a row (MurmurHash3's finalizer on a Weyl sequence).
pub fn of_column(row: u32, column: u32) -> u32 {
    let mut bits = row ^ column.wrapping_mul(0x9e37_79b9);
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x85eb_ca6b);
    bits = (bits ^ (bits >> 13)).wrapping_mul(0xc2b2_ae35);
    bits ^ (bits >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_even_and_names_and_seeds_differ() {
        let key = named(1, "table");
        assert_ne!(key, named(2, "table"));
        assert_ne!(key, named(1, "tables"));
        let mut ones = [0u32; 32];
        for row in 0..256 {
            for column in 0..64 {
                let bits = of_column(of_row(key, row), column);
                ones.iter_mut().enumerate().for_each(|(bit, ones)| *ones += bits >> bit & 1);
            }
        }
        // 16384 fair coins for each bit: four standard deviations are 256.
        assert!(ones.iter().all(|&ones| ones.abs_diff(8192) < 256), "{ones:?}");
    }
}
