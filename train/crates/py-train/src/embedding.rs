//! `_train.Embedding`: tables, lookups and updates of `embedding`, on arrays of numpy.
#![allow(unsafe_code)] // Tables are seen through the buffer protocol.

use embedding::{
    Caching, Engine, Expected, Feature, Folder, Level, Memory, Optimizer, Part, Policy, Pooling,
    Precision, Round, RowSums, Rule, Table,
};
use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::os::raw::{c_int, c_void};
use std::path::PathBuf;
use std::sync::Arc;

use crate::arrays::{Array, Arrays, Given, bad, fault};
use crate::dictionaries::get;
use crate::staged::StagedCache;

/// Memory of the engine as a buffer of bytes that can be written.
#[pyclass(module = "armillary_train._train", frozen)]
pub struct EngineMemory(Arc<Memory>);

#[pymethods]
impl EngineMemory {
    /// # Safety
    ///
    /// Python calls this with a `view` to fill in.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (start, bytes) = (slf.get().0.start(), slf.get().0.bytes());
        let length = ffi::Py_ssize_t::try_from(bytes)?;
        // SAFETY: the memory lives as long as `slf`, to which the view holds a reference.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start.cast::<c_void>(), length, 0, flags)
        };
        if filled == 0 {
            return Ok(());
        }
        Err(PyErr::take(slf.py()).unwrap_or_else(|| PyBufferError::new_err("no buffer")))
    }

    /// The number of bytes.
    fn __len__(&self) -> usize {
        self.0.bytes()
    }
}

fn rule(settings: &Bound<'_, PyDict>) -> PyResult<Rule> {
    let number = |name: &str| get::<f32>(settings, name);
    let betas = || Ok::<_, PyErr>((number("beta1")?, number("beta2")?, number("eps")?));
    match get::<String>(settings, "rule")?.as_str() {
        "sgd" => Ok(Rule::Sgd),
        "adagrad" => Ok(Rule::AdaGrad { eps: number("eps")? }),
        "row_wise_adagrad" => Ok(Rule::RowWiseAdaGrad { eps: number("eps")? }),
        "adam" => betas().map(|(beta1, beta2, eps)| Rule::Adam { beta1, beta2, eps }),
        "lamb" => betas().map(|(beta1, beta2, eps)| Rule::Lamb { beta1, beta2, eps }),
        other => Err(bad(format!("unknown rule {other:?}"))),
    }
}

fn optimizer(settings: &Bound<'_, PyDict>) -> PyResult<Optimizer> {
    Ok(Optimizer {
        rule: rule(settings)?,
        learning_rate: get(settings, "learning_rate")?,
        weight_decay: get(settings, "weight_decay")?,
        decoupled: get(settings, "decoupled")?,
        clip_value: get(settings, "clip_value")?,
        clip_norm: get(settings, "clip_norm")?,
    })
}

fn precision(settings: &Bound<'_, PyDict>) -> PyResult<Precision> {
    match get::<String>(settings, "dtype")?.as_str() {
        "float32" => Ok(Precision::F32),
        "float16" => Ok(Precision::F16),
        "bfloat16" => Ok(Precision::Bf16),
        "int8" => Ok(Precision::I8),
        other => Err(bad(format!("unknown dtype {other:?}"))),
    }
}

fn caching(settings: &Bound<'_, PyDict>, seed: u64) -> PyResult<Caching> {
    let policy = match get::<String>(settings, "policy")?.as_str() {
        "lru" => Policy::Lru,
        "lfu" => Policy::Lfu,
        other => return Err(bad(format!("unknown policy {other:?}"))),
    };
    let staged = get(settings, "staged")?;
    let bytes = get(settings, "bytes")?;
    Ok(Caching { bytes, policy, precision: precision(settings)?, seed, staged })
}

/// The folder of a dictionary's tables, if they have one.
fn folder(
    py: Python<'_>,
    storage: Option<&Bound<'_, PyDict>>,
    seed: u64,
) -> PyResult<Option<Folder>> {
    let Some(storage) = storage else { return Ok(None) };
    let (path, resume): (PathBuf, bool) = (get(storage, "folder")?, get(storage, "resume")?);
    let opened = py.detach(|| Folder::open(&path, resume, seed));
    opened.map(Some).map_err(|found| fault(py, &found))
}

