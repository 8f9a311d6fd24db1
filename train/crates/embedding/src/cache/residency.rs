//! Which batch has its rows in the caches, and which one is being fetched.
#![allow(unsafe_code)] // Rows are read into slots that no kernel uses, through pointers.

use super::disk::Pages;
use super::store::Store;
use super::{Cache, Plan, failed, lock};
use crate::batch::{Batch, Integers};
use crate::fault::Fault;
use crate::tasks;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

/// Rows of one task of reading.
const READS: usize = 16;

/// Threads that read, so that a disk has many requests at a time.
const READERS: usize = 16;

/// Counts of caches so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Lookups in tables with caches.
    pub lookups: u64,
    /// Lookups of a row that was not in its cache; later ones of the same row in a batch find it.
    pub misses: u64,
    /// Rows that made room.
    pub evictions: u64,
    /// Rows of batches for which no slot was left.
    pub guests: u64,
    /// Changed rows that were written to the slower tier.
    pub written: u64,
    /// Rows that were read from the slower tier; others got their initial values.
    pub read: u64,
    /// Batches whose rows were fetched before they were asked for.
    pub prefetched: u64,
    /// Batches.
    pub batches: u64,
    /// Seconds that passes waited for rows.
    pub stall: f64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.lookups += other.lookups;
        self.misses += other.misses;
        self.evictions += other.evictions;
        self.guests += other.guests;
        self.written += other.written;
        self.read += other.read;
    }
}

/// Indices of either width.
#[derive(PartialEq)]
enum Indices {
    I32(Vec<i32>),
    I64(Vec<i64>),
}

impl Indices {
    fn of(indices: Integers<'_>) -> Self {
        match indices {
            Integers::I32(all) => Self::I32(all.to_vec()),
            Integers::I64(all) => Self::I64(all.to_vec()),
        }
    }

    fn is(&self, indices: Integers<'_>) -> bool {
        match (self, indices) {
            (Self::I32(mine), Integers::I32(other)) => mine == other,
            (Self::I64(mine), Integers::I64(other)) => mine == other,
            _ => false,
        }
    }

    fn wide(&self) -> Vec<i64> {
        match self {
            Self::I32(all) => all.iter().map(|&index| i64::from(index)).collect(),
            Self::I64(all) => all.clone(),
        }
    }
}

/// A batch whose lookups are to become those of slots.
struct Request {
    indices: Indices,
    /// Where the lookups of each feature begin, and the end.
    bounds: Vec<usize>,
    /// The caches, and that of each feature, if its table has one.
    caches: Vec<Arc<Cache>>,
    cache_of: Vec<Option<usize>>,
}

/// A batch with its rows in the caches.
struct Translation {
    request: Request,
    /// Slots, or rows of tables without a cache.
    slots: Vec<i64>,
    /// Slots of each cache, each once.
    touched: Vec<Vec<u32>>,
    now: u32,
}

/// Result of a request.
struct Fetched {
    /// The batch; nothing if its rows don't fit.
    batch: Option<Translation>,
    counts: Counts,
}

impl Request {
    fn is(&self, batch: &Batch<'_>, bounds: &[usize]) -> bool {
        self.bounds == bounds && self.indices.is(batch.indices)
    }

    /// Fetches the rows for batch `now`, while those of batches from `pinned` on stay. With `guests`,
    /// its rows fit in any case; then nothing else may use the caches.
    ///
    /// # Errors
    ///
    /// A failure after which the caches can't be used any more.
    fn fetch(
        self,
        (now, pinned): (u32, u32),
        guests: bool,
        threads: usize,
    ) -> Result<Fetched, Fault> {
        let mut slots = self.indices.wide();
        let mut plans = Vec::with_capacity(self.caches.len());
        let mut touched = vec![Vec::new(); self.caches.len()];
        let mut fits = true;
        let mut counts = Counts::default();
        for (at, cache) in self.caches.iter().enumerate() {
            let (mut parts, mut rest, mut done) = (Vec::new(), &mut slots[..], 0);
            for (feature, of) in self.cache_of.iter().enumerate() {
                if *of == Some(at) {
                    let (first, last) = (self.bounds[feature], self.bounds[feature + 1]);
                    let part;
                    (_, rest) = rest.split_at_mut(first - done);
                    (part, rest) = rest.split_at_mut(last - first);
                    done = last;
                    counts.lookups += part.len() as u64;
                    parts.push(part);
                }
            }
            let plan;
            (plan, fits) = cache.plan(&mut parts, (now, pinned), guests, &mut touched[at]);
            counts.misses += plan.into.len() as u64;
            counts.evictions += plan.evicted;
            counts.written += plan.out.len() as u64;
            counts.guests += plan.guests;
            if plan.guests > 0 {
                // SAFETY: nothing else uses the caches, as the caller knows.
                unsafe { cache.seat(&mut lock(&cache.directory))? };
            }
            plans.push(plan);
            if !fits {
                break;
            }
        }
        counts.read = carry_out(&self.caches, &plans, now, threads)?;
        let batch = fits.then_some(Translation { request: self, slots, touched, now });
        Ok(Fetched { batch, counts })
    }
}

