//! Faults of the input and stalled runs as the exceptions of `armillary.errors`.

use graph::Problem;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// `InputError` with all `problems`.
pub fn input(py: Python<'_>, problems: &[Problem]) -> PyErr {
    raise(py, "InputError", problems)
}

/// `StalledError` with what waits for whom.
pub fn stalled(py: Python<'_>, problems: &[Problem]) -> PyErr {
    raise(py, "StalledError", problems)
}

fn raise(py: Python<'_>, kind: &str, problems: &[Problem]) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let module = py.import("armillary.errors")?;
        let problem = module.getattr("Problem")?;
        let all: PyResult<Vec<_>> = problems.iter().map(|p| problem.call1((&p.file, &p.place, &p.message, &p.help))).collect();
        let error = module.getattr(kind)?.call1((PyList::new(py, all?)?,))?;
        Ok(PyErr::from_value(error))
    };
    build().unwrap_or_else(|failure| failure)
}
