//! A chunk in its phases: it waits in the queue of its dimension, then runs the script of its
//! position step by step.
//!
//! The rules a script follows are in `collective::Plan`. A chunk enters a queue behind every
//! waiting chunk of the same or higher priority; a queue runs `per_queue` chunks at once. When a
//! phase ends, the owner hears of it first (if it was the last), then the chunk leaves its queue
//! and enters the next, then both queues start what they have room for.

use super::chunk::{CUSTOM, ChunkRun, Dealt, FlatScript, Invitation, LaidOut, Queue, TREES};
use super::streams::Instance;
use super::{Callback, Executor, NONE};
use crate::observe::{ChunkPhase, Observer};
use collective::Follower;
use graph::Problem;
use lowering::{Geometry, Lane, Lowered, PhaseSpec, ReadyPlan, Request};
use network::Backend;
use platform::Policy;
use std::sync::Arc;
use units::Time;

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
    fn line(&self, stream: u32, state: &ChunkRun, script: Option<&FlatScript>) -> Vec<u32> {
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
    fn queue_of(&self, stream: &ChunkRun) -> (u32, bool) {
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
    fn priority_of(&self, stream: &ChunkRun) -> i64 {
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
        self.streams[stream as usize] = ChunkRun { entered: self.now, queue, backward, ..state };
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
        state.follower = Follower::default();
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
    pub(super) fn line_of(&self, stream: u32, state: &ChunkRun, script: &FlatScript) -> u32 {
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

/// The bit of a phase in `ChunkRun::begun`; phases beyond the last bit are not joined early.
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
fn turn(phase: &PhaseSpec, instance: &Instance, state: &ChunkRun) -> usize {
    let before = || instance.dealt_before(state.member, phase.dim, TREES);
    if phase.plans.len() == 1 {
        0
    } else {
        before().wrapping_add(state.chunk) as usize % phase.plans.len()
    }
}

pub(super) fn plan_of<'p>(
    phase: &'p PhaseSpec,
    instance: &Instance,
    state: &ChunkRun,
) -> &'p ReadyPlan {
    let plan = &phase.plans[turn(phase, instance, state)];
    if state.backward { &plan.backward } else { &plan.forward }
}

/// The flat script of a chunk's phase, in the order `flatten` lays them out.
fn script_of(instance: &Instance, state: &ChunkRun, phase: &PhaseSpec) -> u32 {
    let shape = instance.lowered.shape(state.chunk);
    let turn = turn(phase, instance, state);
    let before: usize = phase.plans[..turn].iter().map(|d| 2 * d.forward.plan.scripts.len()).sum();
    let plan = &phase.plans[turn].forward.plan;
    let direction = if state.backward { plan.scripts.len() } else { 0 };
    instance.scripts[shape][state.phase as usize]
        + (before + direction) as u32
        + plan.role(state.position)
}
