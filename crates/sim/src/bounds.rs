//! How fast a step could be at best on its network: each dimension busy all the time, or all of
//! them.
//!
//! `bound(d) = bytes(d) / (usable(d) * NPUs)`, `network = sum of bytes / (sum of usable * NPUs)`.
//! Usable of a dimension is what its NPU's links carry for the algorithms of the run: `min(all
//! links, slots * rate of the fastest phase by itself, rate of the links in the directions taken)`,
//! so that a ring run one way counts one of its two links. All links where messages, announcements,
//! algorithms from files, groups other than lines or plans that look different from each position
//! use the network. Not here: bytes (the backend counts them), what a phase takes
//! (`scheduler/predict.rs`).

use crate::parts::Parts;
use graph::Op;
use lowering::scheduler::predict::{self, Rate, Wire};
use lowering::{Geometry, Lane, Lowered, PhaseSpec};
use platform::Queues;
use stats::{Bounds, Dimension};
use std::sync::Arc;
use topology::Fabric;

/// GB/s that an NPU's links carry in each dimension for the algorithms of a run; `all` is what they
/// carry at most.
pub(crate) fn usable(parts: &Parts, lowered: &[Arc<Lowered>], all: &[f64]) -> Vec<f64> {
    let Fabric::Stacked(dims) = &parts.platform.fabric else { return all.to_vec() };
    let mut used = vec![Used::default(); dims.len()];
    let queues = |phase: &PhaseSpec| parts.settings.queues[phase.dim as usize];
    for phase in lowered.iter().flat_map(|l| &l.shapes).flatten() {
        let Some((dim, rates)) = rates(dims, phase) else { return all.to_vec() };
        rates.into_iter().for_each(|rate| used[dim].add(rate, phase.lane, queues(phase)));
    }
    let sends = |p: &graph::Program| p.nodes().iter().any(|n| matches!(n.op, Op::Send { .. }));
    let messages = parts.settings.rendezvous || parts.workload.bodies().any(sends);
    let limit = |(used, &all): (&Used, &f64)| if messages { all } else { used.limit(all) };
    used.iter().zip(all).map(limit).collect()
}

/// Bounds of a step from those of its dimensions.
pub(crate) fn bounds(dimensions: &[Dimension], npus: f64) -> Bounds {
    let bytes: u128 = dimensions.iter().map(|d| d.bytes).sum();
    let usable: f64 = dimensions.iter().map(|d| d.usable_gb_per_s).sum();
    Bounds {
        dimension_ns: dimensions.iter().map(|d| d.bound_ns).fold(0.0, f64::max),
        network_ns: if usable > 0.0 { bytes as f64 / usable / npus } else { 0.0 },
    }
}

/// The dimension of a phase, and how fast each of its plans sends; `None` where that is not known.
fn rates(dims: &[topology::Dim], phase: &PhaseSpec) -> Option<(usize, Vec<Rate>)> {
    let Geometry::Line { stride, size } = phase.geometry else { return None };
    let wire = Wire::find(dims, stride, size)?;
    if phase.plans.is_empty() {
        return None;
    }
    let rates: Option<Vec<Rate>> =
        phase.plans.iter().map(|d| predict::rate(&d.forward, &wire)).collect();
    Some((wire.index, rates?))
}

/// Bandwidth that the phases of a dimension can use.
#[derive(Clone, Default)]
struct Used {
    /// The fastest phase by itself, GB/s.
    alone: f64,
    /// Phases at once.
    slots: u64,
    /// The links of the fastest phase that runs forwards, and backwards, GB/s.
    links: [f64; 2],
}

impl Used {
    fn add(&mut self, rate: Rate, lane: Lane, queues: Queues) {
        self.alone = self.alone.max(rate.alone);
        self.slots = self.slots.max(queues.active());
        for nth in 0..queues.count {
            let backward = lane.queue(queues.count, nth).1 && rate.has_directions;
            let links = &mut self.links[usize::from(backward)];
            *links = links.max(rate.links);
        }
    }

    /// `all` where nothing is known to use it.
    fn limit(&self, all: f64) -> f64 {
        let used = (self.alone * self.slots as f64).min(self.links[0] + self.links[1]);
        if used > 0.0 { used.min(all) } else { all }
    }
}
