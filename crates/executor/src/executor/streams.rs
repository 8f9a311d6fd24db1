//! Collectives on ranks: slots, instances and their chunks. What a chunk does once it is in a queue
//! is in `phases.rs`.
//!
//! The k-th collective a rank calls on a group meets the k-th of every other member: they are one
//! *instance*. Each member has one *stream* a chunk; streams of one instance stand side by side,
//! chunk by chunk, so that a peer's is found by arithmetic.

use super::chunk::{ChunkRun, Dealt};
use super::{Executor, NONE};
use crate::folding::SlotClass;
use graph::{CollectiveKind, Node, Op, Problem};
use lowering::{Lowered, PhaseSpec, Request};
use network::Backend;
use platform::Policy;
use std::collections::VecDeque;
use std::sync::Arc;

/// A rank's view of one of its groups.
pub(super) struct SlotState {
    /// Class of the group.
    class: u32,
    /// Index of the group itself.
    pub group: u32,
    /// Index of its shape.
    shape: u32,
    /// Own position.
    pub position: u32,
    /// Own index among the simulated members.
    member: u32,
    /// Collectives issued on it so far.
    ordinal: u32,
}

/// One collective over one group: the simulated members' streams.
pub(super) struct Instance {
    pub lowered: Arc<Lowered>,
    /// First flat script of each (shape, phase), see `phases.rs`.
    pub scripts: Arc<[Vec<u32>]>,
    request: Request,
    class: u32,
    group: u32,
    ordinal: u32,
    pub first_stream: u32,
    pub members: Vec<Member>,
    left: u32,
}

impl Instance {
    /// Chunks dealt before this collective to the queues or trees it takes turns on. All members
    /// must agree, for the turn decides the direction: so it is counted on the group, except by the
    /// peer, which counts on each rank.
    pub(super) fn dealt_before(&self, member: u32, dim: u32, counter: usize) -> u32 {
        match &self.members[member as usize].dealt {
            Some(dealt) => dealt.get(dim, counter),
            None => self.ordinal.wrapping_mul(self.lowered.chunks),
        }
    }
}

/// One simulated member of an instance.
#[derive(Clone)]
pub(super) struct Member {
    /// Rank index, `NONE` until it issues.
    rank: u32,
    pub node: u32,
    chunks_left: u32,
    pub priority: i64,
    /// What was dealt on the rank's queues and trees before this collective; `None` where it is
    /// counted on the group.
    dealt: Option<Dealt>,
}

/// The simulated members of a class of groups, and its collectives under way.
#[derive(Default)]
pub(super) struct GroupInstances {
    /// Simulated members.
    members: u32,
    /// Instances from ordinal `first` on.
    open: VecDeque<u32>,
    first: u32,
}

