//! What a rank issues when: ready nodes in ascending id, as far as its resources go.

use super::pace::Pace;
use super::point_to_point::Owner;
use super::{Callback, Executor, Instant, NONE};
use graph::{Op, OpKind};
use network::Backend;
use platform::Launch;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{Span, Time};

pub(super) const RESOURCES: usize = 5;

/// How much of each resource a rank has: no resource, host, NPU compute, communication streams,
/// path to outside memory.
pub(super) fn limits(comm_streams: u32) -> [u32; RESOURCES] {
    [u32::MAX, 1, 1, if comm_streams == 0 { u32::MAX } else { comm_streams }, 1]
}

/// One simulated rank.
pub(super) struct Rank {
    /// The rank it is (the representative of its class).
    pub id: u32,
    /// Its program.
    pub program: u32,
    /// Where its counters start in `deps_left`.
    pub deps: usize,
    /// Where its group table starts in `slots`.
    pub slots: u32,
    /// Nodes not yet finished.
    pub left: u32,
    /// Collectives issued, for LIFO and FIFO priorities.
    pub issued: i64,
    /// Pending callbacks by instant; few at any time.
    pub instants: Vec<Instant>,
    /// When the NPU's own memory is free again.
    pub memory_free: Time,
    /// The computation under way, where its pace may change.
    pub pace: Option<Pace>,
    /// When its host has launched what it has launched so far.
    pub launched: Time,
    /// What its program holds of the NPU's memory, and how much of that lies outside.
    pub held: u64,
    pub spilled: u64,
    ready: [BinaryHeap<Reverse<u32>>; RESOURCES],
    busy: [u32; RESOURCES],
    issuing: bool,
    /// The node that ended last; what is issued then was waiting for it.
    last: Option<u32>,
}