fn table(
    py: Python<'_>,
    settings: &Bound<'_, PyDict>,
    rule: &Rule,
    (folder, seed): (Option<&mut Folder>, u64),
) -> PyResult<Table> {
    let part = Part {
        whole: get(settings, "whole")?,
        whole_rows: get(settings, "whole_rows")?,
        first_row: get(settings, "first_row")?,
        first_column: get(settings, "first_column")?,
    };
    let name: String = get(settings, "name")?;
    let size = (get(settings, "rows")?, get(settings, "dim")?);
    let precision = (precision(settings)?, get(settings, "stochastic_rounding")?);
    let made = match settings.get_item("cache")? {
        None => Table::new(&name, size, precision, part, rule),
        Some(cache) => {
            let cache = cache.cast()?;
            let folder = folder.filter(|_| matches!(get(cache, "on_disk"), Ok(true)));
            let caching = caching(cache, seed)?;
            py.detach(|| Table::cached(&name, size, precision, part, rule, (&caching, folder)))
        }
    };
    made.map_err(|found| fault(py, &found))
}

fn feature(settings: &Bound<'_, PyDict>) -> PyResult<Feature> {
    let pooling = match get::<String>(settings, "pooling")?.as_str() {
        "sum" => Pooling::Sum,
        "mean" => Pooling::Mean,
        "none" => Pooling::None,
        other => return Err(bad(format!("unknown pooling {other:?}"))),
    };
    Ok(Feature { name: get(settings, "name")?, table: get(settings, "table")?, pooling })
}

/// Numbers of a row in a round.
fn numbers(round: Round, row: &mut RowSums) -> &mut [f32] {
    match round {
        Round::Clip => std::slice::from_mut(&mut row.clip),
        Round::Rule => &mut row.rule,
    }
}

/// Rows of a table with the sums of a round over its columns.
#[pyclass(module = "armillary_train._train", name = "RowSums")]
pub struct PyRowSums {
    round: Round,
    rows: Vec<RowSums>,
}

impl PyRowSums {
    /// The numbers of all rows next to those of an array.
    fn pairs<'a>(
        &'a mut self,
        array: &'a mut Array<f32>,
    ) -> PyResult<impl Iterator<Item = (&'a mut f32, &'a mut f32)>> {
        let array = array.numbers_mut()?;
        let round = self.round;
        let count = self.rows.len() * numbers(round, &mut RowSums::default()).len();
        if array.len() != count {
            return Err(bad(format!("{} of {count} sums", array.len())));
        }
        Ok(self.rows.iter_mut().flat_map(move |row| numbers(round, row)).zip(array))
    }
}

#[pymethods]
impl PyRowSums {
    /// Numbers of all rows.
    fn __len__(&self) -> usize {
        self.rows.len() * numbers(self.round, &mut RowSums::default()).len()
    }

    /// Writes the sums, float32, in the order of rows.
    fn write(&mut self, to: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut to = Array::of(to, "to")?;
        self.pairs(&mut to)?.for_each(|(sum, to)| *to = *sum);
        Ok(())
    }

    /// Takes sums over whole rows in their place.
    fn replace(&mut self, by: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut by = Array::of(by, "by")?;
        self.pairs(&mut by)?.for_each(|(sum, by)| *sum = *by);
        Ok(())
    }
}

/// Tables with their features and optimizer.
#[pyclass(module = "armillary_train._train")]
pub struct Embedding(Engine);

#[pymethods]
impl Embedding {
    #[new]
    #[pyo3(signature = (tables, features, settings, seed, threads, storage=None))]
    fn new(
        py: Python<'_>,
        tables: Vec<Bound<'_, PyDict>>,
        features: Vec<Bound<'_, PyDict>>,
        settings: &Bound<'_, PyDict>,
        seed: u64,
        threads: usize,
        storage: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let optimizer = optimizer(settings)?;
        let mut folder = folder(py, storage.as_ref(), seed)?;
        let mut made = Vec::new();
        for each in &tables {
            made.push(table(py, each, &optimizer.rule, (folder.as_mut(), seed))?);
        }
        let features = features.iter().map(feature).collect::<PyResult<_>>()?;
        let engine = py.detach(|| {
            let mut engine = Engine::new(made, features, optimizer)?;
            engine.seed = seed;
            engine.threads = threads.max(1);
            engine.fill();
            if let Some(folder) = folder {
                engine.keep(folder);
            }
            Ok(engine)
        });
        engine.map(Self).map_err(|found| fault(py, &found))
    }

