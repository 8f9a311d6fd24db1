//! `topology` with `links`, or `graph`.

use super::generated;
use crate::config::declared::keys;
use crate::config::findings::{At, Findings, did_you_mean};
use crate::config::tree::Value;
use rustc_hash::FxHashMap;
use topology::{
    Block, Dim, Fabric, GraphFabric, GraphLink, GraphNode, LinkError, NOTATION, Paths, Topology,
};
use units::{Bandwidth, Span};

keys! { pub(super) LINK:
    /// Bandwidth, as `per` says.
    bandwidth: "bandwidth", "required";
    /// Latency of one link; a switch is crossed by two.
    latency: "time", "required";
    /// `link`: the bandwidth is of one link in one direction. `npu`: of all links that leave an NPU
    /// in that dimension together (`n-1` of a FullyConnected, 2 of a Ring, 1 of a Switch).
    per: "`link`, `npu`", "`link`; FullyConnected must say it";
}
keys! { pub(super) GRAPH:
    /// Names, or a count (then `npu0`, `npu1`, ...).
    npus: "list of names, or a count", "required";
    /// Names, a count (then `switch0`, ...), or mappings with a `name`.
    switches: "list of names or mappings, or a count", "none", in SWITCH;
    /// Links, each `between` two nodes (both ways) or `from` one `to` another.
    links: "list of mappings", "required", in GRAPH_LINK;
}
keys! { SWITCH:
    /// Its name.
    name: "text", "required";
    /// Its tier, from 1.
    tier: "count", "1";
    /// Its ports.
    radix: "count", "unlimited";
}
keys! { GRAPH_LINK:
    /// Two nodes, linked both ways.
    between: "list of two names", "this, or `from` and `to`";
    /// Where a one-way link starts.
    from: "name", "`between`";
    /// Where a one-way link ends.
    to: "name", "`between`";
    /// Bandwidth of the link.
    bandwidth: "bandwidth", "required";
    /// Latency of the link.
    latency: "time", "required";
    /// Parallel links of this kind.
    count: "count", "1";
    /// A word for this kind of links.
    kind: "text", "none";
}

/// The fabric, or nothing and at least one problem.
pub(super) fn read(root: &At<'_>, findings: &mut Findings) -> Option<Fabric> {
    match (root.get("topology"), root.get("graph")) {
        (Some(_), Some(graph)) => {
            findings.refuse(&graph, "\"graph\" and \"topology\" exclude each other", "one of them");
            None
        }
        (None, Some(graph)) => {
            if let Some(links) = root.get("links") {
                findings.refuse(&links, "\"links\" belongs to \"topology\"", "graph.links");
            }
            let graph = self::graph(&graph, findings)?;
            match root.get("npus") {
                Some(at) => first_npus(graph, &at, findings).map(Fabric::Graph),
                None => Some(Fabric::Graph(graph)),
            }
        }
        (Some(topology), None) if generated::is_generator(&topology) => {
            generated::read(root, &topology, findings).map(Fabric::Graph)
        }
        _ => stacked(root, findings).map(Fabric::Stacked),
    }
}

fn stacked(root: &At<'_>, findings: &mut Findings) -> Option<Vec<Dim>> {
    let topology = findings.need(root, "topology", NOTATION);
    let links = findings.need(root, "links", "one mapping a dimension with bandwidth and latency");
    let shape = topology.and_then(|at| notation(&at, findings))?;
    let shape = match root.get("npus") {
        Some(at) => sized(shape, &at, findings)?,
        None => shape,
    };
    let links = entries(&links?, shape.dims.len(), findings)?;
    let dims: Vec<Option<Dim>> =
        shape.dims.iter().zip(&links).map(|(&dim, at)| self::dim(dim, at, findings)).collect();
    dims.into_iter().collect()
}

/// Most NPUs of a machine: what ranks cost in memory stays below a few gigabytes.
const MOST_NPUS: u32 = 1 << 24;

