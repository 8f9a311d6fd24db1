//! The executor: runs every rank's program over one backend.
//!
//! Here: the state, the main loop and the order of things. Beside it: nodes (`nodes.rs`: what a
//! rank issues when), collectives (`streams.rs`: instances and chunks; `phases.rs`: queues and
//! steps), sends and receives (`point_to_point.rs`), the pace of computations (`pace.rs`), memory
//! (`memory.rs`), and what is recorded (`recorder.rs`). Not here: how a collective is split
//! (`lowering.rs`), which ranks are alike (`symmetry.rs`).
//!
//! Order: events leave by (time, order of scheduling), the backend's and ours in one sequence. What
//! a rank has to do at one instant is done together, in the order it was registered, at the place
//! of the first registration.

mod chunk;
mod custom;
mod flight;
mod lockstep;
mod memory;
mod nodes;
mod pace;
mod phases;
mod point_to_point;
mod recorder;
mod solo;
mod stall;
mod steps;
mod streams;
mod token;

pub use recorder::{PhaseTotals, RankTotals};
pub use stall::{NetworkStall, Stall};

use crate::folding::Folding;
use crate::observe::{Departure, Observer, Sender};
use crate::settings::Settings;
use engine::EventQueue;
use graph::{OpKind, Problem, Workload};
use lowering::{Lowered, Lowering, Request, Shapes};
use network::{Backend, Delivery, Sequence, Stamp, Stuck, Transfer};
use point_to_point::Owner;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use token::{SLOT_BITS, Token};
use units::{Span, Time};

const NONE: u32 = u32::MAX;
/// Events between two calls of the progress hook.
const PROGRESS_EVERY: u64 = 1 << 16;

/// The place of a callback among those of its rank at one instant.
type Order = (u8, u32, u32, u32);

/// Something a rank has registered for an instant.
#[derive(Clone, Copy, Debug)]
enum Callback {
    /// A timed node is over.
    Node(u32),
    /// A node that moved something out of or into its NPU's memory may begin.
    Moved(u32),
    /// The host has launched a node, which could have begun when another had ended, or at the
    /// beginning.
    Launched(u32, u32),
    /// A phase may send its first messages.
    Start(u32),
    /// A reception of a stream has become usable.
    Usable(u32),
    /// A phase in closed form is over.
    Over(u32),
    /// A phase in closed form has its last reception; it is over after this span.
    LastReceived(u32, Span),
    /// A timed operation of an algorithm from a file is over: run and operation.
    Custom(u32, u32),
    /// The receiver of a held step has announced itself: stream, phase and step in one word (see
    /// [`Token`]).
    Cleared(u32, u32),
    /// The receiver of a posted message has announced itself: channel and ordinal.
    Announced(u32, u32),
    /// The library is done with a message: channel and ordinal.
    Handled(u32, u32),
}

#[derive(Clone, Copy)]
struct Registered {
    callback: Callback,
    next: u32,
}

/// The callbacks of one rank for one instant.
#[derive(Clone, Copy)]
struct Instant {
    time: Time,
    head: u32,
    tail: u32,
}

/// Whose event was handled.
enum Handled {
    /// A registered instant, or invitations to one.
    Ours,
    /// The backend's.
    Networks,
    /// There is none.
    Nothing,
}

/// What the progress hook is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Simulated time so far, ns.
    pub time_ns: f64,
    /// Operations finished.
    pub done: u64,
    /// Operations in all (of the simulated ranks).
    pub total: u64,
}

/// Why a run ended early.
#[derive(Debug)]
pub enum Halt {
    /// Operations wait for something that cannot happen; and what the network says, where it is
    /// the network that is stuck.
    Stalled(Box<Stall>, Option<Stuck>),
    /// The input asks for something impossible.
    Input(Problem),
    /// The progress hook said stop.
    Cancelled,
}

