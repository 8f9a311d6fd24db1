//! Events in the order in which they happen.
//!
//! Events of one instant happen in the order in which they were set, so the packet of the same
//! sender would come first each time. That sender would always be the first in the queue, the first
//! to be acknowledged, and the last to be dropped or marked. Where the order of packets decides that,
//! those that reach switches at one instant arrive in an order that is drawn, each order with the
//! same probability. Equal senders then have equal chances in all that follows.

use crate::backend::Event;
use engine::{EventQueue, Random};
use std::collections::VecDeque;
use units::Time;

/// Events that wait.
#[derive(Default)]
pub(crate) struct Instants {
    queue: EventQueue<Event>,
    /// Those of the instant `time` that have not happened, with their orders.
    open: VecDeque<(u64, Event)>,
    time: Time,
    /// Places in `open` whose events change places.
    places: Vec<usize>,
}

impl Instants {
    /// Sets an event. `order` must exceed every order given before.
    #[inline]
    pub(crate) fn push(&mut self, time: Time, order: u64, event: Event) {
        self.queue.push(time, order, event);
    }

    /// Time and order of the next event.
    #[inline]
    pub(crate) fn peek(&self) -> Option<(Time, u64)> {
        let open = self.open.front().map(|&(order, _)| (self.time, order));
        open.or_else(|| self.queue.peek())
    }

    /// Whether no event waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.queue.is_empty()
    }

    /// Takes the next event out. Those of one instant that are `alike` change places.
    #[inline]
    pub(crate) fn pop(
        &mut self,
        alike: Option<impl Fn(Event) -> bool>,
        random: &mut Random,
    ) -> Option<(Time, Event)> {
        if let Some((_, event)) = self.open.pop_front() {
            return Some((self.time, event));
        }
        let (time, order) = self.queue.peek()?;
        let first = self.queue.pop()?;
        match alike {
            Some(alike) if self.queue.peek().is_some_and(|next| next.0 == time) => {
                self.open.push_back((order, first.1));
                self.time = time;
                self.shuffle(alike, random);
                self.open.pop_front().map(|(_, event)| (time, event))
            }
            _ => Some(first),
        }
    }

    /// Adds the other events of the instant, and draws the order of those that are `alike` (Fisher
    /// and Yates).
    fn shuffle(&mut self, alike: impl Fn(Event) -> bool, random: &mut Random) {
        while let Some((_, order)) = self.queue.peek().filter(|next| next.0 == self.time) {
            self.open.extend(self.queue.pop().map(|(_, event)| (order, event)));
        }
        self.places.clear();
        let places = (0..).zip(&self.open).filter(|(_, (_, event))| alike(*event));
        self.places.extend(places.map(|(at, _)| at));
        for last in (1..self.places.len()).rev() {
            let other = random.below(last as u64 + 1) as usize;
            let (one, other) = (self.places[last], self.places[other]);
            let events = (self.open[one].1, self.open[other].1);
            (self.open[other].1, self.open[one].1) = events;
        }
    }
}
