//! Initial weights: uniform in plus or minus one by the root of the number of rows, each drawn by
//! its own counter. So every part of a table starts with the same values as the whole.
#![allow(unsafe_code)] // Rows are written through pointers.

use crate::precision::{Precision, f32_to_bf16, f32_to_f16};
use crate::random::{named, of_column, of_row};
use crate::table::Table;
use crate::tasks;

/// Numbers of one task.
const NUMBERS: u64 = 1 << 20;

/// Fills `tables` with the initial weights of `seed`.
pub fn fill(tables: &[Table], seed: u64, threads: usize) {
    let mut jobs = Vec::new();
    for table in tables {
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
            let key = named(seed, &table.part.whole);
            let bound = 1.0 / (table.part.whole_rows as f64).sqrt();
            (first..last).for_each(|row| fill_row(table, row, key, bound as f32));
        },
    );
}

fn fill_row(table: &Table, row: u64, key: u64, bound: f32) {
    let of_row = of_row(key, table.part.first_row + row);
    // 24 bits, in the middles of their intervals.
    let unit = |column: usize| {
        let bits = of_column(of_row, table.part.first_column.wrapping_add(column as u32)) >> 8;
        (bits as f32 + 0.5) * f32::from_bits(104 << 23) - 1.0
    };
    // SAFETY: the row is one of the table's, and each is written by one task.
    unsafe {
        let to = table.weights().start().add(row as usize * table.stride());
        for column in 0..table.dim {
            let value = unit(column) * bound;
            match table.precision {
                Precision::F32 => to.cast::<f32>().add(column).write_unaligned(value),
                Precision::F16 => to.cast::<u16>().add(column).write_unaligned(f32_to_f16(value)),
                Precision::Bf16 => to.cast::<u16>().add(column).write_unaligned(f32_to_bf16(value)),
                // A byte of 128 is zero.
                Precision::I8 => to.add(column).write((unit(column) * 127.0 + 128.5) as u8),
            }
        }
        if table.precision == Precision::I8 {
            let scale = to.add(table.dim).cast::<f32>();
            scale.write_unaligned(bound / 127.0);
            scale.add(1).write_unaligned(bound / 127.0 * -128.0);
        }
    }
}
