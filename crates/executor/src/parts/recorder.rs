//! Totals of a run: for each rank the time in each state, for each phase label the waits, for each
//! operation its sums, and a digest. Observers hear of everything through the recorder.
//!
//! At every moment a rank is in one part of the step ([`Part`]), so the parts sum to the step time.
//! Each moment that is not idle is charged to one operation (`flight.rs`). The recorder only
//! listens: nothing in a run depends on it.

use super::delays::{Delays, Label};
use super::flight::InFlight;
use crate::charge::part;
use crate::folding::Folding;
use crate::names;
use crate::observe::{Activity, Message, Observer};
use engine::Digest;
use graph::{Op, OpKind, Workload};
use indexmap::{Equivalent, IndexMap};
use stats::{Part, PerPart};
use units::{Span, Time};

/// A change of what lies outside of an NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// More bytes that do not fit in the NPU, or fewer.
    Spilled(i64),
    /// The first access to a tensor with a number, by node.
    Touched(u32),
}

/// Totals of one simulated rank.
#[derive(Clone, Debug, Default)]
pub struct RankTotals {
    /// End of its last operation.
    pub finish: Time,
    /// End of the last one that counts for `device`.
    pub device_finish: Time,
    /// Each part of the step except idle time.
    pub parts: PerPart<Span>,
    /// Sum of the durations of what the device did itself: compute, and in a replay everything
    /// except work of the host.
    pub device: Span,
    /// Time with communication, whether the rank computes meanwhile or not.
    pub comm: Span,
    /// Time with at least one chunk in a phase, by dimension.
    pub dim_busy: Vec<Span>,
    /// Bytes that the NPU's memory holds.
    pub held: u64,
    /// The most that it has held.
    pub peak: u64,
    /// Changes of its contents outside of the NPU, in order of time.
    pub outside: Vec<(Time, Change)>,
    /// Over (node, time) of every completion. Their order within an instant does not matter.
    pub digest: u64,
}

#[derive(Clone, Default)]
struct State {
    since: Time,
    flight: InFlight,
    totals: RankTotals,
    dims: Vec<(u32, Time)>,
    started: usize,
}

pub(crate) struct Recorder<'a> {
    observers: Vec<&'a mut dyn Observer>,
    ranks: Vec<State>,
    multiplicity: Vec<u64>,
    delays: Delays,
    /// Start of every node of every simulated rank; `Time::MAX` while not running.
    starts: Vec<Time>,
    operations: Operations,
    replay_only: bool,
}

/// Totals by (body, node), folded into names at the end.
struct Operations {
    /// Where the nodes of each program's body start.
    first: Vec<usize>,
    /// In one row, because a large workload touches each node once.
    totals: Vec<NodeTotals>,
    program: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct NodeTotals {
    total: u128,
    cost: u128,
    count: u128,
    max: Span,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(
        workload: &Workload,
        folding: &Folding,
        dims: u32,
        replay_only: bool,
        observers: Vec<&'a mut dyn Observer>,
    ) -> Recorder<'a> {
        let mut starts = 0;
        let mut ranks = Vec::with_capacity(folding.representatives.len());
        let mut program = Vec::with_capacity(folding.representatives.len());
        for &rank in &folding.representatives {
            let dims = vec![(0, Time::ZERO); dims as usize];
            let totals =
                RankTotals { dim_busy: vec![Span::ZERO; dims.len()], ..RankTotals::default() };
            ranks.push(State { started: starts, dims, totals, ..State::default() });
            program.push(workload.ranks[rank as usize].program);
            starts += workload.program(rank).nodes().len();
        }
        let mut nodes = 0;
        let first = workload.by_body(|program| {
            nodes += program.nodes().len();
            nodes - program.nodes().len()
        });
        let operations = Operations { first, totals: vec![NodeTotals::default(); nodes], program };
        let multiplicity = folding.multiplicity.clone();
        let starts = vec![Time::MAX; starts];
        Recorder {
            observers,
            ranks,
            multiplicity,
            delays: Delays::default(),
            starts,
            operations,
            replay_only,
        }
    }

    /// Whether there is an observer.
    #[inline]
    pub(crate) fn observed(&self) -> bool {
        !self.observers.is_empty()
    }

    /// A node could begin, but its host has yet to launch it.
    pub(crate) fn launch_begins(&mut self, rank: u32, node: u32, now: Time) {
        let started = self.ranks[rank as usize].started;
        self.starts[started + node as usize] = now;
        self.begins(rank, node, Some(Part::Launch), now);
    }

    /// The host has launched it.
    pub(crate) fn launch_ends(&mut self, rank: u32, node: u32, now: Time) {
        self.ends(rank, node, Some(Part::Launch), now);
    }

    #[inline]
    pub(crate) fn issued(
        &mut self,
        rank: u32,
        node: u32,
        kind: OpKind,
        after: Option<u32>,
        now: Time,
    ) {
        let state = &self.ranks[rank as usize];
        self.starts[state.started + node as usize] = now;
        self.begins(rank, node, part(kind), now);
        for observer in &mut self.observers {
            observer.issued(rank, node, kind, after, now);
        }
    }

