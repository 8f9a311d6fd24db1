//! A cache of rows over a slower tier: larger memory, or a file on a disk.
//!
//! A table with a cache has its rows in *slots*. Before a pass, the lookups of a batch become those
//! of slots, whose rows are read, and pinned until the next batch (`residency.rs`). The kernels then
//! work on slots as on the rows of a table in memory, so that results have the same bits. Changed
//! rows are written when they make room (write-back). The rows of the next batch may be read while
//! this one is under way. A batch with more rows than slots has the rest behind them, in memory that
//! is there for this batch only.

mod directory;
mod disk;
mod folder;
mod log;
mod places;
mod residency;
mod rows;
mod staged;
mod store;

pub use directory::{Names, Policy};
pub use folder::Folder;
pub use residency::{Caches, Counts, Residency};
pub use staged::Staging;

use crate::fault::Fault;
use crate::initial::Initial;
use crate::lanes::{Level, ask};
use crate::memory::Memory;
use crate::part::Part;
use crate::precision::Precision;
use crate::random::{mix, named, of_row};
use directory::{Directory, ENTRY, WAYS};
use disk::Pages;
use rows::Rows;
use std::io::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use store::{Plain, Store};

/// Settings of a cache.
#[derive(Clone, Copy, Debug)]
pub struct Caching {
    /// Bytes of memory that it may take, with all that belongs to it.
    pub bytes: u64,
    /// Which rows leave.
    pub policy: Policy,
    /// Elements in the cache: those of the table, or binary32 over fewer bits.
    pub precision: Precision,
    /// Seed of the initial weights and of rounding by chance.
    pub seed: u64,
    /// Whether the slots are in the memory of another device; see `staged.rs`.
    pub staged: bool,
}

/// Shape of a table, as far as its cache needs to know.
pub struct Shape<'a> {
    pub name: &'a str,
    pub rows: u64,
    pub dim: usize,
    /// Elements in the slower tier, and whether rounding to them is by chance.
    pub stored: (Precision, bool),
    pub part: &'a Part,
    /// Numbers of each part of a row's state.
    pub numbers: &'a [usize],
}

/// The cache of one table.
pub struct Cache {
    name: String,
    rows: Rows,
    part: Part,
    initial: Initial,
    /// Key of rounding by chance.
    chance: Option<u64>,
    directory: Mutex<Directory>,
    store: Mutex<Store>,
    /// File of the slower tier; empty if it is memory.
    path: PathBuf,
    names: Arc<Memory>,
    slots: usize,
    /// Held by who uses the staging area.
    staging: Mutex<()>,
    /// Bytes that a slot takes, and bytes that the cache takes without any.
    size: (u64, u64),
}

/// A lock that panics nowhere: a thread that panicked left complete rows behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A fault of a file.
fn failed(path: &Path, error: &Error) -> Fault {
    let text = error.to_string();
    let said = text.split(" (os error").next().unwrap_or(&text).to_string();
    let fault = Fault::new(path.display().to_string(), said);
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            fault.allowed("free space; the last checkpoint is intact")
        }
        Some(libc::EFBIG) => fault.allowed("larger files; the last checkpoint is intact"),
        _ => fault,
    }
}

/// Work before a batch: rows to write, and rows to read, each with its slot.
#[derive(Default)]
struct Plan {
    out: Vec<(u32, u64)>,
    into: Vec<(u32, u64)>,
    evicted: u64,
    guests: u64,
}

