//! `system.json`: collectives, scheduler, NPU.

use super::args::AstraSimArgs;
use super::syntax::{Syntax, integer, mapping, number};
use crate::config::file::{self, Load};
use crate::platform::{
    Algorithm, Choice, Collectives, CustomPaths, DimensionOrder, Hierarchy, Launch, Npu, Policy,
    Rings, Scheduler,
};
use crate::profile::{AstraSimParameters, SharedBus};
use declared::ByDim;
use declared::findings::{At, Findings, did_you_mean};
use declared::parse;
use declared::tree::{Tree, Value};
use device::compute::{Compute, Roofline};
use graph::CollectiveKind;
use std::collections::BTreeMap;
use units::{Bandwidth, Flops, Ratio, Span};

const KEYS: [&str; 28] = [
    "scheduling-policy",
    "inter-dimension-scheduling",
    "collective-optimization",
    "endpoint-delay",
    "active-chunks-per-dimension",
    "preferred-dataset-splits",
    "all-reduce-implementation",
    "all-gather-implementation",
    "reduce-scatter-implementation",
    "all-to-all-implementation",
    "all-reduce-implementation-custom",
    "all-gather-implementation-custom",
    "reduce-scatter-implementation-custom",
    "all-to-all-implementation-custom",
    "per-node-custom-implementation",
    "local-mem-bw",
    "peak-perf",
    "roofline-enabled",
    "replay-only",
    "trace-enabled",
    "track-local-mem",
    "local-mem-trace-filename",
    "local-reduction-delay",
    "model-shared-bus",
    "L",
    "o",
    "g",
    "G",
];

/// The kinds that have an implementation key.
const KINDS: [(&str, CollectiveKind); 4] = [
    ("all-reduce", CollectiveKind::AllReduce),
    ("all-gather", CollectiveKind::AllGather),
    ("reduce-scatter", CollectiveKind::ReduceScatter),
    ("all-to-all", CollectiveKind::AllToAll),
];

const ALGORITHMS: &str = "ring, direct, directW, halvingDoubling, doubleBinaryTree, oneRing, oneDirect, oneDirectW, \
                          oneHalvingDoubling, where W is a whole number from 1";
const MANY: i64 = u32::MAX as i64;

pub(super) struct System {
    pub raw: AstraSimParameters,
    pub npu: Npu,
    pub collectives: Collectives,
    pub scheduler: Scheduler,
    pub custom_paths: CustomPaths,
}

pub(super) fn read(
    args: &AstraSimArgs,
    dims: Option<usize>,
    load: &Load<'_>,
    all: &mut Findings,
) -> Option<System> {
    let mut findings = Findings::new(&args.system);
    let system = parse(args, dims, load, &mut findings);
    let fine = findings.problems.is_empty();
    all.merge(findings);
    all.warnings.extend(args.ignored());
    system.filter(|_| fine)
}

fn parse(
    args: &AstraSimArgs,
    dims: Option<usize>,
    load: &Load<'_>,
    findings: &mut Findings,
) -> Option<System> {
    let tree = mapping("system file", Syntax::Json, &KEYS, load, findings)?;
    let root = At::root(&tree);
    let collectives = collectives(&root, dims, findings);
    let raw = raw(&root, args, findings);
    warn_of_gaps(&raw, findings);
    let scheduler = scheduler(&root, args, raw.endpoint_delay, findings);
    let npu = npu(&raw, &root, findings);
    let custom_paths = custom_paths(&root, load, findings);
    Some(System { raw, npu, collectives, scheduler: scheduler?, custom_paths })
}

/// Names what the file switches on and nothing here does.
fn warn_of_gaps(raw: &AstraSimParameters, findings: &mut Findings) {
    let gaps = [
        (
            raw.shared_bus.is_some(),
            "model-shared-bus: the memory bus is not modelled, endpoint-delay is charged instead",
        ),
        (raw.trace_enabled, "trace-enabled: no log is written"),
        (raw.track_local_memory.is_some(), "track-local-mem: no memory trace is written"),
    ];
    for (_, gap) in gaps.iter().filter(|(on, _)| *on) {
        findings.warnings.push(format!("{}: {gap}", findings.file));
    }
}

