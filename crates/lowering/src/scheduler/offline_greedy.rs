//! ASTRA-sim's offline greedy scheduler: as Themis, by bytes over bandwidth alone, and without a
//! look at the whole.
//!
//! `load(d) += bytes sent on d / bandwidth of d`, of the reduce-scatter half of an all-reduce;
//! latencies, endpoint delays and reductions don't count. A chunk takes the baseline's order while
//! the gap between the loads is no more than a sixteenth of it takes on the least loaded dimension.
//! There the loads live on from one collective to the next, here each starts from zero: what was
//! done before must not decide what members of different pasts do together. Source: ASTRA-sim's
//! `OfflineGreedy`, read for its rules; no key of the version compared with selects it.

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
