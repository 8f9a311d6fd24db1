//! `graph`: an explicit graph of NPUs, switches and links.

use declared::findings::{At, Findings, did_you_mean};
use declared::tree::Value;
use declared::{Key, Setting, Shown, counts, section};
use rustc_hash::FxHashMap;
use topology::{GraphFabric, GraphLink, GraphNode, LinkError};
use units::{Bandwidth, Span};

section! {
    /// An explicit graph.
    #[derive(Clone, Debug)]
    pub(super) struct Graph {
        /// Names, or a count (then `npu0`, `npu1`, ...).
        pub npus: Nodes<String>, required "a number of NPUs, or a list of their names";
        /// Names, a count (then `switch0`, ...), or mappings with a `name`.
        pub switches: Nodes<Switch>, default Nodes::Count(0), says "none";
        /// Links, each `between` two nodes (both ways) or `from` one `to` another.
        pub links: Vec<Link>, required "a list of links";
    }
}

section! {
    /// A switch.
    #[derive(Clone, Debug)]
    pub(super) struct Switch short name {
        /// Name of the switch.
        pub name: String, required "a name";
        /// Tier of the switch, from 1.
        pub tier: u32 as tiers, default 1;
        /// Number of ports.
        pub radix: Option<u32>, default None, says "unlimited";
    }
}

section! {
    /// Links between two nodes.
    #[derive(Clone, Debug)]
    pub(super) struct Link {
        /// Two nodes, linked both ways.
        pub between: Option<Vec<String>>, default None, says "this, or `from` and `to`";
        /// Where a one-way link starts.
        pub from: Option<String>, default None, says "`between`";
        /// Where a one-way link ends.
        pub to: Option<String>, default None, says "`between`";
        /// Bandwidth of the link.
        pub bandwidth: Bandwidth, required;
        /// Latency of the link.
        pub latency: Span, required "a time, such as \"500 ns\"";
        /// Parallel links of this kind.
        pub count: u32 as parallel, default 1;
        /// A word for this kind of links.
        pub kind: Option<String>, default None;
    }
}

counts! {
    /// Tiers of switches.
    tiers: 1 to 255;
    /// Parallel links.
    parallel: 1 to 65_536;
}

/// A list of nodes, or a count of them.
#[derive(Clone, Debug)]
pub(super) enum Nodes<T> {
    Count(u32),
    Named(Vec<T>),
}

impl<T: Setting> Setting for Nodes<T> {
    const LIST: bool = true;
    const SHORT: Option<&'static str> = T::SHORT;

    fn keys() -> &'static [Key] {
        T::keys()
    }

    fn kind() -> String {
        let mappings = if T::keys().is_empty() { "" } else { " or mappings" };
        format!("list of names{mappings}, or a count")
    }

    fn example() -> String {
        "a number of nodes, or a list of their names".into()
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<Nodes<T>> {
        match &at.tree.value {
            Value::List(_) | Value::Map(_) => Vec::read(at, findings).map(Nodes::Named),
            _ => findings.whole(at, 0, 1 << 24).map(Nodes::Count),
        }
    }

    fn show(&self) -> Option<Shown> {
        match self {
            Nodes::Count(count) => count.show(),
            Nodes::Named(nodes) => {
                Some(Shown::List(nodes.iter().filter_map(Setting::show).collect()))
            }
        }
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Nodes::Count(count) => count.json(),
            Nodes::Named(nodes) => nodes.json(),
        }
    }
}

impl<T> Nodes<T> {
    /// Each node; those of a count are called `prefix` and a number.
    fn each(self, prefix: &str, named: impl Fn(String) -> T) -> Vec<T> {
        match self {
            Nodes::Count(count) => (0..count).map(|i| named(format!("{prefix}{i}"))).collect(),
            Nodes::Named(nodes) => nodes,
        }
    }
}

/// The graph of the keys at `at`, or nothing and at least one problem.
pub(super) fn resolve(keys: Graph, at: &At<'_>, findings: &mut Findings) -> Option<GraphFabric> {
    let plain = |name| Switch { name, tier: 1, radix: None };
    let switches = keys.switches.each("switch", plain);
    let switch = |s: Switch| GraphNode { radix: s.radix, ..GraphNode::switch(s.name, s.tier) };
    let npus = keys.npus.each("npu", |name| name);
    let mut fabric = GraphFabric {
        npus: u32::try_from(npus.len()).ok()?,
        nodes: npus
            .into_iter()
            .map(GraphNode::npu)
            .chain(switches.into_iter().map(switch))
            .collect(),
        ..GraphFabric::default()
    };
    if fabric.npus == 0 {
        findings.refuse(at, "the graph has no NPU", "one NPU or more");
        return None;
    }
    let index = index(&fabric.nodes, at, findings)?;
    let links_at = at.get(Graph::links)?;
    let before = findings.problems.len();
    for (keys, at) in keys.links.iter().zip(links_at.items()) {
        if let Some(links) = link(keys, &at, &index, &mut fabric, findings) {
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
            findings.refuse(&links_at, message, "links by which every NPU reaches every other");
            None
        }
    }
}

