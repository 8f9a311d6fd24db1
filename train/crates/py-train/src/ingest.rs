//! `_train.TextRecipe`: lines of click logs to columns of `ingest`, as buffers for numpy.
#![allow(unsafe_code)] // Columns are seen through the buffer protocol.

use ingest::{Category, Columns, Dense, Fault, Field, Index, Kind, Missing, Numbers, Recipe};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::os::raw::{c_int, c_void};

use crate::arrays::{Array, bad};
use crate::dictionaries::get;

enum Numbered {
    U8(Vec<u8>),
    F32(Vec<f32>),
    I32(Vec<i32>),
    I64(Vec<i64>),
}

impl Numbered {
    /// Where the bytes are, and how many.
    fn bytes(&self) -> (*const c_void, usize) {
        match self {
            Self::U8(all) => (all.as_ptr().cast(), size_of_val(&all[..])),
            Self::F32(all) => (all.as_ptr().cast(), size_of_val(&all[..])),
            Self::I32(all) => (all.as_ptr().cast(), size_of_val(&all[..])),
            Self::I64(all) => (all.as_ptr().cast(), size_of_val(&all[..])),
        }
    }
}

/// A column as a buffer of bytes that can't be written.
#[pyclass(module = "armillary_train._train", frozen)]
pub struct TextColumn(Numbered);

#[pymethods]
impl TextColumn {
    /// # Safety
    ///
    /// Python calls this with a `view` to fill in.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (start, bytes) = slf.get().0.bytes();
        let length = ffi::Py_ssize_t::try_from(bytes)?;
        // SAFETY: the column lives as long as `slf`, to which the view holds a reference, and never
        // changes: the view is read-only.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start.cast_mut(), length, 1, flags)
        };
        if filled == 0 {
            return Ok(());
        }
        Err(PyErr::take(slf.py()).unwrap_or_else(|| PyBufferError::new_err("no buffer")))
    }

    /// The number of bytes.
    fn __len__(&self) -> usize {
        self.0.bytes().1
    }
}

/// Labels (uint8), dense values (float32), lengths (int32) and indices (int32 or int64).
type Given = (TextColumn, TextColumn, TextColumn, TextColumn);
/// Line (from 0), column, message, what is allowed.
type Wrong = (usize, String, String, String);

/// Which field of a line is what, and how it changes.
#[pyclass(module = "armillary_train._train", frozen)]
pub struct TextRecipe(Recipe);

#[pymethods]
impl TextRecipe {
    #[new]
    fn new(
        separator: u8,
        fields: Vec<(String, usize)>,
        dense: Vec<Bound<'_, PyDict>>,
        categories: Vec<Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let fields = fields.iter().map(|(kind, number)| match kind.as_str() {
            "skip" => Ok(Field::Skip),
            "label" => Ok(Field::Label),
            "dense" if *number < dense.len() => Ok(Field::Dense(*number)),
            "category" if *number < categories.len() => Ok(Field::Category(*number)),
            other => Err(bad(format!("invalid field: {other} {number}"))),
        });
        let fields = fields.collect::<PyResult<Vec<_>>>()?;
        if fields.is_empty() {
            return Err(bad("no fields".into()));
        }
        Ok(Self(Recipe {
            separator,
            fields,
            dense: dense.iter().map(dense_of).collect::<PyResult<_>>()?,
            categories: categories.iter().map(category_of).collect::<PyResult<_>>()?,
        }))
    }

    /// Whether rows have 32 bits.
    #[getter]
    fn narrow(&self) -> bool {
        self.0.is_narrow()
    }

    /// Whether samples may have other than one value of a category.
    #[getter]
    fn varies(&self) -> bool {
        self.0.varies()
    }

    /// Dense columns.
    #[getter]
    fn dense(&self) -> usize {
        self.0.dense.len()
    }

    /// Categories.
    #[getter]
    fn categories(&self) -> usize {
        self.0.categories.len()
    }

