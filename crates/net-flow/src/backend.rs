//! The backend: flows that start, get rates, drain and arrive.
//!
//! Model. A flow sends on all links of its route at once, at its max-min fair rate, from its start
//! until its last byte has left (it *drains*). It arrives one latency of its route later. So a flow
//! that shares nothing takes `sum of latencies + bytes / bandwidth` of its slowest link, and
//! switches cut through. Rates change only where flows start or drain, once for each instant, and
//! only for the flows that the change can reach: those that share links with it, with those, and so
//! on. Not modelled: packets, headers, buffers, loss and the reaction time of congestion control
//! (`net-packet`).
//!
//! Arithmetic. Rates are integers in 1 / 2^16 bytes per second. Where one was rounded down, less
//! than a unit is missing, and a flow drains at the first picosecond at which it can have sent
//! everything. So times are those of exact rates, rounded up to the picosecond once.
//!
//! Source: max-min fairness as a model of flows in networks: Casanova et al., "Versatile, scalable,
//! and accurate simulation of distributed applications and platforms", JPDC 74 (2014), section 3.

use crate::fair::{Solver, Use, share};
use crate::limits::{Limits, rate};
use crate::links::{Links, Member, RATE_BITS, Sent};
use crate::route::Routes;
use engine::EventQueue;
use network::{
    Alike, Backend, ClosedForm, Contention, Delivery, Footprint, LinkClasses, LinkCost,
    NetworkSink, Sending, Transfer, Usage,
};
use topology::{LinkGraph, Part, Splitter};
use units::{PS_PER_US, Span, Time};

/// Bytes kept for a flow, a link and a link in use, rounded up for tables that grow by doubling.
const FLOW: u64 = 480;
const LINK: u64 = 4;
const USED_LINK: u64 = 256;

const PS_PER_S: u128 = PS_PER_US as u128 * 1_000_000;

#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// The flow has sent its last byte, unless its rates have changed since.
    Drain { flow: u32, schedule: u32 },
    /// The flow has arrived.
    Arrive { flow: u32 },
}

/// A link of a flow's route.
#[derive(Clone, Copy)]
pub(crate) struct Hop {
    used: Use,
    /// The flow's place among the members of the link.
    place: u32,
}

pub(crate) struct Flow {
    transfer: Transfer,
    hops: Vec<Hop>,
    latency: Span,
    pub weight: u64,
    /// Its highest level.
    limit: Option<u64>,
    /// In units of rate.
    pub rate: u64,
    /// The rate was rounded down.
    pub rounded: bool,
    /// In units of rate times picoseconds, at the instant `at`.
    left: u128,
    /// What it may have sent in addition, had no rate been rounded.
    slack: u64,
    at: Time,
    /// Which of its drain events counts.
    schedule: u32,
    /// Number in the problem that was last solved.
    seen: u64,
}

/// The fair-flow backend.
pub struct FairFlows {
    pub(crate) links: Links,
    pub(crate) limits: Limits,
    pub(crate) routes: Routes,
    flows: Vec<Flow>,
    free: Vec<u32>,
    queue: EventQueue<Event>,
    order: u64,
    /// Links whose flows need new rates, and since when.
    dirty: Vec<u32>,
    dirty_at: Time,
    solver: Solver,
    problem: u64,
    /// Links and flows of the problem being solved.
    reached_links: Vec<u32>,
    reached_flows: Vec<u32>,
    sink: Option<Box<dyn NetworkSink>>,
    /// By dimension, on links that leave an NPU, by weight, times parts.
    pub(crate) bytes: Vec<u128>,
    pub(crate) transfers: u128,
    whole: u64,
}

impl FairFlows {
    /// A network over `graph`; `costs` by dimension, or by link when `by_link`.
    pub fn new(graph: LinkGraph, costs: Vec<LinkCost>, by_link: bool, limits: Limits) -> FairFlows {
        let whole = Splitter::whole(&graph);
        let links = Links::new(graph, costs, by_link, (limits.efficiency, whole));
        FairFlows {
            bytes: vec![0; links.dims()],
            links,
            limits,
            routes: Routes::default(),
            flows: Vec::new(),
            free: Vec::new(),
            queue: EventQueue::default(),
            order: 0,
            dirty: Vec::new(),
            dirty_at: Time::ZERO,
            solver: Solver::default(),
            problem: 0,
            reached_links: Vec::new(),
            reached_flows: Vec::new(),
            sink: None,
            transfers: 0,
            whole,
        }
    }

