//! Lookups: tasks of samples of one feature, each a loop over bags that gathers rows.
#![allow(unsafe_code)] // Threads write disjoint parts of one result, and rows are read by pointers.

use crate::batch::{Batch, Index, Integers};
use crate::engine::{Engine, Pooling};
use crate::lanes::{Bf16, Element, F16, F32, I8, Kernel, Lanes, WIDTH, ask, call, load_part};
use crate::precision::Precision;
use crate::tasks;

/// Lookups ahead of the current one whose rows are asked for.
const AHEAD: usize = 32;

/// Most and fewest lookups of one task, where features have enough.
const LOOKUPS: (usize, usize) = (8192, 512);

/// Tasks of one thread, so that threads end at about the same time.
const TASKS: usize = 32;

/// Bags of one feature, of consecutive samples.
#[derive(Clone, Copy)]
struct Gather<'a> {
    rows: *const u8,
    stride: usize,
    dim: usize,
    precision: Precision,
    pooling: Pooling,
    batch: &'a Batch<'a>,
    /// Where each bag starts, and the end.
    bags: &'a [usize],
    /// End of the feature's indices.
    last: usize,
    /// The result of the first bag, or of the first lookup of all.
    out: *mut f32,
    /// Numbers from a row of the result to the next.
    out_stride: usize,
}

// SAFETY: the tables are only read while lookups run, and tasks write disjoint rows or columns.
unsafe impl Sync for Gather<'_> {}

/// Looks up all bags. The batch was checked, and `out` has the engine's shape.
pub fn run(engine: &Engine, batch: &Batch<'_>, offsets: &[usize], out: &mut [f32]) {
    let samples = batch.samples;
    let (_, width) = engine.shape(samples, batch.indices.len());
    let columns = engine.columns();
    let mut jobs = Vec::new();
    let share = batch.indices.len() / (TASKS * engine.threads.max(1));
    let share = share.clamp(LOOKUPS.1, LOOKUPS.0);
    for (at, feature) in engine.features().iter().enumerate() {
        let table = &engine.tables()[feature.table];
        let bags = &offsets[at * samples..=(at + 1) * samples];
        let lookups = bags[samples] - bags[0];
        let parts = (lookups.max(samples) / share).clamp(1, samples.max(1));
        for part in 0..parts {
            let (first, last) = (samples * part / parts, samples * (part + 1) / parts);
            let unpooled = feature.pooling == Pooling::None;
            let start = if unpooled { 0 } else { first * width + columns[at] };
            jobs.push(Gather {
                rows: table.weights().start(),
                stride: table.stride(),
                dim: table.dim,
                precision: table.precision,
                pooling: feature.pooling,
                batch,
                bags: &bags[first..=last],
                last: bags[samples],
                // SAFETY: the place is inside of `out` or, without bags, at its end.
                out: unsafe { out.as_mut_ptr().add(start.min(out.len())) },
                out_stride: width,
            });
        }
    }
    let level = engine.level;
    tasks::run(
        jobs.len(),
        engine.threads,
        || (),
        |()| (),
        |task, ()| {
            // SAFETY: the batch was checked, so that indices are rows of the table; the machine has the
            // engine's instructions.
            unsafe { call(level, &jobs[task]) }
        },
    );
}

impl Kernel for &Gather<'_> {
    /// Looks up the bags, whose indices and places are in range.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the caller's.
        unsafe {
            match self.precision {
                Precision::F32 => of_precision::<L, F32>(self),
                Precision::F16 => of_precision::<L, F16>(self),
                Precision::Bf16 => of_precision::<L, Bf16>(self),
                Precision::I8 => of_precision::<L, I8>(self),
            }
        }
    }
}

