//! The links that flows share, and what they have carried.
//!
//! A link's state is made when something first goes over it. In a folded run, links that are alike
//! are one: it has the capacity of all of them, and a flow stands for the number of flows that
//! its weight says.

use crate::fair::{Level, NOWHERE};
use crate::limits::{Limits, RATE_BITS, units_of};
use network::{LinkClasses, LinkCost, LinkEnds, LinkUsage};
use topology::{LinkGraph, Part};
use units::{Bandwidth, Bytes, Span, Time};

const NONE: u32 = u32::MAX;

/// A flow on a link: the flow, and which of its hops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub flow: u32,
    pub hop: u32,
    pub demand: u128,
}

/// A link that something has gone over.
#[derive(Clone, Debug)]
pub(crate) struct LinkState {
    /// Number in the topology.
    pub id: u32,
    /// Links that it stands for.
    count: u64,
    /// Rate that its flows can have in all, in units of rate, times parts and links.
    pub capacity: u128,
    /// Demand of flows that go whole over each of the links that it stands for, and its rate alone.
    pub unit: u128,
    pub full: u64,
    pub members: Vec<Member>,
    /// Since when it carries something, and the bytes (times parts and links) that have not been
    /// reported.
    since: Time,
    carried: u128,
    bytes: u64,
    messages: u128,
    busy: Span,
    /// Whether its flows need new rates.
    pub is_dirty: bool,
    /// Number in the problem that was last solved, and which problem that was.
    pub local: u32,
    pub seen: u64,
    /// Demand and messages of its members.
    pub demand: u128,
    pub load: u128,
    /// The level from which it must be looked at again.
    pub queued: u64,
    /// The level at which it was full when it was last looked at.
    pub found: Level,
}

/// How full a link is. Spreading changes reads and writes little else of a link.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Room {
    /// The level at which it is full.
    pub full_at: Level,
    /// Capacity that its flows do not use. Wraps round while one of them has no level yet.
    pub left: i128,
    /// How much more than all its flows may use, and leave where it holds flows back.
    slack: i128,
    /// The round in which its flows have changed last, and the lowest level at which they did.
    pub round: u32,
    pub touched: u64,
    /// It is among those that may be queued.
    pub is_listed: bool,
    /// Nothing has changed since it was last looked at.
    pub is_known: bool,
}

/// No level at which a link waits to be looked at.
pub(crate) const NOT_QUEUED: u64 = u64::MAX;

impl Room {
    /// Whether its flows use so much or so little that it must be full at another level.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        // Without branches: which of these holds is hard to foresee.
        let (more, less) = (self.left.wrapping_add(self.slack), self.slack.wrapping_sub(self.left));
        (more < 0) | (self.is_full() & (less < 0))
    }

    /// Whether it holds flows back.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.full_at.value != NOWHERE.value
    }

    /// Flows have changed at this level.
    #[inline]
    pub(crate) fn touch(&mut self, round: u32, level: u64) {
        // Without a branch: nothing is lower than this level where the round is new.
        let before = self.touched | u64::from(self.round != round).wrapping_neg();
        (self.round, self.touched) = (round, before.min(level));
    }

    /// Flows of this demand go from one level to another.
    #[inline]
    pub(crate) fn shift(&mut self, demand: u128, levels: (u64, u64)) {
        self.left = self.left.wrapping_add(shift(demand, levels));
    }
}

/// Bandwidth that flows of this demand free when they go from one level to another.
#[inline]
pub(crate) fn shift(demand: u128, (old, new): (u64, u64)) -> i128 {
    let (old, new) = (demand.wrapping_mul(old.into()), demand.wrapping_mul(new.into()));
    old.wrapping_sub(new) as i128
}

impl LinkState {
    /// Bytes of the period since the link last paused, without the part that is `left` (times parts
    /// and links), and how long it takes to send them.
    fn period(&self, left: u128, until: Time) -> (u64, Span) {
        let carried = self.carried.saturating_sub(left);
        let bytes = u64::try_from(carried / self.unit).unwrap_or(u64::MAX);
        let full = Bandwidth(self.full >> RATE_BITS);
        (bytes, full.span(Bytes(bytes)).min(until.since(self.since.min(until))))
    }
}

