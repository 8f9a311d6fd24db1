//! Matrix multiplications in tiles: the multiprocessors of a GPU work on one tile each, in waves.
//!
//! Model, for `batch` times (m x k)(k x n) on `units` multiprocessors: an output tile of `a x b`
//! takes a multiprocessor `2 a b (k / s + fill)` operations, `fill` being the stretch of k that
//! starting and writing a tile are worth, and s the pieces that k is split in. A smaller tile loads
//! more for each operation, which slows it by `1 + load (1/a + 1/b)`. There are `batch ceil(m / a)
//! ceil(n / b) s` tiles, in `ceil(tiles / units)` waves; a last wave that is not full takes as long
//! as a full one. Starting and writing takes the same time with narrow elements, whose steps of k
//! are faster, so that it is worth more of them. Of all tiles and splits the fastest counts, as the
//! libraries' heuristics choose. Here: the operations that all this is worth at the rate of the
//! largest tile. Not here: that rate (`roofline`).
//!
//! Source: NVIDIA, "Matrix Multiplication Background User's Guide" (tile and wave quantization,
//! arithmetic intensity of tiles, split-K).

use graph::Gemm;
use units::Flops;

/// Tiles that libraries have kernels for: rows, columns.
const TILES: [(u32, u32); 6] = [(256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64)];
/// Pieces k may be split in.
const SPLITS: [u32; 3] = [1, 2, 4];

/// How a GPU's multiprocessors share a multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiles {
    /// Multiprocessors.
    pub units: u32,
    /// Cost of starting and writing a tile, in steps of k.
    pub fill: u32,
    /// Slowdown of a tile by loading, times the sum of its sides' reciprocals.
    pub load: u32,
}

impl Tiles {
    /// The tiles for elements with the peak `rate`, where `fill` holds for those with `usual`; a
    /// slower rate, which other circuits give, keeps it.
    pub fn at(&self, rate: Flops, usual: Flops) -> Tiles {
        let fill =
            u128::from(self.fill) * u128::from(rate.0.max(usual.0)) / u128::from(usual.0.max(1));
        Tiles { fill: u32::try_from(fill).unwrap_or(u32::MAX), ..*self }
    }

    /// Operations that the GPU could do meanwhile in tiles of the largest kind without a gap;
    /// saturating. Products of the batch fill waves together, or (`apart`) each its own.
    pub fn operations(&self, gemm: &Gemm, apart: bool) -> u128 {
        if apart {
            let one = self.operations(&Gemm { batch: 1, ..*gemm }, false);
            return one.saturating_mul(u128::from(gemm.batch));
        }
        let all = TILES.iter().flat_map(|&tile| SPLITS.map(|split| self.cost(gemm, tile, split)));
        let least = all.min().unwrap_or(u128::MAX);
        let (a, b) = (u128::from(TILES[0].0), u128::from(TILES[0].1));
        let largest = a * b + u128::from(self.load) * (a + b);
        least.saturating_mul(a * b).div_ceil(largest)
    }

    /// The same times `1 + load (1/a + 1/b)` of the tile at hand.
    fn cost(&self, gemm: &Gemm, (a, b): (u32, u32), split: u32) -> u128 {
        let tiles = [gemm.m.div_ceil(a), gemm.n.div_ceil(b), gemm.batch, split].map(u128::from);
        let tiles = tiles.into_iter().fold(1u128, u128::saturating_mul);
        let units = u128::from(self.units);
        let (a, b) = (u128::from(a), u128::from(b));
        let depth = u128::from(gemm.k.div_ceil(split)) + u128::from(self.fill);
        let one = 2 * depth * (a * b + u128::from(self.load) * (a + b));
        tiles.div_ceil(units).saturating_mul(units).saturating_mul(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A100: Tiles = Tiles { units: 108, fill: 0, load: 0 };

    fn gemm(m: u32, n: u32, k: u32) -> Gemm {
        Gemm { batch: 1, m, n, k, width: 2 }
    }

    /// The guide's example: 108 multiprocessors do 108 tiles of 256 x 128 in one wave and 109 in
    /// two.
    #[test]
    fn a_wave_too_many_costs_a_whole_one() {
        let full = gemm(256 * 9, 128 * 12, 8192);
        assert_eq!(A100.operations(&full, false), full.operations());
        let more = gemm(256 * 9, 128 * 12 + 1, 8192);
        // 9 x 13 tiles of 256 x 128 in two waves; 18 x 13 of 128 x 128 in three of half the size
        // are quicker, and smaller ones quicker yet.
        assert!(A100.operations(&more, false) > full.operations() * 105 / 100);
        assert!(A100.operations(&more, false) <= full.operations() * 3 / 2);
    }

    #[test]
    fn filling_takes_the_same_time_at_any_rate() {
        let tiles = Tiles { units: 132, fill: 20, load: 0 };
        let fill = |rate| tiles.at(Flops(rate), Flops(989)).fill;
        assert_eq!([fill(3956), fill(1978), fill(989), fill(494)], [80, 40, 20, 20]);
    }

    #[test]
    fn filling_counts_for_each_tile_and_small_tiles_load_more() {
        let small = gemm(64, 64, 128);
        let filled = Tiles { units: 1, fill: 128, load: 0 };
        assert_eq!(filled.operations(&small, false), 2 * small.operations());
        let loaded = Tiles { units: 1, fill: 0, load: 64 };
        // 1 + 64 (1/64 + 1/64) = 3 against 1 + 64 (1/256 + 1/128) = 1.75.
        assert_eq!(loaded.operations(&small, false), (3 * small.operations() * 4).div_ceil(7));
    }

    /// 16 experts that fill a wave and a bit of one each: apart 16 times as long as one, together
    /// less, and never less than what is asked.
    #[test]
    fn kernels_of_their_own_have_waves_of_their_own() {
        let one = gemm(256 * 9, 128 * 12 + 1, 8192);
        let experts = Gemm { batch: 16, ..one };
        let (apart, together) = (A100.operations(&experts, true), A100.operations(&experts, false));
        assert_eq!(apart, 16 * A100.operations(&one, false));
        assert!(apart > together);
        assert!(together >= experts.operations());
    }

    proptest! {
        /// Tiles never do less than what is asked, and never take longer for less of it.
        #[test]
        fn never_less_than_asked(m in 1..5000u32, n in 1..5000u32, k in 1..5000u32, batch in 1..9u32, fill in 0..512u32, load in 0..64u32) {
            let tiles = Tiles { units: 108, fill, load };
            let asked = Gemm { batch, m, n, k, width: 2 };
            let done = tiles.operations(&asked, false);
            prop_assert!(done >= asked.operations());
            for less in [Gemm { m: m.div_ceil(2), ..asked }, Gemm { n: n.div_ceil(2), ..asked }, Gemm { k: k.div_ceil(2), ..asked }] {
                prop_assert!(tiles.operations(&less, false) <= done);
            }
        }
    }
}