/// Writes the rows that leave, then reads those that come. Returns how many were read from the
/// slower tier.
pub(super) fn carry_out(
    caches: &[Arc<Cache>],
    plans: &[Plan],
    now: u32,
    threads: usize,
) -> Result<u64, Fault> {
    for (cache, plan) in caches.iter().zip(plans) {
        // SAFETY: slots that change their rows are not pinned, so no kernel works on them.
        unsafe { cache.write_back(&plan.out, now)? };
    }
    let guards: Vec<MutexGuard<'_, Store>> =
        caches.iter().map(|cache| lock(&cache.store)).collect();
    let stores: Vec<&Store> = guards.iter().map(|guard| &**guard).collect();
    let mut jobs: Vec<(usize, u64, u32, u64)> = Vec::new();
    for (at, plan) in plans.iter().enumerate() {
        let order = |&(slot, row): &(u32, u64)| (at, stores[at].order(row), slot, row);
        jobs.extend(plan.into.iter().map(order));
    }
    jobs.sort_unstable();
    let room = stores.iter().map(|store| store.room()).max().unwrap_or(0);
    let rooms = || Pages::new(room).map_err(|error| failed(&caches[0].path, &error));
    let on_disk = stores.iter().any(|store| matches!(store, Store::File(_)));
    let threads = if on_disk { READERS } else { threads };
    let (read, fault) = (Mutex::new(0), Mutex::new(None));
    tasks::run(
        jobs.len().div_ceil(READS),
        threads,
        || (rooms(), 0),
        |(_, found): (_, u64)| *lock(&read) += found,
        |task, (room, found)| {
            let done = room.as_mut().map_err(|fault| fault.clone()).and_then(|room| {
                for &(at, _, slot, row) in &jobs[task * READS..jobs.len().min((task + 1) * READS)] {
                    // SAFETY: slots that change their rows are not pinned, so no kernel works on
                    // them, and each is in one job.
                    let there = unsafe { caches[at].load(stores[at], room, slot, row)? };
                    *found += u64::from(there);
                }
                Ok(())
            });
            if let Err(found) = done {
                lock(&fault).get_or_insert(found);
            }
        },
    );
    match fault.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some(fault) => Err(fault),
        None => Ok(*lock(&read)),
    }
}

/// The batch that has its rows in the caches of an engine.
#[derive(Default)]
pub struct Residency(Mutex<State>);

#[derive(Default)]
struct State {
    /// The number of the last batch.
    now: u32,
    current: Option<Translation>,
    /// The next batch, on its way.
    pending: Option<JoinHandle<Result<Fetched, Fault>>>,
    fetched: Option<Translation>,
    /// Why the caches can't be used any more.
    broken: Option<Fault>,
    counts: Counts,
}

/// A batch whose rows stay in the caches as long as this lives.
pub struct Held<'a>(MutexGuard<'a, State>);

impl Held<'_> {
    /// The batch, with slots as indices.
    pub fn batch<'b>(&'b self, batch: &Batch<'b>) -> Batch<'b> {
        let slots = self.0.current.as_ref().map(|current| &current.slots[..]);
        Batch { indices: Integers::I64(slots.unwrap_or(&[])), ..*batch }
    }

    /// Notes that all rows of the batch are changed.
    pub fn mark(&self) {
        if let Some(Translation { request, touched, .. }) = &self.0.current {
            for (cache, slots) in request.caches.iter().zip(touched) {
                lock(&cache.directory).mark(slots);
            }
        }
    }
}

