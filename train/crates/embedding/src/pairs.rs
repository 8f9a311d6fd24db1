//! The interaction of a DLRM: dot products of all pairs of a sample's features, and their gradients.
//! Features are the result of the bottom MLP and the pooled rows of each table.
#![allow(unsafe_code)] // Threads write disjoint samples of one result, through pointers.

use crate::fault::Fault;
use crate::lanes::{Kernel, Lanes, Level, WIDTH, call};
use crate::tasks;

/// Samples of a task.
const SAMPLES: usize = 64;

/// Rows of products that are computed at the same time, so that sums do not wait for each other.
const ROWS: usize = 4;

/// Features of some samples: `low` has `samples` x `dim` numbers, `pooled` `samples` x `tables` x
/// `dim`.
#[derive(Clone, Copy, Debug)]
pub struct Features<'a> {
    /// Samples.
    pub samples: usize,
    /// Columns of a feature.
    pub dim: usize,
    /// The first feature of each sample.
    pub low: &'a [f32],
    /// The other features of each sample.
    pub pooled: &'a [f32],
}

impl Features<'_> {
    /// Features of a sample.
    fn count(&self) -> usize {
        1 + self.tables()
    }

    fn tables(&self) -> usize {
        self.pooled.len().checked_div(self.samples * self.dim).unwrap_or(0)
    }

    /// Numbers of a sample's result: the first feature, then a number for each pair.
    pub fn width(&self) -> usize {
        self.dim + self.count() * (self.count() - 1) / 2
    }

    fn check(&self, result: usize) -> Result<(), Fault> {
        let whole = self.samples * self.dim;
        let fits = self.low.len() == whole && self.pooled.len() == whole * self.tables();
        if fits && result == self.samples * self.width() {
            return Ok(());
        }
        let (low, pooled) = (self.low.len(), self.pooled.len());
        let found = format!("{low} and {pooled} numbers for a result of {result}");
        Err(Fault::new("features", found).allowed("samples x features of one width"))
    }

    /// The columns of a feature of a sample, which has `count` features.
    #[inline(always)]
    fn feature(&self, sample: usize, feature: usize, count: usize) -> &[f32] {
        let (of, at) = match feature {
            0 => (self.low, sample),
            _ => (self.pooled, sample * (count - 1) + feature - 1),
        };
        &of[at * self.dim..(at + 1) * self.dim]
    }
}

/// Writes `low` and the products of all pairs of features, sample by sample. That of the features
/// `i` and `j < i` is at `dim + i (i - 1) / 2 + j`. Sums go over the columns in their order, so that
/// they have the same bits for any number of threads and any instruction set.
///
/// # Errors
///
/// Numbers that are not those of features of one width.
pub fn forward(features: Features<'_>, out: &mut [f32], threads: usize) -> Result<(), Fault> {
    features.check(out.len())?;
    let out = Place(out.as_mut_ptr());
    each(features.samples, threads, |first, last, level, scratch| {
        let work = Forward { features: &features, first, last, out: &out, scratch };
        // SAFETY: the machine has these instructions; tasks have disjoint samples.
        unsafe { call(level, work) }
    });
    Ok(())
}

/// Writes the gradients of `low` and `pooled` by that of the result (`grad`, in its shape).
///
/// # Errors
///
/// As for `forward`; gradients of another shape.
pub fn backward(
    features: Features<'_>,
    grad: &[f32],
    (low, pooled): (&mut [f32], &mut [f32]),
    threads: usize,
) -> Result<(), Fault> {
    features.check(grad.len())?;
    if low.len() != features.low.len() || pooled.len() != features.pooled.len() {
        let found = format!("{} and {} gradients", low.len(), pooled.len());
        return Err(Fault::new("features", found).allowed("one for each number"));
    }
    let (low, pooled) = (Place(low.as_mut_ptr()), Place(pooled.as_mut_ptr()));
    each(features.samples, threads, |first, last, level, scratch| {
        let out = (&low, &pooled);
        let work = Backward { features: &features, grad, first, last, out, scratch };
        // SAFETY: as above.
        unsafe { call(level, work) }
    });
    Ok(())
}

/// A result. Each task writes its own samples of it.
struct Place(*mut f32);

// SAFETY: tasks write disjoint samples.
unsafe impl Sync for Place {}

