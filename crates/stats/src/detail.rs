//! Results that need a log of the run.

use crate::part::{Part, PerPart};
use crate::{Collective, CriticalPath, OutsideOverTime};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::ops::Index;

/// Results that need a log of the run.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Detail {
    /// Sums by layer of the first rank of each class (at most 64 classes), in order of appearance.
    pub layers: Vec<Layer>,
    /// Waits and times of chunks of collectives, by layer, pass and phase over all ranks, at most
    /// 20,000 rows. The counts sum to those of `phases`.
    pub layer_phases: Vec<LayerPhase>,
    /// Width of the bins of `activity`, ns: a power of two picoseconds so that there are at most
    /// 512. The last bin ends with the step.
    pub bin_ns: f64,
    /// Activity of NPUs and dimensions over time.
    pub activity: Activity,
    /// Activity of pipeline stages or classes of ranks over time, to be drawn as one bar chart. At
    /// most 64 lanes.
    pub gantt: Vec<GanttLane>,
    /// Memory that the first rank of each class (at most 64) holds over time, where its workload
    /// says so.
    pub memory: Vec<HeldMemory>,
    /// Bytes in memory outside of the NPUs over time, a row for each one of `outside`.
    pub outside: Vec<OutsideOverTime>,
    /// The chain of operations that determines the step time.
    pub critical_path: CriticalPath,
    /// Parts of the time of collectives and sends, similar ones in one row, by total time, at most
    /// 50.
    pub collectives: Vec<Collective>,
}

/// One layer on one class of ranks. `compute_ns` and the exposed parts sum over the layers to those
/// of the class.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Layer {
    /// Index into `classes`.
    pub rank_class: u64,
    /// Name of the layer.
    pub layer: String,
    /// Each part of the step.
    #[serde(flatten)]
    pub parts: LayerParts,
    /// Work of the layer in each pass.
    pub passes: Vec<LayerPass>,
}

/// One layer in one pass. The numbers sum over the passes to those of the layer.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LayerPass {
    /// `forward`, `input_gradient` (of inputs, and of weights where one operation computes both),
    /// `weight_gradient`, `recompute`; `other` where names of operations say no pass.
    pub pass_name: String,
    /// Computation.
    pub compute_ns: f64,
    /// Raw communication: the sum of the times that its collectives, sends and receives were in
    /// flight.
    pub comm_ns: f64,
    /// The part of communication in which nothing computed.
    pub exposed_comm_ns: f64,
}

/// Chunks of the collectives of one layer in one pass, in one phase.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LayerPhase {
    /// Name of the layer.
    pub layer: String,
    /// The pass, as in `layers`.
    pub pass_name: String,
    /// The phase, as in `phases`.
    pub phase: String,
    /// Dimension of the phase, from 0. Null for the ready queue.
    pub dim: Option<u64>,
    /// Chunk phases over all ranks.
    pub count: u128,
    /// Mean wait in the queue.
    pub queue_ns: f64,
    /// Mean time from leaving the queue to the end of the phase.
    pub network_ns: f64,
}

/// Time of each part of the step on a layer, ns; idle time belongs to no layer.
#[derive(Clone, Copy, Debug, Default)]
pub struct LayerParts {
    /// Time that was charged to the layer.
    pub charged: PerPart<f64>,
    /// How long its operations were in flight, for the parts that declare a field for it.
    pub in_flight: PerPart<f64>,
}

impl Serialize for LayerParts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (part, doing) in Part::charged() {
            if let Some(field) = doing.in_flight {
                map.serialize_entry(field, &self.in_flight[part])?;
            }
            map.serialize_entry(part.about().field, &self.charged[part])?;
        }
        map.end()
    }
}

/// Activity over time, one number per bin.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Activity {
    /// Each part of the step but idle time.
    #[serde(flatten)]
    pub parts: ActivityParts,
    /// Share of NPUs with a chunk in a phase on it, by dimension that collectives run over.
    pub dimensions: Vec<Vec<f64>>,
    /// Chunks in queues of the mean NPU, by dimension that collectives run over.
    pub waiting: Vec<Vec<f64>>,
}

/// Share of NPUs by what they do, 0..1, one number per bin. An NPU may do several things at once.
#[derive(Clone, Debug, Default)]
pub struct ActivityParts(pub PerPart<Vec<f64>>);

impl Index<Part> for ActivityParts {
    type Output = [f64];

    fn index(&self, part: Part) -> &[f64] {
        &self.0[part]
    }
}

impl Serialize for ActivityParts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (part, doing) in Part::charged() {
            map.serialize_entry(doing.field, &self.0[part])?;
        }
        map.end()
    }
}

/// Activity of the first rank of a class over time. One lane per pipeline stage (the first of its
/// classes), or per class where the generator named no stage.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct GanttLane {
    /// Index into `classes`.
    pub rank_class: u64,
    /// `stage 3`, or the first rank.
    pub label: String,
    /// In order of time, without overlaps. Gaps are waits for other stages and idle time.
    pub bars: Vec<GanttBar>,
}

/// A stretch of time in a lane.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct GanttBar {
    /// Begin.
    pub start_ns: f64,
    /// End.
    pub end_ns: f64,
    /// Kind of a pass of a micro-batch: `forward`, `backward`, `weight_grad` or `recompute`; else
    /// `optimizer`, or the activity or wait of the rank (`compute`, `communication`, `memory`,
    /// `launch`, `host`).
    pub kind: String,
    /// The micro-batch, or the layer.
    pub label: String,
}

/// Memory of an NPU over time.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct HeldMemory {
    /// Index into `classes`.
    pub rank_class: u64,
    /// The most that it holds within each bin, bytes.
    pub bytes: Vec<u64>,
}