fn notation(at: &At<'_>, findings: &mut Findings) -> Option<Topology> {
    let text = findings.text(at)?;
    match text.parse::<Topology>() {
        Ok(shape) if shape.npus() > MOST_NPUS => {
            findings.refuse(
                at,
                format!("\"{text}\" has {} NPUs", shape.npus()),
                "at most 16,777,216 NPUs",
            );
            None
        }
        Ok(shape) if shape.dims.len() <= 32 => Some(shape),
        Ok(shape) => {
            findings.refuse(
                at,
                format!("\"{text}\" has {} dimensions", shape.dims.len()),
                "1 to 32 dimensions",
            );
            None
        }
        Err(error) => {
            // A fault that concerns all of the value shows it already.
            let all = format!("\"{}\"", text.trim());
            let value =
                if error.message.contains(&all) { String::new() } else { format!("{all}: ") };
            findings.refuse(
                at,
                format!("{value}{} at character {}", error.message, error.column),
                NOTATION,
            );
            None
        }
    }
}

/// Only the first `npus` of a graph run ranks; the others go on passing messages on.
fn first_npus(mut graph: GraphFabric, at: &At<'_>, findings: &mut Findings) -> Option<GraphFabric> {
    graph.npus = findings.whole(at, 1, graph.npus)?;
    graph.nodes.iter_mut().skip(graph.npus as usize).for_each(|node| node.tier = node.tier.max(1));
    Some(graph)
}

/// The outermost dimension takes what is left of `npus`.
fn sized(mut shape: Topology, at: &At<'_>, findings: &mut Findings) -> Option<Topology> {
    let npus = findings.whole(at, 1, MOST_NPUS)?;
    let unit: u32 = shape.dims.iter().rev().skip(1).map(|&(_, size)| size).product();
    if npus % unit != 0 {
        let below = if npus > unit { format!("{}, ", npus / unit * unit) } else { String::new() };
        let allowed = format!("{below}{} or another multiple of {unit}", (npus / unit + 1) * unit);
        findings.refuse(
            at,
            format!("resizing the outermost dimension of {shape} cannot give {npus} NPUs"),
            allowed,
        );
        return None;
    }
    shape.dims.last_mut()?.1 = npus / unit;
    Some(shape)
}

/// What is said of a node that `npus` makes larger than its topology says.
pub(super) fn larger_node(root: &At<'_>, fabric: &Fabric) -> Option<String> {
    let Fabric::Stacked(dims) = fabric else { return None };
    let Value::Text(said) = &root.get("topology")?.tree.value else { return None };
    let said: Topology = said.parse().ok()?;
    let (&[(block, size)], [dim]) = (&said.dims[..], &dims[..]) else { return None };
    let nodes =
        if dim.size.is_multiple_of(size) { (dim.size / size).to_string() } else { "m".into() };
    (dim.size > size).then(|| {
        format!(
            "npus: {} makes a single node of {} out of {said}, all at the bandwidth within a node; several nodes are a preset with a network, or \
             topology: {said}_Switch({nodes}) with its links and library.network",
            dim.size,
            Topology { dims: vec![(block, dim.size)] }
        )
    })
}

fn entries<'a>(links: &At<'a>, dims: usize, findings: &mut Findings) -> Option<Vec<At<'a>>> {
    if links.is_map() {
        return Some(vec![links.clone(); dims]);
    }
    let items = links.items();
    if !matches!(links.tree.value, Value::List(_)) || items.len() != dims {
        let shown = if matches!(links.tree.value, Value::List(_)) {
            format!("{} entries", items.len())
        } else {
            links.tree.show()
        };
        let dimensions = if dims == 1 { "dimension" } else { "dimensions" };
        findings.refuse(
            links,
            format!("{shown} for {dims} {dimensions}"),
            "one mapping a dimension, or a single mapping for all",
        );
        return None;
    }
    Some(items)
}

fn dim((block, size): (Block, u32), at: &At<'_>, findings: &mut Findings) -> Option<Dim> {
    findings.declared(at, LINK)?;
    let bandwidth = findings.need(at, "bandwidth", "a bandwidth, such as \"50 GB/s\"");
    let latency = findings.need(at, "latency", "a time, such as \"500 ns\"");
    let bandwidth = bandwidth.and_then(|at| findings.quantity(&at));
    let latency = latency.and_then(|at| findings.quantity(&at));
    let per_npu = match at.get("per") {
        Some(per) => findings.one_of(&per, &[("link", false), ("npu", true)])?,
        None if block.paths() == Paths::Direct => {
            findings.missing(
                at,
                "per",
                "link (each of an NPU's links has this bandwidth), npu (they share it)",
            );
            return None;
        }
        None => false,
    };
    let (bandwidth, latency): (Bandwidth, Span) = (bandwidth?, latency?);
    let share = if per_npu { u64::from(block.leaving(size).max(1)) } else { 1 };
    if bandwidth.0 < share {
        findings.refuse(
            at,
            format!("{bandwidth} over {share} links leaves less than 1 B/s for each link"),
            "more bandwidth, or per: link",
        );
        return None;
    }
    Some(Dim { block, size, bandwidth: Bandwidth(bandwidth.0 / share), latency })
}

