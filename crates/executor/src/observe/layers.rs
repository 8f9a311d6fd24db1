//! Sums by layer and pass: how long each of a program computes, communicates and accesses memory,
//! and how much of it is exposed.
//!
//! Every moment of a rank is charged to one operation, of the first [`Part`] that has something in
//! flight. Of several in flight it is the one that ends first, because the rank waits for that one
//! next. So the exposed parts of the layers sum to those of the rank.

use super::log::{Log, Ran};
use super::pass::Pass;
use super::source::Source;
use crate::charge;
use graph::OpKind;
use indexmap::IndexMap;
use stats::{Part, PerPart};
use std::collections::BTreeSet;
use units::{Span, Time};

/// Sums of one layer in one pass on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// The time that is charged to it.
    pub charged: PerPart<Span>,
    /// Sum of the times for which its operations were in flight, for parts that report it.
    pub in_flight: PerPart<Span>,
}

/// A node as charged, or its wait for a launch.
#[derive(Clone, Copy)]
pub(super) struct Interval {
    pub node: usize,
    /// Part of the step, in the order of precedence; `None` if no time is charged to it.
    pub part: Option<Part>,
    /// When that began. A receive communicates from when its message is sent.
    pub began: Time,
    pub end: Time,
}

/// A layer and a pass.
pub(super) type Key<'a> = (&'a str, Pass);

/// Sums in order of appearance. `keys` has the layer and pass of each node.
pub(super) fn sums<'a>(intervals: &[Interval], keys: &[Key<'a>]) -> IndexMap<Key<'a>, Sums> {
    let mut sums: IndexMap<Key, Sums> = IndexMap::new();
    for interval in intervals {
        let entry = sums.entry(keys[interval.node]).or_default();
        let span = interval.end.since(interval.began.min(interval.end));
        let reports = |part: &Part| part.about().doing.is_some_and(|it| it.in_flight.is_some());
        if let Some(part) = interval.part.filter(reports) {
            entry.in_flight[part] += span;
        }
    }
    charge(intervals, |at, part, from, to| {
        sums[&keys[intervals[at].node]].charged[part] += to.since(from);
    });
    sums.retain(|_, sums| *sums != Sums::default());
    sums
}

/// The part of a node's time and when it begins. That of a receive begins when its message is sent.
pub(super) fn part(kind: OpKind) -> Option<Part> {
    charge::part(if kind == OpKind::Receive { OpKind::Communication } else { kind })
}

/// Charges every moment in which something is in flight, in order of time. The callback gets the
/// interval, the part, the beginning and the end.
pub(super) fn charge(intervals: &[Interval], mut to: impl FnMut(usize, Part, Time, Time)) {
    let mut changes: Vec<(Time, bool, usize, Part)> = Vec::new();
    for (at, interval) in intervals.iter().enumerate() {
        if let Some(part) = interval.part
            && interval.began < interval.end
        {
            changes.push((interval.began, true, at, part));
            changes.push((interval.end, false, at, part));
        }
    }
    changes.sort_unstable();
    let mut flying: PerPart<BTreeSet<(Time, usize)>> = PerPart::default();
    let mut since = Time::ZERO;
    for (now, begins, at, part) in changes {
        if now > since
            && let Some((charged, flying)) = flying.iter().find(|(_, flying)| !flying.is_empty())
            && let Some(&(_, first)) = flying.first()
        {
            to(first, charged, since, now);
        }
        since = now;
        let end = intervals[at].end;
        if begins {
            flying[part].insert((end, at))
        } else {
            flying[part].remove(&(end, at))
        };
    }
}

/// Intervals in which a rank had operations in flight.
pub(super) fn intervals(source: &Source, log: &Log, rank: u32) -> Vec<Interval> {
    let (program, local) = (source.workload.program(rank), source.folding.local(rank));
    let of = |(node, ran): (usize, &Ran)| {
        let sent = log.message((local, node as u32)).map_or(ran.start, |message| message.sent);
        let part = part(program.nodes()[node].op.kind());
        let wait = Interval {
            node,
            part: Some(Part::Launch),
            began: log.ready((local, node as u32)),
            end: ran.start,
        };
        [Interval { node, part, began: ran.start.max(sent), end: ran.end }, wait]
    };
    log.of(local).iter().enumerate().flat_map(of).collect()
}