/// Bytes that a link sent without a pause.
pub(crate) struct Sent {
    pub link: LinkEnds,
    pub begin: Time,
    pub end: Time,
    pub bytes: u64,
}

/// All links of a network.
pub(crate) struct Links {
    pub graph: LinkGraph,
    /// By dimension for a stack, by link for an explicit graph.
    costs: Vec<LinkCost>,
    by_link: bool,
    limits: Limits,
    whole: u64,
    classes: Option<Box<dyn LinkClasses>>,
    pub states: Vec<LinkState>,
    /// Room of each state.
    pub rooms: Vec<Room>,
    /// Messages of the members of all links.
    pub load: u128,
    state_of: Vec<u32>,
}

impl Links {
    pub(crate) fn new(
        graph: LinkGraph,
        costs: Vec<LinkCost>,
        by_link: bool,
        (limits, whole): (Limits, u64),
    ) -> Links {
        Links {
            graph,
            costs,
            by_link,
            limits,
            whole,
            classes: None,
            states: Vec::new(),
            rooms: Vec::new(),
            load: 0,
            state_of: Vec::new(),
        }
    }

    pub(crate) fn fold(&mut self, classes: Box<dyn LinkClasses>) {
        self.classes = Some(classes);
    }

    pub(crate) fn is_folded(&self) -> bool {
        self.classes.is_some()
    }

    /// Dimensions in [`network::Usage::bytes`].
    pub(crate) fn dims(&self) -> usize {
        if self.by_link { 1 } else { self.costs.len() }
    }

    /// Where the bytes of a dimension's links count.
    pub(crate) fn place(&self, dim: u32) -> usize {
        if self.by_link { 0 } else { dim as usize }
    }

    /// Bandwidth of a link that flows can use, and its latency.
    #[inline]
    pub(crate) fn cost(&self, link: u32, dim: u32) -> (Bandwidth, Span) {
        let at = if self.by_link { link } else { dim };
        match self.costs[at as usize] {
            LinkCost::Exact { bandwidth, latency } => {
                (bandwidth.times(self.limits.settings.efficiency), latency)
            }
            LinkCost::Nanoseconds { bandwidth, latency } => {
                let bandwidth = Bandwidth((bandwidth * 1e9) as u64);
                (bandwidth.times(self.limits.settings.efficiency), Span((latency * 1e3) as u64))
            }
        }
    }

    /// Units of rate of the slowest of these links.
    pub(crate) fn slowest(&self, parts: &[Part]) -> u64 {
        let rate = |part: &Part| units_of(self.cost(part.link, part.dim).0);
        parts.iter().map(rate).min().unwrap_or(u64::MAX)
    }

    /// Where the state of a link is, made on first use.
    #[inline]
    pub(crate) fn state(&mut self, link: u32, dim: u32) -> u32 {
        if self.state_of.is_empty() {
            self.state_of.resize(self.graph.len() as usize, NONE);
        }
        match self.state_of[link as usize] {
            NONE => self.make(link, dim),
            at => at,
        }
    }

    #[cold]
    fn make(&mut self, link: u32, dim: u32) -> u32 {
        let (first, count) = self.classes.as_mut().map_or((link, 1), |classes| classes.of(link));
        if first != link {
            let at = self.state(first, dim);
            self.state_of[link as usize] = at;
            return at;
        }
        let full = units_of(self.cost(link, dim).0);
        let unit = u128::from(self.whole) * u128::from(count);
        let capacity = u128::from(full) * unit;
        self.states.push(LinkState {
            id: link,
            count,
            capacity,
            unit,
            full,
            members: Vec::new(),
            since: Time::ZERO,
            carried: 0,
            bytes: 0,
            messages: 0,
            busy: Span::ZERO,
            is_dirty: false,
            local: 0,
            seen: 0,
            demand: 0,
            load: 0,
            queued: NOT_QUEUED,
            found: NOWHERE,
        });
        self.rooms.push(Room {
            full_at: NOWHERE,
            left: capacity as i128,
            slack: self.limits.slack(capacity) as i128,
            round: 0,
            touched: 0,
            is_listed: false,
            is_known: false,
        });
        let at = self.states.len() as u32 - 1;
        self.state_of[link as usize] = at;
        at
    }

