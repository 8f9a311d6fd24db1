//! Making a program from nodes in any order.

use super::{Body, MemoryChange, Program, UNLABELLED, named_layer};
use crate::{Node, Op, Peer};
use indexmap::IndexSet;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

/// Builds a [`Program`]: nodes in any order, dependencies by id.
#[derive(Clone, Debug, Default)]
pub struct ProgramBuilder {
    nodes: Vec<Node>,
    deps: Vec<u64>,
    dep_end: Vec<u32>,
    names: String,
    name_end: Vec<u32>,
    /// As in [`Program`], but shorter by the last nodes that have no label.
    layers: Vec<u32>,
    layer_names: IndexSet<String>,
    /// By index of the node, in any order; several of one node add up.
    held: Vec<(u32, MemoryChange)>,
}

/// Why a list of nodes is not a program.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProgramError {
    /// Two nodes carry the same id.
    #[error("node id {0} is defined twice; ids must be unique within a trace")]
    DuplicateId(u64),
    /// A dependency on a node that is not there.
    #[error("node {node} depends on node {dep}, which is not in the trace")]
    DanglingDependency {
        /// The node that depends.
        node: u64,
        /// The missing id.
        dep: u64,
    },
    /// More than 2^32 nodes, dependencies or bytes of names.
    #[error("a trace of more than 4,294,967,295 nodes, dependencies or bytes of names")]
    TooLarge,
}

impl ProgramBuilder {
    /// Adds one node with the ids it depends on (control and data alike; repeats are allowed).
    pub fn push(&mut self, node: Node, name: &str, deps: impl IntoIterator<Item = u64>) {
        self.nodes.push(node);
        self.deps.extend(deps);
        self.dep_end.push(self.deps.len() as u32);
        self.names.push_str(name);
        self.name_end.push(self.names.len() as u32);
    }

    /// Says which layer of the model the last node belongs to, once a node. A label that the node's
    /// name begins with is not kept.
    pub fn label(&mut self, layer: &str) {
        let Some(last) = self.nodes.len().checked_sub(1) else { return };
        if layer.is_empty() || layer == named_layer(&self.names[range(&self.name_end, last)]) {
            return;
        }
        // Neighbours share layers, as a rule: they are found without a hash.
        let known = self
            .layers
            .last()
            .filter(|&&i| self.layer_names.get_index(i as usize).is_some_and(|n| n == layer));
        let label = match known {
            Some(&label) => label,
            None => match self.layer_names.get_index_of(layer) {
                Some(label) => label as u32,
                None => self.layer_names.insert_full(layer.to_string()).0 as u32,
            },
        };
        self.layers.resize(last, UNLABELLED);
        self.layers.push(label);
    }

    /// Says that node `index`, in order of definition, allocates bytes of its NPU's memory at its
    /// start and frees some at its end.
    pub fn hold(&mut self, index: usize, held: MemoryChange) {
        if held != MemoryChange::default() {
            self.held.push((index as u32, held));
        }
    }

