//! The Python face of the simulator: `armillary._core`. The only crate that knows PyO3.
//!
//! Here: conversions, the GIL and signals. Not here: anything a number depends on (`sim`), and what people see
//! (`python/armillary`).
#![allow(missing_docs)]

use pyo3::prelude::*;

/// The native half of `armillary`; its signatures are in `python/armillary/_core.pyi`.
#[pymodule]
mod _core {
    use super::*;

    /// Version of Armillary, as in every report.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}