/// The running state of a simulation.
pub struct Executor<'a, B> {
    workload: &'a Workload,
    settings: &'a Settings,
    folding: &'a Folding,
    lowering: &'a dyn Lowering,
    backend: B,
    sequence: Sequence,
    now: Time,
    queue: EventQueue<u32>,
    callbacks: Vec<Registered>,
    free_callback: u32,
    batch: Vec<(Order, Callback)>,
    /// Of the round that runs.
    invitations: Vec<chunk::Invitation>,
    /// Instants registered before this one, at its time, run before the network hears of anything
    /// new: so no rank of an instant sees what another does in it.
    round: Stamp,
    ranks: Vec<nodes::Rank>,
    limits: [u32; nodes::RESOURCES],
    /// OpKind of every node, by program.
    kinds: Vec<Vec<OpKind>>,
    deps_left: Vec<u32>,
    slots: Vec<streams::SlotState>,
    shapes: Shapes<'a>,
    queues: Vec<chunk::Queue>,
    dealt: Vec<chunk::Dealt>,
    streams: Vec<chunk::ChunkRun>,
    free_streams: FxHashMap<u32, Vec<u32>>,
    instances: Vec<streams::Instance>,
    group_instances: FxHashMap<u32, streams::GroupInstances>,
    lowered: FxHashMap<Request, chunk::LaidOut>,
    scripts: Vec<chunk::FlatScript>,
    steps: Vec<collective::Step>,
    charges: Vec<Span>,
    entries: FxHashMap<(u32, u32), lockstep::Entries>,
    forms: FxHashMap<(u32, u32), Option<std::rc::Rc<lockstep::Lockstep>>>,
    alone: FxHashMap<(u32, u32), bool>,
    solos: solo::Solos,
    /// Sends that wait for their receiver's announcement: stream, phase and step, with the stream's
    /// state then.
    held: FxHashMap<(u32, u32, u32), chunk::ChunkRun>,
    early: rustc_hash::FxHashSet<(u32, u32, u32)>,
    runs: Vec<custom::Run>,
    sorted: FxHashMap<u32, std::rc::Rc<[u32]>>,
    channels: Vec<point_to_point::Channel>,
    channel_of: FxHashMap<point_to_point::ChannelKey, u32>,
    memory: memory::Contention,
    recorder: recorder::Recorder<'a>,
    done: u64,
    total: u64,
    events: u64,
    failed: Option<Problem>,
}