    #[inline]
    fn push(&mut self, time: Time, event: Event) {
        self.order += 1;
        self.queue.push(time, self.order, event);
    }

    /// A place for `transfer`, not yet on its route.
    fn admit(&mut self, now: Time, transfer: Transfer) -> u32 {
        match self.free.pop() {
            Some(at) => {
                let flow = &mut self.flows[at as usize];
                let (schedule, mut hops) = (flow.schedule, std::mem::take(&mut flow.hops));
                hops.clear();
                *flow = Flow { schedule, ..Flow::new(transfer, now, hops) };
                at
            }
            None => {
                self.flows.push(Flow::new(transfer, now, Vec::new()));
                self.flows.len() as u32 - 1
            }
        }
    }

    /// Puts an admitted flow on its links. It gets its rate at once if it has all of them to
    /// itself.
    fn enter(&mut self, now: Time, at: u32) {
        let flow = &mut self.flows[at as usize];
        let Transfer { src, dst, bytes, weight, .. } = flow.transfer;
        let route = self.routes.of(&mut self.links, &self.limits, (src, dst));
        flow.latency = route.latency;
        let carried = u128::from(bytes) * u128::from(weight);
        route.leaving.iter().for_each(|&(place, parts)| self.bytes[place] += carried * parts);
        if bytes == 0 {
            let arrival = now + flow.latency;
            return self.push(arrival, Event::Arrive { flow: at });
        }
        (flow.weight, flow.limit) = (route.weight, route.limit);
        let copies = if self.links.is_folded() { weight.into() } else { 1u128 };
        let mut alone = true;
        for (hop, crossed) in (0..).zip(&route.crossed) {
            alone &= self.links.states[crossed.link as usize].members.is_empty();
            let brings = (
                copies * u128::from(crossed.crossings),
                copies * crossed.parts * u128::from(bytes),
            );
            let place = self.links.enter(now, crossed.link, brings, Member { flow: at, hop });
            flow.hops.push(Hop { used: route.used(crossed, copies), place });
        }
        if alone {
            let level = route.alone(&self.links.states, copies);
            (flow.rate, flow.rounded) = (rate(level.value, flow.weight), !level.exact);
            let (time, event) = flow.drains(at);
            return self.push(time, event);
        }
        for hop in 0..self.flows[at as usize].hops.len() {
            self.soil(now, self.flows[at as usize].hops[hop].used.link);
        }
    }

    /// The flows of `link` need new rates.
    fn soil(&mut self, now: Time, link: u32) {
        let state = &mut self.links.states[link as usize];
        if !std::mem::replace(&mut state.is_dirty, true) {
            self.dirty.push(link);
            self.dirty_at = now;
        }
    }

    /// The flow has sent its last byte. Those that shared links with it can go faster.
    fn drain(&mut self, now: Time, at: u32) {
        let hops = std::mem::take(&mut self.flows[at as usize].hops);
        for hop in &hops {
            let link = hop.used.link;
            let (moved, sent) = self.links.leave(now, link, hop.place);
            if let Some(Member { flow, hop: theirs }) = moved {
                self.flows[flow as usize].hops[theirs as usize].place = hop.place;
            }
            match sent {
                Some(sent) => self.report(sent, at),
                None => self.soil(now, link),
            }
        }
        let flow = &mut self.flows[at as usize];
        flow.hops = hops;
        let arrival = now + flow.latency;
        self.push(arrival, Event::Arrive { flow: at });
    }

    fn report(&mut self, Sent { link, begin, end, bytes }: Sent, flow: u32) {
        if let Some(sink) = &mut self.sink {
            let token = self.flows[flow as usize].transfer.token;
            sink.sends(&Sending { link, token, begin, end, bytes });
        }
    }

