//! A space as a picture: the best layout of each cell, and the front of time and memory.

use crate::space::{Answer, Found, Limits, Room, Space, Tally};
use std::collections::BTreeMap;

/// Layouts that are shown as one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cell {
    /// Layouts that fit, may fit and do not fit.
    pub tally: Tally,
    /// The least memory that the fullest rank of any of them needs.
    pub least_bytes: u64,
    /// The one with the smallest estimate among those that fit.
    pub best: Option<Found>,
}

/// Layouts that no other one is both faster and smaller than, by memory.
#[derive(Debug, Default)]
struct Front(BTreeMap<u64, Found>);

impl Front {
    /// The smallest estimate of a layout that needs no more than some memory.
    fn fastest(&self, bytes: u64) -> u64 {
        self.0.range(..=bytes).next_back().map_or(u64::MAX, |(_, each)| each.estimate)
    }

    fn add(&mut self, each: Found) {
        if each.estimate < self.fastest(each.bytes) {
            let slower = |&(_, other): &(&u64, &Found)| other.estimate >= each.estimate;
            let above = self.0.range(each.bytes..).take_while(slower);
            let gone: Vec<u64> = above.map(|(&bytes, _)| bytes).collect();
            for bytes in gone {
                self.0.remove(&bytes);
            }
            self.0.insert(each.bytes, each);
        }
    }
}

impl Space {
    /// The cells, and the front of the layouts that fit, the smallest first. `cell_of` has the cell
    /// of each group. Less than all of it once `goes_on` says no.
    pub fn picture(
        &self,
        limits: Limits,
        near: bool,
        cell_of: &[u32],
        goes_on: &mut dyn FnMut(usize, usize) -> bool,
    ) -> (Vec<Cell>, Vec<Found>) {
        let count = cell_of.iter().max().map_or(0, |&last| last as usize + 1);
        let mut cells = vec![Cell { least_bytes: u64::MAX, ..Cell::default() }; count];
        let (mut room, mut groups) = (Room::default(), Vec::new());
        for (at, &cell) in cell_of.iter().enumerate() {
            let cell = &mut cells[cell as usize];
            self.weigh(at, (limits, near), &mut room, &mut cell.tally, |_| true);
            let mut wanted = std::mem::take(&mut room.wanted);
            let least = wanted.iter().map(|each| each.bytes).min();
            cell.least_bytes = cell.least_bytes.min(least.unwrap_or(u64::MAX));
            wanted.retain(|each| each.answer == Answer::Yes || near && each.answer == Answer::Near);
            if let Some(quick) = self.quick(&wanted) {
                groups.push((quick, at, wanted));
            }
        }
        groups.sort_by_key(|&(quick, at, _)| (quick, at));
        let mut front = Front::default();
        let total = groups.len();
        for (done, (quick, at, wanted)) in groups.into_iter().enumerate() {
            if !goes_on(done, total) {
                break;
            }
            let cell = &mut cells[cell_of[at] as usize];
            let mut open = false;
            for each in wanted {
                let best = cell.best.map_or(u64::MAX, |best| best.estimate);
                let most = best.max(front.fastest(each.bytes));
                if quick >= most {
                    continue;
                }
                if !open {
                    self.totals_of(at, &mut room);
                    open = true;
                }
                if let Some(timed) = self.timed(each, most, &mut room) {
                    front.add(timed);
                    if timed.estimate < best {
                        cell.best = Some(timed);
                    }
                }
            }
        }
        (cells, front.0.into_values().collect())
    }
}
