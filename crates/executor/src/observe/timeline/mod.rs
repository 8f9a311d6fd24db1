//! A timeline of a run in Perfetto's format, written as the run goes.
//!
//! Each simulated rank that is shown has a group of tracks. The group itself shows its state (what
//! its time counts as). Below it are lanes of nodes by resource, lanes of chunks by dimension, and
//! counters of chunks. Another group has the load of all NPUs. Flows lead from a send to its
//! receive, and from a node to the one that its end let start. Exact times are arguments, because
//! Perfetto counts nanoseconds. Memory holds what is under way at one instant, names, and the load
//! in bins. Here: from what an observer hears to events. Other files: tracks (`rank.rs`), events of
//! an instant (`instant.rs`), words (`words.rs`), the load (`load.rs`), which ranks (`ranks_shown.rs`).
//! Not here: bytes (`trace::perfetto`), and files that are written whole or not at all
//! (`python/armillary/files.py`).

mod instant;
mod load;
mod rank;
mod ranks_shown;
mod words;

use super::activities::Activities;
use super::{Activity, ChunkPhase, Message, Observer};
use crate::folding::Folding;
use graph::{Node, Op, OpKind, Problem, Program, Workload};
use instant::{Instant, What};
use rank::{Chunks, RankTracks, Row};
use rustc_hash::FxHashMap;
use stats::Network;
use stats::PerPart;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::rc::Rc;
use trace::perfetto::{Details, Table, Track, Value, Writer};
use units::Time;
use words::Words;

/// Bytes that are buffered before they are written.
const BUFFER: usize = 1 << 18;

/// A request for a timeline.
#[derive(Clone, Debug)]
pub struct TimelineRequest {
    /// The file.
    pub path: PathBuf,
    /// Ranks to show. A folded run shows their classes. Empty for all, as far as there is room.
    pub ranks: Vec<u32>,
}

impl TimelineRequest {
    /// Refuses ranks that a workload of `ranks` does not have.
    ///
    /// # Errors
    /// One problem for each.
    pub fn check(&self, ranks: u32) -> Result<(), Vec<Problem>> {
        let absent = ranks_shown::absent(&self.ranks, ranks);
        if absent.is_empty() { Ok(()) } else { Err(absent) }
    }
}

/// Content of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Simulated ranks shown.
    pub shown: u32,
    /// Simulated ranks.
    pub of: u32,
    /// Packets in the file.
    pub packets: u64,
}

/// A node of a simulated rank, or a rank and the instance of a collective.
type Place = (u32, u32);

/// A collective under way: nodes that take part, and the last one to come.
#[derive(Clone, Copy, Default)]
struct Meeting {
    under_way: u32,
    last: u32,
    at: Time,
}

/// See the module.
pub struct Timeline<'a> {
    workload: &'a Workload,
    folding: &'a Folding,
    out: Writer<BufWriter<File>>,
    words: Words,
    /// Tracks of the simulated ranks that are shown.
    ranks: Vec<Option<Box<RankTracks>>>,
    dimensions: Vec<String>,
    all: u64,
    instant: Instant,
    /// Ranks and counters that change at this instant.
    counted: Vec<u32>,
    activities: Activities,
    /// Names of the states, by precedence.
    states: PerPart<u32>,
    /// Flows of messages: from sends under way, and to receives that end at this instant.
    sent: FxHashMap<Place, u64>,
    received: FxHashMap<Place, u64>,
    /// Cause and flow of posted receives whose message is not on its way.
    posted: FxHashMap<Place, (u32, Option<u64>)>,
    meetings: FxHashMap<u32, Meeting>,
    instances: FxHashMap<Place, u32>,
    failed: Rc<Cell<bool>>,
}

