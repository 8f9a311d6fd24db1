//! Issue of a rank's nodes: ready nodes in ascending order, as far as its resources go.
//!
//! A node waits for its host to launch it, then for its memory, and then begins. Not here: which
//! nodes are ready (`parts/ranks.rs`).

use super::Executor;
use crate::parts::agenda::Callback;
use crate::parts::messages::Owner;
use crate::pool_sharing::Wanted;
use graph::{Op, OpKind, Reach};
use network::Backend;
use platform::Launch;
use units::{Span, Time};

impl<B: Backend> Executor<'_, B> {
    pub(super) fn set_up_ranks(&mut self) {
        for (index, &id) in self.folding.representatives.iter().enumerate() {
            let number = self.workload.ranks[id as usize].program;
            let program = &self.workload.programs[number as usize];
            self.ranks.add(id, self.collectives.slots(), number, program);
            self.set_up_slots(index as u32, id, program.slots());
            self.set_up_memory(index as u32, self.settings.resident[number as usize]);
        }
    }

    /// Issues what can be issued, ascending by id, until nothing more can.
    pub(super) fn issue_ready(&mut self, rank: u32) {
        if !self.ranks.begin_to_issue(rank) {
            return;
        }
        while let Some(node) = self.ranks.issue(rank) {
            self.issue(rank, node);
        }
        self.ranks.stop_to_issue(rank);
    }

    fn issue(&mut self, rank: u32, node: u32) {
        let after = self.ranks.last(rank);
        let launched = self.launch_time(rank, node).map(|takes| self.ranks.launch(rank, takes));
        match launched.filter(|&time| time > self.now) {
            Some(later) => {
                self.recorder.launch_begins(rank, node, self.now);
                self.register(rank, later, Callback::Launched(node, after));
            }
            None => self.start(rank, node, after),
        }
    }

    /// Begins a node that the host of its rank has launched, which it has waited for since `after`
    /// ended.
    pub(super) fn begin_launched(&mut self, rank: u32, node: u32, after: Option<u32>) {
        self.recorder.launch_ends(rank, node, self.now);
        self.start(rank, node, after);
    }

    fn start(&mut self, rank: u32, node: u32, after: Option<u32>) {
        let kind = self.ranks.kind(rank, node);
        self.recorder.issued(rank, node, kind, after, self.now);
        self.turns(rank, None, Some(kind));
        self.take_memory(rank, node, kind);
    }

    /// A rank stops to do one thing and begins to do another. If it begins or stops to communicate,
    /// what it computes changes its pace.
    pub(super) fn turns(&mut self, rank: u32, from: Option<OpKind>, to: Option<OpKind>) {
        let communicates = |kind| kind == Some(OpKind::Communication);
        if communicates(from) != communicates(to) {
            self.ranks.communicate(rank, communicates(to));
            self.repace(rank);
        }
    }

    /// How long the host takes to launch a node. Hosts launch one node after the other, ahead of
    /// their NPUs, but not ahead of what they have received. `None` for its own work, for accesses
    /// to memory and for receives that take it no time: these wait for no launch before them.
    fn launch_time(&self, rank: u32, node: u32) -> Option<Span> {
        let launch = self.settings.launch;
        if launch == Launch::default() {
            return None;
        }
        let program = self.ranks[rank].program as usize;
        match self.workload.programs[program].nodes()[node as usize].op {
            Op::Compute { cpu: false, .. } | Op::Gemm(_) | Op::Grouped(_) | Op::Lookup(_) => {
                Some(launch.kernel)
            }
            Op::Collective { slot, .. } => {
                Some(launch.kernel + launch.per_member * u64::from(self.others(rank, slot)))
            }
            Op::Send { .. } => Some(launch.send),
            Op::Recv { .. } => (launch.receive > Span::ZERO).then_some(launch.receive),
            Op::Compute { .. } | Op::Memory { .. } | Op::Metadata | Op::Invalid => None,
        }
    }

    /// Members of the group in a slot, without the rank itself.
    fn others(&self, rank: u32, slot: u32) -> u32 {
        let members = self.members(self.ranks[rank].slots + slot);
        members.len(self.settings.ranks).saturating_sub(1)
    }

    /// Begins a node that has been launched, as soon as it has its memory.
    fn take_memory(&mut self, rank: u32, node: u32, kind: OpKind) {
        let program = self.ranks[rank].program as usize;
        if let Some(held) = self.workload.programs[program].held(node as usize)
            && let Some(moves) = self.allocate(rank, node, held)
        {
            return self.wait_for_memory(rank, node, kind, moves);
        }
        self.begin_node(rank, node, kind);
    }

    /// Begins what a node does.
    pub(super) fn begin_node(&mut self, rank: u32, index: u32, kind: OpKind) {
        let program = self.ranks[rank].program as usize;
        if self.settings.replay_only || matches!(kind, OpKind::Compute | OpKind::Host) {
            let span = self.settings.durations[program][index as usize];
            return match self.settings.overlapped.get(program) {
                Some(overlapped) if kind == OpKind::Compute => {
                    self.compute(rank, index, span, overlapped[index as usize])
                }
                _ => self.finish_at(rank, index, self.now + span),
            };
        }
        let node = self.workload.programs[program].nodes()[index as usize];
        match node.op {
            Op::Metadata
            | Op::Invalid
            | Op::Compute { .. }
            | Op::Gemm(_)
            | Op::Grouped(_)
            | Op::Lookup(_) => self.complete(rank, index),
            Op::Memory { store, bytes, reach, slot, tensor } => {
                self.touch(rank, index, tensor, reach);
                let wanted = Wanted { store, bytes, gathers: reach == Reach::InSwitch, slot };
                self.access_memory(rank, index, wanted, reach)
            }
            Op::Send { peer, bytes, tag } => {
                let offset = self.workload.programs[program].offset(peer);
                self.send(Owner::node(rank, index), offset, bytes.0, tag)
            }
            Op::Recv { peer, bytes, tag } => {
                let offset = self.workload.programs[program].offset(peer);
                self.receive(Owner::node(rank, index), offset, bytes.0, tag)
            }
            Op::Collective { kind, .. } if self.settings.replays(kind) => {
                let span = self.settings.durations[program][index as usize];
                self.finish_at(rank, index, self.now + span);
            }
            Op::Collective { .. } => self.issue_collective(rank, index, &node),
        }
    }

    /// A node keeps its resource until `time`.
    pub(super) fn finish_at(&mut self, rank: u32, node: u32, time: Time) {
        self.register(rank, time, Callback::Node(node));
    }

    /// Ends a node: frees its resource, wakes its children and issues what is ready.
    pub(super) fn complete(&mut self, rank: u32, node: u32) {
        let program = &self.workload.programs[self.ranks[rank].program as usize];
        let kind = self.ranks.kind(rank, node);
        self.ranks.complete(rank, node, program);
        if kind == OpKind::Receive {
            self.ranks.hold_launches(rank, self.now);
        }
        self.recorder.completed(rank, node, kind, self.now);
        self.turns(rank, Some(kind), None);
        if let Some(held) = program.held(node as usize) {
            self.free(rank, held);
        }
        self.issue_ready(rank);
    }
}
