//! Caches whose slots are in the memory of another device, such as a GPU.
//!
//! Here is what the host does: which rows are in which slots, and the slower tier. Rows on their
//! way between the two are in a *staging* area, in place of the slots. Who has the slots copies
//! them there and back, and keeps passes apart: `train/python/armillary_train/tables/gpu_cache.py`.
#![allow(unsafe_code)] // Rows are copied through pointers.

use super::{Cache, Plan, lock, residency};
use crate::fault::Fault;
use std::sync::Arc;

/// Work before a batch, and its slots.
#[derive(Debug, Default)]
pub struct Staging {
    /// Changed rows that leave, each with its slot.
    pub out: Vec<(u32, u64)>,
    /// Rows that come.
    pub into: Vec<(u32, u64)>,
    /// Slots of the batch, each once.
    pub touched: Vec<u32>,
    /// Rows that made room.
    pub evicted: u64,
    /// Rows for which no slot was left. They have slots behind the others.
    pub guests: u64,
    /// Whether all rows have a slot.
    pub fits: bool,
}

/// Rows next to each other: weights as a slot has them, then the parts of the state.
pub type Parts<B> = (Vec<u64>, Vec<B>);

impl Cache {
    /// Makes lookups of rows those of slots, pinned for batch `now`; slots of batches from `pinned`
    /// on keep their rows. With `guests`, all rows fit, and nothing else may use the slots.
    ///
    /// # Errors
    ///
    /// Too little memory.
    pub fn stage(
        &self,
        lookups: &mut [&mut [i64]],
        batch: (u32, u32),
        guests: bool,
    ) -> Result<Staging, Fault> {
        let mut touched = Vec::new();
        let (plan, fits) = self.plan(lookups, batch, guests, &mut touched);
        if plan.guests > 0 {
            self.name_guests()?;
        }
        let Plan { out, into, evicted, guests } = plan;
        Ok(Staging { out, into, touched, evicted, guests, fits })
    }

    /// Writes rows to the slower tier, as of batch `now`, then reads others. Returns how many of
    /// them were there; the rest have their initial values.
    ///
    /// # Errors
    ///
    /// Too little memory; a disk that fails.
    ///
    /// # Panics
    ///
    /// Arrays of another size than that of their rows.
    pub fn exchange(
        self: &Arc<Self>,
        out: &Parts<&[u8]>,
        into: &mut Parts<&mut [u8]>,
        now: u32,
        threads: usize,
    ) -> Result<u64, Fault> {
        let _alone = lock(&self.staging);
        let numbered = |rows: &[u64]| (0u32..).zip(rows.iter().copied()).collect::<Vec<_>>();
        // SAFETY: the lock keeps other exchanges away, and nothing else uses the staging area.
        unsafe {
            self.rows.resize(out.0.len().max(into.0.len())).map_err(|_| self.no_memory())?;
            for (at, part) in out.1.iter().enumerate() {
                let (start, bytes) = self.rows.part(at);
                assert_eq!(part.len(), bytes * out.0.len());
                std::ptr::copy_nonoverlapping(part.as_ptr(), start, part.len());
            }
            let plan = Plan { out: numbered(&out.0), into: numbered(&into.0), ..Plan::default() };
            let read = residency::carry_out(&[Arc::clone(self)], &[plan], now, threads)?;
            for (at, part) in into.1.iter_mut().enumerate() {
                let (start, bytes) = self.rows.part(at);
                assert_eq!(part.len(), bytes * into.0.len());
                std::ptr::copy_nonoverlapping(start, part.as_mut_ptr(), part.len());
            }
            Ok(read)
        }
    }

    /// Notes that the rows of slots are changed.
    pub fn mark(&self, slots: &[u32]) {
        lock(&self.directory).mark(slots);
    }

    /// Slots whose rows were changed, and these rows; with `guests`, those of guests only.
    pub fn changed(&self, guests: bool) -> Vec<(u32, u64)> {
        let directory = lock(&self.directory);
        if guests { directory.changed_guests() } else { directory.changed() }
    }

    /// Notes that the slower tier has all rows as they are.
    pub fn clean(&self) {
        lock(&self.directory).clean();
    }

    /// Forgets the rows of all slots, which are not changed.
    pub fn forget(&self) -> Result<(), Fault> {
        lock(&self.directory).forget();
        self.name_guests()
    }

    /// Forgets guests, which are not changed.
    pub fn forget_guests(&self) -> Result<(), Fault> {
        lock(&self.directory).dismiss();
        self.name_guests()
    }

    fn name_guests(&self) -> Result<(), Fault> {
        // SAFETY: nothing else uses the names of a cache whose slots are elsewhere.
        let done = unsafe { lock(&self.directory).seat() };
        done.map(|_| ()).map_err(|_| self.no_memory())
    }
}
