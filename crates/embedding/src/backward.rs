//! Gradients to rows: each task takes a range of a table's rows, sorts the lookups of these rows and
//! updates every row once.
#![allow(unsafe_code)] // Tasks write disjoint rows of tables through pointers.

use crate::batch::{Batch, Index, Integers};
use crate::engine::Engine;
use crate::grads::Grads;
use crate::lanes::{Kernel, Lanes, call};
use crate::optimizer::Rule;
use crate::random::{mix, named};
use crate::sort::{Key, by_row};
use crate::table::Table;
use crate::tasks;
use crate::update::{Sorted, Update, product};
use std::ptr::null_mut;

/// Lookups of one task, where threads share the work.
const LOOKUPS: usize = 16384;

/// Rows of a table that one task updates.
struct Range<'a> {
    table: &'a Table,
    /// The features that look into the table.
    features: Vec<usize>,
    first: u64,
    last: u64,
}

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
    let mut rows: Vec<(usize, Range<'_>)> = Vec::new();
    for (at, table) in engine.tables().iter().enumerate() {
        let looks = |&feature: &usize| engine.features()[feature].table == at;
        let features: Vec<usize> = (0..engine.features().len()).filter(looks).collect();
        rows.extend(ranges(engine, batch, offsets, table, &features));
    }
    // Large tasks first, so that no thread starts one when the others are done.
    rows.sort_by_key(|(lookups, _)| std::cmp::Reverse(*lookups));
    let spare = engine.spare();
    let take = || spare.lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_default();
    let give = |scratch| {
        if let Ok(mut spare) = spare.lock() {
            spare.push(scratch);
        }
    };
    tasks::run(rows.len(), engine.threads, take, give, |task, scratch| {
        let (_, rows) = &rows[task];
        if rows.table.rows <= 1 << 32 && grads.sources() <= 1 << 32 {
            of_rows(engine, batch, &grads, rows, &mut scratch.packed, &mut scratch.sum);
        } else {
            of_rows(engine, batch, &grads, rows, &mut scratch.wide, &mut scratch.sum);
        }
    });
}

/// The rows of a table in ranges with about the same number of lookups, which comes first.
fn ranges<'a>(
    engine: &Engine,
    batch: &Batch<'_>,
    offsets: &[usize],
    table: &'a Table,
    features: &[usize],
) -> Vec<(usize, Range<'a>)> {
    let ends = |&feature: &usize| {
        (offsets[feature * batch.samples], offsets[(feature + 1) * batch.samples])
    };
    let lookups: usize = features.iter().map(ends).map(|(first, last)| last - first).sum();
    let parts = if engine.threads > 1 { lookups.div_ceil(LOOKUPS).min(64) } else { 1 };
    if lookups == 0 {
        return Vec::new();
    }
    // Every 64th lookup stands for all; its row is where a range may start.
    let mut starts = vec![0];
    if parts > 1 {
        let sampled = features.iter().map(ends).flat_map(|(first, last)| (first..last).step_by(64));
        let mut sampled: Vec<u64> = sampled.map(|at| batch.indices.get(at) as u64).collect();
        sampled.sort_unstable();
        starts.extend((1..parts).map(|part| sampled[sampled.len() * part / parts]));
        starts.dedup();
    }
    let lasts = starts.iter().skip(1).map(|start| start - 1).chain([table.rows - 1]);
    let share = lookups / starts.len();
    let range = |(&first, last)| (share, Range { table, features: features.to_vec(), first, last });
    starts.iter().zip(lasts).map(range).collect()
}

