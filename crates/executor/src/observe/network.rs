//! Observations of a backend, for the report and the timeline: transfers by size, and links over
//! time.
//!
//! Sums are integers, so they do not depend on the order in which they come. Memory: for each size
//! of transfers a row, for each link used three rows of bins. Not here: what is sent when (the
//! backend), names and alike rows (`sim`).

use super::bins::{Bins, width_in};
use network::{Delivery, LinkEnds, NetworkSink, Sending, Transfer};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use units::{Span, Time};

/// Bins of a link.
const BINS: u64 = 128;
/// Memory for each link that is used, bytes.
pub const LINK_BYTES: u64 = 3 * BINS * size_of::<u128>() as u64;

/// Observations of a backend.
#[derive(Debug, Default)]
pub struct NetworkLog {
    /// By bytes of one transfer. Pairs of ranks would not do: two collectives may meet on a pair of
    /// one rank and not of another that behaves alike.
    flows: BTreeMap<u64, FlowSums>,
    links: BTreeMap<LinkEnds, LinkSeries>,
    under_way: FxHashMap<u64, (Time, u64, u64)>,
}

/// Transfers of one size, over all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSums {
    /// Their number.
    pub transfers: u128,
    /// Sum of their times from start to arrival, ps.
    pub time: u128,
    /// Longest of them.
    pub longest: Span,
}

/// One link over time.
#[derive(Clone, Debug, Default)]
struct LinkSeries {
    busy: Bins<BINS>,
    waiting: Bins<BINS>,
    held: Bins<BINS>,
    /// Messages that wait, flits that are held, and since when.
    queue: (Time, u32),
    buffers: (Time, u32),
}

/// A link over time in the bins of a step; each value is a sum over the bin, ps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkOverTime {
    /// Which link.
    pub link: LinkEnds,
    /// Time sending.
    pub busy: Vec<u128>,
    /// Messages in its queue, or flits that wait for it, times time.
    pub waiting: Vec<u128>,
    /// Flits in the buffers behind it times time.
    pub held: Vec<u128>,
}

impl NetworkLog {
    /// Transfers by size, ascending.
    pub fn flows(&self) -> impl Iterator<Item = (u64, FlowSums)> + '_ {
        self.flows.iter().map(|(bytes, sums)| (*bytes, *sums))
    }

    /// Width of the bins of a run of `step`.
    pub fn width(step: Time) -> Span {
        Span(width_in(step, BINS))
    }

    /// Links that sent something, in the bins of a run of `step`.
    pub fn links(&self, step: Time) -> impl Iterator<Item = LinkOverTime> + '_ {
        self.links.iter().map(move |(link, series)| LinkOverTime {
            link: *link,
            busy: series.busy.clone().exact(step),
            waiting: series.waiting.clone().exact(step),
            held: series.held.clone().exact(step),
        })
    }
}

/// The end of a [`NetworkLog`] that a backend holds.
#[derive(Clone, Debug, Default)]
pub struct NetworkRecorder(Arc<Mutex<NetworkLog>>);

impl NetworkRecorder {
    /// Observations so far.
    pub fn take(&self) -> NetworkLog {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn with(&self, act: impl FnOnce(&mut NetworkLog)) {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl NetworkSink for NetworkRecorder {
    fn starts(&mut self, now: Time, transfer: &Transfer) {
        let Transfer { bytes, token, weight, .. } = *transfer;
        self.with(|log| {
            log.under_way.insert(token, (now, bytes, weight));
        });
    }

    fn arrives(&mut self, delivery: &Delivery) {
        self.with(|log| {
            let started = log.under_way.remove(&delivery.token);
            let Some((began, bytes, weight)) = started else { return };
            let (took, sums) = (delivery.time.since(began), log.flows.entry(bytes).or_default());
            sums.transfers += u128::from(weight);
            sums.time += u128::from(took.0) * u128::from(weight);
            sums.longest = sums.longest.max(took);
        });
    }

    fn sends(&mut self, sending: &Sending) {
        self.with(|log| {
            let series = log.links.entry(sending.link).or_default();
            series.busy.add(sending.begin, sending.end, 1);
        });
    }

    fn waits(&mut self, now: Time, link: LinkEnds, messages: u32) {
        self.with(|log| {
            let series = log.links.entry(link).or_default();
            let (since, waited) = std::mem::replace(&mut series.queue, (now, messages));
            series.waiting.add(since, now, waited.into());
        });
    }

    fn holds(&mut self, now: Time, link: LinkEnds, flits: u32) {
        self.with(|log| {
            let series = log.links.entry(link).or_default();
            let (since, held) = std::mem::replace(&mut series.buffers, (now, flits));
            series.held.add(since, now, held.into());
        });
    }
}
