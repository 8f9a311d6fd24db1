//! Which rows are in which slots: sets of 32 slots, with one of them for a new row by the policy.
//!
//! A row's hash names its home set. Rows of the batches under way are pinned. Where a set has
//! nothing but pinned rows, a row goes to the next set with room, and the sets that it passed count
//! it, so that a lookup knows how far to search. So slots suffice for a batch whose rows are not more
//! than they are, however its rows are spread over the sets. The rest of a larger batch has *guest*
//! slots behind them, until the next batch.
#![allow(unsafe_code)] // The rows of slots are in memory that grows.

use crate::memory::Memory;
use crate::random::mix;
use std::collections::BTreeMap;
use std::io::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Slots of a set.
pub const WAYS: usize = 32;

/// Bytes of a slot's entries here.
pub const ENTRY: usize = 8 + 1 + 4 + 4 + 1;

/// Which row makes room for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The one whose last batch is longest ago.
    Lru,
    /// The one with the fewest lookups. A new row starts with the count of the row that it replaces,
    /// so that rows that were popular once leave (LFU with dynamic aging, Arlitt et al. 2000).
    Lfu,
}

/// A row that left its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    pub row: u64,
    /// Whether it was changed since it was read.
    pub dirty: bool,
}

/// The row of each slot, those of guests at the end. Kernels read those of the rows that they work
/// on, while another thread gives other slots other rows.
pub type Names = [AtomicU64];

/// The numbers in some memory.
///
/// # Safety
///
/// Its size does not change meanwhile.
pub unsafe fn names(memory: &Memory) -> &Names {
    // SAFETY: the memory begins with this many words, which are only used as atomic ones.
    unsafe { std::slice::from_raw_parts(memory.start().cast(), memory.bytes() / NAME) }
}

/// Bytes of a name.
const NAME: usize = size_of::<AtomicU64>();

/// The rows of all slots.
pub struct Directory {
    policy: Policy,
    names: Arc<Memory>,
    /// A byte of each row's hash; 0 for an empty slot.
    prints: Vec<[u8; WAYS]>,
    /// The last batch of each slot's row.
    stamps: Vec<u32>,
    /// Lookups of each slot's row, and where it started.
    counts: Vec<u32>,
    dirty: Vec<bool>,
    /// Rows that passed each set because it was full.
    passed: Vec<u32>,
    /// The slots of guests, and whether they were changed.
    guests: BTreeMap<u64, usize>,
    changed_guests: bool,
}

/// The home of a row, and the byte of its hash that its slot keeps.
#[derive(Clone, Copy)]
pub struct Home {
    set: usize,
    print: u8,
}

impl Directory {
    /// Empty slots, `WAYS` for each of `sets` sets.
    pub fn new(sets: usize, policy: Policy) -> Result<Self, Error> {
        let slots = sets * WAYS;
        Ok(Self {
            policy,
            names: Arc::new(Memory::new(slots * NAME)?),
            prints: vec![[0; WAYS]; sets],
            stamps: vec![0; slots],
            counts: vec![0; slots],
            dirty: vec![false; slots],
            passed: vec![0; sets],
            guests: BTreeMap::new(),
            changed_guests: false,
        })
    }

    /// Memory with the row of each slot.
    pub fn names(&self) -> &Arc<Memory> {
        &self.names
    }

    fn words(&self) -> &Names {
        // SAFETY: the size changes in `seat` only, which borrows this value alone.
        unsafe { names(&self.names) }
    }

    /// The row of a slot.
    #[inline(always)]
    pub fn name(&self, slot: usize) -> u64 {
        self.words()[slot].load(Ordering::Relaxed)
    }

    /// Gives a row that has no slot one behind the others. Its name is there after `seat`.
    pub fn invite(&mut self, row: u64) -> usize {
        let next = self.slots() + self.guests.len();
        *self.guests.entry(row).or_insert(next)
    }