fn graph(at: &At<'_>, findings: &mut Findings) -> Option<GraphFabric> {
    findings.declared(at, GRAPH)?;
    let npus = findings
        .need(at, "npus", "a number of NPUs, or a list of their names")
        .and_then(|at| names(&at, "npu", findings));
    let switches = at.get("switches").map_or(Some(Vec::new()), |at| self::switches(&at, findings));
    let links = findings.need(at, "links", "a list of links");
    let (npus, switches, links) = (npus?, switches?, links?);
    let count = u32::try_from(npus.len()).ok()?;
    if count == 0 {
        findings.refuse(at, "there is no NPU", "one NPU or more");
        return None;
    }
    let mut fabric = GraphFabric {
        npus: count,
        nodes: npus.into_iter().map(GraphNode::npu).chain(switches).collect(),
        ..GraphFabric::default()
    };
    let mut index = FxHashMap::default();
    for (i, node) in fabric.nodes.iter().enumerate() {
        if index.insert(node.name.clone(), i as u32).is_some() {
            findings.refuse(
                at,
                format!("two nodes are called \"{}\"", node.name),
                "each name once",
            );
            return None;
        }
    }
    if !matches!(links.tree.value, Value::List(_)) {
        findings.refuse(&links, format!("{} is not a list", links.tree.show()), "a list of links");
        return None;
    }
    let before = findings.problems.len();
    for item in links.items() {
        if let Some(links) = link(&item, &fabric.nodes, &index, &mut fabric.kinds, findings) {
            fabric.links.extend(links);
        }
    }
    radixes(&fabric, at, findings);
    if findings.problems.len() > before {
        return None;
    }
    match fabric.check() {
        Ok(()) => Some(fabric),
        Err(error) => {
            let name = |node: u32| fabric.nodes[node as usize].name.as_str();
            let message = match error {
                LinkError::Unreachable { from, to } => {
                    format!("no way from \"{}\" to \"{}\"", name(from), name(to))
                }
                other => other.to_string(),
            };
            findings.refuse(&links, message, "links by which every NPU reaches every other");
            None
        }
    }
}

/// Names, or a count of names made of `prefix` and a number.
fn names(at: &At<'_>, prefix: &str, findings: &mut Findings) -> Option<Vec<String>> {
    if let Value::List(_) = at.tree.value {
        let names: Vec<Option<String>> =
            at.items().iter().map(|item| findings.label(item)).collect();
        return names.into_iter().collect();
    }
    let count = findings.whole(at, 0, 1 << 24)?;
    Some((0..count).map(|i| format!("{prefix}{i}")).collect())
}

/// Switches: names, a count, or mappings with `name`, `tier` and `radix`.
fn switches(at: &At<'_>, findings: &mut Findings) -> Option<Vec<GraphNode>> {
    if !at.items().iter().any(At::is_map) {
        let named = |name| GraphNode::switch(name, 1);
        return Some(names(at, "switch", findings)?.into_iter().map(named).collect());
    }
    let nodes: Vec<Option<GraphNode>> =
        at.items().iter().map(|item| switch(item, findings)).collect();
    nodes.into_iter().collect()
}

fn switch(at: &At<'_>, findings: &mut Findings) -> Option<GraphNode> {
    if !at.is_map() {
        return Some(GraphNode::switch(findings.label(at)?, 1));
    }
    findings.declared(at, SWITCH)?;
    let name = findings.need(at, "name", "a name").and_then(|at| findings.label(&at));
    let tier = at.get("tier").map_or(Some(1), |at| findings.whole(&at, 1, 255));
    let radix = at.get("radix").map(|at| findings.whole(&at, 1, u32::MAX));
    let node = GraphNode::switch(name?, tier?);
    Some(match radix {
        None => node,
        Some(radix) => GraphNode { radix: Some(radix?), ..node },
    })
}

