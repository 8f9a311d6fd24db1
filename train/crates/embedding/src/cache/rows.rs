//! Rows on their way between the cache and the slower tier: a record is a row's weights, as the
//! slower tier stores them, and its state behind them.
#![allow(unsafe_code)] // Rows in memory are read and written through pointers.

use crate::lanes::{Bf16, Element, F16, Kernel, Lanes, Level, Stored, WIDTH, call, store_part};
use crate::lanes::{F32, load_part};
use crate::memory::Memory;
use crate::precision::Precision;
use std::io::Error;
use std::sync::Arc;

/// The rows of a cache, and how the slower tier stores them.
pub struct Rows {
    pub weights: Arc<Memory>,
    pub state: Vec<Arc<Memory>>,
    /// Numbers of each part of a row's state.
    pub numbers: Vec<usize>,
    pub dim: usize,
    /// Elements in the cache.
    pub held: Precision,
    /// Elements in the slower tier.
    pub stored: Precision,
    pub level: Level,
}

/// Key and first column of rounding by chance.
pub type Chance = Option<(u32, u32)>;

impl Rows {
    /// Makes room for `slots` rows.
    ///
    /// # Safety
    ///
    /// No other code uses the rows meanwhile.
    pub unsafe fn resize(&self, slots: usize) -> Result<(), Error> {
        // SAFETY: the caller's.
        unsafe { self.weights.resize(slots * self.held.row(self.dim))? };
        for (part, numbers) in self.state.iter().zip(&self.numbers) {
            // SAFETY: the caller's.
            unsafe { part.resize(slots * 4 * numbers)? };
        }
        Ok(())
    }

    /// Bytes of a record.
    pub fn bytes(&self) -> usize {
        self.stored.row(self.dim) + 4 * self.numbers.iter().sum::<usize>()
    }

    /// The memory of a part, weights first, and its bytes of a row.
    pub fn part(&self, at: usize) -> (*mut u8, usize) {
        match at {
            0 => (self.weights.start(), self.held.row(self.dim)),
            _ => (self.state[at - 1].start(), 4 * self.numbers[at - 1]),
        }
    }

    fn weights(&self, slot: usize) -> *mut u8 {
        let bytes = self.held.row(self.dim);
        assert!((slot + 1) * bytes <= self.weights.bytes());
        self.weights.start().wrapping_add(slot * bytes)
    }

    fn state(&self, part: usize, slot: usize) -> *mut u8 {
        let bytes = 4 * self.numbers[part];
        assert!((slot + 1) * bytes <= self.state[part].bytes());
        self.state[part].start().wrapping_add(slot * bytes)
    }

    /// Writes the row in `slot` as a record.
    ///
    /// # Safety
    ///
    /// No thread writes the row meanwhile.
    pub unsafe fn pack(&self, slot: usize, to: &mut [u8], chance: Chance) {
        let (weights, state) = to.split_at_mut(self.stored.row(self.dim));
        let from = self.weights(slot);
        // SAFETY: the row is inside of the memory, and no other code writes it, as the caller knows.
        unsafe {
            if self.held == self.stored {
                std::ptr::copy_nonoverlapping(from, weights.as_mut_ptr(), weights.len());
            } else {
                let to = weights.as_mut_ptr();
                call(self.level, Narrow { from: from.cast(), to, rows: self, chance });
            }
            let mut first = 0;
            for (part, numbers) in self.numbers.iter().enumerate() {
                let to = &mut state[first..first + 4 * numbers];
                std::ptr::copy_nonoverlapping(self.state(part, slot), to.as_mut_ptr(), to.len());
                first += to.len();
            }
        }
    }

    /// Makes `record` the row in `slot`.
    ///
    /// # Safety
    ///
    /// No other thread uses the row meanwhile.
    pub unsafe fn unpack(&self, record: &[u8], slot: usize) {
        let (weights, state) = record.split_at(self.stored.row(self.dim));
        let to = self.weights(slot);
        // SAFETY: the row is inside of the memory, and no other code uses it, as the caller knows.
        unsafe {
            if self.held == self.stored {
                std::ptr::copy_nonoverlapping(weights.as_ptr(), to, weights.len());
            } else {
                call(self.level, Widen { from: weights.as_ptr(), to: to.cast(), rows: self });
            }
            let mut first = 0;
            for (part, numbers) in self.numbers.iter().enumerate() {
                let from = &state[first..first + 4 * numbers];
                std::ptr::copy_nonoverlapping(from.as_ptr(), self.state(part, slot), from.len());
                first += from.len();
            }
        }
    }
}

/// A row of binary32, to be rounded to fewer bits.
struct Narrow<'a> {
    from: *const u8,
    to: *mut u8,
    rows: &'a Rows,
    chance: Chance,
}

impl Kernel for Narrow<'_> {
    /// Rounds a row; both pointers lead to one.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the caller's.
        unsafe {
            match self.rows.stored {
                Precision::F16 => self.of::<L, F16>(),
                Precision::Bf16 => self.of::<L, Bf16>(),
                Precision::F32 | Precision::I8 => {}
            }
        }
    }
}

impl Narrow<'_> {
    /// # Safety
    ///
    /// As for the kernel; the slower tier has elements of type `E`.
    #[inline(always)]
    unsafe fn of<L: Lanes, E: Stored>(&self) {
        let mut column = 0;
        // SAFETY: the caller's. Columns below `dim` are in both rows.
        unsafe {
            while column < self.rows.dim {
                let n = WIDTH.min(self.rows.dim - column);
                let value = load_part::<L, F32>(self.from.add(4 * column), n, ());
                let mut bits = None;
                if let Some((key, first)) = self.chance {
                    bits = Some(L::bits(key, first.wrapping_add(column as u32)));
                }
                store_part::<L, E>(value, self.to.add(E::BYTES * column), n, bits);
                column += WIDTH;
            }
        }
    }
}

/// A row of fewer bits, to become one of binary32.
struct Widen<'a> {
    from: *const u8,
    to: *mut u8,
    rows: &'a Rows,
}

impl Kernel for Widen<'_> {
    /// Widens a row; both pointers lead to one.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the caller's.
        unsafe {
            match self.rows.stored {
                Precision::F16 => self.of::<L, F16>(),
                Precision::Bf16 => self.of::<L, Bf16>(),
                Precision::F32 | Precision::I8 => {}
            }
        }
    }
}

impl Widen<'_> {
    /// # Safety
    ///
    /// As for the kernel; the slower tier has elements of type `E`.
    #[inline(always)]
    unsafe fn of<L: Lanes, E: Element<Scale = ()>>(&self) {
        let mut column = 0;
        // SAFETY: the caller's. Columns below `dim` are in both rows.
        unsafe {
            while column < self.rows.dim {
                let n = WIDTH.min(self.rows.dim - column);
                let value = load_part::<L, E>(self.from.add(E::BYTES * column), n, ());
                store_part::<L, F32>(value, self.to.add(4 * column), n, None);
                column += WIDTH;
            }
        }
    }
}