impl Cache {
    /// An empty cache, of slots in new memory. Its slower tier is memory, or the next file of
    /// `folder`.
    ///
    /// # Errors
    ///
    /// Too little memory for one set of slots; elements that the cache can't have; a file that can't
    /// be opened, or that is not this table's.
    pub fn new(
        shape: &Shape<'_>,
        caching: &Caching,
        folder: Option<&mut Folder>,
    ) -> Result<Self, Fault> {
        let fault = |message: String| Fault::new(format!("table {:?}", shape.name), message);
        let (held, (stored, by_chance)) = (caching.precision, shape.stored);
        let narrow = matches!(stored, Precision::F16 | Precision::Bf16);
        if held != stored && !(held == Precision::F32 && narrow) {
            return Err(fault(format!("a cache of {} over {}", held.name(), stored.name()))
                .allowed("the table's type, or float32 over 16 bits"));
        }
        let state = 4 * shape.numbers.iter().sum::<usize>();
        let slot = (held.row(shape.dim) + state + ENTRY) as u64;
        let record = stored.row(shape.dim) + state;
        let fixed = if folder.is_some() { log::fixed(shape.rows, record) } else { 0 };
        let set = slot * WAYS as u64;
        let most = shape.rows.div_ceil(WAYS as u64).min(1 << 26);
        let sets = (caching.bytes.saturating_sub(fixed) / set).min(most) as usize;
        if sets == 0 {
            return Err(fault(format!("a cache of {} bytes", caching.bytes))
                .allowed(format!("at least {} bytes", fixed + set)));
        }
        let slots = sets * WAYS;
        let held_slots = if caching.staged { 0 } else { slots };
        let memory = |bytes: usize| Memory::new(held_slots * bytes).map(Arc::new);
        let rows = || -> Result<Rows, Error> {
            Ok(Rows {
                weights: memory(held.row(shape.dim))?,
                state: shape
                    .numbers
                    .iter()
                    .map(|numbers| memory(4 * numbers))
                    .collect::<Result<_, _>>()?,
                numbers: shape.numbers.to_vec(),
                dim: shape.dim,
                held,
                stored,
                level: Level::available().pop().unwrap_or(Level::Portable),
            })
        };
        let no_memory = |_| fault(format!("no memory for a cache of {slots} rows"));
        let (store, path) = match folder {
            None => (Store::Memory(Plain::new(shape.rows, record).map_err(no_memory)?), None),
            Some(folder) => {
                let (log, path) = folder.table(shape, record)?;
                (Store::File(Box::new(log)), Some(path))
            }
        };
        let directory = Directory::new(sets, caching.policy).map_err(no_memory)?;
        Ok(Self {
            name: shape.name.to_string(),
            rows: rows().map_err(no_memory)?,
            part: shape.part.clone(),
            initial: Initial::of(shape.part, shape.dim, stored, caching.seed),
            chance: by_chance
                .then(|| named(caching.seed, &shape.part.whole))
                .filter(|_| held != stored),
            names: Arc::clone(directory.names()),
            slots,
            staging: Mutex::new(()),
            directory: Mutex::new(directory),
            store: Mutex::new(store),
            path: path.unwrap_or_default(),
            size: (slot, fixed),
        })
    }

    /// The number of slots, without those of guests.
    pub fn slots(&self) -> u64 {
        self.slots as u64
    }

    /// The number of slots, with those of guests.
    pub fn places(&self) -> u64 {
        self.names().len() as u64
    }

    /// Whether the slower tier is a file.
    pub fn is_on_disk(&self) -> bool {
        matches!(*lock(&self.store), Store::File(_))
    }

    /// The row of each slot.
    #[allow(unsafe_code)] // As above.
    pub fn names(&self) -> &Names {
        // SAFETY: the size changes between passes only.
        unsafe { directory::names(&self.names) }
    }

    /// Memory of the slots.
    pub fn memory(&self) -> (Arc<Memory>, Vec<Arc<Memory>>) {
        (Arc::clone(&self.rows.weights), self.rows.state.clone())
    }

    /// Bytes that were written to a disk, and records that were written again because those around
    /// them were outdated.
    pub fn traffic(&self) -> (u64, u64) {
        let traffic = lock(&self.store).traffic();
        (traffic.written, traffic.moved)
    }

    /// Bytes of the memory of the cache.
    pub fn bytes(&self) -> u64 {
        self.size.0 * self.slots() + self.size.1
    }

