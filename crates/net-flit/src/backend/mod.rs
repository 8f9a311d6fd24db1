//! Flits as a network of transfers.
//!
//! Every node of the topology is a router, and every NPU has a network interface with a link for
//! each of those by which it sends. A transfer is cut into packets; it is delivered when the last
//! flit has arrived. Here: [`Flits`]. How packets may be routed is in `routing_choice.rs`, the classes of
//! each routing and the proof that they cannot lock up in `plan.rs`, and where packets go in
//! `routes.rs`.

mod adaptive;
mod circle;
mod datelines;
mod layers;
mod plan;
mod plan_request;
mod proof;
mod routers;
mod routes;
mod routing_choice;
mod search;
mod settings;
mod usage_report;
mod valiant;

use crate::fabric::{CYCLE, Channel, End, Fabric};
use crate::report::{Arrival, Blocked};
use crate::virtual_network_usage::Use;
use net_settings::flit::{Deadlock, FlitRouter};
use network::{
    Alike, Backend, BlockedPort, Delivery, FlitLinkUsage, Footprint, LinkCost, LinkEnds, LinkUsage,
    NetworkSink, Sending, Stuck, Transfer, Usage,
};
use plan_request::PlanRequest;
use routers::{Routers, of_garnet, of_textbook};
use routes::{Lanes, Routes};
pub use routing_choice::{Hop, Refusal, RoutingChoice, Table};
pub use settings::{PacketsByKind, Settings};
use std::sync::Arc;
use topology::LinkGraph;
use units::{Span, Time};
use usage_report::PacketStatistics;

/// Cycles for which links report together what they have sent.
const WINDOW: u64 = 256;
/// Cycles between two looks at whether the run goes on.
const CYCLES_AT_ONCE: u32 = 1 << 6;
/// Lanes of a network interface.
const LANES: u32 = 64;
/// Flits over which the time of one is measured.
const MANY: u64 = 1 << 20;

/// A transfer that has not arrived.
#[derive(Clone, Copy, Debug)]
struct Open {
    token: u64,
    packets: u64,
    weight: u64,
}

/// A network of routers with virtual channels and credits.
pub struct Flits {
    network: Routers,
    graph: Arc<LinkGraph>,
    costs: Vec<LinkCost>,
    by_link: bool,
    settings: Settings,
    /// Whether each channel of a node's router has one of its own to or from the node.
    has_own_ports: bool,
    /// Time that a flit occupies each link, in parts of a cycle.
    occupancies: Vec<u64>,
    open: Vec<Open>,
    free: Vec<u32>,
    arrived: Vec<Arrival>,
    bytes: Vec<u128>,
    transfers: u128,
    /// Lane of the next transfer that leaves by each link.
    turns: Vec<u32>,
    sink: Option<Box<dyn NetworkSink>>,
    reported: Reported,
    seen: PacketStatistics,
}

/// How messages are cut into packets.
#[derive(Clone, Copy, Debug)]
struct Cuts {
    packet: u32,
    flit: u32,
}

impl Cuts {
    /// Flits of a whole packet.
    fn whole(self) -> u32 {
        self.packet / self.flit
    }

    /// Packets of a message or a part of it: an empty one has a byte.
    fn packets(self, bytes: u64) -> u64 {
        bytes.max(1).div_ceil(self.packet.into())
    }

    /// Flits of the last of these packets.
    fn last_flits(self, bytes: u64) -> u32 {
        let rest = bytes.max(1) - (self.packets(bytes) - 1) * u64::from(self.packet);
        rest.div_ceil(self.flit.into()) as u32
    }
}

/// State that was reported.
#[derive(Clone, Debug)]
struct Reported {
    /// Use of each link, and the time until which its flits occupy it.
    links: Vec<(Use, Time)>,
    /// The cycle of the last report.
    cycle: u64,
}

