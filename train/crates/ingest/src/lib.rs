//! Click logs as text: lines to columns that a trainer reads, with hashing and preprocessing.
//!
//! A line has fields with a separator between them: a label, numbers ("dense"), and categories. A
//! [`Recipe`] says which field is what, and how it changes on its way into a column. `parse.rs` does
//! it. Knows no files, no Python and no torch: what is read and written is
//! `train/python/armillary_train/data`.
//!
//! Results depend on text and recipe alone, never on threads or on the machine: a logarithm is
//! computed with 64 bits and rounded once.

mod columns;
mod fault;
mod number;
mod parse;
mod recipe;
mod remainder;
mod scan;

pub use columns::{Columns, Index};
pub use fault::{Fault, MOST_FAULTS};
pub use parse::{parse, pieces};
pub use recipe::{Category, Dense, Field, Kind, Missing, Numbers, Recipe};
