//! From the tree of a platform file to the platform: everything but fabric and collectives.

use super::{collectives, compute, fabric, launch, library, memory, network};
use crate::config::declared::{Setting, keys};
use crate::config::findings::{At, Findings};
use crate::config::tree::{Tree, Value};
use crate::library::Library;
use crate::platform::{
    Collectives, CustomPaths, DimensionOrder, Hierarchy, Launch, Like, Npu, Platform, Scheduler,
};
use crate::profile::Profile;
use device::compute::Compute;
use topology::Fabric;
use units::{Flops, Ratio, Span};

keys! { pub(super) KEYS:
    /// Name for people.
    name: "text", "the file's name";
    /// Where the numbers are from; free text, kept.
    source: "text", "empty";
    /// Presets or files that this one starts from ([extending](#extending-a-platform)).
    extends: "name or path, or a list of them", "none";
    /// Blocks, innermost first: `Ring(4)_FullyConnected(8)_Switch(16)`, short `R(4)_FC(8)_SW(16)`; 1
    /// to 32 dimensions; or a mapping with a `generator`
    /// ([topologies](../models/topologies.md#generators)).
    topology: "notation or mapping", "this or `graph`";
    /// Number of NPUs: resizes the outermost dimension (`1024` makes `SW(8)_SW(16)` an
    /// `SW(8)_SW(128)`; `--npus 1024`). With a `library` whose only dimension is the node it makes a
    /// larger node, and a warning says so. On a graph only the first NPUs run ranks.
    npus: "count", "as `topology` says";
    /// An explicit graph ([below](#explicit-graphs)).
    graph: "mapping", "this or `topology`", in fabric::GRAPH;
    /// One mapping for each dimension, or a single one for all.
    links: "mapping, or a list of them", "required with `topology`", in fabric::LINK;
    /// How the network is simulated.
    network: "mapping", "defaults", in network::KEYS;
    /// The NPU.
    npu: "mapping", "defaults", in NPU;
    /// Memory outside the NPUs ([memory](../models/memory.md)). Without it loads and stores are
    /// errors.
    remote_memory: "mapping", "none", in memory::REMOTE;
    /// Algorithms of collectives: `<kind>: ring`, a list with one for each dimension, or a mapping
    /// ([below](#keys)).
    collectives: "mapping", "`auto`", in collectives::KEYS;
    /// A communication library and its parameters, which then does collectives
    /// ([libraries](../models/libraries.md)).
    library: "mapping", "none: the algorithms of `collectives`", in Library::KEYS;
    /// How collectives are cut into chunks and ordered.
    scheduler: "mapping", "defaults", in Scheduler::KEYS;
    /// Sizes that collectives run over, `[8, 16]`; their product is the number of NPUs.
    logical: "list of counts", "the physical dimensions";
}
keys! { NPU:
    /// Name for people.
    name: "text", "`NPU`";
    /// How long compute nodes take: a word, or a mapping ([compute](../models/compute.md)).
    compute: "word or mapping", "`roofline` if `peak` is given, else `recorded`", in compute::KEYS;
    /// Peak floating-point rate.
    peak: "rate", "none";
    /// Time that the host needs to launch a kernel, a collective or a send: one time, or a mapping
    /// ([launches](../models/compute.md#launches)).
    launch: "time or mapping", "0 ns", in Launch::KEYS;
    /// The NPU's own memory ([memory](../models/memory.md)).
    memory: "mapping", "never limits", in memory::Own::KEYS;
}
/// Chunks of a collective over several dimensions, where nothing is said.
const CHUNKS: u32 = 16;

/// The platform, or nothing and at least one problem.
pub(super) fn platform(tree: &Tree, name: &str, findings: &mut Findings) -> Option<Platform> {
    let root = At::root(tree);
    findings.declared(&root, KEYS)?;
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
        let word = scheduler.dimension_order.word();
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
        findings.warnings.push(format!("no effect with \"library\": {}", keys.join(", ")));
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
        comm_overlap_slowdown: Ratio(0),
        peak: None,
        launch: Launch::default(),
        memory_bandwidth: None,
        memory_latency: Span::ZERO,
        memory_capacity: None,
        memory_on_overflow: Default::default(),
        memory_contention: false,
    };
    let Some(at) = at else { return Some(empty) };
    findings.declared(&at, NPU)?;
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
    let compute::Read { compute, scale: compute_scale, slowdown: comm_overlap_slowdown } = read?;
    Some(Npu {
        name,
        compute,
        compute_scale,
        comm_overlap_slowdown,
        peak,
        launch,
        memory_bandwidth: memory.bandwidth,
        memory_latency: memory.latency,
        memory_capacity: memory.capacity,
        memory_on_overflow: memory.on_overflow,
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

/// The settings; a fault is noted and the default stands in.
fn scheduler(at: Option<At<'_>>, dims: usize, findings: &mut Findings) -> Scheduler {
    let empty = Tree::made(Value::Map(Vec::new()));
    let at = at.unwrap_or_else(|| At::root(&empty));
    let read = Scheduler::read(&at, findings);
    let none = At::root(&empty);
    let default = || Scheduler::read(&none, &mut Findings::new(""));
    let mut scheduler = read.or_else(default).expect("no key of the scheduler is required");
    if dims == 1 && at.get("chunks").is_none() {
        scheduler.chunks = 1;
    }
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
