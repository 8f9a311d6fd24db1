//! ASTRA-sim's offline greedy scheduler: as Themis, by bytes over bandwidth alone.
//!
//! `load(d) += bytes sent on d / bandwidth of d`, of the reduce-scatter half of an all-reduce; latencies, endpoint delays and reductions don't
//! count. A chunk takes the baseline's order while the gap between the loads is less than a sixteenth of a chunk on the least loaded dimension.
//! There the loads live on from one collective to the next, here each starts from zero: what was done before must not decide
//! what members of different pasts do together.
//! Source: the scheduler `OfflineGreedy` of ASTRA-sim, read for its rules; no key of the version compared with selects it.

use super::{Job, Order, Time, baseline, by_load, least, most};
use collective::Phase;
use graph::Problem;
use units::Span;

/// Part of a chunk whose time is the smallest difference of loads that is acted upon.
const THRESHOLD: u64 = 16;

/// `time` is that of the bytes alone.
pub(super) fn orders(job: &Job, time: &Time) -> Result<Vec<Order>, Problem> {
    let half = Job { kind: job.half(), ..*job };
    let mut loads = vec![Span::ZERO; job.dims.len()];
    let mut orders = Vec::with_capacity(job.chunks.len());
    for &bytes in job.chunks {
        let (at, lowest) = least(&loads);
        let part = Phase { dim: Some(job.dims[at].0), kind: half.kind, bytes: bytes / THRESHOLD };
        let level = most(&loads).saturating_sub(lowest) < time(&part)?;
        let order = if level { baseline::order(job) } else { by_load(&loads) };
        half.load(bytes, &order, time, &mut loads)?;
        orders.push(order);
    }
    Ok(orders)
}
