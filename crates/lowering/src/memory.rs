//! The time of an access to memory on a platform, and accesses that are impossible. Not here: the
//! models (`device::memory`), whose turn it is (`executor`, `sim`).

use crate::remote::remote;
use crate::{astra_sim, contents};
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

/// The pool that ranks share, if memory outside the NPUs is one, and what accesses to it take.
pub fn pool(platform: &Platform) -> Option<Access> {
    remote(platform).filter(|access| access.pool.is_some() && platform.profile.is_native())
}

/// The time of moving data out or back, if data that doesn't fit is moved.
pub fn spill(platform: &Platform) -> Option<Pipeline> {
    remote(platform)
        .filter(|_| platform.npu.memory_on_overflow == Exceeded::Spill)
        .map(|access| access.own)
}

/// Bytes that each program holds from the beginning to the end: all of them, or those that its
/// nodes don't allocate.
pub fn resident(workload: &Workload) -> Vec<u64> {
    let of = |(i, program): (usize, &Arc<Program>)| {
        let kept = workload.footprints.get(i).copied().unwrap_or_default();
        let all_along = Footprint { activations: 0, ..kept };
        if program.tracks_memory() { all_along.total() } else { kept.total() }
    };
    workload.programs.iter().enumerate().map(of).collect()
}

/// The bandwidth of an NPU's own memory that communication leaves, if any.
pub fn left_for_kernels(platform: &Platform) -> Option<Bandwidth> {
    let local = Local { latency: Span::ZERO, bandwidth: platform.npu.memory_bandwidth };
    local.left_for_kernels(sent(&platform.fabric))
}

/// The most bytes per second that the links out of an NPU carry; on a graph, for the NPU with the
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
    known: FxHashMap<(Bytes, Reach, Option<u32>), Option<Span>>,
}

