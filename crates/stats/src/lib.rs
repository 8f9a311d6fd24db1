//! What a run tells: the Report. Data only; `sim` fills it, Python and people read it.
//!
//! Here: the serialised form, stable by [`SCHEMA`]. Times are nanoseconds with decimals (exact to
//! the picosecond up to 2^53 ps). Not here: pictures and pages (`python/armillary/report`).

use serde::Serialize;
use serde_json::value::RawValue;

/// Names the form of the report; changes when a field changes its meaning.
pub const SCHEMA: &str = "armillary.report/1";

/// A report: the same input gives the same bytes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of Armillary.
    pub version: String,
    /// What was asked for, fully resolved.
    pub config: Config,
    /// Seed of every random stream.
    pub seed: u64,
    /// Digest of the event stream, 16 hexadecimal digits. Equal for folded and unfolded runs.
    pub digest: String,
    /// Models used outside their validity, settings without effect, counted oddities of the input.
    pub warnings: Vec<String>,
    /// What the platform leaves out, what the result assumes instead, and which preset has it; only
    /// what matters to this run.
    pub assumptions: Vec<String>,
    /// End of the last rank, ns.
    pub step_time_ns: f64,
    /// Number of ranks.
    pub ranks: u64,
    /// Ranks that behave alike, by first rank.
    pub classes: Vec<Class>,
    /// The symmetry that folding uses.
    pub symmetry: Symmetry,
    /// How fast the network could be at best.
    pub bounds: Bounds,
    /// Per network dimension.
    pub dimensions: Vec<Dimension>,
    /// Per phase of multi-phase collectives, P0 being the wait before the first phase.
    pub phases: Vec<Phase>,
    /// Operations of one kind and pattern of names, the most costly first, at most 50.
    pub operations: Vec<Operation>,
    /// Links by busy time (link backend), equal ones in one row, at most 20 rows.
    pub links: Vec<Link>,
    /// Work done.
    pub counts: Counts,
    /// Layers, activity over time and the critical path; `None` unless asked for.
    pub detail: Option<Detail>,
}

/// What was asked for.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Config {
    /// `analytical`, `link`.
    pub backend: String,
    /// The platform, resolved.
    pub platform: serde_json::Value,
    /// The platform as a file; `None` where no file of ours can say it.
    pub platform_file: Option<String>,
    /// The workload.
    pub workload: Origin,
}

/// Where a workload is from, and what its generator says of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Origin {
    /// Communicator groups.
    pub groups: u64,
    /// The file of its communicator groups, as the user named it.
    pub groups_file: Option<String>,
    /// The model it was made of and the options, where it was not read from files.
    pub model: Option<Box<RawValue>>,
    /// How often the layers of a text run; 1 for everything else.
    pub passes: u32,
    /// Distinct programs.
    pub programs: u64,
    /// Parameters, operations, volumes and memory, as the generator wrote them: its numbers can
    /// have more than 64 bits.
    pub summary: Option<Box<RawValue>>,
    /// The path, as the user named it.
    pub traces: Option<String>,
}

/// Ranks that behave alike.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Class {
    /// What its generator calls them, `stage 3`; empty where it says nothing.
    pub label: String,
    /// Ranks as `0-7,16`, or `0-56:8` for every eighth.
    pub ranks: String,
    /// How many.
    pub count: u64,
    /// Index of their program.
    pub program: u32,
    /// End of the last operation.
    pub finish_ns: f64,
    /// Compute busy.
    pub compute_ns: f64,
    /// Communication in flight and nothing computed.
    pub exposed_comm_ns: f64,
    /// Access to memory outside the NPU in flight, no compute and no communication.
    pub exposed_remote_ns: f64,
    /// Access to the NPU's own memory in flight, and nothing else.
    pub exposed_local_ns: f64,
    /// Nothing in flight, and its host has yet to launch what could be: a kernel, a collective, a
    /// send, a receive.
    pub exposed_launch_ns: f64,
    /// Nothing in flight but work of the host, which the NPU waits for.
    pub exposed_host_ns: f64,
    /// Nothing in flight: pipeline bubbles. The seven parts sum to `step_time_ns`.
    pub idle_ns: f64,
    /// Communication in flight, overlapped or not.
    pub comm_ns: f64,
    /// The most that the NPU's memory held; 0 where the workload doesn't say.
    pub peak_memory_bytes: u64,
    /// Finish minus compute: what ASTRA-sim prints as "exposed communication".
    pub finish_minus_compute_ns: f64,
}

