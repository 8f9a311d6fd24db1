//! Random platforms and workloads: small, sound, and as often lopsided as even.
//!
//! A workload is a list of steps that all ranks take in the same order; within a step ranks may do
//! different things (groups, stragglers, pipelines). A step waits for the one before it or runs
//! beside it, from the same dependencies on: then every rank still issues its collectives in the
//! same order, so that nothing can wait for ever.

use graph::{
    CollectiveKind, Group, Kernel, Members, Node, Op, Program, ProgramBuilder, RankBinding, Reach,
    Workload,
};
use proptest::prelude::*;
use sim::BackendKind;
use std::sync::Arc;
use units::{Bytes, Span};

/// Whether this is `make thorough`, which takes all cases.
pub fn thorough() -> bool {
    std::env::var_os("PROPTEST_CASES").is_some()
}

/// `usual` random cases, or the number that `PROPTEST_CASES` gives (`make thorough`).
pub fn cases(usual: u32) -> ProptestConfig {
    let all = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let wanted = if thorough() { all.cases } else { usual };
    ProptestConfig { cases: wanted, ..all }
}

/// Backends that a random case runs on: packets, which take several times as long as the three that
/// see whole messages, in half of the cases, and flits, which take ten times as long, in a fifth.
pub fn backends() -> impl Strategy<Value = Vec<BackendKind>> {
    (prop::bool::weighted(0.5), prop::bool::weighted(0.2)).prop_map(|(packets, flits)| {
        let runs = |backend: &BackendKind| match backend {
            BackendKind::Packet => packets,
            BackendKind::Flit => flits,
            _ => true,
        };
        BackendKind::ALL.into_iter().filter(runs).collect()
    })
}

/// A platform as the text of its file, and the sizes of its dimensions.
#[derive(Clone, Debug)]
pub struct RandomPlatform {
    pub text: String,
    pub sizes: Vec<u32>,
}

fn dimension() -> impl Strategy<Value = (&'static str, u32, &'static str, u32)> {
    let block = prop_oneof![
        (2u32..=5).prop_map(|n| ("Ring", n)),
        (2u32..=4).prop_map(|n| ("FullyConnected", n)),
        (2u32..=4).prop_map(|n| ("Switch", n)),
    ];
    (block, prop_oneof![Just("50 GB/s"), Just("7.3 GB/s"), Just("450 GB/s")], 0u32..700)
        .prop_map(|((block, n), bandwidth, latency)| (block, n, bandwidth, latency))
}

/// Limits of the ready queue, in half of the cases.
fn dispatch() -> impl Strategy<Value = String> {
    let limits = (1u32..4, 1u32..4)
        .prop_map(|(t, p)| format!(", dispatch_below: {t}, dispatch_chunks: {p}"));
    prop_oneof![Just(String::new()), limits]
}

fn scheduler() -> impl Strategy<Value = String> {
    let policy = prop_oneof![Just("fifo"), Just("lifo"), Just("explicit"), Just("smallest_first")];
    let order = prop_oneof![2 => Just("baseline"), 2 => Just("themis"), 1 => Just("offline_greedy"),
        2 => Just("all_at_once")];
    ((policy, order, prop::bool::ANY), 1u32..6, 1u32..4, 1u32..4, 0u32..20, 0u32..3, prop::bool::weighted(0.2), dispatch()).prop_map(
        |((policy, order, first), chunks, active, queues, delay, streams, rendezvous, dispatch)| {
            let streams = if streams == 0 { "unlimited".to_string() } else { streams.to_string() };
            format!(
                "scheduler: {{policy: {policy}, all_to_all_first: {first}, dimension_order: {order}, chunks: {chunks}, active_chunks: {active}, queues_per_dim: {queues}, \
                 endpoint_delay: {delay} ns, comm_streams: {streams}, rendezvous: {rendezvous}{dispatch}}}\n"
            )
        },
    )
}

/// Hosts that launch at once, that take as long for every piece of work, and that take each piece's
/// own time.
fn launch() -> impl Strategy<Value = String> {
    let time = || prop_oneof![2 => Just(0u32), 1 => 1u32..100, 1 => 100u32..3_000];
    let each = (time(), time(), time(), time()).prop_map(|(kernel, member, send, receive)| {
        format!(
            "{{kernel: {kernel} ns, member: {member} ns, send: {send} ns, receive: {receive} ns}}"
        )
    });
    prop_oneof![time().prop_map(|all| format!("{all} ns")), each]
}

