//! Where chunks of collectives spend their time: waits in queues and times on the network, by phase.
//!
//! Here: the sums, and the rows that a report has of them. The recorder keeps those of all
//! collectives, a log those of each (`observe/delays.rs`).

use graph::CollectiveKind;
use stats::Phase;
use units::{PS_PER_NS, Span};

const READY: &str = "P0 ready queue";

/// Position among the phases, dimension (both from 0), and what the phase does.
pub(crate) type Label = (u32, u32, CollectiveKind);

/// Sums over chunk phases, weighted by ranks.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    /// Chunks that left a ready queue, and the sum of their waits there, ps.
    ready: (u128, u128),
    phases: Vec<PhaseTotals>,
}

#[derive(Clone, Debug)]
struct PhaseTotals {
    label: Label,
    count: u128,
    /// Sum of waits in the queue, ps.
    queue: u128,
    /// Sum of times in the phase, ps.
    network: u128,
}

impl Delays {
    /// A chunk has left the ready queue of `ranks` ranks.
    pub(crate) fn left_ready_queue(&mut self, waited: Span, ranks: u64) {
        self.ready.0 += u128::from(ranks);
        self.ready.1 += u128::from(waited.0) * u128::from(ranks);
    }

    /// A chunk of `ranks` ranks has ended a phase.
    #[inline]
    pub(crate) fn ended(&mut self, label: Label, queue: Span, network: Span, ranks: u64) {
        let ranks = u128::from(ranks);
        self.of(label).add(ranks, u128::from(queue.0) * ranks, u128::from(network.0) * ranks);
    }

    /// Adds the sums of another one.
    pub(crate) fn merge(&mut self, other: &Delays) {
        self.ready.0 += other.ready.0;
        self.ready.1 += other.ready.1;
        for each in &other.phases {
            self.of(each.label).add(each.count, each.queue, each.network);
        }
    }

    #[inline]
    fn of(&mut self, label: Label) -> &mut PhaseTotals {
        let found = self.phases.iter().position(|phase| phase.label == label);
        let at = found.unwrap_or_else(|| {
            self.phases.push(PhaseTotals { label, count: 0, queue: 0, network: 0 });
            self.phases.len() - 1
        });
        &mut self.phases[at]
    }

    /// Means by phase, in order of phase, dimension and kind, each with its dimension. The wait in
    /// the ready queue comes first, where there is one. `dims` names the dimensions.
    pub fn rows(&self, dims: &[String]) -> Vec<(Option<u32>, Phase)> {
        let mean = |sum: u128, count: u128| sum as f64 / count as f64 / PS_PER_NS as f64;
        let (count, total) = self.ready;
        let ready =
            Phase { name: READY.into(), count, queue_ns: mean(total, count), network_ns: 0.0 };
        let row = |phase: &PhaseTotals| {
            let (at, dim, kind) = phase.label;
            let called = dims.get(dim as usize).map_or("", String::as_str);
            let name = format!("P{} {} {called}", at + 1, kind.name());
            let [queue_ns, network_ns] =
                [phase.queue, phase.network].map(|sum| mean(sum, phase.count));
            (Some(dim), Phase { name, count: phase.count, queue_ns, network_ns })
        };
        let mut phases: Vec<&PhaseTotals> = self.phases.iter().collect();
        phases.sort_by_key(|phase| phase.label);
        let ready = (count > 0).then_some((None, ready));
        ready.into_iter().chain(phases.into_iter().map(row)).collect()
    }
}

impl PhaseTotals {
    #[inline]
    fn add(&mut self, count: u128, queue: u128, network: u128) {
        self.count += count;
        self.queue += queue;
        self.network += network;
    }
}