/// The symmetry of the workload on the platform. The same whether the run was folded or not.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Symmetry {
    /// Sets of ranks that must behave alike; a folded run simulates one rank of each.
    pub classes: u64,
    /// Why there are as many: which rank, group or choice sets ranks apart; empty when all ranks
    /// are alike.
    pub reason: String,
}

/// Times below which the bytes sent cannot come, whatever is scheduled how.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Bounds {
    /// With these bytes on each dimension: the largest `bound_ns` of a dimension.
    pub dimension_ns: f64,
    /// With the bytes moved between dimensions so that all are busy: sum of bytes over sum of
    /// usable bandwidth.
    pub network_ns: f64,
}

/// One network dimension.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Dimension {
    /// `Ring(4)`.
    pub name: String,
    /// Bandwidth of one link in one direction, GB/s (1e9).
    pub link_gb_per_s: f64,
    /// Outgoing bandwidth of one NPU over all its links, GB/s (1e9).
    pub npu_gb_per_s: f64,
    /// Of that what the algorithms of the run can use, GB/s: a ring run one way uses one of its two
    /// links.
    pub usable_gb_per_s: f64,
    /// Bytes sent by all NPUs over this dimension.
    pub bytes: u128,
    /// Bytes over (outgoing bandwidth x step time x NPUs), 0..1.
    pub utilisation: f64,
    /// Bytes over (usable bandwidth x NPUs): the least time for them.
    pub bound_ns: f64,
    /// Time in which at least one chunk of the mean NPU was in a phase on this dimension.
    pub busy_ns: f64,
}

/// One phase position.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Phase {
    /// `P1 reduce_scatter Ring(4)`.
    pub name: String,
    /// Chunk phases over all ranks.
    pub count: u128,
    /// Mean wait in the queue.
    pub queue_ns: f64,
    /// Mean time from leaving the queue to the end of the phase.
    pub network_ns: f64,
}

/// Operations of one kind whose names differ only in numbers, over all ranks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Operation {
    /// Their name, a star for each number in it.
    pub name: String,
    /// `compute`, `all_reduce`, `send`, ...
    pub kind: String,
    /// How many, over all ranks.
    pub count: u128,
    /// Time of all ranks that is charged to them: each moment of a rank goes to one operation, to
    /// what computes, else to the communication that ends first, else to memory, a launch or the
    /// host. Summed over all operations: the time of all ranks but their idle time.
    pub cost_ns: f64,
    /// Sum of their durations over all ranks, overlapped or not. A receive lasts from when it is
    /// posted.
    pub total_ns: f64,
    /// Longest.
    pub max_ns: f64,
    /// Bytes over all ranks (communication and memory).
    pub bytes: u128,
    /// Floating-point operations over all ranks.
    pub flops: u128,
    /// Bytes that computations read and write, over all ranks.
    pub compute_bytes: u128,
}

/// One link, and how many are used just like it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Link {
    /// `npu3 -> npu4 (dimension 1)`: the first of them.
    pub name: String,
    /// How many.
    pub count: u64,
    /// Bytes carried.
    pub bytes: u64,
    /// Time sending.
    pub busy_ns: f64,
    /// Messages carried.
    pub messages: u64,
    /// Mean wait in the link's queue.
    pub queue_mean_ns: f64,
    /// Most messages waiting at once.
    pub queue_max: u64,
}

/// Work done, over all ranks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Operations.
    pub operations: u128,
    /// Transfers.
    pub transfers: u128,
}

/// What takes a log of the run to tell.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Detail {
    /// Sums of every layer of the first rank of each class (of at most 64), in order of appearance.
    pub layers: Vec<Layer>,
    /// Width of the bins of `activity`, ns; the last bin ends with the step.
    pub bin_ns: f64,
    /// What NPUs and dimensions do over time.
    pub activity: Activity,
    /// What pipeline stages or classes of ranks do over time, to be drawn as one bar chart; at most
    /// 64 lanes.
    pub gantt: Vec<GanttLane>,
    /// What the first rank of each class (of at most 64) holds over time, where its program says
    /// so.
    pub memory: Vec<HeldMemory>,
    /// The chain of operations that the step takes as long as.
    pub critical_path: CriticalPath,
    /// What collectives and sends take their time for, alike ones in one row, by total time, at
    /// most 50.
    pub collectives: Vec<Collective>,
}

