//! A calendar: what happens in which cycle.

use std::collections::BTreeMap;

/// Cycles in the ring; a power of two, a multiple of 64. Further ones wait in a tree.
const RING: u64 = 1 << 12;

/// Events by cycle. Events of a cycle come in the order in which they were put in, except that those
/// put in more than 4,096 cycles before come first.
#[derive(Clone, Debug)]
pub(crate) struct Calendar<T> {
    ring: Vec<Vec<T>>,
    /// Bit of every bucket that is not empty.
    filled: [u64; RING as usize / 64],
    far: BTreeMap<u64, Vec<T>>,
}

impl<T> Default for Calendar<T> {
    fn default() -> Calendar<T> {
        Calendar {
            ring: std::iter::repeat_with(Vec::new).take(RING as usize).collect(),
            filled: [0; RING as usize / 64],
            far: BTreeMap::new(),
        }
    }
}

impl<T> Calendar<T> {
    /// Puts an event into a cycle after `now`.
    #[inline]
    pub(crate) fn push(&mut self, now: u64, cycle: u64, event: T) {
        debug_assert!(cycle > now, "{cycle} after {now}");
        if cycle - now < RING {
            let at = (cycle % RING) as usize;
            let bucket = &mut self.ring[at];
            if bucket.is_empty() {
                self.filled[at / 64] |= 1 << (at % 64);
            }
            bucket.push(event);
        } else {
            self.far.entry(cycle).or_default().push(event);
        }
    }

    /// Hands over the events of a cycle in `events`, which is empty.
    #[inline]
    pub(crate) fn take(&mut self, cycle: u64, events: &mut Vec<T>) {
        let at = (cycle % RING) as usize;
        if self.filled[at / 64] >> (at % 64) & 1 == 1 {
            self.filled[at / 64] &= !(1 << (at % 64));
            std::mem::swap(&mut self.ring[at], events);
        }
        if self.far.first_key_value().is_some_and(|(&first, _)| first == cycle) {
            let (_, mut far) = self.far.pop_first().expect("it has a first");
            far.append(events);
            *events = far;
        }
    }

    /// The first cycle after `now` with an event.
    pub(crate) fn next(&self, now: u64) -> Option<u64> {
        let near = self.near(now);
        let far = self.far.first_key_value().map(|(&first, _)| first);
        near.into_iter().chain(far).min()
    }

    fn near(&self, now: u64) -> Option<u64> {
        let first = ((now + 1) % RING) as usize;
        let words = self.filled.len();
        for step in 0..=words {
            let word = (first / 64 + step) % words;
            let mut bits = self.filled[word];
            if step == 0 {
                bits &= u64::MAX << (first % 64);
            } else if step == words {
                bits &= !(u64::MAX << (first % 64));
            }
            if bits != 0 {
                let at = (word * 64) as u64 + u64::from(bits.trailing_zeros());
                return Some(now + 1 + (at + RING - first as u64) % RING);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_come_in_order_however_far() {
        let mut calendar = Calendar::default();
        let cycles = [1, 5, 63, 64, 4095, 4096, 4097, 9000, 1 << 40];
        for cycle in cycles.into_iter().rev() {
            calendar.push(0, cycle, cycle);
        }
        let (mut now, mut events) = (0, Vec::new());
        for cycle in cycles {
            assert_eq!(calendar.next(now), Some(cycle));
            calendar.take(cycle, &mut events);
            assert_eq!(events, [cycle]);
            events.clear();
            now = cycle;
        }
        assert_eq!(calendar.next(now), None);
    }
}