    /// Bytes that the nodes allocate and free, each node once, ascending.
    fn all_held(&self) -> Vec<(u32, MemoryChange)> {
        let mut all = self.held.clone();
        all.sort_by_key(|&(node, _)| node);
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1.allocates.0 = kept.1.allocates.0.saturating_add(next.1.allocates.0);
                kept.1.frees.0 = kept.1.frees.0.saturating_add(next.1.frees.0);
            }
            same
        });
        all
    }

    /// Nodes so far.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True before the first node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Removes every dependency on a node that is not there, and says how many.
    pub fn drop_dangling(&mut self) -> u64 {
        let mut ids: Vec<u64> = self.nodes.iter().map(|node| node.id).collect();
        ids.sort_unstable();
        let find = finder(&ids);
        let dangling = self.deps.iter().filter(|&&dep| find(dep).is_none()).count() as u64;
        if dangling > 0 {
            let all = std::mem::take(self);
            for (i, &node) in all.nodes.iter().enumerate() {
                let deps = all.deps[range(&all.dep_end, i)]
                    .iter()
                    .copied()
                    .filter(|&id| find(id).is_some());
                self.push(node, &all.names[range(&all.name_end, i)], deps);
                self.label(all.label_of(i));
            }
            self.held = all.held;
        }
        dangling
    }

    /// Indices of the nodes by ascending id, those of equal ids in the order of their definition.
    fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.nodes.len() as u32).collect();
        if !self.nodes.is_sorted_by(|a, b| a.id < b.id) {
            order.sort_by_key(|&i| self.nodes[i as usize].id);
        }
        order
    }

    /// Sorts by id, resolves dependencies and inverts them.
    ///
    /// # Errors
    /// The first [`ProgramError`]; cycles are not looked for here (see `check`).
    pub fn build(self) -> Result<Program, ProgramError> {
        self.build_or_explain().map_err(|mut faults| faults.swap_remove(0))
    }

    /// [`ProgramBuilder::build`] that says everything that is wrong, up to 100,000 faults.
    ///
    /// # Errors
    /// One or more [`ProgramError`]s.
    pub fn build_or_explain(mut self) -> Result<Program, Vec<ProgramError>> {
        let n = self.nodes.len();
        if n >= u32::MAX as usize
            || self.deps.len() >= u32::MAX as usize
            || self.names.len() >= u32::MAX as usize
        {
            return Err(vec![ProgramError::TooLarge]);
        }
        if !self.nodes.is_sorted_by(|a, b| a.id < b.id) {
            self = self.sorted();
        }
        let twice = self.nodes.windows(2).filter(|w| w[0].id == w[1].id).map(|w| w[0].id);
        let mut faults: Vec<ProgramError> =
            twice.take(MOST_FAULTS).map(ProgramError::DuplicateId).collect();
        let mut body = Body::default();
        if faults.is_empty() {
            self.resolve(&mut body, &mut faults);
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        body.slots = slots(&self.nodes);
        if !self.layer_names.is_empty() {
            self.layers.resize(n, UNLABELLED);
        }
        body.held = self.all_held();
        body.holds = bits(&body.held, n);
        body.layers = self.layers;
        body.layer_names = self.layer_names.into_iter().collect();
        let peers = number_peers(&mut self.nodes);
        body.nodes = self.nodes;
        body.names = self.names;
        body.name_start = starts(self.name_end);
        body.invert();
        Ok(Program { body: Arc::new(body), peers: peers.into() })
    }

    /// The same nodes by ascending id.
    fn sorted(self) -> ProgramBuilder {
        let mut sorted = ProgramBuilder::default();
        let order = self.order();
        let mut place = vec![0; order.len()];
        order.iter().zip(0u32..).for_each(|(&old, new)| place[old as usize] = new);
        sorted.held = self.held.iter().map(|&(node, held)| (place[node as usize], held)).collect();
        for i in order.into_iter().map(|i| i as usize) {
            let name = &self.names[range(&self.name_end, i)];
            sorted.push(self.nodes[i], name, self.deps[range(&self.dep_end, i)].iter().copied());
            sorted.label(self.label_of(i));
        }
        sorted
    }

    /// The label of node `i`, empty where it has none.
    fn label_of(&self, i: usize) -> &str {
        let label =
            self.layers.get(i).and_then(|&label| self.layer_names.get_index(label as usize));
        label.map_or("", String::as_str)
    }

    /// Turns ids into indices, each dependency of a node once. Nodes ascend by id and no id comes
    /// twice.
    fn resolve(&self, body: &mut Body, faults: &mut Vec<ProgramError>) {
        let nodes = &self.nodes;
        let ids: Vec<u64> = nodes.iter().map(|node| node.id).collect();
        let find = finder(&ids);
        // For each node the last one that was seen to depend on it, so that repeats cost no search.
        let mut seen = vec![u32::MAX; nodes.len()];
        body.deps.reserve_exact(self.deps.len());
        body.dep_start.reserve_exact(nodes.len() + 1);
        body.dep_start.push(0);
        for (i, node) in nodes.iter().enumerate() {
            for &id in &self.deps[range(&self.dep_end, i)] {
                match find(id) {
                    Some(dep) if seen[dep as usize] != i as u32 => {
                        seen[dep as usize] = i as u32;
                        body.deps.push(dep);
                    }
                    Some(_) => {}
                    None if faults.len() < MOST_FAULTS => {
                        faults.push(ProgramError::DanglingDependency { node: node.id, dep: id });
                    }
                    None => return,
                }
            }
            body.dep_start.push(body.deps.len() as u32);
        }
    }
}

/// Faults looked for; a longer list is of no help.
const MOST_FAULTS: usize = 100_000;

impl Body {
    /// Fills `children` from `deps`.
    fn invert(&mut self) {
        let n = self.nodes.len();
        let mut fan_out = vec![0u32; n + 1];
        self.deps.iter().for_each(|&dep| fan_out[dep as usize + 1] += 1);
        for i in 0..n {
            fan_out[i + 1] += fan_out[i];
        }
        self.children = vec![0; self.deps.len()];
        let mut next = fan_out.clone();
        for i in 0..n {
            for d in self.dep_start[i]..self.dep_start[i + 1] {
                let at = &mut next[self.deps[d as usize] as usize];
                self.children[*at as usize] = i as u32;
                *at += 1;
            }
        }
        self.child_start = fan_out;
    }
}

/// Looks an id up in ascending `ids`: by subtraction where they have no gaps, by bisection
/// otherwise.
fn finder(ids: &[u64]) -> impl Fn(u64) -> Option<u32> + '_ {
    let first = ids.first().copied().unwrap_or(0);
    let dense = ids.last().is_none_or(|last| last - first == ids.len() as u64 - 1);
    move |id| match dense {
        true => id.checked_sub(first).filter(|&d| d < ids.len() as u64).map(|d| d as u32),
        false => ids.binary_search(&id).ok().map(|i| i as u32),
    }
}

/// A bit for each of `n` nodes, set for those that are held; nothing where none is.
fn bits(held: &[(u32, MemoryChange)], n: usize) -> Vec<u64> {
    let mut bits = vec![0; if held.is_empty() { 0 } else { n.div_ceil(64) }];
    held.iter().for_each(|&(node, _)| bits[node as usize / 64] |= 1 << (node % 64));
    bits
}

/// Where the entries of item `i` lie, given where those of each item end.
fn range(ends: &[u32], i: usize) -> Range<usize> {
    (if i == 0 { 0 } else { ends[i - 1] as usize })..ends[i] as usize
}

/// Ends of items into starts with one more at the end.
fn starts(mut ends: Vec<u32>) -> Vec<u32> {
    ends.insert(0, 0);
    ends
}

/// Gives every peer its port, in the order of first use; the offsets of the peers by port.
fn number_peers(nodes: &mut [Node]) -> Vec<i32> {
    let mut ports = FxHashMap::default();
    let mut offsets = Vec::new();
    for node in nodes {
        if let Op::Send { peer: Peer(at), .. } | Op::Recv { peer: Peer(at), .. } = &mut node.op {
            let port = *ports.entry(*at).or_insert(offsets.len() as i32);
            if port as usize == offsets.len() {
                offsets.push(*at);
            }
            *at = port;
        }
    }
    offsets
}

fn slots(nodes: &[Node]) -> u32 {
    let used = nodes.iter().filter_map(|n| n.op.slot().map(|slot| slot + 1));
    used.max().unwrap_or(0)
}
