//! The fixed order: reduce-scatter from the innermost dimension out, all-gather back, the same for
//! every chunk.
//!
//! Source: Rashidi et al., ISPASS 2020, section III-D.

use super::job::{Job, Order};

/// The orders of all chunks.
pub(super) fn orders(job: &Job) -> Vec<Order> {
    vec![job.inside_out(); job.chunks.len()]
}
