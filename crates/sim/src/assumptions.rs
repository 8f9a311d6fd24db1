//! Assumptions of a result where the platform leaves something out: kernels at full speed, small
//! messages without a library, messages that every link receives whole.
//!
//! The report lists an assumption only if it matters to this run, and names a preset that has what
//! is missing (`config::native::like`). The thresholds below are chosen, not measured.

use crate::parts::Parts;
use device::compute::{Compute, Efficiency};
use graph::{CollectiveKind, Op, Workload};
use lowering::{Line, Shape};
use network::Usage;
use platform::{Measured, Platform, Policy};
use stats::Operation;
use std::collections::BTreeSet;
use topology::{Fabric, Paths};
use units::{Span, Time};

/// Most bytes per rank of a small collective, where the costs of a library other than sending bytes
/// are visible.
const SMALL: u128 = 1 << 20;
/// Least share of the time of all ranks that matters.
const MATTERS: f64 = 0.01;
/// Least share of the step spent on storing messages on their way that is worth a warning.
const STORED: f64 = 0.05;

/// The assumptions for the report.
pub(crate) fn of_run(parts: &Parts, operations: &[Operation], step: Time) -> Vec<String> {
    let (workload, platform) = (parts.workload, parts.platform);
    let policy = idle_policy(workload, platform);
    if !platform.profile.is_native() {
        return policy.into_iter().collect();
    }
    let small = small_messages(parts, operations, step);
    let all = [policy, full_speed(workload, platform), small];
    let paths = idle_links(parts).into_iter().chain(relayed_blocks(parts));
    all.into_iter().flatten().chain(paths).chain(unmeasured(workload, platform)).collect()
}

/// Those that are known before a run.
pub(crate) fn before_run(workload: &Workload, platform: &Platform) -> Vec<String> {
    let policy = idle_policy(workload, platform);
    let speed = || full_speed(workload, platform).into_iter().chain(unmeasured(workload, platform));
    let more = platform.profile.is_native().then(speed);
    policy.into_iter().chain(more.into_iter().flatten()).collect()
}

/// Priorities order nothing, where all are the same.
fn idle_policy(workload: &Workload, platform: &Platform) -> Option<String> {
    let nodes = || workload.bodies().flat_map(|program| program.nodes());
    let mut priorities = nodes().filter_map(|node| match node.op {
        Op::Collective { priority, .. } => Some(priority),
        _ => None,
    });
    let first = priorities.next()?;
    let is_explicit = platform.scheduler.policy == Policy::Explicit;
    (is_explicit && priorities.all(|priority| priority == first)).then(|| {
        format!(
            "scheduler.policy explicit orders as fifo does: all collectives of the workload have \
             comm_priority {first}"
        )
    })
}

/// An all-to-all on a graph runs along one dimension after the other.
fn relayed_blocks(parts: &Parts) -> Option<String> {
    let kind = CollectiveKind::AllToAll;
    let platform = parts.platform;
    let is_open = platform.collectives.choices[kind as usize].is_none()
        && platform.library.is_none()
        && matches!(platform.fabric, Fabric::Graph(_));
    let by_dimension = |&rank: &u32| {
        let program = parts.workload.program(rank);
        program.nodes().iter().filter(|_| is_open).find_map(|node| {
            let Op::Collective { kind: this, slot, .. } = node.op else { return None };
            let group = &parts.workload.groups[parts.workload.group_of(rank, slot) as usize];
            let shape = Shape::of(&group.members, &parts.settings.sizes, true);
            let request = parts.settings.request(node, 0).filter(|_| this == kind)?;
            let lowered = parts.lowering.lower(&request, &shape).ok()?;
            let dims: BTreeSet<u32> = lowered.shapes.first()?.iter().map(|p| p.dim).collect();
            (dims.len() > 1).then(|| shape.members(&parts.settings.sizes))
        })
    };
    let members = parts.folding.representatives.iter().find_map(by_dimension)?;
    Some(format!(
        "all_to_all of {members} NPUs runs along one dimension after the other, so a block can leave \
         several NPUs on its way; collectives.all_to_all: {{algorithm: direct, flat: true}} sends \
         each block straight to its receiver"
    ))
}

