//! The optimizers: one row changes by its gradient.
#![allow(unsafe_code)] // Rows and their state are read and written through pointers.

use crate::cache::Names;
use crate::gradient::Gradient;
use crate::grads::Sources;
use crate::lanes::{Bf16, F16, F32, Lanes, Stored, WIDTH, load_part, store_part};
use crate::optimizer::{Optimizer, Round, RowSums, Rule};
use crate::precision::Precision;
use crate::random::of_row;
use std::cell::RefCell;
use std::sync::atomic::Ordering;

/// Inputs of a table's update.
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
    pub sources: Sources<'a>,
    /// For tables that have some columns of whole rows: sums over all columns. Empty where the
    /// table has all columns.
    pub sums: &'a [RowSums],
    /// Columns of whole rows.
    pub whole_dim: usize,
    /// The row in each place of a cache.
    pub names: Option<&'a Names>,
    /// Takes rows with their sums of a round, and no row changes.
    pub take: Option<(Round, &'a RefCell<Vec<RowSums>>)>,
}

impl Update<'_> {
    /// Whether SGD or row-wise AdaGrad changes whole rows, and nothing else is asked for.
    pub fn is_simple(&self) -> bool {
        matches!(self.optimizer.rule, Rule::Sgd | Rule::RowWiseAdaGrad { .. })
            && self.optimizer.is_plain()
            && self.rounding.is_none()
            && self.sums.is_empty()
            && self.take.is_none()
    }

    /// The row of the table that is in a place of the memory.
    #[inline(always)]
    pub fn name(&self, place: usize) -> u64 {
        self.names.map_or(place as u64, |names| names[place].load(Ordering::Relaxed))
    }

    /// Sums over a whole row, if the table has a part of it.
    #[inline(always)]
    pub fn whole(&self, place: usize) -> Option<RowSums> {
        if self.sums.is_empty() {
            return None;
        }
        let at = self.sums.binary_search_by_key(&self.name(place), |sums| sums.row).ok()?;
        Some(self.sums[at])
    }
}

/// A row under way: pointers to it and to its state, and its gradient. If `SIMPLE`, the job is.
struct Row<'a, G, const DIM: usize, const SIMPLE: bool> {
    job: &'a Update<'a>,
    weights: *mut u8,
    state: [*mut f32; 2],
    grad: G,
    /// Key and first column of the rounding by chance.
    rounding: Option<(u32, u32)>,
}

/// Runs a block for each vector of a row, with its first column and how many columns it has. A
/// closure would not be compiled for the kernel's instructions.
macro_rules! vectors {
    ($dim:expr, |$column:ident, $n:pat_param| $work:block) => {
        let mut $column = 0;
        while $column < $dim {
            let $n = WIDTH.min($dim - $column);
            $work
            $column += WIDTH;
        }
    };
}

