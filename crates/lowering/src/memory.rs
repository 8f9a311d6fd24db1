//! What an access to memory takes on a platform, and which ones are impossible. Not here: the
//! models (`device::memory`), whose turn it is (`executor`).

use crate::astra_sim;
use device::memory::{Access, Local, Pipeline, Sharing};
use graph::{Footprint, Node, Op, Problem, Program, Reach, Workload, and_more, node_place};
use platform::{Exceeded, Platform};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use topology::Fabric;
use units::{Bandwidth, Bytes, Span};

/// Who takes turns at memory outside the NPUs, if there is any that can be.
pub fn sharing(platform: &Platform) -> Option<Sharing> {
    remote(platform).map(|access| access.sharing)
}

/// Accesses to memory outside the NPUs, if there is any that can be.
pub fn remote(platform: &Platform) -> Option<Access> {
    platform.remote_memory.as_ref()?.access(platform.fabric.npus()).ok()
}

/// What moving something out or back takes, where what doesn't fit is moved.
pub fn spill(platform: &Platform) -> Option<Pipeline> {
    remote(platform)
        .filter(|_| platform.npu.memory_on_overflow == Exceeded::Spill)
        .map(|access| access.own)
}

/// Bytes that each program holds from the beginning to the end: all, or what its nodes don't
/// allocate.
pub fn resident(workload: &Workload) -> Vec<u64> {
    let of = |(i, program): (usize, &Arc<Program>)| {
        let kept = workload.footprints.get(i).copied().unwrap_or_default();
        let all_along = Footprint { activations: 0, ..kept };
        if program.tracks_memory() { all_along.total() } else { kept.total() }
    };
    workload.programs.iter().enumerate().map(of).collect()
}

/// What communication leaves of the bandwidth of an NPU's own memory, if anything.
pub fn left_for_kernels(platform: &Platform) -> Option<Bandwidth> {
    let local = Local { latency: Span::ZERO, bandwidth: platform.npu.memory_bandwidth };
    local.left_for_kernels(sent(&platform.fabric))
}

/// Bytes per second that the links out of an NPU carry at most; on a graph of the NPU that has
/// most.
fn sent(fabric: &Fabric) -> Bandwidth {
    Bandwidth(match fabric {
        Fabric::Stacked(dims) => dims.iter().fold(0, |sum: u64, dim| {
            sum.saturating_add(dim.bandwidth.0.saturating_mul(dim.leaving().into()))
        }),
        Fabric::Graph(graph) => {
            let mut out = vec![0u64; graph.npus as usize];
            for link in graph.links.iter().filter(|link| link.from < graph.npus) {
                out[link.from as usize] = out[link.from as usize].saturating_add(link.bandwidth.0);
            }
            out.into_iter().max().unwrap_or(0)
        }
    })
}

/// Times of accesses, each found once: programs repeat their sizes.
pub struct Accesses<'a> {
    platform: &'a Platform,
    remote: Option<Access>,
    known: FxHashMap<(Bytes, Reach), Option<Span>>,
}

