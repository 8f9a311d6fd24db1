//! Tables of routes from files: the next node on the way from each node to each NPU.
//!
//! ```yaml
//! routes:
//!   switch0: {npu0: npu0, npu1: npu1, default: switch1}
//!   npu0: {default: switch0}
//! ```
//!
//! `default` stands for all NPUs that are not named. Messages use the links between two nodes by
//! destination, where there are several. Not here: whether the routes arrive (`net-flit`).

use crate::config::file;
use declared::findings::{At, Findings, did_you_mean};
use declared::parse;
use graph::Problem;
use rustc_hash::FxHashMap;
use topology::{Fabric, LinkGraph};

/// The key of the table, and of all other NPUs in it.
const ROUTES: &str = "routes";
const DEFAULT: &str = "default";

/// The next link on the way from a node to an NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The node.
    pub at: u32,
    /// The NPU.
    pub to: u32,
    /// The link.
    pub link: u32,
}

/// The entries of the table at `path`.
///
/// # Errors
/// Every problem of the file: names of nodes that are not there, links that do not exist.
pub fn read(path: &str, fabric: &Fabric, links: &LinkGraph) -> Result<Vec<Entry>, Vec<Problem>> {
    let mut findings = Findings::new(path);
    let entries = entries(fabric, links, &mut findings);
    match entries.filter(|_| findings.problems.is_empty()) {
        Some(entries) => Ok(entries),
        None => Err(findings.problems),
    }
}

fn entries(fabric: &Fabric, links: &LinkGraph, findings: &mut Findings) -> Option<Vec<Entry>> {
    let text = file::text("table of routes", &file::disk, findings)?;
    let tree = parse::yaml(&text, findings)?;
    let root = At::root(&tree);
    findings.mapping(&root, &[ROUTES])?;
    let routes = findings.need(&root, ROUTES, "the next node by node and NPU")?;
    let nodes = Nodes::new(fabric, links);
    if !routes.is_map() {
        let message = format!("{} is not a mapping", routes.tree.show());
        findings.refuse(&routes, message, "a mapping for each node, by its name");
    }
    let mut entries = Vec::new();
    for (key, at) in routes.entries() {
        match nodes.named(&key.name, |_| true) {
            Some(node) => nodes.row(node, &at, &mut entries, findings),
            None => {
                let hint = did_you_mean(&key.name, nodes.names());
                let message = format!("unknown node \"{}\"{hint}", key.name);
                findings.refuse_at(key.origin, &at.path, message, "a node of the platform");
            }
        }
    }
    Some(entries)
}

/// The nodes of a network by name, and the links between them.
struct Nodes {
    numbers: FxHashMap<String, u32>,
    names: Vec<String>,
    npus: u32,
    /// Links by both ends.
    links: FxHashMap<(u32, u32), Vec<u32>>,
}

impl Nodes {
    fn new(fabric: &Fabric, links: &LinkGraph) -> Nodes {
        let names: Vec<String> = (0..links.nodes()).map(|node| fabric.node_name(node)).collect();
        let numbers = names.iter().cloned().zip(0..).collect();
        let mut between: FxHashMap<(u32, u32), Vec<u32>> = FxHashMap::default();
        for number in 0..links.len() {
            let link = links.link(number);
            between.entry((link.from, link.to)).or_default().push(number);
        }
        Nodes { numbers, names, npus: links.npus(), links: between }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    fn named(&self, name: &str, fits: impl Fn(u32) -> bool) -> Option<u32> {
        self.numbers.get(name).copied().filter(|&node| fits(node))
    }

    /// The entries of a node; those by name win over the default.
    fn row(&self, node: u32, at: &At<'_>, entries: &mut Vec<Entry>, findings: &mut Findings) {
        if !at.is_map() {
            let message = format!("{} is not a mapping", at.tree.show());
            return findings.refuse(at, message, "the next node by NPU, such as {npu0: switch1}");
        }
        let mut next: Vec<Option<u32>> = vec![None; self.npus as usize];
        let mut rest = None;
        for (key, at) in at.entries() {
            let to = self.named(&key.name, |to| to < self.npus);
            let Some(to) = to.map(Some).or((key.name == DEFAULT).then_some(None)) else {
                let hint = did_you_mean(&key.name, self.names().take(self.npus as usize));
                let message = format!("unknown NPU \"{}\"{hint}", key.name);
                findings.refuse_at(key.origin, &at.path, message, "an NPU, or default");
                continue;
            };
            let found = self.next(node, &at, findings);
            match to {
                Some(to) => next[to as usize] = found,
                None => rest = found,
            }
        }
        for to in (0..self.npus).filter(|&to| to != node) {
            let Some(between) = next[to as usize].or(rest).and_then(|n| self.links.get(&(node, n)))
            else {
                continue;
            };
            entries.push(Entry { at: node, to, link: between[to as usize % between.len()] });
        }
    }

    /// The neighbour that `at` names.
    fn next(&self, node: u32, at: &At<'_>, findings: &mut Findings) -> Option<u32> {
        let name = findings.text(at)?;
        let found = self.named(name, |next| self.links.contains_key(&(node, next)));
        if found.is_none() {
            let ends = self.links.keys().filter(|ends| ends.0 == node);
            let mut beside: Vec<u32> = ends.map(|ends| ends.1).collect();
            beside.sort_unstable();
            let names: Vec<&str> =
                beside.iter().map(|&node| self.names[node as usize].as_str()).collect();
            let message = format!("no link leads from {} to \"{name}\"", self.names[node as usize]);
            findings.refuse(at, message, names.join(", "));
        }
        found
    }
}
