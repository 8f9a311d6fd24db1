//! Faults of the input as the exceptions of `armillary.errors`, for every extension module.
//!
//! Not here: which faults there are (`graph::Problem`), and what people see (`python/armillary`).

use graph::Problem;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// `InputError` with all `problems`.
pub fn input(py: Python<'_>, problems: &[Problem]) -> PyErr {
    raise(py, "InputError", problems)
}

/// The exception of `armillary.errors` called `kind` with all `problems`, or the failure to make
/// it.
pub fn raise(py: Python<'_>, kind: &str, problems: &[Problem]) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let module = py.import("armillary.errors")?;
        let problem = module.getattr("Problem")?;
        let all: PyResult<Vec<_>> = problems.iter().map(|p| problem.call1(parts(p))).collect();
        let error = module.getattr(kind)?.call1((PyList::new(py, all?)?,))?;
        Ok(PyErr::from_value(error))
    };
    build().unwrap_or_else(|failure| failure)
}

/// File, place, message, help.
fn parts(problem: &Problem) -> (&str, &str, &str, &str) {
    (&problem.file, &problem.place, &problem.message, &problem.help)
}
