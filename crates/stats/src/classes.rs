//! Ranks that behave alike, and where their time goes.

use crate::part::{Part, PerPart};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::ops::Index;

/// Ranks that behave alike. At every moment a rank is in one state: the first part of the step that
/// holds. The parts sum to `step_time_ns`, to the picosecond.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Class {
    /// The name that the workload's generator gives them, `stage 3`. Empty where it gives none.
    pub label: String,
    /// Ranks as `0-7,16`, or `0-56:8` for every eighth.
    pub ranks: String,
    /// Number of ranks.
    pub count: u64,
    /// Index of their program.
    pub program: u32,
    /// End of the last operation.
    pub finish_ns: f64,
    /// End of the last operation that computes; 0 without one. What follows is communication that
    /// the step ends with.
    pub compute_finish_ns: f64,
    /// Each part of the step.
    #[serde(flatten)]
    pub parts: StepParts,
    /// The least time for the rank's operations: each at the peak rate of its number format. `null`
    /// where durations are recorded, or nothing says the peak.
    pub at_peak_ns: Option<f64>,
    /// Communicating, overlapped with computing or not.
    pub comm_ns: f64,
    /// The most that the NPU's memory held. 0 where the workload doesn't say.
    pub peak_memory_bytes: u64,
    /// `finish_ns` less the durations of the rank's own compute. ASTRA-sim prints this as "exposed
    /// communication"; it counts idle time as well.
    pub finish_minus_compute_ns: f64,
}

/// Time of each part of the step, ns; a field per declared part.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepParts(pub PerPart<f64>);

impl Index<Part> for StepParts {
    type Output = f64;

    fn index(&self, part: Part) -> &f64 {
        &self.0[part]
    }
}

impl Serialize for StepParts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Part::ALL.len()))?;
        for part in Part::ALL {
            map.serialize_entry(part.about().field, &self.0[part])?;
        }
        map.end()
    }
}

/// The symmetry of the workload on the platform. The same whether the run was folded or not.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Symmetry {
    /// Number of sets of ranks that must behave alike. A folded run simulates one rank of each.
    pub classes: u64,
    /// Which rank, group or choice sets ranks apart. Empty when all ranks are alike.
    pub reason: String,
}
