//! Network files of the analytical backend: lists with one entry for each dimension.
//!
//! Latencies are ns. Bandwidths are GB/s of one link, taken as 1e9 bytes: the format does not say.
//! A router and a network card add their latency once to a message between neighbours: here to the
//! link, and to each of the two links of a switch by half. `links-count` is of an NPU.

use super::dim::{ALL_TO_ALL, Dim, RING, SWITCH};
use super::keys::{mapping, without_effect};
use crate::config::astra_sim::syntax::{number, span};
use crate::config::file::Load;
use declared::findings::{At, Findings};
use declared::tree::Value;
use topology::Block;
use units::{Bandwidth, Ratio};

const KEYS: [&str; 15] = [
    "topology-name",
    "topologies-per-dim",
    "dimension-type",
    "use-fast-version",
    "dimensions-count",
    "dims-count",
    "units-count",
    "nodes-per-dim",
    "links-count",
    "link-latency",
    "link-bandwidth",
    "nic-latency",
    "router-latency",
    "hbm-latency",
    "hbm-bandwidth",
];
const LAST: &str = "hbm-scale";
const BLOCKS: [(&str, Block); 6] = [
    ("Ring", RING),
    ("FullyConnected", ALL_TO_ALL),
    ("AllToAll", ALL_TO_ALL),
    ("Switch", SWITCH),
    ("torus", RING),
    ("switch", SWITCH),
];
const HIERARCHICAL: &str = "Hierarchical";
const ALLOWED: &str = "Hierarchical with topologies-per-dim, Torus2D, or Ring, AllToAll, FullyConnected, Switch joined by _";

/// The dimensions, those of one NPU among them.
pub(super) fn read(load: &Load<'_>, findings: &mut Findings) -> Option<Vec<Dim>> {
    let known: Vec<&str> = KEYS.iter().copied().chain([LAST]).collect();
    let tree = mapping("network file", &known, load, findings)?;
    let root = At::root(&tree);
    let blocks = blocks(&root, findings)?;
    idle(&root, findings);
    let sizes = if root.get("units-count").is_some() { "units-count" } else { "nodes-per-dim" };
    let size = |at: &At<'_>, findings: &mut Findings| findings.whole(at, 1, 1 << 24);
    let sizes = list(&root, sizes, blocks.len(), true, size, findings);
    let count = |at: &At<'_>, findings: &mut Findings| findings.whole(at, 1, 1 << 16);
    let links = list(&root, "links-count", blocks.len(), false, count, findings);
    let rate = |at: &At<'_>, findings: &mut Findings| {
        let inside = |x: f64| (1e-9..=1e9).contains(&x);
        number(at, inside, "a number above 0, at most 1e9, in GB/s", findings)
    };
    let bandwidths = list(&root, "link-bandwidth", blocks.len(), true, rate, findings);
    let delay = |at: &At<'_>, findings: &mut Findings| {
        number(at, |x| (0.0..=1e9).contains(&x), "a number from 0 to 1e9, in ns", findings)
    };
    let latencies = list(&root, "link-latency", blocks.len(), true, delay, findings);
    let [nics, routers] = ["nic-latency", "router-latency"]
        .map(|key| list(&root, key, blocks.len(), false, delay, findings));
    let (sizes, links, bandwidths) = (sizes?, links?, bandwidths?);
    let (latencies, nics, routers) = (latencies?, nics?, routers?);
    let of = |list: &[f64], at: usize| list.get(at).copied().unwrap_or(0.0);
    let more = |at: usize, block: Block| {
        (of(&nics, at) + of(&routers, at)) / if block == SWITCH { 2.0 } else { 1.0 }
    };
    let dim = |(at, &block): (usize, &Block)| Dim {
        block,
        size: sizes[at],
        bandwidth: Bandwidth((bandwidths[at] * 1e9).round() as u64),
        latency: span(latencies[at] + more(at, block)),
        links: links.get(at).copied(),
        efficiency: Ratio::ONE,
        queues: 1,
    };
    Some(blocks.iter().enumerate().map(dim).collect())
}

/// Keys that change nothing, with the reason.
fn idle(root: &At<'_>, findings: &mut Findings) {
    let is_zero = |tree: &declared::tree::Tree| match &tree.value {
        Value::Int(i) => *i == 0,
        Value::Float(x) => *x == 0.0,
        _ => false,
    };
    let scale = root.get(LAST);
    let counts = scale.is_some_and(|at| match &at.tree.value {
        Value::List(items) => !items.iter().all(is_zero),
        _ => !is_zero(at.tree),
    });
    if counts {
        let why =
            "messages do not wait for the memory at their ends; npu.memory has reductions do so";
        without_effect(root, &["hbm-latency", "hbm-bandwidth", LAST], why, findings);
    }
    without_effect(root, &["dimension-type"], "it says what a dimension costs", findings);
}

/// The block of each dimension.
fn blocks(root: &At<'_>, findings: &mut Findings) -> Option<Vec<Block>> {
    let count = root.get("dimensions-count").or_else(|| root.get("dims-count"));
    let name = root.get("topology-name");
    let named = name.as_ref().and_then(|at| findings.text(at)).unwrap_or(HIERARCHICAL);
    let blocks: Option<Vec<Block>> = match root.get("topologies-per-dim") {
        Some(at) => at.items().iter().map(|at| findings.one_of(at, &BLOCKS)).collect(),
        None if named.eq_ignore_ascii_case("Torus2D") => Some(vec![RING; 2]),
        None if named == HIERARCHICAL => {
            findings.missing(root, "topologies-per-dim", "a list with a block for each dimension");
            return None;
        }
        None => {
            named.split('_').map(|word| BLOCKS.iter().find(|b| b.0 == word).map(|b| b.1)).collect()
        }
    };
    let Some(blocks) = blocks else {
        if root.get("topologies-per-dim").is_none() {
            let at = name.unwrap_or_else(|| root.clone());
            findings.refuse(&at, format!("the topology \"{named}\" is not known"), ALLOWED);
        }
        return None;
    };
    let said = match &count {
        Some(at) => Some(findings.whole(at, 1, 32)?),
        None => None,
    };
    let at = count.unwrap_or_else(|| root.clone());
    if blocks.is_empty() || said.is_some_and(|said| said as usize != blocks.len()) {
        let message = format!("{} dimensions, but {} topologies", at.tree.show(), blocks.len());
        findings.refuse(&at, message, "one topology for each dimension");
        return None;
    }
    Some(blocks)
}

/// A list with one entry for each of `count` dimensions, or the entry itself where there is one.
/// Empty where the key is left out and not `needed`.
fn list<T>(
    root: &At<'_>,
    key: &str,
    count: usize,
    needed: bool,
    read: impl Fn(&At<'_>, &mut Findings) -> Option<T>,
    findings: &mut Findings,
) -> Option<Vec<T>> {
    let allowed = "a list with one entry for each dimension";
    let Some(at) = root.get(key) else {
        if needed {
            findings.missing(root, key, allowed);
        }
        return (!needed).then(Vec::new);
    };
    let items = if matches!(at.tree.value, Value::List(_)) { at.items() } else { vec![at.clone()] };
    if items.len() != count {
        findings.refuse(&at, format!("{} entries for {count} dimensions", items.len()), allowed);
        return None;
    }
    let found: Vec<Option<T>> = items.iter().map(|item| read(item, findings)).collect();
    found.into_iter().collect()
}
