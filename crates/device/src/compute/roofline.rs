//! The roofline: a kernel is bound by arithmetic or by memory, each at the part of its peak that
//! kernels of its kind reach.
//!
//! Model: `time = start + max(operations / (peak * efficiency), bytes / (bandwidth * memory
//! efficiency))`, each part rounded up to the picosecond. Matrix multiplications have the peak of
//! their elements' width, and where the NPU works in tiles the operations that these are worth
//! (`tiles`). Source: Williams, Waterman, Patterson, "Roofline", CACM 2009.

use super::{Tiles, Work};
use graph::{Gemm, Kernel};
use units::{Bandwidth, Flops, Ratio, Span};

/// What kernels of each kind reach, by `Kernel as usize`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Efficiency {
    /// Part of the peak rate.
    pub rate: [Ratio; Kernel::ALL.len()],
    /// Part of the memory bandwidth.
    pub memory: [Ratio; Kernel::ALL.len()],
}

/// Peak rate, memory bandwidth, and what of them is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Roofline {
    /// Peak rate.
    pub peak: Flops,
    /// Bandwidth of the local memory.
    pub memory: Bandwidth,
    /// What of them is reached.
    pub efficiency: Efficiency,
    /// What every kernel takes in addition: filling and draining the NPU.
    pub start: Span,
    /// Peak rates of matrix multiplications of other widths than `peak`'s 2 bytes: of 1 byte, and
    /// of 4 and more.
    pub widths: [Option<Flops>; 2],
    /// How matrix multiplications are cut, where that counts.
    pub tiles: Option<Tiles>,
}

impl Roofline {
    /// The roofline with all of peak and bandwidth reached.
    pub fn ideal(peak: Flops, memory: Bandwidth) -> Roofline {
        let efficiency = Efficiency::default();
        Roofline { peak, memory, efficiency, start: Span::ZERO, widths: [None; 2], tiles: None }
    }

    /// Memory bandwidth that kernels of a kind reach.
    pub fn bandwidth(&self, kernel: Kernel) -> Bandwidth {
        self.memory.times(self.efficiency.memory[kernel as usize])
    }

    /// Time for `work`.
    pub fn span(&self, work: &Work) -> Span {
        let (peak, operations) = match &work.gemm {
            Some(gemm) => (
                self.peak_of(gemm),
                self.tiles.map_or(work.operations, |tiles| tiles.operations(gemm)),
            ),
            None => (self.peak, work.operations),
        };
        let rate = peak.times(self.efficiency.rate[work.kernel as usize]);
        self.start + rate.span(operations).max(self.bandwidth(work.kernel).span(work.bytes))
    }

    fn peak_of(&self, gemm: &Gemm) -> Flops {
        let other = match gemm.width {
            1 => self.widths[0],
            4.. => self.widths[1],
            _ => None,
        };
        other.unwrap_or(self.peak)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    fn work(operations: u128, bytes: u64, kernel: Kernel) -> Work {
        Work { operations, bytes: Bytes(bytes), kernel, gemm: None }
    }

    #[test]
    fn the_slower_side_counts() {
        let roofline = Roofline::ideal(Flops(1_000_000_000_000), Bandwidth(1_000_000_000_000));
        assert_eq!(roofline.span(&work(3000, 1000, Kernel::Other)), Span(3000));
        assert_eq!(roofline.span(&work(1000, 3000, Kernel::Other)), Span(3000));
    }

    /// Neo and ZionEX, ISCA 2022, appendix A: GEMM at 70.5 % of an A100's peak, memory at 1300 of
    /// 1550 GB/s.
    #[test]
    fn each_kind_has_its_own_efficiency() {
        let mut roofline =
            Roofline::ideal(Flops(312_000_000_000_000), Bandwidth(1_550_000_000_000));
        roofline.efficiency.rate[Kernel::Gemm as usize] = Ratio(705_000);
        roofline.efficiency.memory[Kernel::Embedding as usize] = Ratio(838_709);
        // 1e15 / 219.96e12 s, and 1.3e12 / 1299998950000 s
        assert_eq!(
            roofline.span(&work(1_000_000_000_000_000, 0, Kernel::Gemm)),
            Span(4_546_281_142_026)
        );
        assert_eq!(
            roofline.span(&work(0, 1_300_000_000_000, Kernel::Embedding)),
            Span(1_000_000_807_693)
        );
        assert_eq!(roofline.span(&work(312, 0, Kernel::Attention)), Span(1));
    }

    /// A data sheet's rates: an H100 does 989 TFLOPS at 16 bits, twice that at 8.
    #[test]
    fn multiplications_have_the_rate_of_their_width_and_every_kernel_a_start() {
        let mut roofline = Roofline::ideal(Flops(989_000_000_000_000), Bandwidth(u64::MAX));
        roofline.widths = [Some(Flops(1_978_000_000_000_000)), None];
        roofline.start = Span(7);
        let time = |width| {
            let gemm = Gemm { batch: 1, m: 989, n: 1000, k: 1000, width };
            let work = Work {
                operations: gemm.operations(),
                bytes: Bytes(0),
                kernel: Kernel::Gemm,
                gemm: Some(gemm),
            };
            roofline.span(&work)
        };
        assert_eq!(
            [time(1), time(2), time(4)],
            [Span(1_000_007), Span(2_000_007), Span(2_000_007)]
        );
        assert_eq!(roofline.span(&work(989, 0, Kernel::Other)), Span(8));
    }
}
