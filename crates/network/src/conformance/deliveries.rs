//! Deliveries: once each, in order of time, repeatable, within their bounds; bytes are conserved.

use super::drive::{First, Suite, drive};
use crate::{Backend, Delivery, Transfer};
use units::{Span, Time};

pub(super) fn check<B: Backend>(
    suite: &Suite<'_, B>,
    bound: &dyn Fn(&B, &Transfer) -> Span,
) -> Result<(), String> {
    for first in [First::Events, First::Starts] {
        let deliver = || drive(&mut (suite.make)(), suite.transfers, first);
        let done = deliver()?;
        if done != deliver()? {
            return Err("the same transfers gave different deliveries".into());
        }
        each_in_time(suite, &done)?;
        if first == First::Starts && suite.in_order().is_some_and(|ordered| ordered != done) {
            return Err("with a shared order of events, deliveries differ".into());
        }
    }
    within_bounds(suite, bound)?;
    conserved(suite)
}

fn each_in_time<B: Backend>(suite: &Suite<'_, B>, done: &[Delivery]) -> Result<(), String> {
    if let Some(w) = done.windows(2).find(|w| w[1].time < w[0].time) {
        return Err(format!("delivery at {:?} after one at {:?}", w[1].time, w[0].time));
    }
    let backend = (suite.make)();
    for (start, transfer) in suite.transfers {
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
    }
    Ok(())
}

fn within_bounds<B: Backend>(
    suite: &Suite<'_, B>,
    bound: &dyn Fn(&B, &Transfer) -> Span,
) -> Result<(), String> {
    let backend = (suite.make)();
    for (_, transfer) in suite.transfers {
        let alone = suite.alone(*transfer)?.ok_or(format!("{transfer:?} alone never arrived"))?;
        let most = bound(&backend, transfer);
        if alone > most {
            return Err(format!("{transfer:?} alone took {alone:?}, bound {most:?}"));
        }
    }
    Ok(())
}

fn conserved<B: Backend>(suite: &Suite<'_, B>) -> Result<(), String> {
    let mut backend = (suite.make)();
    let done = drive(&mut backend, suite.transfers, First::Events)?.len();
    let usage = backend.usage(Time::MAX);
    let weighed = |bytes: &dyn Fn(&Transfer) -> u64| -> u128 {
        suite.transfers.iter().map(|(_, t)| u128::from(bytes(t)) * u128::from(t.weight)).sum()
    };
    let (sent, started) = (weighed(&|t| t.bytes), weighed(&|_| 1));
    let carried: u128 = usage.bytes.iter().sum();
    if usage.transfers != started || carried < sent {
        return Err(format!(
            "{sent} bytes were sent in {done} transfers of weight {started}, {carried} carried in {}",
            usage.transfers
        ));
    }
    Ok(())
}
