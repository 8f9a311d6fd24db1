//! The simulated ranks: which of their nodes are ready, under way and over.
//!
//! A node is ready when all nodes before it are over. It takes a resource from its start to its
//! end. Not here: what a node does (`executor/nodes.rs`), its memory (`executor/memory.rs`) and its
//! pace (`executor/pace.rs`).

use crate::settings::Settings;
use graph::{OpKind, Program, Workload};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Index;
use std::rc::Rc;
use units::{Span, Time};

const RESOURCES: usize = 5;

/// In place of the number of nodes that a node waits for.
const UNDER_WAY: u32 = u32::MAX;
const OVER: u32 = u32::MAX - 1;

/// One simulated rank.
pub(crate) struct Rank {
    /// The rank it is (the representative of its class).
    pub(crate) id: u32,
    /// Program of the rank.
    pub(crate) program: u32,
    /// First slot of the rank.
    pub(crate) slots: u32,
    /// Where its nodes start in `Ranks::waits`.
    nodes: usize,
    /// Collectives issued, for LIFO and FIFO priorities.
    collectives: i64,
    /// When its host has launched what it has launched so far.
    launched: Time,
    /// Ready nodes, and the number of nodes under way, by resource.
    ready: [BinaryHeap<Reverse<u32>>; RESOURCES],
    busy: [u32; RESOURCES],
    issuing: bool,
    /// The node that ended last. What is issued then was waiting for it.
    last: Option<u32>,
    /// Nodes under way that communicate.
    communicating: u32,
}

/// See the module.
pub(crate) struct Ranks {
    ranks: Vec<Rank>,
    /// Nodes of each resource at once: no resource, host, NPU compute, communication streams, path
    /// to outside memory.
    limits: [u32; RESOURCES],
    memory_is_communication: bool,
    /// Kind of every node, by program.
    kinds: Vec<Rc<[OpKind]>>,
    /// For every node the number of nodes that it waits for, or its state after that.
    waits: Vec<u32>,
    done: u64,
}

impl Ranks {
    pub(crate) fn new(workload: &Workload, settings: &Settings) -> Ranks {
        let kinds = |p: &Program| p.nodes().iter().map(|n| n.op.kind()).collect();
        let streams = if settings.comm_streams == 0 { u32::MAX } else { settings.comm_streams };
        Ranks {
            ranks: Vec::new(),
            limits: [u32::MAX, 1, 1, streams, 1],
            memory_is_communication: settings.memory_is_communication,
            kinds: workload.by_body(kinds),
            waits: Vec::new(),
            done: 0,
        }
    }

    /// Adds rank `id`, whose slots begin at `slots`.
    pub(crate) fn add(&mut self, id: u32, slots: u32, number: u32, program: &Program) {
        let mut rank = Rank {
            id,
            program: number,
            slots,
            nodes: self.waits.len(),
            collectives: 0,
            launched: Time::ZERO,
            ready: Default::default(),
            busy: [0; RESOURCES],
            issuing: false,
            last: None,
            communicating: 0,
        };
        for (node, &kind) in self.kinds[number as usize].iter().enumerate() {
            let waits = program.deps(node).len() as u32;
            self.waits.push(waits);
            if waits == 0 {
                let resource = resource(kind, self.memory_is_communication);
                rank.ready[resource].push(Reverse(node as u32));
            }
        }
        self.ranks.push(rank);
    }

    pub(crate) fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Nodes that are over.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Nodes in all.
    pub(crate) fn total(&self) -> u64 {
        self.waits.len() as u64
    }

    #[inline]
    pub(crate) fn kind(&self, rank: u32, node: u32) -> OpKind {
        self.kinds[self[rank].program as usize][node as usize]
    }

    /// Begins to issue what is ready; false if that is being done already.
    pub(crate) fn begin_to_issue(&mut self, rank: u32) -> bool {
        !std::mem::replace(&mut self.ranks[rank as usize].issuing, true)
    }

    pub(crate) fn stop_to_issue(&mut self, rank: u32) {
        self.ranks[rank as usize].issuing = false;
    }

