//! The roofline: a kernel is bound by arithmetic or by memory, each at the part of its peak that
//! kernels of its kind reach.
//!
//! Model: `time = start + max(operations / (peak * efficiency), latency + bytes / (bandwidth *
//! memory efficiency))`, each part rounded up to the picosecond. Kernels without bytes don't wait
//! for memory. Matrix multiplications have the peak and the efficiency of their elements' width.
//! They keep the part `sustained` of it. Where the NPU works in tiles, they have the operations
//! that these are worth (`tiles`). Each row of an embedding table that a kernel reads or writes
//! costs `row` bytes more: rows are anywhere in memory, so that short ones leave more of it idle.
//! Source: Williams, Waterman, Patterson, "Roofline", CACM 2009.

use super::{Tiles, Work};
use graph::{Gemm, Kernel};
use units::{Bandwidth, Bytes, Flops, Ratio, Span};

/// Part of the peak that kernels of each kind achieve, by `Kernel as usize`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Efficiency {
    /// Part of the peak rate.
    pub rate: [Ratio; Kernel::ALL.len()],
    /// Part of the memory bandwidth.
    pub memory: [Ratio; Kernel::ALL.len()],
    /// Part of the peak rate of their width that matrix multiplications of other widths than 2 bytes
    /// reach, in the order of `Roofline::widths`; `None`: as `rate` says. Those of experts reach as
    /// much less as with 2 bytes.
    pub widths: [Option<Ratio>; 3],
    /// Part of these rates that matrix multiplications keep in training.
    pub sustained: Ratio,
}

/// Peak rate, memory bandwidth, and what of them is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Roofline {
    /// Peak rate.
    pub peak: Flops,
    /// Bandwidth of the local memory.
    pub memory: Bandwidth,
    /// Latency of the local memory, once a kernel.
    pub latency: Span,
    /// Part of these rates that kernels achieve.
    pub efficiency: Efficiency,
    /// Time of every kernel in addition: filling and draining the NPU.
    pub start: Span,
    /// Cost of reading or writing a row of an embedding table in addition, in bytes.
    pub row: Bytes,
    /// Peak rates of matrix multiplications of other widths than `peak`'s 2 bytes: of 4 bits, of 1
    /// byte, and of 4 and more.
    pub widths: [Option<Flops>; 3],
    /// How matrix multiplications are cut, where that counts.
    pub tiles: Option<Tiles>,
    /// Whether multiplications of experts are a kernel for each expert.
    pub apart: bool,
}

impl Roofline {
    /// The roofline with all of peak and bandwidth reached.
    pub fn ideal(peak: Flops, memory: Bandwidth) -> Roofline {
        let efficiency = Efficiency::default();
        let (latency, start, row, widths) = (Span::ZERO, Span::ZERO, Bytes(0), [None; 3]);
        Roofline {
            peak,
            memory,
            latency,
            efficiency,
            start,
            row,
            widths,
            tiles: None,
            apart: false,
        }
    }

    /// Memory bandwidth that kernels of a kind reach.
    pub fn bandwidth(&self, kernel: Kernel) -> Bandwidth {
        self.memory.times(self.efficiency.memory[kernel as usize])
    }

    /// Time for `work`.
    pub fn span(&self, work: &Work) -> Span {
        let kind = self.efficiency.rate[work.kernel as usize];
        let (peak, alone, operations) = match &work.gemm {
            Some(gemm) => {
                let peak = self.peak_of(gemm);
                let tiles = self.tiles.map(|tiles| tiles.at(peak, self.peak));
                let apart = self.apart && work.kernel == Kernel::Grouped;
                let operations =
                    tiles.map_or(work.operations, |tiles| tiles.operations(gemm, apart));
                (peak, self.alone(gemm, kind), operations)
            }
            None => (self.peak, kind, work.operations),
        };
        let reached = match work.kernel {
            Kernel::Gemm | Kernel::Grouped => alone.times(self.efficiency.sustained),
            _ => alone,
        };
        let rate = peak.times(reached);
        let moved = work.bytes.0.saturating_add(work.rows.saturating_mul(self.row.0));
        self.start + rate.span(operations).max(self.fetch(work.kernel, Bytes(moved)))
    }

    /// Time that memory needs to read and write `bytes` of a kernel.
    fn fetch(&self, kernel: Kernel, bytes: Bytes) -> Span {
        let latency = if bytes.0 == 0 { Span::ZERO } else { self.latency };
        latency + self.bandwidth(kernel).span(bytes)
    }

    /// Time for the operations of `work` at the peak rate of their width.
    pub fn at_peak(&self, work: &Work) -> Span {
        work.gemm.map_or(self.peak, |gemm| self.peak_of(&gemm)).span(work.operations)
    }

    fn peak_of(&self, gemm: &Gemm) -> Flops {
        place(gemm).and_then(|at| self.widths[at]).unwrap_or(self.peak)
    }

    /// Part of the peak that a multiplication by itself reaches, whose kind reaches `kind` with 2
    /// bytes.
    fn alone(&self, gemm: &Gemm, kind: Ratio) -> Ratio {
        let Some(of_width) = place(gemm).and_then(|at| self.efficiency.widths[at]) else {
            return kind;
        };
        let dense = self.efficiency.rate[Kernel::Gemm as usize].0.max(1);
        let part = u128::from(of_width.0) * u128::from(kind.0) / u128::from(dense);
        Ratio(u64::try_from(part).unwrap_or(u64::MAX).clamp(1, Ratio::ONE.0))
    }
}

