//! Tables, features and optimizer together: what the passes of a batch work on.
#![allow(unsafe_code)] // Rows of caches are written through pointers.

use crate::cache::{Cache, Caches, Counts, Folder, Residency};
use crate::fault::Fault;
use crate::fill;
use crate::lanes::Level;
use crate::memory::Pool;
use crate::optimizer::Optimizer;
use crate::scratch::{Scratch, Spare};
use crate::table::Table;
use std::sync::{Arc, PoisonError};

/// Result for the rows of a bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Their sum.
    Sum,
    /// Their mean; zeros for an empty bag.
    Mean,
    /// The rows themselves.
    None,
}

/// A column of the input that looks up rows of a table.
#[derive(Clone, Debug)]
pub struct Feature {
    /// The name.
    pub name: String,
    /// Which table.
    pub table: usize,
    /// Result for the rows of a bag.
    pub pooling: Pooling,
}

/// Tables, the features that look into them, and the optimizer that changes them.
pub struct Engine {
    tables: Vec<Table>,
    features: Vec<Feature>,
    /// The optimizer, whose learning rate may change between steps.
    pub optimizer: Optimizer,
    /// Backward passes so far.
    pub step: u64,
    /// Threads of a pass.
    pub threads: usize,
    /// Instructions of a pass.
    pub level: Level,
    /// Whether a gradient that is not finite is an error, or is applied like any other.
    pub refuse_not_finite: bool,
    /// Seed of the rounding by chance.
    pub seed: u64,
    /// Memory of results.
    pub results: Pool,
    spare: Spare,
    residency: Arc<Residency>,
    folder: Option<Folder>,
}

impl Engine {
    /// An engine with the widest instructions of this machine.
    ///
    /// # Errors
    ///
    /// A feature of an unknown table; features with and without pooling, or without pooling and of
    /// different widths.
    pub fn new(
        tables: Vec<Table>,
        features: Vec<Feature>,
        optimizer: Optimizer,
    ) -> Result<Self, Fault> {
        for feature in &features {
            let fault =
                |message: String| Fault::new(format!("feature {:?}", feature.name), message);
            if feature.table >= tables.len() {
                return Err(fault(format!("no table {}", feature.table)));
            }
            let (one, other) = (feature, &features[0]);
            if (one.pooling == Pooling::None) != (other.pooling == Pooling::None) {
                return Err(fault("features with and without pooling in one engine".into()));
            }
            let dims = (tables[one.table].dim, tables[other.table].dim);
            if one.pooling == Pooling::None && dims.0 != dims.1 {
                return Err(fault(format!("rows of {} and of {} elements", dims.0, dims.1))
                    .allowed("one width without pooling"));
            }
        }
        let level = Level::available().pop().unwrap_or(Level::Portable);
        let (step, threads, seed) = (0, 1, 0);
        let refuse_not_finite = true;
        let spare = Spare::default();
        Ok(Self {
            tables,
            features,
            optimizer,
            step,
            threads,
            level,
            refuse_not_finite,
            seed,
            results: Pool::default(),
            spare,
            residency: Arc::default(),
            folder: None,
        })
    }

    /// Fills the tables with initial weights: uniform in plus or minus one by the root of the rows.
    pub fn fill(&self) {
        fill::fill(&self.tables, self.seed, self.threads);
    }

    /// The tables.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The tables, to be changed.
    pub(crate) fn tables_mut(&mut self) -> &mut [Table] {
        &mut self.tables
    }

    /// The features.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// The batches that have their rows in caches.
    pub(crate) fn residency(&self) -> &Arc<Residency> {
        &self.residency
    }

    /// The caches, if tables have any.
    pub(crate) fn caches(&self) -> Option<Caches> {
        let (mut caches, mut places) = (Vec::new(), Vec::new());
        for table in &self.tables {
            places.push(table.cache.as_ref().map(|_| caches.len()));
            caches.extend(table.cache.clone());
        }
        let cache_of = self.features.iter().map(|feature| places[feature.table]).collect();
        (!caches.is_empty()).then_some(Caches { caches, cache_of, threads: self.threads })
    }

    /// Keeps the files of the tables. Goes on from the step of the folder's checkpoint.
    pub fn keep(&mut self, folder: Folder) {
        self.step = folder.step().unwrap_or(self.step);
        self.folder = Some(folder);
    }

