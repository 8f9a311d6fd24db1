//! The analytical backend: a message waits for nothing but the link it leaves its NPU by.
//!
//! A message takes the latencies of its links plus `bytes / bandwidth` of the slowest one: nodes on
//! its way send it on as it arrives. An NPU sends one message at a time on a link: the next starts
//! when the last has left, `bytes / bandwidth` later. Without that, messages sent at once would add up to more than the NPU's bandwidth.
//! ASTRA-sim has none ([`Ports::Unlimited`]). Not modelled: shared links (`link.rs`), packets. Source:
//! ASTRA-sim 2.0, section IV-C, but for the links out of an NPU and for all dimensions crossed.

mod closed_form;

use crate::agenda::Agenda;
use crate::carried::Carried;
use crate::parts::Split;
use network::{
    Alike, Backend, ClosedForm, Contention, Delivery, LinkCost, NetworkSink, Ordered, Sequence,
    Stamp, Transfer, Usage,
};
use topology::{Block, LinkGraph, Routing, Splitter, SprayTurns};
use units::{Span, Time};

/// Which dimensions a message pays for when source and destination differ in several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// All of them: each one's latencies, and the slowest one's bandwidth.
    Every,
    /// The innermost one only (ASTRA-sim).
    Innermost,
}

/// Limit on the messages an NPU sends at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    /// One message at a time on each link that leaves the NPU.
    OneAtATime,
    /// Nothing (ASTRA-sim).
    Unlimited,
}

/// When each link that leaves an NPU is free again; rows are made for NPUs that send.
struct Departures {
    ports: Ports,
    /// Links that leave an NPU.
    width: usize,
    row_of: Vec<u32>,
    free: Vec<Time>,
}

impl Departures {
    /// When a message ready at `now` on link `port` of `src` starts; the link is then busy for
    /// `occupancy`.
    #[inline]
    fn depart(&mut self, now: Time, src: u32, port: usize, occupancy: Span) -> Time {
        if self.ports == Ports::Unlimited {
            return now;
        }
        let row = &mut self.row_of[src as usize];
        if *row == u32::MAX {
            *row = (self.free.len() / self.width) as u32;
            self.free.resize(self.free.len() + self.width, Time::ZERO);
        }
        let free = &mut self.free[*row as usize * self.width + port];
        let start = now.max(*free);
        *free = start + occupancy;
        start
    }

    /// When link `port` of `src` is free.
    fn free_at(&self, src: u32, port: Option<usize>) -> Time {
        let row = match self.row_of.get(src as usize) {
            _ if self.ports == Ports::Unlimited => None,
            Some(&row) if row == u32::MAX => None,
            row => Some(row.copied().unwrap_or(0) as usize),
        };
        let at = |row: usize| port.and_then(|port| self.free.get(row * self.width + port));
        row.and_then(at).copied().unwrap_or(Time::ZERO)
    }
}

/// One dimension as the backend needs it.
#[derive(Clone, Copy, Debug)]
struct Axis {
    block: Block,
    size: u32,
    /// `rank & mask` instead of `rank % size` where the size is a power of two, and the shift that
    /// goes with it.
    mask: u32,
    shift: u32,
    /// Where its links start among those that leave an NPU.
    first_port: usize,
    cost: LinkCost,
}

/// The last span computed on an axis: symmetric traffic asks for the same again and again.
#[derive(Clone, Copy, Debug)]
struct Memo {
    hops: u32,
    bytes: u64,
    span: Span,
    occupancy: Span,
}

/// Time of a message over the dimensions crossed so far.
#[derive(Clone, Copy, Default)]
struct Way {
    total: Span,
    /// The longest that a link is busy with it; part of `total`.
    slowest: Span,
}

impl Way {
    /// Crosses one more dimension, which takes `span` alone and keeps its links for `occupancy`.
    #[inline]
    fn cross(&mut self, span: Span, occupancy: Span) {
        self.total = if self.total == Span::ZERO {
            span
        } else {
            self.total - self.slowest + (span - occupancy) + self.slowest.max(occupancy)
        };
        self.slowest = self.slowest.max(occupancy);
    }
}

enum Paths {
    Stack { axes: Vec<Axis>, crossing: Crossing, routing: Routing },
    Graph { graph: Box<LinkGraph>, costs: Vec<LinkCost> },
}

/// The analytical backend.
pub struct Analytical {
    paths: Paths,
    memo: Vec<Memo>,
    departures: Departures,
    turns: SprayTurns,
    agenda: Agenda<u64>,
    bytes: Vec<u128>,
    carried: Carried,
    transfers: u128,
    sink: Option<Box<dyn NetworkSink>>,
}

