//! Contention is where the backend says it is, and links that it calls alike are alike.

use super::drive::Suite;
use super::reports::links_of;
use crate::{Alike, Backend, Contention, Transfer};
use units::Time;

/// Transfers of a burst that shows how one waits for another.
const BURST: u64 = 3;

pub(super) fn check<B: Backend>(suite: &Suite<'_, B>) -> Result<(), String> {
    let backend = (suite.make)();
    match backend.contention() {
        Contention::None => same_with(suite, "with nothing else", &|a, b| a.token == b.token)?,
        Contention::Departures => {
            let port = ports(&backend, "contention is where transfers leave")?;
            same_with(suite, "with those of its departure", &|a, b| {
                a.src == b.src && port(a) == port(b)
            })?;
        }
        Contention::Links => {}
    }
    match backend.alike() {
        Alike::Nothing | Alike::Classes => Ok(()),
        Alike::Departures => {
            let port = ports(&backend, "departures are alike")?;
            same_with(suite, "with those of its NPU", &|a, b| a.src == b.src)?;
            let all: Vec<Transfer> = suite.transfers.iter().map(|t| t.1).collect();
            alike(suite, &all, &|a, b| port(a) == port(b))
        }
        Alike::OneLink => alike(suite, &over_one_link(suite)?, &|_, _| true),
    }
}

/// The number of the link by which a transfer leaves.
fn ports<'a>(
    backend: &'a impl Backend,
    claim: &str,
) -> Result<impl Fn(&Transfer) -> u32 + 'a, String> {
    let form = backend.closed_form().ok_or(format!("{claim}, but no closed form names them"))?;
    Ok(|transfer: &Transfer| form.departure(transfer.src, transfer.dst))
}

/// Each transfer arrives in the whole traffic when it arrives among those it may meet.
fn same_with<B: Backend>(
    suite: &Suite<'_, B>,
    traffic: &str,
    meets: &dyn Fn(&Transfer, &Transfer) -> bool,
) -> Result<(), String> {
    let whole = suite.arrivals(suite.transfers)?;
    for ((_, transfer), arrival) in suite.transfers.iter().zip(whole) {
        let few: Vec<_> =
            suite.transfers.iter().copied().filter(|(_, other)| meets(transfer, other)).collect();
        let at = few.iter().position(|(_, other)| other == transfer).unwrap_or_default();
        let expected = suite.arrivals(&few)?[at];
        if arrival != expected {
            return Err(format!(
                "{transfer:?} arrived at {arrival:?} in all traffic, {traffic} at {expected:?}"
            ));
        }
    }
    Ok(())
}

/// Bursts over paths of equal minima take the same times.
fn alike<B: Backend>(
    suite: &Suite<'_, B>,
    transfers: &[Transfer],
    comparable: &dyn Fn(&Transfer, &Transfer) -> bool,
) -> Result<(), String> {
    let backend = (suite.make)();
    let minima = |t: &Transfer, bytes: u64| {
        [0, 1, bytes].map(|size| backend.physical_minimum(t.src, t.dst, size))
    };
    for (i, one) in transfers.iter().enumerate() {
        let times = suite.burst(*one, BURST)?;
        let others = transfers[i + 1..].iter().filter(|other| {
            comparable(one, other) && minima(one, one.bytes) == minima(other, one.bytes)
        });
        for other in others {
            let theirs =
                suite.burst(Transfer { bytes: one.bytes, paced: one.paced, ..*other }, BURST)?;
            if times != theirs {
                return Err(format!(
                    "links of {one:?} and {other:?} are called alike, {BURST} at once take {times:?} and {theirs:?}"
                ));
            }
        }
    }
    Ok(())
}

/// Transfers that take one link to their destination; no other NPU's meet them.
fn over_one_link<B: Backend>(suite: &Suite<'_, B>) -> Result<Vec<Transfer>, String> {
    let mut found: Vec<Transfer> = Vec::new();
    for (_, transfer) in suite.transfers {
        let links = links_of(suite, *transfer)?;
        if let [link] = links[..]
            && (link.from, link.to) == (transfer.src, transfer.dst)
        {
            found.push(*transfer);
        }
    }
    let together: Vec<_> = found.iter().map(|transfer| (Time::ZERO, *transfer)).collect();
    let arrivals = suite.arrivals(&together)?;
    for (transfer, arrival) in found.iter().zip(arrivals) {
        let own: Vec<_> = together
            .iter()
            .copied()
            .filter(|(_, other)| (other.src, other.dst) == (transfer.src, transfer.dst))
            .collect();
        let at = own.iter().position(|(_, other)| other == transfer).unwrap_or_default();
        if suite.arrivals(&own)?[at] != arrival {
            return Err(format!("{transfer:?} has a link of its own and waits for other NPUs"));
        }
    }
    Ok(found)
}