    /// The columns of pieces of a text, in order, read by up to `threads` threads; or the first
    /// faults.
    fn parse(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyAny>,
        threads: usize,
    ) -> PyResult<(Vec<Given>, Vec<Wrong>)> {
        let text = Array::<u8>::of(text, "text")?;
        let recipe = &self.0;
        Ok(py.detach(|| {
            if recipe.is_narrow() {
                read(text.numbers(), recipe, threads, Numbered::I32)
            } else {
                read(text.numbers(), recipe, threads, Numbered::I64)
            }
        }))
    }
}

fn read<I: Index>(
    text: &[u8],
    recipe: &Recipe,
    threads: usize,
    indices: fn(Vec<I>) -> Numbered,
) -> (Vec<Given>, Vec<Wrong>) {
    let mut pieces = ingest::pieces(text, threads.max(1));
    if pieces.is_empty() {
        pieces.push(text);
    }
    let found: Vec<Result<Columns<I>, Vec<Fault>>> = match pieces[..] {
        [piece] => vec![ingest::parse(piece, recipe)],
        _ => std::thread::scope(|scope| {
            let running: Vec<_> = pieces
                .iter()
                .map(|piece| scope.spawn(move || ingest::parse(piece, recipe)))
                .collect();
            let joined = running.into_iter().map(|each| each.join());
            joined
                .map(|each| each.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        }),
    };
    let (mut columns, mut wrong, mut before) = (Vec::new(), Vec::new(), 0);
    for (piece, each) in pieces.iter().zip(found) {
        match each {
            Ok(each) => columns.push((
                TextColumn(Numbered::U8(each.labels)),
                TextColumn(Numbered::F32(each.dense)),
                TextColumn(Numbered::I32(each.lengths)),
                TextColumn(indices(each.indices)),
            )),
            Err(faults) => wrong.extend(
                faults
                    .into_iter()
                    .map(|each| (before + each.line, each.column, each.message, each.allowed)),
            ),
        }
        before += piece.iter().filter(|byte| **byte == b'\n').count();
    }
    wrong.truncate(ingest::MOST_FAULTS);
    (columns, wrong)
}

fn dense_of(from: &Bound<'_, PyDict>) -> PyResult<Dense> {
    let numbers = match get::<String>(from, "numbers")?.as_str() {
        "whole" => Numbers::Whole,
        "decimal" => Numbers::Decimal,
        other => return Err(bad(format!("unknown numbers: {other}"))),
    };
    let name: String = get(from, "name")?;
    let mut made = Dense::new(&name, numbers, get(from, "missing")?);
    if let Some((low, high)) = get::<Option<(f64, f64)>>(from, "clip")? {
        made = made.clip(low, high);
    }
    if let Some(add) = get::<Option<f64>>(from, "log")? {
        made = made.log(add);
    }
    if let Some((mean, deviation)) = get::<Option<(f64, f64)>>(from, "normalize")? {
        made = made.normalize(mean, deviation);
    }
    Ok(made)
}

fn category_of(from: &Bound<'_, PyDict>) -> PyResult<Category> {
    let kind = match get::<String>(from, "kind")?.as_str() {
        "hexadecimal" => Kind::Hexadecimal,
        "whole" => Kind::Whole,
        "text" => Kind::Text,
        "verbatim" => Kind::Verbatim,
        other => return Err(bad(format!("unknown kind: {other}"))),
    };
    let missing = get::<Option<i64>>(from, "missing")?.map_or(Missing::Skip, Missing::Value);
    let rows: Option<i64> = get(from, "rows")?;
    if rows.is_some_and(|rows| rows < 1) {
        return Err(bad("rows below 1".into()));
    }
    Ok(Category {
        name: get(from, "name")?,
        kind,
        missing,
        between: get(from, "between")?,
        hash: get(from, "hash")?,
        rows,
    })
}
