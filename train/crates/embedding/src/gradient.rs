//! The gradient of a row under way: the sum of those of its lookups.
#![allow(unsafe_code)] // Gradients are read through pointers.

use crate::grads::Sources;
use crate::lanes::{Kernel, Lanes, WIDTH};
use crate::scratch::Vector;
use crate::sort::Key;

/// The gradient of a row in whole vectors. Elements past the row are zero.
///
/// # Safety
///
/// The machine has the instructions of `L`. Vectors are among the row's.
pub trait Gradient<L: Lanes>: Copy {
    /// A vector.
    unsafe fn get(&self, vector: usize) -> L;
    /// Changes a vector.
    unsafe fn set(&mut self, vector: usize, value: L);
    /// Becomes the sum of the gradients of lookups, which are added in their order. `dim`: elements
    /// of the row.
    unsafe fn add_up<K: Key, const FACTORS: bool>(
        &mut self,
        dim: usize,
        sources: Sources<'_>,
        lookups: &[K],
    );
    /// The sum of its squares.
    #[inline(always)]
    unsafe fn squares(&self, dim: usize) -> f32 {
        let vectors = dim.div_ceil(WIDTH);
        // SAFETY: the caller's.
        unsafe {
            // Four sums, because each addition of one waits for the one before.
            let mut sums = [L::splat(0.0); 4];
            let mut first = 0;
            while first < vectors {
                for (vector, sum) in (first..vectors).zip(&mut sums) {
                    let values = self.get(vector);
                    *sum = sum.add(values.mul(values));
                }
                first += 4;
            }
            sums[0].add(sums[1]).add(sums[2].add(sums[3])).sum()
        }
    }
}

/// Gradients next to each other, each in whole vectors, whose squares are added up.
pub struct Squares<'a> {
    pub grads: &'a [Vector],
    /// Elements of a gradient.
    pub dim: usize,
    /// Takes a sum for each gradient.
    pub to: &'a mut Vec<f32>,
}

impl Kernel for Squares<'_> {
    /// Adds them up.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Squares { grads, dim, to } = self;
        for grad in grads.chunks_exact(dim.div_ceil(WIDTH)) {
            let grad = InMemory(grad.as_ptr().cast_mut().cast());
            // SAFETY: the machine has the instructions of `L`; the gradient is only read.
            to.push(unsafe { Gradient::<L>::squares(&grad, dim) });
        }
    }
}

/// `N` vectors, whose loops are unrolled.
#[derive(Clone, Copy)]
pub struct InRegisters<L, const N: usize>([L; N]);

impl<L: Lanes, const N: usize> InRegisters<L, N> {
    /// # Safety
    ///
    /// As for `Gradient`.
    #[inline(always)]
    pub unsafe fn zero() -> Self {
        // SAFETY: the caller's.
        Self([unsafe { L::splat(0.0) }; N])
    }
}

impl<L: Lanes, const N: usize> Gradient<L> for InRegisters<L, N> {
    #[inline(always)]
    unsafe fn get(&self, vector: usize) -> L {
        self.0[vector]
    }
    #[inline(always)]
    unsafe fn set(&mut self, vector: usize, value: L) {
        self.0[vector] = value;
    }
    #[inline(always)]
    unsafe fn add_up<K: Key, const FACTORS: bool>(
        &mut self,
        _: usize,
        sources: Sources<'_>,
        lookups: &[K],
    ) {
        // SAFETY: the caller's.
        self.0 = unsafe { sum::<L, K, N, FACTORS>(sources, lookups, 0) };
    }
}

/// Vectors in memory, as large as the row.
#[derive(Clone, Copy)]
pub struct InMemory(pub *mut f32);

impl<L: Lanes> Gradient<L> for InMemory {
    #[inline(always)]
    unsafe fn get(&self, vector: usize) -> L {
        // SAFETY: the caller's.
        unsafe { L::load(self.0.add(vector * WIDTH)) }
    }
    #[inline(always)]
    unsafe fn set(&mut self, vector: usize, value: L) {
        // SAFETY: the caller's.
        unsafe { value.store(self.0.add(vector * WIDTH)) }
    }
    #[inline(always)]
    unsafe fn add_up<K: Key, const FACTORS: bool>(
        &mut self,
        dim: usize,
        sources: Sources<'_>,
        lookups: &[K],
    ) {
        let vectors = dim.div_ceil(WIDTH);
        let mut done = 0;
        // SAFETY: the caller's.
        unsafe {
            while done + 8 <= vectors {
                block::<L, K, 8, FACTORS>(*self, sources, lookups, done);
                done += 8;
            }
            if done + 4 <= vectors {
                block::<L, K, 4, FACTORS>(*self, sources, lookups, done);
                done += 4;
            }
            if done + 2 <= vectors {
                block::<L, K, 2, FACTORS>(*self, sources, lookups, done);
                done += 2;
            }
            if done < vectors {
                block::<L, K, 1, FACTORS>(*self, sources, lookups, done);
            }
        }
    }
}

/// `N` vectors of the sum, behind the first `done`.
///
/// # Safety
///
/// As for `Gradient`.
#[inline(always)]
unsafe fn block<L: Lanes, K: Key, const N: usize, const FACTORS: bool>(
    mut to: InMemory,
    sources: Sources<'_>,
    lookups: &[K],
    done: usize,
) {
    // SAFETY: the caller's.
    unsafe {
        let all = sum::<L, K, N, FACTORS>(sources, lookups, done);
        for (vector, value) in all.into_iter().enumerate() {
            to.set(done + vector, value);
        }
    }
}

/// The sum of `N` vectors of the lookups' gradients, behind the first `done`.
///
/// # Safety
///
/// As for `Gradient`.
#[inline(always)]
unsafe fn sum<L: Lanes, K: Key, const N: usize, const FACTORS: bool>(
    sources: Sources<'_>,
    lookups: &[K],
    done: usize,
) -> [L; N] {
    // SAFETY: the caller's.
    unsafe {
        let mut all = [L::splat(0.0); N];
        for lookup in lookups {
            let (from, factor) = sources.of::<FACTORS>(lookup.source());
            for (vector, sum) in all.iter_mut().enumerate() {
                let mut value = L::load(from.add((done + vector) * WIDTH));
                if FACTORS {
                    value = value.mul(L::splat(factor));
                }
                *sum = sum.add(value);
            }
        }
        all
    }
}
