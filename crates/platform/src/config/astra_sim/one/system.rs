//! System files: collectives and scheduler.
//!
//! Early files choose algorithms by one word, `collective-implementation`, and limit chunks by
//! `injection-policy`; later ones list algorithms, `all-reduce-implementation: ring_direct`, and
//! limit chunks by `active-chunks-per-dimension`.

use super::dim::{Dim, RING};
use super::keys::{mapping, without_effect};
use super::network::Network;
use crate::config::file::Load;
use declared::findings::{At, Findings};
use declared::tree::Value;

const KEYS: [&str; 24] = [
    ALGORITHM,
    "scheduling-policy",
    "intra-dimension-scheduling",
    "inter-dimension-scheduling",
    "endpoint-delay",
    "packet-routing",
    "injection-policy",
    "preferred-dataset-splits",
    "active-chunks-per-dimension",
    "boost-mode",
    "collective-implementation",
    "collective-optimization",
    "all-reduce-implementation",
    "all-gather-implementation",
    "reduce-scatter-implementation",
    "all-to-all-implementation",
    "direct-collective-window",
    "local-reduction-delay",
    "model-shared-bus",
    "L",
    "o",
    "g",
    "G",
    "track-local-mem",
];
/// The paper's word for the hierarchy (ISPASS 2020, Table III), and that of the tool.
const ALGORITHM: &str = "algorithm";
const OPTIMIZATION: &str = "collective-optimization";
const IDLE: [&str; 7] =
    ["local-reduction-delay", "model-shared-bus", "L", "o", "g", "G", "track-local-mem"];
const MANY: u32 = 1 << 20;

/// `collective-implementation`.
#[derive(Clone, Copy, PartialEq)]
enum Implementation {
    Ring,
    AllToAll,
    Tree,
    TreeLocalAllToAll,
}

const IMPLEMENTATIONS: [(&str, Implementation); 4] = [
    ("hierarchicalRing", Implementation::Ring),
    ("allToAll", Implementation::AllToAll),
    ("doubleBinaryTree", Implementation::Tree),
    ("doubleBinaryTreeLocalAllToAll", Implementation::TreeLocalAllToAll),
];
/// Chunks that each scheduling queue runs at once.
const INJECTION: [(&str, u32); 5] = [
    ("normal", 1),
    ("semiAggressive", 16),
    ("aggressive", 32),
    ("extraAggressive", 64),
    ("infinite", MANY),
];
const KINDS: [&str; 4] = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"];

/// The lines of `collectives` and `scheduler`, or nothing and at least one problem.
pub(super) fn read(
    network: Option<&Network>,
    load: &Load<'_>,
    findings: &mut Findings,
) -> Option<String> {
    let tree = mapping("system file", &KEYS, load, findings)?;
    let root = At::root(&tree);
    without_effect(&root, &["boost-mode"], "ranks that behave alike fold by themselves", findings);
    without_effect(&root, &IDLE, "npu.memory.bandwidth says how long a reduction takes", findings);
    let scheduler = scheduler(&root, network, findings);
    let early = KINDS.iter().all(|kind| root.get(&implementation(kind)).is_none());
    let hierarchy = hierarchy(&root, early, findings);
    let kinds = if early {
        by_one_word(&root, network, findings)
    } else {
        let idle = ["collective-implementation", "packet-routing"];
        without_effect(&root, &idle, "the file lists algorithms by collective", findings);
        by_kind(&root, network, findings)
    };
    Some(format!("collectives:\n{}  hierarchy: {}\n{}", kinds?, hierarchy?, scheduler?))
}

/// `all_reduce` as a key of the file.
fn implementation(kind: &str) -> String {
    format!("{}-implementation", kind.replace('_', "-"))
}

