//! The executor: runs every rank's program over one backend.
//!
//! Here: the main loop, and the order of events. In this folder are the tasks that concern several
//! parts of the state: nodes (`nodes.rs`), collectives (`collectives.rs`: instances and members;
//! `phases.rs`: a chunk in its queue and phase; `steps.rs`: its messages), phases in closed form
//! (`lockstep.rs`, `solo.rs`), algorithms from files (`custom.rs`), sends and receives
//! (`point_to_point.rs`), the pace of computations (`pace.rs`), memory (`memory.rs`), pools that
//! ranks share (`pool.rs`) and stalls (`stall.rs`). The parts themselves are in `parts/`. Not here: how a collective is split (crate
//! `lowering`), and which ranks are alike (crate `sim`).
//!
//! Order: natively an instant has rounds. The network goes first, then every rank does what it has
//! registered, then follows what that has registered for the same instant. In ASTRA-sim's profile,
//! events of the network and of ranks run in the order in which they were scheduled.

mod collectives;
mod custom;
mod invitations;
mod lockstep;
mod memory;
mod nodes;
mod pace;
mod phases;
mod point_to_point;
mod pool;
mod solo;
mod stall;
mod steps;
mod unshared_links;

pub use crate::parts::delays::Delays;
pub use crate::parts::recorder::{Change, RankTotals};
pub use stall::{NetworkStall, Stall};

use crate::folding::Folding;
use crate::observe::{Departure, Observer, Sender};
use crate::parts::agenda::{Agenda, Callback, Due, Order, Turn};
use crate::parts::chunks::{ChunkRuns, Queues};
use crate::parts::collectives::Collectives;
use crate::parts::messages::{Messages, Ports};
use crate::parts::ranks::Ranks;
use crate::parts::ready::ReadyQueues;
use crate::parts::recorder::Recorder;
use crate::parts::rendezvous::Rendezvous;
use crate::parts::scripts::Scripts;
use crate::parts::token::Token;
use crate::pool_sharing::PoolAccesses;
use crate::settings::Settings;
use graph::{Problem, Workload};
use lowering::{Lowered, Lowering};
use network::{Backend, Delivery, Stamp, Stuck, Transfer};
use std::sync::Arc;
use units::{Span, Time};

/// Size of a receiver's announcement (ASTRA-sim), bytes.
pub const ANNOUNCEMENT: u64 = 8192;

/// Whose event was handled.
enum Handled {
    /// A registered instant, or invitations to one.
    Ours,
    /// The backend's.
    Networks,
    /// A part of what the backend has to do before it delivers.
    Part,
    /// There is none.
    Nothing,
}

/// How far a run is, for the progress hook.
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
    /// Operations wait for something that cannot happen. If the network is stuck, it says why.
    Stalled(Box<Stall>, Option<Stuck>),
    /// The input asks for something impossible.
    Input(Problem),
    /// The network can no longer answer, and why.
    Network(String),
    /// The progress hook has stopped the run.
    Cancelled,
}

/// The running state of a simulation.
pub struct Executor<'a, B> {
    workload: &'a Workload,
    settings: &'a Settings,
    folding: &'a Folding,
    backend: B,
    now: Time,
    agenda: Agenda,
    ranks: Ranks,
    collectives: Collectives,
    scripts: Scripts<'a>,
    runs: ChunkRuns,
    queues: Queues,
    ready: ReadyQueues,
    invitations: invitations::Invitations,
    rendezvous: Rendezvous,
    closed_forms: solo::ClosedForms,
    graphs: custom::Graphs,
    messages: Messages,
    ports: Ports,
    memory: memory::Memory,
    pool: PoolAccesses<pool::Ticket>,
    paces: pace::Paces,
    recorder: Recorder<'a>,
    failed: Option<Problem>,
}

