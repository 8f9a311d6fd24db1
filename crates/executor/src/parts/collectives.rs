//! Collectives under way, and how the ranks see their groups.
//!
//! The k-th collective that a rank calls on a group meets the k-th of every other member. Together
//! they are one *instance*. Here: slots, instances and their members. Not here: what members do
//! (`executor/collectives.rs`), and chunks (`chunks.rs`).

use super::chunk_turns::{ChunkTurns, TREES};
use super::chunks::{ChunkRun, Priority};
use super::scripts::LaidOut;
use lowering::{Lowered, PhaseSpec, ReadyPlan, Request};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

const NONE: u32 = u32::MAX;

/// A rank's view of one of its groups.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    /// Class of the group.
    pub(crate) class: u32,
    /// Index of the group itself.
    pub(crate) group: u32,
    /// Index of its shape.
    pub(crate) shape: u32,
    /// Own position; `None` for a rank that is not in the group.
    pub(crate) position: Option<u32>,
    /// Own index among the simulated members.
    pub(crate) member: u32,
    /// Collectives issued on it so far.
    ordinal: u32,
}

impl Slot {
    pub(crate) fn new(
        class: u32,
        group: u32,
        shape: u32,
        position: Option<u32>,
        member: u32,
    ) -> Slot {
        Slot { class, group, shape, position, member, ordinal: 0 }
    }
}

/// One collective over one group.
pub(crate) struct Instance {
    pub(crate) lowered: Arc<Lowered>,
    /// First flat script of each (shape, phase), see `scripts.rs`.
    scripts: Arc<[Vec<u32>]>,
    pub(crate) request: Request,
    class: u32,
    pub(crate) group: u32,
    /// How many collectives were called on the group before it.
    pub(crate) ordinal: u32,
    /// The first chunk run of the collective.
    pub(crate) first_run: u32,
    /// The simulated members.
    pub(crate) members: Vec<Member>,
    /// Members that are not done.
    left: u32,
}

/// One simulated member of an instance.
#[derive(Clone)]
pub(crate) struct Member {
    /// Rank index, `NONE` until it issues.
    rank: u32,
    pub(crate) node: u32,
    pub(crate) chunks_left: u32,
    pub(crate) priority: Priority,
    /// Chunks that were dealt on the rank's queues and trees before this collective; `None` where
    /// they are counted on the group.
    pub(crate) turns: Option<ChunkTurns>,
}

impl Member {
    pub(crate) fn new(
        rank: u32,
        node: u32,
        chunks: u32,
        priority: Priority,
        turns: Option<ChunkTurns>,
    ) -> Member {
        Member { rank, node, chunks_left: chunks, priority, turns }
    }

    /// Rank index; `None` until it issues.
    pub(crate) fn rank(&self) -> Option<u32> {
        Some(self.rank).filter(|&rank| rank != NONE)
    }
}

impl Instance {
    /// Chunks dealt before this collective to the queues or trees that they take turns on. All
    /// members must agree, for the turn decides the direction. So it is counted on the group,
    /// except in ASTRA-sim's profile, which counts on each rank.
    pub(crate) fn dealt_before(&self, member: u32, dim: u32, counter: usize) -> u32 {
        match &self.members[member as usize].turns {
            Some(turns) => turns.get(dim, counter),
            None => self.ordinal.wrapping_mul(self.lowered.chunks),
        }
    }

    /// The first member that has issued.
    pub(crate) fn first_issued(&self) -> Option<&Member> {
        self.members.iter().find(|member| member.rank().is_some())
    }

    /// Which of a phase's plans a chunk takes.
    fn turn(&self, phase: &PhaseSpec, run: &ChunkRun) -> usize {
        if phase.plans.len() == 1 {
            return 0;
        }
        let before = self.dealt_before(run.member, phase.dim, TREES);
        before.wrapping_add(run.chunk) as usize % phase.plans.len()
    }

    /// The plan that a chunk runs in a phase.
    pub(crate) fn plan<'p>(&self, phase: &'p PhaseSpec, run: &ChunkRun) -> &'p ReadyPlan {
        let plan = &phase.plans[self.turn(phase, run)];
        if run.backward { &plan.backward } else { &plan.forward }
    }

    /// The flat script of a chunk's phase, in the order in which they are laid out.
    pub(crate) fn script(&self, phase: &PhaseSpec, run: &ChunkRun) -> u32 {
        let shape = self.lowered.shape(run.chunk);
        let turn = self.turn(phase, run);
        let before: usize =
            phase.plans[..turn].iter().map(|d| 2 * d.forward.plan.scripts.len()).sum();
        let plan = &phase.plans[turn].forward.plan;
        let direction = if run.backward { plan.scripts.len() } else { 0 };
        self.scripts[shape][run.phase as usize]
            + (before + direction) as u32
            + plan.role(run.position)
    }
}

