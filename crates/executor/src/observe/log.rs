//! The log of a run: when each node of each simulated rank started and ended, what let it start,
//! which nodes met in a collective or by a message, and what ranks and dimensions did over time.
//!
//! It has 24 bytes for each node and rank, activity in bins, and the terms of time and the delays
//! of each node of a program (`chains.rs`, `delays.rs`). So its size follows from the simulated part of the workload, not from
//! the length of the run.

use super::activities::Activities;
use super::chains::{Chains, Over};
use super::delays::NodeDelays;
use super::{Activity, ChunkPhase, Departure, Message, Observer, Place, Reception};
use crate::folding::Folding;
use graph::{OpKind, Workload};
use lowering::{Lowered, Request};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use units::{Span, Time};

const NONE: u32 = u32::MAX;

/// When a node ran, and the node of its rank that it started after.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub start: Time,
    pub end: Time,
    after: u32,
}

impl Ran {
    /// The node of the rank whose end let it start.
    pub(super) fn after(&self) -> Option<u32> {
        (self.after != NONE).then_some(self.after)
    }
}

/// See the module.
pub struct Log {
    /// Where each simulated rank's nodes start in `nodes`, and where the last ends.
    first: Vec<usize>,
    nodes: Vec<Ran>,
    /// Nodes that took part in each collective.
    members: Vec<Vec<Place>>,
    instance: FxHashMap<Place, u32>,
    /// The message of each receive.
    messages: FxHashMap<Place, Message>,
    /// Times, and the bytes that the memory of the rank held from then on, for each rank.
    held: Vec<Vec<(Time, u64)>>,
    pub(super) activity: Activities,
    pub(super) chains: Chains,
    pub(super) delays: NodeDelays,
}

impl Log {
    /// For a run of the representatives of `folding` over `dims` dimensions. Sums of ranks that are
    /// alike in `symmetry` are of one program, whether the run is folded or not.
    pub fn new(workload: &Workload, folding: &Folding, symmetry: &Folding, dims: usize) -> Log {
        let mut first = vec![0];
        for &rank in &folding.representatives {
            first.push(first[first.len() - 1] + workload.program(rank).nodes().len());
        }
        let stand_in = |rank: u32| symmetry.representatives[symmetry.local(rank) as usize];
        let program = |&rank: &u32| workload.ranks[stand_in(rank) as usize].program;
        let programs: Vec<u32> = folding.representatives.iter().map(program).collect();
        let blank = Ran { start: Time::MAX, end: Time::MAX, after: NONE };
        Log {
            nodes: vec![blank; first[first.len() - 1]],
            first,
            members: Vec::new(),
            instance: FxHashMap::default(),
            messages: FxHashMap::default(),
            held: vec![Vec::new(); folding.representatives.len()],
            delays: NodeDelays::new(programs.clone()),
            chains: Chains::new(dims, programs),
            activity: Activities::new(folding, dims),
        }
    }

    /// Every node of a simulated rank.
    pub(super) fn of(&self, rank: u32) -> &[Ran] {
        &self.nodes[self.first[rank as usize]..self.first[rank as usize + 1]]
    }

    /// Times, and the bytes that a rank's memory held from then on.
    pub(super) fn held(&self, rank: u32) -> &[(Time, u64)] {
        &self.held[rank as usize]
    }

    /// One node.
    pub(super) fn at(&self, (rank, node): Place) -> &Ran {
        &self.of(rank)[node as usize]
    }

    /// When a node could have begun if its host had launched it: when the node that it started
    /// after had ended.
    pub(super) fn ready(&self, (rank, node): Place) -> Time {
        self.at((rank, node)).after().map_or(Time::ZERO, |after| self.at((rank, after)).end)
    }

    /// All nodes that took part in the collective of a node. Empty for other nodes.
    pub(super) fn members(&self, place: Place) -> &[Place] {
        self.instance.get(&place).map_or(&[], |&instance| &self.members[instance as usize])
    }

    /// The message of a receive.
    pub(super) fn message(&self, place: Place) -> Option<&Message> {
        self.messages.get(&place)
    }

    fn node(&mut self, rank: u32, node: u32) -> &mut Ran {
        &mut self.nodes[self.first[rank as usize] + node as usize]
    }
}

impl Observer for Log {
    fn issued(&mut self, rank: u32, node: u32, _kind: OpKind, after: Option<u32>, now: Time) {
        *self.node(rank, node) = Ran { start: now, end: Time::MAX, after: after.unwrap_or(NONE) };
    }

    fn completed(&mut self, rank: u32, node: u32, _kind: OpKind, start: Time, now: Time) {
        self.node(rank, node).end = now;
        let ranks = self.activity.multiplicity(rank);
        self.chains.over(&Over { place: (rank, node), start, end: now, ranks });
    }

    fn spent(&mut self, rank: u32, activity: Activity, from: Time, to: Time) {
        self.activity.spent(rank, activity, from, to);
    }

    fn joined(&mut self, rank: u32, node: u32, instance: u32) {
        if self.members.len() <= instance as usize {
            self.members.resize_with(instance as usize + 1, Vec::new);
        }
        self.members[instance as usize].push((rank, node));
        self.instance.insert((rank, node), instance);
    }

    fn chunk_starts(&mut self, chunk: &ChunkPhase, now: Time) {
        self.activity.chunk_starts(chunk, now);
        self.chains.starts(chunk, now);
    }

    fn chunk_waits(&mut self, chunk: &ChunkPhase, now: Time) {
        self.chains.waits(chunk, now);
    }

    fn chunk_ends(&mut self, chunk: &ChunkPhase, now: Time) {
        self.chains.ends(chunk, now);
        self.delays.ends(chunk, self.activity.multiplicity(chunk.rank), now);
    }

    fn opens(&mut self, instance: u32, request: &Request, lowered: &Arc<Lowered>, ranks: u32) {
        self.chains.opens(instance, request, lowered, ranks);
    }

    fn invited(&mut self, run: u32, host: u32) {
        self.chains.invited(run, host);
    }

    fn begins(&mut self, run: u32, delay: Span) {
        self.chains.begins(run, delay);
    }

    fn departs(&mut self, departure: &Departure, now: Time) {
        self.chains.departs(departure, now);
    }

    fn arrives(&mut self, token: u64, now: Time) {
        self.chains.arrives(token, now);
    }

    fn early(&mut self, token: u64) {
        self.chains.early(token);
    }

    fn received(&mut self, reception: &Reception, now: Time) {
        self.chains.received(reception, now);
    }

    fn usable(&mut self, run: u32, now: Time) {
        self.chains.usable(run, now);
    }

    fn dimension_busy(&mut self, rank: u32, dim: u32, from: Time, to: Time) {
        self.activity.dimension_busy(rank, dim, from, to);
    }

    fn memory_changed(&mut self, rank: u32, held: u64, now: Time) {
        self.held[rank as usize].push((now, held));
    }

    fn message(&mut self, message: &Message) {
        self.messages.insert(message.to, *message);
    }
}
