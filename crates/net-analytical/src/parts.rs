//! The links of a message that splits over the cards of its NPU.

use crate::carried::Carried;
use network::{LinkCost, Uncontended};
use topology::{LinkGraph, Part, Splitter};
use units::{Span, Time};

/// A message between two NPUs that splits.
pub(crate) struct Split<'a> {
    costs: &'a [LinkCost],
    parts: Vec<Part>,
    /// Parts of the whole message.
    whole: u64,
    /// For each of `parts`, whether it leaves the source.
    leaves: Vec<bool>,
}

impl<'a> Split<'a> {
    /// A message of `bytes` from one NPU to another.
    pub(crate) fn of(
        graph: &LinkGraph,
        costs: &'a [LinkCost],
        ends: (u32, u32),
        bytes: u64,
    ) -> Split<'a> {
        let mut splitter = Splitter::default();
        splitter.find(graph, ends, bytes);
        let parts = splitter.found;
        let leaves = parts.iter().map(|part| graph.link(part.link).from == ends.0).collect();
        Split { costs, parts, whole: Splitter::whole(graph), leaves }
    }

    fn occupancy(&self, part: &Part, bytes: u64) -> Span {
        let bytes = (u128::from(bytes) * u128::from(part.parts)).div_ceil(self.whole.into());
        self.costs[part.link as usize].occupancy(bytes as u64)
    }

    fn leaving(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().zip(&self.leaves).filter_map(|(part, leaves)| leaves.then_some(part))
    }

    /// The sum of the latencies of its links, one behind the other.
    fn latency(&self) -> Span {
        let leading = self.parts.iter().filter(|part| part.leads);
        leading.map(|part| self.costs[part.link as usize].transit(1, 0)).sum()
    }

    /// How long the link is busy that needs the most time for it.
    fn slowest(&self, bytes: u64) -> Span {
        self.parts.iter().map(|part| self.occupancy(part, bytes)).max().unwrap_or_default()
    }

    /// How long it keeps the links by which it leaves.
    fn kept(&self, bytes: u64) -> Span {
        self.leaving().map(|part| self.occupancy(part, bytes)).max().unwrap_or_default()
    }

    /// When all links by which it leaves are free.
    pub(crate) fn free(&self, free: &[Time]) -> Time {
        self.leaving().map(|part| free[part.link as usize]).max().unwrap_or_default()
    }

    /// When it leaves that is ready at `now`, and how long it takes from there on.
    pub(crate) fn depart(
        &self,
        now: Time,
        (free, carried): (&mut [Time], &mut Carried),
        (bytes, paced): (u64, u64),
    ) -> (Option<Time>, Span) {
        let start = now.max(self.free(free));
        let Uncontended { transit, occupancy } = self.alone((bytes, paced));
        self.leaving().for_each(|part| free[part.link as usize] = start + occupancy);
        self.carry(carried, bytes, 1);
        (Some(start), transit)
    }

    /// Times of the message where it waits for none. It keeps the links by which it leaves until it
    /// has left by all.
    pub(crate) fn alone(&self, (bytes, paced): (u64, u64)) -> Uncontended {
        let occupancy = self.kept(paced.max(bytes));
        Uncontended { transit: self.latency() + self.slowest(bytes).max(occupancy), occupancy }
    }

    /// Counts what its links carry, for `times` such messages.
    pub(crate) fn carry(&self, carried: &mut Carried, bytes: u64, times: u128) {
        for part in &self.parts {
            let bytes = u128::from(bytes) * u128::from(part.parts) / u128::from(self.whole);
            carried.add(part.link, bytes * times);
        }
    }

    /// The links by which it leaves.
    pub(crate) fn departures(&self) -> impl Iterator<Item = u32> + '_ {
        self.leaving().map(|part| part.link)
    }
}