/// Groups that are a part of a full connection use the links between their members only. So does
/// NCCL: the path between two GPUs that have a link is that link (NVIDIA/nccl,
/// src/graph/paths.cc, `ncclTopoSetPaths`).
fn idle_links(parts: &Parts) -> Vec<String> {
    let Fabric::Stacked(dims) = &parts.platform.fabric else { return Vec::new() };
    if parts.platform.library.is_some() || parts.platform.logical.is_some() {
        return Vec::new();
    }
    let sizes = &parts.settings.sizes;
    let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
    for &rank in &parts.folding.representatives {
        for node in parts.workload.program(rank).nodes() {
            let Op::Collective { slot, bytes, .. } = node.op else { continue };
            let group = parts.workload.group_of(rank, slot);
            if bytes.0 == 0 || !seen.insert(group) {
                continue;
            }
            let members = &parts.workload.groups[group as usize].members;
            let Shape::Lines(lines) = Shape::of(members, sizes, true) else { continue };
            let part = |line: &Line| {
                let dim = dims.get(line.dim as usize)?;
                let partial = 1 < line.size && line.size < dim.size;
                (dim.block.paths() == Paths::Direct && partial).then_some((line.dim, line.size))
            };
            found.extend(lines.iter().filter_map(part));
        }
    }
    let text = |(dim, size): (u32, u32)| {
        let all = dims[dim as usize].size;
        format!(
            "collectives of {size} of the {all} NPUs of dimension {} use {} of an NPU's {} links \
             there: between two NPUs with a link, messages take only that link",
            dim + 1,
            size - 1,
            all - 1
        )
    };
    found.into_iter().map(text).collect()
}

/// Collectives of this preset were never compared with measured ones.
fn unmeasured(workload: &Workload, platform: &Platform) -> Option<String> {
    let communicates = || {
        let nodes = || workload.bodies().flat_map(|program| program.nodes());
        nodes().any(|node| matches!(node.op, Op::Collective { .. }))
    };
    (platform.measured == Measured::Nothing && communicates())
        .then(|| format!("no measurement of a collective supports {}", platform.name))
}

/// Kernels have the efficiencies of other hardware.
pub(crate) fn fitted_elsewhere(workload: &Workload, platform: &Platform) -> Option<String> {
    let said = platform.npu.fitted_on.as_ref()?;
    (computes(workload) && !platform.scheduler.replay_only).then(|| {
        format!(
            "no measurement of a training step supports {}: its efficiencies are those fitted on \
             {said} (docs/models/compute.md#assumed-efficiencies)",
            platform.name
        )
    })
}

/// Whether anything computes for as long as the platform's model says.
fn computes(workload: &Workload) -> bool {
    workload.bodies().any(|program| program.nodes().iter().any(|node| node.op.work().is_some()))
}

/// Kernels reach the peak of a roofline without efficiencies.
fn full_speed(workload: &Workload, platform: &Platform) -> Option<String> {
    let Compute::Roofline(roofline) = &platform.npu.compute else { return None };
    if roofline.efficiency != Efficiency::default() || !computes(workload) {
        return None;
    }
    let peak = roofline.peak.as_tflops();
    let preset = match &platform.like.compute {
        Some(name) => format!("; the preset {name} has fitted values"),
        None => String::new(),
    };
    Some(format!(
        "kernels reach 100 % of the peak ({peak} TFLOP/s) and of the memory bandwidth, because the \
         platform has no npu.compute.efficiency{preset}"
    ))
}

/// Small collectives cost only latency and bandwidth.
fn small_messages(parts: &Parts, operations: &[Operation], step: Time) -> Option<String> {
    let platform = parts.platform;
    let chosen = |kind: &CollectiveKind| platform.collectives.choices[*kind as usize].is_some();
    let open =
        |name: &str| CollectiveKind::ALL.iter().any(|kind| kind.name() == name && !chosen(kind));
    let small = |operation: &&Operation| {
        operation.bytes > 0 && operation.bytes <= SMALL * operation.count && open(&operation.kind)
    };
    if platform.library.is_some() {
        return None;
    }
    let cost: f64 = operations.iter().filter(small).map(|operation| operation.cost_ns).sum();
    let share = cost / (step.as_ns() * f64::from(parts.settings.ranks)).max(1.0);
    let chunks = match platform.scheduler.chunks {
        1 => String::new(),
        chunks => format!(", in up to {chunks} chunks"),
    };
    let preset = match &platform.like.library {
        Some(name) => format!("; the preset {name} has a fitted one"),
        None => String::new(),
    };
    (share >= MATTERS).then(|| {
        format!(
            "small collectives (up to 1 MiB per rank; {:.1} % of the time of all ranks) cost only \
             latency and bandwidth{chunks}, because the platform has no library{preset}",
            share * 100.0
        )
    })
}

/// A warning about messages that nodes receive whole before they send them on, if the step waits
/// for that.
pub(crate) fn stored(parts: &Parts, usage: &Usage, step: Time) -> Option<String> {
    if !parts.platform.profile.is_native() || !parts.settings.one_at_a_time() {
        return None;
    }
    let mean = Span(
        u64::try_from(usage.stored / u128::from(parts.settings.ranks.max(1))).unwrap_or(u64::MAX),
    );
    let share = mean.as_ns() / step.as_ns().max(1e-3);
    (share >= STORED).then(|| {
        format!(
            "every node received messages whole before it sent them on \
             (network.link.switching=store_and_forward), which took {:.0} % of the step; real \
             switches cut through (docs/models/networks-link.md)",
            share * 100.0
        )
    })
}
