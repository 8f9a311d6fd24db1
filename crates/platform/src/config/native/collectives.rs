//! `collectives`: algorithms by kind, the hierarchy of all-reduce, algorithms from files.

use crate::config::declared::keys;
use crate::config::findings::{At, Findings, did_you_mean};
use crate::config::tree::Value;
use crate::platform::{Algorithm, Choice, Collectives, CustomPaths, Hierarchy};
use collective::{Phase, PlanError, PlanRequest};
use graph::CollectiveKind;
use std::path::Path;
use topology::{Block, Paths};

/// Words for `collectives.hierarchy`.
pub(super) const HIERARCHIES: [(&str, Hierarchy); 4] = [
    ("baseline", Hierarchy::Baseline),
    ("enhanced", Hierarchy::Enhanced),
    ("hierarchical", Hierarchy::Hierarchical),
    ("hierarchical_optimal", Hierarchy::HierarchicalOptimal),
];
keys! { pub(super) KEYS:
    /// How an all-reduce goes over several dimensions
    /// ([hierarchies](../models/hierarchies.md)).
    hierarchy: "`baseline`, `enhanced`, `hierarchical`, `hierarchical_optimal`", "`enhanced`";
    /// Algorithm of each dimension: `ring`, `direct`, `direct(W)`, `halving_doubling`,
    /// `double_binary_tree`, `in_network`, `auto`.
    all_reduce: "word, list or mapping", "`auto`";
    /// Likewise.
    all_gather: "word, list or mapping", "`auto`";
    /// Likewise.
    reduce_scatter: "word, list or mapping", "`auto`";
    /// Likewise.
    all_to_all: "word, list or mapping", "`auto`";
    /// Likewise.
    broadcast: "word, list or mapping", "`auto`";
    /// Likewise.
    reduce: "word, list or mapping", "`auto`";
    /// Likewise.
    gather: "word, list or mapping", "`auto`";
    /// Likewise.
    scatter: "word, list or mapping", "`auto`";
    /// Likewise.
    barrier: "word, list or mapping", "`auto`";
}
const ALGORITHMS: &str = "ring, direct, direct(W) with W messages in flight, halving_doubling, double_binary_tree, in_network";

/// The settings; a fault is noted and its default stands in.
/// `blocks` are those of the dimensions that collectives run over, where each is one.
pub(super) fn read(
    at: Option<At<'_>>,
    sizes: &[u32],
    blocks: &[Block],
    paths: &mut CustomPaths,
    findings: &mut Findings,
) -> Collectives {
    let mut collectives = Collectives {
        choices: std::array::from_fn(|_| None),
        hierarchy: Hierarchy::Enhanced,
        custom: std::array::from_fn(|_| None),
        custom_nodes: Default::default(),
    };
    let Some(at) = at else { return collectives };
    if findings.declared(&at, KEYS).is_none() {
        return collectives;
    }
    if let Some(hierarchy) = at.get("hierarchy") {
        collectives.hierarchy =
            findings.one_of(&hierarchy, &HIERARCHIES).unwrap_or(Hierarchy::Enhanced);
    }
    for kind in CollectiveKind::ALL {
        if let Some(value) = at.get(kind.name()) {
            let (choice, path) = entry(&value, sizes.len(), findings);
            if let Some(choice) = &choice {
                suits(kind, choice, &value, sizes, collectives.hierarchy, findings);
                switched(choice, &value, blocks, findings);
            }
            collectives.choices[kind as usize] = choice;
            paths.kinds[kind as usize] = path;
        }
    }
    collectives
}

/// Refuses an algorithm that cannot run a phase of the collective on its dimension.
fn suits(
    kind: CollectiveKind,
    choice: &Choice,
    at: &At<'_>,
    sizes: &[u32],
    hierarchy: Hierarchy,
    findings: &mut Findings,
) {
    let dims: Vec<(u32, u32)> = (0..).zip(sizes.iter().copied()).collect();
    let phases = if choice.flat {
        vec![Phase::flat(kind, 0)]
    } else {
        collective::phases(kind, 0, &dims, hierarchy)
    };
    let list = at.get("algorithm").unwrap_or_else(|| at.clone()).items();
    for phase in phases {
        let dim = phase.dim.unwrap_or(0) as usize;
        let n = if choice.flat { sizes.iter().product() } else { sizes[dim] };
        let request = PlanRequest {
            kind: phase.kind,
            algorithm: choice.per_dim[dim],
            n,
            bytes: 0,
            root: 0,
            chunk: 0,
        };
        if let Err(error @ (PlanError::NotPowerOfTwo { .. } | PlanError::Unsupported { .. })) =
            request.check()
        {
            let place =
                if choice.flat { String::new() } else { format!(", dimension {}", dim + 1) };
            findings.refuse(
                list.get(dim).unwrap_or(&list[0]),
                format!("{}{place}", error.message()),
                error.allowed(),
            );
            return;
        }
    }
}