/// A value or its default; a fault is noted and the default stands in.
fn or<T>(root: &At<'_>, key: &str, default: T, read: impl FnOnce(&At<'_>) -> Option<T>) -> T {
    root.get(key).and_then(|at| read(&at)).unwrap_or(default)
}

fn whole(root: &At<'_>, key: &str, default: u32, least: i64, findings: &mut Findings) -> u32 {
    or(root, key, default, |at| {
        integer(at, least, MANY, findings).and_then(|i| u32::try_from(i).ok())
    })
}

fn switch(root: &At<'_>, key: &str, findings: &mut Findings) -> bool {
    or(root, key, false, |at| number(at, |_| true, "0, 1", findings).map(|x| x.trunc() != 0.0))
}

fn real(root: &At<'_>, key: &str, findings: &mut Findings) -> f64 {
    or(root, key, 0.0, |at| {
        number(at, |x| (0.0..=1e15).contains(&x), "a number from 0 to 1e15", findings)
    })
}

fn raw(root: &At<'_>, args: &AstraSimArgs, findings: &mut Findings) -> AstraSimParameters {
    let bus = switch(root, "model-shared-bus", findings);
    let shared_bus = SharedBus {
        latency: real(root, "L", findings),
        overhead: real(root, "o", findings),
        gap: real(root, "g", findings),
        gap_per_byte: real(root, "G", findings),
        local_reduction_delay: or(root, "local-reduction-delay", 1, |at| {
            integer(at, 0, MANY, findings)
        }),
    };
    let name =
        root.get("local-mem-trace-filename").and_then(|at| findings.text(&at).map(str::to_string));
    let track = switch(root, "track-local-mem", findings);
    AstraSimParameters {
        system_file: args.system.clone(),
        endpoint_delay: endpoint_delay(root, args.injection_scale, findings),
        local_memory_bandwidth: real(root, "local-mem-bw", findings),
        peak: real(root, "peak-perf", findings),
        roofline: switch(root, "roofline-enabled", findings),
        shared_bus: bus.then_some(shared_bus),
        trace_enabled: switch(root, "trace-enabled", findings),
        track_local_memory: track.then(|| name.unwrap_or_else(|| "local_mem_trace".to_string())),
        ..AstraSimParameters::default()
    }
}

/// Nanoseconds; the scale applies only when the file has the key.
fn endpoint_delay(root: &At<'_>, scale: f64, findings: &mut Findings) -> u64 {
    let scaled = |at: &At<'_>| {
        let delay = integer(at, 0, 1_000_000_000, findings)? as f64 * scale;
        if delay > 1e12 {
            findings.refuse(
                at,
                format!("{} times --injection-scale is above 1e12", at.tree.show()),
                "at most 1e12 ns",
            );
        }
        Some(delay as u64)
    };
    or(root, "endpoint-delay", 10, scaled)
}

fn scheduler(
    root: &At<'_>,
    args: &AstraSimArgs,
    endpoint_delay: u64,
    findings: &mut Findings,
) -> Option<Scheduler> {
    let policies = [("LIFO", Policy::Lifo), ("FIFO", Policy::Fifo), ("EXPLICIT", Policy::Explicit)];
    let policy = chosen(root, "scheduling-policy", &policies, ("FIFO", Policy::Fifo), findings);
    let active_chunks = whole(root, "active-chunks-per-dimension", 1, 1, findings);
    let replay_only = switch(root, "replay-only", findings);
    let splits = findings.need(
        root,
        "preferred-dataset-splits",
        "a whole number from 1: the chunks of a collective",
    )?;
    Some(Scheduler {
        policy,
        all_to_all_first: false,
        dispatch_below: 0,
        dispatch_chunks: 1,
        dimension_order: dimension_order(root, findings),
        chunks: integer(&splits, 1, MANY, findings).and_then(|i| u32::try_from(i).ok())?,
        active_chunks: ByDim::All(active_chunks),
        queues_per_dim: ByDim::All(args.num_queues_per_dim),
        endpoint_delay: Span(endpoint_delay.saturating_mul(1_000)),
        comm_streams: 1,
        rendezvous: args.rendezvous,
        replay_only,
    })
}

