//! Flits as a network of transfers.
//!
//! Every node of the topology is a router, and every NPU has a network interface with a link for
//! each of those by which it sends. A transfer is cut into packets; it is delivered when the last
//! flit has arrived. Here: [`Flits`]. Ways, and the proof that they cannot lock up, are in
//! `routes.rs`.

mod circle;
mod layers;
mod routes;

use crate::fabric::{CYCLE, Channel, End, Fabric, Packet};
use crate::garnet::{self, Arrival, Garnet};
use network::{
    Backend, BlockedPort, Delivery, Footprint, LinkCost, LinkEnds, LinkUsage, NetworkSink, Sending,
    Stuck, Transfer, Usage,
};
use routes::Routes;
pub use routes::{Circle, Hop};
use topology::LinkGraph;
use units::{Span, Time};

/// Cycles for which links report together what they have sent.
const WINDOW: u64 = 256;
/// Lanes of a network interface.
const LANES: u32 = 64;
/// Flits over which the time of one is measured.
const MANY: u64 = 1 << 20;

/// Settings of a network of flits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Length of a cycle.
    pub cycle: Span,
    /// Bytes of a flit.
    pub flit: u32,
    /// Bytes of a packet: a multiple of `flit`.
    pub packet: u32,
    /// Virtual channels of each class; where it is `None`, as many as fill every link.
    pub virtual_channels: Option<u32>,
    /// Flits that each of them holds.
    pub buffers: u32,
    /// Cycles of a router, at least 1.
    pub router_latency: u32,
}

/// A transfer that has not arrived.
#[derive(Clone, Copy, Debug)]
struct Open {
    token: u64,
    packets: u64,
}

/// A network of routers with virtual channels and credits.
pub struct Flits {
    network: Garnet<Routes>,
    graph: LinkGraph,
    costs: Vec<LinkCost>,
    by_link: bool,
    settings: Settings,
    /// Time that a flit occupies each link, in parts of a cycle.
    occupancies: Vec<u64>,
    open: Vec<Open>,
    free: Vec<u32>,
    arrived: Vec<Arrival>,
    bytes: Vec<u128>,
    transfers: u128,
    sink: Option<Box<dyn NetworkSink>>,
    reported: Reported,
}

/// What was reported.
#[derive(Clone, Debug)]
struct Reported {
    /// Flits of each link, and until when they take.
    links: Vec<(u64, Time)>,
    /// The cycle of the last report.
    cycle: u64,
}

impl Flits {
    /// A network over `graph`, the links of `fabric`; `costs` by dimension, or by link when
    /// `by_link`.
    ///
    /// # Errors
    /// Channels that depend on one another in a circle, so that the network could lock up.
    pub fn new(
        fabric: &topology::Fabric,
        graph: LinkGraph,
        (costs, by_link): (Vec<LinkCost>, bool),
        settings: Settings,
    ) -> Result<Flits, Circle> {
        let (routes, classes) = Routes::new(fabric, &graph)?;
        let cost = |link: u32| costs[if by_link { link } else { graph.dim(link) } as usize];
        let occupancies: Vec<u64> =
            (0..graph.len()).map(|link| occupancy(&cost(link), &settings)).collect();
        let cycles = |link: u32| {
            let latency = cost(link).transit(1, 0).0;
            u32::try_from(latency.div_ceil(settings.cycle.0)).unwrap_or(u32::MAX).max(1)
        };
        let (flits, ejections) = build(&graph, classes, &occupancies, cycles);
        let routes = routes.with_ejections(ejections);
        let router = garnet::Settings {
            vnets: classes,
            vcs_per_vnet: settings.virtual_channels.unwrap_or_else(|| fill(&flits, &settings)),
            buffers_per_vc: settings.buffers,
            router_latency: settings.router_latency,
            interleaves: false,
        };
        let dims = if by_link { 1 } else { costs.len() };
        Ok(Flits {
            network: Garnet::new(&flits, router, routes),
            reported: Reported { links: vec![(0, Time::ZERO); graph.len() as usize], cycle: 0 },
            graph,
            costs,
            by_link,
            settings,
            occupancies,
            open: Vec::new(),
            free: Vec::new(),
            arrived: Vec::new(),
            bytes: vec![0; dims],
            transfers: 0,
            sink: None,
        })
    }

    /// Checks after every cycle that no flit and no credit is lost.
    #[must_use]
    pub fn checked(mut self) -> Flits {
        self.network = self.network.checked();
        self
    }

    /// Virtual channels of each class.
    pub fn virtual_channels(&self) -> u32 {
        self.network.settings().vcs_per_vnet
    }

    /// Flits that have crossed a router.
    pub fn traversals(&self) -> u64 {
        self.network.traversals()
    }

    fn cost(&self, link: u32) -> &LinkCost {
        &self.costs[if self.by_link { link } else { self.graph.dim(link) } as usize]
    }

    fn time(&self, cycle: u64) -> Time {
        Time(cycle * self.settings.cycle.0)
    }

