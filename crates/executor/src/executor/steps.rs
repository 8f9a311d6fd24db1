//! Steps of a phase: messages sent as a script says, and what is received.

use super::{ANNOUNCEMENT, Executor};
use crate::observe::{Reception, Sender};
use crate::parts::agenda::Callback;
use crate::parts::chunks::Seat;
use crate::parts::rendezvous::Early;
use crate::parts::scripts::FlatScript;
use crate::parts::token::Token;
use collective::Fired;
use graph::Members;
use network::{Backend, Transfer};
use units::Span;

/// A message to the same chunk of another member. `token` makes its token of the member's run.
struct ToMember<T> {
    sender: Sender,
    position: u32,
    bytes: u64,
    /// See [`Transfer::paced`].
    paced: u64,
    token: T,
}

impl<B: Backend> Executor<'_, B> {
    /// The rank at `position` of a chunk's line.
    #[inline]
    pub(super) fn rank_at(&self, seat: &Seat, script: &FlatScript, position: u32) -> u32 {
        if script.stride != 0 {
            return seat.base + position * script.stride;
        }
        self.members(seat.slot).rank(position)
    }

    /// Fires every step whose turn has come; ends the phase when nothing is left.
    #[inline]
    pub(super) fn fire(&mut self, run: u32) {
        let script = self.scripts.get(self.runs[run].script);
        loop {
            let (state, steps) = (&mut self.runs[run], self.scripts.steps(&script));
            let Some(fired) = state.follower.fire(steps) else {
                if state.follower.is_over(steps.len(), script.receives) {
                    self.phase_done(run);
                }
                return;
            };
            let seat = state.seat();
            self.carry_out(run, &seat, &script, &fired);
        }
    }

    /// Does what a step that has fired says.
    #[inline]
    fn carry_out(&mut self, run: u32, seat: &Seat, script: &FlatScript, fired: &Fired) {
        let &Fired { index, step, posts } = fired;
        if let Some(to) = step.to {
            if self.settings.rendezvous
                && !self.take_early(run, seat.phase, Early::Announcement(index))
            {
                // It leaves when the receiver announces itself, which may be after this phase.
                self.rendezvous.hold(run, index, *seat);
            } else {
                let position = to.position(seat.position, script.n);
                let token = |to| Token::Step { run: to, phase: seat.phase, slot: step.slot };
                let (sender, bytes) = (Sender::Chunk(run), step.bytes);
                let paced = self.scripts.paced(script, index);
                let message = ToMember { sender, position, bytes, paced, token };
                self.start_transfer(run, seat, script, message);
            }
        }
        if let Some(slot) = posts {
            if let Some(from) = step.from.filter(|_| self.settings.rendezvous) {
                self.announce(run, seat, script, from.position(seat.position, script.n), slot);
            }
            if self.take_early(run, seat.phase, Early::Message(slot)) {
                self.received(run, None);
            }
        }
    }

    /// Starts a transfer to the same chunk of another member.
    #[inline]
    fn start_transfer(
        &mut self,
        run: u32,
        seat: &Seat,
        script: &FlatScript,
        message: ToMember<impl FnOnce(u32) -> Token>,
    ) {
        let ToMember { sender, position, bytes, paced, token } = message;
        let row = run - seat.member;
        let src = self.folding.representatives[seat.rank as usize];
        let dst = self.rank_at(seat, script, position);
        let member = self.member_at(seat, script, position, dst);
        let token = token(row + member).pack();
        let weight = self.folding.multiplicity[seat.rank as usize];
        let transfer = Transfer { src, dst, bytes, paced, token, weight };
        self.depart(sender, seat.rank, transfer, Span::ZERO);
    }

    /// Index among the simulated members of `rank`, which is at `position` of a line.
    #[inline]
    pub(super) fn member_at(
        &self,
        seat: &Seat,
        script: &FlatScript,
        position: u32,
        rank: u32,
    ) -> u32 {
        if self.folding.class_of.is_some() {
            self.folded_member(seat.slot, rank)
        } else if script.stride == 0 {
            position
        } else {
            self.position_of(seat.slot, rank)
        }
    }

    /// Position of `rank` in the group of a slot.
    #[inline]
    pub(super) fn position_of(&self, slot: u32, rank: u32) -> u32 {
        match *self.members(slot) {
            Members::Strided { first, step, .. } => (rank - first) / step,
            // A listed group runs over lines only when it is the whole machine, and then it is
            // numbered by rank.
            _ => rank,
        }
    }

    /// Which member of the folded communicator stands for rank `dst` in the group of `slot`.
    pub(super) fn folded_member(&self, slot: u32, dst: u32) -> u32 {
        let group = self.collectives.slot(slot).group;
        let theirs = self.workload.slot_of(dst, group).expect("a peer outside its group");
        self.folding.slots[self.folding.local(dst) as usize][theirs as usize].member
    }

    /// Announces to the sender that receive `slot` is posted (rendezvous).
    fn announce(&mut self, run: u32, seat: &Seat, script: &FlatScript, position: u32, slot: u32) {
        let state = &self.runs[run];
        let (instance, phase) = self.collectives.phase_of(state);
        let plan = instance.plan(phase, state);
        let step = plan.sender_step(position, seat.position, slot);
        let token = |to| Token::Clear { run: to, phase: seat.phase, step };
        let (sender, bytes) = (Sender::Chunk(run), ANNOUNCEMENT);
        let message = ToMember { sender, position, bytes, paced: bytes, token };
        self.start_transfer(run, seat, script, message);
    }

    /// The announcement of a receiver has arrived for `step`.
    pub(super) fn cleared(&mut self, run: u32, phase: u32, step: u32) {
        let Some(rank) = self.rendezvous.holder(run, phase, step) else {
            let token = Token::Clear { run, phase, step }.pack();
            self.recorder.tell(|observer| observer.early(token));
            return self.keep_early(run, phase, Early::Announcement(step));
        };
        if self.settings.canonical {
            // It waits for its turn: announcements of one instant arrive in an order that depends
            // on the numbers of ranks.
            return self.register(rank, self.now, Callback::Cleared(run, phase, step));
        }
        self.start_held(run, phase, step);
    }

    /// Sends what a step has held back for its receiver.
    pub(super) fn start_held(&mut self, run: u32, phase: u32, index: u32) {
        let seat = self.rendezvous.release(run, phase, index);
        let script = self.scripts.get(seat.script);
        let step = self.scripts.steps(&script)[index as usize];
        let to = step.to.expect("an announcement names a step that sends");
        let token = |to| Token::Step { run: to, phase, slot: step.slot };
        let sender = Sender::Cleared(Token::Clear { run, phase, step: index }.pack());
        let (position, bytes) = (to.position(seat.position, script.n), step.bytes);
        let paced = self.scripts.paced(&script, index);
        let message = ToMember { sender, position, bytes, paced, token };
        self.start_transfer(run, &seat, &script, message);
    }

    /// A message for receive `slot` of `phase` has arrived.
    #[inline]
    pub(super) fn arrived(&mut self, run: u32, phase: u32, slot: u32) {
        let state = &self.runs[run];
        if !state.is_in_phase() || state.phase != phase || !state.follower.has_posted(slot) {
            let token = Token::Step { run, phase, slot }.pack();
            self.recorder.tell(|observer| observer.early(token));
            return self.keep_early(run, phase, Early::Message(slot));
        }
        self.received(run, Some(Token::Step { run, phase, slot }.pack()));
    }

    /// A receive has met its message: the one with `token` that has just arrived, or one that came
    /// early.
    #[inline]
    fn received(&mut self, run: u32, token: Option<u64>) {
        let state = &mut self.runs[run];
        let script = self.scripts.get(state.script);
        let ordinal = state.follower.receive();
        let (delay, charge) = (script.delay, self.scripts.charge(&script, ordinal));
        let wait = delay + charge;
        let (rank, now) = (state.rank, self.now);
        let reception = Reception { run, token, delay, charge };
        self.recorder.tell(|observer| observer.received(&reception, now));
        self.register(rank, self.now + wait, Callback::Usable(run));
    }

    fn keep_early(&mut self, run: u32, phase: u32, early: Early) {
        self.runs[run].early += 1;
        self.rendezvous.keep(run, phase, early);
    }

    fn take_early(&mut self, run: u32, phase: u32, early: Early) -> bool {
        if self.runs[run].early == 0 || !self.rendezvous.take(run, phase, early) {
            return false;
        }
        self.runs[run].early -= 1;
        true
    }

    /// A reception has become usable.
    #[inline]
    pub(super) fn usable(&mut self, run: u32) {
        let now = self.now;
        self.recorder.tell(|observer| observer.usable(run, now));
        self.runs[run].follower.make_usable();
        self.fire(run);
    }
}