/// NPUs with and without memory that limits, hosts that take their time to launch, and kernels that
/// communication slows.
fn npu() -> impl Strategy<Value = String> {
    let memory = prop_oneof![Just(""), Just(", memory: {bandwidth: 100 GB/s}")];
    let beside = prop_oneof![2 => Just("1"), 1 => Just("0.8"), 1 => Just("0.37")];
    (memory, launch(), beside).prop_map(|(memory, launch, beside)| {
        format!("npu: {{launch: {launch}, compute: {{beside: {beside}}}{memory}}}\n")
    })
}

/// One to three dimensions, every setting of the scheduler, launches, memory of each sharing.
pub fn platform() -> impl Strategy<Value = RandomPlatform> {
    let remote = prop_oneof![
        Just("sharing: per_npu, latency: 300 ns, bandwidth: 20 GB/s"),
        Just("sharing: pool, latency: 300 ns, bandwidth: 20 GB/s"),
        Just("sharing: per_node, npus_per_node: 2, latency: 300 ns, bandwidth: 20 GB/s"),
        Just(
            "model: hierarchical, nodes: 2, out_switches: 3, groups: 5, chunk: 64 kB, memory_side: {bandwidth: 9 GB/s}, \
             npu_side: {bandwidth: 20 GB/s, latency: 300 ns}, in_node: {bandwidth: 50 GB/s}"
        ),
        Just(
            "model: ring, stations: 3, groups: 2, chunk: 1 MB, memory_side: {bandwidth: 9 GB/s}, \
             between: {bandwidth: 20 GB/s, latency: 300 ns}, npu_side: {bandwidth: 50 GB/s}"
        ),
    ];
    let hierarchy = prop_oneof![Just("enhanced"), Just("baseline"), Just("hierarchical_optimal")];
    let algorithm = prop_oneof![Just("auto"), Just("ring"), Just("direct"), Just("direct(2)")];
    (prop::collection::vec(dimension(), 1..=3), scheduler(), npu(), remote, hierarchy, algorithm).prop_map(
        |(dims, scheduler, npu, remote, hierarchy, algorithm)| {
            let blocks: Vec<String> = dims.iter().map(|d| format!("{}({})", d.0, d.1)).collect();
            let links = dims.iter().map(|d| format!("  - {{bandwidth: {}, per: link, latency: {} ns}}\n", d.2, d.3));
            // A node of two NPUs needs an even number of them.
            let sizes: Vec<u32> = dims.iter().map(|d| d.1).collect();
            let even = sizes.iter().any(|n| n % 2 == 0);
            let nodes = remote.starts_with("sharing: per_node");
            let remote = if even || !nodes { remote } else { "sharing: per_npu, latency: 300 ns, bandwidth: 20 GB/s" };
            let text = format!(
                "topology: {}\nlinks:\n{}{npu}remote_memory: {{{remote}}}\n\
                 collectives: {{hierarchy: {hierarchy}, all_reduce: {algorithm}, all_to_all: {algorithm}}}\n{scheduler}",
                blocks.join("_"),
                links.collect::<String>(),
            );
            RandomPlatform { text, sizes }
        },
    )
}

/// What the ranks do in one step. Numbers are reduced to what the platform has.
#[derive(Clone, Debug)]
pub enum Step {
    /// Everybody computes for so many ns.
    Compute(u64),
    /// One rank computes longer.
    Straggler { rank: u32, ns: u64 },
    /// Everybody loads or stores.
    Memory { store: bool, bytes: u64, reach: Reach },
    /// A collective of everybody.
    World { kind: CollectiveKind, bytes: u64, priority: i32, root: u32 },
    /// A collective in each line of a dimension.
    Lines { kind: CollectiveKind, bytes: u64, dim: u32 },
    /// A collective of every `step`-th rank from `first`, in this or the opposite order; the others
    /// compute.
    Odd { kind: CollectiveKind, bytes: u64, first: u32, step: u32, backward: bool },
    /// Every rank sends to the rank `by` above it; the first receive from nobody, the last send to
    /// nobody.
    Pipeline { by: u32, bytes: u64 },
    /// Every rank sends `by` further round the circle of all ranks.
    Shift { by: u32, bytes: u64 },
}

