//! Columns: what lines become.

/// A row of a table: 32 bits where all tables allow it, else 64.
pub trait Index: Copy + Default + Send {
    /// The row, which fits.
    fn of(row: i64) -> Self;
}

impl Index for i32 {
    #[inline]
    fn of(row: i64) -> Self {
        row as i32
    }
}

impl Index for i64 {
    #[inline]
    fn of(row: i64) -> Self {
        row
    }
}

/// Samples as columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns<I> {
    /// 0 or 1, of each sample.
    pub labels: Vec<u8>,
    /// Numbers, sample by sample.
    pub dense: Vec<f32>,
    /// Values of each category of each sample, category by category; empty if all have one.
    pub lengths: Vec<i32>,
    /// The values in the same order.
    pub indices: Vec<I>,
}

impl<I> Columns<I> {
    /// Samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}
