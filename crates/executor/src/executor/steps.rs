//! Steps of a phase: messages sent as a script says, and what is received.

use super::chunk::{ANNOUNCEMENT, ChunkRun, FlatScript, SENDER};
use super::phases::plan_of;
use super::token::Token;
use super::{Callback, Executor, NONE};
use crate::observe::Sender;
use collective::Fired;
use graph::Members;
use network::{Backend, Transfer};
use units::Span;

impl<B: Backend> Executor<'_, B> {
    /// The rank at `position` of a chunk's line.
    #[inline]
    pub(super) fn rank_at(&self, state: &ChunkRun, script: &FlatScript, position: u32) -> u32 {
        if script.stride != 0 {
            return state.base + position * script.stride;
        }
        self.workload.groups[self.slots[state.slot as usize].group as usize].members.rank(position)
    }

    /// Fires every step whose turn has come; ends the phase when nothing is left.
    #[inline]
    pub(super) fn fire(&mut self, stream: u32) {
        let script = self.scripts[self.streams[stream as usize].script as usize];
        let range = script.first as usize..script.last as usize;
        loop {
            let state = &mut self.streams[stream as usize];
            let Some(fired) = state.follower.fire(&self.steps[range.clone()]) else { break };
            let state = *state;
            self.carry_out(stream, &state, &script, &fired);
        }
        let follower = &self.streams[stream as usize].follower;
        if follower.is_over(range.len(), script.receives) {
            self.phase_done(stream);
        }
    }

    /// Does what a step that has fired says.
    #[inline]
    fn carry_out(&mut self, stream: u32, state: &ChunkRun, script: &FlatScript, fired: &Fired) {
        let &Fired { index, step, posts } = fired;
        if let Some(to) = step.to {
            if self.settings.rendezvous && !self.take_early(stream, state.phase, SENDER | index) {
                // It leaves when the receiver announces itself, which may be after this phase.
                self.held.insert((stream, state.phase, index), *state);
            } else {
                let position = to.position(state.position, script.n);
                let token = |to| Token::Step { stream: to, phase: state.phase, slot: step.slot };
                self.start_transfer(
                    Sender::Chunk(stream),
                    stream,
                    state,
                    script,
                    position,
                    step.bytes,
                    token,
                );
            }
        }
        if let (Some(from), Some(slot)) = (step.from, posts) {
            if self.settings.rendezvous {
                self.announce(stream, state, script, from.position(state.position, script.n), slot);
            }
            if state.early > 0 && self.take_early(stream, state.phase, slot) {
                self.received(stream, None);
            }
        }
    }

    /// Starts a transfer to the same chunk at `position`.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    fn start_transfer(
        &mut self,
        sender: Sender,
        stream: u32,
        state: &ChunkRun,
        script: &FlatScript,
        position: u32,
        bytes: u64,
        token: impl FnOnce(u32) -> Token,
    ) {
        let row = stream - state.member;
        let src = self.folding.representatives[state.rank as usize];
        let dst = self.rank_at(state, script, position);
        let member = self.member_at(state, script, position, dst);
        let token = token(row + member).pack();
        let weight = self.folding.multiplicity[state.rank as usize];
        self.depart(sender, state.rank, Transfer { src, dst, bytes, token, weight }, Span::ZERO);
    }

    /// Index among the simulated members of the one at `position` of a line, which is `rank`.
    #[inline]
    pub(super) fn member_at(
        &self,
        state: &ChunkRun,
        script: &FlatScript,
        position: u32,
        rank: u32,
    ) -> u32 {
        if self.folding.class_of.is_some() {
            self.folded_member(state.slot, rank)
        } else if script.stride == 0 {
            position
        } else {
            self.position_of(state.slot, rank)
        }
    }

    /// Position of `rank` in the group of a slot.
    #[inline]
    pub(super) fn position_of(&self, slot: u32, rank: u32) -> u32 {
        match self.workload.groups[self.slots[slot as usize].group as usize].members {
            Members::Strided { first, step, .. } => (rank - first) / step,
            // A listed group runs over lines only when it is the whole machine, and then it is
            // numbered by rank.
            _ => rank,
        }
    }

    /// Which member of the folded communicator stands for rank `dst` in the group of `slot`.
    pub(super) fn folded_member(&self, slot: u32, dst: u32) -> u32 {
        let group = self.slots[slot as usize].group;
        let theirs = self.workload.slot_of(dst, group).expect("a peer outside its group");
        self.folding.slots[self.folding.local(dst) as usize][theirs as usize].member
    }

    /// Tells the sender of receive `slot` that it is posted (rendezvous).
    fn announce(
        &mut self,
        stream: u32,
        state: &ChunkRun,
        script: &FlatScript,
        position: u32,
        slot: u32,
    ) {
        let instance = &self.instances[state.instance as usize];
        let phase = &instance.lowered.phases(state.chunk)[state.phase as usize];
        let plan = plan_of(phase, instance, state);
        let step = plan.sender_step(position, state.position, slot);
        let token = |to| Token::Clear { stream: to, phase: state.phase, step };
        self.start_transfer(
            Sender::Chunk(stream),
            stream,
            state,
            script,
            position,
            ANNOUNCEMENT,
            token,
        );
    }

    /// A receiver's announcement for `step` has arrived at the sender.
    pub(super) fn cleared(&mut self, stream: u32, phase: u32, step: u32) {
        let Some(state) = self.held.get(&(stream, phase, step)) else {
            self.recorder
                .tell(|observer| observer.early(Token::Clear { stream, phase, step }.pack()));
            return self.keep_early(stream, phase, SENDER | step);
        };
        if self.settings.canonical {
            // In its turn, for announcements of one instant arrive in an order that depends on the
            // numbers of ranks.
            let (rank, word) = (state.rank, phase << super::SLOT_BITS | step);
            return self.register(rank, self.now, Callback::Cleared(stream, word));
        }
        self.start_held(stream, phase, step);
    }

    /// Sends what a step has held back for its receiver.
    pub(super) fn start_held(&mut self, stream: u32, phase: u32, index: u32) {
        let state =
            self.held.remove(&(stream, phase, index)).expect("held until its receiver is there");
        let script = self.scripts[state.script as usize];
        let step = self.steps[(script.first + index) as usize];
        let to = step.to.expect("an announcement names a step that sends");
        let token = |to| Token::Step { stream: to, phase, slot: step.slot };
        let cleared = Sender::Cleared(Token::Clear { stream, phase, step: index }.pack());
        self.start_transfer(
            cleared,
            stream,
            &state,
            &script,
            to.position(state.position, script.n),
            step.bytes,
            token,
        );
    }

    /// A message for receive `slot` of `phase` has arrived.
    #[inline]
    pub(super) fn arrived(&mut self, stream: u32, phase: u32, slot: u32) {
        let state = &self.streams[stream as usize];
        if state.script == NONE || state.phase != phase || !state.follower.has_posted(slot) {
            self.recorder
                .tell(|observer| observer.early(Token::Step { stream, phase, slot }.pack()));
            return self.keep_early(stream, phase, slot);
        }
        self.received(stream, Some(Token::Step { stream, phase, slot }.pack()));
    }

    /// A receive has met its message: the one with `token` that has just come, or one that was
    /// there before.
    #[inline]
    fn received(&mut self, stream: u32, token: Option<u64>) {
        let state = &mut self.streams[stream as usize];
        let script = &self.scripts[state.script as usize];
        let ordinal = state.follower.receive();
        let (delay, charge) = (script.delay, self.charges[(script.charges + ordinal) as usize]);
        let wait = delay + charge;
        let (rank, now) = (state.rank, self.now);
        self.recorder.tell(|observer| observer.received(stream, token, delay, charge, now));
        self.register(rank, self.now + wait, Callback::Usable(stream));
    }

    fn keep_early(&mut self, stream: u32, phase: u32, slot: u32) {
        self.streams[stream as usize].early += 1;
        self.early.insert((stream, phase, slot));
    }

    fn take_early(&mut self, stream: u32, phase: u32, slot: u32) -> bool {
        let found =
            self.streams[stream as usize].early > 0 && self.early.remove(&(stream, phase, slot));
        self.streams[stream as usize].early -= u32::from(found);
        found
    }

    /// A reception has become usable.
    #[inline]
    pub(super) fn usable(&mut self, stream: u32) {
        let now = self.now;
        self.recorder.tell(|observer| observer.usable(stream, now));
        self.streams[stream as usize].follower.make_usable();
        self.fire(stream);
    }
}
