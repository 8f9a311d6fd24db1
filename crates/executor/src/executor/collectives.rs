//! Collectives on ranks: who takes part, and when a member is done.
//!
//! Each member of an instance has one chunk run for each chunk. Those of one instance stand side by
//! side, chunk by chunk, so that the run of another member is found by arithmetic. Not here: the
//! instances themselves (`parts/collectives.rs`), and what a chunk does (`phases.rs`).

use super::Executor;
use crate::folding::SlotClass;
use crate::parts::chunk_turns::ChunkTurns;
use crate::parts::chunks::Priority;
use crate::parts::collectives::{Left, Member, Slot};
use graph::{CollectiveKind, Members, Node, Op, Problem};
use lowering::{Lowered, PhaseSpec, Request};
use network::Backend;
use platform::Policy;

impl<B: Backend> Executor<'_, B> {
    /// Sets up the slots of rank `rank`, the `index`-th simulated one.
    pub(super) fn set_up_slots(&mut self, index: u32, rank: u32, slots: u32) {
        let world = self.settings.ranks;
        for slot in 0..slots {
            let group = self.workload.group_of(rank, slot);
            let members = &self.workload.groups[group as usize].members;
            let is_whole = members.len(world) == world;
            let position = if is_whole { Some(rank) } else { members.position(rank, world) };
            let (class, member, count) = match self.folding.slots.get(index as usize) {
                Some(slots) => {
                    let SlotClass { component, member } = slots[slot as usize];
                    (component, member, self.folding.components[component as usize])
                }
                None => (group, position.unwrap_or(u32::MAX), members.len(world)),
            };
            let shape = self.scripts.shape_of(self.workload, group);
            let slot = Slot::new(class, group, shape, position, member);
            self.collectives.add_slot(slot, count);
        }
    }

    /// The members of the group of a slot.
    #[inline]
    pub(super) fn members(&self, slot: u32) -> &Members {
        &self.workload.groups[self.collectives.slot(slot).group as usize].members
    }

    /// A rank's position in the group of a slot.
    pub(super) fn own_position(&self, slot: u32) -> u32 {
        self.collectives.slot(slot).position.expect("only members issue collectives")
    }

    pub(super) fn issue_collective(&mut self, rank: u32, node: u32, asked: &Node) {
        let Op::Collective { kind, slot, priority, .. } = asked.op else {
            unreachable!("only collectives are issued here")
        };
        let slot = self.ranks[rank].slots + slot;
        let Slot { shape, position, member, group, .. } = *self.collectives.slot(slot);
        if position.is_none() {
            let group = &self.workload.groups[group as usize].name;
            let text =
                format!("calls {} on group {group:?}, but is not a member of it", kind.name());
            return self.fail(Problem::new("", self.place(rank, node), text));
        }
        let request = self
            .settings
            .request(asked, shape)
            .expect("a node that takes a set time is not issued here");
        let Some(at) = self.instance(slot, request, rank, node) else { return };
        self.collectives.count(slot);
        self.recorder.joined(rank, node, at);
        let lowered = self.collectives.get(at).lowered.clone();
        let priority = self.priority(rank, kind, priority);
        let turns = self.deal(rank, &lowered);
        if let Some(problem) = self.turned_apart(at, rank, node, turns.as_ref()) {
            return self.fail(problem);
        }
        let is_empty = lowered.shapes.is_empty() || lowered.phases(0).is_empty();
        let chunks = if is_empty { 0 } else { lowered.chunks };
        self.collectives.join(at, member, Member::new(rank, node, chunks, priority, turns));
        if chunks == 0 {
            return self.member_done(at, member);
        }
        let instance = self.collectives.get(at);
        let (members, first) = (instance.members.len() as u32, instance.first_run + member);
        for chunk in 0..chunks {
            self.enter(first + chunk * members, rank, slot, member);
        }
        self.dispatch(rank);
    }

    /// Counts the turns of a collective on queues and trees. Returns the counts before it; `None`
    /// where they are counted on the group.
    fn deal(&mut self, rank: u32, lowered: &Lowered) -> Option<ChunkTurns> {
        if self.settings.canonical {
            return None;
        }
        let has_trees = lowered.shapes.iter().flatten().any(|p| p.plans.len() > 1);
        if lowered.shapes.is_empty()
            || (self.settings.queues.iter().all(|queues| queues.count == 1) && !has_trees)
        {
            return Some(ChunkTurns::default());
        }
        Some(self.collectives.deal(rank, lowered))
    }

    /// A problem if a member turns its chunks in another direction than the first one. With several
    /// queues or trees, ASTRA-sim deals chunks by what each rank has done before. Members with
    /// different pasts then run a ring in opposite directions, and it hangs.
    fn turned_apart(
        &self,
        at: u32,
        rank: u32,
        node: u32,
        turns: Option<&ChunkTurns>,
    ) -> Option<Problem> {
        let (instance, turns) = (self.collectives.get(at), turns?);
        let first = instance.first_issued()?;
        let theirs = first.turns.as_ref()?;
        let phases = instance.lowered.shapes.first()?;
        // Turns repeat after the number of queues times the number of plans.
        let is_alike = |p: &PhaseSpec| {
            let queues = self.settings.queues[p.dim as usize].count;
            let chunks = instance.lowered.chunks.min(queues * p.plans.len().max(1) as u32);
            (0..chunks).all(|c| turns.direction(p, queues, c) == theirs.direction(p, queues, c))
        };
        if phases.iter().all(is_alike) {
            return None;
        }
        let (here, there) = (self.place(rank, node), self.place(first.rank()?, first.node));
        let text = format!(
            "{} runs in another direction than at {there}, because the ranks have issued different collectives before; ASTRA-sim hangs here",
            instance.request.kind.name()
        );
        let help = "--num-queues-per-dim=1, or `armillary run`, which counts turns on the group";
        Some(Problem::new("", here, text).help(help))
    }

    /// The instance that the next collective on this slot belongs to. The first member to come
    /// opens it.
    fn instance(&mut self, slot: u32, request: Request, rank: u32, node: u32) -> Option<u32> {
        if let Some(at) = self.collectives.next(slot) {
            if self.collectives.get(at).request == request {
                return Some(at);
            }
            self.disagree(at, &request, rank, node);
            return None;
        }
        match self.scripts.lower(request, self.settings) {
            Ok(laid_out) => {
                let (at, members) = self.collectives.to_open(slot);
                let lowered = laid_out.0.clone();
                let first_run = self.runs.add(at, lowered.chunks, members);
                let count = self.members(slot).len(self.settings.ranks);
                self.recorder.tell(|observer| observer.opens(at, &request, &lowered, count));
                self.collectives.open(slot, request, laid_out, first_run);
                Some(at)
            }
            Err(problem) => {
                let place = self.place(rank, node);
                self.fail(Problem { place, ..problem });
                None
            }
        }
    }

    fn disagree(&mut self, at: u32, request: &Request, rank: u32, node: u32) {
        let instance = self.collectives.get(at);
        let there = instance.first_issued().and_then(|member| Some((member.rank()?, member.node)));
        let (first, theirs) = there.expect("an open instance has a member");
        let text = format!(
            "calls {} of {} bytes as call {} on group {:?}, where {} calls {} of {} bytes",
            request.kind.name(),
            request.bytes,
            instance.ordinal,
            self.workload.groups[instance.group as usize].name,
            self.place(first, theirs),
            instance.request.kind.name(),
            instance.request.bytes
        );
        let problem = Problem::new("", self.place(rank, node), text)
            .help("the same kind, size and dimensions on every member");
        self.fail(problem);
    }

    fn priority(&mut self, rank: u32, kind: CollectiveKind, explicit: i32) -> Priority {
        let ordinal = self.ranks.count_collective(rank);
        let is_urgent = self.settings.all_to_all_first && kind == CollectiveKind::AllToAll;
        let order = match self.settings.policy {
            Policy::Lifo => ordinal,
            // The policy decides by phase, see `phases.rs`.
            Policy::SmallestFirst => 0,
            Policy::Fifo => -ordinal,
            Policy::Explicit => i64::from(explicit),
        };
        (is_urgent, order)
    }

    pub(super) fn chunk_done(&mut self, instance: u32, member: u32) {
        if self.collectives.chunk_done(instance, member) {
            self.member_done(instance, member);
        }
    }

    fn member_done(&mut self, at: u32, member: u32) {
        let Left { rank, node, runs } = self.collectives.leave(at, member);
        if let Some((first, count)) = runs {
            self.runs.give_back(first, count);
        }
        self.complete(rank, node);
    }

    /// The members that a collective still waits for, for the stall report.
    pub(super) fn absent_members(&self, rank: u32, node: u32) -> Vec<u32> {
        let waits = |m: &Member| m.rank() == Some(rank) && m.node == node && m.chunks_left > 0;
        let Some(instance) = self.collectives.all().iter().find(|i| i.members.iter().any(waits))
        else {
            return Vec::new();
        };
        let is_present = |local: u32| instance.members.iter().any(|m| m.rank() == Some(local));
        let members = &self.workload.groups[instance.group as usize].members;
        let ranks = (0..members.len(self.settings.ranks)).map(|p| members.rank(p));
        ranks.filter(|&r| !is_present(self.folding.local(r))).collect()
    }
}
