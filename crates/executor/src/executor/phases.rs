//! A chunk in its phases: it waits in the queue of its dimension, then runs the script of its
//! position step by step.
//!
//! The rules a script follows are in `collective::Plan`. A chunk enters a queue behind every
//! waiting chunk of the same or higher priority; a queue runs `per_queue` chunks at once. When a
//! phase ends, the owner hears of it first (if it was the last), then the chunk leaves its queue
//! and enters the next, then both queues start what they have room for.

use super::streams::Instance;
use super::{Callback, Executor, NONE, Token};
use crate::observe::{ChunkPhase, Observer, Sender};
use collective::Step;
use graph::{Members, Problem};
use lowering::{Geometry, Lane, Lowered, PhaseSpec, ReadyPlan, Request};
use network::{Backend, Transfer};
use platform::Policy;
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Span, Time};

/// Size of a rendezvous announcement (ASTRA-sim).
pub(super) const ANNOUNCEMENT: u64 = 8192;
/// Marks clearances among early arrivals.
const SENDER: u32 = 1 << super::SLOT_BITS;

/// A lowering, and the first flat script of each of its (shape, phase).
pub(super) type LaidOut = (Arc<Lowered>, Arc<[Vec<u32>]>);

/// In the place of a script: an algorithm from a file is running.
const CUSTOM: u32 = u32::MAX - 1;

/// To the streams of a line whose phase one of them has begun.
pub(super) struct Invitation {
    /// Who has begun it.
    stream: u32,
    instance: u32,
    phase: u32,
    peers: Vec<u32>,
}

/// One queue of one dimension of one rank.
#[derive(Default)]
pub(super) struct Queue {
    /// Priority and stream, in order.
    waiting: VecDeque<(i64, u32)>,
    running: u32,
}

/// One chunk of one collective on one rank.
#[derive(Clone, Copy)]
pub(super) struct Stream {
    pub rank: u32,
    pub instance: u32,
    pub chunk: u32,
    /// Own index among the members; `index - member` is where the chunk's row of streams starts.
    pub member: u32,
    /// Index into `Executor::slots`.
    pub slot: u32,
    pub phase: u32,
    /// The queue (index within the rank) of its phase, and whether chunks in it run backwards.
    queue: u32,
    backward: bool,
    /// Index into `Executor::scripts`; `NONE` while no phase is in progress.
    pub script: u32,
    pub position: u32,
    /// On a line, the rank of position 0.
    pub base: u32,
    fired: u32,
    posted: u32,
    received: u32,
    usable: u32,
    /// Messages that came before their receive was posted, and clearances before their step fired.
    early: u32,
    /// Bit p: a member of its line has begun phase p.
    begun: u64,
    entered: Time,
    started: Time,
}

impl Stream {
    pub(super) fn new(instance: u32, chunk: u32) -> Stream {
        Stream {
            rank: NONE,
            instance,
            chunk,
            member: 0,
            slot: 0,
            phase: 0,
            queue: 0,
            backward: false,
            script: NONE,
            position: 0,
            base: 0,
            fired: 0,
            posted: 0,
            received: 0,
            usable: 0,
            early: 0,
            begun: 0,
            entered: Time::ZERO,
            started: Time::ZERO,
        }
    }
}

/// A script laid out flat, with what its steps need to know of the phase.
#[derive(Clone, Copy)]
pub(super) struct FlatScript {
    /// Range in `Executor::steps`.
    pub first: u32,
    pub last: u32,
    /// First charge in `Executor::charges`.
    pub charges: u32,
    pub receives: u32,
    pub n: u32,
    /// Rank distance between positions; 0 in a group.
    pub stride: u32,
    pub delay: Span,
    /// Every position sees the same on any line.
    pub regular: bool,
    /// The closed form may be taken.
    pub lockstep: bool,
}

/// How many chunks were dealt to each (dimension, lane), and how many took turns between trees,
/// before a collective.
#[derive(Clone, Default)]
pub(super) struct Dealt(Vec<u32>);