impl<'a, B: Backend> Executor<'a, B> {
    /// Ready to run `workload`, telling `observers`.
    pub fn new(
        workload: &'a Workload,
        settings: &'a Settings,
        folding: &'a Folding,
        lowering: &'a dyn Lowering,
        mut backend: B,
        observers: Vec<&'a mut dyn Observer>,
    ) -> Executor<'a, B> {
        let sequence = Sequence::default();
        if let Some(ordered) = backend.ordered().filter(|_| !settings.canonical) {
            ordered.share(sequence.clone());
        }
        let dims = settings.sizes.len() as u32;
        let recorder =
            recorder::Recorder::new(workload, folding, dims, settings.replay_only, observers);
        let mut executor = Executor {
            workload,
            settings,
            folding,
            lowering,
            backend,
            sequence,
            now: Time::ZERO,
            queue: EventQueue::default(),
            callbacks: Vec::new(),
            free_callback: NONE,
            batch: Vec::new(),
            invitations: Vec::new(),
            round: Stamp { time: Time::ZERO, order: 0 },
            ranks: Vec::new(),
            limits: nodes::limits(settings.comm_streams),
            kinds: workload
                .programs
                .iter()
                .map(|p| p.nodes().iter().map(|n| n.op.kind()).collect())
                .collect(),
            deps_left: Vec::new(),
            slots: Vec::new(),
            shapes: Shapes::new(&settings.sizes, settings.aligned_groups),
            queues: Vec::new(),
            dealt: Vec::new(),
            streams: Vec::new(),
            free_streams: FxHashMap::default(),
            instances: Vec::new(),
            group_instances: FxHashMap::default(),
            lowered: FxHashMap::default(),
            scripts: Vec::new(),
            steps: Vec::new(),
            charges: Vec::new(),
            entries: FxHashMap::default(),
            forms: FxHashMap::default(),
            alone: FxHashMap::default(),
            solos: solo::Solos::default(),
            held: FxHashMap::default(),
            early: rustc_hash::FxHashSet::default(),
            runs: Vec::new(),
            sorted: FxHashMap::default(),
            channels: Vec::new(),
            channel_of: FxHashMap::default(),
            memory: memory::Contention::default(),
            recorder,
            done: 0,
            total: 0,
            events: 0,
            failed: None,
        };
        executor.set_up_ranks();
        executor
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// [`Halt`]: a stall, an impossible request, or the hook's wish.
    pub fn run(mut self, progress: &mut dyn FnMut(Progress) -> bool) -> Result<Finished, Halt> {
        for rank in 0..self.ranks.len() as u32 {
            self.issue_ready(rank);
        }
        let mut finished = Vec::new();
        loop {
            match self.step(&mut finished) {
                Handled::Ours => {}
                Handled::Networks => {
                    finished.drain(..).for_each(|delivery| self.delivered(delivery));
                }
                Handled::Nothing => {
                    if self.failed.is_none() && self.done < self.total && self.relieve() {
                        continue;
                    }
                    break;
                }
            }
            self.events += 1;
            if let Some(problem) = self.failed.take() {
                return Err(Halt::Input(problem));
            }
            if self.events.is_multiple_of(PROGRESS_EVERY) && !progress(self.progress()) {
                return Err(Halt::Cancelled);
            }
        }
        if let Some(problem) = self.failed.take() {
            return Err(Halt::Input(problem));
        }
        if self.done < self.total {
            return Err(Halt::Stalled(Box::new(self.stall()), self.backend.stalled()));
        }
        self.carry_solos();
        Ok(Finished {
            ranks: self.recorder.finish(),
            phases: self.recorder.phases(),
            operations: self.recorder.operations(self.workload),
            lowered: self.lowered.into_values().map(|(lowered, _)| lowered).collect(),
            events: self.events,
            usage: self.backend.usage(),
        })
    }

    fn progress(&self) -> Progress {
        Progress { time_ns: self.now.as_ns(), done: self.done, total: self.total }
    }

    /// Handles the next event, and says whose it was.
    #[inline]
    fn step(&mut self, finished: &mut Vec<Delivery>) -> Handled {
        let ours = self.queue.peek().map(|(time, order)| Stamp { time, order });
        if ours.is_some_and(|ours| ours < self.round && ours.time == self.round.time) {
            return self.run_next();
        }
        if !self.invitations.is_empty() {
            self.hand_out_invitations();
            return Handled::Ours;
        }
        if self.network_goes_on(ours.unwrap_or(Stamp::MAX), finished) {
            return Handled::Networks;
        }
        if let (Some(ours), true) = (ours, self.settings.canonical) {
            self.round = Stamp { order: self.sequence.draw(), ..ours };
        }
        if ours.is_none() {
            return Handled::Nothing;
        }
        self.run_next()
    }

    /// Lets the network go on if it has something to do before `until`; false where it has not.
    /// Natively it comes first at every instant.
    #[inline]
    fn network_goes_on(&mut self, until: Stamp, finished: &mut Vec<Delivery>) -> bool {
        if let Some(network) = self.backend.ordered().filter(|_| !self.settings.canonical) {
            let due = network.next_stamp().is_some_and(|next| next <= until);
            if due {
                network.advance_to(until, finished);
            }
            return due;
        }
        let due = self.backend.next_event().is_some_and(|next| next <= until.time);
        if due {
            self.backend.advance(until.time, finished);
        }
        due
    }

    /// Runs the first registered instant.
    #[inline]
    fn run_next(&mut self) -> Handled {
        let (time, rank) = self.queue.pop().expect("there is one");
        self.now = time;
        if time == Time::MAX {
            self.fail(too_long());
            return Handled::Nothing;
        }
        if self.settings.canonical {
            self.run_instant_in_order(rank)
        } else {
            self.run_instant(rank)
        }
        Handled::Ours
    }

