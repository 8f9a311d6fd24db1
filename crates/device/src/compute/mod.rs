//! Durations of compute nodes: as recorded, or by a model. One model one file.
//!
//! Here: what a node asks for ([`Work`]), which model answers ([`Compute`]), and how far the answer
//! reaches ([`Validity`]). Not here: nodes without work, the factor on all compute
//! (`sim::compute`), and reading platform files (`sim::config`).

pub mod measured;
mod measured_csv;
pub mod roofline;
pub mod systolic;
pub mod tiles;

pub use measured::Measured;
pub use roofline::{Efficiency, Roofline};
pub use systolic::Systolic;
pub use tiles::Tiles;

use graph::{Gemm, Kernel, Op};
use std::sync::Arc;
use units::{Bandwidth, Bytes, Span};

/// How long compute nodes take.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Compute {
    /// As the trace recorded it.
    Recorded,
    /// By operations and bytes.
    Roofline(Roofline),
    /// Matrix multiplications on a systolic array, the rest by the roofline.
    Systolic(Systolic),
    /// Matrix multiplications by a table of measurements, the rest by the roofline.
    Measured(Arc<Measured>),
}

/// Work of a compute node on its NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Work {
    /// Floating-point operations.
    pub operations: u128,
    /// Bytes read and written.
    pub bytes: Bytes,
    /// Kind of kernel.
    pub kernel: Kernel,
    /// Rows of embedding tables read, and rows written.
    pub rows: u64,
    /// The shape, when it is a matrix multiplication that has one.
    pub gemm: Option<Gemm>,
}

impl Work {
    /// The work of an operation on the NPU, where it is known.
    pub fn of(op: &Op) -> Option<Work> {
        let (operations, bytes) = op.work()?;
        let (kernel, rows, gemm) = match op {
            Op::Compute { kernel, .. } => (*kernel, 0, None),
            Op::Gemm(gemm) => (Kernel::Gemm, 0, Some(*gemm)),
            Op::Grouped(gemm) => (Kernel::Grouped, 0, Some(*gemm)),
            Op::Lookup(lookup) => (lookup.kernel(), lookup.rows, None),
            _ => return None,
        };
        Some(Work { operations, bytes, kernel, rows, gemm })
    }
}

/// How far an estimate can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Validity {
    /// The model covers it.
    Covered,
    /// Measured shapes lie so far apart that the time is known to less than a factor of 4 only.
    Sparse,
    /// Beyond the measured shapes.
    Outside,
    /// No shape with elements of this width was measured; by the roofline.
    OtherWidth,
}

/// Result of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// How long it takes.
    pub time: Span,
    /// How far to trust that.
    pub validity: Validity,
}

impl Compute {
    /// The word in platform files.
    pub const fn name(&self) -> &'static str {
        match self {
            Compute::Recorded => "recorded",
            Compute::Roofline(_) => "roofline",
            Compute::Systolic(_) => "systolic",
            Compute::Measured(_) => "measured",
        }
    }

    /// The same model with another bandwidth of the NPU's memory.
    pub fn with_memory(&self, memory: Bandwidth) -> Compute {
        match self {
            Compute::Recorded => Compute::Recorded,
            Compute::Roofline(roofline) => Compute::Roofline(Roofline { memory, ..*roofline }),
            Compute::Systolic(systolic) => {
                let rest = Roofline { memory, ..systolic.rest };
                Compute::Systolic(Systolic {
                    memory: systolic.memory.map(|_| memory),
                    rest,
                    ..*systolic
                })
            }
            Compute::Measured(measured) => {
                let rest = Roofline { memory, ..measured.rest };
                Compute::Measured(Arc::new(Measured { table: measured.table.clone(), rest }))
            }
        }
    }

    /// Time for `work` if its operations alone counted, at the peak rate of their number format; no
    /// estimate is shorter. Nothing where recorded durations count.
    pub fn at_peak(&self, work: &Work) -> Option<Span> {
        match self {
            Compute::Recorded => None,
            Compute::Roofline(roofline) => Some(roofline.at_peak(work)),
            Compute::Systolic(systolic) => Some(systolic.at_peak(work)),
            // Measurements may contradict the peak that a file states.
            Compute::Measured(measured) => {
                Some(measured.rest.at_peak(work).min(measured.estimate(work).time))
            }
        }
    }

    /// Time for `work`; nothing where recorded durations count.
    pub fn estimate(&self, work: &Work) -> Option<Estimate> {
        let covered = |time| Estimate { time, validity: Validity::Covered };
        Some(match self {
            Compute::Recorded => return None,
            Compute::Roofline(roofline) => covered(roofline.span(work)),
            Compute::Systolic(systolic) => covered(systolic.span(work)),
            Compute::Measured(measured) => measured.estimate(work),
        })
    }
}
