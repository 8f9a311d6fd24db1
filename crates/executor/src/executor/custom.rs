//! Algorithms from files: a small operation graph on each member, run as one chunk.
//!
//! Operations wait only for their dependencies. Sends and receives meet by tag as those of a
//! workload do, within their collective. A compute operation takes its recorded time (in
//! ASTRA-sim's profile at least 1 ns). No endpoint delay and no reduction is charged.

use super::Executor;
use crate::parts::agenda::Callback;
use crate::parts::chunks::ChunkRun;
use crate::parts::messages::Owner;
use collective::custom::Custom;
use graph::{Op, Peer, Program};
use network::Backend;
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::Arc;
use units::Span;

/// The operation graph of one member under way.
struct Graph {
    run: u32,
    rank: u32,
    instance: u32,
    /// The members' ranks by position; `None` when positions are ranks.
    ranks: Option<Rc<[u32]>>,
    position: u32,
    program: Arc<Program>,
    deps_left: Vec<u32>,
    left: u32,
}

/// All operation graphs.
#[derive(Default)]
pub(super) struct Graphs {
    graphs: Vec<Graph>,
    /// Ranks of each group in ascending order.
    sorted: FxHashMap<u32, Rc<[u32]>>,
}

impl<B: Backend> Executor<'_, B> {
    /// Starts the graph of a chunk run.
    pub(super) fn start_graph(&mut self, run: u32, state: &ChunkRun, custom: Arc<Custom>) {
        let &ChunkRun { rank, slot, instance, .. } = state;
        let ranks = self.sorted_ranks(self.collectives.slot(slot).group);
        let position = ranks.as_ref().map_or(state.position, |r| {
            r.partition_point(|&m| m < self.folding.representatives[rank as usize]) as u32
        });
        let program = custom.positions[position as usize].clone();
        let nodes = program.nodes().len();
        let deps_left: Vec<u32> = (0..nodes).map(|n| program.deps(n).len() as u32).collect();
        let free: Vec<u32> = (0..nodes as u32).filter(|&n| deps_left[n as usize] == 0).collect();
        let left = nodes as u32;
        let at = self.graphs.graphs.len() as u32;
        let graph = Graph { run, rank, instance, ranks, position, program, deps_left, left };
        self.graphs.graphs.push(graph);
        if nodes == 0 {
            return self.phase_done(run);
        }
        free.into_iter().for_each(|node| self.issue_operation(at, node));
    }

    fn issue_operation(&mut self, at: u32, node: u32) {
        let graph = &self.graphs.graphs[at as usize];
        let operation = graph.program.nodes()[node as usize];
        let owner = Owner::operation(graph.rank, at, node, graph.instance);
        match operation.op {
            Op::Send { peer, bytes, tag } => {
                let offset = self.rank_offset(at, peer);
                self.send(owner, offset, bytes.0, tag);
            }
            Op::Recv { peer, bytes, tag } => {
                let offset = self.rank_offset(at, peer);
                self.receive(owner, offset, bytes.0, tag);
            }
            _ => {
                let span = operation.duration.max(self.local_work(&operation.op));
                self.register(owner.rank, self.now + span, Callback::Operation(at, node));
            }
        }
    }

    /// Least time of local work: its bytes over the local memory, or in ASTRA-sim's profile 1 ns.
    fn local_work(&self, op: &Op) -> Span {
        match (op, self.settings.local_memory) {
            (Op::Compute { bytes: Some(bytes), .. }, Some(memory)) if self.settings.canonical => {
                memory.span(*bytes)
            }
            _ if self.settings.canonical => Span::ZERO,
            _ => Span::from_ns(1),
        }
    }

    /// The offset in ranks of a peer.
    fn rank_offset(&self, graph: u32, peer: Peer) -> i32 {
        let graph = &self.graphs.graphs[graph as usize];
        let offset = graph.program.offset(peer);
        let Some(ranks) = &graph.ranks else { return offset };
        let other = graph.position.wrapping_add_signed(offset);
        ranks[other as usize] as i32 - ranks[graph.position as usize] as i32
    }

    /// The ranks of a group in ascending order, which is the order of positions of an algorithm
    /// from a file; `None` for the whole machine.
    fn sorted_ranks(&mut self, group: u32) -> Option<Rc<[u32]>> {
        let (members, world) = (&self.workload.groups[group as usize].members, self.settings.ranks);
        if members.len(world) == world {
            return None;
        }
        let sorted = || {
            let mut ranks: Vec<u32> = (0..members.len(world)).map(|p| members.rank(p)).collect();
            ranks.sort_unstable();
            ranks.into()
        };
        Some(self.graphs.sorted.entry(group).or_insert_with(sorted).clone())
    }

    pub(super) fn operation_done(&mut self, at: u32, node: u32) {
        let graph = &mut self.graphs.graphs[at as usize];
        graph.left -= 1;
        if graph.left == 0 {
            let run = graph.run;
            return self.phase_done(run);
        }
        let program = graph.program.clone();
        let mut ready = Vec::new();
        for &child in program.children(node as usize) {
            let left = &mut graph.deps_left[child as usize];
            *left -= 1;
            if *left == 0 {
                ready.push(child);
            }
        }
        ready.into_iter().for_each(|child| self.issue_operation(at, child));
    }
}
