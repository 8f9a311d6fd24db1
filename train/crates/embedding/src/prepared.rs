//! The lookups of a range of rows, sorted, and the updates of these rows. Threads that have no range
//! of their own to begin take a part of another thread's.
#![allow(unsafe_code)] // Rows of tables are written through pointers.

use crate::batch::{Batch, Index, Integers};
use crate::engine::Engine;
use crate::gradient::Squares;
use crate::grads::{Grads, Sources};
use crate::lanes::call;
use crate::optimizer::{Round, RowSums, Rule};
use crate::random::{mix, named};
use crate::row::Update;
use crate::scratch::{Scratch, Vector};
use crate::sort::{Key, by_row};
use crate::table::Table;
use crate::update::Sorted;
use std::cell::RefCell;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Fewest lookups that a thread takes at a time.
const FEW: usize = 512;

/// Rows of a table, whose lookups one thread sorts.
pub struct Rows<'a> {
    pub table: &'a Table,
    /// The features that look into the table.
    pub features: Vec<usize>,
    pub first: u64,
    pub last: u64,
}

/// A backward pass: what all ranges have in common.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    pub engine: &'a Engine,
    pub batch: &'a Batch<'a>,
    pub grads: &'a Grads<'a>,
}

/// A range of rows whose lookups are sorted.
pub struct Prepared<'a> {
    rows: &'a Rows<'a>,
    /// Gradients of the lookups, without factors.
    sources: Sources<'static>,
    /// Whether lookups are in `Scratch::wide`.
    wide: bool,
    /// Lookups that a thread has taken.
    taken: AtomicUsize,
    scratch: Scratch,
}

// SAFETY: the pointers lead into the scratch and into the gradient, which are only read.
unsafe impl Send for Prepared<'_> {}
// SAFETY: as above.
unsafe impl Sync for Prepared<'_> {}

impl<'a> Prepared<'a> {
    /// Sorts the lookups of `rows`, and brings their gradients together.
    pub fn new(pass: Pass<'_>, rows: &'a Rows<'a>, mut scratch: Scratch) -> Self {
        let Pass { engine, batch, grads } = pass;
        let pooling = |feature: usize| engine.features()[feature].pooling;
        let sources = grads.sources(&rows.features, pooling, rows.table.dim, &mut scratch.grads);
        scratch.squares.clear();
        let optimizer = &engine.optimizer;
        let row_wise = matches!(optimizer.rule, Rule::RowWiseAdaGrad { .. });
        if row_wise && optimizer.is_plain() && !sources.far && batch.weights.is_none() {
            let (grads, dim, to) = (&scratch.grads, rows.table.dim, &mut scratch.squares);
            // SAFETY: the machine has the engine's instructions.
            unsafe { call(engine.level, Squares { grads, dim, to }) }
        }
        let (factors, bags) = &mut scratch.factors;
        factors.clear();
        bags.clear();
        if let Some(weights) = batch.weights {
            for (place, &feature) in rows.features.iter().enumerate() {
                factors.extend(&weights[grads.lookups(feature)]);
                for sample in 0..batch.samples {
                    let bag = (place * batch.samples + sample) as u32;
                    bags.resize(bags.len() + grads.bag(feature, sample).len(), bag);
                }
            }
        }
        let numbers = batch.indices.len().max(batch.lengths.len());
        let wide = rows.table.held() > 1 << 32 || numbers > 1 << 32;
        if wide {
            sort(pass, rows, &mut scratch.wide);
        } else {
            sort(pass, rows, &mut scratch.packed);
        }
        Self { rows, sources, wide, taken: AtomicUsize::new(0), scratch }
    }

    /// Updates rows that no thread has taken yet, as long as there are any. `threads`: how many may
    /// do so at the same time. `sum`: room for the gradient of a row.
    pub fn update(&self, pass: Pass<'_>, threads: usize, sum: &mut Vec<Vector>) {
        if self.wide {
            self.update_all(pass, &self.scratch.wide[0], (threads, sum), None);
        } else {
            self.update_all(pass, &self.scratch.packed[0], (threads, sum), None);
        }
    }

    /// The rows with their sums of a round. No row changes.
    pub fn row_sums(&self, pass: Pass<'_>, round: Round) -> Vec<RowSums> {
        let (found, mut sum) = (RefCell::new(Vec::new()), Vec::new());
        let take = Some((round, &found));
        if self.wide {
            self.update_all(pass, &self.scratch.wide[0], (1, &mut sum), take);
        } else {
            self.update_all(pass, &self.scratch.packed[0], (1, &mut sum), take);
        }
        found.into_inner()
    }

