//! Tables in memory start with their initial weights.
#![allow(unsafe_code)] // Rows are written through pointers.

use crate::initial::Initial;
use crate::table::Table;
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
