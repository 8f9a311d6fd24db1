//! Programs that differ only in which ranks they send to and receive from.

use super::{Body, Program};
use crate::{Node, Op, Peer};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

impl Program {
    /// The ranks that sends and receives name, minus the own rank, each once, in the order of their
    /// first use. The index of a peer in this list is its *port*.
    pub fn peers(&self) -> &[i32] {
        &self.peers
    }

    /// The rank that a send or a receive of this program names, minus the own rank.
    #[inline]
    pub fn offset(&self, peer: Peer) -> i32 {
        self.peers[peer.0 as usize]
    }

    /// A node of this program as a [`ProgramBuilder`](super::ProgramBuilder) takes it.
    pub fn by_offset(&self, node: Node) -> Node {
        let mut found = node;
        if let Op::Send { peer, .. } | Op::Recv { peer, .. } = &mut found.op {
            *peer = self.offset(*peer).into();
        }
        found
    }

    /// The program that does the same with other peers, by port. `None` where a port has none,
    /// where more are given, or where two are the same.
    pub fn with_peers(&self, peers: Vec<i32>) -> Option<Program> {
        let mut distinct = peers.clone();
        distinct.sort_unstable();
        distinct.dedup();
        (peers.len() == self.peers.len() && distinct.len() == peers.len())
            .then(|| Program { body: Arc::clone(&self.body), peers: peers.into() })
    }

    /// Whether both do the same, each with the peers at its own ports.
    pub fn equals_but_for_peers(&self, other: &Program) -> bool {
        self.body == other.body
    }

    /// Equal for programs that are equal but for their peers.
    pub fn hash_but_for_peers(&self) -> u64 {
        let mut hasher = FxHasher::default();
        let body = &*self.body;
        body.nodes.hash(&mut hasher);
        (body.deps.len(), body.names.len(), body.slots, &body.held).hash(&mut hasher);
        hasher.finish()
    }
}

/// One program of each body, in the order of `programs`.
pub(crate) fn bodies(programs: &[Arc<Program>]) -> impl Iterator<Item = &Program> {
    let mut seen = FxHashSet::default();
    programs.iter().map(|program| &**program).filter(move |program| seen.insert(key(program)))
}

/// The result of `make` for each program; it is called for one program of each body.
pub(crate) fn by_body<T: Clone>(
    programs: &[Arc<Program>],
    mut make: impl FnMut(&Program) -> T,
) -> Vec<T> {
    let mut known: FxHashMap<*const Body, T> = FxHashMap::default();
    let mut of =
        |program: &Arc<Program>| known.entry(key(program)).or_insert_with(|| make(program)).clone();
    programs.iter().map(&mut of).collect()
}

fn key(program: &Program) -> *const Body {
    Arc::as_ptr(&program.body)
}
