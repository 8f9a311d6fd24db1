//! The platform as the simulator uses it: every choice made, every number in integers. Files become this in `config/`.

use crate::profile::Profile;
use device::compute::Compute;
use device::memory::RemoteMemory;
use graph::CollectiveKind;
use topology::Fabric;
use units::{Bandwidth, Bytes, Flops, Span};

/// An algorithm for one collective kind on one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// Neighbour to neighbour (pipelined chain for rooted kinds).
    Ring,
    /// Everybody to everybody at once; with a window, that many messages in flight.
    Direct {
        /// Messages in flight, `None` for all.
        window: Option<u32>,
    },
    /// Recursive halving and doubling (binomial tree for rooted kinds); powers of two only.
    HalvingDoubling,
    /// Two complementary binary trees, alternate chunks on each; all-reduce, reduce and broadcast.
    DoubleBinaryTree,
}

/// How an all-reduce over several dimensions is split into phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hierarchy {
    /// A whole all-reduce in each dimension in turn (ISPASS 2020 "baseline").
    Baseline,
    /// Reduce-scatter outwards, all-reduce on the last dimension, all-gather back (ISPASS 2020 "enhanced", multi-rail).
    Enhanced,
}

/// The algorithms of one collective kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// One algorithm a dimension, innermost first. Shorter than the dimensions: the outer ones take no part (ASTRA-sim).
    pub per_dim: Vec<Algorithm>,
    /// One flat group over all ranks with the first algorithm (`oneRing`, ...) instead of dimension by dimension.
    pub flat: bool,
}

/// Collective settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Collectives {
    /// By `CollectiveKind as usize`; `None`: chosen by block (Ring: ring; FullyConnected: direct; Switch: halving-doubling
    /// for powers of two, else direct).
    pub choices: [Option<Choice>; CollectiveKind::ALL.len()],
    /// All-reduce over several dimensions.
    pub hierarchy: Hierarchy,
    /// By `CollectiveKind as usize`: an algorithm read from a file, which overrides `choices`.
    pub custom: [Option<std::sync::Arc<collective::custom::Custom>>; CollectiveKind::ALL.len()],
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
    /// All-to-all before everything else, then earlier first (HOTI 2020).
    AllToAllFirst,
}

/// Scheduler settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scheduler {
    /// Order among collectives.
    pub policy: Policy,
    /// Chunks a collective is split into.
    pub chunks: u32,
    /// Chunk phases that may run at once on a dimension of an NPU.
    pub active_chunks: u32,
    /// Logical scheduling queues a dimension.
    pub queues_per_dim: u32,
    /// Delay before the first send of a phase and after every reception.
    pub endpoint_delay: Span,
    /// Communication operations (collectives, sends) that may run at once on an NPU; 0 for no limit.
    pub comm_streams: u32,
    /// Receivers announce themselves before a transfer starts.
    pub rendezvous: bool,
    /// Collectives take their recorded duration, too (nothing is sent).
    pub replay_only: bool,
}

/// One NPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Npu {
    /// Name for people.
    pub name: String,
    /// Compute model.
    pub compute: Compute,
    /// Peak rate, if known.
    pub peak: Option<Flops>,
    /// Local memory bandwidth; `None`: reductions cost nothing.
    pub memory_bandwidth: Option<Bandwidth>,
    /// Local memory size, if known.
    pub memory_capacity: Option<Bytes>,
}

/// Everything but the workload.
#[derive(Clone, Debug)]
pub struct Platform {
    /// Name for people.
    pub name: String,
    /// Network.
    pub fabric: Fabric,
    /// Sizes of the logical dimensions collectives run over, when they differ from the physical ones; product = NPUs.
    pub logical: Option<Vec<u32>>,
    /// NPU.
    pub npu: Npu,
    /// Memory outside the NPUs, if any.
    pub remote_memory: Option<RemoteMemory>,
    /// Collectives.
    pub collectives: Collectives,
    /// Scheduler.
    pub scheduler: Scheduler,
    /// Whose semantics: ours, or the peer's.
    pub profile: Profile,
    /// Warnings that reading the files gave rise to; they stand at the top of the report.
    pub warnings: Vec<String>,
}