    /// What an open transfer is called in the network.
    fn remember(&mut self, open: Open) -> u64 {
        if let Some(number) = self.free.pop() {
            self.open[number as usize] = open;
            return number.into();
        }
        self.open.push(open);
        self.open.len() as u64 - 1
    }

    /// Deliveries of the packets that have arrived.
    fn deliver(&mut self, finished: &mut Vec<Delivery>) {
        let mut arrived = std::mem::take(&mut self.arrived);
        for arrival in arrived.drain(..) {
            let open = &mut self.open[arrival.token as usize];
            open.packets -= 1;
            if open.packets == 0 {
                let delivery = Delivery { token: open.token, time: self.time(arrival.cycle) };
                if let Some(sink) = &mut self.sink {
                    sink.arrives(&delivery);
                }
                self.free.push(arrival.token as u32);
                finished.push(delivery);
            }
        }
        self.arrived = arrived;
    }

    /// How long a link sends so many flits.
    fn busy(&self, link: u32, flits: u64) -> Span {
        busy(self.occupancies[link as usize], &self.settings, flits)
    }

    /// Reports what links have been given to send since the last time, of those that have sent what
    /// was reported before; at the end of all.
    fn report(&mut self, now: u64, is_end: bool) {
        let Some(sink) = &mut self.sink else { return };
        let cycle = self.settings.cycle.0;
        let (since, now) = (Time(self.reported.cycle * cycle), Time(now * cycle));
        let mut all: Vec<Sending> = Vec::new();
        for (link, counters) in (0..self.graph.len()).zip(self.network.counters()) {
            let (before, until) = &mut self.reported.links[link as usize];
            if counters.flits == *before || *until > now && !is_end {
                continue;
            }
            let occupancy = self.occupancies[link as usize];
            let [old, new] = [*before, counters.flits].map(|n| busy(occupancy, &self.settings, n));
            let begin = since.max(*until);
            let bytes = (counters.flits - *before) * u64::from(self.settings.flit);
            (*before, *until) = (counters.flits, begin + Span(new.0 - old.0));
            let ends = self.graph.link(link);
            let link = LinkEnds { link, from: ends.from, to: ends.to, dim: ends.dim, count: None };
            all.push(Sending { link, token: 0, begin, end: *until, bytes });
        }
        all.sort_by_key(|sending| (sending.begin, sending.link.link));
        all.iter().for_each(|sending| sink.sends(sending));
        self.reported.cycle = now.0 / cycle;
    }
}

/// How long a link sends so many flits.
fn busy(occupancy: u64, settings: &Settings, flits: u64) -> Span {
    let parts = u128::from(flits) * u128::from(occupancy) * u128::from(settings.cycle.0);
    Span(u64::try_from(parts / u128::from(CYCLE)).unwrap_or(u64::MAX))
}

/// Time that a flit occupies a link, in parts of a cycle, at least one.
fn occupancy(cost: &LinkCost, settings: &Settings) -> u64 {
    let many = u128::from(cost.occupancy(u64::from(settings.flit) * MANY).0);
    let parts =
        (many * u128::from(CYCLE)).div_ceil(u128::from(settings.cycle.0) * u128::from(MANY));
    u64::try_from(parts).unwrap_or(u64::MAX).max(CYCLE)
}

/// The channels of a topology: its links first, by their numbers, then those of the interfaces. An
/// NPU has as many each way as it has links. Returns the first channel to each node and their
/// number as well.
fn build(
    graph: &LinkGraph,
    classes: u16,
    occupancies: &[u64],
    latency: impl Fn(u32) -> u32,
) -> (Fabric, Vec<(u32, u32)>) {
    let npus = graph.npus();
    let mut fabric = Fabric { routers: graph.nodes(), nodes: npus, ..Fabric::default() };
    let (mut leaving, mut entering) = (vec![0u32; npus as usize], vec![0u32; npus as usize]);
    for link in 0..graph.len() {
        let ends = graph.link(link);
        fabric.channels.push(Channel {
            from: End::Router(ends.from),
            to: End::Router(ends.to),
            latency: latency(link),
            occupancy: occupancies[link as usize],
            vnets: 0..classes,
        });
        if let Some(count) = leaving.get_mut(ends.from as usize) {
            *count += 1;
        }
        if let Some(count) = entering.get_mut(ends.to as usize) {
            *count += 1;
        }
    }
    let most = LANES / u32::from(classes);
    let mut ejections = Vec::with_capacity(npus as usize);
    for npu in 0..npus {
        let (node, router) = (End::Node(npu), End::Router(npu));
        for _ in 0..leaving[npu as usize].clamp(1, most) {
            fabric.channel(node, router, 1, 0..classes);
        }
        let count = entering[npu as usize].clamp(1, most);
        let first = (0..count).map(|_| fabric.channel(router, node, 1, 0..classes)).min();
        ejections.push((first.unwrap_or_default(), count));
    }
    (fabric, ejections)
}

