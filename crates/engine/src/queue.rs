//! Events in buckets of equal time; a binary heap over the buckets.
//!
//! Symmetric workloads schedule thousands of events for one instant: those share a bucket and cost
//! an append each. Irregular ones cost one heap operation an event. A direct-mapped table finds the
//! open bucket of an instant; a bucket that loses its place in the table is closed, later events of
//! that instant open another, and the heap orders both by their first event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::Time;

const NONE: u32 = u32::MAX;
const TABLE: usize = 1024;

#[derive(Clone, Copy)]
struct Slot<E> {
    order: u64,
    event: E,
    next: u32,
}

#[derive(Clone, Copy)]
struct Bucket {
    time: Time,
    head: u32,
    tail: u32,
}

/// A queue of events ordered by (time, order). Memory is reused; nothing is allocated once it is
/// warm.
pub struct EventQueue<E> {
    slots: Vec<Slot<E>>,
    free_slot: u32,
    buckets: Vec<Bucket>,
    free_buckets: Vec<u32>,
    heap: BinaryHeap<Reverse<(Time, u64, u32)>>,
    /// The bucket being emptied, out of the heap.
    current: u32,
    table: Box<[u32; TABLE]>,
    len: usize,
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue {
            slots: Vec::new(),
            free_slot: NONE,
            buckets: Vec::new(),
            free_buckets: Vec::new(),
            heap: BinaryHeap::new(),
            current: NONE,
            table: Box::new([NONE; TABLE]),
            len: 0,
        }
    }
}

impl<E: Copy> EventQueue<E> {
    /// Schedules `event` at `time`. `order` must exceed every order given before.
    #[inline]
    pub fn push(&mut self, time: Time, order: u64, event: E) {
        let slot = self.new_slot(order, event);
        self.len += 1;
        let entry = (time.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
        let open = self.table[entry];
        if open != NONE {
            let bucket = &mut self.buckets[open as usize];
            if bucket.time == time && bucket.tail != NONE {
                self.slots[bucket.tail as usize].next = slot;
                bucket.tail = slot;
                return;
            }
        }
        self.open_bucket(entry, time, order, slot);
    }

    /// Time and order of the next event.
    #[inline]
    pub fn peek(&self) -> Option<(Time, u64)> {
        if self.current != NONE {
            let bucket = &self.buckets[self.current as usize];
            // A later-opened bucket of the same instant holds later orders only, so `current` is
            // first.
            return Some((bucket.time, self.slots[bucket.head as usize].order));
        }
        self.heap.peek().map(|&Reverse((time, order, _))| (time, order))
    }

    /// Takes the next event out.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        if self.current == NONE {
            self.current = self.heap.pop()?.0.2;
        }
        let bucket = &mut self.buckets[self.current as usize];
        let (time, at) = (bucket.time, bucket.head);
        let slot = &mut self.slots[at as usize];
        let (event, next) = (slot.event, slot.next);
        slot.next = self.free_slot;
        self.free_slot = at;
        self.len -= 1;
        bucket.head = next;
        if next == NONE {
            bucket.tail = NONE;
            self.free_buckets.push(self.current);
            self.current = NONE;
        }
        Some((time, event))
    }

    /// Events waiting.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn new_slot(&mut self, order: u64, event: E) -> u32 {
        let slot = Slot { order, event, next: NONE };
        if self.free_slot != NONE {
            let at = self.free_slot;
            self.free_slot = self.slots[at as usize].next;
            self.slots[at as usize] = slot;
            return at;
        }
        self.slots.push(slot);
        u32::try_from(self.slots.len() - 1).expect("more than 4 billion events at once")
    }

    fn open_bucket(&mut self, entry: usize, time: Time, order: u64, slot: u32) {
        assert!(
            self.current == NONE || self.buckets[self.current as usize].time <= time,
            "event in the past"
        );
        let bucket = Bucket { time, head: slot, tail: slot };
        let at = match self.free_buckets.pop() {
            Some(at) => {
                self.buckets[at as usize] = bucket;
                at
            }
            None => {
                self.buckets.push(bucket);
                self.buckets.len() as u32 - 1
            }
        };
        self.table[entry] = at;
        self.heap.push(Reverse((time, order, at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The queue equals a sort by (time, order), whatever is pushed and popped when.
        #[test]
        fn leaves_by_time_then_order(script in proptest::collection::vec((0u64..40, 0usize..4), 0..400)) {
            let (mut queue, mut model, mut now) = (EventQueue::default(), Vec::<(Time, u64)>::new(), 0);
            for (order, &(delay, pops)) in script.iter().enumerate() {
                let time = Time(now + delay * delay * 1_000_003);
                queue.push(time, order as u64, order);
                model.push((time, order as u64));
                for _ in 0..pops {
                    model.sort();
                    prop_assert_eq!(queue.peek(), model.first().copied());
                    let got = queue.pop();
                    prop_assert_eq!(got.map(|(t, e)| (t, e as u64)), model.first().copied());
                    if let Some((t, _)) = got { now = t.0; model.remove(0); }
                    prop_assert_eq!(queue.len(), model.len());
                }
            }
        }

        /// Instants that share a place in the table keep their order.
        #[test]
        fn table_collisions_keep_order(times in proptest::collection::vec(0u64..5000, 1..3000)) {
            let mut queue = EventQueue::default();
            times.iter().enumerate().for_each(|(i, &t)| queue.push(Time(t), i as u64, i));
            let mut expected: Vec<_> = times.iter().copied().zip(0..).collect();
            expected.sort();
            let got: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(t, i)| (t.0, i)).collect();
            prop_assert_eq!(got, expected);
        }
    }
}
