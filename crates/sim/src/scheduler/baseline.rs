//! The fixed order: reduce-scatter from the innermost dimension out, all-gather back, the same for every chunk.
//!
//! Source: Rashidi et al., ISPASS 2020, section III-D.

use super::{Job, Order, Time};
use graph::Problem;
use units::Span;

/// The order of every chunk.
pub(super) fn order(job: &Job) -> Order {
    (0..job.dims.len() as u32).collect()
}

/// What each dimension carries in all.
pub(super) fn loads(job: &Job, time: &Time) -> Result<Vec<Span>, Problem> {
    let (order, mut loads) = (order(job), vec![Span::ZERO; job.dims.len()]);
    for &bytes in job.chunks {
        job.load(bytes, &order, time, &mut loads)?;
    }
    Ok(loads)
}