impl<'a> Timeline<'a> {
    /// Begins the file of `request`, for a run of the representatives of `folding` over dimensions
    /// of these names.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn new(
        request: &TimelineRequest,
        workload: &'a Workload,
        (folding, symmetry): (&'a Folding, &Folding),
        dimensions: Vec<String>,
    ) -> io::Result<Timeline<'a>> {
        let shown = ranks_shown::pick(&request.ranks, folding, symmetry);
        let file = File::create(&request.path)?;
        let mut out = Writer::new(BufWriter::with_capacity(BUFFER, file));
        let words = Words::new(workload, &mut out);
        let mut timeline = Timeline {
            workload,
            folding,
            words,
            ranks: folding.representatives.iter().map(|_| None).collect(),
            all: 0,
            instant: Instant::default(),
            counted: Vec::new(),
            activities: Activities::new(folding, dimensions.len()),
            states: PerPart::of(|part| out.intern(Table::Name, part.about().label)),
            dimensions,
            sent: FxHashMap::default(),
            received: FxHashMap::default(),
            posted: FxHashMap::default(),
            meetings: FxHashMap::default(),
            instances: FxHashMap::default(),
            failed: Rc::default(),
            out,
        };
        timeline.head(&shown);
        Ok(timeline)
    }

    /// The groups, and the step as a slice that says what is shown.
    fn head(&mut self, shown: &[u32]) {
        let names = ranks_shown::names(shown, self.folding);
        self.all =
            self.out.track(&group("all NPUs", "The whole machine, whatever ranks are shown.", 0));
        for (&local, name) in shown.iter().zip(&names) {
            let order = 1 + local;
            let group = self.out.track(&group(
                name,
                "Activity that the time of the rank counts as; idle where there is none.",
                order,
            ));
            self.ranks[local as usize] = Some(Box::new(RankTracks::new(group, &self.dimensions)));
        }
        let step = self.out.intern(Table::Name, "step");
        let (ranks, simulated) = (self.workload.ranks.len(), self.ranks.len());
        let said =
            [("ranks", ranks), ("simulated", simulated), ("shown", shown.len()), ("start_ps", 0)];
        let arguments = said
            .map(|(key, value)| (self.out.intern(Table::Key, key), Value::Number(value as u64)));
        self.out.begin(
            0,
            self.all,
            self.words.state,
            step,
            &Details { arguments: &arguments, ..Details::default() },
        );
    }

    /// Set when writing has failed. Then there is no use in going on.
    pub fn failed(&self) -> Rc<Cell<bool>> {
        self.failed.clone()
    }

    /// Ends the file, with what `network` did. `step` is the time of the run, `None` for one that
    /// failed.
    ///
    /// # Errors
    /// The first error in writing it.
    pub fn finish(mut self, step: Option<Time>, network: Option<&Network>) -> io::Result<Shown> {
        if let Some(step) = step {
            self.tail(step);
            if let Some(network) = network {
                let description = "Links that send the longest. The same links as in the report.";
                let order = 1 + self.ranks.len() as u32;
                let group = self.out.track(&group("network", description, order));
                load::write_links(network, step, group, &mut self.out);
            }
        }
        let (shown, of) = (self.ranks.iter().flatten().count() as u32, self.ranks.len() as u32);
        let packets = self.out.packets();
        let file = self.out.finish()?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Shown { shown, of, packets })
    }

    fn tail(&mut self, step: Time) {
        self.turn(step);
        self.write_instant();
        for rank in self.ranks.iter_mut().flatten() {
            rank.states.write(rank.group, &self.words, &mut self.out);
        }
        let duration = [(self.words.duration, Value::Number(step.0))];
        self.out.end(
            instant::ns(step),
            self.all,
            &Details { arguments: &duration, ..Details::default() },
        );
        let activities = std::mem::take(&mut self.activities);
        load::write(activities, step, (self.all, &self.dimensions), &mut self.out);
    }

    /// Writes the last instant when time has moved on.
    #[inline]
    fn turn(&mut self, now: Time) {
        if now != self.instant.now {
            self.write_instant();
            self.instant.now = now;
        }
    }

    fn write_instant(&mut self) {
        for local in self.counted.drain(..) {
            let Some(rank) = &mut self.ranks[local as usize] else { continue };
            for (track, value) in rank.news(&mut self.out) {
                self.instant.push(track, What::Count(value), &[]);
            }
        }
        self.instant.write(&mut self.out);
        self.failed.set(self.out.has_failed());
    }

    /// A slice begins on a row of a rank that is shown.
    fn begin(
        &mut self,
        local: u32,
        row: Row,
        key: (u32, u32),
        (category, name): (u32, u32),
        arguments: &[(u32, Value)],
    ) -> usize {
        let rank =
            self.ranks[local as usize].as_mut().expect("only ranks that are shown have slices");
        let track = rank.lanes(row).open(key, self.instant.now, &mut self.out);
        self.instant.push(track, What::Begin(category, name), arguments)
    }

    /// It ends; `None` if it had not begun.
    fn end(
        &mut self,
        local: u32,
        row: Row,
        key: (u32, u32),
        arguments: &[(u32, Value)],
    ) -> Option<usize> {
        let rank = self.ranks[local as usize].as_mut()?;
        let (track, began) = rank.lanes(row).close(key)?;
        let duration = (self.words.duration, Value::Number(self.instant.now.since(began).0));
        let all: Vec<(u32, Value)> =
            std::iter::once(duration).chain(arguments.iter().copied()).collect();
        Some(self.instant.push(track, What::End, &all))
    }

    /// The slice of a node begins; returns its event.
    fn begin_node(&mut self, local: u32, node: u32, row: Row, cause: u32) -> usize {
        let (program, number, id) = self.program(local);
        let name = self.words.name(number, node, program, &mut self.out);
        let arguments = self.arguments(id, program, node, cause);
        self.begin(local, row, (node, 0), (self.words.operation, name), &arguments)
    }

    fn program(&self, local: u32) -> (&'a Program, u32, u32) {
        let id = self.folding.representatives[local as usize];
        (self.workload.program(id), self.workload.ranks[id as usize].program, id)
    }

    fn arguments(
        &mut self,
        id: u32,
        program: &Program,
        node: u32,
        cause: u32,
    ) -> Vec<(u32, Value)> {
        let Node { id: number, op, .. } = program.nodes()[node as usize];
        let mut text = |text: &str| Value::Text(self.out.intern(Table::Value, text));
        let words = &self.words;
        let mut all = vec![
            (words.node, Value::Number(number)),
            (words.layer, text(program.layer(node as usize))),
            (words.kind, text(op.kind_name())),
        ];
        match op {
            Op::Collective { bytes, slot, .. } => {
                let group = &self.workload.groups[self.workload.group_of(id, slot) as usize];
                all.extend([
                    (words.bytes, Value::Number(bytes.0)),
                    (words.group, text(&group.name)),
                ]);
            }
            Op::Send { peer, bytes, .. } | Op::Recv { peer, bytes, .. } => {
                let peer = u64::from(id.wrapping_add_signed(program.offset(peer)));
                all.extend([
                    (words.bytes, Value::Number(bytes.0)),
                    (words.peer, Value::Number(peer)),
                ]);
            }
            Op::Memory { bytes, .. } => all.push((words.bytes, Value::Number(bytes.0))),
            _ => {}
        }
        all.extend([
            (words.cause, Value::Text(cause)),
            (words.start, Value::Number(self.instant.now.0)),
        ]);
        all
    }

    /// Why a node starts, as a text.
    fn cause(&mut self, local: u32, node: u32, after: Option<u32>) -> u32 {
        let depends = |after: &u32| self.program(local).0.deps(node as usize).contains(after);
        let cause = match after {
            None => "start",
            Some(after) if depends(&after) => "dependency",
            Some(_) => "resource",
        };
        self.out.intern(Table::Value, cause)
    }

    fn shows(&self, local: u32) -> bool {
        self.ranks[local as usize].is_some()
    }

    /// A chunk is counted.
    fn count(&mut self, chunk: &ChunkPhase, what: Chunks, change: impl FnOnce(&mut u64)) {
        if let Some(rank) = &mut self.ranks[chunk.rank as usize] {
            change(&mut rank.counter(what, chunk.dim).value);
            self.note(chunk.rank);
        }
    }

    /// A counter of a rank has changed.
    fn note(&mut self, local: u32) {
        if self.counted.last() != Some(&local) {
            self.counted.push(local);
        }
    }

    /// Arguments at the end of a collective: which rank came last, and how long it waited for that.
    fn waited(&mut self, local: u32, node: u32, start: Time) -> Vec<(u32, Value)> {
        let Some(instance) = self.instances.remove(&(local, node)) else { return Vec::new() };
        let Some(meeting) = self.meetings.get_mut(&instance) else { return Vec::new() };
        meeting.under_way -= 1;
        let Meeting { under_way, last, at } = *meeting;
        if under_way == 0 {
            self.meetings.remove(&instance);
        }
        if at <= start {
            return Vec::new();
        }
        let last = u64::from(self.folding.representatives[last as usize]);
        let (words, waited) = (&self.words, at.since(start));
        vec![(words.last_member, Value::Number(last)), (words.waited, Value::Number(waited.0))]
    }
}

