//! `_train.pairs` and `_train.pairs_gradient`: the interaction of a DLRM, on arrays of numpy.

use embedding::pairs::{Features, backward, forward};
use pyo3::prelude::*;

use crate::arrays::{Array, bad, fault};

/// Features of samples: the first one, and the others.
type Given<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

struct Pair(Array<f32>, Array<f32>);

impl Pair {
    fn of((low, pooled): &Given<'_>) -> PyResult<Self> {
        Ok(Self(Array::of(low, "low")?, Array::of(pooled, "pooled")?))
    }

    fn features(&self, samples: usize) -> PyResult<Features<'_>> {
        let (low, pooled) = (self.0.numbers(), self.1.numbers());
        if samples == 0 || !low.len().is_multiple_of(samples) || low.is_empty() {
            return Err(bad(format!("{} numbers of {samples} samples", low.len())));
        }
        Ok(Features { samples, dim: low.len() / samples, low, pooled })
    }
}

/// Writes the first feature of each sample and the products of all pairs of its features.
#[pyfunction]
pub fn pairs(
    py: Python<'_>,
    samples: usize,
    features: Given<'_>,
    out: &Bound<'_, PyAny>,
    threads: usize,
) -> PyResult<()> {
    let pair = Pair::of(&features)?;
    let features = pair.features(samples)?;
    let mut out = Array::<f32>::of(out, "out")?;
    let out = out.numbers_mut()?;
    py.detach(|| forward(features, out, threads)).map_err(|found| fault(py, &found))
}

/// Writes the gradients of the features by that of the result of `pairs`.
#[pyfunction]
pub fn pairs_gradient(
    py: Python<'_>,
    samples: usize,
    features: Given<'_>,
    grad: &Bound<'_, PyAny>,
    to: Given<'_>,
    threads: usize,
) -> PyResult<()> {
    let (pair, mut to) = (Pair::of(&features)?, Pair::of(&to)?);
    let features = pair.features(samples)?;
    let grad = Array::<f32>::of(grad, "grad")?;
    let to = (to.0.numbers_mut()?, to.1.numbers_mut()?);
    let done = py.detach(|| backward(features, grad.numbers(), to, threads));
    done.map_err(|found| fault(py, &found))
}
