//! The platform as the simulator uses it: every choice made, every number in integers. Files become
//! this in `config/`.

use crate::config::native::network::Network;
use crate::library::Library;
use crate::profile::Profile;
use collective::custom::Custom;
use declared::{ByDim, section, words};
use device::compute::Compute;
use device::memory::RemoteMemory;
use graph::CollectiveKind;
use std::sync::Arc;
use topology::Fabric;
use trace::chakra::ReadOptions;
use units::{Bandwidth, Bytes, Flops, Ratio, Span};

pub use collective::{Algorithm, Hierarchy};

/// The algorithms of one collective kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// One algorithm for each dimension, innermost first. Shorter than the dimensions: the outer ones take
    /// no part (ASTRA-sim).
    pub per_dim: Vec<Algorithm>,
    /// One flat group over all ranks with the first algorithm (`oneRing`, ...) instead of dimension
    /// by dimension.
    pub flat: bool,
}

/// Collective settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Collectives {
    /// By `CollectiveKind as usize`; `None`: chosen by block (Ring: bidirectional ring, or ring for
    /// rooted kinds and parts of it; Mesh: ring; FullyConnected: direct; Switch: halving-doubling
    /// for powers of two, rooted kinds and the barrier, else direct).
    pub choices: [Option<Choice>; CollectiveKind::ALL.len()],
    /// All-reduce over several dimensions.
    pub hierarchy: Hierarchy,
    /// How the rings run that are chosen by block.
    pub rings: Rings,
    /// By `CollectiveKind as usize`: an algorithm read from a file, which overrides `choices`.
    pub custom: [Option<CustomAlgorithm>; CollectiveKind::ALL.len()],
    /// By workload node id: stronger than `custom`.
    pub custom_nodes: std::collections::BTreeMap<u64, CustomAlgorithm>,
}

/// An algorithm from a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CustomAlgorithm {
    /// Chakra traces with sizes of their own.
    Chakra(Arc<Custom>),
    /// MSCCL XML, in fractions of the buffer.
    Msccl(Arc<trace::msccl::Algorithm>),
}

impl CustomAlgorithm {
    /// The operation graphs for a buffer of `bytes` (the larger of input and output of a rank).
    pub fn sized(&self, bytes: Bytes) -> Arc<Custom> {
        match self {
            CustomAlgorithm::Chakra(custom) => custom.clone(),
            CustomAlgorithm::Msccl(algorithm) => {
                let positions = algorithm.programs(bytes).into_iter().map(Arc::new).collect();
                Arc::new(Custom { name: algorithm.name.clone(), positions })
            }
        }
    }
}

impl Collectives {
    /// The algorithm from a file for a kind, or for one node.
    pub fn custom_for(&self, kind: CollectiveKind, node: Option<u64>) -> Option<&CustomAlgorithm> {
        node.and_then(|id| self.custom_nodes.get(&id)).or(self.custom[kind as usize].as_ref())
    }
}

/// In which order collectives get a free slot of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Later issued first.
    Lifo,
    /// Earlier issued first.
    Fifo,
    /// By the node's priority, larger first; then earlier first.
    Explicit,
    /// By the buffer of the chunk's phase, smaller first; then entered earlier (Themis, ISCA 2022).
    SmallestFirst,
}

/// Order of the rings that no key names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rings {
    /// Both ways at once, where the ring is closed.
    #[default]
    BothWays,
    /// One way.
    OneWay,
}

/// How the order of dimensions is chosen for each chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DimensionOrder {
    /// Innermost first, every chunk.
    #[default]
    Baseline,
    /// Greedy by predicted load (Rashidi et al., ISCA 2022).
    Themis,
    /// Greedy by bytes over bandwidth, as ASTRA-sim's scheduler of that name.
    OfflineGreedy,
    /// A share of the bytes begins on each dimension.
    AllAtOnce,
}

words!(
    Policy:
    "lifo" = Policy::Lifo,
    "fifo" = Policy::Fifo,
    "explicit" = Policy::Explicit,
    "smallest_first" = Policy::SmallestFirst,
);
words!(
    Rings:
    "both_ways" = Rings::BothWays,
    "one_way" = Rings::OneWay,
);
words!(
    DimensionOrder:
    "baseline" = DimensionOrder::Baseline,
    "themis" = DimensionOrder::Themis,
    "offline_greedy" = DimensionOrder::OfflineGreedy,
    "all_at_once" = DimensionOrder::AllAtOnce,
);

