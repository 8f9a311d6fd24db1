//! One order of events for a backend and its caller.
//!
//! ASTRA-sim handles events of one instant in the order in which they were scheduled, whoever
//! scheduled them. Its profile needs the same. Native runs do not: there the network comes first at
//! every instant, and a backend orders its own events.

use crate::Delivery;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use units::Time;

/// A place in the total order of events: time first, then the order of scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// When.
    pub time: Time,
    /// Drawn from a [`Sequence`] when the event is scheduled.
    pub order: u64,
}

impl Stamp {
    /// After every event.
    pub const MAX: Stamp = Stamp { time: Time::MAX, order: u64::MAX };
}

/// Gives out orders. Clones share one count. Only one thread may draw at a time, or the orders
/// depend on chance.
#[derive(Clone, Debug, Default)]
pub struct Sequence(Arc<AtomicU64>);

impl Sequence {
    /// The next order.
    #[inline]
    pub fn draw(&self) -> u64 {
        // Two plain instructions: with one thread there is nothing to lock against.
        let next = self.0.load(Relaxed) + 1;
        self.0.store(next, Relaxed);
        next
    }
}

/// A backend whose events share one order with its caller's.
pub trait Ordered {
    /// Draws orders from `sequence` from now on; called before the first start.
    fn share(&mut self, sequence: Sequence);

    /// Handles events up to and including `until`, and stops after the first one that delivers.
    /// False when there was none.
    fn advance_to(&mut self, until: Stamp, finished: &mut Vec<Delivery>) -> bool;
}
