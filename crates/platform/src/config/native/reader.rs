//! From the tree of a platform file to the platform: everything but fabric and collectives.

use super::{collectives, compute, fabric, launch, library, memory, network, show};
use crate::config::findings::{At, Findings};
use crate::config::tree::{Tree, Value};
use crate::platform::{
    Collectives, CustomPaths, DimensionOrder, Hierarchy, Launch, Like, Npu, Platform, Policy,
    Scheduler,
};
use crate::profile::Profile;
use device::compute::Compute;
use topology::Fabric;
use units::{Flops, Ratio, Span};

const KEYS: [&str; 13] = [
    "name",
    "source",
    "topology",
    "npus",
    "graph",
    "links",
    "network",
    "npu",
    "remote_memory",
    "collectives",
    "library",
    "scheduler",
    "logical",
];
/// Words for `scheduler.policy`.
pub(super) const POLICIES: [(&str, Policy); 5] = [
    ("lifo", Policy::Lifo),
    ("fifo", Policy::Fifo),
    ("explicit", Policy::Explicit),
    ("all_to_all_first", Policy::AllToAllFirst),
    ("smallest_first", Policy::SmallestFirst),
];
/// Words for `scheduler.dimension_order`.
pub(super) const DIMENSION_ORDERS: [(&str, DimensionOrder); 3] = [
    ("baseline", DimensionOrder::Baseline),
    ("themis", DimensionOrder::Themis),
    ("offline_greedy", DimensionOrder::OfflineGreedy),
];
/// Chunks of a collective over several dimensions, where nothing is said.
const CHUNKS: u32 = 16;

/// The platform, or nothing and at least one problem.
pub(super) fn platform(tree: &Tree, name: &str, findings: &mut Findings) -> Option<Platform> {
    let root = At::root(tree);
    findings.mapping(&root, &KEYS)?;
    let fabric = fabric::read(&root, findings);
    let npu = npu(root.get("npu"), findings);
    let routing = network::read(root.get("network"), findings);
    let fabric = fabric?;
    let remote_memory =
        root.get("remote_memory").map(|at| memory::remote(&at, fabric.npus(), findings));
    let logical = root.get("logical").map(|at| logical(&at, fabric.npus(), findings));
    let sizes = logical.clone().flatten().unwrap_or_else(|| fabric.sizes());
    let mut custom_paths = CustomPaths::default();
    let blocks = match &fabric {
        Fabric::Stacked(dims) if logical.is_none() => dims.iter().map(|dim| dim.block).collect(),
        _ => Vec::new(),
    };
    let collectives =
        collectives::read(root.get("collectives"), &sizes, &blocks, &mut custom_paths, findings);
    let scheduler = scheduler(root.get("scheduler"), sizes.len(), findings);
    let library = root.get("library").filter(|at| at.tree.value != Value::Null).map(|at| {
        unused(&collectives, &scheduler, sizes.len(), findings);
        findings.warnings.extend(fabric::larger_node(&root, &fabric));
        library::read(&at, &fabric, logical.is_some(), findings)
    });
    if let Some(why) = keeps_order(&scheduler, &collectives, &fabric, logical.is_some()) {
        let word = show::dimension_order(scheduler.dimension_order);
        findings.warnings.push(format!("scheduler.dimension_order: {word} has no effect {why}"));
    }
    Some(Platform {
        name: label(&root, "name", name, findings),
        source: label(&root, "source", "", findings),
        fabric,
        routing: routing?,
        logical: invert(logical)?,
        npu: npu?,
        remote_memory: invert(remote_memory)?,
        collectives,
        library: invert(library)?,
        scheduler,
        custom_paths,
        profile: Profile::Native,
        astra_sim: None,
        warnings: std::mem::take(&mut findings.warnings),
        like: Like::default(),
    })
}

/// Warns of settings that a library leaves without effect when it does every collective.
fn unused(collectives: &Collectives, scheduler: &Scheduler, dims: usize, findings: &mut Findings) {
    if collectives.choices.iter().any(Option::is_some) {
        return;
    }
    let settings = [
        ("collectives.hierarchy", collectives.hierarchy != Hierarchy::Enhanced),
        ("scheduler.chunks", scheduler.chunks != if dims == 1 { 1 } else { CHUNKS }),
        ("scheduler.dimension_order", scheduler.dimension_order != DimensionOrder::Baseline),
    ];
    let keys: Vec<&str> = settings.iter().filter(|s| s.1).map(|s| s.0).collect();
    if !keys.is_empty() {
        findings.warnings.push(format!("without effect beside \"library\": {}", keys.join(", ")));
    }
}

/// Absent is fine, present and broken is not.
fn invert<T>(value: Option<Option<T>>) -> Option<Option<T>> {
    match value {
        None => Some(None),
        Some(None) => None,
        Some(present) => Some(present),
    }
}

fn label(root: &At<'_>, key: &str, default: &str, findings: &mut Findings) -> String {
    root.get(key).and_then(|at| findings.label(&at)).unwrap_or_else(|| default.to_string())
}