    /// The memory, for the next range.
    pub fn into_scratch(self) -> Scratch {
        self.scratch
    }

    fn update_all<K: Key>(
        &self,
        pass: Pass<'_>,
        lookups: &[K],
        (threads, sum): (usize, &mut Vec<Vector>),
        take: Option<(Round, &RefCell<Vec<RowSums>>)>,
    ) {
        let job = self.job(pass, take);
        while let Some(part) = next(&self.taken, lookups, threads) {
            let sorted = Sorted { job: &job, lookups: &lookups[part], sum };
            // SAFETY: the batch was checked, so that lookups are rows of the table; ranges and their
            // parts have no row in common; the machine has the engine's instructions.
            unsafe { call(pass.engine.level, sorted) }
        }
    }

    fn job<'b>(
        &'b self,
        pass: Pass<'b>,
        take: Option<(Round, &'b RefCell<Vec<RowSums>>)>,
    ) -> Update<'b> {
        let (engine, table) = (pass.engine, self.rows.table);
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
        let (factors, bags) = &self.scratch.factors;
        let squares = &*self.scratch.squares;
        Update {
            rows: table.weights().start(),
            stride: table.stride(),
            dim: table.dim,
            precision: table.precision,
            state,
            optimizer: engine.optimizer,
            corrections,
            rounding,
            sources: Sources {
                factors: pass.batch.weights.map(|_| (&**factors, &**bags)),
                squares: (!squares.is_empty()).then_some(squares),
                ..self.sources
            },
            sums: &table.sums,
            whole_dim: table.whole_dim,
            take,
            names: table.cache.as_ref().map(|cache| cache.names()),
        }
    }
}

/// Takes the next of the sorted lookups: all lookups of some rows. Threads that share them take a
/// smaller part each time, so that they end at about the same time.
fn next<K: Key>(taken: &AtomicUsize, lookups: &[K], threads: usize) -> Option<Range<usize>> {
    let mut first = taken.load(Ordering::Relaxed);
    loop {
        let left = lookups.len() - first;
        if left == 0 {
            return None;
        }
        let share = if threads > 1 { FEW.max(left / (2 * threads)).min(left) } else { left };
        let mut last = first + share;
        let row = lookups[last - 1].row();
        last += lookups[last..].partition_point(|lookup| lookup.row() == row);
        match taken.compare_exchange(first, last, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Some(first..last),
            Err(now) => first = now,
        }
    }
}

/// Sorts the lookups of `rows` into the first of two lists.
fn sort<K: Key>(pass: Pass<'_>, rows: &Rows<'_>, [keys, spare]: &mut [Vec<K>; 2]) {
    keys.clear();
    for place in 0..rows.features.len() {
        match pass.batch.indices {
            Integers::I32(indices) => collect(pass, rows, place, indices, keys),
            Integers::I64(indices) => collect(pass, rows, place, indices, keys),
        }
    }
    by_row(keys, spare, rows.first, rows.last);
}

/// Adds the lookups of a feature that are in `rows` to `keys`. The source of a lookup is its bag's
/// number among those of the table; with weights or without pooling, its own number.
fn collect<K: Key, I: Index>(
    Pass { batch, grads, .. }: Pass<'_>,
    rows: &Rows<'_>,
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
        // SAFETY: this number was written.
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

#[cfg(test)]
mod tests {
    use super::next;
    use crate::sort::{Key, Lookup};
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn parts_have_all_lookups_once_and_whole_rows() {
        for (lookups, rows) in [(0, 1), (1, 1), (511, 3), (5000, 1), (5000, 7), (50_000, 9_000)] {
            let row = |at: usize| (at * rows / lookups) as u64;
            let all: Vec<Lookup> = (0..lookups).map(|at| Lookup::new(row(at), 0)).collect();
            for threads in [1, 2, 5] {
                let (taken, mut end, mut parts) = (AtomicUsize::new(0), 0, 0);
                while let Some(part) = next(&taken, &all, threads) {
                    assert!(part.start == end && part.end > end);
                    assert!(end == 0 || all[end].row != all[end - 1].row);
                    (end, parts) = (part.end, parts + 1);
                }
                assert_eq!(end, lookups);
                assert!(if threads == 1 { parts <= 1 } else { rows < 9_000 || parts > 5 });
            }
        }
    }
}
