//! Contents of memories outside of the NPUs over the step, and whether they have room for it.
//!
//! What surely does not fit is refused before a run (`lowering::contents`), except for what NPUs
//! spill, which only the run shows. A tensor lies there from the beginning if it is loaded first,
//! and from its first store otherwise. Accesses without a number, and what a generator says, count
//! from the beginning. What is spilled lies there until it is back or freed.

use crate::parts::Parts;
use device::memory::Store;
use executor::observe::most_held;
use executor::{Change, RankTotals};
use graph::{Op, Problem};
use lowering::contents::{self, Contents, large};
use platform::Fits;
use stats::{Outside, OutsideContents, OutsideOverTime};
use std::collections::{BTreeMap, BTreeSet};
use units::Time;

/// Bytes: weights, gradients, optimizer state, tables, spilled, others; and what may lie there in
/// addition.
type Amounts = [i128; 7];
const SPILLED: usize = 4;
const OTHER: usize = 5;
const UNSURE: usize = 6;

/// Bytes of a rank in a memory: at the beginning, and changes of one amount.
#[derive(Default)]
struct RankContents {
    start: Amounts,
    changes: Vec<(Time, usize, i128)>,
}

/// The simulated ranks whose tensors lie in a memory, each with how many ranks it stands for.
type Users = BTreeMap<u32, i128>;

/// The fullest memory of one kind.
pub(crate) struct Fill {
    store: Store,
    memories: u64,
    ranks: u64,
    /// When most lies there, and what.
    at: Time,
    peak: Amounts,
    /// Times, and the least that lies there from then on.
    curve: Vec<(Time, u64)>,
}

/// The fullest memory of each kind.
pub(crate) fn fills(parts: &Parts, ranks: &[RankTotals]) -> Vec<Fill> {
    let contents = contents::of(parts.workload, parts.platform);
    (0..contents.stores.len())
        .filter_map(|store| of_store(parts, ranks, &contents, store))
        .collect()
}

fn of_store(
    parts: &Parts,
    ranks: &[RankTotals],
    contents: &Contents,
    store: usize,
) -> Option<Fill> {
    let of_ranks: Vec<RankContents> = (0..)
        .zip(ranks)
        .map(|(rank, totals)| rank_contents(parts, contents, store, rank, totals))
        .collect();
    let mut memories: BTreeMap<u32, Users> = BTreeMap::new();
    for id in 0..parts.settings.ranks {
        let rank = parts.folding.local(id);
        let own = &of_ranks[rank as usize];
        if own.start.iter().any(|&bytes| bytes > 0) || !own.changes.is_empty() {
            let users = memories.entry(contents.stores[store].index(id)).or_default();
            *users.entry(rank).or_default() += 1;
        }
    }
    let distinct: BTreeSet<&Users> = memories.values().collect();
    let found = distinct.into_iter().map(|users| {
        let (at, peak, curve) = over_time(users, &of_ranks);
        Fill {
            store: contents.stores[store],
            memories: memories.len() as u64,
            ranks: users.values().sum::<i128>() as u64,
            at,
            peak,
            curve,
        }
    });
    found.reduce(|most, each| if total(&each.peak) > total(&most.peak) { each } else { most })
}

/// Bytes of simulated rank `rank` in a store.
fn rank_contents(
    parts: &Parts,
    contents: &Contents,
    store: usize,
    rank: u32,
    totals: &RankTotals,
) -> RankContents {
    let program =
        parts.workload.ranks[parts.folding.representatives[rank as usize] as usize].program;
    let kept = &contents.programs[program as usize][store];
    let nodes = parts.workload.programs[program as usize].nodes();
    let says = [
        kept.declared.weights,
        kept.declared.gradients,
        kept.declared.optimizer,
        kept.declared.tables,
        0,
        kept.least - kept.declared.total(),
        kept.most - kept.least,
    ];
    let mut found = RankContents { start: says.map(i128::from), changes: Vec::new() };
    let mut known = BTreeSet::new();
    for &(at, change) in &totals.outside {
        match change {
            Change::Spilled(bytes) if contents.store(graph::Reach::Remote) == Some(store) => {
                found.changes.push((at, SPILLED, bytes.into()));
            }
            Change::Spilled(_) => {}
            Change::Touched(node) => {
                let Op::Memory { store: stores, reach, tensor, .. } = nodes[node as usize].op
                else {
                    continue;
                };
                let here = contents.store(reach) == Some(store) && known.insert(tensor);
                if let Some(&bytes) = kept.tensors.get(&tensor).filter(|_| here && stores) {
                    found.start[OTHER] -= i128::from(bytes);
                    found.changes.push((at, OTHER, bytes.into()));
                }
            }
        }
    }
    found
}