/// A group of tracks at the top.
fn group<'t>(name: &'t str, description: &'t str, order: u32) -> Track<'t> {
    Track { parent: None, name, description, order, unit: None }
}

/// The row of a node; `None` for what takes no time.
fn row(kind: OpKind) -> Option<Row> {
    match kind {
        OpKind::Nothing => None,
        OpKind::Host => Some(Row::Host),
        OpKind::Compute => Some(Row::Compute),
        OpKind::Communication | OpKind::Receive => Some(Row::Communication),
        OpKind::Remote => Some(Row::Remote),
        OpKind::Local => Some(Row::Local),
    }
}

impl Observer for Timeline<'_> {
    fn issued(&mut self, local: u32, node: u32, kind: OpKind, after: Option<u32>, now: Time) {
        self.turn(now);
        let Some(rank) = &mut self.ranks[local as usize] else { return };
        let before = after.and_then(|after| rank.end_of(after, now));
        let Some(row) = row(kind) else {
            // Bookkeeping takes no time: look at what it waited for itself.
            before.into_iter().for_each(|event| rank.note_end(node, event, now));
            return;
        };
        let flow = before.map(|event| self.instant.start_flow(event));
        let cause = self.cause(local, node, after);
        if kind == OpKind::Receive {
            self.posted.insert((local, node), (cause, flow));
            return;
        }
        let event = self.begin_node(local, node, row, cause);
        flow.into_iter().for_each(|flow| self.instant.end_flow(event, flow));
        if let Op::Send { .. } = self.program(local).0.nodes()[node as usize].op {
            let flow = self.instant.start_flow(event);
            self.sent.insert((local, node), flow);
        }
    }

    fn message_leaves(&mut self, local: u32, node: u32, now: Time) {
        self.turn(now);
        let Some((cause, flow)) = self.posted.remove(&(local, node)) else { return };
        let event = self.begin_node(local, node, Row::Communication, cause);
        flow.into_iter().for_each(|flow| self.instant.end_flow(event, flow));
    }

    fn message(&mut self, message: &Message) {
        if let Some(flow) = self.sent.remove(&message.from)
            && self.shows(message.to.0)
        {
            self.received.insert(message.to, flow);
        }
    }

    fn completed(&mut self, local: u32, node: u32, kind: OpKind, start: Time, now: Time) {
        self.turn(now);
        let waited = if kind == OpKind::Communication {
            self.waited(local, node, start)
        } else {
            Vec::new()
        };
        let Some(row) = row(kind).filter(|_| self.shows(local)) else { return };
        if kind == OpKind::Receive {
            self.message_leaves(local, node, now); // its message had arrived before it was posted
        }
        let Some(event) = self.end(local, row, (node, 0), &waited) else { return };
        if let Some(flow) = self.received.remove(&(local, node)) {
            self.instant.end_flow(event, flow);
        }
        if let Some(rank) = &mut self.ranks[local as usize] {
            rank.note_end(node, event, now);
        }
    }

    fn spent(&mut self, local: u32, activity: Activity, from: Time, to: Time) {
        self.activities.spent(local, activity, from, to);
        let Some(rank) = &mut self.ranks[local as usize] else { return };
        let state = activity.iter().find(|(_, does)| **does);
        let name = state.map(|(part, _)| self.states[part]);
        rank.states.spent(name, (from, to), (rank.group, &self.words), &mut self.out);
    }

    fn joined(&mut self, local: u32, node: u32, instance: u32) {
        let meeting = self.meetings.entry(instance).or_default();
        if meeting.under_way == 0 || self.instant.now > meeting.at {
            (meeting.last, meeting.at) = (local, self.instant.now);
        }
        meeting.under_way += 1;
        self.instances.insert((local, node), instance);
    }

    fn chunk_waits(&mut self, chunk: &ChunkPhase, now: Time) {
        self.turn(now);
        self.count(chunk, Chunks::Waiting, |count| *count += 1);
    }

    fn chunk_starts(&mut self, chunk: &ChunkPhase, now: Time) {
        self.turn(now);
        self.activities.chunk_starts(chunk, now);
        self.count(chunk, Chunks::Waiting, |count| *count -= 1);
        self.count(chunk, Chunks::Running, |count| *count += 1);
        if !self.shows(chunk.rank) {
            return;
        }
        let (program, number, _) = self.program(chunk.rank);
        let name = self.words.phase_name((number, chunk.node, chunk.kind), program, &mut self.out);
        let words = &self.words;
        let numbers = [
            (words.node, program.nodes()[chunk.node as usize].id),
            (words.chunk, chunk.chunk.into()),
            (words.phase, u64::from(chunk.phase) + 1),
            (words.queued, now.since(chunk.entered).0),
            (words.start, now.0),
        ];
        let arguments = numbers.map(|(key, number)| (key, Value::Number(number)));
        let category = words.chunks;
        self.begin(
            chunk.rank,
            Row::Dimension(chunk.dim),
            (chunk.node, chunk.chunk),
            (category, name),
            &arguments,
        );
    }

    fn chunk_ends(&mut self, chunk: &ChunkPhase, now: Time) {
        self.turn(now);
        self.count(chunk, Chunks::Running, |count| *count -= 1);
        self.end(chunk.rank, Row::Dimension(chunk.dim), (chunk.node, chunk.chunk), &[]);
    }

    fn memory_changed(&mut self, local: u32, held: u64, now: Time) {
        self.turn(now);
        if let Some(rank) = &mut self.ranks[local as usize] {
            rank.held.value = held;
            self.note(local);
        }
    }

    fn dimension_busy(&mut self, local: u32, dim: u32, from: Time, to: Time) {
        self.activities.dimension_busy(local, dim, from, to);
    }
}
