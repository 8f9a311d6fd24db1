//! What every backend must do, as checks that return what they found wrong. A backend's tests call
//! [`check`].

use crate::{Backend, Delivery, Sequence, Stamp, Transfer};
use units::{Span, Time};

/// Runs `transfers` (start time, transfer; times ascending) to the end.
pub fn run<B: Backend>(backend: &mut B, transfers: &[(Time, Transfer)]) -> Vec<Delivery> {
    let (mut sequence, mut done, mut finished) = (Sequence::default(), Vec::new(), Vec::new());
    let mut todo = transfers.iter().peekable();
    loop {
        let start = todo.peek().map(|t| t.0);
        match (start, backend.next_event()) {
            (None, None) => return done,
            (Some(at), event) if event.is_none_or(|e| e.time >= at) => {
                let (at, transfer) = *todo.next().expect("peeked");
                backend.start(at, transfer, &mut sequence);
            }
            _ => {
                // No further than the next start: what begins then may come between.
                let until = start.map_or(Stamp::MAX, |time| Stamp { time, order: 0 });
                backend.advance(until, &mut sequence, &mut finished);
                done.append(&mut finished);
            }
        }
    }
}

/// Checks the contract on `transfers`: each is delivered exactly once, none before its start plus
/// the physical minimum, deliveries never go back in time, a second backend of the same make gives
/// the same deliveries, and one transfer alone takes no longer than `bound` allows.
///
/// # Errors
/// One sentence saying what was violated, with numbers.
pub fn check<B: Backend>(
    make: impl Fn() -> B,
    transfers: &[(Time, Transfer)],
    bound: impl Fn(&B, &Transfer) -> Span,
) -> Result<(), String> {
    let done = run(&mut make(), transfers);
    if done != run(&mut make(), transfers) {
        return Err("the same transfers gave different deliveries".into());
    }
    if let Some(w) = done.windows(2).find(|w| w[1].time < w[0].time) {
        return Err(format!("delivery at {:?} after one at {:?}", w[1].time, w[0].time));
    }
    let backend = make();
    for (start, transfer) in transfers {
        let arrivals: Vec<_> = done.iter().filter(|d| d.token == transfer.token).collect();
        let [arrival] = arrivals[..] else {
            return Err(format!("{transfer:?} was delivered {} times", arrivals.len()));
        };
        let minimum = backend.physical_minimum(transfer.src, transfer.dst, transfer.bytes);
        if arrival.time < *start + minimum {
            return Err(format!(
                "{transfer:?} started {start:?} arrived {:?}, minimum {minimum:?}",
                arrival.time
            ));
        }
        let alone = run(&mut make(), &[(*start, *transfer)])[0].time.since(*start);
        let most = bound(&backend, transfer);
        if alone > most {
            return Err(format!("{transfer:?} alone took {alone:?}, bound {most:?}"));
        }
        if backend
            .uncontended(transfer.src, transfer.dst, transfer.bytes)
            .is_some_and(|a| a.transit != alone)
        {
            return Err(format!(
                "{transfer:?} alone took {alone:?}, not what the closed form says"
            ));
        }
    }
    bytes_conserved(&make, transfers, done.len())
}

fn bytes_conserved<B: Backend>(
    make: &impl Fn() -> B,
    transfers: &[(Time, Transfer)],
    done: usize,
) -> Result<(), String> {
    let mut backend = make();
    run(&mut backend, transfers);
    let usage = backend.usage();
    let sent: u128 = transfers.iter().map(|t| u128::from(t.1.bytes) * u128::from(t.1.weight)).sum();
    let started: u128 = transfers.iter().map(|t| u128::from(t.1.weight)).sum();
    let carried: u128 = usage.bytes.iter().sum();
    if usage.transfers != started || carried < sent {
        return Err(format!(
            "{sent} bytes were sent in {done} transfers, {carried} carried in {}",
            usage.transfers
        ));
    }
    Ok(())
}