fn kind() -> impl Strategy<Value = CollectiveKind> {
    prop::sample::select(CollectiveKind::ALL.to_vec())
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), 1u64..300, 300u64..200_000, Just(1 << 20)]
}

/// Memory of an NPU, or outside it; most platforms here have no switches in their memory.
fn reach() -> impl Strategy<Value = Reach> {
    prop_oneof![2 => Just(Reach::Remote), 1 => Just(Reach::Local)]
}

fn even_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u64..5_000).prop_map(Step::Compute),
        (any::<bool>(), bytes(), reach()).prop_map(|(store, bytes, reach)| Step::Memory {
            store,
            bytes,
            reach
        }),
        (kind(), bytes(), -2i32..3, 0u32..64)
            .prop_map(|(kind, bytes, priority, root)| Step::World { kind, bytes, priority, root }),
        (kind(), bytes(), 0u32..3).prop_map(|(kind, bytes, dim)| Step::Lines { kind, bytes, dim }),
        (1u32..8, bytes()).prop_map(|(by, bytes)| Step::Shift { by, bytes }),
    ]
}

fn odd_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u32..64, 1u64..5_000).prop_map(|(rank, ns)| Step::Straggler { rank, ns }),
        (kind(), bytes(), 0u32..8, 1u32..4, any::<bool>()).prop_map(
            |(kind, bytes, first, step, backward)| Step::Odd { kind, bytes, first, step, backward }
        ),
        (1u32..8, bytes()).prop_map(|(by, bytes)| Step::Pipeline { by, bytes }),
    ]
}

/// Steps, each with whether it runs beside the one before it.
pub fn steps() -> impl Strategy<Value = Vec<(Step, bool)>> {
    let mixed = prop_oneof![2 => even_step().boxed(), 1 => odd_step().boxed()];
    let overlapped = || prop::bool::weighted(0.3);
    prop_oneof![
        prop::collection::vec((even_step(), overlapped()), 1..6),
        prop::collection::vec((mixed, overlapped()), 1..8),
    ]
}

struct Builder<'a> {
    sizes: &'a [u32],
    npus: u32,
    groups: Vec<Group>,
    /// For each rank: its nodes with dependencies, and the group in each slot.
    nodes: Vec<Vec<(Op, u64, Vec<u64>)>>,
    slots: Vec<Vec<u32>>,
    /// For each rank what its last step waited for, and the ids of that step and those beside it.
    recent: Vec<(Vec<u64>, Vec<u64>)>,
}

/// The workload of `steps` on a machine of these sizes.
pub fn workload(sizes: &[u32], steps: &[(Step, bool)]) -> Workload {
    let npus: u32 = sizes.iter().product();
    let mut builder = Builder {
        sizes,
        npus,
        groups: vec![Group { name: "world".into(), members: Members::All }],
        nodes: vec![Vec::new(); npus as usize],
        slots: vec![Vec::new(); npus as usize],
        recent: vec![(Vec::new(), Vec::new()); npus as usize],
    };
    // Every rank does something, whatever the steps.
    builder.step(0, &Step::Compute(100), false);
    for (i, (step, overlaps)) in steps.iter().enumerate() {
        builder.step(i as u32 + 1, step, *overlaps);
    }
    builder.finish()
}

