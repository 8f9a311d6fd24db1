//! A calendar: what happens in which cycle.

use std::collections::BTreeMap;

/// Cycles in the ring; a power of two, a multiple of 64. Further ones wait in a tree.
const RING: usize = 1 << 12;
/// Events that a bucket has room for at least.
const FEW: usize = 64;

/// Events by cycle. Events of a cycle come in the order in which they were put in, except that those
/// put in more than 4,096 cycles before come first.
#[derive(Clone, Debug)]
pub(crate) struct Calendar<T> {
    ring: Box<[Vec<T>; RING]>,
    /// Buckets that are over, to be used again: few are in use at a time, and they stay in the cache.
    spare: Vec<Vec<T>>,
    /// Bit of every bucket that is not empty.
    filled: [u64; RING / 64],
    far: BTreeMap<u64, Vec<T>>,
}

impl<T> Default for Calendar<T> {
    fn default() -> Calendar<T> {
        Calendar {
            ring: Box::new([const { Vec::new() }; RING]),
            spare: Vec::new(),
            filled: [0; RING / 64],
            far: BTreeMap::new(),
        }
    }
}

impl<T> Calendar<T> {
    /// Puts an event into a cycle after `now`.
    #[inline(always)]
    pub(crate) fn push(&mut self, now: u64, cycle: u64, event: T) {
        debug_assert!(cycle > now, "{cycle} after {now}");
        if cycle - now < RING as u64 {
            let at = cycle as usize % RING;
            let mut bucket = &mut self.ring[at];
            if bucket.len() == bucket.capacity() {
                bucket = self.grow(at);
            }
            bucket.push(event);
        } else {
            self.far.entry(cycle).or_default().push(event);
        }
    }

    /// Makes room in a bucket. An empty one has none.
    #[cold]
    fn grow(&mut self, at: usize) -> &mut Vec<T> {
        self.filled[at / 64] |= 1 << (at % 64);
        let bucket = &mut self.ring[at];
        match self.spare.pop() {
            Some(spare) if bucket.is_empty() => *bucket = spare,
            spare => {
                self.spare.extend(spare);
                bucket.reserve(FEW.max(bucket.len()));
            }
        }
        bucket
    }

    /// Takes the events of a cycle out, to be given back with [`Calendar::over`].
    #[inline]
    pub(crate) fn take(&mut self, cycle: u64) -> Vec<T> {
        let at = cycle as usize % RING;
        let mut events = Vec::new();
        if self.filled[at / 64] >> (at % 64) & 1 == 1 {
            self.filled[at / 64] &= !(1 << (at % 64));
            events = std::mem::take(&mut self.ring[at]);
        }
        if self.far.first_key_value().is_some_and(|(&first, _)| first == cycle) {
            let (_, mut far) = self.far.pop_first().expect("it has a first");
            far.append(&mut events);
            self.over(events);
            events = far;
        }
        events
    }

    /// Events of a cycle are over.
    #[inline]
    pub(crate) fn over(&mut self, mut events: Vec<T>) {
        events.clear();
        if events.capacity() > 0 {
            self.spare.push(events);
        }
    }

    /// The first cycle after `now` with an event.
    pub(crate) fn next(&self, now: u64) -> Option<u64> {
        let near = self.near(now);
        let far = self.far.first_key_value().map(|(&first, _)| first);
        near.into_iter().chain(far).min()
    }

    fn near(&self, now: u64) -> Option<u64> {
        let first = (now + 1) as usize % RING;
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
                let at = word * 64 + bits.trailing_zeros() as usize;
                return Some(now + 1 + ((at + RING - first) % RING) as u64);
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
        let mut now = 0;
        for cycle in cycles {
            assert_eq!(calendar.next(now), Some(cycle));
            let events = calendar.take(cycle);
            assert_eq!(events, [cycle]);
            calendar.over(events);
            now = cycle;
        }
        assert_eq!(calendar.next(now), None);
    }
}