impl<'a> Accesses<'a> {
    /// The times of accesses on `platform`.
    pub fn new(platform: &'a Platform) -> Accesses<'a> {
        Accesses { platform, remote: remote(platform), known: FxHashMap::default() }
    }

    /// The times of accesses that no other NPU delays.
    pub fn alone(platform: &'a Platform) -> Accesses<'a> {
        let remote = remote(platform).map(Access::alone);
        Accesses { remote, ..Accesses::new(platform) }
    }

    /// The time of an access once it is its turn; `None` if there is no such memory. A gather in
    /// switches is of `members` NPUs, or of all.
    pub fn span(&mut self, bytes: Bytes, reach: Reach, members: Option<u32>) -> Option<Span> {
        if let Some(&known) = self.known.get(&(bytes, reach, members)) {
            return known;
        }
        let found = self.find(bytes, reach, members);
        self.known.insert((bytes, reach, members), found);
        found
    }

    fn find(&self, bytes: Bytes, reach: Reach, members: Option<u32>) -> Option<Span> {
        let npu = &self.platform.npu;
        match (reach, self.platform.profile.astra_sim(), &self.remote) {
            (Reach::Local, ..) => Some(
                Local { latency: npu.memory_latency, bandwidth: npu.memory_bandwidth }.span(bytes),
            ),
            (_, Some(parameters), Some(_)) => Some(astra_sim::remote_access(bytes, parameters)),
            (Reach::Remote, None, Some(remote)) => Some(remote.own.span(bytes)),
            (Reach::InSwitch, None, Some(remote)) => {
                let all = self.platform.fabric.npus();
                let members = members.unwrap_or(all);
                remote.in_switch.as_ref().map(|pool| pool.of_group(members, all).span(bytes))
            }
            (Reach::Host, None, Some(remote)) => {
                Some(remote.host.as_ref().unwrap_or(&remote.own).span(bytes))
            }
            (Reach::Disk, None, Some(remote)) => remote.disk.as_ref().map(|disk| disk.span(bytes)),
            (_, _, None) => None,
        }
    }
}

/// The time of an access once it is its turn, if all NPUs access that memory at once.
///
/// # Errors
/// A platform without such memory, or without its bandwidth.
pub fn span(platform: &Platform, bytes: Bytes, reach: Reach) -> Result<Span, Problem> {
    if reach == Reach::Local && platform.npu.memory_bandwidth.is_none() {
        let said = "gives no time for accesses to the memory of an NPU";
        return Err(
            Problem::new(&platform.source, "npu.memory.bandwidth", said).help("such as 2 TB/s")
        );
    }
    let found = Accesses::new(platform).span(bytes, reach, None);
    found.ok_or_else(|| absent(platform, reach))
}

/// No such memory.
pub(crate) fn absent(platform: &Platform, reach: Reach) -> Problem {
    let said = format!("gives no time for accesses to memory that is \"{}\"", reach.name());
    Problem::new(&platform.source, "remote_memory", said).help(
        "such as {model: zero_infinity, cpu: {bandwidth: 31 GB/s}, nvme: {bandwidth: 3 GB/s}}",
    )
}

/// Impossible accesses: to memory outside the NPUs if there is none, in switches if there are none,
/// of more bytes than there is room for.
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
    let problem = |fault: &Fault| {
        let (rank, node, others) = first(workload, &|node| (fault.holds)(node, access.as_ref()))?;
        let message = fault.text.to_string() + &and_more(others, "operation");
        Some(Problem::new("", node_place(rank, node), message).help(fault.help))
    };
    let full = contents::of(workload, platform).problems(workload);
    let faults = FAULTS.iter().filter_map(problem).chain(full);
    faults.chain(room(workload, platform, access.is_some())).collect()
}

/// Memory of NPUs that is too small, or that communication uses up.
fn room(workload: &Workload, platform: &Platform, outside: bool) -> Vec<Problem> {
    let npu = &platform.npu;
    let mut problems = Vec::new();
    if npu.memory_contention
        && npu.memory_bandwidth.is_some()
        && left_for_kernels(platform).is_none()
    {
        let (sent, bandwidth) = (sent(&platform.fabric), npu.memory_bandwidth.unwrap_or_default());
        let message = format!(
            "communication at {sent} uses twice that bandwidth of the memory, and the memory has only {bandwidth}"
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
        let message = "spill needs memory outside the NPUs, and the platform has none";
        problems.push(
            Problem::new("", "npu.memory.on_overflow", message)
                .help("remote_memory in the platform, or warn or refuse"),
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
        let what = if refuse { "at its peak" } else { "all the time, which can't be moved out" };
        let message =
            format!("holds {} {what}, more than the {capacity} of its NPU's memory", Bytes(bytes));
        let help = "more parallelism, ZeRO or recomputation, or a larger npu.memory.capacity";
        problems.push(Problem::new("", format!("rank {rank}"), message).help(help));
    }
    problems
}

/// A fault of an access.
struct Fault {
    holds: fn(&Node, Option<&Access>) -> bool,
    text: &'static str,
    help: &'static str,
}

const FAULTS: [Fault; 3] = [
    Fault {
        holds: |node, access| outside(node).is_some() && access.is_none(),
        text: "accesses remote memory, but the platform has none",
        help: "remote_memory in the platform: {model: link, sharing: per_npu, bandwidth: 25 GB/s, latency: 1 us}",
    },
    Fault {
        holds: |node, access| {
            outside(node).is_some_and(|(_, reach)| reach == Reach::InSwitch)
                && access.is_some_and(|access| access.in_switch.is_none())
        },
        text: "gathers or scatters in the switches of remote memory, but the memory has no switches",
        help: "remote_memory.model: hierarchical or switches",
    },
    Fault {
        holds: |node, access| {
            outside(node).is_some_and(|(_, reach)| reach == Reach::Disk)
                && access.is_some_and(|access| access.disk.is_none())
        },
        text: "accesses a disk, but the platform has none",
        help: "remote_memory: {model: zero_infinity, cpu: {bandwidth: 31 GB/s}, nvme: {bandwidth: 3 GB/s}}",
    },
];

fn outside(node: &Node) -> Option<(Bytes, Reach)> {
    match node.op {
        Op::Memory { bytes, reach, .. } if reach != Reach::Local => Some((bytes, reach)),
        _ => None,
    }
}

/// The first access for which `holds` is true, with its rank, and the number of further ones.
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
