//! A folder with the files of an engine's tables, and its last checkpoint.
//!
//! A checkpoint is one file, `checkpoint.json`, which names the index of every table's log. It takes
//! the place of the one before in one step, after everything that it names is on the disk.

use super::log::Log;
use super::{Cache, Shape, failed, lock};
use crate::cache::store::Store;
use crate::fault::Fault;
use crate::precision::Precision;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CHECKPOINT: &str = "checkpoint.json";

/// Version of the files.
const VERSION: u32 = 1;

/// A checkpoint, as it is in its file.
#[derive(Serialize, Deserialize)]
struct Checkpoint {
    version: u32,
    /// How many checkpoints there were.
    number: u64,
    /// Backward passes so far.
    step: u64,
    seed: u64,
    tables: Vec<Entry>,
}

/// A table of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    name: String,
    whole: String,
    whole_rows: u64,
    first_row: u64,
    first_column: u32,
    rows: u64,
    dim: usize,
    precision: String,
    state: Vec<usize>,
    /// Checksum of the index.
    index: u64,
}

impl Entry {
    fn of(shape: &Shape<'_>) -> Self {
        Self {
            name: shape.name.to_string(),
            whole: shape.part.whole.clone(),
            whole_rows: shape.part.whole_rows,
            first_row: shape.part.first_row,
            first_column: shape.part.first_column,
            rows: shape.rows,
            dim: shape.dim,
            precision: shape.stored.0.name().to_string(),
            state: shape.numbers.to_vec(),
            index: 0,
        }
    }
}

/// A folder of tables, which one engine uses at a time.
pub struct Folder {
    path: PathBuf,
    seed: u64,
    /// The checkpoint that the tables go on from.
    last: Option<Checkpoint>,
    number: u64,
    tables: Vec<Entry>,
    _lock: File,
}

