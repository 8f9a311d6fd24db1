//! The backend: flows that start, get rates, drain and arrive.
//!
//! Model. A flow sends on all links of its route at once, at its max-min fair rate, from its start
//! until its last byte has left (it *drains*). It arrives one latency of its route later. So a flow
//! that shares nothing takes `sum of latencies + bytes / bandwidth` of its slowest link, and
//! switches cut through. Rates are found where flows start or drain, once for each instant, and only
//! for the flows whose rates change (`settle.rs`). Not modelled: packets, headers, buffers, loss and
//! the reaction time of congestion control (`net-packet`).
//!
//! Arithmetic. Rates are integers in 1 / 2^16 bytes per second. Where one was rounded down, less
//! than a unit is missing, and a flow drains at the first picosecond at which it can have sent
//! everything. So times are those of exact rates, rounded up to the picosecond once.
//!
//! Source: max-min fairness as a model of flows in networks: Casanova et al., "Versatile, scalable,
//! and accurate simulation of distributed applications and platforms", JPDC 74 (2014), section 3.

mod fill;
mod link_fill_level;
mod settle;
#[cfg(test)]
#[path = "tolerance_tests.rs"]
mod tolerance_tests;

use crate::drains::Drains;
use crate::fair::{NOWHERE, Solver, Use, share};
use crate::fluid::{Fluid, units_left};
use crate::limits::{Limits, RATE_BITS, rate};
use crate::links::{Links, Member, Sent};
use crate::path::Path;
use crate::route::Routes;
use crate::spread_state::SpreadState;
use engine::EventQueue;
use network::{
    Alike, Backend, ClosedForm, Contention, Delivery, Footprint, LinkClasses, LinkCost,
    NetworkSink, Sending, Transfer, Usage,
};
use topology::{LinkGraph, Part, Splitter};
use units::{Span, Time};

/// Bytes kept for a flow, a link and a link in use, rounded up for tables that grow by doubling.
const FLOW: u64 = 960;
const LINK: u64 = 4;
const USED_LINK: u64 = 384;

/// Events between two looks at whether the run goes on. One may share out a whole network.
const EVENTS_AT_ONCE: u32 = 1 << 4;

/// A link of a flow's route.
#[derive(Clone, Copy)]
pub(crate) struct Hop {
    pub used: Use,
    /// The flow's place among the members of the link.
    place: u32,
    /// How often its route goes over links that this one stands for.
    crossings: u32,
}

pub(crate) struct Flow {
    transfer: Transfer,
    pub hops: Vec<Hop>,
    latency: Span,
    /// Highest level of the flow.
    pub limit: Option<u64>,
    /// How many flows it stands for on the links.
    copies: u128,
    /// It had all its links to itself when it started.
    alone: bool,
    /// Number in the problem that was last solved.
    pub seen: u64,
}

/// The fair-flow backend.
pub struct FairFlows {
    pub(crate) links: Links,
    pub(crate) limits: Limits,
    pub(crate) routes: Routes,
    pub(crate) flows: Vec<Flow>,
    /// Path of each flow.
    pub(crate) paths: Vec<Path>,
    pub(crate) fluids: Vec<Fluid>,
    free: Vec<u32>,
    /// Flows that drain, and flows that arrive.
    drains: Drains,
    arrivals: EventQueue<u32>,
    order: u64,
    /// Links whose flows need new rates, and when they get them.
    pub(crate) dirty: Vec<u32>,
    pub(crate) dirty_at: Time,
    /// Flows that wait for their first rate.
    pub(crate) entered: Vec<u32>,
    /// Flows on links, and those that started or drained since rates were found.
    pub(crate) running: u128,
    pub(crate) stirred: u128,
    pub(crate) spread: SpreadState,
    pub(crate) solver: Solver,
    pub(crate) problem: u64,
    /// Links and flows of the problem being solved.
    pub(crate) reached_links: Vec<u32>,
    pub(crate) reached_flows: Vec<u32>,
    sink: Option<Box<dyn NetworkSink>>,
    /// Bytes of each dimension, on links that leave an NPU, by weight, times parts.
    pub(crate) bytes: Vec<u128>,
    pub(crate) transfers: u128,
    whole: u64,
}

impl FairFlows {
    /// A network over `graph`; `costs` by dimension, or by link when `by_link`.
    pub fn new(graph: LinkGraph, costs: Vec<LinkCost>, by_link: bool, limits: Limits) -> FairFlows {
        let whole = Splitter::whole(&graph);
        let links = Links::new(graph, costs, by_link, (limits, whole));
        FairFlows {
            bytes: vec![0; links.dims()],
            links,
            limits,
            routes: Routes::default(),
            flows: Vec::new(),
            paths: Vec::new(),
            fluids: Vec::new(),
            free: Vec::new(),
            drains: Drains::default(),
            arrivals: EventQueue::default(),
            order: 0,
            dirty: Vec::new(),
            dirty_at: Time::ZERO,
            entered: Vec::new(),
            running: 0,
            stirred: 0,
            spread: SpreadState::default(),
            solver: Solver::default(),
            problem: 0,
            reached_links: Vec::new(),
            reached_flows: Vec::new(),
            sink: None,
            transfers: 0,
            whole,
        }
    }