impl<'a> Accesses<'a> {
    /// What accesses of `platform` take.
    pub fn new(platform: &'a Platform) -> Accesses<'a> {
        Accesses { platform, remote: remote(platform), known: FxHashMap::default() }
    }

    /// What an access takes once it is its turn; nothing where there is no such memory.
    pub fn span(&mut self, bytes: Bytes, reach: Reach) -> Option<Span> {
        if let Some(&known) = self.known.get(&(bytes, reach)) {
            return known;
        }
        let found = self.find(bytes, reach);
        self.known.insert((bytes, reach), found);
        found
    }

    fn find(&self, bytes: Bytes, reach: Reach) -> Option<Span> {
        let npu = &self.platform.npu;
        match (reach, self.platform.profile.astra_sim(), &self.remote) {
            (Reach::Local, ..) => Some(
                Local { latency: npu.memory_latency, bandwidth: npu.memory_bandwidth }.span(bytes),
            ),
            (_, Some(parameters), Some(_)) => Some(astra_sim::remote_access(bytes, parameters)),
            (Reach::Remote, None, Some(remote)) => Some(remote.own.span(bytes)),
            (Reach::InSwitch, None, Some(remote)) => {
                remote.in_switch.as_ref().map(|pool| pool.span(bytes))
            }
            (_, _, None) => None,
        }
    }
}

/// Accesses that can't be: to memory outside the NPUs where there is none, over switches where
/// there are none, of more than there is.
pub fn problems(workload: &Workload, platform: &Platform) -> Vec<Problem> {
    if platform.scheduler.replay_only {
        return Vec::new();
    }
    let npus = platform.fabric.npus();
    let access = match platform.remote_memory.as_ref().map(|memory| memory.access(npus)) {
        Some(Err(fault)) => {
            return vec![
                Problem::new("", format!("remote_memory.{}", fault.key), fault.message)
                    .help(fault.allowed),
            ];
        }
        Some(Ok(access)) => Some(access),
        None => None,
    };
    let told = |fault: &Fault| {
        let (rank, node, others) =
            first(workload, &|node| (fault.holds)(node, access.as_ref(), npus))?;
        let message = (fault.text)(node, access.as_ref(), npus) + &and_more(others, "operation");
        Some(Problem::new("", node_place(rank, node), message).help(fault.help))
    };
    FAULTS.iter().filter_map(told).chain(room(workload, platform, access.is_some())).collect()
}

/// Memory of NPUs that can't hold what it must, or be shared as it is asked to.
fn room(workload: &Workload, platform: &Platform, outside: bool) -> Vec<Problem> {
    let npu = &platform.npu;
    let mut problems = Vec::new();
    if npu.memory_contention
        && npu.memory_bandwidth.is_some()
        && left_for_kernels(platform).is_none()
    {
        let (sent, bandwidth) = (sent(&platform.fabric), npu.memory_bandwidth.unwrap_or_default());
        let message = format!(
            "communication at {sent} moves twice that in memory of {bandwidth} and leaves nothing"
        );
        problems.push(
            Problem::new("", "npu.memory.contention", message)
                .help("more memory bandwidth, or false"),
        );
    }
    let Some(capacity) = npu.memory_capacity.filter(|_| npu.memory_on_overflow != Exceeded::Warn)
    else {
        return problems;
    };
    if npu.memory_on_overflow == Exceeded::Spill && !outside {
        let message = "spill, and there is no memory outside the NPUs to spill to";
        problems.push(
            Problem::new("", "npu.memory.on_overflow", message)
                .help("a platform with remote_memory, warn or refuse"),
        );
    }
    let kept = resident(workload);
    let most = |refuse: bool, i: usize| match workload.footprints.get(i) {
        Some(footprint) if refuse => footprint.total(),
        _ => kept[i],
    };
    let refuse = npu.memory_on_overflow == Exceeded::Refuse;
    let over =
        (0..kept.len()).map(|i| (most(refuse, i), i)).filter(|(bytes, _)| *bytes > capacity.0);
    if let Some((bytes, program)) = over.max_by_key(|&(bytes, i)| (bytes, usize::MAX - i)) {
        let rank = workload.ranks.iter().position(|r| r.program as usize == program).unwrap_or(0);
        let what = if refuse { "at its peak" } else { "all along, which can't be moved out" };
        let message =
            format!("holds {} {what}, more than the {capacity} of its NPU's memory", Bytes(bytes));
        let help = "more parallelism, ZeRO or recomputation, or a larger npu.memory.capacity";
        problems.push(Problem::new("", format!("rank {rank}"), message).help(help));
    }
    problems
}

/// What can be wrong with an access.
struct Fault {
    holds: fn(&Node, Option<&Access>, u32) -> bool,
    text: fn(&Node, Option<&Access>, u32) -> String,
    help: &'static str,
}

const FAULTS: [Fault; 3] = [
    Fault {
        holds: |node, access, _| outside(node).is_some() && access.is_none(),
        text: |_, _, _| "accesses remote memory, and the platform has none".into(),
        help: "a platform with remote memory",
    },
    Fault {
        holds: |node, access, _| {
            outside(node).is_some_and(|(_, reach)| reach == Reach::InSwitch)
                && access.is_some_and(|access| access.in_switch.is_none())
        },
        text: |_, _, _| {
            "gathers or scatters in the switches of remote memory, which has none".into()
        },
        help: "remote_memory.model: hierarchical or switches",
    },
    Fault {
        holds: |node, access, npus| excess(node, access, npus).is_some(),
        text: |node, access, npus| excess(node, access, npus).unwrap_or_default(),
        help: "a tensor that fits, or more or larger memory groups",
    },
];

fn outside(node: &Node) -> Option<(Bytes, Reach)> {
    match node.op {
        Op::Memory { bytes, reach, .. } if reach != Reach::Local => Some((bytes, reach)),
        _ => None,
    }
}

/// That the tensors of all NPUs are more than there is room for.
fn excess(node: &Node, access: Option<&Access>, npus: u32) -> Option<String> {
    let ((bytes, _), capacity) = (outside(node)?, access?.capacity?);
    let need = u128::from(bytes.0) * u128::from(npus);
    (need > capacity).then(|| {
        format!("{bytes} for each of {npus} NPUs are {need} bytes, more than the {capacity} that remote memory holds")
    })
}

/// The first access for which it holds, with its rank, and how many more there are.
fn first<'w>(
    workload: &'w Workload,
    holds: &dyn Fn(&Node) -> bool,
) -> Option<(u32, &'w Node, u64)> {
    let of_program: Vec<u64> = workload
        .programs
        .iter()
        .map(|p| p.nodes().iter().filter(|node| holds(node)).count() as u64)
        .collect();
    let count: u64 = workload.ranks.iter().map(|r| of_program[r.program as usize]).sum();
    let rank = workload.ranks.iter().position(|r| of_program[r.program as usize] > 0)?;
    let node = workload.program(rank as u32).nodes().iter().find(|node| holds(node))?;
    Some((rank as u32, node, count - 1))
}
