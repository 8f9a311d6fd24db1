//! Runs transfers through a backend without an executor.

use crate::{Backend, Delivery, Sequence, Stamp, Transfer};
use units::{Span, Time};

/// Events of one time that deliver nothing before a backend counts as hanging.
const PATIENCE: u32 = 1 << 20;

/// A backend's maker and what is sent through it.
pub(super) struct Suite<'a, B> {
    pub make: &'a dyn Fn() -> B,
    pub transfers: &'a [(Time, Transfer)],
}

/// At one time, what comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    Starts,
    Events,
}

/// Runs `transfers` (start time, transfer; times ascending) until nothing is left to do.
///
/// # Errors
/// The backend does not move although it says that it has something to do.
pub fn run<B: Backend>(
    backend: &mut B,
    transfers: &[(Time, Transfer)],
) -> Result<Vec<Delivery>, String> {
    drive(backend, transfers, First::Events)
}

pub(super) fn drive<B: Backend>(
    backend: &mut B,
    transfers: &[(Time, Transfer)],
    first: First,
) -> Result<Vec<Delivery>, String> {
    let (mut done, mut todo) = (Vec::new(), transfers.iter().peekable());
    let (mut last, mut idle) = (Time::ZERO, 0);
    loop {
        let start = todo.peek().map(|t| t.0);
        let event = backend.next_event();
        let starts = start.is_some_and(|at| {
            event.is_none_or(|event| event > at || event == at && first == First::Starts)
        });
        if starts {
            let (at, transfer) = *todo.next().expect("peeked");
            backend.start(at, transfer);
            continue;
        }
        let Some(event) = event else { return backend.failed().map_or(Ok(done), Err) };
        let before = done.len();
        let until = start.map_or(Time::MAX, |at| match first {
            First::Events => at,
            First::Starts => Time(at.0 - 1),
        });
        backend.advance(until, &mut done);
        idle = if event == last && done.len() == before { idle + 1 } else { 0 };
        last = event;
        if idle == PATIENCE {
            return Err(format!("the backend handles events at {event:?} without end"));
        }
        if event < until && backend.next_event().is_some_and(|next| next < event) {
            return Err(format!("an event before {event:?} came after it"));
        }
    }
}

impl<B: Backend> Suite<'_, B> {
    /// Time of `transfer` when it has the network to itself; `None` when it does not arrive.
    pub fn alone(&self, transfer: Transfer) -> Result<Option<Span>, String> {
        let done = run(&mut (self.make)(), &[(Time::ZERO, transfer)])?;
        Ok(done.first().map(|delivery| delivery.time.since(Time::ZERO)))
    }

    /// Arrivals of `transfers` in a network of their own, in their order.
    pub fn arrivals(&self, transfers: &[(Time, Transfer)]) -> Result<Vec<Time>, String> {
        let done = run(&mut (self.make)(), transfers)?;
        let arrival = |&(_, transfer): &(Time, Transfer)| {
            let found = done.iter().find(|delivery| delivery.token == transfer.token);
            found.map(|delivery| delivery.time).ok_or(format!("{transfer:?} never arrived"))
        };
        transfers.iter().map(arrival).collect()
    }

    /// Arrivals of `count` transfers like `transfer` that start at once in a network of their own.
    pub fn burst(&self, transfer: Transfer, count: u64) -> Result<Vec<Time>, String> {
        let transfers: Vec<_> =
            (0..count).map(|token| (Time::ZERO, Transfer { token, ..transfer })).collect();
        let mut arrivals = self.arrivals(&transfers)?;
        arrivals.sort_unstable();
        Ok(arrivals)
    }

    /// Deliveries in one order of events with the caller; `None` for a backend without.
    pub fn in_order(&self) -> Option<Vec<Delivery>> {
        let (mut backend, mut done, sequence) = ((self.make)(), Vec::new(), Sequence::default());
        backend.ordered()?.share(sequence.clone());
        for &(at, transfer) in self.transfers {
            // No further than the next start: what begins then may come between.
            let until = Stamp { time: at, order: 0 };
            while backend.ordered()?.advance_to(until, &mut done) {}
            backend.start(at, transfer);
        }
        while backend.ordered()?.advance_to(Stamp::MAX, &mut done) {}
        Some(done)
    }
}
