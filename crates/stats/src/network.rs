//! Use of the network: bounds, dimensions, phases of collectives, links, and what the backend
//! observed.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// Lower bounds of the step from the bytes it sends, whatever the schedule. Both hold where no
/// dimension's `utilisation` is above 1. `step_time_ns` over a bound is the gap to the ideal.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Bounds {
    /// With these bytes on each dimension: the largest `bound_ns` of a dimension.
    pub dimension_ns: f64,
    /// With the bytes moved between dimensions so that all are busy: sum of bytes over sum of
    /// usable bandwidth and NPUs.
    pub network_ns: f64,
}

/// One network dimension.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Dimension {
    /// `Ring(4)`.
    pub name: String,
    /// Bandwidth of one link in one direction, GB/s (1e9).
    pub link_gb_per_s: f64,
    /// Outgoing bandwidth of one NPU over all its links, GB/s (1e9). On a graph the mean.
    pub npu_gb_per_s: f64,
    /// The part of `npu_gb_per_s` that the algorithms of the run can use: the fastest phase by
    /// itself, times the chunks that may run at once, up to the links in the directions taken. A
    /// ring run one way uses one link. All links on graphs, with rendezvous, and where messages,
    /// algorithms from files or groups that are not lines use the network.
    pub usable_gb_per_s: f64,
    /// Bytes sent by all NPUs over this dimension. Every hop of a ring counts. On a graph: what
    /// leaves NPUs (link queues), what is sent (analytical).
    pub bytes: u128,
    /// `bytes / (npu_gb_per_s * step time * NPUs)`. Above 1 only where the network has no
    /// contention behind the first link.
    pub utilisation: f64,
    /// `bytes / (usable_gb_per_s * NPUs)`: the least time for them.
    pub bound_ns: f64,
    /// Time in which at least one chunk of the mean NPU was in a phase on this dimension. Sends and
    /// receives of the workload don't count. 0 with `logical` dimensions.
    pub busy_ns: f64,
    /// Time that its busiest link was sending. Null for a backend without links.
    pub link_busy_ns: Option<f64>,
    /// Percent of each bin of `network` in which the busiest link was sending, two hexadecimal
    /// digits each. Null for a backend without links, and without detail.
    pub link_sends: Option<String>,
}

/// One phase position of multi-phase collectives.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Phase {
    /// `P1 reduce_scatter Ring(4)`: the first phase of its chunk; `P0 ready queue`: the wait before
    /// it, where the scheduler has a ready queue.
    pub name: String,
    /// Chunk phases over all ranks.
    pub count: u128,
    /// Mean wait in the queue.
    pub queue_ns: f64,
    /// Mean time from leaving the queue to the end of the phase.
    pub network_ns: f64,
}

/// One link, and the number of links that were used just like it.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Link {
    /// The first of them: `npu3 -> npu4 (dimension 1)`.
    pub name: String,
    /// Number of links.
    pub count: u64,
    /// Bytes that each carried.
    pub bytes: u64,
    /// Time that each was sending.
    pub busy_ns: f64,
    /// Messages that each carried.
    pub messages: u64,
    /// Mean wait in the link's queue.
    pub queue_mean_ns: f64,
    /// Most messages waiting at once.
    pub queue_max: u64,
}

/// Observations of the backend while the network ran.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Network {
    /// The backend that observed it: `analytical`, `link`.
    pub kind: String,
    /// Transfers by size, the most bytes in all first, at most 20 rows.
    pub flows: Vec<Flow>,
    /// Width of the bins of `series`, ns. The last bin ends with the step.
    pub bin_ns: f64,
    /// Links over time, those that send the longest first, equal ones in one row, at most 20 links.
    /// Empty for a backend without links.
    pub series: Vec<Series>,
}

/// Transfers of one size, over all ranks.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Flow {
    /// Bytes of each.
    pub bytes: u64,
    /// How many.
    pub transfers: u128,
    /// Mean time from the start of a transfer to its arrival.
    pub mean_ns: f64,
    /// Longest time of a transfer.
    pub max_ns: f64,
}

/// A quantity over time, and the number of links with the same.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Series {
    /// The first of the links: `npu3 -> npu4 (dimension 1)`.
    pub name: String,
    /// Number of links.
    pub count: u64,
    /// `utilisation` (share of the bin in which the link sends, 0..1), `waiting` (mean number of
    /// messages in its queue, or of flits that wait for it) or `occupancy` (mean number of flits in
    /// the buffers behind it).
    pub quantity: String,
    /// One number per bin.
    pub values: Vec<f64>,
}