impl Flits {
    /// A network over `graph`, the links of `fabric`; `costs` by dimension, or by link when
    /// `by_link`.
    ///
    /// # Errors
    /// Every [`Refusal`], such as channels that depend on one another in a circle.
    pub fn new(
        fabric: &topology::Fabric,
        graph: LinkGraph,
        (costs, by_link): (Vec<LinkCost>, bool),
        settings: Settings,
    ) -> Result<Flits, Refusal> {
        let graph = Arc::new(graph);
        let request = PlanRequest {
            fabric,
            links: &graph,
            routing: &settings.routing,
            classes: settings.keys.classes.map(|classes| classes as u16),
            may_lock_up: settings.keys.deadlock == Deadlock::Allow,
        };
        let (routes, classes) = Routes::new(&request, graph.clone())?;
        let cost = |link: u32| costs[if by_link { link } else { graph.dim(link) } as usize];
        let parallel = |link: u32| routes.lanes.of(link);
        let occupancies: Vec<u64> = (0..graph.len())
            .map(|link| occupancy(&cost(link), parallel(link), &settings))
            .collect();
        let cycles = |link: u32| {
            let latency = cost(link).transit(1, 0).0;
            u32::try_from(latency.div_ceil(settings.keys.cycle.0)).unwrap_or(u32::MAX).max(1)
        };
        let (flits, ejections) = build((&graph, &routes.lanes), classes, &occupancies, cycles);
        let has_own_ports = most_lanes(&flits) <= LANES / u32::from(classes);
        let routes = routes.with_ejections(ejections);
        let network = match settings.keys.router {
            FlitRouter::Garnet => of_garnet(&flits, classes, &settings, routes),
            FlitRouter::InputQueued => of_textbook(&flits, classes, &settings, routes),
        };
        let network = network.map_err(Refusal::Setting)?;
        let dims = if by_link { 1 } else { costs.len() };
        Ok(Flits {
            turns: vec![0; graph.len() as usize],
            network,
            reported: Reported {
                links: vec![(Use::default(), Time::ZERO); graph.len() as usize],
                cycle: 0,
            },
            graph,
            costs,
            by_link,
            settings,
            has_own_ports,
            occupancies,
            open: Vec::new(),
            free: Vec::new(),
            arrived: Vec::new(),
            bytes: vec![0; dims],
            transfers: 0,
            sink: None,
            seen: PacketStatistics::default(),
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
        self.network.channels().0
    }

    /// Flits that have crossed a router.
    pub fn traversals(&self) -> u64 {
        self.network.traversals()
    }

    fn cost(&self, link: u32) -> &LinkCost {
        &self.costs[if self.by_link { link } else { self.graph.dim(link) } as usize]
    }

    fn time(&self, cycle: u64) -> Time {
        Time(cycle * self.settings.keys.cycle.0)
    }

    /// Number of an open transfer in the network.
    fn remember(&mut self, open: Open) -> u64 {
        if let Some(number) = self.free.pop() {
            self.open[number as usize] = open;
            return number.into();
        }
        self.open.push(open);
        self.open.len() as u64 - 1
    }

    /// How a message from `src` to `dst` is cut into packets.
    fn cuts(&self, src: u32, dst: u32) -> Cuts {
        let packet = self.settings.packet_on(|| self.graph.route(src, dst).map(|hop| hop.link));
        Cuts { packet, flit: self.settings.flit }
    }

    /// Sends packets on a lane, the last with `last` flits.
    fn send(
        &mut self,
        cycle: u64,
        (src, dst, lane): (u32, u32, u32),
        (packets, last): (u64, u32),
        (cuts, number): (Cuts, u64),
    ) {
        let whole = cuts.whole();
        let packet = self.network.route(|routes| routes.packet(src, dst, lane, whole));
        self.network.send_many(cycle, packet, (packets, last), number);
    }

    /// Sends a message whose packets take turns on the lanes.
    fn send_in_turns(
        &mut self,
        cycle: u64,
        (src, dst): (u32, u32),
        bytes: u64,
        (cuts, number): (Cuts, u64),
    ) {
        let (packets, last) = (cuts.packets(bytes), cuts.last_flits(bytes));
        let lanes = self.network.routing().lanes_from(src);
        let link = self.network.route(|routes| routes.leaves_by(src, dst));
        let turn = &mut self.turns[link as usize];
        let first = *turn;
        *turn = (first + 1) % lanes;
        for place in 0..packets.min(lanes.into()) {
            let lane = (first + place as u32) % lanes;
            let count = (packets - place).div_ceil(lanes.into());
            let is_last = (packets - 1) % u64::from(lanes) == place;
            let last = if is_last { last } else { cuts.whole() };
            self.send(cycle, (src, dst, lane), (count, last), (cuts, number));
        }
    }

    /// Deliveries of the packets that have arrived.
    fn deliver(&mut self, finished: &mut Vec<Delivery>) {
        let mut arrived = std::mem::take(&mut self.arrived);
        for arrival in arrived.drain(..) {
            let open = &mut self.open[arrival.token as usize];
            self.seen.arrives(&arrival, open.weight);
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

    /// The least time in which bytes leave an NPU that may use all its links.
    fn least(&self, src: u32, bytes: u64) -> Span {
        let links = self.network.routing().leaving(src);
        let costs = || links.iter().map(|&link| self.cost(link));
        let latency = costs().map(|cost| cost.transit(1, 0)).min().unwrap_or_default();
        let part = bytes / (links.len() as u64).max(1);
        latency + costs().map(|cost| cost.occupancy(part)).min().unwrap_or_default()
    }

    /// How long a link sends this number of flits, on all its channels.
    fn busy(&self, link: u32, flits: u64) -> Span {
        let lanes = self.network.routing().lanes.of(link);
        busy(self.occupancies[link as usize], &self.settings, flits.div_ceil(lanes.into()))
    }

    /// Reports what links have been given to send since the last time, of those that have sent what
    /// was reported before; at the end of all. And what waited for them and was behind them.
    fn report(&mut self, now: u64, is_end: bool) {
        if self.sink.is_none() {
            return;
        }
        let cycle = self.settings.keys.cycle.0;
        let cycles = now - self.reported.cycle;
        let (since, now) = (Time(self.reported.cycle * cycle), Time(now * cycle));
        let (mut all, mut waits, mut holds): (Vec<Sending>, _, _) = Default::default();
        for (link, used) in
            (0..self.graph.len()).zip(usage_report::whole(&self.graph, &self.network))
        {
            let (before, until) = self.reported.links[link as usize];
            let ends = self.graph.link(link);
            let ends = LinkEnds { link, from: ends.from, to: ends.to, dim: ends.dim, count: None };
            let spread = |sum: u64, into: &mut Vec<(Time, LinkEnds, u32)>| {
                let at_once = sum.div_ceil(cycles.max(1));
                if let Some(took) = (sum * cycle).checked_div(at_once) {
                    into.extend([(since, ends, at_once as u32), (since + Span(took), ends, 0)]);
                }
            };
            spread(used.waited() - before.waited(), &mut waits);
            spread(used.held_cycles - before.held_cycles, &mut holds);
            let reported = &mut self.reported.links[link as usize].0;
            let flits = reported.flits;
            *reported = Use { flits, ..used };
            if used.flits == flits || until > now && !is_end {
                continue;
            }
            let took = self.busy(link, used.flits).0 - self.busy(link, flits).0;
            let begin = since.max(until);
            let bytes = (used.flits - flits) * u64::from(self.settings.flit);
            let end = begin + Span(took);
            self.reported.links[link as usize] = (used, end);
            all.push(Sending { link: ends, token: 0, begin, end, bytes });
        }
        all.sort_by_key(|sending| (sending.begin, sending.link.link));
        waits.sort_by_key(|&(at, link, _)| (at, link.link));
        holds.sort_by_key(|&(at, link, _)| (at, link.link));
        if let Some(sink) = &mut self.sink {
            all.iter().for_each(|sending| sink.sends(sending));
            waits.into_iter().for_each(|(at, link, flits)| sink.waits(at, link, flits));
            holds.into_iter().for_each(|(at, link, flits)| sink.holds(at, link, flits));
        }
        self.reported.cycle = now.0 / cycle;
    }

    /// Bytes that links of NPUs have carried, by dimension.
    fn carried(&self) -> Vec<u128> {
        let mut bytes = self.bytes.clone();
        if self.network.routing().has_one_length() {
            return bytes;
        }
        for (link, used) in (0..).zip(usage_report::whole(&self.graph, &self.network)) {
            if self.graph.link(link).from < self.graph.npus() {
                let dim = if self.by_link { 0 } else { self.graph.dim(link) };
                bytes[dim as usize] += u128::from(used.flits) * u128::from(self.settings.flit);
            }
        }
        bytes
    }

    /// Counts bytes of a transfer that links of NPUs carry, by dimension.
    fn count(&mut self, src: u32, dst: u32, bytes: u128) {
        let Some(links) = self.network.route(|routes| routes.links(src, dst)) else { return };
        for link in links.into_iter().map(|link| (link, self.graph.link(link))) {
            if link.1.from < self.graph.npus() {
                let dim = if self.by_link { 0 } else { self.graph.dim(link.0) };
                self.bytes[dim as usize] += bytes;
            }
        }
    }
}

/// How long a link sends this number of flits.
fn busy(occupancy: u64, settings: &Settings, flits: u64) -> Span {
    let parts = u128::from(flits) * u128::from(occupancy) * u128::from(settings.keys.cycle.0);
    Span(u64::try_from(parts / u128::from(CYCLE)).unwrap_or(u64::MAX))
}

/// Time that a flit occupies each of the `parallel` channels of a link, in parts of a cycle, at
/// least one.
fn occupancy(cost: &LinkCost, parallel: u32, settings: &Settings) -> u64 {
    let all = cost.occupancy(u64::from(settings.flit) * MANY).0;
    let many = u128::from(all) * u128::from(parallel);
    let parts =
        (many * u128::from(CYCLE)).div_ceil(u128::from(settings.keys.cycle.0) * u128::from(MANY));
    u64::try_from(parts).unwrap_or(u64::MAX).max(CYCLE)
}

/// The channels of a topology: those of its links first, then those of the interfaces. An NPU has
/// the same number each way as its router. Returns the first channel to each node and their number
/// as well.
fn build(
    (graph, lanes): (&LinkGraph, &Lanes),
    classes: u16,
    occupancies: &[u64],
    latency: impl Fn(u32) -> u32,
) -> (Fabric, Vec<(u32, u32)>) {
    let npus = graph.npus();
    let mut fabric = Fabric { routers: graph.nodes(), nodes: npus, ..Fabric::default() };
    let (mut leaving, mut entering) = (vec![0u32; npus as usize], vec![0u32; npus as usize]);
    for link in (0..lanes.len()).filter_map(|channel| lanes.link(channel)) {
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
    let most = (LANES / u32::from(classes)).max(1);
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

/// The most channels between routers that leave or enter one of them.
fn most_lanes(fabric: &Fabric) -> u32 {
    let mut counts = vec![[0u32; 2]; fabric.routers as usize];
    for channel in &fabric.channels {
        if let (End::Router(from), End::Router(to)) = (channel.from, channel.to) {
            counts[from as usize][0] += 1;
            counts[to as usize][1] += 1;
        }
    }
    counts.into_iter().flatten().max().unwrap_or(0)
}

impl Backend for Flits {
    fn start(&mut self, now: Time, transfer: Transfer) {
        let Transfer { src, dst, bytes, token, weight, .. } = transfer;
        self.transfers += u128::from(weight);
        if let Some(sink) = &mut self.sink {
            sink.starts(now, &transfer);
        }
        self.count(src, dst, u128::from(bytes) * u128::from(weight));
        let cycle = now.0.div_ceil(self.settings.keys.cycle.0).max(self.network.now());
        let cards = self.network.routing().cards(src, dst, bytes);
        let cuts = self.cuts(src, dst);
        if cards.is_empty() {
            let packets = cuts.packets(bytes);
            let number = self.remember(Open { token, packets, weight });
            return self.send_in_turns(cycle, (src, dst), bytes, (cuts, number));
        }
        let packets = cards.iter().map(|&(_, bytes)| cuts.packets(bytes)).sum();
        let number = self.remember(Open { token, packets, weight });
        for (card, bytes) in cards {
            let count = (cuts.packets(bytes), cuts.last_flits(bytes));
            self.send(cycle, (src, dst, card), count, (cuts, number));
        }
    }

    fn next_event(&self) -> Option<Time> {
        if self.network.under_way() == 0 {
            return None;
        }
        self.network.next().map(|cycle| self.time(cycle))
    }

    fn advance(&mut self, until: Time, finished: &mut Vec<Delivery>) {
        let (last, before) = (until.0 / self.settings.keys.cycle.0, finished.len());
        for _ in 0..CYCLES_AT_ONCE {
            if finished.len() > before || self.network.under_way() == 0 {
                break;
            }
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
        let Some(route) = self.network.routing().route(src, dst) else {
            return self.least(src, bytes);
        };
        let links = || route.iter().map(|&link| self.cost(link));
        let latency: Span = links().map(|cost| cost.transit(1, 0)).sum();
        let cards = self.network.routing().cards(src, dst, bytes);
        let bytes = cards.first().map_or(bytes, |&(_, part)| part);
        latency + links().map(|cost| cost.occupancy(bytes)).max().unwrap_or_default()
    }

    fn usage(&self, _: Time) -> Usage {
        let cycle = self.settings.keys.cycle;
        let links =
            usage_report::links(&self.graph, &self.network, cycle, |link, n| self.busy(link, n));
        let usage = |link: &FlitLinkUsage| {
            let counts = &link.whole.counts;
            LinkUsage {
                from: link.from,
                to: link.to,
                dim: link.dim,
                count: None,
                bytes: counts.flits * u64::from(self.settings.flit),
                messages: counts.packets,
                busy: link.busy,
                waited: counts.no_credit + counts.no_channel + counts.lost,
                longest_queue: 0,
            }
        };
        Usage {
            bytes: self.carried(),
            transfers: self.transfers,
            links: links.iter().map(usage).collect(),
            flits: Some(Box::new(self.seen.usage(cycle, &self.network, links))),
            ..Usage::default()
        }
    }

    /// Packets that take one link share nothing with those of other NPUs, where each link has
    /// channels of its own to and from its nodes.
    fn alike(&self) -> Alike {
        let is_ordered = matches!(
            self.settings.routing,
            RoutingChoice::Topology | RoutingChoice::DimensionOrder
        );
        let is_plain = is_ordered && !self.by_link;
        if is_plain && self.has_own_ports { Alike::OneLink } else { Alike::Nothing }
    }

    fn footprint(&self) -> Footprint {
        let (channels, buffers) = self.network.channels();
        // Only textbook routers keep a list of the flits of each buffer.
        let buffers = match self.settings.keys.router {
            FlitRouter::Garnet => 0,
            FlitRouter::InputQueued => buffers,
        };
        let slots = 2 * u64::from(channels);
        Footprint {
            transfer: 128,
            links: self.network.routing().lanes.len().into(),
            link: slots * (64 + 4 * u64::from(buffers)),
            used_link: 0,
            packet: self.settings.flit.into(),
        }
    }

    fn stalled(&self) -> Option<Stuck> {
        let cycle = self.network.deadlock()?;
        let blocked = |place: Blocked| {
            let link = self.network.routing().lanes.link(place.channel)?;
            let ends = self.graph.link(link);
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