fn npu(at: Option<At<'_>>, findings: &mut Findings) -> Option<Npu> {
    let empty = Npu {
        name: "NPU".into(),
        compute: Compute::Recorded,
        compute_scale: Ratio::ONE,
        compute_beside: Ratio::ONE,
        peak: None,
        launch: Launch::default(),
        memory_bandwidth: None,
        memory_latency: Span::ZERO,
        memory_capacity: None,
        memory_exceeded: Default::default(),
        memory_contention: false,
    };
    let Some(at) = at else { return Some(empty) };
    findings.mapping(&at, &["name", "compute", "peak", "launch", "memory"])?;
    let before = findings.problems.len();
    let peak = at.get("peak").and_then(|at| findings.quantity(&at));
    let launch = launch::read(at.get("launch"), findings);
    let memory = memory::own(at.get("memory"), findings);
    let name = label(&at, "name", "NPU", findings);
    // A peak that can't be read is one problem; that compute had none would be another.
    let stand_in = at.get("peak").map(|_| Flops(1));
    let given = compute::Given { peak: peak.or(stand_in), memory: memory.bandwidth };
    let read = compute::read(&at, given, findings);
    if findings.problems.len() > before {
        return None;
    }
    let compute::Read { compute, scale: compute_scale, beside: compute_beside } = read?;
    Some(Npu {
        name,
        compute,
        compute_scale,
        compute_beside,
        peak,
        launch,
        memory_bandwidth: memory.bandwidth,
        memory_latency: memory.latency,
        memory_capacity: memory.capacity,
        memory_exceeded: memory.exceeded,
        memory_contention: memory.contention,
    })
}

fn logical(at: &At<'_>, npus: u32, findings: &mut Findings) -> Option<Vec<u32>> {
    if !matches!(&at.tree.value, Value::List(items) if (1..=32).contains(&items.len())) {
        findings.refuse(
            at,
            format!("{} is not allowed", at.tree.show()),
            "a list of 1 to 32 sizes, such as [8, 16]",
        );
        return None;
    }
    let items = at.items();
    let sizes: Vec<u32> =
        items.iter().filter_map(|item| findings.whole(item, 1, u32::MAX)).collect();
    if sizes.len() < items.len() {
        return None;
    }
    let product = sizes.iter().try_fold(1u32, |a, &b| a.checked_mul(b));
    if product != Some(npus) {
        let shown = product.map_or("more than 4,294,967,295".to_string(), |p| p.to_string());
        let message = format!("the logical dimensions hold {shown} NPUs, the network {npus}");
        findings.refuse(at, message, "sizes whose product is the number of NPUs");
        return None;
    }
    Some(sizes)
}

fn scheduler(at: Option<At<'_>>, dims: usize, findings: &mut Findings) -> Scheduler {
    let mut scheduler = Scheduler {
        policy: Policy::Fifo,
        dimension_order: DimensionOrder::Baseline,
        chunks: if dims == 1 { 1 } else { CHUNKS },
        active_chunks: 1,
        queues_per_dim: 1,
        endpoint_delay: Span::from_ns(10),
        comm_streams: 0,
        rendezvous: false,
        replay_only: false,
    };
    let Some(at) = at else { return scheduler };
    let keys = [
        "policy",
        "dimension_order",
        "chunks",
        "active_chunks",
        "queues_per_dim",
        "endpoint_delay",
        "comm_streams",
        "rendezvous",
        "replay_only",
    ];
    if findings.mapping(&at, &keys).is_none() {
        return scheduler;
    }
    // A fault is noted and the default stands in; the noted fault ends the reading.
    let mut take = |key: &str, set: &mut dyn FnMut(&At<'_>, &mut Findings) -> Option<()>| {
        if let Some(value) = at.get(key) {
            set(&value, findings);
        }
    };
    let s = &mut scheduler;
    take("policy", &mut |at, f| f.one_of(at, &POLICIES).map(|v| s.policy = v));
    take("dimension_order", &mut |at, f| {
        f.one_of(at, &DIMENSION_ORDERS).map(|v| s.dimension_order = v)
    });
    take("chunks", &mut |at, f| f.whole(at, 1, u32::MAX).map(|v| s.chunks = v));
    take("active_chunks", &mut |at, f| f.whole(at, 1, u32::MAX).map(|v| s.active_chunks = v));
    take("queues_per_dim", &mut |at, f| f.whole(at, 1, u32::MAX).map(|v| s.queues_per_dim = v));
    take("endpoint_delay", &mut |at, f| f.quantity(at).map(|v| s.endpoint_delay = v));
    take("comm_streams", &mut |at, f| streams(at, f).map(|v| s.comm_streams = v));
    take("rendezvous", &mut |at, f| f.flag(at).map(|v| s.rendezvous = v));
    take("replay_only", &mut |at, f| f.flag(at).map(|v| s.replay_only = v));
    scheduler
}

/// What keeps a scheduler from choosing another order than the baseline's, wherever it could.
fn keeps_order(
    scheduler: &Scheduler,
    collectives: &Collectives,
    fabric: &Fabric,
    logical: bool,
) -> Option<&'static str> {
    let reasons = [
        (scheduler.chunks == 1, "on a single chunk: set scheduler.chunks"),
        (
            collectives.hierarchy != Hierarchy::Enhanced,
            "on all_reduce: it needs collectives.hierarchy: enhanced",
        ),
        (matches!(fabric, Fabric::Graph(_)), "on a graph: it needs dimensions"),
        (logical, "where a logical dimension crosses physical ones"),
    ];
    let chosen = scheduler.dimension_order != DimensionOrder::Baseline;
    reasons.into_iter().find(|(keeps, _)| chosen && *keeps).map(|(_, why)| why)
}

/// A count, or `unlimited` (0 inside).
fn streams(at: &At<'_>, findings: &mut Findings) -> Option<u32> {
    match &at.tree.value {
        Value::Text(text) if text == "unlimited" => Some(0),
        Value::Int(1..=4_294_967_295) => findings.whole(at, 1, u32::MAX),
        _ => {
            findings.refuse(
                at,
                format!("{} is not allowed", at.tree.show()),
                "a whole number from 1, or unlimited",
            );
            None
        }
    }
}