/// Where a width other than 2 bytes stands in `Roofline::widths`.
fn place(gemm: &Gemm) -> Option<usize> {
    match gemm.width {
        0 => Some(0),
        1 => Some(1),
        4.. => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(operations: u128, bytes: u64, kernel: Kernel) -> Work {
        Work { operations, bytes: Bytes(bytes), kernel, rows: 0, gemm: None }
    }

    /// A thousand rows of 512 bytes, and 8,000 of 64: the same bytes, and eight times the cost of
    /// rows.
    #[test]
    fn short_rows_cost_more_of_the_memory() {
        let mut roofline = Roofline::ideal(Flops(u64::MAX), Bandwidth(1_000_000_000_000));
        roofline.row = Bytes(128);
        let time = |rows| {
            let bytes = 512_000;
            roofline.span(&Work { rows, ..work(0, bytes, Kernel::Embedding) })
        };
        assert_eq!([time(1000), time(8000)], [Span(640_000), Span(1_536_000)]);
        roofline.row = Bytes(0);
        assert_eq!(
            roofline.span(&Work { rows: 8000, ..work(0, 512_000, Kernel::Embedding) }),
            Span(512_000)
        );
    }

    #[test]
    fn the_slower_side_counts() {
        let roofline = Roofline::ideal(Flops(1_000_000_000_000), Bandwidth(1_000_000_000_000));
        assert_eq!(roofline.span(&work(3000, 1000, Kernel::Other)), Span(3000));
        assert_eq!(roofline.span(&work(1000, 3000, Kernel::Other)), Span(3000));
    }

    /// A kernel waits for its first byte once; arithmetic hides it, and no bytes have none.
    #[test]
    fn memory_has_a_latency() {
        let mut roofline = Roofline::ideal(Flops(1_000_000_000_000), Bandwidth(1_000_000_000_000));
        roofline.latency = Span(500);
        assert_eq!(roofline.span(&work(1000, 3000, Kernel::Other)), Span(3500));
        assert_eq!(roofline.span(&work(4000, 3000, Kernel::Other)), Span(4000));
        assert_eq!(roofline.span(&work(1, 0, Kernel::Other)), Span(1));
    }

    #[test]
    fn multiplications_keep_a_part_in_training() {
        let mut roofline = Roofline::ideal(Flops(1_000_000_000_000), Bandwidth(u64::MAX));
        roofline.efficiency.rate[Kernel::Gemm as usize] = Ratio(800_000);
        roofline.efficiency.widths[1] = Some(Ratio(500_000));
        roofline.efficiency.sustained = Ratio(750_000);
        let time = |width, kernel| {
            let gemm = Gemm { batch: 1, m: 10, n: 10, k: 15, width };
            roofline.span(&Work { gemm: Some(gemm), ..work(3000, 0, kernel) })
        };
        assert_eq!([time(2, Kernel::Gemm), time(1, Kernel::Gemm)], [Span(5000), Span(8000)]);
        assert_eq!(time(2, Kernel::Grouped), Span(4000));
        assert_eq!(time(2, Kernel::Convolution), Span(3000));
        assert_eq!(roofline.span(&work(3000, 0, Kernel::Gemm)), Span(5000));
        assert_eq!(roofline.span(&work(3000, 0, Kernel::Other)), Span(3000));
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
        roofline.widths =
            [Some(Flops(3_956_000_000_000_000)), Some(Flops(1_978_000_000_000_000)), None];
        roofline.start = Span(7);
        let time = |width| {
            let gemm = Gemm { batch: 1, m: 989, n: 1000, k: 1000, width };
            let work = Work {
                operations: gemm.operations(),
                bytes: Bytes(0),
                kernel: Kernel::Gemm,
                rows: 0,
                gemm: Some(gemm),
            };
            roofline.span(&work)
        };
        assert_eq!(
            [time(0), time(1), time(2), time(4)],
            [Span(500_007), Span(1_000_007), Span(2_000_007), Span(2_000_007)]
        );
        assert_eq!(roofline.span(&work(989, 0, Kernel::Other)), Span(8));
    }

    /// Half of the rate takes twice the time; experts at half of the dense efficiency keep that.
    #[test]
    fn multiplications_reach_the_part_of_their_width() {
        let mut roofline = Roofline::ideal(Flops(1_000_000_000_000_000), Bandwidth(u64::MAX));
        roofline.widths = [None, Some(Flops(2_000_000_000_000_000)), None];
        roofline.efficiency.rate[Kernel::Gemm as usize] = Ratio(800_000);
        roofline.efficiency.rate[Kernel::Grouped as usize] = Ratio(400_000);
        roofline.efficiency.widths[1] = Some(Ratio(500_000));
        let time = |width, kernel| {
            let gemm = Gemm { batch: 1, m: 1000, n: 1000, k: 1000, width };
            let operations = gemm.operations();
            roofline.span(&Work { operations, bytes: Bytes(0), kernel, rows: 0, gemm: Some(gemm) })
        };
        // 2e9 operations at 0.8, 0.4 of 1e15 and at 0.5, 0.25 of 2e15 a second.
        assert_eq!(
            [
                time(2, Kernel::Gemm),
                time(2, Kernel::Grouped),
                time(1, Kernel::Gemm),
                time(1, Kernel::Grouped),
            ],
            [Span(2_500_000), Span(5_000_000), Span(2_000_000), Span(4_000_000)]
        );
    }
}