impl<B: Backend> Executor<'_, B> {
    pub(super) fn set_up_slots(&mut self, index: u32, rank: u32, slots: u32) {
        let world = self.settings.ranks;
        for slot in 0..slots {
            let group = self.workload.group_of(rank, slot);
            let members = &self.workload.groups[group as usize].members;
            let whole = members.len(world) == world;
            let position = if whole { rank } else { members.position(rank, world).unwrap_or(NONE) };
            let (class, member, count) = match self.folding.slots.get(index as usize) {
                Some(slots) => {
                    let SlotClass { component, member } = slots[slot as usize];
                    (component, member, self.folding.components[component as usize])
                }
                None => (group, position, members.len(world)),
            };
            self.group_instances.entry(class).or_default().members = count;
            let shape = self.shapes.index(self.workload, group);
            self.slots.push(SlotState { class, group, shape, position, member, ordinal: 0 });
        }
    }

    /// Shape of the group behind a slot, and whether one simulated member stands for all of it.
    pub(super) fn seen_from(&self, slot: u32) -> (u32, bool) {
        let SlotState { shape, class, .. } = self.slots[slot as usize];
        (shape, self.group_instances.get(&class).is_some_and(|group| group.members == 1))
    }

    /// Own position in the group behind a slot; `None` for a rank that is not in it.
    pub(super) fn own_position(&self, slot: u32) -> Option<u32> {
        Some(self.slots[slot as usize].position).filter(|&position| position != NONE)
    }

    pub(super) fn issue_collective(&mut self, rank: u32, node: u32, asked: &Node) {
        let Op::Collective { kind, slot, priority, .. } = asked.op else {
            unreachable!("only collectives are issued here")
        };
        let slot = self.ranks[rank as usize].slots + slot;
        let SlotState { shape, position, member, .. } = self.slots[slot as usize];
        if position == NONE {
            let group = &self.workload.groups[self.slots[slot as usize].group as usize].name;
            let text =
                format!("calls {} on group {group:?}, of which it is not a member", kind.name());
            return self.fail(Problem::new("", self.place(rank, node), text));
        }
        let request = self
            .settings
            .request(asked, shape)
            .expect("a node that takes a set time is not issued here");
        let Some(at) = self.instance(slot, request, rank, node) else { return };
        self.slots[slot as usize].ordinal += 1;
        self.recorder.joined(rank, node, at);
        let lowered = self.instances[at as usize].lowered.clone();
        let priority = self.priority(rank, kind, priority);
        let dealt = self.deal(rank, &lowered);
        if let Some(problem) = self.turned_apart(at, rank, node, dealt.as_ref()) {
            return self.fail(problem);
        }
        let chunks = if lowered.shapes.is_empty() || lowered.phases(0).is_empty() {
            0
        } else {
            lowered.chunks
        };
        self.instances[at as usize].members[member as usize] =
            Member { rank, node, chunks_left: chunks, priority, dealt };
        if chunks == 0 {
            return self.member_done(at, member);
        }
        let members = self.instances[at as usize].members.len() as u32;
        let first = self.instances[at as usize].first_stream + member;
        for chunk in 0..chunks {
            self.enter(first + chunk * members, rank, slot, member);
        }
    }

    /// With several queues or trees the peer deals chunks by what each rank has done before;
    /// members with different pasts then run a ring in opposite directions, and it hangs.
    fn turned_apart(
        &self,
        at: u32,
        rank: u32,
        node: u32,
        dealt: Option<&Dealt>,
    ) -> Option<Problem> {
        let (instance, dealt) = (&self.instances[at as usize], dealt?);
        let first = instance.members.iter().find(|m| m.rank != NONE)?;
        let theirs = first.dealt.as_ref()?;
        let phases = instance.lowered.shapes.first()?;
        let queues = self.settings.queues_per_dim;
        // Turns repeat after as many chunks as there are queues, and plans.
        let alike = |p: &PhaseSpec| {
            let chunks = instance.lowered.chunks.min(queues * p.plans.len().max(1) as u32);
            let way = |dealt: &Dealt, chunk| super::phases::direction(dealt, p, queues, chunk);
            (0..chunks).all(|c| way(dealt, c) == way(theirs, c))
        };
        if phases.iter().all(alike) {
            return None;
        }
        let (here, there) = (self.place(rank, node), self.place(first.rank, first.node));
        let text = format!(
            "{} runs in another direction than at {there}, for the ranks have issued different collectives before: ASTRA-sim hangs here",
            instance.request.kind.name()
        );
        Some(
            Problem::new("", here, text).help(
                "--num-queues-per-dim=1, or `armillary run`, which counts turns on the group",
            ),
        )
    }

    /// The instance that the next collective on this slot belongs to, opened if this member is the
    /// first to come.
    fn instance(&mut self, slot: u32, request: Request, rank: u32, node: u32) -> Option<u32> {
        let SlotState { class, ordinal, .. } = self.slots[slot as usize];
        let open = &self.group_instances[&class];
        if let Some(&at) = open.open.get((ordinal - open.first) as usize) {
            if self.instances[at as usize].request == request {
                return Some(at);
            }
            self.disagree(at, &request, rank, node);
            return None;
        }
        match self.lower(request) {
            Ok((lowered, scripts)) => Some(self.open_instance(slot, request, lowered, scripts)),
            Err(problem) => {
                let place = self.place(rank, node);
                self.fail(Problem { place, ..problem });
                None
            }
        }
    }

    fn disagree(&mut self, at: u32, request: &Request, rank: u32, node: u32) {
        let instance = &self.instances[at as usize];
        let first = instance
            .members
            .iter()
            .find(|m| m.rank != NONE)
            .expect("an open instance has a member");
        let group = &self.workload.groups[instance.group as usize].name;
        let theirs = &instance.request;
        let text = format!(
            "calls {} of {} bytes as call {} on group {group:?}, where {} calls {} of {} bytes",
            request.kind.name(),
            request.bytes,
            instance.ordinal,
            self.place(first.rank, first.node),
            theirs.kind.name(),
            theirs.bytes
        );
        let problem = Problem::new("", self.place(rank, node), text)
            .help("the same kind, size and dimensions on every member");
        self.fail(problem);
    }

    fn open_instance(
        &mut self,
        slot: u32,
        request: Request,
        lowered: Arc<Lowered>,
        scripts: Arc<[Vec<u32>]>,
    ) -> u32 {
        let SlotState { class, group, ordinal, .. } = self.slots[slot as usize];
        let at = self.instances.len() as u32;
        let open = self.group_instances.get_mut(&class).expect("set up with the slots");
        let members = open.members;
        open.open.push_back(at);
        let first_stream = self.new_streams(at, lowered.chunks, members);
        let blank = Member { rank: NONE, node: 0, chunks_left: 0, priority: 0, dealt: None };
        let members = vec![blank; members as usize];
        let left = members.len() as u32;
        let count = self.workload.groups[group as usize].members.len(self.settings.ranks);
        self.recorder.tell(|observer| observer.opens(at, &request, &lowered, count));
        self.instances.push(Instance {
            lowered,
            scripts,
            request,
            class,
            group,
            ordinal,
            first_stream,
            members,
            left,
        });
        at
    }

    fn new_streams(&mut self, instance: u32, chunks: u32, members: u32) -> u32 {
        let count = chunks * members;
        let streams = (0..count).map(|k| ChunkRun::new(instance, k / members.max(1)));
        if let Some(first) = self.free_streams.get_mut(&count).and_then(Vec::pop) {
            streams.zip(&mut self.streams[first as usize..]).for_each(|(new, old)| *old = new);
            return first;
        }
        let first = self.streams.len() as u32;
        self.streams.extend(streams);
        first
    }

    fn priority(&mut self, rank: u32, kind: CollectiveKind, explicit: i32) -> i64 {
        let state = &mut self.ranks[rank as usize];
        state.issued += 1;
        match self.settings.policy {
            Policy::Lifo => state.issued,
            // By phase, see `enqueue`.
            Policy::SmallestFirst => 0,
            Policy::Fifo => -state.issued,
            Policy::Explicit => i64::from(explicit),
            Policy::AllToAllFirst if kind == CollectiveKind::AllToAll => (1 << 40) - state.issued,
            Policy::AllToAllFirst => -state.issued,
        }
    }

    pub(super) fn chunk_done(&mut self, instance: u32, member: u32) {
        let entry = &mut self.instances[instance as usize].members[member as usize];
        entry.chunks_left -= 1;
        if entry.chunks_left == 0 {
            self.member_done(instance, member);
        }
    }

    fn member_done(&mut self, at: u32, member: u32) {
        let instance = &mut self.instances[at as usize];
        let Member { rank, node, .. } = instance.members[member as usize];
        instance.left -= 1;
        if instance.left == 0 {
            self.close_instance(at);
        }
        self.complete(rank, node);
    }

    /// Gives the streams of a finished instance back to be dealt out again.
    fn close_instance(&mut self, at: u32) {
        let instance = &mut self.instances[at as usize];
        let count = instance.lowered.chunks * instance.members.len() as u32;
        let (class, first) = (instance.class, instance.first_stream);
        instance.members = Vec::new();
        self.free_streams.entry(count).or_default().push(first);
        let open = self.group_instances.get_mut(&class).expect("the group is known");
        while open.open.front().is_some_and(|&at| self.instances[at as usize].left == 0) {
            open.open.pop_front();
            open.first += 1;
        }
    }

    /// Node index and chunk of a stream.
    pub(super) fn node_and_chunk(&self, stream: u32) -> (u32, u32) {
        let state = &self.streams[stream as usize];
        (self.instances[state.instance as usize].members[state.member as usize].node, state.chunk)
    }

    /// `rank 3 node 17`, for errors.
    pub(super) fn place(&self, rank: u32, node: u32) -> String {
        let state = &self.ranks[rank as usize];
        let id = self.workload.programs[state.program as usize].nodes()[node as usize].id;
        format!("rank {} node {id}", state.id)
    }

    /// The members that a collective still waits for, for the stall report.
    pub(super) fn absent_members(&self, rank: u32, node: u32) -> Vec<u32> {
        let waits = |m: &Member| m.rank == rank && m.node == node && m.chunks_left > 0;
        let Some(instance) = self.instances.iter().find(|i| i.members.iter().any(waits)) else {
            return Vec::new();
        };
        let present = |local: u32| instance.members.iter().any(|m| m.rank == local);
        let members = &self.workload.groups[instance.group as usize].members;
        let ranks = (0..members.len(self.settings.ranks)).map(|p| members.rank(p));
        ranks.filter(|&r| !present(self.folding.local(r))).collect()
    }
}