    /// Waits until nothing is read or written in the background.
    ///
    /// # Errors
    ///
    /// A disk that failed, now or before.
    pub fn settle(&self) -> Result<(), Fault> {
        self.residency.settle()
    }

    /// Makes the tables, as they are now, the checkpoint of their folder.
    ///
    /// # Errors
    ///
    /// Not all tables are in a folder; a disk that fails. The last checkpoint is intact then.
    pub fn commit(&mut self) -> Result<(), Fault> {
        let caches = self.tables.iter().map(|table| {
            let on_disk = table.cache.clone().filter(|cache| cache.is_on_disk());
            on_disk.ok_or_else(|| {
                Fault::new(format!("table {:?}", table.name), "is not on a disk")
                    .allowed("checkpoints where all tables are on one")
            })
        });
        let caches: Vec<Arc<Cache>> = caches.collect::<Result<_, _>>()?;
        let Some(folder) = &mut self.folder else {
            return Err(Fault::new("tables", "have no folder for checkpoints"));
        };
        let step = self.step;
        self.residency.flushed(&caches, || folder.commit(&caches, step))
    }

    /// Writes the records of rows from `first` on of a table with a cache to `records`: weights as
    /// the slower tier stores them, then state.
    ///
    /// # Errors
    ///
    /// No such table or rows; a disk that fails.
    pub fn read_rows(&self, table: usize, first: u64, records: &mut [u8]) -> Result<(), Fault> {
        let cache = self.records(table, first, records.len())?;
        self.residency.flushed(std::slice::from_ref(cache), || cache.export(first, records))
    }

    /// Gives rows from `first` on of a table with a cache these records.
    ///
    /// # Errors
    ///
    /// As for `read_rows`.
    pub fn write_rows(&mut self, table: usize, first: u64, records: &[u8]) -> Result<(), Fault> {
        let cache = self.records(table, first, records.len())?;
        // SAFETY: the engine is borrowed by this call alone, and nothing is fetched.
        let write = || unsafe { cache.import(first, records) };
        self.residency.flushed(std::slice::from_ref(cache), write)
    }

    /// The cache of a table that has these rows.
    fn records(&self, table: usize, first: u64, bytes: usize) -> Result<&Arc<Cache>, Fault> {
        let found = self.tables.get(table).and_then(|table| Some((table, table.cache.as_ref()?)));
        let (table, cache) =
            found.ok_or_else(|| Fault::new("table", format!("no table {table} with a cache")))?;
        let count = (bytes / cache.record()) as u64;
        if first.checked_add(count).is_some_and(|last| last <= table.rows)
            && bytes.is_multiple_of(cache.record())
        {
            return Ok(cache);
        }
        let said = format!("{bytes} bytes from row {first} on");
        Err(Fault::new(format!("table {:?}", table.name), said).allowed(format!(
            "{} rows of {} bytes",
            table.rows,
            cache.record()
        )))
    }

    /// The cache of a table.
    ///
    /// # Errors
    ///
    /// It has none.
    pub fn cache(&self, table: usize) -> Result<&Arc<Cache>, Fault> {
        let cache = self.tables.get(table).and_then(Table::cache);
        cache.ok_or_else(|| Fault::new("table", format!("no table {table} with a cache")))
    }

    /// Counts of caches so far.
    pub fn counts(&self) -> Counts {
        self.residency.counts()
    }

    /// Scratch that no thread uses.
    pub(crate) fn take_scratch(&self) -> Scratch {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Keeps scratch for the next pass.
    pub(crate) fn give_scratch(&self, scratch: Scratch) {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
    }

    /// Whether results are rows of lookups instead of bags.
    pub fn is_unpooled(&self) -> bool {
        self.features.first().is_some_and(|feature| feature.pooling == Pooling::None)
    }

    /// Rows and columns of the result for a batch of these numbers of samples and lookups.
    pub fn shape(&self, samples: usize, lookups: usize) -> (usize, usize) {
        let dims = || self.features.iter().map(|feature| self.tables[feature.table].dim);
        if self.is_unpooled() {
            (lookups, dims().next().unwrap_or(0))
        } else {
            (samples, dims().sum())
        }
    }

    /// The first column of each feature in the result.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let mut next = 0;
        let first = |feature: &Feature| {
            let column = next;
            next += self.tables[feature.table].dim;
            column
        };
        self.features.iter().map(first).collect()
    }
}
