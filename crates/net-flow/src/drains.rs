//! When flows drain: a heap in which they move.
//!
//! Rates change often and drains are few, so a flow has one place in the heap. A flow that drains
//! earlier than planned moves up. One that drains later stays, and is planned again when its turn
//! comes.

use std::hint::select_unpredictable;
use units::Time;

const NONE: u32 = u32::MAX;
/// Children of a place in the heap.
const WAYS: usize = 4;

#[derive(Clone, Copy)]
struct Due {
    time: Time,
    /// Order among drains at one time: the one that was planned first comes first.
    order: u64,
    flow: u32,
}

/// Flows by the time at which they are planned to drain.
#[derive(Default)]
pub(crate) struct Drains {
    heap: Vec<Due>,
    /// Place of each flow in the heap.
    places: Vec<u32>,
    order: u64,
}

impl Due {
    /// One number, which takes one comparison.
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.time.0) << 64 | u128::from(self.order)
    }
}

impl Drains {
    /// Time and flow of the next drain.
    #[inline]
    pub(crate) fn peek(&self) -> Option<(Time, u32)> {
        self.heap.first().map(|due| (due.time, due.flow))
    }

    /// A flow drains at this time, or later when it is planned already.
    #[inline]
    pub(crate) fn plan(&mut self, flow: u32, time: Time) {
        if self.places.len() <= flow as usize {
            self.places.resize(flow as usize + 1, NONE);
        }
        let place = match self.places[flow as usize] {
            NONE => {
                self.heap.push(Due { time, order: 0, flow });
                self.heap.len() - 1
            }
            place if time < self.heap[place as usize].time => place as usize,
            _ => return,
        };
        self.order += 1;
        self.rise(place, Due { time, order: self.order, flow });
    }

    /// The next flow drains at this time, which is later than planned.
    #[inline]
    pub(crate) fn put_off(&mut self, time: Time) {
        let Some(first) = self.heap.first() else { return };
        self.order += 1;
        self.sink(Due { time, order: self.order, flow: first.flow });
    }

    /// Takes the next flow out.
    #[inline]
    pub(crate) fn pop(&mut self) {
        let Some(first) = self.heap.first() else { return };
        self.places[first.flow as usize] = NONE;
        if let Some(last) = self.heap.pop()
            && !self.heap.is_empty()
        {
            self.sink(last);
        }
    }

    fn put(&mut self, place: usize, due: Due) {
        self.heap[place] = due;
        self.places[due.flow as usize] = place as u32;
    }

    /// Puts `due` where it belongs, at this place or above.
    fn rise(&mut self, mut place: usize, due: Due) {
        while place > 0 {
            let above = (place - 1) / WAYS;
            if self.heap[above].key() < due.key() {
                break;
            }
            self.put(place, self.heap[above]);
            place = above;
        }
        self.put(place, due);
    }

    /// Puts `due` where it belongs, at the first place or below.
    fn sink(&mut self, due: Due) {
        let (mut place, key) = (0, due.key());
        loop {
            let first = (place * WAYS + 1).min(self.heap.len());
            let below = first..(first + WAYS).min(self.heap.len());
            let (mut least, mut at) = (key, place);
            for (next, due) in (first..).zip(&self.heap[below]) {
                // Without a branch: which of them is the first is hard to foresee.
                let next_key = due.key();
                at = select_unpredictable(next_key < least, next, at);
                least = least.min(next_key);
            }
            if at == place {
                return self.put(place, due);
            }
            self.put(place, self.heap[at]);
            place = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_drain_in_order_of_time_and_plan() {
        let mut drains = Drains::default();
        for (flow, time) in [(3, 9), (1, 7), (2, 7), (0, 8), (3, 5), (0, 20), (4, 6), (5, 1)] {
            drains.plan(flow, Time(time));
        }
        let mut found = Vec::new();
        while let Some((time, flow)) = drains.peek() {
            drains.pop();
            found.push((flow, time.0));
        }
        assert_eq!(found, [(5, 1), (3, 5), (4, 6), (1, 7), (2, 7), (0, 8)]);
    }

    #[test]
    fn a_flow_that_is_put_off_comes_after_those_that_were_planned_before() {
        let mut drains = Drains::default();
        (0..9).for_each(|flow| drains.plan(flow, Time(u64::from(flow) / 2)));
        drains.put_off(Time(3));
        let mut found = Vec::new();
        while let Some((time, flow)) = drains.peek() {
            drains.pop();
            found.push((flow, time.0));
        }
        let rest = [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3), (0, 3), (8, 4)];
        assert_eq!(found, rest);
    }
}