    /// The slot of a guest.
    pub fn guest(&self, row: u64) -> Option<usize> {
        self.guests.get(&row).copied()
    }

    /// Makes room for the names of all slots, those of guests too. Returns the number of slots.
    ///
    /// # Safety
    ///
    /// No other code uses the names meanwhile.
    pub unsafe fn seat(&mut self) -> Result<usize, Error> {
        let slots = self.slots() + self.guests.len();
        // SAFETY: the caller's.
        unsafe { self.names.resize(slots * NAME)? };
        for (&row, &slot) in &self.guests {
            self.words()[slot].store(row, Ordering::Relaxed);
        }
        Ok(slots)
    }

    /// Forgets all rows.
    pub fn forget(&mut self) {
        self.prints.fill([0; WAYS]);
        self.stamps.fill(0);
        self.counts.fill(0);
        self.dirty.fill(false);
        self.passed.fill(0);
        self.dismiss();
    }

    /// Forgets the guests.
    pub fn dismiss(&mut self) {
        self.guests.clear();
        self.changed_guests = false;
    }

    /// The number of slots, without those of guests.
    pub fn slots(&self) -> usize {
        self.stamps.len()
    }

    /// Where a row belongs.
    #[inline(always)]
    pub fn home(&self, row: u64) -> Home {
        let hash = mix(row.wrapping_add(0x9e37_79b9_7f4a_7c15));
        let set = (((hash >> 32) * self.prints.len() as u64) >> 32) as usize;
        Home { set, print: (hash as u8).max(1) }
    }

    /// The bytes that a search in a set begins with, to be asked for.
    #[inline(always)]
    pub fn prints(&self, home: Home) -> &[u8; WAYS] {
        &self.prints[home.set]
    }

    /// The slot of a row.
    #[inline(always)]
    pub fn find(&self, row: u64, home: Home) -> Option<usize> {
        let mut set = home.set;
        loop {
            let mut found = matches(&self.prints[set], home.print);
            while found != 0 {
                let slot = set * WAYS + found.trailing_zeros() as usize;
                if self.name(slot) == row {
                    return Some(slot);
                }
                found &= found - 1;
            }
            let next = self.next(set);
            if self.passed[set] == 0 || next == home.set {
                return None;
            }
            set = next;
        }
    }

    /// Pins a slot for batch `now` and counts a lookup. Returns whether it was not pinned for it.
    #[inline(always)]
    pub fn touch(&mut self, slot: usize, now: u32) -> bool {
        if self.policy == Policy::Lfu {
            self.counts[slot] = self.counts[slot].saturating_add(1);
        }
        std::mem::replace(&mut self.stamps[slot], now) != now
    }

    /// Gives a row that has no slot one, pinned for batch `now`. Slots of batches from `pinned` on
    /// keep their rows. `None` if those are all slots.
    pub fn insert(
        &mut self,
        row: u64,
        home: Home,
        now: u32,
        pinned: u32,
    ) -> Option<(usize, Option<Evicted>)> {
        let mut set = home.set;
        let slot = loop {
            if let Some(slot) = self.victim(set, pinned) {
                break slot;
            }
            set = self.next(set);
            if set == home.set {
                return None;
            }
        };
        let evicted = (self.prints[set][slot % WAYS] != 0).then(|| self.remove(slot));
        let mut passed = home.set;
        while passed != set {
            self.passed[passed] += 1;
            passed = self.next(passed);
        }
        if self.policy == Policy::Lfu && self.counts[slot] == u32::MAX {
            self.counts[set * WAYS..(set + 1) * WAYS].iter_mut().for_each(|count| *count /= 2);
        }
        self.words()[slot].store(row, Ordering::Relaxed);
        self.prints[set][slot % WAYS] = home.print;
        self.dirty[slot] = false;
        self.touch(slot, now);
        Some((slot, evicted))
    }