/// # Safety
///
/// As for `Gather`'s kernel; the table's elements are of type `E`.
#[inline(always)]
unsafe fn of_precision<L: Lanes, E: Element>(job: &Gather<'_>) {
    // SAFETY: the caller's.
    unsafe {
        match (job.batch.indices, job.batch.weights) {
            (Integers::I32(indices), None) => of_dim::<L, E, i32>(job, indices),
            (Integers::I64(indices), None) => of_dim::<L, E, i64>(job, indices),
            (Integers::I32(indices), Some(weights)) => {
                bags::<L, E, i32, true, 0>(job, indices, weights);
            }
            (Integers::I64(indices), Some(weights)) => {
                bags::<L, E, i64, true, 0>(job, indices, weights);
            }
        }
    }
}

/// Usual widths have code of their own, in which loops over a row are unrolled.
///
/// # Safety
///
/// As for `of_precision`.
#[inline(always)]
unsafe fn of_dim<L: Lanes, E: Element, I: Index>(job: &Gather<'_>, indices: &[I]) {
    // SAFETY: the caller's.
    unsafe {
        match job.dim {
            16 if L::UNROLLED => bags::<L, E, I, false, 16>(job, indices, &[]),
            32 if L::UNROLLED => bags::<L, E, I, false, 32>(job, indices, &[]),
            64 if L::UNROLLED => bags::<L, E, I, false, 64>(job, indices, &[]),
            128 if L::UNROLLED => bags::<L, E, I, false, 128>(job, indices, &[]),
            _ => bags::<L, E, I, false, 0>(job, indices, &[]),
        }
    }
}

/// # Safety
///
/// As for `of_precision`; rows have `DIM` elements, or any number of them if that is 0.
#[inline(always)]
unsafe fn bags<L: Lanes, E: Element, I: Index, const WEIGHTED: bool, const DIM: usize>(
    job: &Gather<'_>,
    indices: &[I],
    weights: &[f32],
) {
    let indices = &indices[..job.last];
    // SAFETY: the caller's. Columns below `dim` are in the row and in the result.
    unsafe {
        for (bag, ends) in job.bags.windows(2).enumerate() {
            let (mut first, end) = (ends[0], ends[1]);
            // Without pooling, each lookup is a bag.
            loop {
                let (last, at) = match job.pooling {
                    Pooling::None if first == end => break,
                    Pooling::None => (first + 1, first),
                    _ => (end, bag),
                };
                let out = job.out.add(at * job.out_stride);
                one_bag::<L, E, I, WEIGHTED, DIM>(&Bag { job, indices, weights, first, last, out });
                first = last;
                if job.pooling != Pooling::None {
                    break;
                }
            }
        }
    }
}

/// # Safety
///
/// As for `of_precision`.
#[inline(always)]
unsafe fn one_bag<L: Lanes, E: Element, I: Index, const WEIGHTED: bool, const DIM: usize>(
    bag: &Bag<'_, I, DIM>,
) {
    let dim = bag.dim();
    let mut column = 0;
    // SAFETY: the caller's. Columns below `dim` are in the row and in the result.
    unsafe {
        while column + 8 * WIDTH <= dim {
            block::<L, E, I, 8, WEIGHTED, DIM>(bag, column);
            column += 8 * WIDTH;
        }
        if column + 4 * WIDTH <= dim {
            block::<L, E, I, 4, WEIGHTED, DIM>(bag, column);
            column += 4 * WIDTH;
        }
        if column + 2 * WIDTH <= dim {
            block::<L, E, I, 2, WEIGHTED, DIM>(bag, column);
            column += 2 * WIDTH;
        }
        if column + WIDTH <= dim {
            block::<L, E, I, 1, WEIGHTED, DIM>(bag, column);
            column += WIDTH;
        }
        if column < dim {
            part::<L, E, I, WEIGHTED, DIM>(bag, column);
        }
    }
}

/// A bag, and where its result goes.
struct Bag<'a, I, const DIM: usize> {
    job: &'a Gather<'a>,
    indices: &'a [I],
    weights: &'a [f32],
    first: usize,
    last: usize,
    out: *mut f32,
}