/// Counters a dimension in [`Dealt`]: lanes All, First, Second, then trees.
const COUNTERS: usize = 4;
const TREES: usize = 3;

impl Dealt {
    pub(super) fn get(&self, dim: u32, counter: usize) -> u32 {
        self.0.get(dim as usize * COUNTERS + counter).copied().unwrap_or(0)
    }

    fn add(&mut self, dim: u32, counter: usize, count: u32) {
        let at = dim as usize * COUNTERS + counter;
        self.0.resize(self.0.len().max(at + 1), 0);
        self.0[at] = self.0[at].wrapping_add(count);
    }
}

impl<B: Backend> Executor<'_, B> {
    /// The lowering of a request and where its scripts are, made once.
    pub(super) fn lower(&mut self, request: Request) -> Result<LaidOut, Problem> {
        if let Some(found) = self.lowered.get(&request) {
            return Ok(found.clone());
        }
        let lowered = Arc::new(self.lowering.lower(&request, self.shapes.get(request.shape))?);
        let single = lowered.shapes.iter().all(|s| s.len() == 1);
        let scripts: Arc<[Vec<u32>]> = lowered
            .shapes
            .iter()
            .map(|phases| phases.iter().map(|p| self.flatten(p, single)).collect())
            .collect();
        self.lowered.insert(request, (lowered.clone(), scripts.clone()));
        Ok((lowered, scripts))
    }

    /// Lays out all scripts of a phase: by plan, then direction, then role.
    fn flatten(&mut self, phase: &PhaseSpec, single: bool) -> u32 {
        let first = self.scripts.len() as u32;
        let lockstep = self.may_lockstep(phase, single);
        let plans = phase.plans.iter().flat_map(|d| [d.forward.clone(), d.backward.clone()]);
        for plan in plans {
            for (script, (charges, &receives)) in
                plan.plan.scripts.iter().zip(plan.charges.iter().zip(&plan.receives))
            {
                let steps = self.steps.len() as u32;
                let flat = FlatScript {
                    first: steps,
                    last: steps + script.steps.len() as u32,
                    charges: self.charges.len() as u32,
                    receives,
                    n: plan.plan.n,
                    stride: if let Geometry::Line { stride, .. } = phase.geometry {
                        stride
                    } else {
                        0
                    },
                    delay: phase.endpoint_delay,
                    regular: phase.regular,
                    lockstep,
                };
                self.scripts.push(flat);
                self.steps.extend_from_slice(&script.steps);
                self.charges.extend_from_slice(charges);
            }
        }
        first
    }

    /// Counts a collective's uses of queues and trees; returns the counts before it.
    pub(super) fn deal(&mut self, rank: u32, lowered: &Lowered) -> Option<Dealt> {
        if self.settings.canonical {
            return None;
        }
        let trees = lowered.shapes.iter().flatten().any(|p| p.plans.len() > 1);
        if lowered.shapes.is_empty() || (self.settings.queues_per_dim == 1 && !trees) {
            return Some(Dealt::default());
        }
        let counters = &mut self.dealt[rank as usize];
        let before = counters.clone();
        for phase in lowered.phases(0) {
            counters.add(phase.dim, phase.lane as usize, lowered.chunks);
            if phase.plans.len() > 1 {
                counters.add(phase.dim, TREES, lowered.chunks);
            }
        }
        Some(before)
    }

    /// Brings a chunk into the queue of its first phase.
    pub(super) fn enter(&mut self, stream: u32, rank: u32, slot: u32, member: u32) {
        let state = &mut self.streams[stream as usize];
        (state.rank, state.slot, state.member) = (rank, slot, member);
        if self.skip_phases(stream) {
            let instance = self.streams[stream as usize].instance;
            return self.chunk_done(instance, member);
        }
        let queue = self.enqueue(stream);
        self.join(stream);
        self.fill(rank, queue);
    }

    /// Starts a waiting chunk whose phase a peer has begun, whether its queue has room or not: were
    /// it to wait, each of two ranks could hold its only place for a phase that the other has not
    /// begun.
    fn join(&mut self, stream: u32) {
        let state = self.streams[stream as usize];
        if state.rank == NONE || state.script != NONE || state.begun & bit(state.phase) == 0 {
            return;
        }
        self.start_waiting(stream);
    }

    /// Starts a chunk that waits in its queue, whether there is room or not.
    fn start_waiting(&mut self, stream: u32) {
        let state = self.streams[stream as usize];
        let queue = self.queue_mut(state.rank, state.queue);
        let Some(at) = queue.waiting.iter().position(|&(_, s)| s == stream) else { return };
        queue.waiting.remove(at);
        queue.running += 1;
        self.start_phase(stream);
    }

    /// When nothing else can happen: lets the first chunk that waits in each queue begin. Places
    /// limit what runs at once; they are never what stops a run for ever. False when no chunk waits
    /// for a place.
    pub(super) fn relieve(&mut self) -> bool {
        if !self.settings.canonical {
            return false;
        }
        // All are chosen before one begins and draws others in, so that ranks that are alike do
        // alike.
        let first: Vec<u32> =
            self.queues.iter().filter_map(|q| q.waiting.front().map(|&(_, s)| s)).collect();
        first.iter().for_each(|&stream| self.start_waiting(stream));
        !first.is_empty()
    }

    /// Will tell the other members of a line that a phase has begun, if this one is the first;
    /// without a script, all members.
    fn invite(&mut self, stream: u32, script: Option<&FlatScript>) {
        let state = self.streams[stream as usize];
        let begun = bit(state.phase);
        if state.begun & begun != 0 {
            return;
        }
        self.streams[stream as usize].begun |= begun;
        let peers = self.line(stream, &state, script);
        self.invitations.push(Invitation {
            stream,
            instance: state.instance,
            phase: state.phase,
            peers,
        });
    }

    /// Hands out the invitations of a round, once all its ranks have done what they do in it.
    pub(super) fn hand_out_invitations(&mut self) {
        let mut joining = Vec::new();
        for Invitation { stream: host, instance, phase, peers } in
            std::mem::take(&mut self.invitations)
        {
            for peer in peers {
                let state = &mut self.streams[peer as usize];
                let news = state.instance == instance && state.begun & bit(phase) == 0;
                state.begun |= if news { bit(phase) } else { 0 };
                // A peer that is in this very phase of its chunk joins now; the others when they
                // come to it.
                if news && state.phase == phase && state.rank != NONE {
                    let (rank, (node, chunk)) = (state.rank, self.node_and_chunk(peer));
                    joining.push((rank, node, chunk, peer, host));
                }
            }
        }
        joining.sort_unstable();
        for (.., peer, host) in joining {
            self.recorder.tell(|observer| observer.invited(peer, host));
            self.join(peer);
        }
    }

    /// The streams of a chunk that run a phase together.
    fn line(&self, stream: u32, state: &Stream, script: Option<&FlatScript>) -> Vec<u32> {
        let row = stream - state.member;
        let Some(script) = script else {
            return (row..row + self.instances[state.instance as usize].members.len() as u32)
                .collect();
        };
        let at = |position| {
            row + self.member_at(state, script, position, self.rank_at(state, script, position))
        };
        (0..script.n).map(at).collect()
    }

    /// Goes past the phases that this rank does not enter; true when none is left.
    fn skip_phases(&mut self, stream: u32) -> bool {
        let state = &mut self.streams[stream as usize];
        let phases = self.instances[state.instance as usize].lowered.phases(state.chunk);
        let id = self.folding.representatives[state.rank as usize];
        let enters = |p: &PhaseSpec| p.only.iter().all(|f| id / f.stride % f.size == f.at);
        while phases.get(state.phase as usize).is_some_and(|p| !enters(p)) {
            state.phase += 1;
        }
        state.phase as usize >= phases.len()
    }

    /// The queue (index within the rank) of a stream's phase, and whether chunks in it run
    /// backwards.
    fn queue_of(&self, stream: &Stream) -> (u32, bool) {
        let instance = &self.instances[stream.instance as usize];
        let phase = &instance.lowered.phases(stream.chunk)[stream.phase as usize];
        let per_dim = self.settings.queues_per_dim;
        let before = instance.dealt_before(stream.member, phase.dim, phase.lane as usize);
        let (queue, backward) = phase.lane.queue(per_dim, before.wrapping_add(stream.chunk));
        (phase.dim * per_dim + queue, backward)
    }

    #[inline]
    fn queue_mut(&mut self, rank: u32, queue: u32) -> &mut Queue {
        &mut self.queues[(rank * self.settings.sizes.len() as u32 * self.settings.queues_per_dim
            + queue) as usize]
    }

    /// Larger goes first.
    fn priority_of(&self, stream: &Stream) -> i64 {
        let instance = &self.instances[stream.instance as usize];
        if self.settings.policy == Policy::SmallestFirst {
            let phase = &instance.lowered.phases(stream.chunk)[stream.phase as usize];
            return -i64::try_from(phase.bytes).unwrap_or(i64::MAX);
        }
        instance.members[stream.member as usize].priority
    }

    fn enqueue(&mut self, stream: u32) -> u32 {
        let state = self.streams[stream as usize];
        let priority = self.priority_of(&state);
        let (queue, backward) = self.queue_of(&state);
        self.streams[stream as usize] = Stream { entered: self.now, queue, backward, ..state };
        let waiting = &mut self.queue_mut(state.rank, queue).waiting;
        let behind = waiting.iter().rposition(|&(p, _)| p >= priority).map_or(0, |i| i + 1);
        waiting.insert(behind, (priority, stream));
        self.tell(stream, |observer, chunk, now| observer.chunk_waits(chunk, now));
        queue
    }

    /// Tells observers of a chunk.
    #[inline]
    fn tell(&mut self, stream: u32, what: impl Fn(&mut dyn Observer, &ChunkPhase, Time)) {
        if !self.recorder.observed() {
            return;
        }
        let state = self.streams[stream as usize];
        let instance = &self.instances[state.instance as usize];
        let phase = &instance.lowered.phases(state.chunk)[state.phase as usize];
        let chunk = ChunkPhase {
            stream,
            instance: state.instance,
            rank: state.rank,
            node: instance.members[state.member as usize].node,
            chunk: state.chunk,
            phase: state.phase,
            dim: phase.dim,
            kind: phase.kind,
            custom: phase.custom.is_some(),
            entered: state.entered,
            started: state.started,
        };
        let now = self.now;
        self.recorder.tell(|observer| what(observer, &chunk, now));
    }

    /// Starts waiting chunks while the queue has room.
    fn fill(&mut self, rank: u32, queue: u32) {
        let room = self.settings.per_queue;
        loop {
            let state = self.queue_mut(rank, queue);
            if state.running >= room {
                return;
            }
            let Some((_, stream)) = state.waiting.pop_front() else { return };
            state.running += 1;
            self.start_phase(stream);
        }
    }

    fn start_phase(&mut self, stream: u32) {
        let mut state = self.streams[stream as usize];
        let instance = &self.instances[state.instance as usize];
        let phase = &instance.lowered.phases(state.chunk)[state.phase as usize];
        let id = self.folding.representatives[state.rank as usize];
        (state.position, state.base) = match phase.geometry {
            Geometry::Line { stride, size } => {
                let position = id / stride % size;
                (position, id - position * stride)
            }
            Geometry::Group => (self.slots[state.slot as usize].position, 0),
        };
        let custom = phase.custom.clone();
        state.script = if custom.is_some() { CUSTOM } else { script_of(instance, &state, phase) };
        (state.fired, state.posted, state.received, state.usable) = (0, 0, 0, 0);
        state.started = self.now;
        let dim = phase.dim;
        self.recorder.phase_started(state.rank, dim, self.now);
        self.streams[stream as usize] = state;
        self.tell(stream, |observer, chunk, now| observer.chunk_starts(chunk, now));
        if let Some(custom) = custom {
            if self.settings.canonical {
                self.invite(stream, None);
            }
            return self.start_custom(stream, state.rank, state.slot, state.position, custom);
        }
        if self.runs_alone(stream, dim) {
            return;
        }
        let script = self.scripts[state.script as usize];
        if script.lockstep {
            let line = self.line_of(stream, &state, &script);
            self.note_entry(stream, line, &script);
        }
        if script.first < script.last && self.steps[script.first as usize].to.is_some() {
            self.register(state.rank, self.now + script.delay, Callback::Start(stream));
        } else {
            self.fire(stream);
        }
        if self.settings.canonical {
            self.invite(stream, Some(&script));
        }
    }

    /// The phase may send its first messages: all at once in closed form, or step by step.
    pub(super) fn begin(&mut self, stream: u32) {
        let state = self.streams[stream as usize];
        let script = self.scripts[state.script as usize];
        self.recorder.tell(|observer| observer.begins(stream, script.delay));
        if script.lockstep {
            let line = self.line_of(stream, &state, &script);
            if self.lockstep(stream, line) {
                return;
            }
        }
        self.fire(stream);
    }

    /// The stream of the first position of a chunk's line.
    fn line_of(&self, stream: u32, state: &Stream, script: &FlatScript) -> u32 {
        if self.folding.class_of.is_some() {
            return stream;
        }
        let member = if script.stride == 0 { 0 } else { self.position_of(state.slot, state.base) };
        stream - state.member + member
    }

    /// True when one simulated stream stands for all positions of its line.
    pub(super) fn stands_alone(&mut self, stream: u32) -> bool {
        let state = self.streams[stream as usize];
        let script = self.scripts[state.script as usize];
        if let Some(&known) = self.alone.get(&(state.slot, state.script)) {
            return known;
        }
        let own = |p: u32| {
            self.folded_member(state.slot, self.rank_at(&state, &script, p)) == state.member
        };
        let alone = (0..script.n).all(own);
        self.alone.insert((state.slot, state.script), alone);
        alone
    }

    /// The rank at `position` of a chunk's line.
    #[inline]
    pub(super) fn rank_at(&self, state: &Stream, script: &FlatScript, position: u32) -> u32 {
        if script.stride != 0 {
            return state.base + position * script.stride;
        }
        self.workload.groups[self.slots[state.slot as usize].group as usize].members.rank(position)
    }

    /// Fires every step whose turn has come; ends the phase when nothing is left.
    #[inline]
    pub(super) fn fire(&mut self, stream: u32) {
        let script = self.scripts[self.streams[stream as usize].script as usize];
        loop {
            let state = &mut self.streams[stream as usize];
            if script.first + state.fired == script.last {
                break;
            }
            let step = self.steps[(script.first + state.fired) as usize];
            if step.after_usable > state.usable || step.after_received > state.received {
                return;
            }
            state.fired += 1;
            let state = *state;
            self.fire_step(stream, &state, &script, &step);
        }
        if self.streams[stream as usize].usable == script.receives {
            self.phase_done(stream);
        }
    }

    #[inline]
    fn fire_step(&mut self, stream: u32, state: &Stream, script: &FlatScript, step: &Step) {
        if let Some(to) = step.to {
            let index = state.fired - 1;
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
        if let Some(from) = step.from {
            let slot = state.posted;
            self.streams[stream as usize].posted += 1;
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
        state: &Stream,
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
    fn member_at(&self, state: &Stream, script: &FlatScript, position: u32, rank: u32) -> u32 {
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
    fn position_of(&self, slot: u32, rank: u32) -> u32 {
        match self.workload.groups[self.slots[slot as usize].group as usize].members {
            Members::Strided { first, step, .. } => (rank - first) / step,
            // A listed group runs over lines only when it is the whole machine, and then it is
            // numbered by rank.
            _ => rank,
        }
    }

    /// Which member of the folded communicator stands for rank `dst` in the group of `slot`.
    fn folded_member(&self, slot: u32, dst: u32) -> u32 {
        let group = self.slots[slot as usize].group;
        let theirs = self.workload.slot_of(dst, group).expect("a peer outside its group");
        self.folding.slots[self.folding.local(dst) as usize][theirs as usize].member
    }

    /// Tells the sender of receive `slot` that it is posted (rendezvous).
    fn announce(
        &mut self,
        stream: u32,
        state: &Stream,
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
        if state.script == NONE || state.phase != phase || slot >= state.posted {
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
        let (delay, charge) =
            (script.delay, self.charges[(script.charges + state.received) as usize]);
        let wait = delay + charge;
        state.received += 1;
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
        self.streams[stream as usize].usable += 1;
        self.fire(stream);
    }

    pub(super) fn phase_done(&mut self, stream: u32) {
        self.tell(stream, |observer, chunk, now| observer.chunk_ends(chunk, now));
        let state = self.streams[stream as usize];
        let old = state.queue;
        let phases = self.instances[state.instance as usize].lowered.phases(state.chunk);
        let phase = &phases[state.phase as usize];
        let label = (state.phase, phase.dim, phase.kind);
        let waited = state.started.since(state.entered);
        self.recorder.phase_ended(
            state.rank,
            label,
            waited,
            self.now.since(state.started),
            self.now,
        );
        let next = &mut self.streams[stream as usize];
        (next.script, next.phase) = (NONE, state.phase + 1);
        if self.skip_phases(stream) {
            self.chunk_done(state.instance, state.member);
            self.queue_mut(state.rank, old).running -= 1;
            return self.fill(state.rank, old);
        }
        self.queue_mut(state.rank, old).running -= 1;
        let new = self.enqueue(stream);
        self.join(stream);
        self.fill(state.rank, old);
        if new != old {
            self.fill(state.rank, new);
        }
    }
}

/// The bit of a phase in `Stream::begun`; phases beyond the last bit are not joined early.
fn bit(phase: u32) -> u64 {
    1u64.checked_shl(phase).unwrap_or(0)
}

/// Whether chunk `chunk` of a collective runs backwards in a phase, and which plan it takes, on a
/// rank that was dealt `dealt` before.
pub(super) fn direction(dealt: &Dealt, phase: &PhaseSpec, queues: u32, chunk: u32) -> (bool, u32) {
    let nth = |counter: usize| dealt.get(phase.dim, counter).wrapping_add(chunk);
    let backward = match phase.lane {
        Lane::All => queues > 1 && nth(Lane::All as usize) % queues >= queues / 2,
        Lane::First => false,
        Lane::Second => true,
    };
    (backward, nth(TREES) % phase.plans.len().max(1) as u32)
}

/// Which of a phase's plans a chunk takes.
fn turn(phase: &PhaseSpec, instance: &Instance, state: &Stream) -> usize {
    let before = || instance.dealt_before(state.member, phase.dim, TREES);
    if phase.plans.len() == 1 {
        0
    } else {
        before().wrapping_add(state.chunk) as usize % phase.plans.len()
    }
}

fn plan_of<'p>(phase: &'p PhaseSpec, instance: &Instance, state: &Stream) -> &'p ReadyPlan {
    let plan = &phase.plans[turn(phase, instance, state)];
    if state.backward { &plan.backward } else { &plan.forward }
}

/// The flat script of a chunk's phase, in the order `flatten` lays them out.
fn script_of(instance: &Instance, state: &Stream, phase: &PhaseSpec) -> u32 {
    let shape = instance.lowered.shape(state.chunk);
    let turn = turn(phase, instance, state);
    let before: usize = phase.plans[..turn].iter().map(|d| 2 * d.forward.plan.scripts.len()).sum();
    let plan = &phase.plans[turn].forward.plan;
    let direction = if state.backward { plan.scripts.len() } else { 0 };
    instance.scripts[shape][state.phase as usize]
        + (before + direction) as u32
        + plan.role(state.position)
}