    /// Takes a row out of its slot; the slot keeps its count.
    fn remove(&mut self, slot: usize) -> Evicted {
        let row = self.name(slot);
        let (mut passed, set) = (self.home(row).set, slot / WAYS);
        while passed != set {
            self.passed[passed] -= 1;
            passed = self.next(passed);
        }
        self.prints[set][slot % WAYS] = 0;
        Evicted { row, dirty: self.dirty[slot] }
    }

    /// The slot of a set that takes a new row: an empty one, or the policy's.
    fn victim(&self, set: usize, pinned: u32) -> Option<usize> {
        let mut best: Option<(u32, u32, usize)> = None;
        for way in 0..WAYS {
            let slot = set * WAYS + way;
            if self.prints[set][way] == 0 {
                return Some(slot);
            }
            let stamp = self.stamps[slot];
            if stamp < pinned {
                let key = match self.policy {
                    Policy::Lru => (stamp, 0, slot),
                    Policy::Lfu => (self.counts[slot], stamp, slot),
                };
                best = Some(best.map_or(key, |best| best.min(key)));
            }
        }
        best.map(|(_, _, slot)| slot)
    }

    fn next(&self, set: usize) -> usize {
        if set + 1 == self.prints.len() { 0 } else { set + 1 }
    }

    /// Notes that the rows of slots were changed.
    pub fn mark(&mut self, slots: &[u32]) {
        for &slot in slots {
            match self.dirty.get_mut(slot as usize) {
                Some(dirty) => *dirty = true,
                None => self.changed_guests = true,
            }
        }
    }

    /// Notes that the rows of all slots are as the slower tier has them.
    pub fn clean(&mut self) {
        self.dirty.fill(false);
        self.changed_guests = false;
    }

    /// Slots whose rows were changed, in order, and these rows.
    pub fn changed(&self) -> Vec<(u32, u64)> {
        let slots = (0..self.slots()).filter(|&slot| self.dirty[slot]);
        let mut found: Vec<_> = slots.map(|slot| (slot as u32, self.name(slot))).collect();
        found.extend(self.changed_guests());
        found
    }

    /// Slots and rows of guests, if they were changed.
    pub fn changed_guests(&self) -> Vec<(u32, u64)> {
        let guests = self.guests.iter().filter(|_| self.changed_guests);
        guests.map(|(&row, &slot)| (slot as u32, row)).collect()
    }
}