impl<I: Index, const DIM: usize> Bag<'_, I, DIM> {
    /// Elements of a row.
    #[inline(always)]
    fn dim(&self) -> usize {
        if DIM == 0 { self.job.dim } else { DIM }
    }

    /// Bytes of a row.
    #[inline(always)]
    fn stride<E: Element>(&self) -> usize {
        if DIM == 0 { self.job.stride } else { DIM * E::BYTES + size_of::<E::Scale>() }
    }

    /// Factor of sums: 1, or 1 by the number of rows.
    #[inline(always)]
    fn share(&self) -> Option<f32> {
        let rows = self.last - self.first;
        (self.job.pooling == Pooling::Mean && rows > 1).then(|| 1.0 / rows as f32)
    }

    /// # Safety
    ///
    /// `lookup` is one of the indices, which are rows of the table.
    #[inline(always)]
    unsafe fn row<E: Element>(&self, lookup: usize) -> *const u8 {
        // SAFETY: the caller's.
        unsafe {
            let row = self.indices.get_unchecked(lookup).row() as usize;
            self.job.rows.add(row * self.stride::<E>())
        }
    }

    /// Asks for the row that is looked up a little later.
    ///
    /// # Safety
    ///
    /// All indices are rows of the table.
    #[inline(always)]
    unsafe fn ask<E: Element>(&self, lookup: usize, column: usize) {
        if column == 0 && lookup + AHEAD < self.indices.len() {
            // SAFETY: the lookup is one of the indices.
            let row = unsafe { self.row::<E>(lookup + AHEAD) };
            let mut byte = 0;
            while byte < self.stride::<E>() {
                ask(row.wrapping_add(byte));
                byte += 64;
            }
        }
    }
}

/// `N` vectors of columns from `column` on.
///
/// # Safety
///
/// As for `bags`; the columns are in the row.
#[inline(always)]
unsafe fn block<
    L: Lanes,
    E: Element,
    I: Index,
    const N: usize,
    const WEIGHTED: bool,
    const DIM: usize,
>(
    bag: &Bag<'_, I, DIM>,
    column: usize,
) {
    // SAFETY: the caller's.
    unsafe {
        let mut sums = [L::splat(0.0); N];
        for lookup in bag.first..bag.last {
            bag.ask::<E>(lookup, column);
            let row = bag.row::<E>(lookup);
            let scale = E::scale(row, bag.dim());
            for (vector, sum) in sums.iter_mut().enumerate() {
                let from = row.add((column + vector * WIDTH) * E::BYTES);
                let mut value = E::load::<L>(from, scale);
                if WEIGHTED {
                    value = value.mul(L::splat(*bag.weights.get_unchecked(lookup)));
                }
                *sum = sum.add(value);
            }
        }
        for (vector, mut sum) in sums.into_iter().enumerate() {
            if let Some(share) = bag.share() {
                sum = sum.mul(L::splat(share));
            }
            sum.store(bag.out.add(column + vector * WIDTH));
        }
    }
}

/// The last columns, fewer than a vector.
///
/// # Safety
///
/// As for `bags`.
#[inline(always)]
unsafe fn part<L: Lanes, E: Element, I: Index, const WEIGHTED: bool, const DIM: usize>(
    bag: &Bag<'_, I, DIM>,
    column: usize,
) {
    let n = bag.dim() - column;
    // SAFETY: the caller's.
    unsafe {
        let mut sum = L::splat(0.0);
        for lookup in bag.first..bag.last {
            bag.ask::<E>(lookup, column);
            let row = bag.row::<E>(lookup);
            let scale = E::scale(row, bag.dim());
            let mut value = load_part::<L, E>(row.add(column * E::BYTES), n, scale);
            if WEIGHTED {
                value = value.mul(L::splat(*bag.weights.get_unchecked(lookup)));
            }
            sum = sum.add(value);
        }
        if let Some(share) = bag.share() {
            sum = sum.mul(L::splat(share));
        }
        let mut numbers = [0f32; WIDTH];
        sum.store(numbers.as_mut_ptr());
        std::ptr::copy_nonoverlapping(numbers.as_ptr(), bag.out.add(column), n);
    }
}
