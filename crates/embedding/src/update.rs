//! The optimizers, row by row: the gradients of a row's lookups are added up, and change it once.
#![allow(unsafe_code)] // Rows and their state are read and written through pointers.

use crate::grads::Grads;
use crate::lanes::{Bf16, F16, F32, Kernel, Lanes, Stored, WIDTH, load_part, store_part};
use crate::optimizer::{Optimizer, Rule};
use crate::precision::Precision;
use crate::random::of_row;
use crate::sort::Key;

/// Rows ahead of the current one that are asked for.
const AHEAD: usize = 16;

/// What a table's update needs to know.
pub struct Update<'a> {
    pub rows: *mut u8,
    pub stride: usize,
    pub dim: usize,
    pub precision: Precision,
    /// The optimizer's state: pointers, and numbers from row to row.
    pub state: [(*mut f32, usize); 2],
    pub optimizer: Optimizer,
    /// Corrections of Adam's two means in this step.
    pub corrections: (f32, f32),
    /// Key, first row and first column of the rounding by chance.
    pub rounding: Option<(u64, u64, u32)>,
    pub grads: &'a Grads<'a>,
}

/// Sorted lookups, whose rows are updated.
pub struct Sorted<'a, K> {
    pub job: &'a Update<'a>,
    pub lookups: &'a [K],
    /// Is overwritten.
    pub sum: &'a mut Vec<f32>,
}

impl<K: Key> Kernel for Sorted<'_, K> {
    /// Updates the rows, which are rows of the table that no other thread uses. The sources are
    /// those of the job's `grads`.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Sorted { job, lookups, sum } = self;
        sum.clear();
        sum.resize(job.dim.next_multiple_of(WIDTH), 0.0);
        // SAFETY: the caller's.
        unsafe {
            match job.precision {
                Precision::F32 => rows::<L, F32, K>(job, lookups, sum),
                Precision::F16 => rows::<L, F16, K>(job, lookups, sum),
                Precision::Bf16 => rows::<L, Bf16, K>(job, lookups, sum),
                Precision::I8 => {}
            }
        }
    }
}

/// The end of the lookups that have the row of the one at `first`.
#[inline(always)]
fn end_of_row<K: Key>(lookups: &[K], first: usize) -> usize {
    let row = lookups[first].row();
    let mut last = first + 1;
    while last < lookups.len() && lookups[last].row() == row {
        last += 1;
    }
    last
}

/// # Safety
///
/// As for `Sorted`'s kernel; the table's elements are of type `E`.
#[inline(always)]
unsafe fn rows<L: Lanes, E: Stored, K: Key>(job: &Update<'_>, lookups: &[K], sum: &mut [f32]) {
    // SAFETY: the caller's.
    unsafe {
        let mut asked = 0;
        let mut ask = || {
            if asked < lookups.len() {
                ask_for::<L>(job, lookups[asked].row() as usize);
                asked = end_of_row(lookups, asked);
            }
        };
        (0..AHEAD).for_each(|_| ask());
        let mut first = 0;
        while first < lookups.len() {
            ask();
            let last = end_of_row(lookups, first);
            add_up::<L, K>(job, &lookups[first..last], sum);
            one_row::<L, E>(job, lookups[first].row() as usize, sum);
            first = last;
        }
    }
}

/// Asks for a row and its state.
///
/// # Safety
///
/// The machine has the instructions of `L`.
#[inline(always)]
unsafe fn ask_for<L: Lanes>(job: &Update<'_>, row: usize) {
    // SAFETY: a prefetch may touch any address.
    unsafe {
        let mut line = 0;
        while line < job.stride {
            L::prefetch_to_write(job.rows.wrapping_add(row * job.stride + line));
            line += 64;
        }
        for (state, numbers) in job.state {
            let mut number = 0;
            while number < numbers {
                L::prefetch_to_write(state.wrapping_add(row * numbers + number).cast());
                number += 16;
            }
        }
    }
}

