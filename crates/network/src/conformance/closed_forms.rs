//! The closed form: the times and the traffic of a simulation.

use super::drive::{Suite, run};
use crate::{Backend, Transfer, Usage};
use units::{Span, Time};

pub(super) fn check<B: Backend>(suite: &Suite<'_, B>) -> Result<(), String> {
    let backend = (suite.make)();
    let Some(form) = backend.closed_form() else { return Ok(()) };
    let known: Vec<Transfer> = suite
        .transfers
        .iter()
        .map(|(_, transfer)| *transfer)
        .filter(|t| form.uncontended(t.src, t.dst, t.bytes).is_some())
        .collect();
    known.iter().try_for_each(|transfer| alone(suite, *transfer))?;
    let mut backend = (suite.make)();
    let mut unshared = Vec::new();
    for &(_, transfer) in suite.transfers {
        if backend.closed_form_mut().and_then(|form| form.unshared(&transfer)).is_some() {
            unshared.push(transfer);
            quiet(suite, transfer)?;
        }
    }
    carried(suite, &unshared)
}

/// A transfer that has its links to itself takes its time, and leaves them when it says.
fn quiet<B: Backend>(suite: &Suite<'_, B>, transfer: Transfer) -> Result<(), String> {
    let mut backend = (suite.make)();
    let form = backend.closed_form_mut().ok_or("the closed form has gone")?;
    let Some(said) = form.unshared(&transfer) else { return Ok(()) };
    let next = Time::ZERO + said.occupancy;
    let done = run(&mut backend, &[(Time::ZERO, transfer), (next, transfer)])?;
    let times: Vec<Time> = done.iter().map(|delivery| delivery.time).collect();
    if times != [Time::ZERO + said.transit, next + said.transit] {
        return Err(format!(
            "two of {transfer:?} one after the other arrived at {times:?}, by the closed form {said:?}"
        ));
    }
    Ok(())
}

/// One transfer takes its time, keeps the next one waiting as long as it says, and no longer.
fn alone<B: Backend>(suite: &Suite<'_, B>, transfer: Transfer) -> Result<(), String> {
    let Transfer { src, dst, bytes, .. } = transfer;
    let mut backend = (suite.make)();
    let idle = |b: &B, at: Time| b.closed_form().is_some_and(|form| form.is_idle(src, dst, at));
    let form = backend.closed_form().ok_or("the closed form has gone")?;
    let Some(said) = form.uncontended(src, dst, bytes) else { return Ok(()) };
    let (transit, kept) = (Time::ZERO + said.transit, Time::ZERO + said.occupancy);
    let two = suite.burst(transfer, 2)?;
    if two != [transit, kept + said.transit] {
        return Err(format!("two of {transfer:?} arrived at {two:?}, by the closed form {said:?}"));
    }
    if !idle(&backend, Time::ZERO) {
        return Err(format!("the link of {transfer:?} is busy before anything started"));
    }
    backend.start(Time::ZERO, transfer);
    let busy_before = kept == Time::ZERO || !idle(&backend, Time(kept.0 - 1));
    if !busy_before || !idle(&backend, kept) {
        return Err(format!("the link of {transfer:?} is not busy until {kept:?}"));
    }
    Ok(())
}

/// Traffic that is accounted for leaves the same sums as traffic that is simulated.
fn carried<B: Backend>(suite: &Suite<'_, B>, known: &[Transfer]) -> Result<(), String> {
    let (mut simulated, mut accounted) = ((suite.make)(), (suite.make)());
    let mut now = Time::ZERO;
    for &transfer in known {
        for _ in 0..2 {
            let done = run(&mut simulated, &[(now, transfer)])?;
            now = done.last().map_or(now, |delivery| delivery.time) + PAUSE;
        }
        let form = accounted.closed_form_mut().ok_or("a closed form that cannot account")?;
        form.carry(transfer, 2);
    }
    let (simulated, accounted): (Usage, Usage) =
        (simulated.usage(Time::MAX), accounted.usage(Time::MAX));
    if simulated != accounted {
        return Err(format!("simulated traffic {simulated:?}, accounted for {accounted:?}"));
    }
    Ok(())
}

/// Long enough for a network to come to rest.
const PAUSE: Span = Span(1_000_000_000_000);