    fn arrive(&mut self, now: Time, at: u32, finished: &mut Vec<Delivery>) {
        let delivery = Delivery { token: self.flows[at as usize].transfer.token, time: now };
        self.free.push(at);
        finished.push(delivery);
        if let Some(sink) = &mut self.sink {
            sink.arrives(&delivery);
        }
    }

    /// Gives new rates to all flows that the changes of the last instant can reach.
    #[inline(never)]
    fn settle(&mut self) {
        let now = self.dirty_at;
        self.reach();
        self.pose();
        let levels = self.solver.solve();
        for (&at, &level) in self.reached_flows.iter().zip(levels) {
            let flow = &mut self.flows[at as usize];
            let rate = rate(level.value, flow.weight);
            if (rate, level.exact) == (flow.rate, !flow.rounded) {
                continue;
            }
            flow.change(now, rate, !level.exact);
            let (time, event) = flow.drains(at);
            self.order += 1;
            self.queue.push(time, self.order, event);
        }
    }

    /// Collects the links and flows that are joined to a dirty link.
    fn reach(&mut self) {
        self.problem += 1;
        self.reached_links.clear();
        self.reached_flows.clear();
        for link in self.dirty.drain(..) {
            let state = &mut self.links.states[link as usize];
            state.is_dirty = false;
            if state.seen != self.problem {
                state.seen = self.problem;
                self.reached_links.push(link);
            }
        }
        let mut next = 0;
        while let Some(&link) = self.reached_links.get(next) {
            self.links.states[link as usize].local = next as u32;
            next += 1;
            for member in 0..self.links.states[link as usize].members.len() {
                let at = self.links.states[link as usize].members[member].flow;
                let flow = &mut self.flows[at as usize];
                if std::mem::replace(&mut flow.seen, self.problem) == self.problem {
                    continue;
                }
                self.reached_flows.push(at);
                for hop in &flow.hops {
                    let state = &mut self.links.states[hop.used.link as usize];
                    if state.seen != self.problem {
                        state.seen = self.problem;
                        self.reached_links.push(hop.used.link);
                    }
                }
            }
        }
    }

    /// States the problem of the links and flows that were reached.
    fn pose(&mut self) {
        self.solver.clear();
        for &link in &self.reached_links {
            self.solver.link(self.links.states[link as usize].capacity);
        }
        for &at in &self.reached_flows {
            let flow = &self.flows[at as usize];
            let states = &self.links.states;
            let local = |hop: &Hop| Use {
                link: states[hop.used.link as usize].local,
                demand: hop.used.demand,
            };
            self.solver.flow(flow.limit, flow.hops.iter().map(local));
        }
    }

    /// When rates must be found again: before anything later than this.
    #[inline]
    fn due(&self) -> Option<Time> {
        (!self.dirty.is_empty()).then_some(self.dirty_at)
    }
}

impl Flow {
    /// A flow without a route or a rate.
    pub(crate) fn new(transfer: Transfer, now: Time, hops: Vec<Hop>) -> Flow {
        Flow {
            transfer,
            hops,
            latency: Span::ZERO,
            weight: 1,
            limit: None,
            rate: 0,
            rounded: false,
            left: (u128::from(transfer.bytes) * PS_PER_S) << RATE_BITS,
            slack: 0,
            at: now,
            schedule: 0,
            seen: 0,
        }
    }

    /// Goes on at another rate.
    #[inline]
    fn change(&mut self, now: Time, rate: u64, rounded: bool) {
        let span = now.since(self.at).0;
        let sent = u128::from(self.rate) * u128::from(span);
        self.left = self.left.saturating_sub(sent);
        if self.rounded {
            self.slack = self.slack.saturating_add(span.saturating_mul(self.weight));
        }
        (self.at, self.rate, self.rounded) = (now, rate, rounded);
    }

    /// When the flow drains at its rate: the first picosecond at which it can have sent everything.
    /// A rate that was rounded down is less than a unit of its weight too low.
    #[inline]
    pub(crate) fn drains(&mut self, at: u32) -> (Time, Event) {
        let left = self.left.saturating_sub(self.slack.into());
        let missing = if self.rounded { self.weight } else { 0 };
        let span = left.div_ceil(u128::from(self.rate) + u128::from(missing));
        let time = self.at + Span(u64::try_from(span).unwrap_or(u64::MAX));
        self.schedule = self.schedule.wrapping_add(1);
        (time, Event::Drain { flow: at, schedule: self.schedule })
    }
}

