//! Gradients to rows: each thread takes a range of a table's rows, sorts the lookups of these rows and
//! updates every row once. In the end threads share the ranges that are left.
#![allow(unsafe_code)] // Tasks write disjoint gradients of weights, and read rows by pointers.

use crate::batch::Batch;
use crate::engine::Engine;
use crate::grads::Grads;
use crate::lanes::{Kernel, Lanes, call};
use crate::optimizer::{Round, RowSums};
use crate::prepared::{Pass, Prepared, Rows};
use crate::row::product;
use crate::scratch::{Scratch, Vector};
use crate::table::Table;
use crate::tasks::{self, Shares};
use crate::workers;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread;

/// Fewest lookups for which a thread is at work.
const LOOKUPS: usize = 512;

/// Changes the tables by the gradient `grad`. The batch was checked and `grad` has the engine's
/// shape; `weights` takes the gradients of the lookups' weights.
pub fn run(
    engine: &Engine,
    batch: &Batch<'_>,
    offsets: &[usize],
    grad: &[f32],
    weights: Option<&mut [f32]>,
) {
    let grads = Grads::new(engine, batch, offsets, grad);
    if let Some(weights) = weights {
        of_weights(engine, batch, &grads, weights);
    }
    let pass = Pass { engine, batch, grads: &grads };
    let threads = engine.threads.clamp(1, batch.indices.len().div_ceil(LOOKUPS).max(1));
    let mut rows: Vec<(usize, Rows<'_>)> = Vec::new();
    for at in 0..engine.tables().len() {
        rows.extend(ranges(pass, rows_of(pass, at), threads));
    }
    let slots: Vec<Slot<'_>> = (0..threads).map(|_| RwLock::new(None)).collect();
    let shares = Shares::new(rows.iter().map(|(lookups, _)| *lookups), threads);
    let sorted = AtomicUsize::new(0);
    workers::run(threads - 1, &|thread| {
        let slot = &slots[thread];
        let mut sum = Vec::new();
        while let Some(range) = shares.take(thread) {
            let counted = Counted(&sorted);
            let mut place = slot.write().unwrap_or_else(PoisonError::into_inner);
            let scratch = match place.take() {
                Some(before) => before.into_scratch(),
                None => engine.take_scratch(),
            };
            *place = Some(Prepared::new(pass, &rows[range].1, scratch));
            drop((place, counted));
            update(slot, pass, threads, &mut sum);
        }
        // Helps the others with theirs.
        loop {
            let last = sorted.load(Ordering::Acquire) == rows.len();
            for other in &slots {
                update(other, pass, threads, &mut sum);
            }
            if last {
                return;
            }
            thread::yield_now();
        }
    });
    for slot in slots {
        let place = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
        place.into_iter().for_each(|prepared| engine.give_scratch(prepared.into_scratch()));
    }
}

/// Writes the gradients of the lookups' weights into `weights`. The batch was checked and `grad` has
/// the engine's shape.
pub fn weight_gradients(
    engine: &Engine,
    batch: &Batch<'_>,
    offsets: &[usize],
    grad: &[f32],
    weights: &mut [f32],
) {
    of_weights(engine, batch, &Grads::new(engine, batch, offsets, grad), weights);
}

/// Where a thread keeps the range that it has begun.
type Slot<'a> = RwLock<Option<Prepared<'a>>>;

/// Updates what is left of a thread's range, unless it begins another one at the moment.
fn update(slot: &Slot<'_>, pass: Pass<'_>, threads: usize, sum: &mut Vec<Vector>) {
    if let Ok(place) = slot.try_read()
        && let Some(prepared) = &*place
    {
        prepared.update(pass, threads, sum);
    }
}

/// Counts a range when it is dropped, also in a panic, so that no thread waits for it in vain.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// Rows of the table `at` that are looked up, ascending, with the sums of a round. The batch was
/// checked and `grad` has the engine's shape.
pub fn row_sums(
    engine: &Engine,
    batch: &Batch<'_>,
    offsets: &[usize],
    grad: &[f32],
    (at, round): (usize, Round),
) -> Vec<RowSums> {
    let pass = Pass { engine, batch, grads: &Grads::new(engine, batch, offsets, grad) };
    let rows = rows_of(pass, at);
    let mut found = Prepared::new(pass, &rows, Scratch::default()).row_sums(pass, round);
    if rows.table.cache.is_some() {
        found.sort_unstable_by_key(|sums| sums.row);
    }
    found
}

/// All rows of the table `at`.
fn rows_of(pass: Pass<'_>, at: usize) -> Rows<'_> {
    let table = &pass.engine.tables()[at];
    let looks = |&feature: &usize| pass.engine.features()[feature].table == at;
    let features = (0..pass.engine.features().len()).filter(looks).collect();
    Rows { table, features, first: 0, last: table.held() - 1 }
}

/// `rows` in ranges with about the same number of lookups, which comes first. A range has no more
/// than a thread's share of all lookups, because one thread sorts it.
fn ranges<'a>(pass: Pass<'a>, rows: Rows<'a>, threads: usize) -> Vec<(usize, Rows<'a>)> {
    let Pass { batch, grads, .. } = pass;
    let lookups: usize = rows.features.iter().map(|&feature| grads.lookups(feature).len()).sum();
    if lookups == 0 {
        return Vec::new();
    }
    let parts = lookups.div_ceil(batch.indices.len().div_ceil(threads));
    if parts == 1 {
        return vec![(lookups, rows)];
    }
    let Rows { table, features, first, last } = rows;
    // Every 64th lookup stands for all; its row is where a range may start.
    let sampled = features.iter().flat_map(|&feature| grads.lookups(feature).step_by(64));
    let mut sampled: Vec<u64> = sampled.map(|at| batch.indices.get(at) as u64).collect();
    sampled.sort_unstable();
    let mut starts = vec![first];
    starts.extend((1..parts).map(|part| sampled[sampled.len() * part / parts]));
    starts.dedup();
    let lasts = starts.iter().skip(1).map(|start| start - 1).chain([last]);
    let share = lookups / starts.len();
    let range = |(&first, last)| (share, Rows { table, features: features.clone(), first, last });
    starts.iter().zip(lasts).map(range).collect()
}

/// Bags of one feature and a range of samples, whose lookups' weights get gradients.
struct Products<'a> {
    table: &'a Table,
    batch: &'a Batch<'a>,
    grads: &'a Grads<'a>,
    feature: usize,
    samples: std::ops::Range<usize>,
    out: *mut f32,
}

