//! Links and nodes of a graph that have failed: routes avoid them, or the error says who is cut
//! off.
//!
//! A failed link is gone both ways, with all cables between its two nodes. A failed node is gone
//! with all its links. What is left has no symmetry that the whole fabric had, so no place along a
//! dimension is taken for another ([`Fabric::line`](crate::Fabric::line)).

use crate::{Failed, GraphFabric, GraphLink};
use std::collections::{BTreeMap, VecDeque};

/// Which entry of a list of failures is wrong, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongFailure {
    /// The entry; none: the fabric that is left.
    pub entry: Option<FailedEntry>,
    /// Description of the fault, with the name.
    pub message: String,
    /// Allowed names.
    pub allowed: String,
}

/// An entry of [`Failed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedEntry {
    /// A name in [`Failed::links`].
    Link(usize),
    /// A name in [`Failed::nodes`].
    Node(usize),
}

impl GraphFabric {
    /// The graph without what has failed.
    ///
    /// # Errors
    /// Names that are not there, and NPUs that are cut off.
    pub fn without(mut self, mut failed: Failed) -> Result<GraphFabric, Vec<WrongFailure>> {
        if failed.is_empty() {
            return Ok(self);
        }
        let names = Names::of(&self);
        let mut wrong = Vec::new();
        let mut dead = vec![false; self.nodes.len()];
        for (at, name) in failed.nodes.iter().enumerate() {
            match names.switch(name) {
                Ok(node) => dead[node as usize] = true,
                Err((message, allowed)) => {
                    wrong.push(WrongFailure {
                        entry: Some(FailedEntry::Node(at)),
                        message,
                        allowed,
                    });
                }
            }
        }
        let mut cut: Vec<(u32, u32)> = Vec::new();
        for (at, name) in failed.links.iter().enumerate() {
            match names.link(name) {
                Ok(ends) => cut.push(ends),
                Err((message, allowed)) => {
                    wrong.push(WrongFailure {
                        entry: Some(FailedEntry::Link(at)),
                        message,
                        allowed,
                    });
                }
            }
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        cut.sort_unstable();
        let gone = |l: &GraphLink| {
            dead[l.from as usize]
                || dead[l.to as usize]
                || cut.binary_search(&(l.from.min(l.to), l.from.max(l.to))).is_ok()
        };
        let (mut kept, mut at) = (Vec::with_capacity(self.links.len()), 0..);
        for link in std::mem::take(&mut self.links) {
            let place = at.next().unwrap_or(u32::MAX);
            if gone(&link) {
                failed.gone.push((place, link));
            } else {
                kept.push(link);
            }
        }
        (self.links, self.failed) = (kept, failed);
        match self.cut_off() {
            None => Ok(self),
            Some(message) => {
                let allowed = "failures that leave a way between every two NPUs".to_string();
                Err(vec![WrongFailure { entry: None, message, allowed }])
            }
        }
    }

    /// All links in their order, with those that have failed.
    pub fn all_links(&self) -> Vec<GraphLink> {
        let mut all = Vec::with_capacity(self.links.len() + self.failed.gone.len());
        let mut rest = self.links.iter();
        for (place, link) in &self.failed.gone {
            let before = (*place as usize).saturating_sub(all.len());
            all.extend(rest.by_ref().take(before).cloned());
            all.push(link.clone());
        }
        all.extend(rest.cloned());
        all
    }

    /// Who has no way to most other NPUs, or from them.
    fn cut_off(&self) -> Option<String> {
        let (out, into) =
            (self.neighbours(|l| (l.from, l.to)), self.neighbours(|l| (l.to, l.from)));
        let mut part = vec![u32::MAX; self.npus as usize];
        let mut sizes: Vec<u32> = Vec::new();
        for npu in 0..self.npus {
            if part[npu as usize] != u32::MAX {
                continue;
            }
            let (there, back) = (reached(&out, npu), reached(&into, npu));
            let number = sizes.len() as u32;
            let mut size = 0;
            for other in (0..self.npus as usize).filter(|&v| there[v] && back[v]) {
                part[other] = number;
                size += 1;
            }
            sizes.push(size);
        }
        let most = *sizes.iter().max()?;
        let largest = sizes.iter().position(|&size| size == most)? as u32;
        let lost: Vec<&str> = (0..self.npus as usize)
            .filter(|&npu| part[npu] != largest)
            .map(|npu| self.nodes[npu].name.as_str())
            .collect();
        (!lost.is_empty()).then(|| {
            let are = if lost.len() == 1 { "is" } else { "are" };
            let others = match most {
                1 => "the other NPU".to_string(),
                _ => format!("the {most} other NPUs"),
            };
            format!("{} {are} cut off: no way is left to {others}", some(&lost))
        })
    }

    fn neighbours(&self, ends: impl Fn(&GraphLink) -> (u32, u32)) -> Vec<Vec<u32>> {
        let mut of = vec![Vec::new(); self.nodes.len()];
        for (a, b) in self.links.iter().map(ends) {
            of[a as usize].push(b);
        }
        of
    }
}

/// Nodes found from `first`.
fn reached(next: &[Vec<u32>], first: u32) -> Vec<bool> {
    let mut reached = vec![false; next.len()];
    reached[first as usize] = true;
    let mut queue = VecDeque::from([first]);
    while let Some(node) = queue.pop_front() {
        for &to in &next[node as usize] {
            if !std::mem::replace(&mut reached[to as usize], true) {
                queue.push_back(to);
            }
        }
    }
    reached
}

/// The first few of many names.
fn some(names: &[&str]) -> String {
    const SHOWN: usize = 4;
    match names {
        [] => String::new(),
        [one] => (*one).to_string(),
        [all @ .., last] if names.len() <= SHOWN => format!("{} and {last}", all.join(", ")),
        _ => format!("{} and {} more", names[..SHOWN].join(", "), names.len() - SHOWN),
    }
}

/// Nodes and links by name.
struct Names<'a> {
    graph: &'a GraphFabric,
    nodes: BTreeMap<&'a str, u32>,
}