/// The simulated members of a class of groups, and its collectives under way.
#[derive(Default)]
struct Open {
    /// Simulated members.
    members: u32,
    /// Instances from ordinal `first` on.
    instances: VecDeque<u32>,
    first: u32,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Collectives {
    slots: Vec<Slot>,
    /// By class of groups.
    open: FxHashMap<u32, Open>,
    instances: Vec<Instance>,
    /// Turns of the chunks of each rank, in ASTRA-sim's profile.
    turns: Vec<ChunkTurns>,
}

/// Data that a member leaves behind when it is done.
pub(crate) struct Left {
    pub(crate) rank: u32,
    pub(crate) node: u32,
    /// The chunk runs of the instance, first and number, if this was its last member.
    pub(crate) runs: Option<(u32, u32)>,
}

impl Collectives {
    /// Adds a slot of a group that `members` simulated ranks belong to.
    pub(crate) fn add_slot(&mut self, slot: Slot, members: u32) {
        self.open.entry(slot.class).or_default().members = members;
        self.slots.push(slot);
    }

    pub(crate) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    #[inline]
    pub(crate) fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    /// Whether one simulated member stands for the whole group of a slot.
    pub(crate) fn has_one_member(&self, slot: u32) -> bool {
        self.open.get(&self.slot(slot).class).is_some_and(|group| group.members == 1)
    }

    /// The instance of the next collective on a slot, if another member has opened it.
    pub(crate) fn next(&self, slot: u32) -> Option<u32> {
        let Slot { class, ordinal, .. } = *self.slot(slot);
        let open = &self.open[&class];
        open.instances.get((ordinal - open.first) as usize).copied()
    }

    /// Number of the instance that is opened next, and of its simulated members.
    pub(crate) fn to_open(&self, slot: u32) -> (u32, u32) {
        (self.instances.len() as u32, self.open[&self.slot(slot).class].members)
    }

    /// Opens the instance of the next collective on a slot.
    pub(crate) fn open(&mut self, slot: u32, request: Request, laid_out: LaidOut, first_run: u32) {
        let Slot { class, group, ordinal, .. } = *self.slot(slot);
        let open = self.open.get_mut(&class).expect("set up with the slots");
        open.instances.push_back(self.instances.len() as u32);
        let (lowered, scripts) = laid_out;
        let members = vec![Member::new(NONE, 0, 0, (false, 0), None); open.members as usize];
        let left = open.members;
        self.instances.push(Instance {
            lowered,
            scripts,
            request,
            class,
            group,
            ordinal,
            first_run,
            members,
            left,
        });
    }

    /// Counts a collective that a rank issues on a slot.
    pub(crate) fn count(&mut self, slot: u32) {
        self.slots[slot as usize].ordinal += 1;
    }

    /// Counts turns of a collective on the queues and trees of a rank. Returns the counts before.
    pub(crate) fn deal(&mut self, rank: u32, lowered: &Lowered) -> ChunkTurns {
        if self.turns.len() <= rank as usize {
            self.turns.resize_with(rank as usize + 1, ChunkTurns::default);
        }
        let turns = &mut self.turns[rank as usize];
        let before = turns.clone();
        turns.deal(lowered);
        before
    }

    pub(crate) fn join(&mut self, at: u32, index: u32, member: Member) {
        self.instances[at as usize].members[index as usize] = member;
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> &Instance {
        &self.instances[at as usize]
    }

    pub(crate) fn all(&self) -> &[Instance] {
        &self.instances
    }

    /// The instance and the phase of a chunk run.
    #[inline]
    pub(crate) fn phase_of(&self, run: &ChunkRun) -> (&Instance, &PhaseSpec) {
        let instance = self.get(run.instance);
        (instance, &instance.lowered.phases(run.chunk)[run.phase as usize])
    }

    /// The node of a chunk run's rank that is the collective.
    #[inline]
    pub(crate) fn node_of(&self, run: &ChunkRun) -> u32 {
        self.get(run.instance).members[run.member as usize].node
    }

    /// A chunk of a member is done. Returns whether it was the last one.
    pub(crate) fn chunk_done(&mut self, at: u32, member: u32) -> bool {
        let member = &mut self.instances[at as usize].members[member as usize];
        member.chunks_left -= 1;
        member.chunks_left == 0
    }

    /// A member is done. The last one closes the instance.
    pub(crate) fn leave(&mut self, at: u32, member: u32) -> Left {
        let instance = &mut self.instances[at as usize];
        let Member { rank, node, .. } = instance.members[member as usize];
        instance.left -= 1;
        let runs = (instance.left == 0).then(|| self.close(at));
        Left { rank, node, runs }
    }

    /// Closes an instance. Returns its chunk runs: the first and the number.
    fn close(&mut self, at: u32) -> (u32, u32) {
        let instance = &mut self.instances[at as usize];
        let count = instance.lowered.chunks * instance.members.len() as u32;
        let (class, first) = (instance.class, instance.first_run);
        instance.members = Vec::new();
        let open = self.open.get_mut(&class).expect("the group is known");
        while open.instances.front().is_some_and(|&at| self.instances[at as usize].left == 0) {
            open.instances.pop_front();
            open.first += 1;
        }
        (first, count)
    }
}
