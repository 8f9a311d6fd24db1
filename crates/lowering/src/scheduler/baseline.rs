//! The fixed order: reduce-scatter from the innermost dimension out, all-gather back, the same for
//! every chunk.
//!
//! Source: Rashidi et al., ISPASS 2020, section III-D.

use super::{Job, Order};

/// The order of every chunk.
pub(super) fn order(job: &Job) -> Order {
    (0..job.dims.len() as u32).collect()
}

/// The orders of all chunks.
pub(super) fn orders(job: &Job) -> Vec<Order> {
    vec![order(job); job.chunks.len()]
}
