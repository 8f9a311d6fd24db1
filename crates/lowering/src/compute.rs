//! The duration of every node that takes a fixed time, and the warnings about durations.
//!
//! A computation on the NPU takes the time that the platform's model gives, or else its recorded
//! duration, divided by the platform's factor on compute. Work of the host keeps its recorded
//! durations. Not here: accesses to memory (`memory`), the models (`device::compute`), and what
//! ASTRA-sim does instead (`astra_sim::duration`).

use crate::astra_sim;
use crate::memory::{self, Accesses};
use device::compute::{Compute, Estimate, Roofline, Validity, Work};
use graph::{Node, Op, Problem, Program, Workload};
use platform::{Platform, Profile};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;
use units::{Ratio, Span};

/// Durations by program and node; programs of one body share them.
pub type Spans = Vec<Arc<[Span]>>;

/// Durations of all nodes.
pub fn durations(workload: &Workload, platform: &Platform) -> Spans {
    of_programs(workload, Clock::new(platform))
}

/// The same if no rank delayed the accesses of another: at least what a run takes.
pub fn least(workload: &Workload, platform: &Platform) -> Spans {
    of_programs(workload, Clock { memory: Accesses::alone(platform), ..Clock::new(platform) })
}

fn of_programs(workload: &Workload, mut clock: Clock) -> Spans {
    let groups = smallest_groups(workload);
    let of = |program: &Program| program.nodes().iter().map(|n| clock.duration(n)).collect();
    if groups.is_empty() {
        return workload.by_body(of);
    }
    // Programs of one body may gather in groups of different sizes.
    let mut found = Vec::with_capacity(groups.len());
    for (program, groups) in workload.programs.iter().zip(groups) {
        clock.groups = groups;
        found.push(program.nodes().iter().map(|n| clock.duration(n)).collect());
    }
    found
}

/// By program and slot, the members of the smallest group; nothing where no shards of groups are
/// gathered.
fn smallest_groups(workload: &Workload) -> Vec<Vec<u32>> {
    let gathers = |node: &Node| matches!(node.op, Op::Memory { slot: Some(_), .. });
    if !workload.bodies().any(|program| program.nodes().iter().any(gathers)) {
        return Vec::new();
    }
    let world = workload.ranks.len() as u32;
    let slots = |program: &Arc<Program>| vec![world; program.slots() as usize];
    let mut found: Vec<Vec<u32>> = workload.programs.iter().map(slots).collect();
    for (rank, binding) in (0..world).zip(&workload.ranks) {
        for (slot, least) in (0..).zip(&mut found[binding.program as usize]) {
            let group = workload.group_of(rank, slot) as usize;
            *least = workload.groups[group].members.len(world).min(*least);
        }
    }
    found
}

/// Durations of computations whose NPU communicates all the time; empty if that makes no
/// difference. In a replay it makes none: what communication cost is in the recorded durations.
pub fn overlapped(workload: &Workload, platform: &Platform) -> Spans {
    let left = memory::left_for_kernels(platform).filter(|_| platform.npu.memory_contention);
    let kept = Ratio(Ratio::ONE.0 - platform.npu.comm_overlap_slowdown.0);
    let same = left.is_none() && kept == Ratio::ONE || platform.scheduler.replay_only;
    if !platform.profile.is_native() || same {
        return Vec::new();
    }
    let mut shared = platform.clone();
    if let Some(left) = left {
        shared.npu.compute = shared.npu.compute.with_memory(left);
    }
    let mut clock = Clock::new(&shared);
    let mut slower = |node: &Node| clock.duration(node).over(kept);
    workload.by_body(|program| program.nodes().iter().map(&mut slower).collect())
}

/// Time of the computations of each program at the peak rates of their number formats; no program
/// computes faster. Nothing where durations are not the model's.
pub fn at_peak(workload: &Workload, platform: &Platform) -> Option<Vec<Span>> {
    let (compute, scale) = (&platform.npu.compute, platform.npu.compute_scale);
    let recorded = matches!(compute, Compute::Recorded) || platform.scheduler.replay_only;
    if !platform.profile.is_native() || recorded {
        return None;
    }
    let least = |node: &Node| compute.at_peak(&Work::of(&node.op)?);
    let total = |nodes: &[Node]| nodes.iter().filter_map(least).map(|span| span.over(scale)).sum();
    Some(workload.by_body(|program| total(program.nodes())))
}

