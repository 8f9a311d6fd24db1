//! Initial weights: uniform in plus or minus one by the root of the number of rows, each drawn by
//! its own counter. So every part of a table starts with the same values as the whole, and a row of
//! a cached table when it is first looked up.

use crate::part::Part;
use crate::precision::{Precision, f32_to_bf16, f32_to_f16};
use crate::random::{named, of_column, of_row};

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
