//! A table, or the part of one that this process holds: its rows and the optimizer's state.

use crate::cache::{Cache, Caching, Folder, Shape};
use crate::fault::Fault;
use crate::memory::Memory;
use crate::optimizer::{RowSums, Rule};
use crate::part::Part;
use crate::precision::Precision;
use std::sync::Arc;

/// Rows in memory. Their bytes may be seen by others through `weights` and `state`.
pub struct Table {
    pub(crate) name: String,
    pub(crate) rows: u64,
    pub(crate) dim: usize,
    pub(crate) precision: Precision,
    pub(crate) stochastic: bool,
    pub(crate) part: Part,
    /// Sums over whole rows for the next update; see `Engine::set_row_sums`. Empty where the table
    /// has all columns.
    pub(crate) sums: Vec<RowSums>,
    /// Columns of whole rows.
    pub(crate) whole_dim: usize,
    /// The cache, if the memory has some of the rows only.
    pub(crate) cache: Option<Arc<Cache>>,
    weights: Arc<Memory>,
    state: Vec<Arc<Memory>>,
}

/// Most columns of a table.
const COLUMNS: usize = 1 << 16;

impl Table {
    /// A table of `rows` rows of `dim` zeros, with the state that `rule` keeps. `stochastic` rounds
    /// updates of 16-bit rows by chance instead of to nearest.
    ///
    /// # Errors
    ///
    /// No rows, no columns or too many of them; too little memory.
    pub fn new(
        name: &str,
        (rows, dim): (u64, usize),
        (precision, stochastic): (Precision, bool),
        part: Part,
        rule: &Rule,
    ) -> Result<Self, Fault> {
        check(name, rows, dim)?;
        let fault = |message: String| Fault::new(format!("table {name:?}"), message);
        let allocate = |row: usize| {
            let bytes = (row as u64).checked_mul(rows).and_then(|all| usize::try_from(all).ok());
            let memory = bytes.map(Memory::new).and_then(Result::ok).map(Arc::new);
            let size = row as f64 * rows as f64 / (1u64 << 30) as f64;
            memory.ok_or_else(|| fault(format!("no memory for {size:.1} GiB")))
        };
        Ok(Self {
            name: name.to_string(),
            rows,
            dim,
            precision,
            stochastic: stochastic && precision.bytes() == 2,
            part,
            sums: Vec::new(),
            whole_dim: dim,
            cache: None,
            weights: allocate(precision.row(dim))?,
            state: state(rule, precision, dim)
                .into_iter()
                .map(|numbers| allocate(4 * numbers))
                .collect::<Result<_, _>>()?,
        })
    }

    /// A table whose rows are in a cache over memory, or over the next file of `folder`.
    ///
    /// # Errors
    ///
    /// As for `new` and `Cache::new`.
    pub fn cached(
        name: &str,
        (rows, dim): (u64, usize),
        (precision, stochastic): (Precision, bool),
        part: Part,
        rule: &Rule,
        (caching, folder): (&Caching, Option<&mut Folder>),
    ) -> Result<Self, Fault> {
        check(name, rows, dim)?;
        let stochastic = stochastic && precision.bytes() == 2;
        let numbers = state(rule, precision, dim);
        let stored = (precision, stochastic);
        let shape = Shape { name, rows, dim, stored, part: &part, numbers: &numbers };
        let cache = Arc::new(Cache::new(&shape, caching, folder)?);
        let (weights, state) = cache.memory();
        Ok(Self {
            name: name.to_string(),
            rows,
            dim,
            precision: caching.precision,
            stochastic: stochastic && caching.precision == precision,
            part,
            sums: Vec::new(),
            whole_dim: dim,
            cache: Some(cache),
            weights,
            state,
        })
    }

    /// Memory of the rows.
    pub fn weights(&self) -> &Arc<Memory> {
        &self.weights
    }

    /// Memory of the optimizer's state, in the order of `Rule::state`.
    pub fn state(&self) -> &[Arc<Memory>] {
        &self.state
    }

    /// The cache, if the memory has some of the rows only.
    pub fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.as_ref()
    }

    /// Rows of the memory.
    pub fn held(&self) -> u64 {
        self.cache.as_ref().map_or(self.rows, |cache| cache.places())
    }

    /// Bytes from row to row.
    pub(crate) fn stride(&self) -> usize {
        self.precision.row(self.dim)
    }
}

/// Numbers of each part of a row's state.
fn state(rule: &Rule, precision: Precision, dim: usize) -> Vec<usize> {
    if precision == Precision::I8 { Vec::new() } else { rule.state(dim) }
}

fn check(name: &str, rows: u64, dim: usize) -> Result<(), Fault> {
    let fault = |message: String| Fault::new(format!("table {name:?}"), message);
    if rows == 0 || rows > 1 << 48 {
        return Err(fault(format!("{rows} rows")).allowed("1 to 2^48"));
    }
    if dim == 0 || dim > COLUMNS {
        return Err(fault(format!("rows of {dim} elements")).allowed("1 to 65536"));
    }
    Ok(())
}
