//! The report as a whole, and what was asked for.

use crate::{
    Bounds, Class, Counts, Detail, Dimension, Flits, Link, Network, Operation, Outside, Packets,
    Phase, Picture, Roofline, Symmetry,
};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

/// Result of a run. The same input gives the same bytes.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Report {
    /// `armillary.report/1`. Changes when a field changes its meaning.
    pub schema: String,
    /// Version of Armillary.
    pub version: String,
    /// Request, fully resolved.
    pub config: Config,
    /// Seed of every random stream. No model of this release draws from one.
    pub seed: u64,
    /// 16 hexadecimal digits over (node, time) of every completion of every rank. Equal digests
    /// mean equal runs, folded or not.
    pub digest: String,
    /// Models used outside their validity (a dimension that carried more than its links can),
    /// settings without effect, counted oddities of the input.
    pub warnings: Vec<String>,
    /// Assumptions of the result where the platform leaves something out, and which preset has it.
    /// Only those that matter to this run.
    pub assumptions: Vec<String>,
    /// End of the last rank, ns.
    pub step_time_ns: f64,
    /// Number of ranks.
    pub ranks: u64,
    /// Whether the workload fits the memory of its NPUs: `yes`, `no`, or `near` where what it needs
    /// is closer to the capacity than predictions are exact (docs/models/memory.md). Null where what
    /// it needs or the capacity is unknown.
    pub fits: Option<String>,
    /// Memory that the most heavily loaded NPU needs, as the workload's generator says or, where
    /// that is more, as the run held. Null where neither says anything.
    pub memory_bytes: Option<u64>,
    /// Contents of memory outside of the NPUs, one row per kind of memory. Empty where nothing is
    /// there, and in a replay.
    pub outside: Vec<Outside>,
    /// Ranks with the same program and the same times, by first rank.
    pub classes: Vec<Class>,
    /// The symmetry that folding uses.
    pub symmetry: Symmetry,
    /// How fast the network could be at best.
    pub bounds: Bounds,
    /// One row per network dimension, innermost first. An explicit graph is one dimension.
    pub dimensions: Vec<Dimension>,
    /// One row per position, kind and dimension of collective phases.
    pub phases: Vec<Phase>,
    /// Operations by kind and pattern of names, the most costly first, at most 1,000.
    pub operations: Vec<Operation>,
    /// Links by busy time, equal ones in one row, at most 20 rows. Empty for a backend without
    /// queues.
    pub links: Vec<Link>,
    /// Transfers by size, and links over time. Null unless asked for, as `detail`, and for a
    /// backend that observes nothing.
    pub network: Option<Network>,
    /// Counts of packets. Null for a backend without packets.
    pub packets: Option<Packets>,
    /// Counts of flits. Null for a backend without flits.
    pub flits: Option<Flits>,
    /// The network as pages draw it. Null for stacks that have blocks other than rings and meshes,
    /// which are drawn from `config`. Null for more than 64 nodes unless asked for, as `detail`.
    pub picture: Option<Picture>,
    /// Work done, over all ranks.
    pub counts: Counts,
    /// Layers, activity over time and the critical path. Null unless asked for: `--json`,
    /// `--report`, `simulate(detail=True)`.
    pub detail: Option<Detail>,
    /// The roofline of a recommendation model's step. Null for other workloads. The Python package
    /// fills it in (`explain/dlrm_parts.py`), which knows what the operations of models mean.
    pub roofline: Option<Roofline>,
}

/// Request of a run.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Config {
    /// Name of the network backend, such as `analytical`.
    pub backend: String,
    /// The platform with every default filled in.
    pub platform: serde_json::Value,
    /// The platform as a file that reads back to it. Null under ASTRA-sim's rules.
    pub platform_file: Option<String>,
    /// The workload.
    pub workload: Origin,
}

/// Where a workload comes from, and what its generator says about it.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Origin {
    /// Bytes of the buckets in which a text workload exchanges weight gradients. Null where each
    /// layer has its own exchange, and for everything else.
    pub bucket_bytes: Option<u64>,
    /// Number of communicator groups.
    pub groups: u64,
    /// The file of its communicator groups, as the user named it.
    pub groups_file: Option<String>,
    /// The model it was made from and the options. Null for a workload read from files.
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub model: Option<Box<RawValue>>,
    /// Whether computation of a text workload goes on while collectives are under way. True for
    /// everything else.
    pub overlap: bool,
    /// How often the layers of a text workload run. 1 for everything else.
    pub passes: u32,
    /// Number of distinct programs.
    pub programs: u64,
    /// Parameters, operations, batch and memory, as `armillary workload --json` writes them. Null
    /// where they were not counted. Its numbers can have more than 64 bits.
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub summary: Option<Box<RawValue>>,
    /// The path it was read from, as the user named it. Null for a workload that a program made.
    pub traces: Option<String>,
}
