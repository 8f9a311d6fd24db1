//! The Python face of the trainer's Rust: `armillary_train._train`.
//!
//! Here: conversions and exceptions. Not here: anything a number depends on (`embedding`,
//! `ingest`), and what people see (`train/python/armillary_train`). Signatures and their
//! documentation are in `train/python/armillary_train/_train.pyi`.

mod arrays;
mod dictionaries;
mod distribution;
mod embedding;
mod ingest;
mod pairs;
mod staged;

use pyo3::prelude::*;

/// The native half of `armillary_train`.
#[pymodule]
mod _train {
    #[pymodule_export]
    use super::distribution::{PyBlocks, PyColumns, PyRouter};
    #[pymodule_export]
    use super::embedding::{Embedding, EngineMemory, PyRowSums, check_batch};
    #[pymodule_export]
    use super::ingest::{TextColumn, TextRecipe};
    #[pymodule_export]
    use super::pairs::{pairs, pairs_gradient};
    #[pymodule_export]
    use super::staged::StagedCache;
}
