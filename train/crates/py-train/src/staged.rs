//! `_train.StagedCache`: a cache of `embedding` whose slots are in the memory of another device.

use embedding::Cache;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

use crate::arrays::{Array, fault};

/// Rows, and an array for each of their parts.
type Parts<'py> = (Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>);

/// Host side of a cache on a device.
#[pyclass(module = "armillary_train._train", frozen)]
pub struct StagedCache(pub Arc<Cache>);

/// Whole numbers as the bytes of int64.
fn words<'py>(py: Python<'py>, numbers: impl Iterator<Item = u64>) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    PyBytes::new(py, &bytes)
}

fn pairs<'py>(py: Python<'py>, pairs: &[(u32, u64)]) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
    let slots = pairs.iter().map(|&(slot, _)| u64::from(slot));
    (words(py, slots), words(py, pairs.iter().map(|&(_, row)| row)))
}

fn rows(array: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let array = Array::<i64>::of(array, "rows")?;
    Ok(array.numbers().iter().map(|&row| row as u64).collect())
}

fn bytes(arrays: &[Bound<'_, PyAny>]) -> PyResult<Vec<Array<u8>>> {
    arrays.iter().map(|array| Array::of(array, "part")).collect()
}

/// Slots of a batch, whether all rows have one, slots and rows that leave, slots and rows that
/// come, rows that made room, and rows behind the slots.
type Staged<'py> = (
    Bound<'py, PyBytes>,
    bool,
    (Bound<'py, PyBytes>, Bound<'py, PyBytes>),
    (Bound<'py, PyBytes>, Bound<'py, PyBytes>),
    u64,
    u64,
);

#[pymethods]
impl StagedCache {
    /// The number of slots, with those behind them, and bytes of the cache.
    fn size(&self) -> (u64, u64) {
        (self.0.places(), self.0.bytes())
    }

    /// Makes lookups of rows those of slots.
    fn stage<'py>(
        &self,
        py: Python<'py>,
        lookups: Vec<Bound<'py, PyAny>>,
        batch: (u32, u32),
        guests: bool,
    ) -> PyResult<Staged<'py>> {
        let mut arrays = lookups
            .iter()
            .map(|array| Array::<i64>::of(array, "lookups"))
            .collect::<PyResult<Vec<_>>>()?;
        let mut parts =
            arrays.iter_mut().map(Array::numbers_mut).collect::<PyResult<Vec<&mut [i64]>>>()?;
        let found = py.detach(|| self.0.stage(&mut parts, batch, guests));
        let found = found.map_err(|found| fault(py, &found))?;
        Ok((
            words(py, found.touched.iter().map(|&slot| u64::from(slot))),
            found.fits,
            pairs(py, &found.out),
            pairs(py, &found.into),
            found.evicted,
            found.guests,
        ))
    }

    /// Writes rows to the slower tier, then reads others. Returns how many of them were there.
    fn exchange(
        &self,
        py: Python<'_>,
        out: Parts<'_>,
        into: Parts<'_>,
        now: u32,
        threads: usize,
    ) -> PyResult<u64> {
        let (leaving, mut coming) = (bytes(&out.1)?, bytes(&into.1)?);
        let out = (rows(&out.0)?, leaving.iter().map(Array::numbers).collect());
        let parts = coming.iter_mut().map(Array::numbers_mut).collect::<PyResult<_>>()?;
        let mut into = (rows(&into.0)?, parts);
        let done = py.detach(|| self.0.exchange(&out, &mut into, now, threads));
        done.map_err(|found| fault(py, &found))
    }

    /// Notes that the rows of slots are changed.
    fn mark(&self, slots: &Bound<'_, PyAny>) -> PyResult<()> {
        let slots = Array::<i64>::of(slots, "slots")?;
        let slots: Vec<u32> = slots.numbers().iter().map(|&slot| slot as u32).collect();
        self.0.mark(&slots);
        Ok(())
    }

    /// Slots and rows that were changed; with `guests`, those behind the slots only.
    fn changed<'py>(
        &self,
        py: Python<'py>,
        guests: bool,
    ) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        pairs(py, &self.0.changed(guests))
    }

    /// Notes that the slower tier has all rows as they are.
    fn clean(&self) {
        self.0.clean();
    }

    /// Forgets all rows; with `guests`, those behind the slots only.
    fn forget(&self, py: Python<'_>, guests: bool) -> PyResult<()> {
        let done = if guests { self.0.forget_guests() } else { self.0.forget() };
        done.map_err(|found| fault(py, &found))
    }
}