// SAFETY: tables are only read while products run, and tasks write disjoint parts of the result.
unsafe impl Sync for Products<'_> {}

/// Writes the gradient of each lookup's weight.
fn of_weights(engine: &Engine, batch: &Batch<'_>, grads: &Grads<'_>, weights: &mut [f32]) {
    let (mut jobs, out) = (Vec::new(), weights.as_mut_ptr());
    for (feature, settings) in engine.features().iter().enumerate() {
        let table = &engine.tables()[settings.table];
        for first in (0..batch.samples).step_by(256) {
            let samples = first..batch.samples.min(first + 256);
            jobs.push(Products { table, batch, grads, feature, samples, out });
        }
    }
    let level = engine.level;
    tasks::run(
        jobs.len(),
        engine.threads,
        || (),
        |()| (),
        |task, ()| {
            // SAFETY: the batch was checked, so that lookups are rows of the table; the machine has
            // the engine's instructions.
            unsafe { call(level, &jobs[task]) }
        },
    );
}

impl Kernel for &Products<'_> {
    /// Multiplies the rows of the lookups, which are rows of the table.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let table = self.table;
        for sample in self.samples.clone() {
            let grad = self.grads.of_bag(self.feature, sample, table.dim);
            for at in self.grads.bag(self.feature, sample) {
                let row = self.batch.indices.get(at) as usize * table.stride();
                // SAFETY: the caller's.
                unsafe {
                    let row = table.weights().start().add(row);
                    let product = product::<L>(table.precision, row, grad.as_ptr(), table.dim);
                    *self.out.add(at) = product;
                }
            }
        }
    }
}