impl Analytical {
    /// A network of stacked blocks, innermost first: block, size and cost of one link.
    pub fn stacked(
        dims: &[(Block, u32, LinkCost)],
        crossing: Crossing,
        ports: Ports,
    ) -> Analytical {
        let mut width = 0;
        let axis = |&(block, size, cost): &(Block, u32, LinkCost)| {
            let (mask, shift) = if size.is_power_of_two() {
                (size - 1, size.trailing_zeros())
            } else {
                (0, u32::MAX)
            };
            let first_port = width;
            width += block.leaving(size) as usize;
            Axis { block, size, mask, shift, first_port, cost }
        };
        let axes = dims.iter().map(axis).collect();
        let memo = |d: &(Block, u32, LinkCost)| Memo {
            hops: 0,
            bytes: 0,
            span: d.2.transit(0, 0),
            occupancy: d.2.occupancy(0),
        };
        let npus = dims.iter().map(|d| d.1).product();
        let departures = Departures { ports, width, row_of: rows(npus, ports), free: Vec::new() };
        Analytical::new(
            Paths::Stack { axes, crossing, routing: Routing::Lowest },
            dims.iter().map(memo).collect(),
            departures,
        )
    }

    /// The same network of blocks with another policy among equally short ways.
    #[must_use]
    pub fn with_routing(mut self, policy: Routing) -> Analytical {
        if let Paths::Stack { routing, .. } = &mut self.paths {
            *routing = policy;
        }
        self
    }

    /// A network on an explicit graph, routed by its policy, with the cost of each link.
    pub fn graph(graph: LinkGraph, costs: Vec<LinkCost>) -> Analytical {
        let free = vec![Time::ZERO; costs.len()];
        let departures =
            Departures { ports: Ports::OneAtATime, width: costs.len(), row_of: Vec::new(), free };
        let carried = Carried::of_links(costs.len());
        let made =
            Analytical::new(Paths::Graph { graph: Box::new(graph), costs }, Vec::new(), departures);
        Analytical { carried, ..made }
    }

    /// The same network on a graph whose NPUs have coordinates: it also counts bytes by dimension.
    #[must_use]
    pub fn with_sizes(mut self, sizes: Vec<u32>) -> Analytical {
        self.carried.count_by(sizes);
        self
    }

    fn new(paths: Paths, memo: Vec<Memo>, departures: Departures) -> Analytical {
        let bytes = vec![0; memo.len().max(1)];
        Analytical {
            paths,
            memo,
            departures,
            turns: SprayTurns::default(),
            agenda: Agenda::default(),
            bytes,
            carried: Carried::default(),
            transfers: 0,
            sink: None,
        }
    }
}

fn rows(npus: u32, ports: Ports) -> Vec<u32> {
    if ports == Ports::Unlimited { Vec::new() } else { vec![u32::MAX; npus as usize] }
}

impl Paths {
    /// Calls `each` with (dimension, axis, hops, coordinates from and to) of every dimension paid
    /// for.
    #[inline]
    fn cross(
        axes: &[Axis],
        crossing: Crossing,
        src: u32,
        dst: u32,
        mut each: impl FnMut(usize, &Axis, u32, (u32, u32)),
    ) {
        let (mut a, mut b) = (src, dst);
        for (dim, axis) in axes.iter().enumerate() {
            if a == b {
                return;
            }
            let ((x, next_a), (y, next_b)) = (axis.split(a), axis.split(b));
            (a, b) = (next_a, next_b);
            if x != y {
                each(dim, axis, axis.hops(x, y), (x, y));
                if crossing == Crossing::Innermost {
                    return;
                }
            }
        }
    }

    fn routing(&self) -> Routing {
        match self {
            Paths::Stack { routing, .. } => *routing,
            Paths::Graph { graph, .. } => graph.routing(),
        }
    }

    fn span(&self, src: u32, dst: u32, bytes: u64) -> Span {
        match self {
            Paths::Stack { axes, crossing, .. } => {
                let mut way = Way::default();
                Paths::cross(axes, *crossing, src, dst, |_, axis, hops, _| {
                    way.cross(axis.cost.transit(hops, bytes), axis.cost.occupancy(bytes));
                });
                way.total
            }
            Paths::Graph { graph, costs } if Splitter::splits(graph) => {
                Split::of(graph, costs, (src, dst), bytes).alone((bytes, bytes)).transit
            }
            Paths::Graph { graph, costs } => {
                let cost = |hop: topology::Hop| costs[hop.link as usize];
                let latency: Span = graph.route(src, dst).map(|hop| cost(hop).transit(1, 0)).sum();
                latency
                    + graph
                        .route(src, dst)
                        .map(|hop| cost(hop).occupancy(bytes))
                        .max()
                        .unwrap_or_default()
            }
        }
    }