/// Refuses switches with more links than ports.
fn radixes(fabric: &GraphFabric, at: &At<'_>, findings: &mut Findings) {
    let mut ports = vec![(0u32, 0u32); fabric.nodes.len()];
    for link in &fabric.links {
        ports[link.from as usize].0 += 1;
        ports[link.to as usize].1 += 1;
    }
    for (node, (out, into)) in fabric.nodes.iter().zip(ports) {
        let used = out.max(into);
        if let Some(radix) = node.radix.filter(|&radix| used > radix) {
            let message = format!("\"{}\" has {radix} ports and {used} links", node.name);
            findings.refuse(at, message, "a larger radix, or fewer links");
        }
    }
}

/// The place of a kind of links in `kinds`. The first is that of links without a kind.
fn kind(at: Option<At<'_>>, kinds: &mut Vec<String>, findings: &mut Findings) -> Option<u32> {
    let Some(at) = at else { return Some(0) };
    let name = findings.label(&at)?;
    if name.is_empty() {
        findings.refuse(&at, "a kind without a name", "a word, such as nvlink");
        return None;
    }
    if kinds.is_empty() {
        kinds.push(String::new());
    }
    Some(kinds.iter().position(|k| *k == name).unwrap_or_else(|| {
        kinds.push(name);
        kinds.len() - 1
    }) as u32)
}

/// `{between: [a, b], ...}` both ways, `{from: a, to: b, ...}` one way; `count` of them.
fn link(
    at: &At<'_>,
    nodes: &[GraphNode],
    index: &FxHashMap<String, u32>,
    kinds: &mut Vec<String>,
    findings: &mut Findings,
) -> Option<Vec<GraphLink>> {
    findings.declared(at, GRAPH_LINK)?;
    let ends = match (at.get("between"), at.get("from"), at.get("to")) {
        (Some(between), None, None) => between.items(),
        (None, Some(from), Some(to)) => vec![from, to],
        _ => {
            findings.refuse(at, "the ends are unclear", "between: [a, b], or from: a and to: b");
            return None;
        }
    };
    let found: Vec<u32> = ends.iter().filter_map(|end| node(end, nodes, index, findings)).collect();
    let bandwidth = findings
        .need(at, "bandwidth", "a bandwidth, such as \"50 GB/s\"")
        .and_then(|at| findings.quantity(&at));
    let latency = findings
        .need(at, "latency", "a time, such as \"500 ns\"")
        .and_then(|at| findings.quantity(&at));
    let count = at.get("count").map_or(Some(1), |at| findings.whole(&at, 1, 65_536));
    let kind = kind(at.get("kind"), kinds, findings);
    if found.len() < ends.len() {
        return None;
    }
    let [from, to] = found[..] else {
        findings.refuse(at, format!("a link between {} nodes", found.len()), "two nodes");
        return None;
    };
    if from == to {
        findings.refuse(
            at,
            format!("a link from \"{0}\" to \"{0}\"", nodes[from as usize].name),
            "two different nodes",
        );
        return None;
    }
    let (bandwidth, latency) = (bandwidth?, latency?);
    let there = GraphLink { from, to, bandwidth, latency, kind: kind? };
    let back = GraphLink { from: to, to: from, ..there.clone() };
    let one = if at.get("between").is_some() { vec![there, back] } else { vec![there] };
    Some(vec![one; count? as usize].concat())
}

fn node(
    at: &At<'_>,
    nodes: &[GraphNode],
    index: &FxHashMap<String, u32>,
    findings: &mut Findings,
) -> Option<u32> {
    let name = findings.label(at)?;
    let found = index.get(&name).copied();
    if found.is_none() {
        let hint = did_you_mean(&name, nodes.iter().map(|n| n.name.as_str()));
        let (shown, more) = (nodes.len().min(8), if nodes.len() > 8 { ", ..." } else { "" });
        findings.refuse(
            at,
            format!("there is no node \"{name}\"{hint}"),
            format!("{}{more}", shown_names(&nodes[..shown])),
        );
    }
    found
}

fn shown_names(nodes: &[GraphNode]) -> String {
    nodes.iter().map(|n| n.name.as_str()).collect::<Vec<_>>().join(", ")
}