/// Adds up the gradients of lookups of one row, in their order. Elements past the row are zero.
///
/// # Safety
///
/// As for `Sorted`'s kernel.
#[inline(always)]
unsafe fn add_up<L: Lanes, K: Key>(job: &Update<'_>, lookups: &[K], sum: &mut [f32]) {
    let (dim, to) = (job.dim, sum.as_mut_ptr());
    let mut column = 0;
    // SAFETY: the caller's. Columns below `dim` are in the gradients and in the sum.
    unsafe {
        while column + 8 * WIDTH <= dim {
            add_up_block::<L, K, 8>(job, lookups, column, to);
            column += 8 * WIDTH;
        }
        if column + 4 * WIDTH <= dim {
            add_up_block::<L, K, 4>(job, lookups, column, to);
            column += 4 * WIDTH;
        }
        if column + 2 * WIDTH <= dim {
            add_up_block::<L, K, 2>(job, lookups, column, to);
            column += 2 * WIDTH;
        }
        if column + WIDTH <= dim {
            add_up_block::<L, K, 1>(job, lookups, column, to);
            column += WIDTH;
        }
        if column < dim {
            let mut all = L::splat(0.0);
            for lookup in lookups {
                let (at, factor) = job.grads.of(lookup.source());
                let from = job.grads.from(at + column).cast();
                let value = load_part::<L, F32>(from, dim - column, ());
                all = all.add(value.mul(L::splat(factor)));
            }
            all.store(to.add(column));
        }
    }
}

/// # Safety
///
/// As for `Sorted`'s kernel; `N` vectors from `column` on are in the row.
#[inline(always)]
unsafe fn add_up_block<L: Lanes, K: Key, const N: usize>(
    job: &Update<'_>,
    lookups: &[K],
    column: usize,
    to: *mut f32,
) {
    // SAFETY: the caller's.
    unsafe {
        let mut all = [L::splat(0.0); N];
        for lookup in lookups {
            let (at, factor) = job.grads.of(lookup.source());
            let from = job.grads.from(at + column);
            let factor = L::splat(factor);
            for (vector, sum) in all.iter_mut().enumerate() {
                *sum = sum.add(L::load(from.add(vector * WIDTH)).mul(factor));
            }
        }
        for (vector, sum) in all.into_iter().enumerate() {
            sum.store(to.add(column + vector * WIDTH));
        }
    }
}

/// A row under way: pointers to it, to its state and to its gradient.
struct Row<'a> {
    job: &'a Update<'a>,
    weights: *mut u8,
    state: [*mut f32; 2],
    grad: *mut f32,
    /// Key and first column of the rounding by chance.
    rounding: Option<(u32, u32)>,
}

/// Calls `work` for each vector of a row: its first column, and how many columns it has.
#[inline(always)]
fn vectors(dim: usize, mut work: impl FnMut(usize, usize)) {
    let mut column = 0;
    while column < dim {
        work(column, WIDTH.min(dim - column));
        column += WIDTH;
    }
}

/// # Safety
///
/// As for `load_part`.
#[inline(always)]
unsafe fn load<L: Lanes, E: Stored>(from: *const u8, n: usize) -> L {
    // SAFETY: the caller's.
    unsafe { if n == WIDTH { E::load(from, ()) } else { load_part::<L, E>(from, n, ()) } }
}

/// # Safety
///
/// As for `store_part`.
#[inline(always)]
unsafe fn store<L: Lanes, E: Stored>(value: L, to: *mut u8, n: usize, bits: Option<L::Bits>) {
    // SAFETY: the caller's.
    unsafe {
        if n == WIDTH { E::store(value, to, bits) } else { store_part::<L, E>(value, to, n, bits) }
    }
}