/// A bit for each byte of `prints` that is `print`.
#[inline(always)]
fn matches(prints: &[u8; WAYS], print: u8) -> u32 {
    let mut found = 0u32;
    for (word, bytes) in prints.as_chunks::<8>().0.iter().enumerate() {
        let differ = u64::from_le_bytes(*bytes) ^ (u64::from(print) * 0x0101_0101_0101_0101);
        // The highest bit of each byte that is zero, and of no other.
        let low = (differ & 0x7f7f_7f7f_7f7f_7f7f) + 0x7f7f_7f7f_7f7f_7f7f;
        let zero = !(low | differ | 0x7f7f_7f7f_7f7f_7f7f);
        // One bit of each byte, gathered at the top.
        let bits = (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        found |= (bits as u32) << (8 * word);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn equal_bytes_are_found_and_no_others() {
        for at in 0..WAYS {
            for print in [1, 2, 127, 128, 129, 254, 255] {
                let mut prints = [print ^ 1; WAYS];
                prints[at] = print;
                assert_eq!(matches(&prints, print), 1 << at);
                assert_eq!(matches(&prints, print ^ 1), !(1 << at));
            }
        }
    }

    #[test]
    fn the_least_recent_or_the_least_frequent_row_leaves() {
        for (policy, expected) in [(Policy::Lru, 0), (Policy::Lfu, 1)] {
            let mut directory = Directory::new(1, policy).unwrap();
            for row in 0..WAYS as u64 {
                let home = directory.home(row);
                let (slot, evicted) = directory.insert(row, home, 1 + row as u32, 0).unwrap();
                assert_eq!(evicted, None);
                // Row 0 is looked up often, row 1 once, the others twice.
                for _ in 0..if row == 0 { 9 } else { 1 - u32::from(row == 1) } {
                    directory.touch(slot, 1 + row as u32);
                }
            }
            let home = directory.home(99);
            let (_, evicted) = directory.insert(99, home, 50, 50).unwrap();
            assert_eq!(evicted, Some(Evicted { row: expected, dirty: false }));
        }
    }

    #[test]
    fn pinned_rows_stay_and_fill_all_slots() {
        let mut directory = Directory::new(5, Policy::Lru).unwrap();
        let slots = 5 * WAYS as u64;
        for row in 0..slots {
            let home = directory.home(row * 7);
            assert!(directory.insert(row * 7, home, 1, 1).is_some());
        }
        let home = directory.home(3);
        assert!(directory.find(3, home).is_none());
        assert!(directory.insert(3, home, 1, 1).is_none());
        assert_eq!((directory.invite(3), directory.invite(9)), (160, 161));
        assert_eq!((directory.invite(3), directory.guest(9)), (160, Some(161)));
        // SAFETY: nothing else uses the directory.
        assert_eq!(unsafe { directory.seat() }.unwrap(), 162);
        assert_eq!((directory.name(160), directory.name(161)), (3, 9));
        directory.mark(&[161, 4]);
        let slot_4 = (4, directory.name(4));
        assert_eq!(directory.changed(), [slot_4, (160, 3), (161, 9)]);
        directory.dismiss();
        assert_eq!((directory.guest(9), directory.changed()), (None, vec![slot_4]));
        let mut found: Vec<usize> = (0..slots)
            .map(|row| directory.find(row * 7, directory.home(row * 7)).unwrap())
            .collect();
        found.sort_unstable();
        assert_eq!(found, (0..slots as usize).collect::<Vec<_>>());
        assert!(directory.insert(3, home, 2, 2).unwrap().1.is_some());
    }

    proptest! {
        #[test]
        fn a_directory_is_a_map(
            batches in prop::collection::vec(prop::collection::vec(0u64..300, 1..90), 1..60),
            lfu: bool,
        ) {
            let policy = if lfu { Policy::Lfu } else { Policy::Lru };
            let mut directory = Directory::new(3, policy).unwrap();
            let mut model: BTreeMap<u64, (usize, bool)> = BTreeMap::new();
            for (number, rows) in batches.iter().enumerate() {
                let now = number as u32 + 1;
                for &row in rows {
                    let home = directory.home(row);
                    let found = directory.find(row, home);
                    prop_assert_eq!(found, model.get(&row).map(|&(slot, _)| slot));
                    if let Some(slot) = found {
                        directory.touch(slot, now);
                        continue;
                    }
                    let (slot, evicted) = directory.insert(row, home, now, now).unwrap();
                    if let Some(evicted) = evicted {
                        prop_assert!(!rows[..rows.iter().position(|&r| r == row).unwrap()]
                            .contains(&evicted.row));
                        let old = model.remove(&evicted.row);
                        prop_assert_eq!(old, Some((slot, evicted.dirty)));
                    }
                    prop_assert!(model.values().all(|&(other, _)| other != slot));
                    model.insert(row, (slot, false));
                }
                for &row in rows.iter().step_by(2) {
                    let entry = model.get_mut(&row).unwrap();
                    entry.1 = true;
                    directory.mark(&[entry.0 as u32]);
                }
                let dirty = model.values().filter(|entry| entry.1).count();
                prop_assert_eq!(directory.changed().len(), dirty);
            }
            for row in 0..300 {
                let found = directory.find(row, directory.home(row));
                prop_assert_eq!(found, model.get(&row).map(|&(slot, _)| slot));
            }
        }
    }
}