impl Builder<'_> {
    fn step(&mut self, tag: u32, step: &Step, overlaps: bool) {
        for rank in 0..self.npus {
            let ops = self.ops(rank, tag, step);
            let r = rank as usize;
            let (after, beside) = &mut self.recent[r];
            if !overlaps && !ops.is_empty() {
                *after = std::mem::take(beside);
            }
            for (op, ns) in ops {
                beside.push(self.nodes[r].len() as u64);
                self.nodes[r].push((op, ns, after.clone()));
            }
        }
    }

    /// What `rank` does in a step: operations and their recorded ns.
    fn ops(&mut self, rank: u32, tag: u32, step: &Step) -> Vec<(Op, u64)> {
        let n = self.npus;
        let compute =
            Op::Compute { operations: None, bytes: None, cpu: false, kernel: Kernel::Other };
        match *step {
            Step::Compute(ns) => vec![(compute, ns)],
            Step::Straggler { rank: slow, ns } => {
                vec![(compute, if rank == slow % n { ns } else { 10 })]
            }
            Step::Memory { store, bytes, reach } => {
                vec![(
                    Op::Memory {
                        store,
                        bytes: Bytes(bytes),
                        reach,
                        tensor: (bytes % 3) as u32,
                        slot: None,
                    },
                    0,
                )]
            }
            Step::World { kind, bytes, priority, root } => {
                vec![(self.collective(rank, kind, bytes, Members::All, priority, root % n), 0)]
            }
            Step::Lines { kind, bytes, dim } => {
                let dim = dim as usize % self.sizes.len();
                let step: u32 = self.sizes[..dim].iter().product();
                let count = self.sizes[dim];
                let members =
                    (0..count).map(|i| rank - rank / step % count * step + i * step).collect();
                vec![(self.collective(rank, kind, bytes, Members::from_list(members, n), 0, 0), 0)]
            }
            Step::Odd { kind, bytes, first, step, backward } => {
                let mut members: Vec<u32> = (first % n..n).step_by(step as usize).collect();
                if backward {
                    members.reverse();
                }
                match members.contains(&rank) {
                    true => vec![(
                        self.collective(rank, kind, bytes, Members::from_list(members, n), 0, 0),
                        0,
                    )],
                    false => vec![(compute, 50)],
                }
            }
            Step::Pipeline { by, bytes } => {
                let by = 1 + by % (n - 1);
                let receive = (rank >= by).then_some(Op::Recv {
                    peer: (-(by as i32)).into(),
                    bytes: Bytes(bytes),
                    tag,
                });
                let send = (rank + by < n).then_some(Op::Send {
                    peer: (by as i32).into(),
                    bytes: Bytes(bytes),
                    tag,
                });
                receive.into_iter().chain(send).map(|op| (op, 0)).collect()
            }
            Step::Shift { by, bytes } => {
                let by = 1 + by % (n - 1);
                let peer = |other: u32| other as i32 - rank as i32;
                let receive =
                    Op::Recv { peer: peer((rank + n - by) % n).into(), bytes: Bytes(bytes), tag };
                vec![
                    (receive, 0),
                    (Op::Send { peer: peer((rank + by) % n).into(), bytes: Bytes(bytes), tag }, 0),
                ]
            }
        }
    }

    fn collective(
        &mut self,
        rank: u32,
        kind: CollectiveKind,
        bytes: u64,
        members: Members,
        priority: i32,
        root: u32,
    ) -> Op {
        let known = self.groups.iter().position(|g| g.members == members);
        let group = known.unwrap_or_else(|| {
            self.groups.push(Group { name: format!("g{}", self.groups.len()), members });
            self.groups.len() - 1
        }) as u32;
        let slots = &mut self.slots[rank as usize];
        let slot = slots.iter().position(|&g| g == group).unwrap_or_else(|| {
            slots.push(group);
            slots.len() - 1
        }) as u32;
        let bytes = if kind == CollectiveKind::Barrier { 0 } else { bytes };
        Op::Collective { kind, bytes: Bytes(bytes), slot, priority, dims: u32::MAX, root }
    }

    fn finish(self) -> Workload {
        let mut workload = Workload { groups: self.groups, ..Workload::default() };
        for (nodes, slots) in self.nodes.iter().zip(&self.slots) {
            let program = program(nodes);
            let known = workload.programs.iter().position(|p| **p == program);
            let index = known.unwrap_or(workload.programs.len());
            if known.is_none() {
                workload.programs.push(Arc::new(program));
            }
            workload
                .ranks
                .push(RankBinding { program: index as u32, slots: workload.slots.len() as u32 });
            workload.slots.extend(slots);
        }
        workload
    }
}

fn program(nodes: &[(Op, u64, Vec<u64>)]) -> Program {
    let mut builder = ProgramBuilder::default();
    for (id, (op, ns, after)) in nodes.iter().enumerate() {
        let node = Node { id: id as u64, duration: Span::from_ns(*ns), op: *op };
        builder.push(node, "", after.iter().copied());
    }
    builder.build().expect("ids ascend and dependencies look back")
}
