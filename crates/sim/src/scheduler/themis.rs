//! Themis: each chunk begins on the dimension that has the least to do so far.
//!
//! `load(d)`, the predicted time of all phases put on dimension d, starts at zero with every collective. A chunk's reduce-scatter takes the
//! dimensions by ascending load, and its all-gather goes back the same way; a lone all-gather ends on the least loaded one. While the loads
//! differ by no more than a sixteenth of a chunk takes on the least loaded dimension, a chunk takes the baseline's order.
//! Beyond the paper: where the busiest dimension would come out no less busy than by the baseline, every chunk takes the baseline's order.
//! Source: Rashidi et al., "Themis", ISCA 2022, section 4 (schedule, load tracker, threshold).

use super::{Job, Order, Time, baseline, by_load, least, most};
use collective::Phase;
use graph::Problem;
use units::Span;

/// Part of a chunk whose time is the smallest difference of loads that is acted upon.
const THRESHOLD: u64 = 16;

pub(super) fn orders(job: &Job, time: &Time) -> Result<Vec<Order>, Problem> {
    let (orders, loads) = greedy(job, time)?;
    let kept = most(&loads) < most(&baseline::loads(job, time)?);
    Ok(if kept { orders } else { Vec::new() })
}

fn greedy(job: &Job, time: &Time) -> Result<(Vec<Order>, Vec<Span>), Problem> {
    let mut loads = vec![Span::ZERO; job.dims.len()];
    let mut orders = Vec::with_capacity(job.chunks.len());
    for &bytes in job.chunks {
        let order = order(job, bytes, time, &loads)?;
        job.load(bytes, &order, time, &mut loads)?;
        orders.push(order);
    }
    Ok((orders, loads))
}

fn order(job: &Job, bytes: u64, time: &Time, loads: &[Span]) -> Result<Order, Problem> {
    let (at, lowest) = least(loads);
    let part = Phase { dim: Some(job.dims[at].0), kind: job.half(), bytes: bytes / THRESHOLD };
    let level = most(loads).saturating_sub(lowest) <= time(&part)?;
    Ok(if level { baseline::order(job) } else { by_load(loads) })
}
