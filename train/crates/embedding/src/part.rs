//! Which part of a whole table a table is.

/// Which part of a whole table a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Name of the whole table, from which the initial weights are drawn.
    pub whole: String,
    /// Rows of the whole table.
    pub whole_rows: u64,
    /// The first row of the part.
    pub first_row: u64,
    /// The first column of the part.
    pub first_column: u32,
}