    /// Makes lookups of rows those of slots, pinned for batch `now`. Slots of batches from `pinned`
    /// on keep their rows. Adds each slot once to `touched`. Returns what is to be done before the
    /// slots have their rows, and whether all rows have a slot. With `guests`, they have: those for
    /// which there is no room get slots behind the others, which exist after `seat`.
    fn plan(
        &self,
        lookups: &mut [&mut [i64]],
        (now, pinned): (u32, u32),
        guests: bool,
        touched: &mut Vec<u32>,
    ) -> (Plan, bool) {
        let mut guard = lock(&self.directory);
        let directory = &mut *guard;
        let (mut plan, mut missing) = (Plan::default(), Vec::new());
        // Rows that are there are pinned before others make room.
        for (part, rows) in lookups.iter_mut().enumerate() {
            for block in 0..rows.len().div_ceil(BLOCK) {
                let first = block * BLOCK;
                let block = &mut rows[first..];
                let count = block.len().min(BLOCK);
                let mut homes = [directory.home(0); BLOCK];
                for (home, &row) in homes.iter_mut().zip(&block[..count]) {
                    *home = directory.home(row as u64);
                    ask(directory.prints(*home));
                }
                for (at, row) in block[..count].iter_mut().enumerate() {
                    match directory.find(*row as u64, homes[at]) {
                        Some(slot) => {
                            if directory.touch(slot, now) {
                                touched.push(slot as u32);
                            }
                            *row = slot as i64;
                        }
                        None => missing.push((part, first + at)),
                    }
                }
            }
        }
        let mut full = false;
        for (part, at) in missing {
            let row = lookups[part][at] as u64;
            let home = directory.home(row);
            let slot = if let Some(slot) = directory.find(row, home) {
                directory.touch(slot, now);
                slot
            } else if let Some(slot) = directory.guest(row) {
                slot
            } else {
                let found = if full { None } else { directory.insert(row, home, now, pinned) };
                full = found.is_none();
                if full && !guests {
                    return (plan, false);
                }
                let (slot, evicted) = found.unwrap_or_else(|| (directory.invite(row), None));
                plan.guests += u64::from(full);
                touched.push(slot as u32);
                plan.into.push((slot as u32, row));
                if let Some(evicted) = evicted {
                    plan.evicted += 1;
                    if evicted.dirty {
                        plan.out.push((slot as u32, evicted.row));
                    }
                }
                slot
            };
            lookups[part][at] = slot as i64;
        }
        (plan, true)
    }

    /// Makes memory for the slots of guests.
    ///
    /// # Safety
    ///
    /// No pass is under way, and nothing is fetched.
    #[allow(unsafe_code)] // As above.
    unsafe fn seat(&self, directory: &mut Directory) -> Result<(), Fault> {
        // SAFETY: the caller's.
        let done = unsafe { directory.seat().and_then(|slots| self.rows.resize(slots)) };
        done.map_err(|_| self.no_memory())
    }

    fn no_memory(&self) -> Fault {
        let said =
            format!("no memory for a batch of more rows than the {} of its cache", self.slots);
        Fault::new(format!("table {:?}", self.name), said).allowed("smaller batches")
    }

    /// Writes changed guests to the slower tier, as of batch `now`, and forgets all of them. Returns
    /// how many were written.
    ///
    /// # Safety
    ///
    /// As for `seat`.
    #[allow(unsafe_code)] // As above.
    unsafe fn dismiss(&self, now: u32) -> Result<u64, Fault> {
        let mut directory = lock(&self.directory);
        let changed = directory.changed_guests();
        // SAFETY: the caller's.
        unsafe {
            self.write_back(&changed, now)?;
            directory.dismiss();
            self.seat(&mut directory)?;
        }
        Ok(changed.len() as u64)
    }

    /// Whether the batch under way has more rows than slots.
    fn has_guests(&self) -> bool {
        self.places() > self.slots()
    }