    #[inline]
    pub(crate) fn completed(&mut self, rank: u32, node: u32, kind: OpKind, now: Time) {
        let start = &mut self.starts[self.ranks[rank as usize].started + node as usize];
        let began = std::mem::replace(start, Time::MAX);
        let span = now.since(began);
        self.ends(rank, node, part(kind), now);
        for observer in &mut self.observers {
            observer.completed(rank, node, kind, began, now);
        }
        let state = &mut self.ranks[rank as usize];
        state.totals.finish = now;
        if kind == OpKind::Compute || self.replay_only && kind != OpKind::Host {
            state.totals.device += span;
            state.totals.device_finish = now;
        }
        let mut completion = Digest::default();
        completion.add(u64::from(node));
        completion.add(now.0);
        state.totals.digest = state.totals.digest.wrapping_add(completion.value());
        self.operations.add(rank, node, span, self.multiplicity[rank as usize]);
    }

    /// The NPU's memory holds `delta` more bytes, or fewer.
    pub(crate) fn memory_changed(&mut self, rank: u32, delta: i64, now: Time) {
        let totals = &mut self.ranks[rank as usize].totals;
        totals.held = totals.held.saturating_add_signed(delta);
        totals.peak = totals.peak.max(totals.held);
        let held = totals.held;
        self.tell(|observer| observer.memory_changed(rank, held, now));
    }

    /// The contents outside of the NPU change.
    pub(crate) fn outside_changed(&mut self, rank: u32, change: Change, now: Time) {
        self.ranks[rank as usize].totals.outside.push((now, change));
    }

    /// From now on the time of a node counts as another kind.
    pub(crate) fn turns(&mut self, rank: u32, node: u32, from: OpKind, to: OpKind, now: Time) {
        self.ends(rank, node, part(from), now);
        self.begins(rank, node, part(to), now);
    }

    /// A message is on its way to a posted receive.
    pub(crate) fn message_under_way(&mut self, rank: u32, node: u32, now: Time) {
        self.begins(rank, node, Some(Part::Communication), now);
        for observer in &mut self.observers {
            observer.message_leaves(rank, node, now);
        }
    }

    /// It has arrived.
    pub(crate) fn message_over(&mut self, rank: u32, node: u32, now: Time) {
        self.ends(rank, node, Some(Part::Communication), now);
    }

    /// A send and a receive of the workload have met.
    pub(crate) fn message(&mut self, message: Message) {
        for observer in &mut self.observers {
            observer.message(&message);
        }
    }

    /// A node takes part in a collective.
    pub(crate) fn joined(&mut self, rank: u32, node: u32, instance: u32) {
        for observer in &mut self.observers {
            observer.joined(rank, node, instance);
        }
    }

    /// Calls every observer.
    pub(crate) fn tell(&mut self, what: impl Fn(&mut dyn Observer)) {
        for observer in &mut self.observers {
            what(*observer);
        }
    }

    /// A chunk leaves the ready queue of a rank.
    pub(crate) fn dispatched(&mut self, rank: u32, waited: Span) {
        self.delays.left_ready_queue(waited, self.multiplicity[rank as usize]);
    }

    #[inline]
    pub(crate) fn phase_started(&mut self, rank: u32, dim: u32, now: Time) {
        let (running, since) = &mut self.ranks[rank as usize].dims[dim as usize];
        if *running == 0 {
            *since = now;
        }
        *running += 1;
    }

    #[inline]
    pub(crate) fn phase_ended(
        &mut self,
        rank: u32,
        label: Label,
        queue: Span,
        network: Span,
        now: Time,
    ) {
        let state = &mut self.ranks[rank as usize];
        let (running, since) = &mut state.dims[label.1 as usize];
        *running -= 1;
        if *running == 0 {
            state.totals.dim_busy[label.1 as usize] += now.since(*since);
            for observer in &mut self.observers {
                observer.dimension_busy(rank, label.1, *since, now);
            }
        }
        self.delays.ended(label, queue, network, self.multiplicity[rank as usize]);
    }

    /// From now on the rank has something more in flight.
    #[inline]
    fn begins(&mut self, rank: u32, node: u32, part: Option<Part>, now: Time) {
        self.pass(rank, now);
        if let Some(part) = part {
            self.ranks[rank as usize].flight.begin(part, node);
        }
    }

    /// Charges an operation for what it had in flight until now.
    #[inline]
    fn ends(&mut self, rank: u32, node: u32, part: Option<Part>, now: Time) {
        self.pass(rank, now);
        if let Some(part) = part {
            self.ranks[rank as usize].flight.end(part, node);
        }
    }

    /// Accounts for the time since the last change.
    #[inline]
    fn pass(&mut self, rank: u32, now: Time) {
        let state = &mut self.ranks[rank as usize];
        let since = state.since;
        let span = now.since(since);
        if span != Span::ZERO {
            let (operations, ranks) = (&mut self.operations, self.multiplicity[rank as usize]);
            state.flight.charge(|node, charged| operations.charge(rank, node, charged, ranks));
            state.since = now;
            state.account(span);
            for observer in &mut self.observers {
                observer.spent(rank, state.activity(), since, now);
            }
        }
    }