/// One layer on one class of ranks. Exposed parts sum over the layers to those of the class.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Layer {
    /// Index into `Report::classes`.
    pub rank_class: u64,
    /// Name of the layer.
    pub layer: String,
    /// Time computing.
    pub compute_ns: f64,
    /// Sum of the times that its communication was in flight.
    pub comm_ns: f64,
    /// Communication in flight that nothing computed beside; of several in flight the one that ends
    /// first counts.
    pub exposed_comm_ns: f64,
    /// Sum of the times that its accesses to memory outside the NPU were in flight.
    pub remote_ns: f64,
    /// Access to memory outside the NPU, neither compute nor communication beside.
    pub exposed_remote_ns: f64,
    /// Sum of the times that its accesses to the NPU's own memory were in flight.
    pub local_ns: f64,
    /// Access to the NPU's own memory, and nothing else beside.
    pub exposed_local_ns: f64,
    /// Waiting for the host to launch it, and nothing in flight.
    pub exposed_launch_ns: f64,
    /// Sum of the times that its work on the host ran.
    pub host_ns: f64,
    /// Its work on the host, and nothing else in flight.
    pub exposed_host_ns: f64,
}

/// Activity over time, a number a bin.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Activity {
    /// Share of NPUs that compute, 0..1.
    pub compute: Vec<f64>,
    /// Share of NPUs that communicate, 0..1.
    pub communication: Vec<f64>,
    /// Share of NPUs that access memory outside them, 0..1.
    pub remote: Vec<f64>,
    /// Share of NPUs with an access to their own memory by a node of its own, 0..1.
    pub local: Vec<f64>,
    /// Share of NPUs that wait for their host to launch something, 0..1.
    pub launch: Vec<f64>,
    /// Share of NPUs whose host works on a node of its own, 0..1.
    pub host: Vec<f64>,
    /// Share of NPUs with a chunk in a phase on it, by dimension that collectives run over.
    pub dimensions: Vec<Vec<f64>>,
    /// Chunks in queues of the mean NPU, by dimension that collectives run over.
    pub waiting: Vec<Vec<f64>>,
}

/// What the first rank of a class does over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GanttLane {
    /// Index into `Report::classes`.
    pub rank_class: u64,
    /// `stage 3`, or the ranks.
    pub label: String,
    /// In order of time, none over another. Gaps are waits for other stages and idle time.
    pub bars: Vec<GanttBar>,
}

/// A stretch of time in a lane.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GanttBar {
    /// Begin.
    pub start_ns: f64,
    /// End.
    pub end_ns: f64,
    /// Of a pass of a micro-batch `forward`, `backward`, `weight_grad` or `recompute`; else
    /// `optimizer`, `compute`, `communication`, `memory`, `launch` or `host`.
    pub kind: String,
    /// The micro-batch, or the layer.
    pub label: String,
}

/// Memory of an NPU over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HeldMemory {
    /// Index into `Report::classes`.
    pub rank_class: u64,
    /// The most that it holds within each bin, bytes.
    pub bytes: Vec<u64>,
}

/// A chain of operations without a gap, from the beginning of the step to its end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CriticalPath {
    /// Segments in all.
    pub count: u64,
    /// The longest (at most 400), in order of time.
    pub segments: Vec<PathSegment>,
    /// By kind of operation, the time of the path in each bin of `Detail::bin_ns`; the kinds of a
    /// bin sum to its width.
    pub over_time: Vec<PathSeries>,
    /// Sums of all segments by kind of operation, largest first.
    pub by_kind: Vec<PathPart>,
    /// Sums of all segments by layer, largest first.
    pub by_layer: Vec<PathPart>,
    /// Sums of all segments by cause, largest first.
    pub by_cause: Vec<PathPart>,
    /// Sums of all segments by operation, largest first, at most 200.
    pub by_operation: Vec<PathOperation>,
}

/// One kind of operation on the critical path, over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PathSeries {
    /// `compute`, `all_reduce`, ..., `launch`.
    pub kind: String,
    /// Time of the path in each bin.
    pub ns: Vec<f64>,
}

