//! One program: nodes in ascending id with their dependencies.
//!
//! Here: what a program holds and how it is asked. One file each for what a node does (`op.rs`), for
//! making a program (`program/builder.rs`) and for what shares a body (`program/peers.rs`).

mod builder;
mod peers;

pub use builder::{ProgramBuilder, ProgramError};
pub(crate) use peers::{bodies, by_body};

use crate::Node;
use std::sync::Arc;
use units::Bytes;

/// An operation graph: a body, and the ranks that its sends and receives name. Programs that do the
/// same with other ranks share a body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Program {
    body: Arc<Body>,
    /// Offset of the peer at each port.
    peers: Arc<[i32]>,
}

/// Nodes ascending by id, dependencies as indices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Body {
    nodes: Vec<Node>,
    dep_start: Vec<u32>,
    deps: Vec<u32>,
    child_start: Vec<u32>,
    children: Vec<u32>,
    names: String,
    name_start: Vec<u32>,
    /// For each node an index into `layer_names`, or [`UNLABELLED`]; empty where no node has a
    /// label.
    layers: Vec<u32>,
    /// In the order of their first nodes, so that equal programs are equal.
    layer_names: Vec<String>,
    /// Nodes that change what the NPU's memory holds, ascending; and a bit for each node, set for
    /// those, or nothing where there are none.
    held: Vec<(u32, MemoryChange)>,
    holds: Vec<u64>,
    slots: u32,
}

/// Bytes that a node allocates and frees in the memory of its NPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemoryChange {
    /// Held from the start of the node on.
    pub allocates: Bytes,
    /// No longer held after its end.
    pub frees: Bytes,
}

/// Label of a node whose layer is the beginning of its name.
const UNLABELLED: u32 = u32::MAX;

impl Program {
    /// The nodes, ascending by id. An index into this slice is how everything else names a node.
    pub fn nodes(&self) -> &[Node] {
        &self.body.nodes
    }

    /// Indices of the nodes that must finish before node `i` may start.
    pub fn deps(&self, i: usize) -> &[u32] {
        &self.body.deps[self.body.dep_start[i] as usize..self.body.dep_start[i + 1] as usize]
    }

    /// Indices of the nodes that wait for node `i`.
    pub fn children(&self, i: usize) -> &[u32] {
        &self.body.children
            [self.body.child_start[i] as usize..self.body.child_start[i + 1] as usize]
    }

    /// The name of node `i` as the trace gives it, possibly empty.
    pub fn name(&self, i: usize) -> &str {
        &self.body.names[self.body.name_start[i] as usize..self.body.name_start[i + 1] as usize]
    }

    /// The layer of the model that node `i` belongs to: what it was labelled with, else what its
    /// name begins with.
    pub fn layer(&self, i: usize) -> &str {
        self.label(i).unwrap_or_else(|| named_layer(self.name(i)))
    }

    /// The label of node `i`, where it has one that its name doesn't say.
    pub fn label(&self, i: usize) -> Option<&str> {
        self.body.layer_names.get(*self.body.layers.get(i)? as usize).map(String::as_str)
    }

    /// Bytes that node `i` allocates and frees in the memory of its NPU, where it does.
    #[inline]
    pub fn held(&self, i: usize) -> Option<MemoryChange> {
        let word = self.body.holds.get(i / 64)?;
        if word >> (i % 64) & 1 == 0 {
            return None;
        }
        self.body
            .held
            .binary_search_by_key(&(i as u32), |&(node, _)| node)
            .ok()
            .map(|at| self.body.held[at].1)
    }

    /// Whether nodes say what they change in the memory of their NPU.
    pub fn tracks_memory(&self) -> bool {
        !self.body.held.is_empty()
    }

    /// How many group slots the program's collectives and gathers use.
    pub fn slots(&self) -> u32 {
        self.body.slots
    }
}

/// The layer that a name begins with: its first word, with the number that follows it
/// (`transformer.3`), a micro-batch before it (`mb0.`, `shadow_mb0.`) left out. Words end at dots.
fn named_layer(name: &str) -> &str {
    let word = |text: &str| text.find('.').unwrap_or(text.len());
    let name = match name.get(..word(name)).filter(|first| is_micro_batch(first)) {
        Some(first) if first.len() < name.len() => &name[first.len() + 1..],
        _ => name,
    };
    let first = word(name);
    let numbered = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let rest = name.get(first + 1..).unwrap_or("");
    let second = word(rest);
    if second < rest.len() && numbered(&rest[..second]) && !numbered(&name[..first]) {
        &name[..first + 1 + second]
    } else {
        &name[..first]
    }
}

/// Whether a word of a name counts micro-batches, as the traces of STG do.
fn is_micro_batch(word: &str) -> bool {
    let word = word.strip_prefix("shadow_").unwrap_or(word);
    word.strip_prefix("mb")
        .is_some_and(|count| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