/// A message, and what is allowed.
type Fault = (String, String);

impl Names<'_> {
    fn of(graph: &GraphFabric) -> Names<'_> {
        let nodes = (0..).zip(&graph.nodes).map(|(at, node)| (node.name.as_str(), at)).collect();
        Names { graph, nodes }
    }

    /// A node that no rank runs on.
    fn switch(&self, name: &str) -> Result<u32, Fault> {
        match self.nodes.get(name) {
            Some(&node) if node < self.graph.npus => Err((
                format!("{name} is cut off: it has failed, and rank {node} runs on it"),
                "switches; a platform of fewer npus has no rank there".to_string(),
            )),
            Some(&node) => Ok(node),
            None => Err((format!("no node is called \"{name}\""), self.examples())),
        }
    }

    /// The ends of `a-b`, the lower first. Names may have hyphens too.
    fn link(&self, name: &str) -> Result<(u32, u32), Fault> {
        let halves =
            name.match_indices('-').map(|(at, _)| (name[..at].trim(), name[at + 1..].trim()));
        let known = |(a, b): (&str, &str)| Some((*self.nodes.get(a)?, *self.nodes.get(b)?));
        let Some((a, b)) = halves.filter_map(known).next() else {
            let allowed = "two nodes joined by a hyphen, such as leaf0-spine1; the nodes are ";
            return Err((
                format!("no link is called \"{name}\""),
                format!("{allowed}{}", self.examples()),
            ));
        };
        let ends = (a.min(b), a.max(b));
        let joins = |l: &&GraphLink| (l.from.min(l.to), l.from.max(l.to)) == ends;
        if self.graph.links.iter().any(|l| joins(&l)) {
            return Ok(ends);
        }
        let name = |node: u32| self.graph.nodes[node as usize].name.as_str();
        let other = |l: &GraphLink| match a {
            _ if l.from == a => Some(name(l.to)),
            _ if l.to == a => Some(name(l.from)),
            _ => None,
        };
        let mut near: Vec<&str> = self.graph.links.iter().filter_map(other).collect();
        near.dedup();
        near.sort_unstable();
        near.dedup();
        let (first, second) = (name(a), name(b));
        Err((
            format!("no link joins {first} and {second}"),
            format!("{first} is joined to {}", some(&near)),
        ))
    }

    /// Names of nodes, for errors: the first of each tier.
    fn examples(&self) -> String {
        let mut shown: Vec<&str> = Vec::new();
        let mut tier = None;
        for node in self.graph.nodes.iter().filter(|node| node.tier > 0) {
            if tier.replace(node.tier) != Some(node.tier) {
                shown.push(&node.name);
            }
        }
        if shown.is_empty() {
            shown.extend(self.graph.nodes.iter().take(4).map(|node| node.name.as_str()));
        }
        format!("{}, ...", shown.join(", "))
    }
}