/// The time of a computation on the NPU if the platform's factor on compute were 1, as a recorded
/// duration states it.
pub fn recorded(platform: &Platform) -> impl Fn(&Node) -> Span {
    let clock = RefCell::new(Clock::new(platform));
    move |node| clock.borrow_mut().unscaled(node)
}

/// The time of every computation and access to memory in `program` by itself, as a run gives it,
/// with its place in the program. Communication has none.
///
/// # Errors
/// The first operation whose time the platform doesn't say.
pub fn alone(platform: &Platform, program: &Program) -> Result<Vec<(usize, Span)>, Problem> {
    let mut clock = Clock::new(platform);
    let nodes = program.nodes().iter().enumerate();
    let timed = nodes.filter(|(_, node)| {
        on_npu(&node.op) || matches!(node.op, Op::Compute { .. } | Op::Memory { .. })
    });
    timed.map(|(i, node)| Ok((i, clock.stated(node)?))).collect()
}

/// Warnings for the report: computations that take no time, and models outside their validity.
pub fn warnings(workload: &Workload, platform: &Platform) -> Vec<String> {
    if !platform.profile.is_native() {
        return Vec::new();
    }
    let mut clock = Clock::new(platform);
    let doubts = workload.by_body(|program| {
        let mut found: [Option<(u64, usize)>; DOUBTS.len()] = Default::default();
        for (i, node) in program.nodes().iter().enumerate() {
            if let Some(doubt) = clock.doubt(node) {
                found[doubt as usize].get_or_insert((0, i)).0 += 1;
            }
        }
        found
    });
    let mut found: [Option<(u64, String)>; DOUBTS.len()] = Default::default();
    for (program, doubts) in workload.programs.iter().zip(doubts) {
        for (found, doubt) in found.iter_mut().zip(doubts) {
            let Some((more, first)) = doubt else { continue };
            let (count, _) = found.get_or_insert_with(|| {
                let (name, id) = (program.name(first), program.nodes()[first].id);
                (0, format!("first: \"{name}\", node {id}"))
            });
            *count += more;
        }
    }
    let text = |(doubt, found): (&Doubt, Option<(u64, String)>)| {
        found.map(|(count, first)| {
            let nodes = if count == 1 { "1 node".to_string() } else { format!("{count} nodes") };
            format!("compute, {nodes} ({first}): {}", doubt.text(platform))
        })
    };
    DOUBTS.iter().zip(found).filter_map(text).collect()
}

/// Why the time of a computation is doubtful.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doubt {
    Nothing,
    NotRecorded,
    OtherWidth,
    Outside,
    Sparse,
}

const DOUBTS: [Doubt; 5] =
    [Doubt::Nothing, Doubt::NotRecorded, Doubt::OtherWidth, Doubt::Outside, Doubt::Sparse];

impl Doubt {
    fn text(self, platform: &Platform) -> String {
        match self {
            Doubt::Nothing => "neither a recorded duration nor both operations and bytes, so they take no time".into(),
            Doubt::NotRecorded if platform.scheduler.replay_only => {
                "no recorded duration, which scheduler.replay_only needs, so they take no time".into()
            }
            Doubt::NotRecorded => {
                "no recorded duration, so they take no time; npu.compute: roofline would use their operations and bytes"
                    .into()
            }
            Doubt::OtherWidth => {
                let widths: Vec<String> = match &platform.npu.compute {
                    Compute::Measured(measured) => {
                        measured.table.widths().map(|(width, _)| width.to_string()).collect()
                    }
                    _ => Vec::new(),
                };
                format!(
                    "elements of a width that the table does not have (it has {} bytes), so the roofline gives the times",
                    widths.join(", ")
                )
            }
            Doubt::Outside => "outside the measured shapes of the table, so the efficiency at its edge is used".into(),
            Doubt::Sparse => {
                "the measured shapes are so far apart that the times may be wrong by a factor of 2 or more".into()
            }
        }
    }
}