/// A stretch of the critical path.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PathSegment {
    /// The rank it is on; the first of its class.
    pub rank: u64,
    /// Id of the operation in the trace.
    pub node: u64,
    /// Its name.
    pub name: String,
    /// Its kind: `compute`, `all_reduce`, ...; `launch` while it waited for its host to launch it.
    pub kind: String,
    /// Its layer.
    pub layer: String,
    /// When the path comes to it.
    pub start_ns: f64,
    /// When it ends.
    pub end_ns: f64,
    /// Why it began then: `dependency`, `resource` (what it needs was held), `last member` (of its
    /// collective came), `message` (was sent), `launch` (its host launched it), `start` (of the
    /// run).
    pub cause: String,
}

/// Operations of the same kind and name on the critical path.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PathOperation {
    /// Their name, a star for each number in it.
    pub name: String,
    /// Their kind.
    pub kind: String,
    /// Segments.
    pub count: u64,
    /// Their time.
    pub ns: f64,
    /// Why most of it began when it did, as of a segment.
    pub cause: String,
}

/// Collectives, or sends, of one name, kind and size. Means are over all ranks: `late_ns -
/// ahead_ns` and all times of `terms` sum to `mean_ns`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Collective {
    /// Their name, a star for each number in it.
    pub name: String,
    /// `all_reduce`, ..., `send`.
    pub kind: String,
    /// Bytes of each, as the trace gives them.
    pub bytes: u64,
    /// Ranks that take part in one.
    pub ranks: u64,
    /// Chunks of each.
    pub chunks: u64,
    /// How many, over all ranks.
    pub count: u128,
    /// Ids in the traces, the first 64.
    pub nodes: Vec<u64>,
    /// Mean time from a rank's start to its end.
    pub mean_ns: f64,
    /// Longest.
    pub max_ns: f64,
    /// Mean wait for the rank whose coming the end depends on (a send: for its receiver to be
    /// ready).
    pub late_ns: f64,
    /// Mean time by which what the end depends on had begun before the rank came.
    pub ahead_ns: f64,
    /// What a chunk goes through.
    pub phases: Vec<CollectivePhase>,
    /// What the time is made of, by dimension, along the chain of what waited for what.
    pub terms: Vec<CollectiveTerms>,
    /// The names of what was waited for longest in queues and for links, with the mean waits of
    /// those that waited for it longest.
    pub behind: Vec<PathPart>,
}

/// One phase of a full chunk.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CollectivePhase {
    /// Index of the dimension.
    pub dim: u64,
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: String,
    /// How.
    pub algorithm: String,
    /// Positions.
    pub ranks: u64,
    /// Messages that the mean position sends.
    pub sends: f64,
    /// Bytes that the mean position sends.
    pub sent_bytes: f64,
}

/// What the mean time of a collective is made of on one dimension.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CollectiveTerms {
    /// Index of the dimension.
    pub dim: u64,
    /// Messages that wait for one another.
    pub messages: f64,
    /// Bytes of those.
    pub bytes: f64,
    /// Latency of their paths.
    pub latency_ns: f64,
    /// Bytes over bandwidth of the links they cross.
    pub transfer_ns: f64,
    /// Waiting for the link out of the NPU behind messages of the same collective: their bytes over
    /// its bandwidth.
    pub port_ns: f64,
    /// Endpoint delays.
    pub endpoint_ns: f64,
    /// Reductions of what was received.
    pub reduction_ns: f64,
    /// Waiting for the link out of the NPU behind messages of other operations.
    pub contention_ns: f64,
    /// Waiting for links inside the network.
    pub congestion_ns: f64,
    /// Chunks waiting in queues for those of other operations.
    pub queue_ns: f64,
    /// Algorithms from files.
    pub algorithm_ns: f64,
}

impl CollectiveTerms {
    /// All times.
    pub fn total_ns(&self) -> f64 {
        let network = self.latency_ns
            + self.transfer_ns
            + self.port_ns
            + self.contention_ns
            + self.congestion_ns;
        network + self.endpoint_ns + self.reduction_ns + self.queue_ns + self.algorithm_ns
    }
}

/// A part of the critical path.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PathPart {
    /// Kind, layer or cause.
    pub name: String,
    /// Segments.
    pub count: u64,
    /// Their time.
    pub ns: f64,
}