section! {
    /// Scheduler settings.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Scheduler {
        /// In which order collectives get a free slot of a dimension
        /// ([scheduling](../models/scheduling.md)).
        pub policy: Policy, default Policy::Fifo;
        /// All-to-alls before all other collectives. `policy` orders those of either kind.
        pub all_to_all_first: bool, default false;
        /// The order of dimensions of each chunk
        /// ([scheduling](../models/scheduling.md#order-of-dimensions)).
        pub dimension_order: DimensionOrder, default DimensionOrder::Baseline;
        /// Chunks that a collective is cut into. On a single dimension the default is 1.
        pub chunks: u32, default 16;
        /// A chunk of an NPU waits in its ready queue while this number of its chunks have not
        /// ended their first phase ([scheduling](../models/scheduling.md#the-ready-queue)).
        pub dispatch_below: u32 as limit, default 0;
        /// Chunks that leave the ready queue at a time. Counts with `dispatch_below` only.
        pub dispatch_chunks: u32, default 1;
        /// Chunk phases that may run at once on a dimension of an NPU. A list has one number for each
        /// dimension.
        pub active_chunks: ByDim<u32>, default ByDim::All(1);
        /// Queues of a dimension. Chunk phases are spread over them. A list has one number for each
        /// dimension.
        pub queues_per_dim: ByDim<u32>, default ByDim::All(1);
        /// Delay before the first send of a phase and after every reception.
        pub endpoint_delay: Span, default Span::from_ns(10);
        /// Collectives and sends that may run at once on an NPU (0 inside: no limit).
        pub comm_streams: u32 as limit, default 0;
        /// Receivers announce themselves before a message starts.
        pub rendezvous: bool, default false;
        /// Every node takes its recorded duration; nothing is sent.
        pub replay_only: bool, default false;
    }
}

/// A count, or `unlimited` (0 inside).
mod limit {
    use declared::findings::{At, Findings};
    use declared::tree::Value;
    use declared::{Setting, Shown};

    const UNLIMITED: &str = "unlimited";

    pub(super) fn kind() -> String {
        format!("count, or `{UNLIMITED}`")
    }

    pub(super) fn example() -> String {
        "a whole number from 1, or unlimited".into()
    }

    pub(super) fn read(at: &At<'_>, findings: &mut Findings) -> Option<u32> {
        match &at.tree.value {
            Value::Text(text) if text == UNLIMITED => Some(0),
            Value::Int(1..=4_294_967_295) => u32::read(at, findings),
            _ => {
                let message = format!("{} is not allowed", at.tree.show());
                findings.refuse(at, message, example());
                None
            }
        }
    }

    pub(super) fn show(value: &u32) -> Option<Shown> {
        if *value == 0 { Some(Shown::of(UNLIMITED)) } else { value.show() }
    }

    pub(super) fn json(value: &u32) -> serde_json::Value {
        value.json()
    }
}

/// The queues of a dimension of an NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// Their number, from 1.
    pub count: u32,
    /// Chunk phases at once in each of them, from 1.
    pub room: u32,
}

impl Queues {
    /// Chunk phases at once in all of them.
    pub fn active(self) -> u64 {
        u64::from(self.count) * u64::from(self.room)
    }
}

/// When chunks leave the ready queue of an NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// Only while fewer chunks than this are in their first phase.
    pub below: u32,
    /// Chunks at a time.
    pub chunks: u32,
}

impl Scheduler {
    /// When chunks leave the ready queue; `None`: at once.
    pub fn dispatch(&self) -> Option<Dispatch> {
        let Scheduler { dispatch_below: below, dispatch_chunks: chunks, .. } = *self;
        (below > 0).then_some(Dispatch { below, chunks: chunks.max(1) })
    }

    /// The queues of a dimension that collectives run over.
    pub fn queues(&self, dim: usize) -> Queues {
        let count = (*self.queues_per_dim.at(dim)).max(1);
        Queues { count, room: self.active_chunks.at(dim).div_ceil(count).max(1) }
    }

    /// The keys with a list, and how many entries it has.
    pub(crate) fn lists(&self) -> [(&'static str, Option<usize>); 2] {
        [
            (Scheduler::active_chunks, self.active_chunks.entries()),
            (Scheduler::queues_per_dim, self.queues_per_dim.entries()),
        ]
    }
}

/// Behaviour where an NPU's memory holds more than its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Exceeded {
    /// The report warns.
    #[default]
    Warn,
    /// The run is refused, or ends when it happens.
    Refuse,
    /// The memory that was allocated first moves to memory outside the NPU, and back when it is
    /// freed.
    Spill,
}

words!(
    Exceeded:
    "warn" = Exceeded::Warn,
    "refuse" = Exceeded::Refuse,
    "spill" = Exceeded::Spill,
);

