//! Sums by layer: what each layer of a program computes, communicates and moves, and how much of it
//! is exposed.
//!
//! Every moment of a rank is charged to one operation: to what computes; where nothing does, to
//! communication; else to memory outside the NPU, else to its own, else to what waits for its host
//! to launch it, else to work of the host. Of several alike in flight it is the one that ends
//! first, for the others are not what the rank waits for next. So the exposed parts of the layers
//! sum to those of the rank.

use crate::parts::{self, LAUNCH, PARTS};
use graph::OpKind;
use indexmap::IndexMap;
use std::collections::BTreeSet;
use units::{Span, Time};

/// Sums of one layer on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Time computing.
    pub compute: Span,
    /// Sum of the times that its communication was in flight.
    pub comm: Span,
    pub exposed_comm: Span,
    /// Sum of the times that its accesses to memory outside the NPU were in flight.
    pub remote: Span,
    pub exposed_remote: Span,
    /// Sum of the times that its accesses to the NPU's own memory were in flight.
    pub local: Span,
    pub exposed_local: Span,
    pub exposed_launch: Span,
    /// Sum of the times that its work on the host ran.
    pub host: Span,
    pub exposed_host: Span,
}

/// A node as charged, or its wait for a launch.
#[derive(Clone, Copy)]
pub(super) struct Interval {
    pub node: usize,
    /// What its time is, in the order of who is charged; nothing that can be charged.
    pub part: Option<usize>,
    /// When that began; a receive communicates when its message is sent.
    pub began: Time,
    pub end: Time,
}

/// Sums by layer in order of appearance; `layer` names that of a node.
pub(super) fn sums<'a>(
    intervals: &[Interval],
    layer: impl Fn(usize) -> &'a str,
) -> IndexMap<&'a str, Sums> {
    let mut sums: IndexMap<&str, Sums> = IndexMap::new();
    for interval in intervals {
        let entry = sums.entry(layer(interval.node)).or_default();
        let span = interval.end.since(interval.began.min(interval.end));
        match interval.part {
            Some(1) => entry.comm += span,
            Some(2) => entry.remote += span,
            Some(3) => entry.local += span,
            Some(5) => entry.host += span,
            _ => {}
        }
    }
    charge(intervals, |at, part, from, to| {
        let entry = &mut sums[layer(intervals[at].node)];
        let charged = match part {
            0 => &mut entry.compute,
            1 => &mut entry.exposed_comm,
            2 => &mut entry.exposed_remote,
            3 => &mut entry.exposed_local,
            LAUNCH => &mut entry.exposed_launch,
            _ => &mut entry.exposed_host,
        };
        *charged += to.since(from);
    });
    sums.retain(|_, sums| *sums != Sums::default());
    sums
}

/// What a node's time is; a receive's from when its message is sent.
pub(super) fn part(kind: OpKind) -> Option<usize> {
    parts::part(if kind == OpKind::Receive { OpKind::Communication } else { kind })
}

/// Charges every moment in which something is in flight, in order of time: to which interval, as
/// what, from when to when.
pub(super) fn charge(intervals: &[Interval], mut to: impl FnMut(usize, usize, Time, Time)) {
    let mut changes: Vec<(Time, bool, usize)> = Vec::new();
    for (at, interval) in intervals.iter().enumerate().filter(|(_, i)| i.part.is_some()) {
        if interval.began < interval.end {
            changes.push((interval.began, true, at));
            changes.push((interval.end, false, at));
        }
    }
    changes.sort_unstable();
    let mut flying: [BTreeSet<(Time, usize)>; PARTS] = Default::default();
    let mut since = Time::ZERO;
    for (now, begins, at) in changes {
        if now > since
            && let Some((part, flying)) =
                flying.iter().enumerate().find(|(_, flying)| !flying.is_empty())
            && let Some(&(_, first)) = flying.first()
        {
            to(first, part, since, now);
        }
        since = now;
        let (end, part) = (intervals[at].end, intervals[at].part.unwrap_or_default());
        if begins {
            flying[part].insert((end, at))
        } else {
            flying[part].remove(&(end, at))
        };
    }
}
