//! A systolic array: matrix multiplications in folds over `rows` x `columns` cells, fed from
//! double-buffered SRAM.
//!
//! Model, a dataflow mapping a multiplication (m x k)(k x n) onto spatial rows S_R, spatial columns
//! S_C and time T (output stationary: m, n, k; weight stationary: k, n, m; input stationary: k, m,
//! n): `folds = ceil(S_R / rows) * ceil(S_C / columns)`, each of `2 rows + columns + T - 2` cycles.
//! While a fold computes, the operands of the next are loaded and the results of the last are
//! stored; what memory can't move in that time stalls the array: `cycles = load(first) + sum over
//! folds of max(fold, load(next) + store(previous)) + store(last)`. All other kernels than
//! matrix multiplications of known shape go by the roofline.
//!
//! Source: Samajdar, Zhu, Whatmough, Mattina, Krishna, "SCALE-Sim", arXiv:1811.02883; Samajdar,
//! Joseph, Zhu, Whatmough, Mattina, Krishna, ISPASS 2020, eqs. 1 to 4 and table III. They count a
//! partly filled fold like a full one, and so does this. What a fold moves, with which SRAM: see
//! `Traffic`; there they give no equation.

use super::{Roofline, Work};
use declared::words;
use graph::{Gemm, Kernel};
use units::{Bandwidth, Bytes, Frequency, Span};

/// Which operand stays in the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Dataflow {
    OutputStationary,
    WeightStationary,
    InputStationary,
}

words!(
    Dataflow:
    "output_stationary" = Dataflow::OutputStationary,
    "weight_stationary" = Dataflow::WeightStationary,
    "input_stationary" = Dataflow::InputStationary,
);

/// Sizes of the three buffers; half of each is filled while the other half is used. `None`:
/// everything fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sram {
    /// Inputs, m x k.
    pub ifmap: Option<Bytes>,
    /// Weights, k x n.
    pub filter: Option<Bytes>,
    /// Outputs and partial sums, m x n.
    pub ofmap: Option<Bytes>,
}

/// The array and what surrounds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Systolic {
    /// Rows of cells.
    pub rows: u32,
    /// Columns of cells.
    pub columns: u32,
    /// Operand that stays in the array.
    pub dataflow: Dataflow,
    /// Clock of the array.
    pub clock: Frequency,
    /// Buffers.
    pub sram: Sram,
    /// Bandwidth between memory and buffers; the efficiency for GEMMs applies. `None`: never
    /// limits.
    pub memory: Option<Bandwidth>,
    /// Everything but matrix multiplications of known shape.
    pub rest: Roofline,
}

/// Where the cycles of a matrix multiplication go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycles {
    /// Folds.
    pub folds: u64,
    /// Cycles of the folds.
    pub compute: u64,
    /// Cycles in which the array waits for memory.
    pub stall: u64,
}

impl Cycles {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.compute.saturating_add(self.stall)
    }
}

impl Systolic {
    /// Time for `work`. Of a multiplication the first tile alone waits for memory's latency.
    pub fn span(&self, work: &Work) -> Span {
        match work.gemm {
            Some(gemm) => self.rest.latency + self.clock.span(self.cycles(&gemm).total()),
            None => self.rest.span(work),
        }
    }

    /// Time for the operations of `work` if each cell multiplies in every cycle.
    pub fn at_peak(&self, work: &Work) -> Span {
        let Some(gemm) = work.gemm else { return self.rest.at_peak(work) };
        let cells = 2 * u128::from(self.rows) * u128::from(self.columns);
        let cycles = gemm.operations().div_ceil(cells.max(1));
        self.clock.span(u64::try_from(cycles).unwrap_or(u64::MAX))
    }