    /// The link by which a message leaves `src`, as [`Departures`] counts them; `None` when it goes
    /// nowhere.
    fn port(&self, src: u32, dst: u32) -> Option<usize> {
        match self {
            Paths::Stack { axes, crossing, routing } => {
                let mut first = None;
                Paths::cross(axes, *crossing, src, dst, |_, axis, _, ends| {
                    first.get_or_insert_with(|| {
                        axis.port(ends) + axis.way(*routing, (src, dst), ends, None)
                    });
                });
                first
            }
            Paths::Graph { graph, .. } => graph.route(src, dst).next().map(|hop| hop.link as usize),
        }
    }

    /// How long a message keeps the link by which it leaves `src`.
    fn occupancy(&self, src: u32, dst: u32, bytes: u64) -> Span {
        match self {
            Paths::Stack { axes, crossing, .. } => {
                let mut first = None;
                Paths::cross(axes, *crossing, src, dst, |_, axis, _, _| {
                    first.get_or_insert_with(|| axis.cost.occupancy(bytes));
                });
                first.unwrap_or_default()
            }
            Paths::Graph { graph, costs } if Splitter::splits(graph) => {
                Split::of(graph, costs, (src, dst), bytes).alone((bytes, bytes)).occupancy
            }
            Paths::Graph { graph, costs } => graph
                .route(src, dst)
                .next()
                .map_or(Span::ZERO, |hop| costs[hop.link as usize].occupancy(bytes)),
        }
    }
}

impl Axis {
    /// Coordinate along the axis, and what is left for the outer ones.
    #[inline]
    fn split(&self, rank: u32) -> (u32, u32) {
        if self.shift == u32::MAX {
            (rank % self.size, rank / self.size)
        } else {
            (rank & self.mask, rank >> self.shift)
        }
    }

    #[inline]
    fn hops(&self, x: u32, y: u32) -> u32 {
        self.block.hops(self.size, x, y)
    }

    /// The first link by which a message may leave coordinate `x` for `y`.
    #[inline]
    fn port(&self, (x, y): (u32, u32)) -> usize {
        self.first_port + self.block.slot(self.size, x, y) as usize
    }

    /// Which of equally short ways from coordinate `x` to `y` the policy takes; without `turns`
    /// that of the first message.
    #[inline]
    fn way(
        &self,
        routing: Routing,
        (src, dst): (u32, u32),
        (x, y): (u32, u32),
        turns: Option<&mut SprayTurns>,
    ) -> usize {
        // Both ways are alike; which NPU takes which would part NPUs that are.
        if matches!(routing, Routing::Lowest | Routing::Auto) {
            return 0;
        }
        let ways = self.block.ways(self.size, x, y);
        let way = match (routing, turns) {
            _ if ways < 2 => 0,
            (Routing::Spray, Some(turns)) => turns.take(src, ways),
            _ => (routing.key(src, dst) % u64::from(ways)) as u32,
        };
        way as usize
    }

    /// [`Axis::port`], numbered alike by NPUs at which it leads the same way.
    fn port_seen_from(&self, x: u32, y: u32) -> u32 {
        self.first_port as u32 + self.block.direction(self.size, x, y)
    }

    /// Links leaving an NPU on the way.
    #[inline]
    fn leaving(&self, hops: u32) -> u128 {
        u128::from(self.block.hops_from_npus(hops))
    }
}

/// When a message leaves its NPU, and how long it takes from there on, over the links of a graph.
#[inline(never)]
fn over_graph(
    (graph, costs): (&LinkGraph, &[LinkCost]),
    (departures, carried): (&mut Departures, &mut Carried),
    turns: &mut SprayTurns,
    now: Time,
    &Transfer { src, dst, bytes, paced, .. }: &Transfer,
) -> (Option<Time>, Span) {
    if Splitter::splits(graph) {
        let free = &mut departures.free;
        let split = Split::of(graph, costs, (src, dst), bytes);
        return split.depart(now, (free, carried), (bytes, paced));
    }
    let (mut at, mut key) = (src, graph.key(src, dst));
    let (mut start, mut latency, mut slowest) = (None, Span::ZERO, Span::ZERO);
    while let Some(hop) = graph.take(at, dst, &mut key, turns) {
        let occupancy = costs[hop.link as usize].occupancy(bytes);
        carried.add(hop.link, bytes.into());
        if at == src {
            let free = &mut departures.free[hop.link as usize];
            let leaves = now.max(*free);
            let kept = costs[hop.link as usize].occupancy(paced.max(bytes));
            *free = leaves + kept;
            start = Some(leaves);
            slowest = kept;
        }
        latency += costs[hop.link as usize].transit(1, 0);
        slowest = slowest.max(occupancy);
        at = hop.to;
    }
    (start, latency + slowest)
}