    /// Registers `callback` of rank index `rank` for `time`.
    #[inline]
    fn register(&mut self, rank: u32, time: Time, callback: Callback) {
        let at = self.new_callback(callback);
        let state = &mut self.ranks[rank as usize];
        if let Some(instant) = state.instants.iter_mut().rev().find(|i| i.time == time) {
            self.callbacks[instant.tail as usize].next = at;
            instant.tail = at;
            return;
        }
        state.instants.push(Instant { time, head: at, tail: at });
        self.queue.push(time, self.sequence.draw(), rank);
    }

    #[inline]
    fn new_callback(&mut self, callback: Callback) -> u32 {
        let registered = Registered { callback, next: NONE };
        if self.free_callback == NONE {
            self.callbacks.push(registered);
            return self.callbacks.len() as u32 - 1;
        }
        let at = self.free_callback;
        self.free_callback = self.callbacks[at as usize].next;
        self.callbacks[at as usize] = registered;
        at
    }

    /// Runs everything rank index `rank` has registered for now, including what is registered for
    /// now meanwhile.
    #[inline]
    fn run_instant(&mut self, rank: u32) {
        let now = self.now;
        let instants = &self.ranks[rank as usize].instants;
        let place =
            instants.iter().position(|i| i.time == now).expect("an instant without callbacks");
        let mut at = instants[place].head;
        loop {
            self.call(rank, self.callbacks[at as usize].callback);
            let next = self.callbacks[at as usize].next;
            self.callbacks[at as usize].next = self.free_callback;
            self.free_callback = at;
            if next == NONE {
                break;
            }
            at = next;
        }
        let instants = &mut self.ranks[rank as usize].instants;
        let place = instants.iter().position(|i| i.time == now).expect("still there");
        instants.swap_remove(place);
    }

    /// Runs what rank index `rank` has registered for now, ordered by what it is about.
    fn run_instant_in_order(&mut self, rank: u32) {
        let instants = &mut self.ranks[rank as usize].instants;
        let place =
            instants.iter().position(|i| i.time == self.now).expect("an instant without callbacks");
        let Instant { head, tail, .. } = instants.swap_remove(place);
        if head == tail {
            let callback = self.callbacks[head as usize].callback;
            self.callbacks[head as usize].next = self.free_callback;
            self.free_callback = head;
            return self.call(rank, callback);
        }
        let mut batch = std::mem::take(&mut self.batch);
        let mut at = head;
        while at != NONE {
            let Registered { callback, next } = self.callbacks[at as usize];
            batch.push((self.rank_of(callback), callback));
            self.callbacks[at as usize].next = self.free_callback;
            self.free_callback = at;
            at = next;
        }
        batch.sort_by_key(|&(key, _)| key);
        batch.drain(..).for_each(|(_, callback)| self.call(rank, callback));
        self.batch = batch;
    }

    /// What a callback is about: nodes by index, then operations from files, then chunks by node
    /// and chunk.
    fn rank_of(&self, callback: Callback) -> Order {
        match callback {
            Callback::Node(node) => (0, node, 0, 0),
            Callback::Moved(node) => (0, node, 0, 2),
            Callback::Launched(node, _) => (0, node, 0, 3),
            Callback::Custom(run, node) => (1, run, node, 0),
            Callback::Announced(channel, ordinal) => match self.sender(channel, ordinal) {
                Owner { run: NONE, node, .. } => (0, node, 0, 1),
                Owner { run, node, .. } => (1, run, node, 1),
            },
            Callback::Handled(channel, ordinal) => (0, self.sender(channel, ordinal).node, 0, 3),
            Callback::Cleared(stream, step) => {
                let (node, chunk) = self.node_and_chunk(stream);
                (2, node, chunk, 1 + step)
            }
            Callback::Start(stream)
            | Callback::Usable(stream)
            | Callback::Over(stream)
            | Callback::LastReceived(stream, _) => {
                let (node, chunk) = self.node_and_chunk(stream);
                (2, node, chunk, 0)
            }
        }
    }

