//! The events of a backend, in the order in which they are handled.

use engine::EventQueue;
use network::{Sequence, Stamp};
use units::Time;

/// Events by time, then by the order of scheduling, which the backend may share with its caller.
pub(crate) struct Agenda<E: Copy> {
    queue: EventQueue<E>,
    sequence: Sequence,
}

impl<E: Copy> Agenda<E> {
    pub(crate) fn share(&mut self, sequence: Sequence) {
        self.sequence = sequence;
    }

    #[inline]
    pub(crate) fn push(&mut self, time: Time, event: E) {
        self.queue.push(time, self.sequence.draw(), event);
    }

    #[inline]
    pub(crate) fn next_event(&self) -> Option<Time> {
        self.queue.peek().map(|(time, _)| time)
    }

    /// The next event, if its place is `until` or earlier.
    #[inline]
    pub(crate) fn pop(&mut self, until: Stamp) -> Option<(Time, E)> {
        let (time, order) = self.queue.peek()?;
        let next = Stamp { time, order };
        if next > until {
            return None;
        }
        self.queue.pop()
    }
}

impl<E: Copy> Default for Agenda<E> {
    fn default() -> Agenda<E> {
        Agenda { queue: EventQueue::default(), sequence: Sequence::default() }
    }
}
