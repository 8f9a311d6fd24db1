//! Settings that come as dictionaries.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::bad;

/// The item `name` of a dictionary.
pub fn get<'py, T: for<'a> FromPyObject<'a, 'py>>(
    from: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<T> {
    let value = from.get_item(name)?.ok_or_else(|| bad(format!("no {name}")))?;
    value.extract().map_err(|_| bad(format!("invalid {name}: {value}")))
}