/// Sorts the lookups of `rows` and updates each row.
fn of_rows<K: Key>(
    engine: &Engine,
    batch: &Batch<'_>,
    grads: &Grads<'_>,
    rows: &Range<'_>,
    [keys, spare]: &mut [Vec<K>; 2],
    sum: &mut Vec<f32>,
) {
    keys.clear();
    for &feature in &rows.features {
        match batch.indices {
            Integers::I32(indices) => collect(batch, grads, rows, feature, indices, keys),
            Integers::I64(indices) => collect(batch, grads, rows, feature, indices, keys),
        }
    }
    by_row(keys, spare, rows.first, rows.last);
    let table = rows.table;
    let mut state = [(null_mut(), 0); 2];
    let numbers = engine.optimizer.rule.state(table.dim);
    for (at, (memory, numbers)) in table.state().iter().zip(numbers).enumerate() {
        state[at] = (memory.start().cast(), numbers);
    }
    let corrections = match engine.optimizer.rule {
        Rule::Adam { beta1, beta2, .. } | Rule::Lamb { beta1, beta2, .. } => {
            let correction =
                |beta: f32| 1.0 - f64::from(beta).powi(engine.step.min(1 << 30) as i32);
            (correction(beta1) as f32, correction(beta2) as f32)
        }
        _ => (1.0, 1.0),
    };
    let rounding = table.stochastic.then(|| {
        let key = mix(named(engine.seed, &table.part.whole) ^ mix(engine.step));
        (key, table.part.first_row, table.part.first_column)
    });
    let job = Update {
        rows: table.weights().start(),
        stride: table.stride(),
        dim: table.dim,
        precision: table.precision,
        state,
        optimizer: engine.optimizer,
        corrections,
        rounding,
        grads,
    };
    // SAFETY: the batch was checked, so that lookups are rows of the table; ranges of rows are
    // disjoint; the machine has the engine's instructions.
    unsafe { call(engine.level, Sorted { job: &job, lookups: keys, sum }) }
}

/// Adds the lookups of a feature that are in `rows` to `keys`.
fn collect<K: Key, I: Index>(
    batch: &Batch<'_>,
    grads: &Grads<'_>,
    rows: &Range<'_>,
    feature: usize,
    indices: &[I],
    keys: &mut Vec<K>,
) {
    let all = rows.first == 0 && rows.last == rows.table.rows - 1;
    let (first, count) = (rows.first, rows.last - rows.first);
    for sample in 0..batch.samples {
        let (code, places) = grads.bag(feature, sample);
        let start = places.start as u64;
        let source = |at: usize| if grads.by_bag() { code } else { start + at as u64 };
        let bag = indices[places].iter().enumerate();
        let key = bag.map(|(at, index)| K::new(index.row(), source(at)));
        if all {
            keys.extend(key);
        } else {
            keys.extend(key.filter(|key| key.row().wrapping_sub(first) <= count));
        }
    }
}

/// Bags of one feature and a range of samples, whose lookups' weights get gradients.
struct Product<'a> {
    table: &'a Table,
    batch: &'a Batch<'a>,
    grads: &'a Grads<'a>,
    places: std::ops::Range<usize>,
    out: *mut f32,
}

// SAFETY: tables are only read while products run, and tasks write disjoint parts of the result.
unsafe impl Sync for Product<'_> {}

/// Writes the gradient of each lookup's weight.
fn of_weights(engine: &Engine, batch: &Batch<'_>, grads: &Grads<'_>, weights: &mut [f32]) {
    let mut jobs = Vec::new();
    for (at, feature) in engine.features().iter().enumerate() {
        let table = &engine.tables()[feature.table];
        for sample in (0..batch.samples).step_by(256) {
            let last = batch.samples.min(sample + 256) - 1;
            let places = grads.bag(at, sample).1.start..grads.bag(at, last).1.end;
            let out = weights.as_mut_ptr();
            jobs.push(Product { table, batch, grads, places, out });
        }
    }
    let level = engine.level;
    tasks::run(
        jobs.len(),
        engine.threads,
        || (),
        |()| (),
        |task, ()| {
            // SAFETY: the batch was checked, so that lookups are rows of the table; the machine has the
            // engine's instructions.
            unsafe { call(level, &jobs[task]) }
        },
    );
}

impl Kernel for &Product<'_> {
    /// Multiplies the rows of the lookups, which are rows of the table.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for at in self.places.clone() {
            let row = self.batch.indices.get(at) as usize * self.table.stride();
            let (grad, _) = self.grads.of(at);
            let (grad, dim) = (self.grads.from(grad), self.table.dim);
            // SAFETY: the caller's.
            unsafe {
                let row = self.table.weights().start().add(row);
                *self.out.add(at) = product::<L>(self.table.precision, row, grad, dim);
            }
        }
    }
}