    /// The flow arrives one latency from now.
    #[inline]
    fn leave(&mut self, now: Time, at: u32) {
        self.order += 1;
        let arrival = now + self.flows[at as usize].latency;
        self.arrivals.push(arrival, self.order, at);
    }

    /// A place for `transfer`, not yet on its route.
    fn admit(&mut self, now: Time, transfer: Transfer) -> u32 {
        match self.free.pop() {
            Some(at) => {
                let flow = &mut self.flows[at as usize];
                let mut hops = std::mem::take(&mut flow.hops);
                hops.clear();
                *flow = Flow::new(transfer, hops);
                self.fluids[at as usize] = Fluid::new(transfer.bytes, now);
                at
            }
            None => {
                self.flows.push(Flow::new(transfer, Vec::new()));
                self.fluids.push(Fluid::new(transfer.bytes, now));
                self.paths.push(Path::new(None, [].into_iter()));
                self.flows.len() as u32 - 1
            }
        }
    }

    /// Puts an admitted flow on its links. It gets its rate at once if it has all of them to
    /// itself.
    fn enter(&mut self, now: Time, at: u32) {
        let flow = &mut self.flows[at as usize];
        let Transfer { src, dst, bytes, weight, .. } = flow.transfer;
        let route = self.routes.of(&mut self.links, &self.limits, (src, dst), bytes);
        flow.latency = route.latency;
        let carried = u128::from(bytes) * u128::from(weight);
        route.leaving.iter().for_each(|&(place, parts)| self.bytes[place] += carried * parts);
        if bytes == 0 {
            return self.leave(now, at);
        }
        flow.limit = route.limit;
        let fluid = &mut self.fluids[at as usize];
        fluid.weight = route.weight;
        let copies = if self.links.is_folded() { weight.into() } else { 1u128 };
        (flow.copies, flow.alone) = (copies, true);
        self.running += copies;
        for (hop, crossed) in (0..).zip(&route.crossed) {
            let (link, crossings) = (crossed.link, crossed.crossings);
            flow.alone &= self.links.states[link as usize].members.is_empty();
            let brings =
                (copies * u128::from(crossings), copies * crossed.parts * u128::from(bytes));
            let used = route.used(crossed, copies);
            let member = Member { flow: at, hop, demand: used.demand };
            let place = self.links.enter(now, link, brings, member);
            self.links.rooms[link as usize].shift(used.demand, (0, NOWHERE.value));
            flow.hops.push(Hop { used, place, crossings });
        }
        self.paths[at as usize] = Path::new(flow.limit, flow.hops.iter().map(|hop| hop.used));
        if flow.alone {
            let level = route.alone(&mut self.links, copies);
            (fluid.rate, fluid.rounded) = (rate(level.value, fluid.weight), !level.exact);
            self.paths[at as usize].level = level;
            return self.plan(at);
        }
        self.join(now, at);
    }

    /// A flow that does not have its links to itself waits for its first rate.
    fn join(&mut self, now: Time, at: u32) {
        self.stirred += self.flows[at as usize].copies;
        self.entered.push(at);
        for hop in 0..self.flows[at as usize].hops.len() {
            let link = self.flows[at as usize].hops[hop].used.link;
            self.soil(now, link);
            let first = self.links.states[link as usize].members[0].flow;
            let (flow, fluid) = (&self.flows[first as usize], &self.fluids[first as usize]);
            if flow.alone && fluid.at == now && self.limits.settings.rates_every == Span::ZERO {
                self.meet(now, first);
            }
        }
    }

    /// A flow that had its links to itself at this instant does not: it is as if it had come with
    /// the others.
    fn meet(&mut self, now: Time, at: u32) {
        let flow = &mut self.flows[at as usize];
        flow.alone = false;
        let old = std::mem::replace(&mut self.paths[at as usize].level, NOWHERE);
        for Hop { used: Use { link, demand }, .. } in &flow.hops {
            let room = &mut self.links.rooms[*link as usize];
            room.shift(*demand, (old.value, NOWHERE.value));
            room.full_at = NOWHERE;
        }
        self.join(now, at);
    }

    /// The flows of `link` need new rates.
    fn soil(&mut self, now: Time, link: u32) {
        let state = &mut self.links.states[link as usize];
        if !std::mem::replace(&mut state.is_dirty, true) {
            self.dirty.push(link);
            // Where rates are found now and then, all changes until then are one.
            let every = self.limits.settings.rates_every.0.max(1);
            self.dirty_at = Time(now.0.div_ceil(every).saturating_mul(every));
        }
    }

