//! The critical path: the chain of operations without a gap that ends with the step. It is followed
//! back from its end.
//!
//! A node started when another one ended: a node that it depends on, or one that held its resource
//! (compute, a communication stream). A collective starts when its last member comes, a receive
//! when its message is sent. There the chain continues on the other rank. The wait for a launch by
//! the host is a segment of its own. So the segments sum to the step time.

use super::Place;
use super::log::Log;
use graph::{Op, Workload};
use rustc_hash::FxHashSet;
use units::Time;

/// Why a segment began when it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// At the beginning of the run.
    Start,
    /// A node that it depends on ended.
    Dependency,
    /// A node that held its resource ended.
    Resource,
    /// The last member came to its collective.
    LastMember,
    /// The message of a receive was sent.
    Message,
    /// The host launched the operation.
    Launch,
}

impl Cause {
    pub(super) fn name(self) -> &'static str {
        match self {
            Cause::Start => "start",
            Cause::Dependency => "dependency",
            Cause::Resource => "resource",
            Cause::LastMember => "last member",
            Cause::Message => "message",
            Cause::Launch => "launch",
        }
    }
}

/// A stretch of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub place: Place,
    pub start: Time,
    pub end: Time,
    pub cause: Cause,
    /// Waiting for the launch of the node, instead of the node.
    pub launch: bool,
}

/// Input of the search for a path.
pub(super) struct Walk<'a> {
    pub workload: &'a Workload,
    pub log: &'a Log,
    /// The rank that each simulated rank is.
    pub ids: &'a [u32],
    /// The simulated rank that stands for the class of each simulated rank. It is the same whether
    /// the run was folded or not.
    pub stand_in: &'a dyn Fn(u32) -> u32,
}

impl Walk<'_> {
    /// The segments in order of time; none for a workload without operations.
    pub(super) fn path(&self) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut seen = FxHashSet::default();
        let mut next = self.last();
        while let Some(place) = next {
            let (pair, before) = self.segments(place, &mut seen);
            segments.extend(pair.into_iter().filter(|segment| segment.end > segment.start));
            next = before;
        }
        segments.reverse();
        segments
    }

    /// The node that ends last: of the first rank, and the last in its program.
    fn last(&self) -> Option<Place> {
        let ranks = (0..self.ids.len() as u32).filter(|&r| (self.stand_in)(r) == r);
        let nodes = ranks.flat_map(|r| (0..self.log.of(r).len() as u32).map(move |n| (r, n)));
        nodes.max_by_key(|&(r, n)| (self.log.at((r, n)).end, std::cmp::Reverse(r), n))
    }

    /// The segment of a node, the wait for its launch, and the node before that.
    fn segments(&self, place: Place, seen: &mut FxHashSet<Place>) -> ([Segment; 2], Option<Place>) {
        let elsewhere = self.elsewhere(place, seen);
        let first = elsewhere.map_or(place, |(_, other, _)| other);
        if elsewhere.is_some() {
            seen.insert(first);
        }
        let (why, before) = self.before(first);
        let (ready, began) = (self.log.ready(first), self.log.at(first).start);
        let own = if began > ready { Cause::Launch } else { why };
        let (start, cause) = elsewhere.map_or((began, own), |(began, _, cause)| (began, cause));
        let ran = Segment { place, start, end: self.log.at(place).end, cause, launch: false };
        (
            [ran, Segment { place: first, start: ready, end: began, cause: why, launch: true }],
            before,
        )
    }

    /// Reason why a node could start on its own rank.
    fn before(&self, (rank, node): Place) -> (Cause, Option<Place>) {
        let Some(after) = self.log.at((rank, node)).after() else { return (Cause::Start, None) };
        let program = self.workload.program(self.ids[rank as usize]);
        let depends = program.deps(node as usize).contains(&after);
        (if depends { Cause::Dependency } else { Cause::Resource }, Some((rank, after)))
    }

    /// If another rank decided when a node could start: since when, its node, and why. No place is
    /// visited twice, because the order within one instant is unknown.
    fn elsewhere(&self, place: Place, seen: &FxHashSet<Place>) -> Option<(Time, Place, Cause)> {
        let own = self.log.at(place);
        let program = self.workload.program(self.ids[place.0 as usize]);
        match program.nodes()[place.1 as usize].op {
            Op::Recv { .. } => {
                let message = self.log.message(place)?;
                let from = self.here(message.from);
                let (sent, late) = (self.log.at(from).start, self.log.at(from).start > own.start);
                (late && !seen.contains(&from)).then_some((sent, from, Cause::Message))
            }
            _ => {
                let came = |p: &Place| self.log.at(*p).start;
                let late = self.log.members(place).iter().map(|&p| self.here(p));
                let late =
                    late.filter(|p| came(p) > own.start && came(p) <= own.end && !seen.contains(p));
                let last = late.max_by_key(|p| (came(p), std::cmp::Reverse(*p)))?;
                Some((came(&last), last, Cause::LastMember))
            }
        }
    }

    fn here(&self, (rank, node): Place) -> Place {
        ((self.stand_in)(rank), node)
    }
}
