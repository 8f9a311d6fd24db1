//! The report's section of what the backend observed: flows and links over time.
//!
//! Equal rows are one, with their number; a simulated rank counts for those it stands for. So the
//! section is the same whether the run was folded or not.

use crate::names;
use crate::parts::Parts;
use executor::observe::{FlowSums, LinkOverTime, NetworkLog};
use network::LinkEnds;
use stats::{Flow, Network, Series};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use units::{PS_PER_NS, Time};

/// Flows and links listed.
const ROWS: usize = 20;

/// A link with the percent of every bin in which it was sending.
pub(crate) type Sends = (LinkEnds, Vec<u8>);

/// Observations of a backend.
pub(crate) struct Observed {
    /// The section of the report.
    pub network: Network,
    /// Links that sent something.
    pub sends: Vec<Sends>,
}

/// Content of `log` for a run of `step` on the backend called `kind`.
pub(crate) fn observed(kind: &str, parts: &Parts, log: &NetworkLog, step: Time) -> Observed {
    let network = Network {
        kind: kind.to_string(),
        flows: flows(log),
        bin_ns: NetworkLog::width(step).as_ns(),
        series: series(parts, log, step),
    };
    Observed { network, sends: sends(log, step) }
}

fn sends(log: &NetworkLog, step: Time) -> Vec<Sends> {
    let width = NetworkLog::width(step).0;
    let percent = |(bin, busy): (u64, u128)| {
        let long = u128::from(width.min(step.0 - bin * width).max(1));
        ((100 * busy + long / 2) / long).min(100) as u8
    };
    let of_link = |over: LinkOverTime| (over.link, (0..).zip(over.busy).map(percent).collect());
    log.links(step).map(of_link).collect()
}

/// Two hexadecimal digits for each bin.
pub(crate) fn digits(sends: &[u8]) -> String {
    sends.iter().map(|percent| format!("{percent:02x}")).collect()
}

/// For each bin the larger of both.
pub(crate) fn busier(one: &mut Vec<u8>, other: &[u8]) {
    one.resize(one.len().max(other.len()), 0);
    one.iter_mut().zip(other).for_each(|(one, &other)| *one = (*one).max(other));
}

fn flows(log: &NetworkLog) -> Vec<Flow> {
    let mut all: Vec<(u64, FlowSums)> = log.flows().collect();
    all.sort_by_key(|&(bytes, sums)| Reverse((u128::from(bytes) * sums.transfers, bytes)));
    let flow = |(bytes, FlowSums { transfers, time, longest }): (u64, FlowSums)| {
        let mean_ns = time as f64 / transfers as f64 / PS_PER_NS as f64;
        Flow { bytes, transfers, mean_ns, max_ns: longest.as_ns() }
    };
    all.into_iter().take(ROWS).map(flow).collect()
}

/// Time sending in all (longest first), dimension, and the quantities by bin.
type Shape = (Reverse<u128>, u32, [Vec<u128>; 3]);

fn series(parts: &Parts, log: &NetworkLog, step: Time) -> Vec<Series> {
    let mut alike: BTreeMap<Shape, ((u32, u32), u64)> = BTreeMap::new();
    for LinkOverTime { link: LinkEnds { from, to, dim, count, .. }, busy, waiting, held } in
        log.links(step)
    {
        let row = alike
            .entry((Reverse(busy.iter().sum()), dim, [busy, waiting, held]))
            .or_insert(((from, to), 0));
        *row = (row.0.min((from, to)), row.1 + count.unwrap_or_else(|| parts.stands_for(from)));
    }
    let width = NetworkLog::width(step).0;
    let means = |sums: &[u128]| -> Vec<f64> {
        let long = |bin: u64| width.min(step.0 - bin * width) as f64;
        (0..).zip(sums).map(|(bin, &sum)| sum as f64 / long(bin)).collect()
    };
    let mut all = Vec::new();
    for ((_, dim, [busy, waiting, held]), ((from, to), count)) in alike.into_iter().take(ROWS) {
        let name = names::link_of_dimension(&parts.platform.fabric, from, to, dim);
        let series = |quantity: &str, values| {
            let (name, quantity) = (name.clone(), quantity.to_string());
            Series { name, count, quantity, values }
        };
        all.push(series("utilisation", means(&busy)));
        for (quantity, sums) in [("waiting", waiting), ("occupancy", held)] {
            if sums.iter().any(|&sum| sum > 0) {
                all.push(series(quantity, means(&sums)));
            }
        }
    }
    all
}
