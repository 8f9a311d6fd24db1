//! Gradients to rows: each task takes a range of a table's rows, sorts the lookups of these rows and
//! updates every row once.
#![allow(unsafe_code)] // Tasks write disjoint rows of tables through pointers.

use crate::batch::{Batch, Index, Integers};
use crate::engine::Engine;
use crate::grads::{Grads, Sources};
use crate::lanes::{Kernel, Lanes, call};
use crate::optimizer::{Round, RowSums, Rule};
use crate::random::{mix, named};
use crate::row::{Update, product};
use crate::scratch::{Scratch, Vector};
use crate::sort::{Key, by_row};
use crate::table::Table;
use crate::tasks;
use crate::update::Sorted;
use std::cell::RefCell;
use std::ptr::null_mut;

/// Fewest lookups of one task, where threads share the work.
const LOOKUPS: usize = 16384;

/// Tasks of one thread, so that threads end at about the same time.
const TASKS: usize = 4;

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
        rows.extend(ranges(engine, batch, &grads, table, &features));
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
        let rows = &rows[task].1;
        let Scratch { packed, wide, grads: copied, factors, sum } = scratch;
        let sources = batch.indices.len().max(batch.lengths.len());
        if rows.table.held() <= 1 << 32 && sources <= 1 << 32 {
            of_rows(engine, batch, &grads, rows, packed, (copied, factors, sum), None);
        } else {
            of_rows(engine, batch, &grads, rows, wide, (copied, factors, sum), None);
        }
    });
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
    let grads = Grads::new(engine, batch, offsets, grad);
    let table = &engine.tables()[at];
    let looks = |&feature: &usize| engine.features()[feature].table == at;
    let features: Vec<usize> = (0..engine.features().len()).filter(looks).collect();
    let rows = Range { table, features, first: 0, last: table.held() - 1 };
    let mut scratch = Scratch::default();
    let Scratch { wide, grads: copied, factors, sum, .. } = &mut scratch;
    let found = RefCell::new(Vec::new());
    let take = Some((round, &found));
    of_rows(engine, batch, &grads, &rows, wide, (copied, factors, sum), take);
    let mut found = found.into_inner();
    if table.cache.is_some() {
        found.sort_unstable_by_key(|sums| sums.row);
    }
    found
}

/// The rows of a table in ranges with about the same number of lookups, which comes first.
fn ranges<'a>(
    engine: &Engine,
    batch: &Batch<'_>,
    grads: &Grads<'_>,
    table: &'a Table,
    features: &[usize],
) -> Vec<(usize, Range<'a>)> {
    let lookups: usize = features.iter().map(|&feature| grads.lookups(feature).len()).sum();
    let least = LOOKUPS.max(batch.indices.len() / (TASKS * engine.threads));
    let parts = if engine.threads > 1 { lookups.div_ceil(least) } else { 1 };
    if lookups == 0 {
        return Vec::new();
    }
    // Every 64th lookup stands for all; its row is where a range may start.
    let mut starts = vec![0];
    if parts > 1 {
        let sampled = features.iter().flat_map(|&feature| grads.lookups(feature).step_by(64));
        let mut sampled: Vec<u64> = sampled.map(|at| batch.indices.get(at) as u64).collect();
        sampled.sort_unstable();
        starts.extend((1..parts).map(|part| sampled[sampled.len() * part / parts]));
        starts.dedup();
    }
    let lasts = starts.iter().skip(1).map(|start| start - 1).chain([table.held() - 1]);
    let share = lookups / starts.len();
    let range = |(&first, last)| (share, Range { table, features: features.to_vec(), first, last });
    starts.iter().zip(lasts).map(range).collect()
}

/// Room for gradients, for factors and bags of lookups with weights, and for the gradient of a row.
type Room<'a> = (&'a mut Vec<Vector>, &'a mut (Vec<f32>, Vec<u32>), &'a mut Vec<Vector>);