/// Virtual channels of a class that keep every link busy: each is free again a round trip after a
/// packet has taken it.
fn fill(fabric: &Fabric, settings: &Settings) -> u32 {
    let flits = u64::from(settings.packet / settings.flit);
    let needs = |channel: &Channel| {
        let packet = flits * channel.occupancy;
        let around = 4
            + 2 * u64::from(channel.latency)
            + u64::from(settings.router_latency)
            + 6 * (channel.occupancy.div_ceil(CYCLE));
        (around * CYCLE).div_ceil(packet) + 2
    };
    fabric.channels.iter().map(needs).max().unwrap_or(1).min(4096) as u32
}

impl Backend for Flits {
    fn start(&mut self, now: Time, transfer: Transfer) {
        let Transfer { src, dst, bytes, token, weight, .. } = transfer;
        self.transfers += u128::from(weight);
        if let Some(sink) = &mut self.sink {
            sink.starts(now, &transfer);
        }
        let (way, first) = self.network.routing_mut().way(&self.graph, src, dst);
        for hop in self
            .graph
            .route(src, dst)
            .filter(|hop| self.graph.link(hop.link).from < self.graph.npus())
        {
            let dim = if self.by_link { 0 } else { self.graph.dim(hop.link) };
            self.bytes[dim as usize] += u128::from(bytes) * u128::from(weight);
        }
        let bytes = bytes.max(1);
        let packets = bytes.div_ceil(self.settings.packet.into());
        let rest = bytes - (packets - 1) * u64::from(self.settings.packet);
        let number = self.remember(Open { token, packets });
        let packet = Packet {
            src,
            dst,
            vnet: first.class,
            flits: self.settings.packet / self.settings.flit,
            port: self.network.routing_mut().exit(first.link) as u16,
            way,
        };
        let cycle = now.0.div_ceil(self.settings.cycle.0).max(self.network.now());
        let last = rest.div_ceil(self.settings.flit.into()) as u32;
        self.network.send_many(cycle, packet, (packets, last), number);
    }

    fn next_event(&self) -> Option<Time> {
        if self.network.under_way() == 0 {
            return None;
        }
        self.network.next().map(|cycle| self.time(cycle))
    }

    fn advance(&mut self, until: Time, finished: &mut Vec<Delivery>) {
        let (last, before) = (until.0 / self.settings.cycle.0, finished.len());
        while finished.len() == before && self.network.under_way() > 0 {
            let Some(next) = self.network.next().filter(|&next| next <= last) else { return };
            if self.sink.is_some() && next >= self.reported.cycle + WINDOW {
                self.report(next, false);
            }
            self.network.run(next, &mut self.arrived);
            self.deliver(finished);
        }
        if self.network.under_way() == 0 {
            self.report(self.network.now() + 1, true);
        }
    }

    fn physical_minimum(&self, src: u32, dst: u32, bytes: u64) -> Span {
        let links = || self.graph.route(src, dst).map(|hop| self.cost(hop.link));
        let latency: Span = links().map(|cost| cost.transit(1, 0)).sum();
        latency + links().map(|cost| cost.occupancy(bytes)).max().unwrap_or_default()
    }

    fn usage(&self) -> Usage {
        let used = (0..self.graph.len()).zip(self.network.counters());
        let usage = |(link, counters): (u32, garnet::Counters)| {
            let ends = self.graph.link(link);
            LinkUsage {
                from: ends.from,
                to: ends.to,
                dim: ends.dim,
                count: None,
                bytes: counters.flits * u64::from(self.settings.flit),
                messages: counters.packets,
                busy: self.busy(link, counters.flits),
                waited: Span::ZERO,
                longest_queue: 0,
            }
        };
        Usage {
            bytes: self.bytes.clone(),
            transfers: self.transfers,
            links: used.filter(|(_, counters)| counters.flits > 0).map(usage).collect(),
            ..Usage::default()
        }
    }

    fn footprint(&self) -> Footprint {
        let slots = 2 * u64::from(self.virtual_channels());
        Footprint {
            transfer: 128,
            links: self.graph.len().into(),
            link: slots * 48,
            used_link: 0,
            packet: self.settings.flit.into(),
        }
    }

    fn stalled(&self) -> Option<Stuck> {
        let cycle = self.network.deadlock()?;
        let blocked = |place: garnet::Blocked| {
            let ends =
                (place.channel < self.graph.len()).then(|| self.graph.link(place.channel))?;
            let waits_for = "no free channel and no credit".into();
            Some(BlockedPort { from: ends.from, to: ends.to, channel: Some(place.vc), waits_for })
        };
        let cycle = cycle.into_iter().filter_map(blocked).collect();
        let open = self.open.iter().filter(|open| open.packets > 0).count();
        Some(Stuck { transfers: open as u64, cycle })
    }

    fn observe(&mut self, sink: Box<dyn NetworkSink>) -> bool {
        self.sink = Some(sink);
        true
    }
}