impl Folder {
    /// Opens a folder, which is made if it isn't there. With `resume`, its tables go on from its last
    /// checkpoint, if it has one.
    ///
    /// # Errors
    ///
    /// The folder can't be used, or another process uses it; it has a checkpoint and is not to
    /// resume; its checkpoint can't be read, or is one of another seed.
    pub fn open(path: &Path, resume: bool, seed: u64) -> Result<Self, Fault> {
        let fault = |message: &str| Fault::new(path.display().to_string(), message);
        let failed = |error| failed(path, &error);
        fs::create_dir_all(path).map_err(failed)?;
        let lock = File::create(path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(fault("another process uses the tables of this folder"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let last = read(&path.join(CHECKPOINT))?;
        if let Some(last) = &last {
            if !resume {
                let said = format!("the folder has a checkpoint of step {}", last.step);
                return Err(fault(&said).allowed("an empty folder, or to resume from it"));
            }
            if last.seed != seed {
                return Err(fault(&format!("the checkpoint has the seed {}", last.seed))
                    .allowed(format!("a run with the seed {}", last.seed)));
            }
        }
        let number = last.as_ref().map_or(0, |last| last.number);
        let folder =
            Self { path: path.to_path_buf(), seed, last, number, tables: Vec::new(), _lock: lock };
        folder.tidy(folder.last.is_none()).map_err(failed)?;
        Ok(folder)
    }

    /// Removes indexes of other checkpoints than the last one, and, without any, logs.
    fn tidy(&self, logs: bool) -> Result<(), std::io::Error> {
        for found in fs::read_dir(&self.path)? {
            let name = found?.file_name();
            let Some(name) = name.to_str() else { continue };
            let (of_table, kind) = (name.starts_with("table-"), name.rsplit_once('.'));
            let Some((_, kind)) = kind.filter(|_| of_table) else { continue };
            let index = kind.strip_prefix("index-").is_some_and(|of| of != self.number.to_string());
            if index || (logs && kind == "rows") {
                fs::remove_file(self.path.join(name))?;
            }
        }
        Ok(())
    }

    /// The step of the checkpoint that the tables go on from.
    pub fn step(&self) -> Option<u64> {
        self.last.as_ref().map(|last| last.step)
    }

    fn index(&self, table: usize, number: u64) -> PathBuf {
        self.path.join(format!("table-{table}.index-{number}"))
    }

    /// The log of the next table, with records of `record` bytes, and its path.
    ///
    /// # Errors
    ///
    /// The checkpoint has another table in this place; a file that can't be used.
    pub(super) fn table(
        &mut self,
        shape: &Shape<'_>,
        record: usize,
    ) -> Result<(Log, PathBuf), Fault> {
        let at = self.tables.len();
        let path = self.path.join(format!("table-{at}.rows"));
        let entry = Entry::of(shape);
        let log = match &self.last {
            None => Log::new(&path, shape.rows, record).map_err(|error| failed(&path, &error))?,
            Some(last) => {
                let fault =
                    |message: String| Fault::new(format!("table {:?}", shape.name), message);
                let Some(found) = last.tables.get(at) else {
                    let count = last.tables.len();
                    return Err(fault(format!("the checkpoint has {count} tables")));
                };
                let index = found.index;
                let found = Entry { index: 0, ..found.clone() };
                if found != entry {
                    let said = format!("the checkpoint has {found:?}");
                    return Err(fault(said).allowed(format!("{entry:?}")));
                }
                let file = self.index(at, last.number);
                Log::resume(&path, (shape.rows, record), (&file, index))
                    .map_err(|error| failed(&file, &error))?
            }
        };
        self.tables.push(entry);
        Ok((log, path))
    }

    /// Makes what the logs of `caches` have a checkpoint. They are all tables of the folder, in their
    /// order, and have no changed rows.
    ///
    /// # Errors
    ///
    /// A disk that fails. The last checkpoint is intact then.
    pub(crate) fn commit(&mut self, caches: &[Arc<Cache>], step: u64) -> Result<(), Fault> {
        let number = self.number + 1;
        for (at, cache) in caches.iter().enumerate() {
            let index = self.index(at, number);
            if let Store::File(log) = &mut *lock(&cache.store) {
                log.settle().map_err(|error| failed(&cache.path, &error))?;
                self.tables[at].index = log.save(&index).map_err(|error| failed(&index, &error))?;
            }
        }
        let (seed, tables) = (self.seed, self.tables.clone());
        let checkpoint = Checkpoint { version: VERSION, number, step, seed, tables };
        let path = self.path.join(CHECKPOINT);
        write(&path, &checkpoint).map_err(|error| failed(&path, &error))?;
        self.number = number;
        for cache in caches {
            if let Store::File(log) = &mut *lock(&cache.store) {
                log.keep();
            }
        }
        self.tidy(false).map_err(|error| failed(&self.path, &error))
    }
}

/// The checkpoint in a file, if there is one.
fn read(path: &Path) -> Result<Option<Checkpoint>, Fault> {
    let text = match files::read(path, files::MOST_TEXT) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| failed(path, &error))?,
    };
    let fault = |message: String| Fault::new(path.display().to_string(), message);
    let found: Checkpoint = serde_json::from_slice(&text)
        .map_err(|error| fault(format!("not a checkpoint of tables: {error}")))?;
    if found.version == VERSION {
        return Ok(Some(found));
    }
    Err(fault(format!("a checkpoint of version {}", found.version)).allowed(VERSION.to_string()))
}

/// Puts a checkpoint in the place of the one in a file, once it is on the disk.
fn write(path: &Path, checkpoint: &Checkpoint) -> Result<(), std::io::Error> {
    let scratch = path.with_extension("scratch");
    let mut file = File::create(&scratch)?;
    file.write_all(&serde_json::to_vec_pretty(checkpoint)?)?;
    file.sync_all()?;
    fs::rename(&scratch, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

impl Precision {
    /// The name of the type.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
            Self::I8 => "int8",
        }
    }
}
