//! Sources of the detail of a report, besides the log.

use crate::folding::Folding;
use graph::Workload;
use units::Time;

/// See the module.
pub struct Source<'a> {
    /// Workload that ran.
    pub workload: &'a Workload,
    /// The ranks that the log is about.
    pub folding: &'a Folding,
    /// The symmetry of workload and platform.
    pub symmetry: &'a Folding,
    /// The first rank of each class of the report.
    pub classes: &'a [u32],
    /// The name of each by the generator. Empty if there is none.
    pub labels: &'a [String],
    /// Names of the dimensions that collectives run over.
    pub dims: &'a [String],
    /// End of the last rank.
    pub step: Time,
}