/// Runs `work` for blocks of samples, with memory of each thread's own.
fn each(samples: usize, threads: usize, work: impl Fn(usize, usize, Level, &mut Vec<f32>) + Sync) {
    let level = Level::available().pop().unwrap_or(Level::Portable);
    let done = |_: Vec<f32>| ();
    tasks::run(samples.div_ceil(SAMPLES), threads, Vec::new, done, |task, scratch| {
        let first = task * SAMPLES;
        work(first, samples.min(first + SAMPLES), level, scratch);
    });
}

struct Forward<'a> {
    features: &'a Features<'a>,
    first: usize,
    last: usize,
    out: &'a Place,
    scratch: &'a mut Vec<f32>,
}

impl Kernel for Forward<'_> {
    /// Computes the samples, which are those of the features.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let (of, dim, width) = (self.features, self.features.dim, self.features.width());
        let count = of.count();
        let across = count.next_multiple_of(WIDTH);
        self.scratch.clear();
        // Features side by side, a row for each column; then a sample's products.
        self.scratch.resize(dim * across + width - dim + WIDTH, 0.0);
        let (columns, products) = self.scratch.split_at_mut(dim * across);
        for sample in self.first..self.last {
            // SAFETY: each feature has `dim` columns, and there is room for `across` of them.
            unsafe {
                for feature in 0..count {
                    let from = of.feature(sample, feature, count).as_ptr();
                    let to = columns.as_mut_ptr().add(feature);
                    for column in 0..dim {
                        *to.add(column * across) = *from.add(column);
                    }
                }
            }
            for row in (1..count).step_by(ROWS) {
                let rows = ROWS.min(count - row);
                let value = |at: usize| of.feature(sample, row + at.min(rows - 1), count).as_ptr();
                let values: [*const f32; ROWS] = std::array::from_fn(value);
                // The last vector of a row may cover the start of the next row, which comes later.
                for from in (0..row + rows - 1).step_by(2 * WIDTH).rev() {
                    let block = Block { columns, across, dim, values, rows: (row, rows), from };
                    // SAFETY: the columns have `across` features, and the products of the row
                    // `row + rows - 1` from `from` on end before the last vector does.
                    unsafe {
                        if from + WIDTH < row + rows - 1 {
                            block.multiply::<L, 2>(products);
                        } else {
                            block.multiply::<L, 1>(products);
                        }
                    }
                }
            }
            // SAFETY: the result has a row for each sample, and tasks have samples of their own.
            let out =
                unsafe { std::slice::from_raw_parts_mut(self.out.0.add(sample * width), width) };
            out[..dim].copy_from_slice(of.feature(sample, 0, count));
            out[dim..].copy_from_slice(&products[..width - dim]);
        }
    }
}

/// Products of some features with vectors of others.
struct Block<'a> {
    /// All features side by side, `across` numbers from column to column.
    columns: &'a [f32],
    across: usize,
    dim: usize,
    /// The features; the last one again where there are fewer.
    values: [*const f32; ROWS],
    /// The first feature, and how many.
    rows: (usize, usize),
    /// The first of the others.
    from: usize,
}

impl Block<'_> {
    /// Writes the products with `N` vectors of others, from the last vector on.
    ///
    /// # Safety
    ///
    /// Features have `dim` columns, columns have `N` vectors from `from` on, and there is room for
    /// a vector behind each product.
    #[inline(always)]
    unsafe fn multiply<L: Lanes, const N: usize>(self, products: &mut [f32]) {
        // SAFETY: the caller's.
        unsafe {
            let columns = self.columns.as_ptr().add(self.from);
            let mut sums = [[L::splat(0.0); N]; ROWS];
            for column in 0..self.dim {
                let mut others = [L::splat(0.0); N];
                for (vector, others) in others.iter_mut().enumerate() {
                    *others = L::load(columns.add(column * self.across + vector * WIDTH));
                }
                for (sums, values) in sums.iter_mut().zip(self.values) {
                    let value = L::splat(*values.add(column));
                    for (sum, others) in sums.iter_mut().zip(others) {
                        *sum = sum.add(value.mul(others));
                    }
                }
            }
            for vector in (0..N).rev() {
                let from = self.from + vector * WIDTH;
                for (at, sums) in sums.iter().enumerate() {
                    let row = self.rows.0 + at;
                    if at < self.rows.1 && from < row {
                        sums[vector].store(products.as_mut_ptr().add(row * (row - 1) / 2 + from));
                    }
                }
            }
        }
    }
}

