//! A chunk in its phases: it waits in the queue of its dimension, then runs the script of its
//! position.
//!
//! A chunk enters a queue behind every waiting chunk of the same or higher priority. A queue runs
//! `room` chunks at once. When a phase ends, its collective hears of it first (if it was the
//! last phase). Then the chunk leaves its queue and enters the next one, and both queues start what
//! they have room for. Not here: the steps of a script (`steps.rs`).

use super::Executor;
use crate::observe::{ChunkPhase, Observer};
use crate::parts::agenda::Callback;
use crate::parts::chunks::{CUSTOM, ChunkRun, Priority};
use crate::parts::scripts::FlatScript;
use collective::Follower;
use lowering::{Geometry, PhaseSpec};
use network::Backend;
use platform::Policy;
use units::Time;

impl<B: Backend> Executor<'_, B> {
    /// Brings a chunk into the queue of its first phase, or into the ready queue before it.
    pub(super) fn enter(&mut self, run: u32, rank: u32, slot: u32, member: u32) {
        let state = &mut self.runs[run];
        (state.rank, state.slot, state.member) = (rank, slot, member);
        if self.skip_phases(run) {
            let instance = self.runs[run].instance;
            return self.chunk_done(instance, member);
        }
        if !self.ready.are_used() {
            let queue = self.wait_for_phase(run);
            return self.fill(rank, queue);
        }
        self.runs[run].entered = self.now;
        let priority = self.priority_of(&self.runs[run]);
        self.ready.add(rank, priority, run);
        self.tell(run, |observer, chunk, now| observer.chunk_waits(chunk, now));
        self.join(run);
    }

    /// Lets chunks out of the ready queue of a rank, as long as its limits allow.
    pub(super) fn dispatch(&mut self, rank: u32) {
        loop {
            let batch = self.ready.batch(rank);
            if batch.is_empty() {
                return;
            }
            for run in batch {
                let queue = self.dispatched(run);
                self.join(run);
                self.fill(rank, queue);
            }
        }
    }

    /// A chunk has left the ready queue and waits in the queue of its first phase, which is returned.
    pub(super) fn dispatched(&mut self, run: u32) -> u32 {
        let state = &mut self.runs[run];
        state.is_first = true;
        self.recorder.dispatched(state.rank, self.now.since(state.entered));
        self.enqueue(run)
    }

    /// Brings a chunk into the queue of its phase, which is returned.
    fn wait_for_phase(&mut self, run: u32) -> u32 {
        self.runs[run].entered = self.now;
        let queue = self.enqueue(run);
        self.tell(run, |observer, chunk, now| observer.chunk_waits(chunk, now));
        self.join(run);
        queue
    }

    /// Goes past the phases that this rank does not enter; true when none is left.
    fn skip_phases(&mut self, run: u32) -> bool {
        let state = &mut self.runs[run];
        let phases = self.collectives.get(state.instance).lowered.phases(state.chunk);
        let id = self.folding.representatives[state.rank as usize];
        let enters = |p: &PhaseSpec| p.only.iter().all(|f| id / f.stride % f.size == f.at);
        while phases.get(state.phase as usize).is_some_and(|p| !enters(p)) {
            state.phase += 1;
        }
        state.phase as usize >= phases.len()
    }

    /// The queue (index within the rank) of a chunk's phase, and whether chunks in it run
    /// backwards.
    fn queue_of(&self, state: &ChunkRun) -> (u32, bool) {
        let (instance, phase) = self.collectives.phase_of(state);
        let of_dim = self.settings.queues[phase.dim as usize].count;
        let before = instance.dealt_before(state.member, phase.dim, phase.lane as usize);
        let (queue, backward) = phase.lane.queue(of_dim, before.wrapping_add(state.chunk));
        (self.queues.first(phase.dim) + queue, backward)
    }

    /// Larger goes first.
    fn priority_of(&self, state: &ChunkRun) -> Priority {
        let (instance, phase) = self.collectives.phase_of(state);
        let (is_urgent, order) = instance.members[state.member as usize].priority;
        if self.settings.policy == Policy::SmallestFirst {
            return (is_urgent, -i64::try_from(phase.bytes).unwrap_or(i64::MAX));
        }
        (is_urgent, order)
    }

    fn enqueue(&mut self, run: u32) -> u32 {
        let state = self.runs[run];
        // A ready queue orders chunks before their first phase. Then they come in turn, unless their
        // phases have an order.
        let in_turn = self.ready.are_used() && self.settings.policy != Policy::SmallestFirst;
        let priority = if in_turn { Priority::default() } else { self.priority_of(&state) };
        let (queue, backward) = self.queue_of(&state);
        let waiting = &mut self.runs[run];
        (waiting.dispatched, waiting.queue, waiting.backward) = (self.now, queue, backward);
        self.queues.add(state.rank, queue, priority, run);
        queue
    }

    /// Lets observers hear of a chunk.
    #[inline]
    fn tell(&mut self, run: u32, what: impl Fn(&mut dyn Observer, &ChunkPhase, Time)) {
        if !self.recorder.observed() {
            return;
        }
        let state = self.runs[run];
        let (_, phase) = self.collectives.phase_of(&state);
        let chunk = ChunkPhase {
            run,
            instance: state.instance,
            rank: state.rank,
            node: self.collectives.node_of(&state),
            chunk: state.chunk,
            phase: state.phase,
            dim: phase.dim,
            kind: phase.kind,
            custom: phase.custom.is_some(),
            entered: state.entered,
            queued: state.dispatched,
            left_ready_queue: state.is_first,
            started: state.started,
        };
        let now = self.now;
        self.recorder.tell(|observer| what(observer, &chunk, now));
    }

    /// Starts waiting chunks while the queue has room.
    fn fill(&mut self, rank: u32, queue: u32) {
        while let Some(run) = self.queues.start_next(rank, queue) {
            self.start_phase(run);
        }
    }

    pub(super) fn start_phase(&mut self, run: u32) {
        let mut state = self.runs[run];
        let (instance, phase) = self.collectives.phase_of(&state);
        let id = self.folding.representatives[state.rank as usize];
        (state.position, state.base) = match phase.geometry {
            Geometry::Line { stride, size } => {
                let position = id / stride % size;
                (position, id - position * stride)
            }
            Geometry::Group => (self.own_position(state.slot), 0),
        };
        let (custom, dim) = (phase.custom.clone(), phase.dim);
        state.script = if custom.is_some() { CUSTOM } else { instance.script(phase, &state) };
        state.follower = Follower::default();
        state.started = self.now;
        self.recorder.phase_started(state.rank, dim, self.now);
        self.runs[run] = state;
        self.tell(run, |observer, chunk, now| observer.chunk_starts(chunk, now));
        if let Some(custom) = custom {
            if self.settings.canonical {
                self.invite(run, None);
            }
            return self.start_graph(run, &state, custom);
        }
        if !self.runs_alone(run, dim) {
            self.start_script(run, &state);
        }
    }

    /// Starts the script of a phase, after the endpoint delay if it begins with a message.
    fn start_script(&mut self, run: u32, state: &ChunkRun) {
        let script = self.scripts.get(state.script);
        if script.lockstep {
            let line = self.line_of(run, state, &script);
            self.note_entry(run, line, &script);
        }
        if self.scripts.begins_with_send(&script) {
            self.register(state.rank, self.now + script.delay, Callback::Start(run));
        } else {
            self.fire(run);
        }
        if self.settings.canonical {
            self.invite(run, Some(&script));
        }
    }

    /// The phase may send its first messages: all at once in closed form, or step by step.
    pub(super) fn begin(&mut self, run: u32) {
        let state = self.runs[run];
        let script = self.scripts.get(state.script);
        self.recorder.tell(|observer| observer.begins(run, script.delay));
        if script.lockstep {
            let line = self.line_of(run, &state, &script);
            if self.lockstep(run, line) {
                return;
            }
        }
        self.fire(run);
    }

    /// The run of the first position of a chunk's line.
    fn line_of(&self, run: u32, state: &ChunkRun, script: &FlatScript) -> u32 {
        if self.folding.class_of.is_some() {
            return run;
        }
        let member = if script.stride == 0 { 0 } else { self.position_of(state.slot, state.base) };
        run - state.member + member
    }

    pub(super) fn phase_done(&mut self, run: u32) {
        self.tell(run, |observer, chunk, now| observer.chunk_ends(chunk, now));
        let state = self.runs[run];
        let old = state.queue;
        let (_, phase) = self.collectives.phase_of(&state);
        let label = (state.phase, phase.dim, phase.kind);
        let waited = state.started.since(state.dispatched);
        let took = self.now.since(state.started);
        self.recorder.phase_ended(state.rank, label, waited, took, self.now);
        self.runs[run].leave_phase();
        if state.is_first {
            self.runs[run].is_first = false;
            self.ready.first_ended(state.rank);
        }
        if self.skip_phases(run) {
            self.chunk_done(state.instance, state.member);
            self.queues.leave(state.rank, old);
            self.fill(state.rank, old);
        } else {
            self.queues.leave(state.rank, old);
            let new = self.wait_for_phase(run);
            self.fill(state.rank, old);
            if new != old {
                self.fill(state.rank, new);
            }
        }
        if state.is_first {
            self.dispatch(state.rank);
        }
    }
}