impl<B: Backend> Executor<'_, B> {
    pub(super) fn set_up_ranks(&mut self) {
        for (index, &id) in self.folding.representatives.iter().enumerate() {
            let binding = self.workload.ranks[id as usize];
            let program = &self.workload.programs[binding.program as usize];
            let nodes = program.nodes().len();
            let mut rank = Rank {
                id,
                program: binding.program,
                deps: self.deps_left.len(),
                slots: self.slots.len() as u32,
                left: nodes as u32,
                issued: 0,
                instants: Vec::new(),
                memory_free: Time::ZERO,
                pace: None,
                launched: Time::ZERO,
                held: self.settings.resident[binding.program as usize],
                spilled: 0,
                ready: Default::default(),
                busy: [0; RESOURCES],
                issuing: false,
                last: None,
            };
            for node in 0..nodes {
                let deps = program.deps(node).len() as u32;
                self.deps_left.push(deps);
                if deps == 0 {
                    let kind = self.kinds[binding.program as usize][node];
                    rank.ready[self.resource(kind)].push(Reverse(node as u32));
                }
            }
            self.total += nodes as u64;
            self.set_up_slots(index as u32, id, program.slots());
            self.recorder.memory_changed(index as u32, rank.held as i64, Time::ZERO);
            self.ranks.push(rank);
        }
        let queues =
            self.ranks.len() * self.settings.sizes.len() * self.settings.queues_per_dim as usize;
        self.queues.resize_with(queues, Default::default);
        self.dealt.resize_with(self.ranks.len(), Default::default);
    }

    fn resource(&self, kind: OpKind) -> usize {
        match kind {
            // Accesses to the NPU's own memory take turns among themselves.
            OpKind::Nothing | OpKind::Receive | OpKind::Local => 0,
            OpKind::Host => 1,
            OpKind::Compute => 2,
            OpKind::Remote if !self.settings.memory_is_communication => 4,
            OpKind::Remote | OpKind::Communication => 3,
        }
    }

    /// Issues what can be issued, ascending by id, until nothing more can.
    pub(super) fn issue_ready(&mut self, rank: u32) {
        if std::mem::replace(&mut self.ranks[rank as usize].issuing, true) {
            return;
        }
        while let Some((resource, node)) = self.next_ready(rank) {
            let state = &mut self.ranks[rank as usize];
            state.ready[resource].pop();
            state.busy[resource] += 1;
            self.issue(rank, node);
        }
        self.ranks[rank as usize].issuing = false;
    }

    fn next_ready(&self, rank: u32) -> Option<(usize, u32)> {
        let state = &self.ranks[rank as usize];
        let mut best = None;
        for (resource, ready) in state.ready.iter().enumerate() {
            if let Some(&Reverse(node)) = ready.peek()
                && state.busy[resource] < self.limits[resource]
                && best.is_none_or(|(_, least)| node < least)
            {
                best = Some((resource, node));
            }
        }
        best
    }

    fn issue(&mut self, rank: u32, index: u32) {
        let after = self.ranks[rank as usize].last;
        match self.launched(rank, index) {
            Some(later) => {
                self.recorder.awaits_launch(rank, index, self.now);
                self.register(rank, later, Callback::Launched(index, after.unwrap_or(NONE)));
            }
            None => self.start(rank, index, after),
        }
    }

    /// Its host has launched a node that has waited for that since `after` ended.
    pub(super) fn has_launched(&mut self, rank: u32, index: u32, after: u32) {
        self.recorder.is_launched(rank, index, self.now);
        self.start(rank, index, (after != NONE).then_some(after));
    }

    fn start(&mut self, rank: u32, index: u32, after: Option<u32>) {
        let kind = self.kinds[self.ranks[rank as usize].program as usize][index as usize];
        self.recorder.issued(rank, index, kind, after, self.now);
        self.repace(rank);
        self.take_memory(rank, index);
    }

    /// When the host will have launched a node that could begin now; nothing where it has already.
    /// Hosts launch one node after the other, ahead of their NPUs but not of what they have
    /// received.
    fn launched(&mut self, rank: u32, index: u32) -> Option<Time> {
        let takes = self.launch_time(rank, index)?;
        let state = &mut self.ranks[rank as usize];
        state.launched = state.launched + takes;
        (state.launched > self.now).then_some(state.launched)
    }

    /// What the host takes to launch a node. Nothing for its own work, accesses to memory and
    /// receives that take none of its time: these wait for no launch before them.
    fn launch_time(&self, rank: u32, index: u32) -> Option<Span> {
        let launch = self.settings.launch;
        if launch == Launch::default() {
            return None;
        }
        let program = self.ranks[rank as usize].program as usize;
        match self.workload.programs[program].nodes()[index as usize].op {
            Op::Compute { cpu: false, .. } | Op::Gemm(_) | Op::Grouped(_) => Some(launch.kernel),
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
        let group = self.slots[(self.ranks[rank as usize].slots + slot) as usize].group;
        self.workload.groups[group as usize].members.len(self.settings.ranks).saturating_sub(1)
    }

    /// Begins a node that has been launched, as soon as it has its memory.
    pub(super) fn take_memory(&mut self, rank: u32, index: u32) {
        let program = self.ranks[rank as usize].program as usize;
        let kind = self.kinds[program][index as usize];
        if let Some(held) = self.workload.programs[program].held(index as usize)
            && let Some(later) = self.allocate(rank, index, held)
        {
            return self.wait_for_memory(rank, index, kind, later);
        }
        self.begin_node(rank, index, kind);
    }

    /// Starts what a node does.
    pub(super) fn begin_node(&mut self, rank: u32, index: u32, kind: OpKind) {
        let program = self.ranks[rank as usize].program as usize;
        if self.settings.replay_only || matches!(kind, OpKind::Compute | OpKind::Host) {
            let span = self.settings.durations[program][index as usize];
            return match self.settings.overlapped.get(program) {
                Some(overlapped) if kind == OpKind::Compute => {
                    self.compute(rank, index, span, overlapped[index as usize])
                }
                _ => self.run_for(rank, index, span),
            };
        }
        let node = self.workload.programs[program].nodes()[index as usize];
        match node.op {
            Op::Metadata | Op::Invalid | Op::Compute { .. } | Op::Gemm(_) | Op::Grouped(_) => {
                self.complete(rank, index)
            }
            Op::Memory { reach, .. } => self.access_memory(rank, index, reach),
            Op::Send { peer, bytes, tag } => {
                self.send(Owner::node(rank, index), peer, bytes.0, tag)
            }
            Op::Recv { peer, bytes, tag } => {
                self.receive(Owner::node(rank, index), peer, bytes.0, tag)
            }
            Op::Collective { kind, .. } if self.settings.replays(kind) => {
                self.run_for(rank, index, self.settings.durations[program][index as usize]);
            }
            Op::Collective { .. } => self.issue_collective(rank, index, &node),
        }
    }

    /// Occupies the node's resource for `span`.
    fn run_for(&mut self, rank: u32, node: u32, span: Span) {
        self.register(rank, self.now + span, Callback::Node(node));
    }

    pub(super) fn finish_at(&mut self, rank: u32, node: u32, time: Time) {
        self.register(rank, time, Callback::Node(node));
    }

    /// Ends a node: frees its resource, wakes its children and issues what is ready.
    pub(super) fn complete(&mut self, rank: u32, index: u32) {
        let workload = self.workload;
        let state = &mut self.ranks[rank as usize];
        let number = state.program as usize;
        state.left -= 1;
        state.last = Some(index);
        self.done += 1;
        let deps = state.deps;
        let kind = self.kinds[number][index as usize];
        if kind == OpKind::Receive {
            state.launched = state.launched.max(self.now);
        }
        self.recorder.completed(rank, index, kind, self.now);
        self.repace(rank);
        if let Some(held) = workload.programs[number].held(index as usize) {
            self.free(rank, held);
        }
        let resource = self.resource(kind);
        self.ranks[rank as usize].busy[resource] -= 1;
        for &child in workload.programs[number].children(index as usize) {
            let left = &mut self.deps_left[deps + child as usize];
            *left -= 1;
            if *left == 0 {
                let resource = self.resource(self.kinds[number][child as usize]);
                self.ranks[rank as usize].ready[resource].push(Reverse(child));
            }
        }
        self.issue_ready(rank);
    }
}