impl State {
    /// Waits for the batch on its way.
    fn settle(&mut self) -> Result<(), Fault> {
        if let Some(pending) = self.pending.take() {
            let gone = || Err(Fault::new("cache", "a thread that reads rows ended"));
            match pending.join().unwrap_or_else(|_| gone()) {
                Ok(Fetched { batch, counts }) => {
                    self.counts.add(&counts);
                    // Without a batch, its rows don't fit with those of the current one.
                    self.fetched = batch;
                }
                Err(fault) => self.broken = Some(fault),
            }
        }
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Makes a batch the current one, while nothing else uses the caches.
    fn fetch(&mut self, caches: &Caches, request: Request, now: u32) -> Result<(), Fault> {
        for cache in &caches.caches {
            // SAFETY: the state is locked, so no pass is under way; nothing is fetched.
            self.counts.written += unsafe { cache.dismiss(now)? };
        }
        let Fetched { batch, counts } = request.fetch((now, now), true, caches.threads)?;
        self.counts.add(&counts);
        self.current = batch;
        Ok(())
    }

    /// The number of a new batch.
    fn next(&mut self) -> u32 {
        self.now += 1;
        self.now
    }
}

/// The caches of an engine, and that of each feature.
pub struct Caches {
    pub caches: Vec<Arc<Cache>>,
    pub cache_of: Vec<Option<usize>>,
    pub threads: usize,
}

impl Caches {
    fn request(&self, batch: &Batch<'_>, bounds: Vec<usize>) -> Request {
        Request {
            indices: Indices::of(batch.indices),
            bounds,
            caches: self.caches.clone(),
            cache_of: self.cache_of.clone(),
        }
    }
}

fn bounds(batch: &Batch<'_>, offsets: &[usize], features: usize) -> Vec<usize> {
    (0..=features).map(|feature| offsets[feature * batch.samples]).collect()
}

impl Residency {
    /// Waits until the rows of a batch are in the caches. The batch was checked.
    ///
    /// # Errors
    ///
    /// Too little memory; a disk that fails.
    pub fn hold(
        &self,
        caches: &Caches,
        batch: &Batch<'_>,
        offsets: &[usize],
    ) -> Result<Held<'_>, Fault> {
        let mut state = lock(&self.0);
        if let Some(broken) = &state.broken {
            return Err(broken.clone());
        }
        let bounds = bounds(batch, offsets, caches.cache_of.len());
        let is = |found: &Option<Translation>| {
            found.as_ref().is_some_and(|found| found.request.is(batch, &bounds))
        };
        if is(&state.current) {
            return Ok(Held(state));
        }
        let start = Instant::now();
        state.settle()?;
        state.counts.batches += 1;
        if is(&state.fetched) {
            state.current = state.fetched.take();
            state.counts.prefetched += 1;
        } else {
            (state.current, state.fetched) = (None, None);
            let now = state.next();
            let done = state.fetch(caches, caches.request(batch, bounds), now);
            if let Err(fault) = &done {
                state.broken = Some(fault.clone());
            }
            done?;
        }
        state.counts.stall += start.elapsed().as_secs_f64();
        Ok(Held(state))
    }

    /// Begins to fetch the rows of the batch after the current one. The batch was checked.
    pub fn prefetch(
        &self,
        caches: &Caches,
        batch: &Batch<'_>,
        offsets: &[usize],
    ) -> Result<(), Fault> {
        let mut state = lock(&self.0);
        state.settle()?;
        state.fetched = None;
        if caches.caches.iter().any(|cache| cache.has_guests()) {
            // The slower tier has old rows of guests, and no slot is free.
            return Ok(());
        }
        let now = state.next();
        let pinned = state.current.as_ref().map_or(now, |current| current.now);
        let request = caches.request(batch, bounds(batch, offsets, caches.cache_of.len()));
        let threads = caches.threads;
        state.pending =
            Some(std::thread::spawn(move || request.fetch((now, pinned), false, threads)));
        Ok(())
    }

    /// Waits until nothing is read or written in the background.
    ///
    /// # Errors
    ///
    /// A disk that failed, now or before.
    pub fn settle(&self) -> Result<(), Fault> {
        lock(&self.0).settle()
    }

    /// Writes all changed rows to the slower tiers, then does `work`, while no pass is under way and
    /// nothing is fetched.
    pub fn flushed<T>(
        &self,
        caches: &[Arc<Cache>],
        work: impl FnOnce() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut state = lock(&self.0);
        state.settle()?;
        let now = state.next();
        let mut written = 0;
        let mut all = caches.iter();
        // SAFETY: the lock keeps passes away, and nothing is fetched.
        let flushed = all.try_for_each(|cache| unsafe {
            written += cache.flush(now)?;
            Ok(())
        });
        state.counts.written += written;
        let done = flushed.and_then(|()| work());
        if let Err(fault) = &done {
            state.broken = Some(fault.clone());
        }
        done
    }

    /// Counts of the caches so far.
    pub fn counts(&self) -> Counts {
        lock(&self.0).counts
    }
}

impl Drop for Residency {
    fn drop(&mut self) {
        if let Some(pending) = lock(&self.0).pending.take() {
            // Whatever it found is wanted no more.
            drop(pending.join());
        }
    }
}