    /// Cycles of a matrix multiplication; the multiplications of a batch run one after the other.
    pub fn cycles(&self, gemm: &Gemm) -> Cycles {
        let folds = Folds::new(self, gemm);
        let traffic = Traffic { folds, sram: self.halves(gemm.width), dataflow: self.dataflow };
        let total = folds.total(|cells| self.memory_cycles(cells, gemm.width), &traffic);
        let count = folds.count() * u128::from(gemm.batch);
        let compute = count.saturating_mul(u128::from(folds.cycles));
        let stall = total.saturating_mul(u128::from(gemm.batch)).saturating_sub(compute);
        let [folds, compute, stall] =
            [count, compute, stall].map(|v| u64::try_from(v).unwrap_or(u64::MAX));
        Cycles { folds, compute, stall }
    }

    /// Share of the cells' cycles in which they multiply.
    pub fn utilisation(&self, gemm: &Gemm) -> f64 {
        let cells = f64::from(self.rows) * f64::from(self.columns);
        gemm.operations() as f64 / 2.0 / (self.cycles(gemm).total() as f64 * cells)
    }

    /// Elements that half of each buffer holds: inputs, weights, outputs.
    fn halves(&self, width: u8) -> [u128; 3] {
        let Sram { ifmap, filter, ofmap } = self.sram;
        let half = |b: Option<Bytes>| {
            b.map_or(u128::MAX, |b| u128::from(b.0) / 2 / u128::from(width.max(1)))
        };
        [ifmap, filter, ofmap].map(half)
    }

    /// Whole cycles to move `elements` between memory and buffers.
    fn memory_cycles(&self, elements: u128, width: u8) -> u128 {
        let Some(bandwidth) = self.memory else { return 0 };
        let bandwidth = bandwidth.times(self.rest.efficiency.memory[Kernel::Gemm as usize]);
        let bytes = elements.saturating_mul(u128::from(width.max(1)));
        bytes.saturating_mul(u128::from(self.clock.0)).div_ceil(u128::from(bandwidth.0))
    }
}

/// How one multiplication is cut: fold (i, j) covers rows `i * rows..` of S_R and columns `j *
/// columns..` of S_C.
#[derive(Clone, Copy)]
struct Folds {
    spatial: [u64; 2],
    array: [u64; 2],
    time: u64,
    cycles: u64,
    /// The column changes in the inner loop; else the row.
    columns_inside: bool,
}

impl Folds {
    fn new(systolic: &Systolic, gemm: &Gemm) -> Folds {
        let [m, n, k] = [gemm.m, gemm.n, gemm.k].map(|v| u64::from(v.max(1)));
        let array = [systolic.rows, systolic.columns].map(|v| u64::from(v.max(1)));
        let (spatial, time) = match systolic.dataflow {
            Dataflow::OutputStationary => ([m, n], k),
            Dataflow::WeightStationary => ([k, n], m),
            Dataflow::InputStationary => ([k, m], n),
        };
        let cycles = 2 * array[0] + array[1] + time - 2;
        let columns_inside = systolic.dataflow == Dataflow::OutputStationary;
        Folds { spatial, array, time, cycles, columns_inside }
    }

    fn counts(&self) -> [u64; 2] {
        [0, 1].map(|d| self.spatial[d].div_ceil(self.array[d]))
    }

    fn count(&self) -> u128 {
        self.counts().into_iter().map(u128::from).product()
    }

    /// Rows (d = 0) or columns (d = 1) in use in fold `index` of that direction.
    fn used(&self, d: usize, index: u64) -> u128 {
        u128::from((self.spatial[d] - index * self.array[d]).min(self.array[d]))
    }

    fn next(&self, at: [u64; 2]) -> Option<[u64; 2]> {
        let inner = usize::from(self.columns_inside);
        let mut next = at;
        next[inner] += 1;
        if next[inner] == self.counts()[inner] {
            next[inner] = 0;
            next[1 - inner] += 1;
        }
        (next[1 - inner] < self.counts()[1 - inner]).then_some(next)
    }

    fn previous(&self, at: [u64; 2]) -> Option<[u64; 2]> {
        let inner = usize::from(self.columns_inside);
        let mut previous = at;
        if at[inner] > 0 {
            previous[inner] -= 1;
            return Some(previous);
        }
        previous[inner] = self.counts()[inner] - 1;
        previous[1 - inner] = at[1 - inner].checked_sub(1)?;
        Some(previous)
    }