/// Dimension order, from the key that older versions of the peer took for a scheduler; this one
/// ignores the key and every word of it.
fn dimension_order(root: &At<'_>, findings: &mut Findings) -> DimensionOrder {
    let Some(at) = root.get("inter-dimension-scheduling") else { return DimensionOrder::Baseline };
    let words =
        [("themis", DimensionOrder::Themis), ("offlineGreedy", DimensionOrder::OfflineGreedy)];
    let Value::Text(text) = &at.tree.value else { return DimensionOrder::Baseline };
    let Some(&(word, order)) = words.iter().find(|w| w.0 == text) else {
        return DimensionOrder::Baseline;
    };
    findings.warnings.push(format!(
        "{}: ASTRA-sim ignores inter-dimension-scheduling: {word}; a native platform file with scheduler.dimension_order does it",
        findings.file
    ));
    order
}

/// A word that the peer leaves undefined when missing: a default and a warning.
fn chosen<T: Copy>(
    root: &At<'_>,
    key: &str,
    words: &[(&str, T)],
    default: (&str, T),
    findings: &mut Findings,
) -> T {
    match root.get(key) {
        Some(at) => findings.one_of(&at, words).unwrap_or(default.1),
        None => {
            let text = format!(
                "{}: \"{key}\" is missing, which ASTRA-sim leaves undefined; taken as {}",
                findings.file, default.0
            );
            findings.warnings.push(text);
            default.1
        }
    }
}

fn npu(raw: &AstraSimParameters, root: &At<'_>, findings: &mut Findings) -> Npu {
    let memory = Bandwidth((raw.local_memory_bandwidth * 1e9).round() as u64);
    let peak = Flops((raw.peak * 1e12).round() as u64);
    if raw.roofline && (memory.0 == 0 || peak.0 == 0) {
        let (message, allowed) = (
            "the roofline needs \"peak-perf\" and \"local-mem-bw\" above zero",
            "TFLOP/s and GB/s above zero",
        );
        findings.add("roofline-enabled", message, allowed);
    }
    if root.get("local-mem-bw").is_none() {
        findings.warnings.push(format!(
            "{}: \"local-mem-bw\" is missing: reductions cost nothing",
            findings.file
        ));
    }
    Npu {
        name: "NPU".to_string(),
        compute: if raw.roofline {
            Compute::Roofline(Roofline::ideal(peak, memory))
        } else {
            Compute::Recorded
        },
        compute_scale: Ratio::ONE,
        comm_overlap_slowdown: Ratio(0),
        fitted_on: None,
        launch: Launch::default(),
        peak: (peak.0 > 0).then_some(peak),
        memory_bandwidth: (memory.0 > 0).then_some(memory),
        memory_latency: Span::ZERO,
        memory_capacity: None,
        memory_on_overflow: Default::default(),
        memory_contention: false,
        kernels: None,
    }
}

fn collectives(root: &At<'_>, dims: Option<usize>, findings: &mut Findings) -> Collectives {
    let words = [("baseline", Hierarchy::Baseline), ("localBWAware", Hierarchy::Enhanced)];
    let hierarchy = chosen(
        root,
        "collective-optimization",
        &words,
        ("localBWAware", Hierarchy::Enhanced),
        findings,
    );
    let mut choices = std::array::from_fn(|_| None);
    for (name, kind) in KINDS {
        if let Some(at) = root.get(&format!("{name}-implementation")) {
            choices[kind as usize] = implementation(&at, dims, findings);
        }
    }
    Collectives {
        choices,
        hierarchy,
        rings: Rings::OneWay,
        custom: std::array::from_fn(|_| None),
        custom_nodes: Default::default(),
    }
}

fn implementation(at: &At<'_>, dims: Option<usize>, findings: &mut Findings) -> Option<Choice> {
    let items = texts(
        at,
        &format!("a list with one algorithm for each dimension: {ALGORITHMS}"),
        findings,
    )?;
    if let Some(dims) = dims
        && items.len() > dims
    {
        let message = format!("{} algorithms for {dims} dimensions", items.len());
        findings.refuse(at, message, "at most one algorithm for each dimension");
        return None;
    }
    let parsed: Vec<Option<(Algorithm, bool)>> =
        items.iter().map(|item| algorithm(item, findings)).collect();
    let parsed: Option<Vec<(Algorithm, bool)>> = parsed.into_iter().collect();
    let parsed = parsed?;
    let flat = parsed[0].1;
    if let Some(odd) = parsed.iter().skip(1).position(|p| p.1 && !flat) {
        findings.refuse(
            &items[odd + 1],
            "a \"one\" algorithm after one for a single dimension",
            "\"one\" algorithms first in the list",
        );
        return None;
    }
    Some(Choice { per_dim: parsed.into_iter().map(|(algorithm, _)| algorithm).collect(), flat })
}