/// Sorts the lookups of `rows` and updates each row, or takes its sums.
fn of_rows<K: Key>(
    engine: &Engine,
    batch: &Batch<'_>,
    grads: &Grads<'_>,
    rows: &Range<'_>,
    [keys, spare]: &mut [Vec<K>; 2],
    (copied, factors, sum): Room<'_>,
    take: Option<(Round, &RefCell<Vec<RowSums>>)>,
) {
    let table = rows.table;
    let pooling = |feature: usize| engine.features()[feature].pooling;
    let sources = grads.sources(&rows.features, pooling, table.dim, copied);
    keys.clear();
    factors.0.clear();
    factors.1.clear();
    for place in 0..rows.features.len() {
        match batch.indices {
            Integers::I32(indices) => collect(batch, grads, rows, place, indices, keys),
            Integers::I64(indices) => collect(batch, grads, rows, place, indices, keys),
        }
        if let Some(weights) = batch.weights {
            let feature = rows.features[place];
            factors.0.extend(&weights[grads.lookups(feature)]);
            for sample in 0..batch.samples {
                let bag = (place * batch.samples + sample) as u32;
                factors.1.resize(factors.1.len() + grads.bag(feature, sample).len(), bag);
            }
        }
    }
    by_row(keys, spare, rows.first, rows.last);
    let mut state = [(null_mut(), 0); 2];
    let numbers = engine.optimizer.rule.state(table.dim);
    for (at, (memory, numbers)) in table.state().iter().zip(numbers).enumerate() {
        state[at] = (memory.start().cast(), numbers);
    }
    let corrections = match engine.optimizer.rule {
        Rule::Adam { beta1, beta2, .. } | Rule::Lamb { beta1, beta2, .. } => {
            // Sums are taken before the step begins.
            let step = engine.step + u64::from(take.is_some());
            let correction = |beta: f32| 1.0 - f64::from(beta).powi(step.min(1 << 30) as i32);
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
        sources: Sources { factors: batch.weights.map(|_| (&*factors.0, &*factors.1)), ..sources },
        sums: &table.sums,
        whole_dim: table.whole_dim,
        take,
        names: table.cache.as_ref().map(|cache| cache.names()),
    };
    // SAFETY: the batch was checked, so that lookups are rows of the table; ranges of rows are
    // disjoint; the machine has the engine's instructions.
    unsafe { call(engine.level, Sorted { job: &job, lookups: keys, sum }) }
}

/// Adds the lookups of a feature that are in `rows` to `keys`. The source of a lookup is its bag's
/// number among those of the table; with weights or without pooling, its own number.
fn collect<K: Key, I: Index>(
    batch: &Batch<'_>,
    grads: &Grads<'_>,
    rows: &Range<'_>,
    place: usize,
    indices: &[I],
    keys: &mut Vec<K>,
) {
    let all = rows.first == 0 && rows.last == rows.table.held() - 1;
    let (first, count) = (rows.first, rows.last - rows.first);
    let feature = rows.features[place];
    let mut add = |indices: &[I], source: u64, step: u64| {
        let numbered = indices.iter().enumerate();
        let keyed = numbered.map(|(at, index)| K::new(index.row(), source + step * at as u64));
        if all {
            keys.extend(keyed);
            return;
        }
        // All are written, and the next one goes over one of another range: the processor would guess
        // too many branches wrong.
        keys.reserve(indices.len());
        let room = &mut keys.spare_capacity_mut()[..indices.len()];
        let mut taken = 0;
        for key in keyed {
            room[taken].write(key);
            taken += usize::from(key.row().wrapping_sub(first) <= count);
        }
        // SAFETY: so many were written.
        unsafe { keys.set_len(keys.len() + taken) };
    };
    if grads.unpooled || batch.weights.is_some() {
        let before = rows.features[..place].iter().map(|&feature| grads.lookups(feature).len());
        add(&indices[grads.lookups(feature)], before.sum::<usize>() as u64, 1);
        return;
    }
    for sample in 0..batch.samples {
        let bag = place * batch.samples + sample;
        add(&indices[grads.bag(feature, sample)], bag as u64, 0);
    }
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