    /// Per simulated rank.
    pub(crate) fn finish(&mut self) -> Vec<RankTotals> {
        for (rank, state) in self.ranks.iter_mut().enumerate() {
            let (operations, ranks) = (&mut self.operations, self.multiplicity[rank]);
            state
                .flight
                .charge(|node, charged| operations.charge(rank as u32, node, charged, ranks));
        }
        self.ranks.iter_mut().map(|state| std::mem::take(&mut state.totals)).collect()
    }

    /// The record of all chunks.
    pub(crate) fn delays(&mut self) -> Delays {
        std::mem::take(&mut self.delays)
    }

    /// By pattern of names and kind, the most costly first.
    pub(crate) fn operations(&self, workload: &Workload) -> Vec<stats::Operation> {
        self.operations.by_name(workload)
    }
}

impl State {
    /// Accounts the time since the last change.
    #[inline]
    fn account(&mut self, span: Span) {
        if let Some(part) = self.flight.pass(span) {
            self.totals.parts[part] += span;
        }
        if self.flight.has(Part::Communication) {
            self.totals.comm += span;
        }
    }

    fn activity(&self) -> Activity {
        PerPart::of(|part| self.flight.has(part))
    }
}

impl Operations {
    #[inline]
    fn add(&mut self, rank: u32, node: u32, span: Span, ranks: u64) {
        let at = self.first[self.program[rank as usize] as usize] + node as usize;
        let totals = &mut self.totals[at];
        totals.count += u128::from(ranks);
        totals.total += u128::from(span.0) * u128::from(ranks);
        totals.max = totals.max.max(span);
    }

    #[inline]
    fn charge(&mut self, rank: u32, node: u32, span: Span, ranks: u64) {
        let at = self.first[self.program[rank as usize] as usize] + node as usize;
        self.totals[at].cost += u128::from(span.0) * u128::from(ranks);
    }

    fn by_name(&self, workload: &Workload) -> Vec<stats::Operation> {
        let mut named: IndexMap<Alike, (NodeTotals, Moved)> = IndexMap::new();
        let mut name = String::new();
        let mut end = 0;
        for (program, &first) in workload.programs.iter().zip(&self.first) {
            if first < end {
                // An earlier program has the same body.
                continue;
            }
            end = first + program.nodes().len();
            for (n, node) in program.nodes().iter().enumerate() {
                let totals = &self.totals[first + n];
                names::pattern_into(program.name(n), &mut name);
                let key = (name.as_str(), node.op.kind_name());
                let (sum, moved) = match named.get_mut(&key) {
                    Some(sum) => sum,
                    None => named.entry(Alike(name.clone(), key.1)).or_default(),
                };
                sum.add(totals);
                moved.add(totals.count, &node.op);
            }
        }
        named.sort_by(|a, x, b, y| {
            (y.0.cost, y.0.total).cmp(&(x.0.cost, x.0.total)).then_with(|| a.cmp(b))
        });
        let row =
            |(Alike(name, kind), (sum, moved)): (Alike, (NodeTotals, Moved))| stats::Operation {
                name,
                kind: kind.into(),
                count: sum.count,
                cost_ns: sum.cost as f64 / 1e3,
                total_ns: sum.total as f64 / 1e3,
                max_ns: sum.max.as_ns(),
                bytes: moved.bytes,
                flops: moved.flops,
                compute_bytes: moved.compute_bytes,
            };
        named.into_iter().filter(|(_, (sum, _))| sum.count > 0).map(row).collect()
    }
}

impl NodeTotals {
    fn add(&mut self, other: &NodeTotals) {
        self.total += other.total;
        self.cost += other.cost;
        self.count += other.count;
        self.max = self.max.max(other.max);
    }
}

/// Work of the operations of one row, over all ranks: bytes sent, loaded and stored; operations;
/// bytes that computations read and write.
#[derive(Clone, Copy, Default)]
struct Moved {
    bytes: u128,
    flops: u128,
    compute_bytes: u128,
}

impl Moved {
    /// A trace may leave numbers out. They count as 0.
    fn add(&mut self, count: u128, op: &Op) {
        let (flops, bytes) = match op {
            Op::Compute { operations, bytes, .. } => {
                (operations.unwrap_or(0).into(), bytes.map_or(0, |bytes| bytes.0))
            }
            _ => op.work().map_or((0, 0), |(flops, bytes)| (flops, bytes.0)),
        };
        self.bytes += count * u128::from(bytes_of(op));
        self.flops += count * flops;
        self.compute_bytes += count * u128::from(bytes);
    }
}

/// Operations of one row: a pattern of names, and the kind.
#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Alike(String, &'static str);

impl Equivalent<Alike> for (&str, &'static str) {
    fn equivalent(&self, alike: &Alike) -> bool {
        (alike.0.as_str(), alike.1) == *self
    }
}

fn bytes_of(op: &Op) -> u64 {
    match op {
        Op::Memory { bytes, .. }
        | Op::Send { bytes, .. }
        | Op::Recv { bytes, .. }
        | Op::Collective { bytes, .. } => bytes.0,
        _ => 0,
    }
}