    /// Takes the first ready node whose resource is free. It is under way from now on.
    pub(crate) fn issue(&mut self, rank: u32) -> Option<u32> {
        let state = &mut self.ranks[rank as usize];
        let mut best = None;
        for (resource, ready) in state.ready.iter().enumerate() {
            if let Some(&Reverse(node)) = ready.peek()
                && state.busy[resource] < self.limits[resource]
                && best.is_none_or(|(_, least)| node < least)
            {
                best = Some((resource, node));
            }
        }
        let (resource, node) = best?;
        state.ready[resource].pop();
        state.busy[resource] += 1;
        self.waits[state.nodes + node as usize] = UNDER_WAY;
        Some(node)
    }

    /// The node that ended last.
    pub(crate) fn last(&self, rank: u32) -> Option<u32> {
        self[rank].last
    }

    /// The host launches one more node, which takes it `takes`. Returns when that is done.
    pub(crate) fn launch(&mut self, rank: u32, takes: Span) -> Time {
        let launched = &mut self.ranks[rank as usize].launched;
        *launched = *launched + takes;
        *launched
    }

    /// A rank has received a message. Its host launches nothing further ahead than that.
    pub(crate) fn hold_launches(&mut self, rank: u32, now: Time) {
        let launched = &mut self.ranks[rank as usize].launched;
        *launched = now.max(*launched);
    }

    /// Counts a collective that a rank issues.
    pub(crate) fn count_collective(&mut self, rank: u32) -> i64 {
        let collectives = &mut self.ranks[rank as usize].collectives;
        *collectives += 1;
        *collectives
    }

    /// A node ends: its resource is free, and the nodes that waited only for it are ready.
    pub(crate) fn complete(&mut self, rank: u32, node: u32, program: &Program) {
        let state = &mut self.ranks[rank as usize];
        let kinds = &self.kinds[state.program as usize];
        let waits = &mut self.waits[state.nodes..];
        let resource = |node: u32| resource(kinds[node as usize], self.memory_is_communication);
        state.last = Some(node);
        state.busy[resource(node)] -= 1;
        waits[node as usize] = OVER;
        self.done += 1;
        for &child in program.children(node as usize) {
            let left = &mut waits[child as usize];
            *left -= 1;
            if *left == 0 {
                state.ready[resource(child)].push(Reverse(child));
            }
        }
    }

    /// A rank communicates in one more way, or in one fewer.
    pub(crate) fn communicate(&mut self, rank: u32, begins: bool) {
        let communicating = &mut self.ranks[rank as usize].communicating;
        *communicating = if begins { *communicating + 1 } else { *communicating - 1 };
    }

    #[inline]
    pub(crate) fn communicates(&self, rank: u32) -> bool {
        self[rank].communicating > 0
    }

    pub(crate) fn is_under_way(&self, rank: u32, node: u32) -> bool {
        self.waits[self[rank].nodes + node as usize] == UNDER_WAY
    }

    /// Number of nodes that are not over.
    pub(crate) fn unfinished(&self, rank: u32) -> u64 {
        let (state, nodes) = (&self[rank], self.kinds[self[rank].program as usize].len());
        let waits = &self.waits[state.nodes..state.nodes + nodes];
        waits.iter().filter(|&&waits| waits != OVER).count() as u64
    }

    /// Whether a node waits for others.
    pub(crate) fn is_blocked(&self, rank: u32, node: u32) -> bool {
        (1..OVER).contains(&self.waits[self[rank].nodes + node as usize])
    }
}

impl Index<u32> for Ranks {
    type Output = Rank;

    #[inline]
    fn index(&self, rank: u32) -> &Rank {
        &self.ranks[rank as usize]
    }
}

fn resource(kind: OpKind, memory_is_communication: bool) -> usize {
    match kind {
        // Accesses to the NPU's own memory take turns among themselves.
        OpKind::Nothing | OpKind::Receive | OpKind::Local => 0,
        OpKind::Host => 1,
        OpKind::Compute => 2,
        OpKind::Remote if !memory_is_communication => 4,
        OpKind::Remote | OpKind::Communication => 3,
    }
}
