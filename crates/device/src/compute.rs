//! Durations of compute nodes: as recorded, or by the roofline.
//!
//! Roofline (Williams, Waterman, Patterson, CACM 2009): `time = operations / min(peak, operations / bytes * memory bandwidth)`,
//! that is `max(operations / peak, bytes / memory bandwidth)`.

use units::{Bandwidth, Bytes, Flops, Span};

/// How long compute nodes take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "model")]
pub enum Compute {
    /// As the trace recorded it.
    Recorded,
    /// By operations and bytes.
    Roofline {
        /// Peak rate.
        peak: Flops,
        /// Local memory.
        memory: Bandwidth,
    },
}

/// The roofline time of `operations` over `bytes`, each part rounded up to the picosecond.
pub fn roofline(operations: u64, bytes: Bytes, peak: Flops, memory: Bandwidth) -> Span {
    peak.span(operations).max(memory.span(bytes))
}
