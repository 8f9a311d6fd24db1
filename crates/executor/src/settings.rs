//! Settings of the executor: the choices of the platform, in the terms of its profile.

use device::memory::{Access, Pipeline, Sharing};
use graph::{CollectiveKind, Node, Op, Workload};
use lowering::compute::{self, Spans};
use lowering::{PhaseSpec, Request, memory};
use network::Contention;
use platform::{Dispatch, Exceeded, Launch, Platform, Policy, Queues};
use units::{Bandwidth, Bytes, Span};

/// The settings that the executor itself acts on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of ranks.
    pub ranks: u32,
    /// Sizes of the dimensions that collectives run over. Each has its queues.
    pub sizes: Vec<u32>,
    /// A group that fills lines of the network is treated as a machine of its own.
    pub aligned_groups: bool,
    /// Ids of nodes that have an algorithm of their own.
    pub custom_nodes: Vec<u64>,
    /// Queues of each dimension.
    pub queues: Vec<Queues>,
    /// When chunks leave the ready queue; `None`: at once.
    pub dispatch: Option<Dispatch>,
    /// Communication operations at once on a rank; 0 for no limit.
    pub comm_streams: u32,
    /// Memory operations take a communication slot (ASTRA-sim).
    pub memory_is_communication: bool,
    /// Order among collectives.
    pub policy: Policy,
    /// All-to-alls before all others.
    pub all_to_all_first: bool,
    /// Receivers announce themselves first.
    pub rendezvous: bool,
    /// Every operation takes its recorded duration.
    pub replay_only: bool,
    /// Sends and receives of different sizes never match (ASTRA-sim).
    pub match_bytes: bool,
    /// At one instant the network goes first, and what a rank does is ordered by node and chunk. So
    /// the order does not depend on the order of scheduling. Off: first scheduled, first done
    /// (ASTRA-sim).
    pub canonical: bool,
    /// Where transfers delay one another, as the backend says.
    pub contention: Contention,
    /// Phases take their closed form if it is exact: `executor/lockstep.rs`, `executor/solo.rs`.
    pub closed_form: bool,
    /// Local memory of an NPU, if known.
    pub local_memory: Option<Bandwidth>,
    /// Which ranks take turns at memory outside the NPUs, if there is any.
    pub remote_memory: Option<Sharing>,
    /// The pool that ranks share, if memory outside the NPUs is one.
    pub pool: Option<Access>,
    /// The time of accesses to memory outside the NPU, if what doesn't fit is moved there.
    pub spill: Option<Pipeline>,
    /// The most that an NPU's memory may hold, and what happens if it must hold more.
    pub memory_limit: Option<(Bytes, Exceeded)>,
    /// Bytes that each program holds from the beginning to the end.
    pub resident: Vec<u64>,
    /// How long a host takes to launch work on its NPU.
    pub launch: Launch,
    /// Duration of every node that takes a set time (computations, accesses to memory, replays), by
    /// program and node.
    pub durations: Spans,
    /// The same for computations whose NPU communicates all the time. Empty if that changes
    /// nothing.
    pub overlapped: Spans,
}

impl Settings {
    /// The settings of a run of `workload` on `platform`, in the terms of its profile.
    pub fn of(platform: &Platform, workload: &Workload) -> Settings {
        let scheduler = &platform.scheduler;
        let native = platform.profile.is_native();
        Settings {
            ranks: workload.ranks.len() as u32,
            queues: (0..platform.sizes().len()).map(|dim| scheduler.queues(dim)).collect(),
            sizes: platform.sizes(),
            aligned_groups: native,
            custom_nodes: platform.collectives.custom_nodes.keys().copied().collect(),
            dispatch: scheduler.dispatch(),
            comm_streams: if native { scheduler.comm_streams } else { 1 },
            memory_is_communication: !native,
            policy: scheduler.policy,
            all_to_all_first: scheduler.all_to_all_first,
            rendezvous: scheduler.rendezvous,
            replay_only: scheduler.replay_only,
            match_bytes: !native,
            canonical: native,
            contention: Contention::Links,
            closed_form: true,
            local_memory: platform.npu.memory_bandwidth,
            remote_memory: memory::sharing(platform),
            pool: memory::pool(platform),
            spill: memory::spill(platform),
            memory_limit: platform
                .npu
                .memory_capacity
                .map(|capacity| (capacity, platform.npu.memory_on_overflow)),
            resident: memory::resident(workload),
            durations: compute::durations(workload, platform),
            launch: if platform.scheduler.replay_only {
                Launch::default()
            } else {
                platform.npu.launch
            },
            overlapped: compute::overlapped(workload, platform),
        }
    }

    /// Request of `node` on a group of this shape. `None` unless it is a collective that is
    /// simulated.
    pub fn request(&self, node: &Node, shape: u32) -> Option<Request> {
        match node.op {
            Op::Collective { kind, .. } if self.replays(kind) => None,
            _ => Request::of(node, shape, &self.custom_nodes),
        }
    }

    /// Whether a collective takes its recorded time and sends nothing. All do in a replay, and
    /// broadcasts do in ASTRA-sim's profile.
    pub fn replays(&self, kind: CollectiveKind) -> bool {
        self.replay_only || (self.match_bytes && kind == CollectiveKind::Broadcast)
    }

    /// Whether a phase may take the closed form of `executor/lockstep.rs`; `single`: its collective
    /// has no other phase.
    pub fn may_lockstep(&self, phase: &PhaseSpec, single: bool) -> bool {
        let one_at_a_time = self.comm_streams == 1 && self.one_at_a_time() && single;
        self.closed_form
            && !self.rendezvous
            // Shared memory serves the first of one instant first: there the order of scheduling
            // shows.
            && self.remote_memory.is_none_or(|sharing| sharing == Sharing::PerNpu)
            && phase.endpoint_delay > Span::ZERO
            && phase.only.is_empty()
            && !self.canonical
            && one_at_a_time
            && !phase.plans.is_empty()
            && phase.plans.iter().all(|d| d.forward.plan.is_uniform())
    }

    /// Whether phases may run alone, see `executor/solo.rs`.
    pub fn runs_alone(&self) -> bool {
        self.closed_form
            && self.canonical
            && self.contention != Contention::None
            && self.one_at_a_time()
            && !self.rendezvous
    }

    /// Whether a dimension of an NPU runs one chunk phase at a time.
    pub fn one_at_a_time(&self) -> bool {
        self.queues.iter().all(|queues| queues.active() == 1)
    }

    /// Chunk phases at once on the dimension that runs most.
    pub fn most_active(&self) -> u64 {
        self.queues.iter().map(|queues| queues.active()).max().unwrap_or(1)
    }
}