/// Nodes by name.
type Index = FxHashMap<String, u32>;

fn index(nodes: &[GraphNode], at: &At<'_>, findings: &mut Findings) -> Option<Index> {
    let mut index = Index::default();
    for (i, node) in nodes.iter().enumerate() {
        if index.insert(node.name.clone(), i as u32).is_some() {
            let message = format!("two nodes are called \"{}\"", node.name);
            findings.refuse(at, message, "each name once");
            return None;
        }
    }
    Some(index)
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
fn kind(keys: &Link, at: &At<'_>, kinds: &mut Vec<String>, findings: &mut Findings) -> Option<u32> {
    let Some(name) = &keys.kind else { return Some(0) };
    if name.is_empty() {
        let place = at.get(Link::kind).unwrap_or_else(|| at.clone());
        findings.refuse(&place, "a kind without a name", "a word, such as nvlink");
        return None;
    }
    if kinds.is_empty() {
        kinds.push(String::new());
    }
    Some(kinds.iter().position(|kind| kind == name).unwrap_or_else(|| {
        kinds.push(name.clone());
        kinds.len() - 1
    }) as u32)
}

/// The one-way links of an entry: `between` gives both ways, `count` gives each several times.
fn link(
    keys: &Link,
    at: &At<'_>,
    index: &Index,
    fabric: &mut GraphFabric,
    findings: &mut Findings,
) -> Option<Vec<GraphLink>> {
    let place = |key: &str| at.get(key).unwrap_or_else(|| at.clone());
    let (ends, both): (Vec<(&String, At<'_>)>, bool) = match (&keys.between, &keys.from, &keys.to) {
        (Some(names), None, None) => {
            (names.iter().zip(place(Link::between).items()).collect(), true)
        }
        (None, Some(from), Some(to)) => {
            (vec![(from, place(Link::from)), (to, place(Link::to))], false)
        }
        _ => {
            findings.refuse(at, "the ends are unclear", "between: [a, b], or from: a and to: b");
            return None;
        }
    };
    let found: Vec<u32> = ends
        .iter()
        .filter_map(|(name, at)| node(name, at, &fabric.nodes, index, findings))
        .collect();
    let kind = kind(keys, at, &mut fabric.kinds, findings);
    if found.len() < ends.len() {
        return None;
    }
    let [from, to] = found[..] else {
        let message = format!("a link needs two nodes, not {}", found.len());
        findings.refuse(at, message, "between: [a, b]");
        return None;
    };
    if from == to {
        let message = format!("a link from \"{0}\" to \"{0}\"", fabric.nodes[from as usize].name);
        findings.refuse(at, message, "two different nodes");
        return None;
    }
    let Link { bandwidth, latency, .. } = *keys;
    let there = GraphLink { from, to, bandwidth, latency, kind: kind? };
    let back = GraphLink { from: to, to: from, ..there.clone() };
    let one = if both { vec![there, back] } else { vec![there] };
    Some(vec![one; keys.count as usize].concat())
}

fn node(
    name: &str,
    at: &At<'_>,
    nodes: &[GraphNode],
    index: &Index,
    findings: &mut Findings,
) -> Option<u32> {
    let found = index.get(name).copied();
    if found.is_none() {
        let hint = did_you_mean(name, nodes.iter().map(|node| node.name.as_str()));
        let shown: Vec<&str> = nodes.iter().take(8).map(|node| node.name.as_str()).collect();
        let more = if nodes.len() > shown.len() { ", ..." } else { "" };
        let message = format!("unknown node \"{name}\"{hint}");
        findings.refuse(at, message, format!("{}{more}", shown.join(", ")));
    }
    found
}

/// The keys that read back to a graph.
pub(super) fn keys(graph: &GraphFabric) -> Graph {
    let (npus, switches) = graph.nodes.split_at(graph.npus as usize);
    let switch = |node: &GraphNode| Switch {
        name: node.name.clone(),
        tier: node.tier.max(1),
        radix: node.radix,
    };
    let name = |node: u32| graph.nodes[node as usize].name.clone();
    let mut links = Vec::new();
    let all = graph.all_links();
    let mut rest = all.iter().peekable();
    while let Some(link) = rest.next() {
        let back = |next: &&GraphLink| {
            **next == GraphLink { from: link.to, to: link.from, ..link.clone() }
        };
        let both = rest.next_if(back).is_some();
        let kind = graph.kinds.get(link.kind as usize).filter(|kind| !kind.is_empty());
        links.push(Link {
            between: both.then(|| vec![name(link.from), name(link.to)]),
            from: (!both).then(|| name(link.from)),
            to: (!both).then(|| name(link.to)),
            bandwidth: link.bandwidth,
            latency: link.latency,
            count: 1,
            kind: kind.cloned(),
        });
    }
    Graph {
        npus: Nodes::Named(npus.iter().map(|node| node.name.clone()).collect()),
        switches: Nodes::Named(switches.iter().map(switch).collect()),
        links,
    }
}