impl Backend for FairFlows {
    #[inline]
    fn start(&mut self, now: Time, transfer: Transfer) {
        if self.due().is_some_and(|due| due < now) {
            self.settle();
        }
        self.transfers += u128::from(transfer.weight);
        if let Some(sink) = &mut self.sink {
            sink.starts(now, &transfer);
        }
        let at = self.admit(now, transfer);
        self.enter(now, at);
    }

    #[inline]
    fn next_event(&self) -> Option<Time> {
        let next = self.queue.peek().map(|(time, _)| time);
        // Nothing drains at the instant at which rates change: everything else of that instant
        // comes before the rates are found.
        let due = self.due().map(|due| Time(due.0.saturating_add(1)));
        match (next, due) {
            (Some(next), Some(due)) => Some(next.min(due)),
            (next, due) => next.or(due),
        }
    }

    #[inline]
    fn advance(&mut self, until: Time, finished: &mut Vec<Delivery>) {
        let before = finished.len();
        loop {
            let next = self.queue.peek().map(|(time, _)| time).filter(|&time| time <= until);
            if let Some(due) = self.due().filter(|&due| due < until)
                && next.is_none_or(|next| next > due)
            {
                self.settle();
                continue;
            }
            let Some(next) = next else { return };
            if finished.get(before).is_some_and(|first| first.time < next) {
                return;
            }
            let Some((time, event)) = self.queue.pop() else { return };
            match event {
                Event::Drain { flow, schedule } => {
                    if self.flows[flow as usize].schedule == schedule {
                        self.drain(time, flow);
                    }
                }
                Event::Arrive { flow } => self.arrive(time, flow, finished),
            }
        }
    }

    fn physical_minimum(&self, src: u32, dst: u32, bytes: u64) -> Span {
        let mut splitter = Splitter::default();
        splitter.find(&self.links.graph, (src, dst));
        let latency: Span = splitter
            .found
            .iter()
            .filter(|part| part.leads)
            .map(|p| self.links.cost(p.link, p.dim).1)
            .sum();
        let weight = self.limits.weights.of(latency);
        let full = |part: &Part| {
            let capacity = u128::from(self.links.cost(part.link, part.dim).0.0) << RATE_BITS;
            let demand = u128::from(part.parts) * u128::from(weight);
            share(capacity * u128::from(self.whole), demand)
        };
        let level = splitter.found.iter().map(full).min().unwrap_or(u64::MAX);
        let limit = self.limits.level(weight, || self.links.slowest(&splitter.found));
        let level = level.min(limit.unwrap_or(u64::MAX));
        let left = (u128::from(bytes) * PS_PER_S) << RATE_BITS;
        let rate = rate(level, weight);
        latency + Span(u64::try_from(left.div_ceil(rate.into())).unwrap_or(u64::MAX))
    }

    fn usage(&self) -> Usage {
        let whole = u128::from(self.whole);
        Usage {
            outermost: Vec::new(),
            busiest: None,
            bytes: self.bytes.iter().map(|bytes| bytes.div_ceil(whole)).collect(),
            transfers: self.transfers,
            stored: 0,
            links: self.links.usage(),
            packets: None,
            flits: None,
        }
    }

    fn contention(&self) -> Contention {
        Contention::Links
    }

    fn alike(&self) -> Alike {
        Alike::Classes
    }

    fn fold(&mut self, classes: Box<dyn LinkClasses>) {
        self.links.fold(classes);
    }

    fn footprint(&self) -> Footprint {
        let links = self.links.graph.len().into();
        Footprint { transfer: FLOW, links, link: LINK, used_link: USED_LINK, packet: 0 }
    }

    fn observe(&mut self, sink: Box<dyn NetworkSink>) -> bool {
        self.sink = Some(sink);
        true
    }

    fn closed_form(&self) -> Option<&dyn ClosedForm> {
        Some(self)
    }

    fn closed_form_mut(&mut self) -> Option<&mut dyn ClosedForm> {
        Some(self)
    }
}