/// `w = w * keep - step` for each vector of a row, where a block gives the step.
macro_rules! take {
    ($at:ident, $lanes:ty, $element:ty, |$column:ident, $n:pat_param| $step:block) => {
        let (decays, keep) = $at.decay();
        // A loop of its own where neither is asked for: it is twice as short.
        if decays || $at.rounding.is_some() {
            vectors!($at.dim(), |$column, n| {
                let mut weights = $at.weights::<$lanes, $element>($column, n);
                if decays {
                    weights = weights.mul(<$lanes>::splat(keep));
                }
                let $n = n;
                $at.set_weights::<$lanes, $element>(($column, n), weights.sub($step), true);
            });
        } else {
            vectors!($at.dim(), |$column, n| {
                let weights = $at.weights::<$lanes, $element>($column, n);
                let $n = n;
                $at.set_weights::<$lanes, $element>(($column, n), weights.sub($step), false);
            });
        }
    };
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

// SAFETY of the methods: columns are below the table's, so that all pointers are inside of the row
// or its state, which this thread alone uses; the machine has the instructions of `L`.
impl<G, const DIM: usize, const SIMPLE: bool> Row<'_, G, DIM, SIMPLE> {
    /// Elements of the row.
    #[inline(always)]
    fn dim(&self) -> usize {
        if DIM == 0 { self.job.dim } else { DIM }
    }
    #[inline(always)]
    unsafe fn grad<L: Lanes>(&self, column: usize) -> L
    where
        G: Gradient<L>,
    {
        // SAFETY: see above; the gradient has whole vectors.
        unsafe { self.grad.get(column / WIDTH) }
    }
    #[inline(always)]
    unsafe fn set_grad<L: Lanes>(&mut self, column: usize, value: L)
    where
        G: Gradient<L>,
    {
        // SAFETY: see above; the gradient has whole vectors.
        unsafe { self.grad.set(column / WIDTH, value) }
    }
    #[inline(always)]
    unsafe fn weights<L: Lanes, E: Stored>(&self, column: usize, n: usize) -> L {
        // SAFETY: see above.
        unsafe { load::<L, E>(self.weights.add(column * E::BYTES), n) }
    }
    /// Writes weights, `chance`: rounded by chance where the table's are.
    #[inline(always)]
    unsafe fn set_weights<L: Lanes, E: Stored>(&self, at: (usize, usize), value: L, chance: bool) {
        let ((column, n), mut bits) = (at, None);
        // SAFETY: see above.
        unsafe {
            if chance && let Some((key, first)) = self.rounding {
                bits = Some(L::bits(key, first.wrapping_add(column as u32)));
            }
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
    unsafe fn squares<L: Lanes>(&self) -> f32
    where
        G: Gradient<L>,
    {
        // SAFETY: see above.
        unsafe { self.grad.squares(self.dim()) }
    }
    /// Clips the gradient's elements.
    #[inline(always)]
    unsafe fn clip<L: Lanes>(&mut self)
    where
        G: Gradient<L>,
    {
        let optimizer = &self.job.optimizer;
        // SAFETY: see above.
        unsafe {
            if !SIMPLE && optimizer.clip_value < f32::INFINITY {
                let most = optimizer.clip_value;
                vectors!(self.dim(), |column, _| {
                    // The limits come first, so that what is not a number stays so.
                    let grad = L::splat(most).min(self.grad::<L>(column));
                    self.set_grad(column, L::splat(-most).max(grad));
                });
            }
        }
    }
    /// Clips the gradient's length, then adds decay to it.
    #[inline(always)]
    unsafe fn prepare<L: Lanes, E: Stored>(&mut self, whole: Option<RowSums>)
    where
        G: Gradient<L>,
    {
        let optimizer = &self.job.optimizer;
        let dim = self.dim();
        // SAFETY: see above.
        unsafe {
            if !SIMPLE && optimizer.clip_norm < f32::INFINITY {
                let squares = match whole {
                    Some(sums) => sums.clip,
                    None => self.squares::<L>(),
                };
                let norm = squares.sqrt();
                if norm > optimizer.clip_norm {
                    let factor = L::splat(optimizer.clip_norm / norm);
                    vectors!(dim, |column, _| {
                        let grad = self.grad::<L>(column).mul(factor);
                        self.set_grad(column, grad);
                    });
                }
            }
            if !SIMPLE && optimizer.weight_decay != 0.0 && !optimizer.decoupled {
                let decay = L::splat(optimizer.weight_decay);
                vectors!(dim, |column, n| {
                    let weights = self.weights::<L, E>(column, n);
                    let grad = self.grad::<L>(column).add(weights.mul(decay));
                    self.set_grad(column, grad);
                });
            }
        }
    }
    /// Whether decay goes around the rule, and what it leaves of a weight.
    #[inline(always)]
    fn decay(&self) -> (bool, f32) {
        let Optimizer { learning_rate, weight_decay, decoupled, .. } = self.job.optimizer;
        (!SIMPLE && decoupled && weight_decay != 0.0, 1.0 - learning_rate * weight_decay)
    }
    /// The ratio of Adam's means, which it updates if `KEEP`.
    #[inline(always)]
    unsafe fn adam<L: Lanes, const KEEP: bool>(
        &self,
        column: usize,
        n: usize,
        [beta1, beta2, eps]: [f32; 3],
    ) -> L
    where
        G: Gradient<L>,
    {
        let (correction1, correction2) = self.job.corrections;
        // SAFETY: see above.
        unsafe {
            let grad = self.grad::<L>(column);
            let mean = self.state::<L>(0, column, n).mul(L::splat(beta1));
            let mean = mean.add(grad.mul(L::splat(1.0 - beta1)));
            let square = self.state::<L>(1, column, n).mul(L::splat(beta2));
            let square = square.add(grad.mul(grad).mul(L::splat(1.0 - beta2)));
            if KEEP {
                self.set_state(0, column, n, mean);
                self.set_state(1, column, n, square);
            }
            let root = square.sqrt().div(L::splat(correction2.sqrt())).add(L::splat(eps));
            mean.div(L::splat(correction1)).div(root)
        }
    }
    /// LAMB: the ratio of Adam's means, with decay, is the step's direction, which replaces the
    /// gradient; its length is the row's. Returns the squares of the step and of the weights.
    #[inline(always)]
    unsafe fn lamb<L: Lanes, E: Stored, const KEEP: bool>(
        &mut self,
        constants: [f32; 3],
    ) -> [f32; 2]
    where
        G: Gradient<L>,
    {
        // SAFETY: see above.
        unsafe {
            let mut weights = L::splat(0.0);
            vectors!(self.dim(), |column, n| {
                let old = self.weights::<L, E>(column, n);
                weights = weights.add(old.mul(old));
                let step = self.adam::<L, KEEP>(column, n, constants);
                // Columns past the row have no gradient, and so no step.
                self.set_grad(column, step);
            });
            [self.squares::<L>(), weights.sum()]
        }
    }
}

/// Changes one row by the gradient `sum`, the sum of whose squares is `squares` if that is known.
/// Returns its room for the next row.
///
/// # Safety
///
/// As for `Sorted`'s kernel. If `SIMPLE`, the job is.
#[inline(always)]
pub unsafe fn one_row<L: Lanes, E: Stored, G: Gradient<L>, const DIM: usize, const SIMPLE: bool>(
    job: &Update<'_>,
    row: usize,
    (sum, squares): (G, Option<f32>),
) -> G {
    let rounding = match job.rounding {
        Some((key, first_row, first_column)) if !SIMPLE => {
            Some((of_row(key, first_row + job.name(row)), first_column))
        }
        _ => None,
    };
    let mut at: Row<'_, G, DIM, SIMPLE> = Row {
        job,
        weights: job.rows.wrapping_add(row * job.stride),
        state: job.state.map(|(state, numbers)| state.wrapping_add(row * numbers)),
        grad: sum,
        rounding,
    };
    let rate = job.optimizer.learning_rate;
    // SAFETY: the caller's.
    unsafe {
        let whole = if SIMPLE { None } else { job.whole(row) };
        let asked = if SIMPLE { None } else { job.take };
        at.clip::<L>();
        if let Some((Round::Clip, found)) = asked {
            let clip = at.squares::<L>();
            found.borrow_mut().push(RowSums { row: job.name(row), clip, rule: [0.0; 2] });
            return at.grad;
        }
        at.prepare::<L, E>(whole);
        if let Some((Round::Rule, found)) = asked {
            let rule = match job.optimizer.rule {
                Rule::Lamb { beta1, beta2, eps } => at.lamb::<L, E, false>([beta1, beta2, eps]),
                _ => [at.squares::<L>(), 0.0],
            };
            let clip = whole.unwrap_or_default().clip;
            found.borrow_mut().push(RowSums { row: job.name(row), clip, rule });
            return at.grad;
        }
        match job.optimizer.rule {
            Rule::RowWiseAdaGrad { eps } => {
                let mean = match (whole, squares) {
                    (Some(sums), _) => sums.rule[0] / job.whole_dim as f32,
                    (None, Some(squares)) => squares / at.dim() as f32,
                    (None, None) => at.squares::<L>() / at.dim() as f32,
                };
                let squares = *at.state[0] + mean;
                *at.state[0] = squares;
                let rate = L::splat(rate / (squares.sqrt() + eps));
                take!(at, L, E, |column, _| { at.grad::<L>(column).mul(rate) });
            }
            Rule::Sgd => {
                take!(at, L, E, |column, _| { at.grad::<L>(column).mul(L::splat(rate)) });
            }
            _ if SIMPLE => {}
            Rule::AdaGrad { eps } => {
                take!(at, L, E, |column, n| {
                    let grad = at.grad::<L>(column);
                    let squares = at.state::<L>(0, column, n).add(grad.mul(grad));
                    at.set_state(0, column, n, squares);
                    grad.mul(L::splat(rate)).div(squares.sqrt().add(L::splat(eps)))
                });
            }
            Rule::Adam { beta1, beta2, eps } => {
                take!(at, L, E, |column, n| {
                    at.adam::<L, true>(column, n, [beta1, beta2, eps]).mul(L::splat(rate))
                });
            }
            Rule::Lamb { beta1, beta2, eps } => {
                let own = at.lamb::<L, E, true>([beta1, beta2, eps]);
                let [step, weights] = match whole {
                    Some(sums) => sums.rule,
                    None => own,
                };
                let (weights, step) = (weights.sqrt(), step.sqrt());
                let trust = if weights > 0.0 && step > 0.0 { weights / step } else { 1.0 };
                let rate = L::splat(rate * trust);
                take!(at, L, E, |column, _| { at.grad::<L>(column).mul(rate) });
            }
        }
    }
    at.grad
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
            vectors!(dim, |column, n| {
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