/// A non-empty list of texts.
fn texts<'a>(at: &At<'a>, allowed: &str, findings: &mut Findings) -> Option<Vec<At<'a>>> {
    let is_text = |tree: &Tree| matches!(tree.value, Value::Text(_));
    if matches!(&at.tree.value, Value::List(items) if !items.is_empty() && items.iter().all(is_text))
    {
        return Some(at.items());
    }
    let shown = if matches!(at.tree.value, Value::List(_)) {
        "a list of other things than texts".into()
    } else {
        at.tree.show()
    };
    findings.refuse(at, format!("{shown} is not allowed"), allowed);
    None
}

/// The algorithm and whether it runs on one flat ring of all NPUs.
fn algorithm(at: &At<'_>, findings: &mut Findings) -> Option<(Algorithm, bool)> {
    let text = findings.text(at)?;
    let found = match text {
        "ring" => (Algorithm::Ring, false),
        "oneRing" => (Algorithm::Ring, true),
        "halvingDoubling" => (Algorithm::HalvingDoubling, false),
        "oneHalvingDoubling" => (Algorithm::HalvingDoubling, true),
        "doubleBinaryTree" => (Algorithm::DoubleBinaryTree, false),
        _ => {
            let (rest, flat) = match text.strip_prefix("oneDirect") {
                Some(rest) => (Some(rest), true),
                None => (text.strip_prefix("direct"), false),
            };
            let Some(window) = rest.and_then(window) else {
                let names = [
                    "ring",
                    "direct",
                    "halvingDoubling",
                    "doubleBinaryTree",
                    "oneRing",
                    "oneDirect",
                    "oneHalvingDoubling",
                ];
                let hint = did_you_mean(text, names.into_iter());
                findings.refuse(at, format!("unknown algorithm \"{text}\"{hint}"), ALGORITHMS);
                return None;
            };
            (Algorithm::Direct { window }, flat)
        }
    };
    Some(found)
}

/// The window behind `direct`: none, or a number above zero.
fn window(text: &str) -> Option<Option<u32>> {
    if text.is_empty() {
        return Some(None);
    }
    let number =
        text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten();
    number.filter(|&n| n > 0).map(Some)
}

fn custom_paths(root: &At<'_>, load: &Load<'_>, findings: &mut Findings) -> CustomPaths {
    let mut paths = CustomPaths::default();
    for (name, kind) in KINDS {
        let at = root.get(&format!("{name}-implementation-custom"));
        let items = at.and_then(|at| texts(&at, "a list with one path prefix", findings));
        let first = items.and_then(|items| items.into_iter().next());
        paths.kinds[kind as usize] = first.and_then(|at| findings.text(&at).map(str::to_string));
    }
    if let Some(at) = root.get("per-node-custom-implementation") {
        let file = findings.text(&at).map(str::to_string);
        paths.nodes = file.map(|file| per_node(&file, load, findings)).unwrap_or_default();
    }
    paths
}

/// A YAML file `{workload node id: prefix}`.
fn per_node(path: &str, load: &Load<'_>, all: &mut Findings) -> BTreeMap<u64, String> {
    let mut findings = Findings::new(path);
    let mut nodes = BTreeMap::new();
    let text = file::text("per-node custom implementation file", load, &mut findings);
    let tree = text.and_then(|text| parse::yaml(&text, &mut findings)).unwrap_or_default();
    let root = At::root(&tree);
    if findings.problems.is_empty() && !root.is_map() && tree.value != Value::Null {
        findings.refuse(
            &root,
            format!("the file holds {}", tree.show()),
            "a mapping from node id to path prefix",
        );
    }
    for (key, at) in root.entries() {
        match (key.name.parse(), findings.text(&at)) {
            (Ok(id), Some(prefix)) => drop(nodes.insert(id, prefix.to_string())),
            (Err(_), _) => findings.refuse(
                &at,
                format!("\"{}\" is not a node id", key.name),
                "a whole number from 0",
            ),
            _ => {}
        }
    }
    all.merge(findings);
    nodes
}