/// When most lies in the memory of `users`, what then, and the least that lies there over time.
fn over_time(users: &Users, of_ranks: &[RankContents]) -> (Time, Amounts, Vec<(Time, u64)>) {
    let mut now = Amounts::default();
    let mut changes: Vec<(Time, usize, i128)> = Vec::new();
    for (&rank, &count) in users {
        let own = &of_ranks[rank as usize];
        now.iter_mut().zip(own.start).for_each(|(sum, bytes)| *sum += bytes * count);
        changes.extend(own.changes.iter().map(|&(at, of, bytes)| (at, of, bytes * count)));
    }
    changes.sort_by_key(|change| change.0);
    let (mut at, mut peak) = (Time::ZERO, now);
    let mut curve = vec![(Time::ZERO, clamped(least(&now)))];
    for instant in changes.chunk_by(|one, next| one.0 == next.0) {
        instant.iter().for_each(|&(_, of, bytes)| now[of] += bytes);
        curve.push((instant[0].0, clamped(least(&now))));
        if total(&now) > total(&peak) {
            (at, peak) = (instant[0].0, now);
        }
    }
    (at, peak, curve)
}

fn total(amounts: &Amounts) -> i128 {
    amounts.iter().sum()
}

fn least(amounts: &Amounts) -> i128 {
    total(amounts) - amounts[UNSURE]
}

fn clamped(bytes: i128) -> u64 {
    u64::try_from(bytes.max(0)).unwrap_or(u64::MAX)
}

impl Fill {
    fn fits(&self) -> Option<Fits> {
        let [least, most] = [least(&self.peak), total(&self.peak)].map(i128::unsigned_abs);
        Some(Fits::counted(least, most, self.store.capacity?))
    }

    /// The memory in the report.
    pub(crate) fn row(&self) -> Outside {
        let [weights, gradients, optimizer, tables, spilled, other, _] = self.peak.map(clamped);
        Outside {
            name: self.store.name.into(),
            memories: self.memories,
            ranks: self.ranks,
            least_bytes: clamped(least(&self.peak)),
            most_bytes: clamped(total(&self.peak)),
            peak_ns: self.at.as_ns(),
            contents: OutsideContents {
                weights_bytes: weights,
                gradients_bytes: gradients,
                optimizer_bytes: optimizer,
                tables_bytes: tables,
                spilled_bytes: spilled,
                other_bytes: other,
            },
            capacity_bytes: self
                .store
                .capacity
                .map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX)),
        }
    }

    /// The memory over a step.
    pub(crate) fn over_time(&self, step: Time) -> OutsideOverTime {
        OutsideOverTime { name: self.store.name.into(), bytes: most_held(&self.curve, step) }
    }

    /// A warning, where it may be too small.
    pub(crate) fn warning(&self) -> Option<String> {
        let (name, capacity) = (self.store.name, large(self.store.capacity?));
        let [least, most] =
            [least(&self.peak), total(&self.peak)].map(i128::unsigned_abs).map(large);
        (self.fits()? == Fits::Near).then(|| {
            format!(
                "the {name} may be too small: it has {capacity}, and between {least} and {most} \
                 lie in it; accesses without the number of their tensor may be to one tensor or to \
                 several"
            )
        })
    }

    /// Why the run is refused, if more lies there than it can hold.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let (name, capacity) = (self.store.name, large(self.store.capacity?));
        let [least, spilled] =
            [least(&self.peak), self.peak[SPILLED]].map(i128::unsigned_abs).map(large);
        let message = format!(
            "the {name} must hold {least} of {} NPUs at {} ns, {spilled} of it moved out of NPUs, \
             more than its {capacity}",
            self.ranks,
            self.at.as_ns()
        );
        let help = "a larger npu.memory.capacity, less outside of the NPUs, or more or larger \
                    memory (docs/models/memory.md#what-lies-outside)";
        (self.fits()? == Fits::No).then(|| Problem::new("", name, message).help(help))
    }
}