    #[inline]
    fn call(&mut self, rank: u32, callback: Callback) {
        match callback {
            Callback::Usable(stream) => self.usable(stream),
            Callback::Start(stream) => self.begin(stream),
            Callback::Over(stream) => self.phase_done(stream),
            Callback::LastReceived(stream, wait) => {
                self.register(rank, self.now + wait, Callback::Over(stream))
            }
            Callback::Node(node) if self.foreseen_wrongly(rank, node) => {}
            Callback::Node(node) => self.complete(rank, node),
            Callback::Moved(node) => self.moved(rank, node),
            Callback::Launched(node, after) => self.has_launched(rank, node, after),
            Callback::Custom(run, node) => self.custom_done(run, node),
            Callback::Cleared(stream, word) => {
                self.start_held(stream, word >> SLOT_BITS, word & ((1 << SLOT_BITS) - 1))
            }
            Callback::Announced(channel, ordinal) => self.start_message(channel, ordinal),
            Callback::Handled(channel, ordinal) => self.message_arrived(channel, ordinal),
        }
    }

    fn delivered(&mut self, delivery: Delivery) {
        self.now = delivery.time;
        if delivery.time == Time::MAX {
            return self.fail(too_long());
        }
        self.recorder.tell(|observer| observer.arrives(delivery.token, delivery.time));
        let token = Token::unpack(delivery.token);
        match token {
            Token::Step { stream, phase, slot } => self.arrived(stream, phase, slot),
            Token::Clear { stream, phase, step } => self.cleared(stream, phase, step),
            Token::Message { channel, ordinal } => self.message_delivered(channel, ordinal),
            Token::Announce { channel, ordinal } => self.announced(channel, ordinal),
        }
    }

    /// Hands a transfer of simulated rank `rank` to the network, and tells the observer what it
    /// would take alone.
    #[inline]
    fn depart(&mut self, sender: Sender, rank: u32, transfer: Transfer, handling: Span) {
        if self.recorder.observed() {
            let Transfer { src, dst, bytes, token, .. } = transfer;
            let latency = self.backend.physical_minimum(src, dst, 0);
            let form = self.backend.closed_form();
            let departure = Departure {
                sender,
                dim: self.outermost(src, dst),
                token,
                rank,
                port: form.map_or(0, |form| form.departure(src, dst)),
                bytes,
                latency,
                transfer: self.backend.physical_minimum(src, dst, bytes).saturating_sub(latency),
                occupancy: form.map_or(Span::ZERO, |form| form.occupancy(src, dst, bytes)),
                handling,
            };
            let now = self.now;
            self.recorder.tell(|observer| observer.departs(&departure, now));
        }
        self.backend.start(self.now, transfer);
    }

    /// The outermost dimension in which two ranks differ.
    fn outermost(&self, src: u32, dst: u32) -> u32 {
        let (mut stride, mut last) = (1, 0);
        for (dim, &size) in self.settings.sizes.iter().enumerate() {
            if src / stride % size != dst / stride % size {
                last = dim as u32;
            }
            stride *= size;
        }
        last
    }

    fn fail(&mut self, problem: Problem) {
        self.failed.get_or_insert(problem);
    }
}

fn too_long() -> Problem {
    let text = "the step takes more than 213 simulated days (2^64 picoseconds)";
    Problem::new("", "", text).help("sizes, latencies and durations that add up to less")
}

/// A finished run.
#[derive(Debug)]
pub struct Finished {
    /// Per simulated rank.
    pub ranks: Vec<RankTotals>,
    /// Per phase label.
    pub phases: Vec<PhaseTotals>,
    /// Per (name, kind), largest total first.
    pub operations: Vec<stats::Operation>,
    /// What the collectives became, each kind of call once, in no order.
    pub lowered: Vec<Arc<Lowered>>,
    /// Events handled.
    pub events: u64,
    /// What the network carried.
    pub usage: network::Usage,
}

impl Finished {
    /// End of the last rank.
    pub fn step(&self) -> Time {
        self.ranks.iter().map(|rank| rank.finish).max().unwrap_or_default()
    }
}