    /// Puts a flow that brings messages and bytes (times links, bytes times parts) on a link; returns its place among
    /// the members.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        now: Time,
        link: u32,
        (messages, bytes): (u128, u128),
        member: Member,
    ) -> u32 {
        let state = &mut self.states[link as usize];
        if state.members.is_empty() {
            state.since = now;
            self.rooms[link as usize].full_at = NOWHERE;
        }
        self.load += messages;
        state.load += messages;
        state.demand += member.demand;
        state.carried += bytes;
        state.messages += messages;
        state.members.push(member);
        state.members.len() as u32 - 1
    }

    /// Takes the member at `place` off a link. Returns the member that has its place now, and what
    /// the link has sent when it was the last one.
    #[inline]
    pub(crate) fn leave(
        &mut self,
        now: Time,
        link: u32,
        (messages, place): (u128, u32),
    ) -> (Option<Member>, Option<Sent>) {
        let state = &mut self.states[link as usize];
        let member = state.members.swap_remove(place as usize);
        self.load -= messages;
        state.load -= messages;
        state.demand -= member.demand;
        let moved = state.members.get(place as usize).copied();
        let sent = state.members.is_empty().then(|| self.pause(now, link));
        (moved, sent)
    }

    /// The link has nothing to send.
    fn pause(&mut self, now: Time, link: u32) -> Sent {
        let state = &mut self.states[link as usize];
        let (bytes, busy) = state.period(0, now);
        state.carried %= state.unit;
        state.bytes = state.bytes.saturating_add(bytes);
        state.busy += busy;
        let topology::Link { from, to, dim, .. } = self.graph.link(state.id);
        let count = self.classes.is_some().then_some(state.count);
        let link = LinkEnds { link: state.id, from, to, dim, count };
        Sent { link, begin: state.since, end: state.since + busy, bytes }
    }

    /// Accounts for flows that had the link to themselves, each for this long: their messages and
    /// their bytes (times parts and links), a whole number on every link.
    pub(crate) fn carry(
        &mut self,
        link: u32,
        (messages, bytes): (u128, u128),
        lasts: Span,
        times: u64,
    ) {
        let state = &mut self.states[link as usize];
        let bytes = u64::try_from(bytes / state.unit).unwrap_or(u64::MAX);
        let busy = Bandwidth(state.full >> RATE_BITS).span(Bytes(bytes)).min(lasts);
        state.bytes = state.bytes.saturating_add(bytes.saturating_mul(times));
        state.messages += messages * u128::from(times);
        state.busy += Span(busy.0.saturating_mul(times));
    }

    /// Bytes that were carried until then, where `left` gives the bytes that a member has still to
    /// send.
    pub(crate) fn usage(&self, until: Time, left: impl Fn(Member) -> u128) -> Vec<LinkUsage> {
        let used = self.states.iter().filter(|state| state.messages > 0);
        let mut order: Vec<&LinkState> = used.collect();
        order.sort_unstable_by_key(|state| state.id);
        let usage = |state: &LinkState| {
            let link = self.graph.link(state.id);
            let left = state.members.iter().map(|&member| left(member)).sum();
            let (bytes, busy) = state.period(left, until);
            LinkUsage {
                from: link.from,
                to: link.to,
                dim: link.dim,
                count: self.classes.is_some().then_some(state.count),
                bytes: state.bytes.saturating_add(bytes),
                messages: (state.messages / u128::from(state.count)) as u64,
                busy: state.busy + busy,
                waited: Span::ZERO,
                longest_queue: 0,
            }
        };
        order.into_iter().map(usage).collect()
    }
}