impl Analytical {
    #[cold]
    fn report_start(&mut self, now: Time, transfer: Transfer) {
        if let Some(sink) = &mut self.sink {
            sink.starts(now, &transfer);
        }
    }
}

impl Backend for Analytical {
    #[inline]
    fn start(&mut self, now: Time, transfer: Transfer) {
        let Transfer { src, dst, bytes, paced, token, weight } = transfer;
        let (mut start, mut way) = (None, Way::default());
        let volume = u128::from(bytes) * u128::from(weight);
        match &self.paths {
            Paths::Stack { axes, crossing, routing } => {
                let mut kept = Span::ZERO;
                let (memo, carried, departures, turns) =
                    (&mut self.memo, &mut self.bytes, &mut self.departures, &mut self.turns);
                Paths::cross(axes, *crossing, src, dst, |dim, axis, hops, ends| {
                    let memo = &mut memo[dim];
                    if memo.hops != hops || memo.bytes != bytes {
                        let (span, occupancy) =
                            (axis.cost.transit(hops, bytes), axis.cost.occupancy(bytes));
                        *memo = Memo { hops, bytes, span, occupancy };
                    }
                    start.get_or_insert_with(|| {
                        let way = axis.way(*routing, (src, dst), ends, Some(turns));
                        let kept = if paced > bytes {
                            kept = axis.cost.occupancy(paced);
                            kept
                        } else {
                            memo.occupancy
                        };
                        departures.depart(now, src, axis.port(ends) + way, kept)
                    });
                    way.cross(memo.span, memo.occupancy);
                    carried[dim] += volume * axis.leaving(hops);
                });
                way.total = way.total.max(way.total - way.slowest + kept);
            }
            Paths::Graph { graph, costs } => {
                self.carried.start((src, dst), volume, weight);
                let (state, turns) = ((&mut self.departures, &mut self.carried), &mut self.turns);
                let (leaves, span) = over_graph((graph, costs), state, turns, now, &transfer);
                (start, way.total) = (leaves, span);
                self.bytes[0] += volume;
            }
        }
        self.transfers += u128::from(weight);
        self.agenda.push(start.unwrap_or(now) + way.total, token);
        if self.sink.is_some() {
            self.report_start(now, transfer);
        }
    }

    #[inline]
    fn next_event(&self) -> Option<Time> {
        self.agenda.next_event()
    }

    #[inline]
    fn advance(&mut self, until: Time, finished: &mut Vec<Delivery>) {
        self.advance_to(Stamp { time: until, order: u64::MAX }, finished);
    }

    fn physical_minimum(&self, src: u32, dst: u32, bytes: u64) -> Span {
        self.paths.span(src, dst, bytes)
    }

    fn usage(&self, _: Time) -> Usage {
        let (bytes, outermost) = (self.bytes.clone(), self.carried.outermost.clone());
        let busiest = match &self.paths {
            Paths::Graph { costs, .. } => self.carried.busiest(costs),
            Paths::Stack { .. } => None,
        };
        Usage { bytes, outermost, busiest, transfers: self.transfers, ..Usage::default() }
    }

    fn contention(&self) -> Contention {
        match self.departures.ports {
            Ports::OneAtATime => Contention::Departures,
            Ports::Unlimited => Contention::None,
        }
    }

    fn alike(&self) -> Alike {
        Alike::Departures
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

    fn ordered(&mut self) -> Option<&mut dyn Ordered> {
        Some(self)
    }
}

impl Ordered for Analytical {
    fn share(&mut self, sequence: Sequence) {
        self.agenda.share(sequence);
    }

    #[inline]
    fn advance_to(&mut self, until: Stamp, finished: &mut Vec<Delivery>) -> bool {
        let Some((time, token)) = self.agenda.pop(until) else { return false };
        let delivery = Delivery { token, time };
        finished.push(delivery);
        if let Some(sink) = &mut self.sink {
            sink.arrives(&delivery);
        }
        true
    }
}