    /// Instruction sets of this machine, the widest last.
    #[staticmethod]
    fn levels() -> Vec<&'static str> {
        Level::available().into_iter().map(Level::name).collect()
    }

    fn forward(
        &self,
        py: Python<'_>,
        samples: usize,
        batch: Given<'_>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let arrays = Arrays::of(samples, &batch)?;
        let mut out = Array::of(out, "out")?;
        let (batch, out) = (arrays.batch(), out.numbers_mut()?);
        let done = py.detach(|| self.0.forward(&batch, out));
        done.map_err(|found| fault(py, &found))
    }

    fn backward(
        &mut self,
        py: Python<'_>,
        samples: usize,
        batch: Given<'_>,
        grad: &Bound<'_, PyAny>,
        weights: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let arrays = Arrays::of(samples, &batch)?;
        let grad = Array::of(grad, "grad")?;
        let mut weights = weights.map(|weights| Array::of(weights, "weights")).transpose()?;
        let weights = weights.as_mut().map(Array::numbers_mut).transpose()?;
        let (batch, grad) = (arrays.batch(), grad.numbers());
        let done = py.detach(|| self.0.backward(&batch, grad, weights));
        done.map_err(|found| fault(py, &found))
    }

    /// Gradients of the lookups' weights; no row changes.
    fn weight_gradients(
        &self,
        py: Python<'_>,
        samples: usize,
        batch: Given<'_>,
        grad: &Bound<'_, PyAny>,
        weights: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let arrays = Arrays::of(samples, &batch)?;
        let grad = Array::of(grad, "grad")?;
        let mut weights = Array::of(weights, "weights")?;
        let (batch, grad, weights) = (arrays.batch(), grad.numbers(), weights.numbers_mut()?);
        let done = py.detach(|| self.0.weight_gradients(&batch, grad, weights));
        done.map_err(|found| fault(py, &found))
    }

    /// Rounds of `row_sums` before a backward pass, where a table has some columns of rows.
    #[staticmethod]
    fn rounds(settings: &Bound<'_, PyDict>) -> PyResult<usize> {
        Ok(optimizer(settings)?.rounds().len())
    }

    /// The rows of a table that the next backward pass changes, with the sums of a round.
    fn row_sums(
        &self,
        py: Python<'_>,
        samples: usize,
        batch: Given<'_>,
        grad: &Bound<'_, PyAny>,
        round_of_table: (usize, usize),
    ) -> PyResult<PyRowSums> {
        let (table, round) = round_of_table;
        let round = self.0.optimizer.rounds().get(round).copied();
        let round = round.ok_or_else(|| bad("no such round".into()))?;
        let arrays = Arrays::of(samples, &batch)?;
        let grad = Array::of(grad, "grad")?;
        let (batch, grad) = (arrays.batch(), grad.numbers());
        let rows = py.detach(|| self.0.row_sums(&batch, grad, table, round));
        Ok(PyRowSums { round, rows: rows.map_err(|found| fault(py, &found))? })
    }

    /// Sums over `columns` columns, for further rounds and the next backward pass.
    fn set_row_sums(
        &mut self,
        py: Python<'_>,
        table: usize,
        columns: usize,
        rows: &PyRowSums,
    ) -> PyResult<()> {
        let done = self.0.set_row_sums(table, columns, rows.rows.clone());
        done.map_err(|found| fault(py, &found))
    }

    /// Begins to bring the rows of the next batch into the caches.
    fn prefetch(&self, py: Python<'_>, samples: usize, batch: Given<'_>) -> PyResult<()> {
        let arrays = Arrays::of(samples, &batch)?;
        let batch = arrays.batch();
        py.detach(|| self.0.prefetch(&batch)).map_err(|found| fault(py, &found))
    }

    /// Waits until caches read and write nothing in the background.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.settle()).map_err(|found| fault(py, &found))
    }

    /// Makes the tables, as they are now, the checkpoint of their folder.
    fn commit(&mut self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.commit()).map_err(|found| fault(py, &found))
    }

    /// Reads records of rows of a table with a cache.
    fn read_rows(
        &self,
        py: Python<'_>,
        table: usize,
        first: u64,
        records: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mut records = Array::<u8>::of(records, "records")?;
        let records = records.numbers_mut()?;
        let done = py.detach(|| self.0.read_rows(table, first, records));
        done.map_err(|found| fault(py, &found))
    }

    /// Writes records of rows of a table with a cache.
    fn write_rows(
        &mut self,
        py: Python<'_>,
        table: usize,
        first: u64,
        records: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let records = Array::<u8>::of(records, "records")?;
        let records = records.numbers();
        let done = py.detach(|| self.0.write_rows(table, first, records));
        done.map_err(|found| fault(py, &found))
    }

    /// The cache of a table, whose slots are elsewhere.
    fn cache(&self, py: Python<'_>, table: usize) -> PyResult<StagedCache> {
        let found = self.0.cache(table).map(Arc::clone);
        found.map(StagedCache).map_err(|found| fault(py, &found))
    }

    /// Counts of the caches so far.
    fn cache_report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (counts, report) = (self.0.counts(), PyDict::new(py));
        let caches = || self.0.tables().iter().filter_map(Table::cache);
        let traffic = caches().map(|cache| cache.traffic());
        let traffic = traffic.fold((0, 0), |all, each| (all.0 + each.0, all.1 + each.1));
        for (name, value) in [
            ("lookups", counts.lookups),
            ("misses", counts.misses),
            ("evictions", counts.evictions),
            ("overflow_rows", counts.guests),
            ("rows_read", counts.read),
            ("rows_written", counts.written),
            ("rows_moved", traffic.1),
            ("bytes_written", traffic.0),
            ("batches", counts.batches),
            ("prefetched_batches", counts.prefetched),
            ("cached_rows", caches().map(|cache| cache.slots()).sum()),
            ("memory_bytes", caches().map(|cache| cache.bytes()).sum()),
        ] {
            report.set_item(name, value)?;
        }
        report.set_item("stall_seconds", counts.stall)?;
        Ok(report)
    }

    /// Memory for `bytes` bytes of a result, which have any value. Dropped results leave theirs to
    /// the next ones.
    fn room(&self, bytes: usize) -> PyResult<EngineMemory> {
        let none = |_| PyMemoryError::new_err(format!("no memory for a result of {bytes} bytes"));
        self.0.results.take(bytes).map(EngineMemory).map_err(none)
    }

    /// The memory of table `table`: of its rows, and of each part of the optimizer's state.
    fn memory(&self, table: usize) -> PyResult<(EngineMemory, Vec<EngineMemory>)> {
        let found = self.0.tables().get(table);
        let table = found.ok_or_else(|| bad(format!("no table {table}")))?;
        let state = table.state().iter().map(Arc::clone).map(EngineMemory).collect();
        Ok((EngineMemory(Arc::clone(table.weights())), state))
    }

    #[getter]
    fn step(&self) -> u64 {
        self.0.step
    }

    #[setter]
    fn set_step(&mut self, step: u64) {
        self.0.step = step;
    }

    #[getter]
    fn learning_rate(&self) -> f32 {
        self.0.optimizer.learning_rate
    }

    #[setter]
    fn set_learning_rate(&mut self, rate: f32) {
        self.0.optimizer.learning_rate = rate;
    }

    #[getter]
    fn threads(&self) -> usize {
        self.0.threads
    }

    #[setter]
    fn set_threads(&mut self, threads: usize) {
        self.0.threads = threads.max(1);
    }

    #[getter]
    fn refuse_not_finite(&self) -> bool {
        self.0.refuse_not_finite
    }

    #[setter]
    fn set_refuse_not_finite(&mut self, refuse: bool) {
        self.0.refuse_not_finite = refuse;
    }

    #[getter]
    fn level(&self) -> &'static str {
        self.0.level.name()
    }

    #[setter]
    fn set_level(&mut self, name: &str) -> PyResult<()> {
        let found = Level::available().into_iter().find(|level| level.name() == name);
        self.0.level = found.ok_or_else(|| bad(format!("this machine has no {name:?}")))?;
        Ok(())
    }
}

/// Checks a batch of features, each with its table, the table's rows, and whether it takes weights.
#[pyfunction]
pub fn check_batch(
    py: Python<'_>,
    samples: usize,
    batch: Given<'_>,
    features: Vec<(String, String, u64, bool)>,
) -> PyResult<()> {
    let arrays = Arrays::of(samples, &batch)?;
    let expected: Vec<Expected<'_>> = features
        .iter()
        .map(|(feature, table, rows, weighted)| Expected {
            feature,
            table,
            rows: *rows,
            weighted: *weighted,
        })
        .collect();
    let done = embedding::check(&arrays.batch(), &expected, 1);
    done.map(|_| ()).map_err(|found| fault(py, &found))
}