/// Estimates, each made once: programs repeat their shapes.
struct Clock<'a> {
    platform: &'a Platform,
    memory: Accesses<'a>,
    /// Members of the group in each slot of the program, where they are known.
    groups: Vec<u32>,
    known: FxHashMap<Work, Option<Estimate>>,
}

impl<'a> Clock<'a> {
    fn new(platform: &'a Platform) -> Clock<'a> {
        let memory = Accesses::new(platform);
        Clock { platform, memory, groups: Vec::new(), known: FxHashMap::default() }
    }

    /// The time of a computation on the NPU, before the platform's factor on compute.
    fn unscaled(&mut self, node: &Node) -> Span {
        self.estimate(node).map_or(node.duration, |estimate| estimate.time)
    }

    /// The model's estimate; `None` for a node whose recorded duration counts.
    fn estimate(&mut self, node: &Node) -> Option<Estimate> {
        if self.platform.scheduler.replay_only {
            return None;
        }
        let work = Work::of(&node.op)?;
        let compute = &self.platform.npu.compute;
        match compute {
            // Quicker than looking it up.
            Compute::Recorded | Compute::Roofline(Roofline { tiles: None, .. }) => {
                compute.estimate(&work)
            }
            _ => *self.known.entry(work).or_insert_with(|| compute.estimate(&work)),
        }
    }

    fn duration(&mut self, node: &Node) -> Span {
        if let (Op::Memory { bytes, reach, .. }, false) =
            (node.op, self.platform.scheduler.replay_only)
        {
            let members = self.members(&node.op);
            return self.memory.span(bytes, reach, members).unwrap_or(Span::ZERO);
        }
        if let Profile::AstraSim(parameters) = &self.platform.profile {
            return astra_sim::duration(node, parameters, self.platform.scheduler.replay_only);
        }
        match on_npu(&node.op) {
            true => self.unscaled(node).over(self.platform.npu.compute_scale),
            false => node.duration,
        }
    }

    /// Members of the group of an operation, where they are known.
    fn members(&self, op: &Op) -> Option<u32> {
        self.groups.get(op.slot()? as usize).copied()
    }

    /// The time of an operation; a problem where nothing says it.
    fn stated(&mut self, node: &Node) -> Result<Span, Problem> {
        let recorded = node.duration > Span::ZERO;
        let known = match node.op {
            Op::Memory { bytes, reach, .. } => self.memory.span(bytes, reach, None).is_some(),
            _ if node.op.work().is_none() || recorded => true,
            _ => self.models(node),
        };
        if known {
            return Ok(self.duration(node));
        }
        Err(match node.op {
            Op::Memory { reach, .. } => memory::absent(self.platform, reach),
            _ => no_model(self.platform),
        })
    }

    /// Whether a model gives the time of a computation.
    fn models(&mut self, node: &Node) -> bool {
        let replayed = self.platform.scheduler.replay_only;
        match &self.platform.profile {
            Profile::AstraSim(parameters) => parameters.roofline && !replayed,
            _ => self.estimate(node).is_some(),
        }
    }

    fn doubt(&mut self, node: &Node) -> Option<Doubt> {
        if !on_npu(&node.op) {
            return None;
        }
        match self.estimate(node).map(|estimate| estimate.validity) {
            Some(Validity::Covered) => None,
            Some(Validity::Sparse) => Some(Doubt::Sparse),
            Some(Validity::Outside) => Some(Doubt::Outside),
            Some(Validity::OtherWidth) => Some(Doubt::OtherWidth),
            None if node.duration > Span::ZERO => None,
            None if node.op.work().is_some() => Some(Doubt::NotRecorded),
            None => Some(Doubt::Nothing),
        }
    }
}

fn on_npu(op: &Op) -> bool {
    matches!(op, Op::Compute { cpu: false, .. } | Op::Gemm(_) | Op::Grouped(_) | Op::Lookup(_))
}

fn no_model(platform: &Platform) -> Problem {
    let (key, help) = match platform.scheduler.replay_only {
        true => ("scheduler.replay_only", "false, for times by npu.compute"),
        false => (
            "npu.compute",
            "roofline, with npu.peak, such as 312 TFLOPS, and npu.memory.bandwidth, such as 1550 GB/s",
        ),
    };
    let said = "kernels last as long as a trace recorded, but these have no recorded duration";
    Problem::new(&platform.source, key, said).help(help)
}