impl<'a, B: Backend> Executor<'a, B> {
    /// Ready to run `workload`. `observers` hear of the run.
    pub fn new(
        workload: &'a Workload,
        settings: &'a Settings,
        folding: &'a Folding,
        lowering: &'a dyn Lowering,
        mut backend: B,
        observers: Vec<&'a mut dyn Observer>,
    ) -> Executor<'a, B> {
        let ranks = folding.representatives.len();
        let agenda = Agenda::new(ranks);
        if let Some(ordered) = backend.ordered().filter(|_| !settings.canonical) {
            ordered.share(agenda.sequence());
        }
        let mut executor = Executor {
            workload,
            settings,
            folding,
            backend,
            now: Time::ZERO,
            agenda,
            ranks: Ranks::new(workload, settings),
            collectives: Collectives::default(),
            scripts: Scripts::new(settings, lowering),
            runs: ChunkRuns::default(),
            queues: Queues::new(ranks, &settings.queues),
            ready: ReadyQueues::new(ranks, settings.dispatch),
            invitations: invitations::Invitations::default(),
            rendezvous: Rendezvous::default(),
            closed_forms: solo::ClosedForms::default(),
            graphs: custom::Graphs::default(),
            messages: Messages::default(),
            ports: Ports::new(workload.programs.len()),
            memory: memory::Memory::default(),
            pool: pool::turns(settings, folding),
            paces: pace::Paces::new(ranks),
            recorder: Recorder::new(
                workload,
                folding,
                settings.sizes.len() as u32,
                settings.replay_only,
                observers,
            ),
            failed: None,
        };
        executor.set_up_ranks();
        executor
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// [`Halt`]: a stall, an impossible request, or the wish of the hook.
    pub fn run(mut self, progress: &mut dyn FnMut(Progress) -> bool) -> Result<Finished, Halt> {
        for rank in 0..self.ranks.len() as u32 {
            self.issue_ready(rank);
        }
        let mut finished = Vec::new();
        let mut events = 0u64;
        let every = self.backend.progress_every();
        loop {
            match self.step(&mut finished) {
                Handled::Ours => {}
                Handled::Networks => {
                    finished.drain(..).for_each(|delivery| self.delivered(delivery));
                }
                Handled::Part => {
                    if !progress(self.progress()) {
                        return Err(Halt::Cancelled);
                    }
                    continue;
                }
                Handled::Nothing => {
                    if self.failed.is_none() && self.has_unfinished() && self.relieve() {
                        continue;
                    }
                    break;
                }
            }
            events += 1;
            if let Some(problem) = self.failed.take() {
                return Err(Halt::Input(problem));
            }
            if events.is_multiple_of(every) && !progress(self.progress()) {
                return Err(Halt::Cancelled);
            }
        }
        if let Some(problem) = self.failed.take() {
            return Err(Halt::Input(problem));
        }
        if let Some(failure) = self.backend.failed() {
            return Err(Halt::Network(failure));
        }
        if self.has_unfinished() {
            return Err(Halt::Stalled(Box::new(self.stall()), self.backend.stalled()));
        }
        self.carry_solos();
        let usage = self.backend.usage(Time::MAX);
        if let Some(failure) = self.backend.failed() {
            return Err(Halt::Network(failure));
        }
        Ok(Finished {
            ranks: self.recorder.finish(),
            delays: self.recorder.delays(),
            operations: self.recorder.operations(self.workload),
            lowered: self.scripts.into_lowered(),
            events,
            usage,
        })
    }

    fn has_unfinished(&self) -> bool {
        self.ranks.done() < self.ranks.total()
    }

    fn progress(&self) -> Progress {
        let (done, total) = (self.ranks.done(), self.ranks.total());
        Progress { time_ns: self.now.as_ns(), done, total }
    }

    /// Handles the next event, and says whose it was.
    #[inline]
    fn step(&mut self, finished: &mut Vec<Delivery>) -> Handled {
        let ours = self.agenda.peek();
        if ours.is_some_and(|ours| self.agenda.is_in_round(ours)) {
            return self.run_next();
        }
        if !self.invitations.is_empty() {
            self.hand_out_invitations();
            return Handled::Ours;
        }
        if self.pool.has_changed() {
            self.share_pool();
            return Handled::Ours;
        }
        match self.network_goes_on(ours.unwrap_or(Stamp::MAX), finished) {
            Handled::Nothing => {}
            handled => return handled,
        }
        let Some(ours) = ours else { return Handled::Nothing };
        if self.settings.canonical {
            self.agenda.begin_round(ours.time);
        }
        self.run_next()
    }

    /// Lets the network go on if it has something to do before `until`. Natively it goes first at
    /// every instant.
    #[inline]
    fn network_goes_on(&mut self, until: Stamp, finished: &mut Vec<Delivery>) -> Handled {
        if let Some(network) = self.backend.ordered().filter(|_| !self.settings.canonical) {
            let went = network.advance_to(until, finished);
            return if went { Handled::Networks } else { Handled::Nothing };
        }
        if !self.network_is_due(until.time) {
            return Handled::Nothing;
        }
        self.backend.advance(until.time, finished);
        let part = finished.is_empty() && self.network_is_due(until.time);
        if part { Handled::Part } else { Handled::Networks }
    }

    #[inline]
    fn network_is_due(&self, until: Time) -> bool {
        self.backend.next_event().is_some_and(|next| next <= until)
    }

    /// Runs the first registered instant.
    #[inline]
    fn run_next(&mut self) -> Handled {
        let (time, rank) = self.agenda.pop().expect("there is one");
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
        self.agenda.register(rank, time, callback);
    }

    /// Runs everything that rank index `rank` has registered for now, including what is registered
    /// for now meanwhile.
    #[inline]
    fn run_instant(&mut self, rank: u32) {
        let mut next = Some(self.agenda.first(rank, self.now));
        while let Some(at) = next {
            self.call(rank, self.agenda.callback(at));
            next = self.agenda.next(at);
        }
        self.agenda.close(rank, self.now);
    }

