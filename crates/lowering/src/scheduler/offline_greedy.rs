//! ASTRA-sim's offline greedy scheduler: like Themis, but it counts bytes over bandwidth only and
//! does not look at the whole collective.
//!
//! `load(d) += bytes sent on d / bandwidth of d`, for the reduce-scatter half of an all-reduce.
//! Latencies, endpoint delays and reductions don't count. A chunk takes the baseline's order as
//! long as the gap between the loads is at most the time of a sixteenth of the chunk on the least
//! loaded dimension. In ASTRA-sim the loads persist from one collective to the next. Here each
//! collective starts from zero: earlier work must not decide how members with different pasts run a
//! collective together. Source: ASTRA-sim's `OfflineGreedy`, read for its rules. No key of the
//! version that we compare with selects it.

use super::job::{Costs, Job, Order, THRESHOLD};
use collective::Phase;
use graph::Problem;

pub(super) fn orders(job: &Job, costs: &Costs) -> Result<Vec<Order>, Problem> {
    let half = Job { kind: job.half(), ..*job };
    let load = |phase: &Phase| costs(phase).map(|c| c.serial);
    half.greedy(&load, |dim, bytes| {
        load(&Phase { dim: Some(dim), kind: half.kind, bytes: bytes / THRESHOLD })
    })
}
