//! Themis: each chunk begins on the dimension that has the least to do so far.
//!
//! `load(d)`, the predicted time of all phases put on dimension d, starts at zero with every
//! collective. A chunk's reduce-scatter takes the dimensions by ascending load, and its all-gather
//! goes back the same way; a lone all-gather ends on the least loaded one. While the loads differ
//! by no more than a sixteenth of a chunk takes on the least loaded dimension, a chunk takes the
//! baseline's order. Beyond the paper: where the whole collective is not predicted to end earlier
//! than by the baseline, every chunk takes the baseline's order. Source: Rashidi et al., "Themis",
//! ISCA 2022, section 4 (schedule, load tracker, threshold).

use super::job::{Costs, Job, Order, THRESHOLD};
use super::{baseline, pipeline};
use collective::Phase;
use graph::Problem;
use units::Span;

pub(super) fn orders(job: &Job, costs: &Costs) -> Result<Vec<Order>, Problem> {
    let load = |phase: &Phase| occupancy(job, costs, phase);
    let level =
        |dim, bytes| load(&Phase { dim: Some(dim), kind: job.half(), bytes: bytes / THRESHOLD });
    let orders = job.greedy(&load, level)?;
    let earlier =
        pipeline::end(job, &orders, costs)? < pipeline::end(job, &baseline::orders(job), costs)?;
    Ok(if earlier { orders } else { Vec::new() })
}

/// For how long a phase keeps its dimension: chunks that may run side by side share it, but not its
/// links.
fn occupancy(job: &Job, costs: &Costs, phase: &Phase) -> Result<Span, Problem> {
    let cost = costs(phase)?;
    let shared = Span(cost.alone.0.div_ceil(job.queues[job.place(phase)].active()));
    Ok(shared.max(cost.link))
}
