//! Arrays of numpy, as slices of numbers, and faults as exceptions.
#![allow(unsafe_code)] // Arrays are seen through the buffer protocol.

use embedding::{Batch, Fault, Integers};
use graph::Problem;
use py_errors::input;
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pub fn fault(py: Python<'_>, fault: &Fault) -> PyErr {
    let problem = Problem::new("", &fault.place, fault.message.clone()).help(fault.allowed.clone());
    input(py, &[problem])
}

pub fn bad(text: String) -> PyErr {
    PyValueError::new_err(text)
}

/// A contiguous array, kept for the length of a call.
pub struct Array<T>(PyBuffer<T>);

impl<T: Element> Array<T> {
    pub fn of(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let buffer = PyBuffer::get(object)?;
        if buffer.is_c_contiguous() {
            return Ok(Self(buffer));
        }
        Err(bad(format!("{name} is not contiguous")))
    }

    pub fn numbers(&self) -> &[T] {
        match self.0.item_count() {
            0 => &[],
            // SAFETY: the buffer is contiguous, has that many elements of this type and lives as
            // long as `self`. The caller of the engine does not write it meanwhile.
            count => unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), count) },
        }
    }

    pub fn numbers_mut(&mut self) -> PyResult<&mut [T]> {
        if self.0.readonly() {
            return Err(bad("an array for results is read-only".into()));
        }
        Ok(match self.0.item_count() {
            0 => &mut [],
            // SAFETY: as above, and nothing else uses an array for results meanwhile.
            count => unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast(), count) },
        })
    }
}

/// Integers of either width, for results.
pub enum IntegersMut<'a> {
    I32(&'a mut [i32]),
    I64(&'a mut [i64]),
}

/// Integers of either width.
pub enum IntegerArray {
    I32(Array<i32>),
    I64(Array<i64>),
}

impl IntegerArray {
    pub fn of(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        if let Ok(array) = Array::of(object, name) {
            return Ok(Self::I64(array));
        }
        Array::of(object, name)
            .map(Self::I32)
            .map_err(|_| bad(format!("{name} is not a contiguous array of int32 or int64")))
    }

    pub fn numbers(&self) -> Integers<'_> {
        match self {
            Self::I32(array) => Integers::I32(array.numbers()),
            Self::I64(array) => Integers::I64(array.numbers()),
        }
    }

    pub fn numbers_mut(&mut self) -> PyResult<IntegersMut<'_>> {
        match self {
            Self::I32(array) => array.numbers_mut().map(IntegersMut::I32),
            Self::I64(array) => array.numbers_mut().map(IntegersMut::I64),
        }
    }
}

/// The arrays of a batch.
pub struct Arrays {
    samples: usize,
    lengths: IntegerArray,
    indices: IntegerArray,
    weights: Option<Array<f32>>,
}

/// Lengths, indices and weights.
pub type Given<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

impl Arrays {
    pub fn of(samples: usize, (lengths, indices, weights): &Given<'_>) -> PyResult<Self> {
        Ok(Self {
            samples,
            lengths: IntegerArray::of(lengths, "lengths")?,
            indices: IntegerArray::of(indices, "indices")?,
            weights: weights.as_ref().map(|weights| Array::of(weights, "weights")).transpose()?,
        })
    }

    pub fn batch(&self) -> Batch<'_> {
        Batch {
            samples: self.samples,
            lengths: self.lengths.numbers(),
            indices: self.indices.numbers(),
            weights: self.weights.as_ref().map(Array::numbers),
        }
    }
}
