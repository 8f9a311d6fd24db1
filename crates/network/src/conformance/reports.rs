//! Reports of a backend on itself: to its sink, and when it is stuck.

use super::drive::{First, Suite, drive, run};
use crate::{Backend, Delivery, LinkEnds, NetworkSink, Sending, Stuck, Transfer};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use units::{Span, Time};

/// Everything a sink hears.
#[derive(Default)]
struct Heard {
    started: Vec<(Time, Transfer)>,
    arrived: Vec<Delivery>,
    sent: Vec<Sending>,
}

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Heard>>);

impl Recorder {
    fn with<R>(&self, act: impl FnOnce(&mut Heard) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl NetworkSink for Recorder {
    fn starts(&mut self, now: Time, transfer: &Transfer) {
        self.with(|heard| heard.started.push((now, *transfer)));
    }

    fn arrives(&mut self, delivery: &Delivery) {
        self.with(|heard| heard.arrived.push(*delivery));
    }

    fn sends(&mut self, sending: &Sending) {
        self.with(|heard| heard.sent.push(*sending));
    }
}

pub(super) fn check<B: Backend>(suite: &Suite<'_, B>) -> Result<(), String> {
    let mut backend = (suite.make)();
    if let Some(stuck) = backend.stalled() {
        return Err(format!("stuck before anything started: {stuck:?}"));
    }
    let recorder = Recorder::default();
    let observed = backend.observe(Box::new(recorder.clone()));
    let done = drive(&mut backend, suite.transfers, First::Events)?;
    if let Some(stuck) = backend.stalled() {
        return Err(format!("everything was delivered, yet it is stuck: {stuck:?}"));
    }
    if !observed {
        return Ok(());
    }
    if done != run(&mut (suite.make)(), suite.transfers)? {
        return Err("observed, the same transfers gave different deliveries".into());
    }
    recorder.with(|heard| {
        if heard.started != suite.transfers {
            return Err(format!("the sink heard of {} starts, not of all", heard.started.len()));
        }
        if heard.arrived != done {
            return Err(format!("the sink heard of {} arrivals, not of all", heard.arrived.len()));
        }
        links(&heard.sent, &backend)
    })
}

/// A link sends one thing at a time, and as much as the usage says.
fn links(sent: &[Sending], backend: &impl Backend) -> Result<(), String> {
    let mut by_link: BTreeMap<LinkEnds, (Time, Span, u64)> = BTreeMap::new();
    for sending in sent {
        let (free, busy, bytes) = by_link.entry(sending.link).or_default();
        if sending.begin < *free || sending.end < sending.begin {
            return Err(format!("{sending:?} while the link is busy until {free:?}"));
        }
        *free = sending.end;
        *busy += sending.end.since(sending.begin);
        *bytes += sending.bytes;
    }
    let heard: Vec<_> =
        by_link.iter().map(|(link, sums)| (link.from, link.to, sums.2, sums.1)).collect();
    let used: Vec<_> =
        backend.usage(Time::MAX).links.iter().map(|l| (l.from, l.to, l.bytes, l.busy)).collect();
    if heard != used {
        return Err(format!("the sink heard of links {heard:?}, used were {used:?}"));
    }
    Ok(())
}

/// The links that `transfer` takes alone, in order.
pub(super) fn links_of<B: Backend>(
    suite: &Suite<'_, B>,
    transfer: Transfer,
) -> Result<Vec<LinkEnds>, String> {
    let (mut backend, recorder) = ((suite.make)(), Recorder::default());
    if !backend.observe(Box::new(recorder.clone())) {
        return Err("links are called alike, but no sink hears of them".into());
    }
    run(&mut backend, &[(Time::ZERO, transfer)])?;
    Ok(recorder.with(|heard| heard.sent.iter().map(|sending| sending.link).collect()))
}

pub(super) fn stuck<B: Backend>(suite: &Suite<'_, B>) -> Result<Stuck, String> {
    let mut backend = (suite.make)();
    let done = run(&mut backend, suite.transfers)?;
    let missing = suite.transfers.len() - done.len();
    if missing == 0 {
        return Err("everything was delivered".into());
    }
    let stuck = backend
        .stalled()
        .ok_or(format!("{missing} transfers never arrive, and the backend does not say why"))?;
    if stuck.transfers != missing as u64 {
        return Err(format!("{missing} transfers never arrive, reported are {}", stuck.transfers));
    }
    let next = stuck.cycle.iter().cycle().skip(1);
    match stuck.cycle.iter().zip(next).find(|(place, next)| place.to != next.from) {
        Some((place, next)) => Err(format!("{place:?} does not lead to {next:?}")),
        None => Ok(stuck),
    }
}
