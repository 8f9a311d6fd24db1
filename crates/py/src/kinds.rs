//! Names and numbers from Python as kinds of operations.

use graph::{CollectiveKind, Gemm, Kernel, Op, Problem};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The collective called `name`.
pub fn collective_kind(name: &str) -> Result<CollectiveKind, Problem> {
    let found = CollectiveKind::ALL.into_iter().find(|k| k.name() == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = CollectiveKind::ALL.iter().map(|k| k.name()).collect();
        Problem::new("", "collective", format!("\"{name}\" is not a collective"))
            .help(names.join(", "))
    })
}

/// The multiplication `gemm`, or the refusal of one without elements.
pub fn gemm(name: &str, gemm: Gemm, grouped: bool) -> PyResult<Op> {
    let Gemm { batch, m, n, k, width } = gemm;
    if [m, n, k, batch].contains(&0) {
        let message = format!(
            "{name:?} multiplies {batch} x ({m} x {k})({k} x {n}) elements of {width} bytes: every size must be at least 1"
        );
        return Err(PyValueError::new_err(message));
    }
    Ok(if grouped { Op::Grouped(gemm) } else { Op::Gemm(gemm) })
}

/// The kind of kernel called `name`.
pub fn kernel(name: &str) -> PyResult<Kernel> {
    let known = || Kernel::ALL.map(Kernel::name).join(", ");
    Kernel::from_name(name).ok_or_else(|| {
        PyValueError::new_err(format!("unknown kernel kind {name:?} (allowed: {})", known()))
    })
}

/// The collective called `name`.
pub fn collective(name: &str) -> PyResult<CollectiveKind> {
    CollectiveKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
        let names = CollectiveKind::ALL.map(CollectiveKind::name).join(", ");
        PyValueError::new_err(format!("unknown collective {name:?} (allowed: {names})"))
    })
}
