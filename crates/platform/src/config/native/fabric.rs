//! `topology` with `links`, or `graph`.

use crate::config::findings::{At, Findings, did_you_mean};
use crate::config::tree::Value;
use rustc_hash::FxHashMap;
use topology::{Block, Dim, Fabric, GraphFabric, GraphLink, LinkError, NOTATION, Paths, Topology};
use units::{Bandwidth, Span};

const LINK: [&str; 3] = ["bandwidth", "latency", "per"];

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
            format!("{npus} NPUs can't be had by resizing the outermost dimension of {shape}"),
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
    findings.mapping(at, &LINK)?;
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
            format!("{bandwidth} over {share} links leaves nothing for a link"),
            "more bandwidth, or per: link",
        );
        return None;
    }
    Some(Dim { block, size, bandwidth: Bandwidth(bandwidth.0 / share), latency })
}

fn graph(at: &At<'_>, findings: &mut Findings) -> Option<GraphFabric> {
    findings.mapping(at, &["npus", "switches", "links"])?;
    let npus = findings
        .need(at, "npus", "a number of NPUs, or a list of their names")
        .and_then(|at| names(&at, "npu", findings));
    let switches = at.get("switches").map_or(Some(Vec::new()), |at| names(&at, "switch", findings));
    let links = findings.need(at, "links", "a list of links");
    let (npus, switches, links) = (npus?, switches?, links?);
    let count = u32::try_from(npus.len()).ok()?;
    if count == 0 {
        findings.refuse(at, "there is no NPU", "one NPU or more");
        return None;
    }
    let mut fabric = GraphFabric {
        npus: count,
        nodes: npus.into_iter().chain(switches).collect(),
        links: Vec::new(),
    };
    let mut index = FxHashMap::default();
    for (i, name) in fabric.nodes.iter().enumerate() {
        if index.insert(name.clone(), i as u32).is_some() {
            findings.refuse(at, format!("two nodes are called \"{name}\""), "each name once");
            return None;
        }
    }
    if !matches!(links.tree.value, Value::List(_)) {
        findings.refuse(&links, format!("{} is no list", links.tree.show()), "a list of links");
        return None;
    }
    let before = findings.problems.len();
    for item in links.items() {
        link(&item, &fabric.nodes, &index, findings)
            .into_iter()
            .flatten()
            .for_each(|link| fabric.links.push(link));
    }
    if findings.problems.len() > before {
        return None;
    }
    match fabric.check() {
        Ok(()) => Some(fabric),
        Err(error) => {
            let name = |node: u32| fabric.nodes[node as usize].as_str();
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

/// `{between: [a, b], ...}` both ways, `{from: a, to: b, ...}` one way.
fn link(
    at: &At<'_>,
    nodes: &[String],
    index: &FxHashMap<String, u32>,
    findings: &mut Findings,
) -> Option<Vec<GraphLink>> {
    findings.mapping(at, &["between", "from", "to", "bandwidth", "latency"])?;
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
            format!("a link from \"{0}\" to \"{0}\"", nodes[from as usize]),
            "two different nodes",
        );
        return None;
    }
    let (bandwidth, latency) = (bandwidth?, latency?);
    let there = GraphLink { from, to, bandwidth, latency };
    let back = GraphLink { from: to, to: from, bandwidth, latency };
    Some(if at.get("between").is_some() { vec![there, back] } else { vec![there] })
}

fn node(
    at: &At<'_>,
    nodes: &[String],
    index: &FxHashMap<String, u32>,
    findings: &mut Findings,
) -> Option<u32> {
    let name = findings.label(at)?;
    let found = index.get(&name).copied();
    if found.is_none() {
        let hint = did_you_mean(&name, nodes.iter().map(String::as_str));
        let (shown, more) = (nodes.len().min(8), if nodes.len() > 8 { ", ..." } else { "" });
        findings.refuse(
            at,
            format!("there is no node \"{name}\"{hint}"),
            format!("{}{more}", nodes[..shown].join(", ")),
        );
    }
    found
}