    /// The flow has sent its last byte. Those that shared links with it can go faster.
    fn drain(&mut self, now: Time, at: u32) {
        let flow = &mut self.flows[at as usize];
        let (hops, copies) = (std::mem::take(&mut flow.hops), flow.copies);
        let level = self.paths[at as usize].level;
        self.running -= copies;
        self.stirred += copies;
        for hop in &hops {
            let Use { link, demand } = hop.used;
            self.links.rooms[link as usize].shift(demand, (level.value, 0));
            let messages = copies * u128::from(hop.crossings);
            let (moved, sent) = self.links.leave(now, link, (messages, hop.place));
            if let Some(Member { flow, hop: theirs, .. }) = moved {
                self.flows[flow as usize].hops[theirs as usize].place = hop.place;
            }
            match sent {
                Some(sent) => self.report(sent, at),
                None => self.soil(now, link),
            }
        }
        self.flows[at as usize].hops = hops;
        self.leave(now, at);
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

    /// Plans the flow's drain. Where it drains later than planned, that is found out then.
    #[inline]
    pub(crate) fn plan(&mut self, at: u32) {
        let fluid = &mut self.fluids[at as usize];
        let time = fluid.drains();
        if time < fluid.planned {
            fluid.planned = time;
            self.drains.plan(at, time);
        }
    }

    /// When something drains or arrives next.
    #[inline]
    fn next(&self) -> Option<Time> {
        let drains = self.drains.peek().map(|(time, _)| time);
        let arrives = self.arrivals.peek().map(|(time, _)| time);
        drains.into_iter().chain(arrives).min()
    }

    /// Bytes that a member of a link has still to send over it then, times parts and links.
    fn left(&self, Member { flow, demand, .. }: Member, until: Time) -> u128 {
        let fluid = &self.fluids[flow as usize];
        let demand = demand / u128::from(fluid.weight);
        demand * u128::from(fluid.left(until))
    }

    /// When rates must be found again: before anything later than this.
    #[inline]
    fn due(&self) -> Option<Time> {
        (!self.dirty.is_empty()).then_some(self.dirty_at)
    }
}

impl Flow {
    /// A flow without a route.
    fn new(transfer: Transfer, hops: Vec<Hop>) -> Flow {
        Flow { transfer, hops, latency: Span::ZERO, limit: None, copies: 1, alone: false, seen: 0 }
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
        let next = self.next();
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
        let mut left = EVENTS_AT_ONCE;
        while left > 0 || finished.len() > before {
            left = left.saturating_sub(1);
            let next = self.next().filter(|&time| time <= until);
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
            match self.drains.peek().filter(|&(time, _)| time == next) {
                Some((time, flow)) => {
                    let fluid = &mut self.fluids[flow as usize];
                    let drains = fluid.drains();
                    if drains <= time {
                        self.drains.pop();
                        fluid.planned = Time::MAX;
                        self.drain(time, flow);
                    } else {
                        fluid.planned = drains;
                        self.drains.put_off(drains);
                    }
                }
                None => {
                    let Some((time, flow)) = self.arrivals.pop() else { return };
                    self.arrive(time, flow, finished);
                }
            }
        }
    }

    fn physical_minimum(&self, src: u32, dst: u32, bytes: u64) -> Span {
        let mut splitter = Splitter::default();
        splitter.find(&self.links.graph, (src, dst), bytes);
        let latency: Span = splitter
            .found
            .iter()
            .filter(|part| part.leads)
            .map(|p| self.links.cost(p.link, p.dim).1)
            .sum();
        let weight = self.limits.weight(latency);
        let full = |part: &Part| {
            let capacity = u128::from(self.links.cost(part.link, part.dim).0.0) << RATE_BITS;
            let demand = u128::from(part.parts) * u128::from(weight);
            share(capacity * u128::from(self.whole), demand)
        };
        let level = splitter.found.iter().map(full).min().unwrap_or(u64::MAX);
        let limit = self.limits.level(weight, || self.links.slowest(&splitter.found));
        let level = level.min(limit.unwrap_or(u64::MAX));
        let rate = rate(level, weight);
        latency + Span(u64::try_from(units_left(bytes).div_ceil(rate.into())).unwrap_or(u64::MAX))
    }

    fn usage(&self, until: Time) -> Usage {
        let whole = u128::from(self.whole);
        Usage {
            outermost: Vec::new(),
            busiest: None,
            bytes: self.bytes.iter().map(|bytes| bytes.div_ceil(whole)).collect(),
            transfers: self.transfers,
            stored: 0,
            links: self.links.usage(until, |member| self.left(member, until)),
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
