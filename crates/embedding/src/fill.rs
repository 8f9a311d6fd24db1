//! Initial weights: uniform in plus or minus one by the root of the number of rows, each drawn by
//! its own counter. So every part of a table starts with the same values as the whole, and a row of
//! a cached table when it is first looked up.
#![allow(unsafe_code)] // Rows are written through pointers.

use crate::precision::{Precision, f32_to_bf16, f32_to_f16};
use crate::random::{named, of_column, of_row};
use crate::table::{Part, Table};
use crate::tasks;

/// Numbers of one task.
const NUMBERS: u64 = 1 << 20;

/// Fills `tables` with the initial weights of `seed`. Those with a cache get them row by row.
pub fn fill(tables: &[Table], seed: u64, threads: usize) {
    let mut jobs = Vec::new();
    for table in tables.iter().filter(|table| table.cache.is_none()) {
        let rows = (NUMBERS / table.dim as u64).max(1);
        let starts = (0..table.rows).step_by(rows as usize);
        jobs.extend(starts.map(|first| (table, first, table.rows.min(first + rows))));
    }
    tasks::run(
        jobs.len(),
        threads,
        || (),
        |()| (),
        |task, ()| {
            let (table, first, last) = jobs[task];
            let initial = Initial::of(&table.part, table.dim, table.precision, seed);
            for row in first..last {
                // SAFETY: the row is one of the table's, and each is written by one task.
                let to = unsafe {
                    let start = table.weights().start().add(row as usize * table.stride());
                    std::slice::from_raw_parts_mut(start, table.stride())
                };
                initial.write(row, to);
            }
        },
    );
}

/// Initial weights of a table's rows.
pub struct Initial {
    key: u64,
    bound: f32,
    first_row: u64,
    first_column: u32,
    dim: usize,
    precision: Precision,
}

impl Initial {
    /// Those of `seed`, for a part of a table with rows of `dim` elements.
    pub fn of(part: &Part, dim: usize, precision: Precision, seed: u64) -> Self {
        Self {
            key: named(seed, &part.whole),
            bound: (1.0 / (part.whole_rows as f64).sqrt()) as f32,
            first_row: part.first_row,
            first_column: part.first_column,
            dim,
            precision,
        }
    }

    /// Writes a row, which is as long as `to`.
    pub fn write(&self, row: u64, to: &mut [u8]) {
        let of_row = of_row(self.key, self.first_row + row);
        // 24 bits, in the middles of their intervals.
        let unit = |column: usize| {
            let bits = of_column(of_row, self.first_column.wrapping_add(column as u32)) >> 8;
            (bits as f32 + 0.5) * f32::from_bits(104 << 23) - 1.0
        };
        let half = |to: &mut [u8], of: fn(f32) -> u16| {
            for (column, to) in to.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                *to = of(unit(column) * self.bound).to_ne_bytes();
            }
        };
        match self.precision {
            Precision::F32 => {
                for (column, to) in to.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                    *to = (unit(column) * self.bound).to_ne_bytes();
                }
            }
            Precision::F16 => half(to, f32_to_f16),
            Precision::Bf16 => half(to, f32_to_bf16),
            Precision::I8 => {
                let (bytes, scale) = to.split_at_mut(self.dim);
                for (column, to) in bytes.iter_mut().enumerate() {
                    // A byte of 128 is zero.
                    *to = (unit(column) * 127.0 + 128.5) as u8;
                }
                let step = self.bound / 127.0;
                scale[..4].copy_from_slice(&step.to_ne_bytes());
                scale[4..].copy_from_slice(&(step * -128.0).to_ne_bytes());
            }
        }
    }
}
