//! Programs that differ only in which ranks they send to and receive from.

use super::Program;
use crate::{Node, Op};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

impl Program {
    /// The ranks that sends and receives name, minus the own rank, each once, in the order of their
    /// first use. The index of a peer in this list is its *port*.
    pub fn peers(&self) -> Vec<i32> {
        let mut known = FxHashMap::default();
        let mut found = Vec::new();
        for node in &self.nodes {
            if let Op::Send { peer, .. } | Op::Recv { peer, .. } = node.op
                && known.insert(peer, ()).is_none()
            {
                found.push(peer);
            }
        }
        found
    }

    /// Whether both do the same, each with the peers at its own ports. `mine` and `theirs` are
    /// their [`Program::peers`].
    pub fn equals_but_for_peers(&self, other: &Program, mine: &[i32], theirs: &[i32]) -> bool {
        let ports =
            |peers: &[i32]| -> FxHashMap<i32, i32> { peers.iter().copied().zip(0..).collect() };
        let (mine, theirs) = (ports(mine), ports(theirs));
        let same = |(own, their): (&Node, &Node)| at_port(*own, &mine) == at_port(*their, &theirs);
        self.nodes.len() == other.nodes.len()
            && self.slots == other.slots
            && self.deps == other.deps
            && self.dep_start == other.dep_start
            && self.held == other.held
            && self.nodes.iter().zip(&other.nodes).all(same)
            && (&self.names, &self.name_start) == (&other.names, &other.name_start)
            && (&self.layers, &self.layer_names) == (&other.layers, &other.layer_names)
    }

    /// Equal for programs that are equal but for their peers.
    pub fn hash_but_for_peers(&self, peers: &[i32]) -> u64 {
        let ports: FxHashMap<i32, i32> = peers.iter().copied().zip(0..).collect();
        let mut hasher = FxHasher::default();
        self.nodes.iter().for_each(|node| at_port(*node, &ports).hash(&mut hasher));
        (self.deps.len(), self.names.len(), self.slots, &self.held).hash(&mut hasher);
        hasher.finish()
    }
}

/// A node with the port of its peer instead of the peer.
fn at_port(node: Node, ports: &FxHashMap<i32, i32>) -> Node {
    let mut found = node;
    if let Op::Send { peer, .. } | Op::Recv { peer, .. } = &mut found.op {
        *peer = ports[peer];
    }
    found
}