struct Backward<'a> {
    features: &'a Features<'a>,
    grad: &'a [f32],
    first: usize,
    last: usize,
    out: (&'a Place, &'a Place),
    scratch: &'a mut Vec<f32>,
}

impl Kernel for Backward<'_> {
    /// Computes the gradients of the samples, which are those of the features.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let (of, dim, width) = (self.features, self.features.dim, self.features.width());
        let (count, room) = (of.count(), dim.next_multiple_of(WIDTH));
        self.scratch.clear();
        // Features and their gradients, in whole vectors.
        self.scratch.resize(2 * count * room, 0.0);
        let (rows, grads) = self.scratch.split_at_mut(count * room);
        for sample in self.first..self.last {
            let given = &self.grad[sample * width..(sample + 1) * width];
            for feature in 0..count {
                rows[feature * room..][..dim].copy_from_slice(of.feature(sample, feature, count));
            }
            grads.fill(0.0);
            grads[..dim].copy_from_slice(&given[..dim]);
            let mut column = 0;
            while column < room {
                // SAFETY: rows and gradients have `room` columns; there is a product for each pair.
                unsafe {
                    let rows = rows.as_ptr().add(column);
                    let grads = grads.as_mut_ptr().add(column);
                    // Two features at a time, so that those before them are read once for both.
                    for one in (1..count).step_by(2) {
                        let two = one + 1;
                        let by = given.as_ptr().add(dim + one * (one - 1) / 2);
                        let mine = L::load(rows.add(one * room));
                        let mut sum = L::splat(0.0);
                        if two == count {
                            for other in 0..one {
                                let by = L::splat(*by.add(other));
                                sum = sum.add(by.mul(L::load(rows.add(other * room))));
                                let theirs = grads.add(other * room);
                                L::load(theirs).add(by.mul(mine)).store(theirs);
                            }
                            sum.store(grads.add(one * room));
                            break;
                        }
                        let next = L::load(rows.add(two * room));
                        let mut next_sum = L::splat(0.0);
                        for other in 0..one {
                            let next_by = L::splat(*by.add(one + other));
                            let by = L::splat(*by.add(other));
                            let values = L::load(rows.add(other * room));
                            sum = sum.add(by.mul(values));
                            next_sum = next_sum.add(next_by.mul(values));
                            let theirs = grads.add(other * room);
                            let both = by.mul(mine).add(next_by.mul(next));
                            L::load(theirs).add(both).store(theirs);
                        }
                        let by = L::splat(*by.add(2 * one));
                        sum.add(by.mul(next)).store(grads.add(one * room));
                        next_sum.add(by.mul(mine)).store(grads.add(two * room));
                    }
                }
                column += WIDTH;
            }
            let tables = count - 1;
            // SAFETY: the results have a row for each sample, and tasks have samples of their own.
            let (low, pooled) = unsafe {
                let low = self.out.0.0.add(sample * dim);
                let pooled = self.out.1.0.add(sample * tables * dim);
                (
                    std::slice::from_raw_parts_mut(low, dim),
                    std::slice::from_raw_parts_mut(pooled, tables * dim),
                )
            };
            low.copy_from_slice(&grads[..dim]);
            for table in 0..tables {
                let from = &grads[(table + 1) * room..][..dim];
                pooled[table * dim..][..dim].copy_from_slice(from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::mix;

    fn numbers(count: usize, seed: u64) -> Vec<f32> {
        (0..count).map(|at| (mix(at as u64 + seed) % 2001) as f32 / 1000.0 - 1.0).collect()
    }

    /// Products and gradients in 64 bits, straight from their definition.
    fn expected(of: &Features<'_>, grad: &[f32]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let (count, width, dim) = (of.count(), of.width(), of.dim);
        let (mut out, mut low, mut pooled) = (Vec::new(), Vec::new(), Vec::new());
        for sample in 0..of.samples {
            let row = |at: usize| {
                of.feature(sample, at, of.count()).iter().map(|&value| f64::from(value))
            };
            let given = &grad[sample * width..][..width];
            out.extend(row(0));
            let mut grads = vec![vec![0.0; dim]; count];
            for (to, &from) in grads[0].iter_mut().zip(given) {
                *to = f64::from(from);
            }
            for one in 1..count {
                for other in 0..one {
                    out.push(row(one).zip(row(other)).map(|(left, right)| left * right).sum());
                    let by = f64::from(given[dim + one * (one - 1) / 2 + other]);
                    for (a, b) in [(one, other), (other, one)] {
                        grads[a].iter_mut().zip(row(b)).for_each(|(to, value)| *to += by * value);
                    }
                }
            }
            low.extend(&grads[0]);
            pooled.extend(grads[1..].iter().flatten());
        }
        (out, low, pooled)
    }

    fn close(found: &[f32], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (&found, expected) in found.iter().zip(expected) {
            assert!((f64::from(found) - expected).abs() < 1e-4, "{found} instead of {expected}");
        }
    }

    #[test]
    fn products_and_gradients_are_those_of_the_definition() {
        for (samples, tables, dim) in
            [(1, 1, 1), (3, 0, 5), (2, 26, 16), (70, 4, 12), (130, 17, 33), (1, 40, 64), (0, 3, 4)]
        {
            let (low, pooled) = (numbers(samples * dim, 1), numbers(samples * tables * dim, 2));
            let of = Features { samples, dim, low: &low, pooled: &pooled };
            let grad = numbers(samples * of.width(), 3);
            let (products, of_low, of_pooled) = expected(&of, &grad);
            let mut bits = Vec::new();
            for threads in [1, 3] {
                let mut out = vec![f32::NAN; samples * of.width()];
                let mut grads = (vec![f32::NAN; low.len()], vec![f32::NAN; pooled.len()]);
                forward(of, &mut out, threads).unwrap();
                backward(of, &grad, (&mut grads.0, &mut grads.1), threads).unwrap();
                close(&out, &products);
                close(&grads.0, &of_low);
                close(&grads.1, &of_pooled);
                bits.push((out, grads));
            }
            assert_eq!(bits[0], bits[1]);
        }
    }

    #[test]
    fn instruction_sets_have_the_same_bits() {
        let (samples, tables, dim) = (5, 20, 24);
        let (low, pooled) = (numbers(samples * dim, 1), numbers(samples * tables * dim, 2));
        let of = Features { samples, dim, low: &low, pooled: &pooled };
        let grad = numbers(samples * of.width(), 3);
        let mut found = Vec::new();
        for level in Level::available() {
            let mut out = vec![0.0; samples * of.width()];
            let mut grads = (vec![0.0; low.len()], vec![0.0; pooled.len()]);
            let place = Place(out.as_mut_ptr());
            let places = (Place(grads.0.as_mut_ptr()), Place(grads.1.as_mut_ptr()));
            let (first, last) = (0, samples);
            let scratch = &mut Vec::new();
            let work = Forward { features: &of, first, last, out: &place, scratch };
            // SAFETY: the machine has these instructions, and the results their shapes.
            unsafe { call(level, work) }
            let out_of = (&places.0, &places.1);
            let scratch = &mut Vec::new();
            let work = Backward { features: &of, grad: &grad, first, last, out: out_of, scratch };
            // SAFETY: as above.
            unsafe { call(level, work) }
            found.push((out, grads));
        }
        assert!(found.iter().all(|each| *each == found[0]));
    }

    #[test]
    fn other_shapes_are_refused() {
        let (low, pooled) = (numbers(6, 1), numbers(12, 2));
        let of = Features { samples: 2, dim: 3, low: &low, pooled: &pooled };
        assert!(forward(of, &mut vec![0.0; 2 * of.width()], 1).is_ok());
        assert!(forward(of, &mut vec![0.0; 2 * of.width() + 1], 1).is_err());
        let odd = Features { pooled: &pooled[1..], ..of };
        assert!(forward(odd, &mut vec![0.0; 2 * odd.width()], 1).is_err());
        let grad = vec![0.0; 2 * of.width()];
        let mut room = (vec![0.0; 6], vec![0.0; 11]);
        assert!(backward(of, &grad, (&mut room.0, &mut room.1), 1).is_err());
    }
}
