//! Numbers at random that are the same on every machine: integers only.

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// With a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `most`.
    #[inline]
    pub fn below(&mut self, most: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(most)) >> 64) as u64
    }

    /// A number of mean 1 from the exponential distribution, in 2^-32, by comparisons alone (von
    /// Neumann, "Various techniques used in connection with random digits", 1951).
    pub fn exponential(&mut self) -> u64 {
        let mut whole = 0;
        loop {
            let first = self.bits();
            let (mut last, mut run) = (first, 1u32);
            loop {
                let next = self.bits();
                if next >= last {
                    break;
                }
                (last, run) = (next, run + 1);
            }
            if run % 2 == 1 {
                return (whole << 32) | (first >> 32);
            }
            whole += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    /// The first numbers of seed 1234567, from the authors' reference code.
    #[test]
    fn the_numbers_are_those_of_split_mix() {
        let mut random = Random::new(1_234_567);
        let first = [(); 3].map(|()| random.bits());
        let known =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(first, known);
    }

    /// Mean and variance of the exponential distribution are 1; a share of e^-1 is above its mean.
    #[test]
    fn exponential_numbers_have_their_moments() {
        let mut random = Random::new(1);
        let count = 200_000;
        let all: Vec<f64> =
            (0..count).map(|_| random.exponential() as f64 / 2f64.powi(32)).collect();
        let mean = all.iter().sum::<f64>() / f64::from(count);
        let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(count);
        let above = all.iter().filter(|&&x| x > 1.0).count() as f64 / f64::from(count);
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((variance - 1.0).abs() < 0.03, "{variance}");
        assert!((above - (-1f64).exp()).abs() < 0.005, "{above}");
    }
}