fn hierarchy(root: &At<'_>, early: bool, findings: &mut Findings) -> Option<&'static str> {
    // Early files reduce on all outer dimensions one after the other (4 phases on three of them),
    // later ones scatter on the way to the outermost one.
    if let Some(at) = root.get(ALGORITHM) {
        if root.get(OPTIMIZATION).is_some() {
            let message = format!("{OPTIMIZATION} says the same as {ALGORITHM}");
            findings.refuse(&at, message, "one of the two");
        }
        let words = [("baseline", "baseline"), ("enhanced", "hierarchical_optimal")];
        return findings.one_of(&at, &words);
    }
    let aware = if early { "hierarchical_optimal" } else { "enhanced" };
    let words = [("baseline", "baseline"), ("localBWAware", aware)];
    word(root, OPTIMIZATION, &words, "baseline", findings)
}

/// A word; where the key is left out `missing`, and a warning.
fn word<T: Copy>(
    root: &At<'_>,
    key: &str,
    words: &[(&str, T)],
    missing: &str,
    findings: &mut Findings,
) -> Option<T> {
    if let Some(at) = root.get(key) {
        return findings.one_of(&at, words);
    }
    findings.warnings.push(format!("{}: \"{key}\" is missing, taken as {missing}", findings.file));
    words.iter().find(|known| known.0 == missing).map(|known| known.1)
}

fn scheduler(root: &At<'_>, network: Option<&Network>, findings: &mut Findings) -> Option<String> {
    let policies = [("LIFO", "lifo"), ("FIFO", "fifo")];
    let mut policy = word(root, "scheduling-policy", &policies, "FIFO", findings);
    if let Some(at) = root.get("intra-dimension-scheduling")
        && findings.one_of(&at, &[("FIFO", false), ("SCF", true)])?
    {
        policy = Some("smallest_first");
    }
    let orders = [("baseline", ""), ("themis", "themis"), ("offlineGreedy", "offline_greedy")];
    let order = match root.get("inter-dimension-scheduling") {
        Some(at) => findings.one_of(&at, &orders),
        None => Some(""),
    };
    let delay = whole(root, "endpoint-delay", 10, 0, findings);
    let chunks = match root.get("preferred-dataset-splits") {
        Some(at) => findings.whole(&at, 1, MANY),
        None => {
            findings.missing(root, "preferred-dataset-splits", "a whole number from 1");
            None
        }
    };
    let (queues, active) = queues(root, network, findings)?;
    let order = order.map(|order| match order {
        "" => String::new(),
        order => format!("  dimension_order: {order}\n"),
    });
    Some(format!(
        "scheduler:\n  policy: {}\n{}  chunks: {}\n  queues_per_dim: {}\n  active_chunks: {}\n  endpoint_delay: {} ns\n",
        policy?,
        order?,
        chunks?,
        listed_numbers(&queues),
        listed_numbers(&active),
        delay?
    ))
}

/// Numbers by dimension, as a platform file has them: one where all are the same.
fn listed_numbers(numbers: &[u32]) -> String {
    match numbers {
        [first, rest @ ..] if rest.iter().all(|number| number == first) => first.to_string(),
        numbers => format!("{numbers:?}"),
    }
}

/// Queues of each dimension, one for each ring or switch, and chunks that they run at once.
fn queues(
    root: &At<'_>,
    network: Option<&Network>,
    findings: &mut Findings,
) -> Option<(Vec<u32>, Vec<u32>)> {
    if root.get("active-chunks-per-dimension").is_some() {
        without_effect(root, &["injection-policy"], "the file says how many chunks run", findings);
        let active = whole(root, "active-chunks-per-dimension", 1, 1, findings)?;
        return Some((vec![1], vec![active]));
    }
    let each = match root.get("injection-policy") {
        Some(at) => findings.one_of(&at, &INJECTION)?,
        None => 1,
    };
    let dims = network.map_or(&[][..], |network| &network.dims);
    let mut queues: Vec<u32> = dims.iter().map(|dim| dim.queues.min(MANY)).collect();
    if queues.is_empty() {
        queues.push(1);
    }
    let active = queues.iter().map(|queues| queues.saturating_mul(each)).collect();
    Some((queues, active))
}

fn whole(
    root: &At<'_>,
    key: &str,
    missing: u32,
    least: u32,
    findings: &mut Findings,
) -> Option<u32> {
    match root.get(key) {
        Some(at) => findings.whole(&at, least, 1_000_000_000),
        None => Some(missing),
    }
}

/// Lists of algorithms that one word stands for. Messages of an all-to-all on a ring are passed on
/// by NPUs (`packet-routing: software`) or by routers.
fn by_one_word(
    root: &At<'_>,
    network: Option<&Network>,
    findings: &mut Findings,
) -> Option<String> {
    let is_ring = |dim: &Dim| dim.block == RING;
    let dims = network.map(|network| &network.dims[..]).unwrap_or_default();
    let missing = if dims.iter().all(is_ring) { "hierarchicalRing" } else { "allToAll" };
    let chosen = word(root, "collective-implementation", &IMPLEMENTATIONS, missing, findings)?;
    let routings = [("software", false), ("hardware", true)];
    let hardware = match root.get("packet-routing") {
        Some(at) => findings.one_of(&at, &routings)?,
        None => false,
    };
    let eager = root
        .get("injection-policy")
        .is_some_and(|at| matches!(&at.tree.value, Value::Text(text) if text != "normal"));
    let routed = match (hardware, eager) {
        (false, _) => "ring",
        (true, false) => "direct(1)",
        (true, true) => "direct",
    };
    let inner = |at: usize| at == 0 && dims.first().is_some_and(is_ring) && dims.len() > 1;
    let all_reduce = |at: usize| match chosen {
        Implementation::Ring => "ring",
        Implementation::AllToAll if inner(at) => routed,
        Implementation::Tree if inner(at) => "ring",
        Implementation::AllToAll | Implementation::TreeLocalAllToAll if inner(at) => "direct",
        Implementation::AllToAll => "direct",
        Implementation::Tree | Implementation::TreeLocalAllToAll => "double_binary_tree",
    };
    let all_to_all = |at: usize| match chosen {
        Implementation::Ring => routed,
        Implementation::TreeLocalAllToAll => "direct",
        _ if inner(at) => routed,
        _ => "direct",
    };
    let list =
        |of: &dyn Fn(usize) -> &'static str| (0..dims.len()).map(of).collect::<Vec<_>>().join(", ");
    let lists = [list(&all_reduce), list(&|_| "ring"), list(&|_| "ring"), list(&all_to_all)];
    Some(KINDS.iter().zip(lists).map(|(kind, list)| format!("  {kind}: [{list}]\n")).collect())
}

/// `all-reduce-implementation: ring_direct` and so on, one algorithm for each dimension.
fn by_kind(root: &At<'_>, network: Option<&Network>, findings: &mut Findings) -> Option<String> {
    let window = match root.get("direct-collective-window") {
        // -1 is what leaves messages without a limit.
        Some(at) if at.tree.value == Value::Int(-1) => None,
        Some(at) => Some(findings.whole(&at, 1, MANY)?),
        None => None,
    };
    let mut lines = Some(String::new());
    for kind in KINDS {
        let Some(at) = root.get(&implementation(kind)) else { continue };
        let line = listed(&at, network, window, findings);
        lines = lines.zip(line).map(|(lines, line)| format!("{lines}  {kind}: {line}\n"));
    }
    lines
}

fn listed(
    at: &At<'_>,
    network: Option<&Network>,
    window: Option<u32>,
    findings: &mut Findings,
) -> Option<String> {
    let words: Vec<String> = match &at.tree.value {
        Value::List(_) => {
            let items = at.items();
            let read: Vec<_> = items.iter().map(|item| findings.text(item)).collect();
            read.into_iter().map(|text| text.map(str::to_string)).collect::<Option<_>>()?
        }
        _ => findings.text(at)?.split('_').map(str::to_string).collect(),
    };
    let found: Vec<Option<(String, bool)>> =
        words.iter().map(|word| algorithm(at, word, window, findings)).collect();
    let found: Vec<(String, bool)> = found.into_iter().collect::<Option<_>>()?;
    if let [(one, true)] = &found[..] {
        return Some(format!("{{algorithm: {one}, flat: true}}"));
    }
    if let Some(flat) = found.iter().position(|each| each.1) {
        let message = format!("\"{}\" is for all dimensions together", words[flat]);
        findings.refuse(at, message, "the only algorithm, or one for each dimension");
        return None;
    }
    let Some(network) = network else { return Some(String::new()) };
    if found.len() != network.kept.len() {
        let message = format!("{} algorithms for {} dimensions", found.len(), network.kept.len());
        findings.refuse(at, message, "one algorithm for each dimension");
        return None;
    }
    let kept = found.into_iter().zip(&network.kept).filter(|(_, kept)| **kept).map(|((a, _), _)| a);
    Some(format!("[{}]", kept.collect::<Vec<_>>().join(", ")))
}

/// An algorithm's word here, and whether it is for all dimensions together.
fn algorithm(
    at: &At<'_>,
    word: &str,
    window: Option<u32>,
    findings: &mut Findings,
) -> Option<(String, bool)> {
    let direct = window.map_or_else(|| "direct".to_string(), |window| format!("direct({window})"));
    Some(match word {
        "ring" => ("ring".into(), false),
        "direct" => (direct, false),
        "halvingDoubling" => ("halving_doubling".into(), false),
        "doubleBinaryTree" => ("double_binary_tree".into(), false),
        "oneRing" => ("ring".into(), true),
        "oneDirect" => (direct, true),
        "oneHalvingDoubling" => ("halving_doubling".into(), true),
        _ => {
            let allowed = "ring, direct, halvingDoubling, doubleBinaryTree, joined by _ for each dimension, or oneRing, oneDirect, oneHalvingDoubling";
            findings.refuse(at, format!("unknown algorithm \"{word}\""), allowed);
            return None;
        }
    })
}