// SAFETY of the methods: columns are below the table's, so that all pointers are inside of the row,
// its state or its gradient, which this thread alone uses; the machine has the instructions of `L`.
impl Row<'_> {
    #[inline(always)]
    unsafe fn grad<L: Lanes>(&self, column: usize) -> L {
        // SAFETY: see above; the gradient has whole vectors.
        unsafe { L::load(self.grad.add(column)) }
    }
    #[inline(always)]
    unsafe fn set_grad<L: Lanes>(&self, column: usize, value: L) {
        // SAFETY: see above; the gradient has whole vectors.
        unsafe { value.store(self.grad.add(column)) }
    }
    #[inline(always)]
    unsafe fn weights<L: Lanes, E: Stored>(&self, column: usize, n: usize) -> L {
        // SAFETY: see above.
        unsafe { load::<L, E>(self.weights.add(column * E::BYTES), n) }
    }
    /// Writes weights, after decay that goes around the rule was taken from `old`.
    #[inline(always)]
    unsafe fn set_weights<L: Lanes, E: Stored>(&self, column: usize, n: usize, value: L) {
        // SAFETY: see above.
        unsafe {
            let bits =
                self.rounding.map(|(key, first)| L::bits(key, first.wrapping_add(column as u32)));
            store::<L, E>(value, self.weights.add(column * E::BYTES), n, bits);
        }
    }
    #[inline(always)]
    unsafe fn state<L: Lanes>(&self, part: usize, column: usize, n: usize) -> L {
        // SAFETY: see above.
        unsafe { load::<L, F32>(self.state[part].add(column).cast(), n) }
    }
    #[inline(always)]
    unsafe fn set_state<L: Lanes>(&self, part: usize, column: usize, n: usize, value: L) {
        // SAFETY: see above.
        unsafe { store::<L, F32>(value, self.state[part].add(column).cast(), n, None) }
    }
    /// Sum of the squares of the gradient.
    #[inline(always)]
    unsafe fn squares<L: Lanes>(&self) -> f32 {
        // SAFETY: see above.
        unsafe {
            let mut sum = L::splat(0.0);
            vectors(self.job.dim, |column, _| {
                let grad = self.grad::<L>(column);
                sum = sum.add(grad.mul(grad));
            });
            sum.sum()
        }
    }
    /// Clips the gradient, then adds decay to it or takes it from the weights.
    #[inline(always)]
    unsafe fn prepare<L: Lanes, E: Stored>(&self) {
        let optimizer = &self.job.optimizer;
        let dim = self.job.dim;
        // SAFETY: see above.
        unsafe {
            if optimizer.clip_value < f32::INFINITY {
                let most = optimizer.clip_value;
                vectors(dim, |column, _| {
                    // The limits come first, so that what is not a number stays so.
                    let grad = L::splat(most).min(self.grad::<L>(column));
                    self.set_grad(column, L::splat(-most).max(grad));
                });
            }
            if optimizer.clip_norm < f32::INFINITY {
                let norm = self.squares::<L>().sqrt();
                if norm > optimizer.clip_norm {
                    let factor = L::splat(optimizer.clip_norm / norm);
                    vectors(dim, |column, _| {
                        self.set_grad(column, self.grad::<L>(column).mul(factor));
                    });
                }
            }
            if optimizer.weight_decay != 0.0 && !optimizer.decoupled {
                let decay = L::splat(optimizer.weight_decay);
                vectors(dim, |column, n| {
                    let weights = self.weights::<L, E>(column, n);
                    self.set_grad(column, self.grad::<L>(column).add(weights.mul(decay)));
                });
            }
        }
    }
    /// `w = w * keep - step`, where `step` gives each vector's.
    #[inline(always)]
    unsafe fn take<L: Lanes, E: Stored>(&self, step: impl Fn(usize, usize) -> L) {
        let optimizer = &self.job.optimizer;
        let decays = optimizer.decoupled && optimizer.weight_decay != 0.0;
        let keep = 1.0 - optimizer.learning_rate * optimizer.weight_decay;
        // SAFETY: see above.
        unsafe {
            vectors(self.job.dim, |column, n| {
                let mut weights = self.weights::<L, E>(column, n);
                if decays {
                    weights = weights.mul(L::splat(keep));
                }
                self.set_weights::<L, E>(column, n, weights.sub(step(column, n)));
            });
        }
    }
    /// Updates Adam's means and returns their ratio.
    #[inline(always)]
    unsafe fn adam<L: Lanes>(&self, column: usize, n: usize, [beta1, beta2, eps]: [f32; 3]) -> L {
        let (correction1, correction2) = self.job.corrections;
        // SAFETY: see above.
        unsafe {
            let grad = self.grad::<L>(column);
            let mean = self.state::<L>(0, column, n).mul(L::splat(beta1));
            let mean = mean.add(grad.mul(L::splat(1.0 - beta1)));
            let square = self.state::<L>(1, column, n).mul(L::splat(beta2));
            let square = square.add(grad.mul(grad).mul(L::splat(1.0 - beta2)));
            self.set_state(0, column, n, mean);
            self.set_state(1, column, n, square);
            let root = square.sqrt().div(L::splat(correction2.sqrt())).add(L::splat(eps));
            mean.div(L::splat(correction1)).div(root)
        }
    }
}