    /// Runs what rank index `rank` has registered for now, in native order.
    #[inline]
    fn run_instant_in_order(&mut self, rank: u32) {
        let (messages, collectives, runs) = (&self.messages, &self.collectives, &self.runs);
        let order = |callback| order_of(callback, messages, collectives, runs);
        match self.agenda.take(rank, self.now, order) {
            Due::One(callback) => self.call(rank, callback),
            Due::Several(batch) => {
                batch.iter().for_each(|&(_, callback)| self.call(rank, callback));
                self.agenda.keep(batch);
            }
        }
    }

    #[inline]
    fn call(&mut self, rank: u32, callback: Callback) {
        match callback {
            Callback::Usable(run) => self.usable(run),
            Callback::Start(run) => self.begin(run),
            Callback::Over(run) => self.phase_done(run),
            Callback::LastReceived(run, wait) => {
                self.register(rank, self.now + wait, Callback::Over(run))
            }
            Callback::Node(node) if self.has_changed_pace(rank, node) => {}
            Callback::Node(node) => self.complete(rank, node),
            Callback::Accessed(node) => self.accessed(rank, node),
            Callback::Moved(node) => self.begin_moved(rank, node),
            Callback::Launched(node, after) => self.begin_launched(rank, node, after),
            Callback::Operation(graph, node) => self.operation_done(graph, node),
            Callback::Cleared(run, phase, step) => self.start_held(run, phase, step),
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
            Token::Step { run, phase, slot } => self.arrived(run, phase, slot),
            Token::Clear { run, phase, step } => self.cleared(run, phase, step),
            Token::Message { channel, ordinal } => self.message_delivered(channel, ordinal),
            Token::Announce { channel, ordinal } => self.announced(channel, ordinal),
        }
    }

    /// Hands a transfer of simulated rank `rank` to the network. Observers hear how long it would
    /// take alone.
    #[inline]
    fn depart(&mut self, sender: Sender, rank: u32, transfer: Transfer, handling: Span) {
        if self.recorder.observed() {
            self.report_departure(sender, rank, transfer, handling);
        }
        self.backend.start(self.now, transfer);
    }

    #[cold]
    fn report_departure(&mut self, sender: Sender, rank: u32, transfer: Transfer, handling: Span) {
        let Transfer { src, dst, bytes, paced, token, .. } = transfer;
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
            occupancy: form.map_or(Span::ZERO, |form| form.occupancy(src, dst, paced)),
            handling,
        };
        let now = self.now;
        self.recorder.tell(|observer| observer.departs(&departure, now));
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

    /// `rank 3 node 17`, for errors.
    fn place(&self, rank: u32, node: u32) -> String {
        let rank = &self.ranks[rank];
        let id = self.workload.programs[rank.program as usize].nodes()[node as usize].id;
        format!("rank {} node {id}", rank.id)
    }

    fn fail(&mut self, problem: Problem) {
        self.failed.get_or_insert(problem);
    }
}

/// The place of a callback among those of its rank at one instant.
fn order_of(
    callback: Callback,
    messages: &Messages,
    collectives: &Collectives,
    runs: &ChunkRuns,
) -> Order {
    let of_node = |node, turn| Order::Node { node, turn };
    let of_chunk = |run: u32, cleared| {
        let run = &runs[run];
        Order::Chunk { node: collectives.node_of(run), chunk: run.chunk, cleared }
    };
    match callback {
        Callback::Node(node) | Callback::Accessed(node) => of_node(node, Turn::Over),
        Callback::Moved(node) => of_node(node, Turn::Moved),
        Callback::Launched(node, _) => of_node(node, Turn::Launched),
        Callback::Operation(graph, node) => Order::Operation { graph, node, turn: Turn::Over },
        Callback::Announced(channel, ordinal) => {
            let (owner, turn) = (messages.send(channel, ordinal).owner, Turn::Announced);
            let node = owner.node;
            owner.graph().map_or(of_node(node, turn), |graph| Order::Operation {
                graph,
                node,
                turn,
            })
        }
        Callback::Handled(channel, ordinal) => {
            of_node(messages.send(channel, ordinal).owner.node, Turn::Handled)
        }
        Callback::Cleared(run, phase, step) => of_chunk(run, Some((phase, step))),
        Callback::Start(run)
        | Callback::Usable(run)
        | Callback::Over(run)
        | Callback::LastReceived(run, _) => of_chunk(run, None),
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
    /// Waits and times of chunks.
    pub delays: Delays,
    /// Per (name, kind), largest total first.
    pub operations: Vec<stats::Operation>,
    /// Lowered collectives: one entry for each kind of call, in no order.
    pub lowered: Vec<Arc<Lowered>>,
    /// Events handled.
    pub events: u64,
    /// Bytes that the network carried.
    pub usage: network::Usage,
}

impl Finished {
    /// End of the last rank.
    pub fn step(&self) -> Time {
        self.ranks.iter().map(|rank| rank.finish).max().unwrap_or_default()
    }
}