    /// Reads a row into a slot. Returns whether the slower tier had it; otherwise the slot gets the
    /// row's initial values.
    ///
    /// # Safety
    ///
    /// No other thread uses the slot.
    #[allow(unsafe_code)] // Slots are memory that kernels use through pointers.
    unsafe fn load(
        &self,
        store: &Store,
        room: &mut Pages,
        slot: u32,
        row: u64,
    ) -> Result<bool, Fault> {
        let record = store.read(row, room).map_err(|error| failed(&self.path, &error))?;
        // SAFETY: the caller's.
        unsafe {
            match record {
                Some(record) => self.rows.unpack(record, slot as usize),
                None => self.rows.unpack(&self.first_record(row), slot as usize),
            }
        }
        Ok(record.is_some())
    }

    /// The record of a row that was never written.
    fn first_record(&self, row: u64) -> Vec<u8> {
        let mut record = vec![0; self.rows.bytes()];
        let weights = self.rows.stored.row(self.rows.dim);
        self.initial.write(row, &mut record[..weights]);
        record
    }

    /// Writes rows to the slower tier, as of batch `now`.
    ///
    /// # Safety
    ///
    /// No thread writes the rows of these slots meanwhile.
    #[allow(unsafe_code)] // As above.
    unsafe fn write_back(&self, rows: &[(u32, u64)], now: u32) -> Result<(), Fault> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut store = lock(&self.store);
        let failed = |error| failed(&self.path, &error);
        for &(slot, row) in rows {
            let chance = self.chance.map(|key| {
                let key = mix(key ^ mix(u64::from(now)));
                (of_row(key, self.part.first_row + row), self.part.first_column)
            });
            // SAFETY: the caller's.
            let pack = |to: &mut [u8]| unsafe { self.rows.pack(slot as usize, to, chance) };
            store.write(row, pack).map_err(failed)?;
        }
        store.tidy().map_err(failed)
    }

    /// Bytes of a record: a row's weights as the slower tier stores them, then its state.
    pub fn record(&self) -> usize {
        self.rows.bytes()
    }

    /// Writes the records of rows from `first` on to `to`. No row is changed.
    pub(crate) fn export(&self, first: u64, to: &mut [u8]) -> Result<(), Fault> {
        let store = lock(&self.store);
        let failed = |error| failed(&self.path, &error);
        let mut room = Pages::new(store.room()).map_err(failed)?;
        for (row, to) in (first..).zip(to.chunks_exact_mut(self.record())) {
            match store.read(row, &mut room).map_err(failed)? {
                Some(record) => to.copy_from_slice(record),
                None => to.copy_from_slice(&self.first_record(row)),
            }
        }
        Ok(())
    }

    /// Gives rows from `first` on these records.
    ///
    /// # Safety
    ///
    /// No thread uses the cache meanwhile, and no row is changed.
    #[allow(unsafe_code)] // As above.
    pub(crate) unsafe fn import(&self, first: u64, records: &[u8]) -> Result<(), Fault> {
        let directory = lock(&self.directory);
        let mut store = lock(&self.store);
        let failed = |error| failed(&self.path, &error);
        for (row, record) in (first..).zip(records.chunks_exact(self.record())) {
            store.write(row, |to| to.copy_from_slice(record)).map_err(failed)?;
            store.tidy().map_err(failed)?;
            let found = directory.find(row, directory.home(row));
            if let Some(slot) = found.or_else(|| directory.guest(row)) {
                // SAFETY: the caller's.
                unsafe { self.rows.unpack(record, slot) };
            }
        }
        Ok(())
    }

    /// Writes all changed rows to the slower tier, as of batch `now`.
    ///
    /// # Safety
    ///
    /// No thread uses the cache meanwhile.
    #[allow(unsafe_code)] // As above.
    unsafe fn flush(&self, now: u32) -> Result<u64, Fault> {
        let mut directory = lock(&self.directory);
        let changed = directory.changed();
        // SAFETY: the caller's.
        unsafe { self.write_back(&changed, now)? };
        directory.clean();
        Ok(changed.len() as u64)
    }
}

/// Lookups whose homes are computed, and asked for, before the first of them is looked at.
const BLOCK: usize = 32;