/// Changes one row by the gradient `sum`, which is overwritten.
///
/// # Safety
///
/// As for `Sorted`'s kernel.
#[inline(always)]
unsafe fn one_row<L: Lanes, E: Stored>(job: &Update<'_>, row: usize, sum: &mut [f32]) {
    let rounding = job
        .rounding
        .map(|(key, first_row, first_column)| (of_row(key, first_row + row as u64), first_column));
    let at = Row {
        job,
        weights: job.rows.wrapping_add(row * job.stride),
        state: job.state.map(|(state, numbers)| state.wrapping_add(row * numbers)),
        grad: sum.as_mut_ptr(),
        rounding,
    };
    let rate = job.optimizer.learning_rate;
    // SAFETY: the caller's.
    unsafe {
        at.prepare::<L, E>();
        match job.optimizer.rule {
            Rule::Sgd => at.take::<L, E>(|column, _| at.grad::<L>(column).mul(L::splat(rate))),
            Rule::AdaGrad { eps } => at.take::<L, E>(|column, n| {
                let grad = at.grad::<L>(column);
                let squares = at.state::<L>(0, column, n).add(grad.mul(grad));
                at.set_state(0, column, n, squares);
                grad.mul(L::splat(rate)).div(squares.sqrt().add(L::splat(eps)))
            }),
            Rule::RowWiseAdaGrad { eps } => {
                let squares = *at.state[0] + at.squares::<L>() / job.dim as f32;
                *at.state[0] = squares;
                let rate = L::splat(rate / (squares.sqrt() + eps));
                at.take::<L, E>(|column, _| at.grad::<L>(column).mul(rate));
            }
            Rule::Adam { beta1, beta2, eps } => at.take::<L, E>(|column, n| {
                at.adam::<L>(column, n, [beta1, beta2, eps]).mul(L::splat(rate))
            }),
            Rule::Lamb { beta1, beta2, eps } => lamb::<L, E>(&at, [beta1, beta2, eps]),
        }
    }
}

/// LAMB: the ratio of Adam's means, with decay, is the step's direction; its length is the row's.
///
/// # Safety
///
/// As for `Sorted`'s kernel.
#[inline(always)]
unsafe fn lamb<L: Lanes, E: Stored>(at: &Row<'_>, constants: [f32; 3]) {
    // SAFETY: the caller's.
    unsafe {
        let mut weights = L::splat(0.0);
        vectors(at.job.dim, |column, n| {
            let old = at.weights::<L, E>(column, n);
            weights = weights.add(old.mul(old));
            let step = at.adam::<L>(column, n, constants);
            // Columns past the row have no gradient, and so no step.
            at.set_grad(column, step);
        });
        let (weights, step) = (weights.sum().sqrt(), at.squares::<L>().sqrt());
        let trust = if weights > 0.0 && step > 0.0 { weights / step } else { 1.0 };
        let rate = L::splat(at.job.optimizer.learning_rate * trust);
        at.take::<L, E>(|column, _| at.grad::<L>(column).mul(rate));
    }
}

/// The gradients of the weights of lookups of one bag: the product of each row with the bag's
/// gradient.
///
/// # Safety
///
/// The machine has the instructions of `L`; `row` leads to a row and `grad` to `dim` numbers.
#[inline(always)]
pub unsafe fn product<L: Lanes>(
    precision: Precision,
    row: *const u8,
    grad: *const f32,
    dim: usize,
) -> f32 {
    /// # Safety
    ///
    /// As for `product`.
    #[inline(always)]
    unsafe fn of<L: Lanes, E: Stored>(row: *const u8, grad: *const f32, dim: usize) -> f32 {
        // SAFETY: the caller's.
        unsafe {
            let mut sum = L::splat(0.0);
            vectors(dim, |column, n| {
                let weights = load::<L, E>(row.add(column * E::BYTES), n);
                sum = sum.add(weights.mul(load::<L, F32>(grad.add(column).cast(), n)));
            });
            sum.sum()
        }
    }
    // SAFETY: the caller's.
    unsafe {
        match precision {
            Precision::F32 => of::<L, F32>(row, grad, dim),
            Precision::F16 => of::<L, F16>(row, grad, dim),
            Precision::Bf16 => of::<L, Bf16>(row, grad, dim),
            Precision::I8 => 0.0,
        }
    }
}