    /// Cycles of all folds, stalls included; `moved` gives the cycles for a number of elements.
    fn total(&self, moved: impl Fn(u128) -> u128, traffic: &Traffic) -> u128 {
        let cost = |at: [u64; 2]| {
            let next = self.next(at).map_or(0, |at| traffic.load(at));
            let stored = self.previous(at).map_or(0, |at| traffic.store(at));
            moved(next + stored).max(u128::from(self.cycles))
        };
        let [rows, columns] = self.counts();
        let ends = [traffic.load([0, 0]), traffic.store([rows - 1, columns - 1])];
        let mut total = ends.into_iter().map(&moved).fold(0, u128::saturating_add);
        for (i, alike_rows) in representatives(rows) {
            for (j, alike_columns) in representatives(columns) {
                let alike = u128::from(alike_rows) * u128::from(alike_columns);
                total = total.saturating_add(cost([i, j]).saturating_mul(alike));
            }
        }
        total
    }
}

/// One fold of each set that moves the same, and how many there are: what a fold moves depends on
/// whether it and its neighbours are the first or the last of their direction.
fn representatives(count: u64) -> Vec<(u64, u64)> {
    if count <= 5 {
        return (0..count).map(|i| (i, 1)).collect();
    }
    vec![(0, 1), (1, 1), (2, count - 4), (count - 2, 1), (count - 1, 1)]
}

/// Elements that a fold moves between memory and buffers.
///
/// An operand that stays for a whole inner loop, or fits its buffer's half as a whole, is loaded
/// once; else with every fold. Partial sums that do not fit are stored by every fold and loaded
/// again by the next.
struct Traffic {
    folds: Folds,
    /// Elements in half of the buffers for inputs, weights, outputs.
    sram: [u128; 3],
    dataflow: Dataflow,
}

impl Traffic {
    fn load(&self, at: [u64; 2]) -> u128 {
        let [rows, columns] = [self.folds.used(0, at[0]), self.folds.used(1, at[1])];
        let time = u128::from(self.folds.time);
        match self.dataflow {
            Dataflow::OutputStationary => {
                let kept = rows * time <= self.sram[0];
                let inputs = if at[1] == 0 || !kept { rows * time } else { 0 };
                let weights =
                    if at[0] == 0 || !self.whole(1, self.sram[1]) { time * columns } else { 0 };
                inputs + weights
            }
            Dataflow::WeightStationary => self.stationary(at, self.sram[0]),
            Dataflow::InputStationary => self.stationary(at, self.sram[1]),
        }
    }

    /// Weight or input stationary: the tile in the cells, what streams by, and partial sums left
    /// behind.
    fn stationary(&self, at: [u64; 2], buffer: u128) -> u128 {
        let [rows, columns] = [self.folds.used(0, at[0]), self.folds.used(1, at[1])];
        let time = u128::from(self.folds.time);
        let streamed = if at[1] == 0 || !self.whole(0, buffer) { time * rows } else { 0 };
        let sums = if at[0] > 0 && time * columns > self.sram[2] { time * columns } else { 0 };
        rows * columns + streamed + sums
    }

    fn store(&self, at: [u64; 2]) -> u128 {
        let [rows, columns] = [self.folds.used(0, at[0]), self.folds.used(1, at[1])];
        let time = u128::from(self.folds.time);
        match self.dataflow {
            Dataflow::OutputStationary => rows * columns,
            _ if at[0] + 1 == self.folds.counts()[0] || time * columns > self.sram[2] => {
                time * columns
            }
            _ => 0,
        }
    }

    /// True when the operand along direction `d` fits as a whole.
    fn whole(&self, d: usize, buffer: u128) -> bool {
        u128::from(self.folds.spatial[d]) * u128::from(self.folds.time) <= buffer
    }
}

#[cfg(test)]
#[path = "systolic_tests.rs"]
mod tests;