section! {
    /// Time that a host needs to launch one piece of work on its NPU.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Launch short kernel {
        /// A kernel. A collective takes this and `per_member` for every other member.
        pub kernel: Span, default Span::ZERO;
        /// Time that a collective takes for every member other than the NPU itself.
        pub per_member: Span, default Span::ZERO, was ["member"];
        /// A send.
        pub send: Span, like kernel;
        /// A receive, before it waits for what it receives.
        pub receive: Span, default Span::ZERO;
    }
}

/// One NPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Npu {
    /// Name for people.
    pub name: String,
    /// Compute model.
    pub compute: Compute,
    /// Divisor of every duration of NPU compute, recorded or modelled.
    pub compute_scale: Ratio,
    /// Part of their speed that kernels lose while their NPU communicates.
    pub comm_overlap_slowdown: Ratio,
    /// Hardware on which the efficiencies of its compute were fitted, where no measured step
    /// supports this NPU.
    pub fitted_on: Option<String>,
    /// Peak rate, if known.
    pub peak: Option<Flops>,
    /// Time that its host needs to launch work, one piece after the other; it waits for receives.
    pub launch: Launch,
    /// Local memory bandwidth; `None`: reductions cost nothing.
    pub memory_bandwidth: Option<Bandwidth>,
    /// Fixed part of an access to local memory by a load or store node.
    pub memory_latency: Span,
    /// Local memory size, if known.
    pub memory_capacity: Option<Bytes>,
    /// Behaviour where more is held than that.
    pub memory_on_overflow: Exceeded,
    /// While their NPU communicates, kernels have what communication leaves of its memory's
    /// bandwidth.
    pub memory_contention: bool,
    /// Kernels of the NPU by themselves, if known.
    pub kernels: Option<kernels::Kernels>,
}

/// Files of algorithms that override the built-in ones; readers leave the paths here, loading them
/// fills `Collectives::custom`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CustomPaths {
    /// By `CollectiveKind as usize`: a path, or a prefix of `PREFIX.<position>.et`.
    pub kinds: [Option<String>; CollectiveKind::ALL.len()],
    /// By workload node id; stronger than `kinds`.
    pub nodes: std::collections::BTreeMap<u64, String>,
}

/// Statement of a platform on measurements of its collectives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Measured {
    /// Nothing.
    #[default]
    NotSaid,
    /// There are none.
    Nothing,
    /// Where they are from.
    By(String),
}

impl Measured {
    const NOTHING: &str = "none";

    /// Statement in a file.
    pub(crate) fn of(said: Option<String>) -> Measured {
        match said {
            None => Measured::NotSaid,
            Some(text) if text == Measured::NOTHING => Measured::Nothing,
            Some(text) => Measured::By(text),
        }
    }

    /// Statement as a file would have it.
    pub fn said(&self) -> Option<&str> {
        match self {
            Measured::NotSaid => None,
            Measured::Nothing => Some(Measured::NOTHING),
            Measured::By(text) => Some(text),
        }
    }
}

/// Everything but the workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    /// Name for people.
    pub name: String,
    /// Where the numbers are from, free text; possibly empty.
    pub source: String,
    /// Measurements of collectives that it was compared with.
    pub measured: Measured,
    /// Network.
    pub fabric: Fabric,
    /// How the network is simulated: backend, routes, settings of backends.
    pub network: Network,
    /// Sizes of the logical dimensions collectives run over, when they differ from the physical
    /// ones; product = NPUs.
    pub logical: Option<Vec<u32>>,
    /// NPU.
    pub npu: Npu,
    /// Memory outside the NPUs, if any.
    pub remote_memory: Option<RemoteMemory>,
    /// Collectives.
    pub collectives: Collectives,
    /// The communication library that does them; `None`: the algorithms of `collectives`.
    pub library: Option<Library>,
    /// Scheduler.
    pub scheduler: Scheduler,
    /// Algorithms to load from files.
    pub custom_paths: CustomPaths,
    /// Whose semantics: ours, or ASTRA-sim's.
    pub profile: Profile,
    /// Warnings that reading the files gave rise to; they stand at the top of the report.
    pub warnings: Vec<String>,
    /// Presets that have what is left out here, where somebody looked for them.
    pub like: Like,
}

/// Presets with what a platform leaves out, as a report names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Like {
    /// Efficiencies of such an NPU's kernels.
    pub compute: Option<String>,
    /// A library on such a network.
    pub library: Option<String>,
}

impl Platform {
    /// Sizes of the dimensions that collectives run over, innermost first; an explicit graph without
    /// coordinates is one.
    pub fn sizes(&self) -> Vec<u32> {
        self.logical.clone().unwrap_or_else(|| self.fabric.sizes())
    }

    /// How forgiving the trace reader is on this platform.
    pub fn read_options(&self) -> ReadOptions {
        ReadOptions { replay: self.scheduler.replay_only }
    }
}