/// Refuses in-network reduction where there is no switch to do it.
fn switched(choice: &Choice, at: &At<'_>, blocks: &[Block], findings: &mut Findings) {
    let list = at.get("algorithm").unwrap_or_else(|| at.clone()).items();
    for (dim, _) in choice.per_dim.iter().enumerate().filter(|(_, a)| **a == Algorithm::InNetwork) {
        let block = blocks.get(dim).filter(|_| !choice.flat || blocks.len() == 1);
        if block.map(|block| block.paths()) != Some(Paths::Switched) {
            let what = block.map_or("no single switch".to_string(), |block| format!("a {block:?}"));
            let message = format!("in_network on dimension {}, which is {what}", dim + 1);
            findings.refuse(
                list.get(dim).unwrap_or(&list[0]),
                message,
                "a Switch dimension, or another algorithm",
            );
        }
    }
}

/// `ring`, `[ring, direct]`, `auto`, or `{algorithm: ..., flat: true, custom: path}`.
fn entry(at: &At<'_>, dims: usize, findings: &mut Findings) -> (Option<Choice>, Option<String>) {
    if !at.is_map() {
        return (choice(at, dims, false, findings), None);
    }
    if findings.mapping(at, &["algorithm", "flat", "custom"]).is_none() {
        return (None, None);
    }
    let path = at.get("custom").and_then(|at| custom(&at, findings));
    let flat = at.get("flat").and_then(|at| findings.flag(&at)).unwrap_or(false);
    match at.get("algorithm") {
        Some(algorithm) => (choice(&algorithm, dims, flat, findings), path),
        None if flat || at.get("custom").is_none() => {
            findings.missing(at, "algorithm", ALGORITHMS);
            (None, path)
        }
        None => (None, path),
    }
}

/// The path of an algorithm's file; one in a file that this one extends is seen from there.
fn custom(at: &At<'_>, findings: &mut Findings) -> Option<String> {
    let path = findings.label(at)?;
    let file = findings.file_of(at.tree.origin);
    let folder = Path::new(file).parent().filter(|_| file != findings.file);
    Some(folder.map_or(path.clone(), |folder| folder.join(&path).to_string_lossy().into_owned()))
}

fn choice(at: &At<'_>, dims: usize, flat: bool, findings: &mut Findings) -> Option<Choice> {
    if matches!(&at.tree.value, Value::Text(text) if text == "auto") {
        if flat {
            findings.refuse(at, "a flat group needs an algorithm", ALGORITHMS);
        }
        return None;
    }
    let items = at.items();
    let single = !matches!(at.tree.value, Value::List(_));
    let wanted = if flat { 1 } else { dims };
    if !single && items.len() != wanted {
        let (message, allowed) = if flat {
            (format!("{} algorithms for one flat group", items.len()), "one algorithm".to_string())
        } else {
            (
                format!("{} algorithms for {dims} dimensions", items.len()),
                format!("one algorithm for all, or a list of {dims}"),
            )
        };
        findings.refuse(at, message, allowed);
        return None;
    }
    let parsed: Vec<Option<Algorithm>> =
        items.iter().map(|item| algorithm(item, findings)).collect();
    let mut per_dim = parsed.into_iter().collect::<Option<Vec<Algorithm>>>()?;
    per_dim.resize(wanted, per_dim[0]);
    Some(Choice { per_dim, flat })
}

fn algorithm(at: &At<'_>, findings: &mut Findings) -> Option<Algorithm> {
    let text = findings.text(at)?;
    let found = match text {
        "ring" => Some(Algorithm::Ring),
        "direct" => Some(Algorithm::Direct { window: None }),
        "halving_doubling" => Some(Algorithm::HalvingDoubling),
        "double_binary_tree" => Some(Algorithm::DoubleBinaryTree),
        "in_network" => Some(Algorithm::InNetwork),
        _ => window(text).map(|w| Algorithm::Direct { window: Some(w) }),
    };
    if found.is_none() {
        let names =
            ["ring", "direct", "halving_doubling", "double_binary_tree", "in_network", "auto"];
        let hint = did_you_mean(text, names.into_iter());
        findings.refuse(at, format!("unknown algorithm \"{text}\"{hint}"), ALGORITHMS);
    }
    found
}

/// The number in `direct(4)`.
fn window(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("direct(")?.strip_suffix(')')?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|&w: &u32| w > 0 && plain)
}

/// The word for an algorithm, as this module reads it.
pub(super) fn word(algorithm: Algorithm) -> String {
    match algorithm {
        Algorithm::Ring => "ring".into(),
        Algorithm::Direct { window: None } => "direct".into(),
        Algorithm::Direct { window: Some(w) } => format!("direct({w})"),
        Algorithm::HalvingDoubling => "halving_doubling".into(),
        Algorithm::DoubleBinaryTree => "double_binary_tree".into(),
        Algorithm::InNetwork => "in_network".into(),
    }
}
