//! Sorted lookups of a table, row by row: the gradients of a row's lookups are added up, and change
//! the row once.
#![allow(unsafe_code)] // Rows and their state are read and written through pointers.

use crate::gradient::{Gradient, InMemory, InRegisters};
use crate::grads::Sources;
use crate::lanes::{Bf16, F16, F32, Kernel, Lanes, Stored, WIDTH, ask};
use crate::precision::Precision;
use crate::row::{Update, one_row};
use crate::scratch::Vector;
use crate::sort::Key;

/// Rows ahead of the current one that are asked for, at least.
const AHEAD: usize = 16;

/// Rows that are asked for one after the other. Each waits for the translation of its address, and
/// a processor sees only some instructions ahead: between requests next to each other there are no
/// others, so that several translations are under way.
const GROUP: usize = 8;

/// Gradients of a row that are asked for, at most.
const GRADIENTS: usize = 24;

/// Sorted lookups, whose rows are updated.
pub struct Sorted<'a, K> {
    pub job: &'a Update<'a>,
    pub lookups: &'a [K],
    /// Is overwritten.
    pub sum: &'a mut Vec<Vector>,
}

impl<K: Key> Kernel for Sorted<'_, K> {
    /// Updates the rows, which are rows of the table that no other thread uses. The sources are
    /// those of the job's `grads`.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the caller's.
        unsafe {
            match self.job.precision {
                Precision::F32 => of_optimizer::<L, F32, K>(self),
                Precision::F16 => of_optimizer::<L, F16, K>(self),
                Precision::Bf16 => of_optimizer::<L, Bf16, K>(self),
                Precision::I8 => {}
            }
        }
    }
}

/// The usual optimizers have code of their own: in code for all of them, the compiler keeps gradients
/// in memory.
///
/// # Safety
///
/// As for `Sorted`'s kernel; the table's elements are of type `E`.
#[inline(always)]
unsafe fn of_optimizer<L: Lanes, E: Stored, K: Key>(sorted: Sorted<'_, K>) {
    // SAFETY: the caller's.
    unsafe {
        if sorted.job.is_simple() {
            of_dim::<L, E, K, true>(sorted);
        } else {
            of_dim::<L, E, K, false>(sorted);
        }
    }
}

/// Usual widths have code of their own, in which loops over a row are unrolled, and a row's gradient
/// stays in registers.
///
/// # Safety
///
/// As for `of_optimizer`; if `SIMPLE`, the job is.
#[inline(always)]
unsafe fn of_dim<L: Lanes, E: Stored, K: Key, const SIMPLE: bool>(sorted: Sorted<'_, K>) {
    let Sorted { job, lookups, sum } = sorted;
    // SAFETY: the caller's.
    unsafe {
        match job.dim {
            16 if L::UNROLLED => {
                rows::<L, E, K, _, 16, SIMPLE>(job, lookups, InRegisters::<L, 1>::zero());
            }
            32 if L::UNROLLED => {
                rows::<L, E, K, _, 32, SIMPLE>(job, lookups, InRegisters::<L, 2>::zero());
            }
            64 if L::UNROLLED => {
                rows::<L, E, K, _, 64, SIMPLE>(job, lookups, InRegisters::<L, 4>::zero());
            }
            128 if L::UNROLLED => {
                rows::<L, E, K, _, 128, SIMPLE>(job, lookups, InRegisters::<L, 8>::zero());
            }
            _ => {
                sum.clear();
                sum.resize(job.dim.div_ceil(WIDTH), Vector::default());
                let sum = InMemory(sum.as_mut_ptr().cast());
                rows::<L, E, K, _, 0, SIMPLE>(job, lookups, sum);
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
/// As for `of_dim`; `sum` has room for a row of `DIM` elements, or of any number if that is 0.
#[inline(always)]
unsafe fn rows<
    L: Lanes,
    E: Stored,
    K: Key,
    G: Gradient<L>,
    const DIM: usize,
    const SIMPLE: bool,
>(
    job: &Update<'_>,
    lookups: &[K],
    mut sum: G,
) {
    // SAFETY: the caller's.
    unsafe {
        // Not behind `job`, so that the compiler keeps them in registers.
        let sources = job.sources;
        let mut asked = 0;
        for _ in 0..AHEAD {
            asked = ask_for_row::<E, K, DIM>(job, sources, lookups, asked);
        }
        let (mut first, mut changed) = (0, 0);
        while first < lookups.len() {
            if changed % GROUP == 0 {
                for _ in 0..GROUP {
                    asked = ask_for_row::<E, K, DIM>(job, sources, lookups, asked);
                }
            }
            changed += 1;
            let last = end_of_row(lookups, first);
            if sources.factors.is_some() {
                sum.add_up::<K, true>(job.dim, sources, &lookups[first..last]);
            } else {
                sum.add_up::<K, false>(job.dim, sources, &lookups[first..last]);
            }
            // The gradient of a row with one lookup is that of its bag.
            let known = sources.squares.filter(|_| last == first + 1);
            let squares = known.map(|squares| squares[lookups[first].source()]);
            sum =
                one_row::<L, E, G, DIM, SIMPLE>(job, lookups[first].row() as usize, (sum, squares));
            first = last;
        }
    }
}

/// Asks for the row of the lookup at `asked`, its state and its gradients. Returns the lookup of the
/// next row.
#[inline(always)]
fn ask_for_row<E: Stored, K: Key, const DIM: usize>(
    job: &Update<'_>,
    sources: Sources<'_>,
    lookups: &[K],
    asked: usize,
) -> usize {
    if asked == lookups.len() {
        return asked;
    }
    let row = lookups[asked].row() as usize;
    let mut line = 0;
    let stride = if DIM == 0 { job.stride } else { DIM * E::BYTES };
    while line < stride {
        ask(job.rows.wrapping_add(row * stride + line));
        line += 64;
    }
    for (state, numbers) in job.state {
        let mut number = 0;
        while number < numbers {
            ask(state.wrapping_add(row * numbers + number));
            number += 16;
        }
    }
    let end = end_of_row(lookups, asked);
    if sources.far {
        for lookup in lookups[asked..end].iter().take(GRADIENTS) {
            let (grad, _) = sources.of::<true>(lookup.source());
            let mut number = 0;
            while number < if DIM == 0 { job.dim } else { DIM } {
                ask(grad.wrapping_add(number));
                number += 16;
            }
        }
    }
    end
}
