//! Ways of packets: the plan of a routing, turned into channels.
//!
//! A link may be several channels side by side; a *lane* is one of them, the same on the whole way. On
//! a graph each link is one channel, and a lane is the way over a card of an NPU.

use super::plan::{Plan, Whole};
use super::plan_request::PlanRequest;
use super::routing_choice::{Hop, Refusal};
use crate::fabric::{Head, Packet, Routing, Way};
use std::collections::HashMap;
use std::sync::Arc;
use topology::{Fabric, Lanes as Cards, LinkGraph};

/// The channels of links: the first of each link has the link's number, then come the others.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    /// The second channel of each link, and the number of its channels; empty where each link has
    /// one.
    more: Vec<(u32, u32)>,
    /// Link of each channel.
    links: Vec<u32>,
    /// Lanes that use all channels of every link, alike unless that took more than [`LANES`].
    pub all: u32,
}

/// Most lanes.
const LANES: u32 = 64;

impl Lanes {
    pub(super) fn new(fabric: &Fabric, graph: &LinkGraph) -> Lanes {
        let dims = fabric.dims();
        let mut links: Vec<u32> = (0..graph.len()).collect();
        if dims.iter().all(|dim| dim.parallel <= 1) {
            return Lanes { more: Vec::new(), links, all: 1 };
        }
        let mut more = Vec::with_capacity(links.len());
        for link in 0..graph.len() {
            let count = dims[graph.dim(link) as usize].parallel.max(1);
            more.push((links.len() as u32, count));
            links.extend((1..count).map(|_| link));
        }
        let counts = || dims.iter().map(|dim| dim.parallel.max(1));
        let most = counts().max().unwrap_or(1);
        let all = counts().fold(1, lcm);
        Lanes { more, links, all: if all > LANES { most } else { all } }
    }

    /// Channels of links.
    pub(super) fn len(&self) -> u32 {
        self.links.len() as u32
    }

    /// How many channels a link has.
    pub(super) fn of(&self, link: u32) -> u32 {
        self.more.get(link as usize).map_or(1, |more| more.1)
    }

    /// The link of a channel; nothing for those of interfaces.
    pub(super) fn link(&self, channel: u32) -> Option<u32> {
        self.links.get(channel as usize).copied()
    }

    /// The channel of a link that a lane uses.
    pub(super) fn channel(&self, link: u32, lane: u32) -> u32 {
        match (self.more.get(link as usize), lane % self.of(link)) {
            (Some(&(second, _)), lane @ 1..) => second + lane - 1,
            _ => link,
        }
    }
}

fn lcm(a: u32, b: u32) -> u32 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}

/// Where the routes of a fabric lie.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    links: Arc<LinkGraph>,
    plan: Plan,
    pub lanes: Lanes,
    /// Ways out of all routers, route by route, and where each begins: from, to, lane.
    ways: Vec<Way>,
    known: HashMap<(u32, u32, u32), u32>,
    /// Ways from the random node on, for routes over one.
    later: HashMap<(u32, u32, u32), u32>,
    /// For each NPU, its first channel to its node, and their number.
    ejections: Vec<(u32, u32)>,
    /// For each channel, its number among those that enter its end, and that leave its beginning;
    /// and for each NPU, how many leave it.
    entries: Vec<u32>,
    exits: Vec<u32>,
    leaving: Vec<u32>,
    /// Where packets may leave an NPU by several links: those links, by NPU.
    choices: Vec<Vec<u32>>,
}

impl Routing for Routes {
    #[inline]
    fn next(&mut self, _: u32, packet: &Packet, hops: u32) -> Way {
        if let Plan::Valiant(_) = self.plan {
            return self.next_over(packet, hops);
        }
        self.ways[(packet.way + hops) as usize]
    }

    #[inline]
    fn is_adaptive(&self) -> bool {
        matches!(self.plan, Plan::Adaptive(_))
    }

    fn ways(&mut self, head: &Head<'_>, ways: &mut Vec<Way>) {
        let Plan::Adaptive(adaptive) = &self.plan else { return };
        let (node, dst, lane) = (head.router, head.packet.dst, u32::from(head.packet.port));
        let came = self.lanes.link(head.channel);
        if node == dst {
            ways.push(self.ejection(dst, came.map_or(0, |_| self.entries[head.channel as usize])));
            return;
        }
        let escaped = came.filter(|_| head.vnet < adaptive.class());
        if escaped.is_none() || !adaptive.stays() {
            self.links.nearer(node, dst, |hop| {
                let channel = |lane| self.lanes.channel(hop.link, lane);
                let way = |lane| Way { channel: channel(lane), vnet: adaptive.class() };
                ways.extend((0..self.lanes.of(hop.link)).map(way));
            });
        }
        if let Some(Hop { link, class }) = adaptive.escape(&self.links, node, dst, escaped) {
            ways.push(Way { channel: self.lanes.channel(link, lane), vnet: class });
        }
    }

    #[inline]
    fn enters(&mut self, packet: &mut Packet) {
        let Plan::Valiant(valiant) = &mut self.plan else { return };
        let via = valiant.choose(packet.src);
        packet.way = self.first(packet.src, via, packet.port.into());
    }
}

impl Routes {
    /// The routes of a fabric, and the classes that they need so that nothing locks up.
    ///
    /// # Errors
    /// Every [`Refusal`].
    pub(super) fn new(
        request: &PlanRequest<'_>,
        links: Arc<LinkGraph>,
    ) -> Result<(Routes, u16), Refusal> {
        let (plan, classes) = Plan::new(request)?;
        let lanes = Lanes::new(request.fabric, &links);
        let numbered = |end: fn(topology::Link) -> u32| {
            let mut counts = vec![0u32; links.nodes() as usize];
            let number = |&link: &u32| {
                let count = &mut counts[end(links.link(link)) as usize];
                *count += 1;
                *count - 1
            };
            let numbers: Vec<u32> = lanes.links.iter().map(number).collect();
            (numbers, counts)
        };
        let ((entries, _), (exits, leaving)) =
            (numbered(|link| link.to), numbered(|link| link.from));
        let mut choices = Vec::new();
        if !matches!(plan, Plan::Whole(_)) {
            choices.resize(links.npus() as usize, Vec::new());
            for link in 0..links.len() {
                if let Some(leaving) = choices.get_mut(links.link(link).from as usize) {
                    leaving.push(link);
                }
            }
        }
        let routes = Routes {
            choices,
            ways: Vec::new(),
            known: HashMap::new(),
            later: HashMap::new(),
            ejections: Vec::new(),
            entries,
            exits,
            leaving,
            plan,
            lanes,
            links,
        };
        Ok((routes, classes))
    }

    /// Where flits leave to nodes: for each NPU its first channel, and their number.
    pub(super) fn with_ejections(self, ejections: Vec<(u32, u32)>) -> Routes {
        Routes { ejections, ..self }
    }

    /// Lanes over which the packets from an NPU spread.
    pub(super) fn lanes_from(&self, src: u32) -> u32 {
        match self.plan {
            Plan::Whole(_) => self.lanes.all,
            _ => self.leaving[src as usize].clamp(1, LANES),
        }
    }

    /// The cards over which a message spreads, with their parts of its bytes; none where it takes
    /// one way or its packets have several ways.
    pub(super) fn cards(&self, src: u32, dst: u32, bytes: u64) -> Vec<(u32, u64)> {
        let Plan::Whole(Whole::Graph { cards: 2.., .. }) = &self.plan else { return Vec::new() };
        let cards = Cards::of(&self.links, (src, dst));
        let place = |id| cards.found.iter().position(|lane| lane.id == id).unwrap_or(0) as u32;
        cards.parts(bytes).map(|(id, bytes)| (place(id), bytes)).collect()
    }

    /// The links of the way from one NPU to another, where all packets take the same.
    pub(super) fn route(&self, src: u32, dst: u32) -> Option<Vec<u32>> {
        let Plan::Whole(whole) = &self.plan else { return None };
        Some(whole.hops(&self.links, (src, dst), 0).iter().map(|hop| hop.link).collect())
    }

    /// Links by which packets may leave an NPU, where they have several ways.
    pub(super) fn leaving(&self, src: u32) -> &[u32] {
        self.choices.get(src as usize).map_or(&[], Vec::as_slice)
    }

    /// A link by which packets from one NPU to another leave: one of several where they may choose.
    pub(super) fn leaves_by(&mut self, src: u32, dst: u32) -> u32 {
        let link = match &self.plan {
            Plan::Whole(_) => {
                let way = self.way(src, dst, 0);
                self.lanes.link(self.ways[way as usize].channel)
            }
            _ => self.links.next(src, dst).map(|hop| hop.link),
        };
        link.unwrap_or(0)
    }

    /// A packet from one NPU to another on a lane.
    pub(super) fn packet(&mut self, src: u32, dst: u32, lane: u32, flits: u32) -> Packet {
        match &self.plan {
            Plan::Whole(_) => {
                let way = self.way(src, dst, lane);
                let first = self.ways[way as usize];
                let port = self.exits[first.channel as usize] as u16;
                Packet { src, dst, vnet: first.vnet, flits, port, way }
            }
            _ => Packet { src, dst, vnet: 0, flits, port: lane as u16, way: 0 },
        }
    }

    /// Whether all packets from one NPU to another cross the same number of links of each dimension.
    pub(super) fn has_one_length(&self) -> bool {
        !matches!(self.plan, Plan::Valiant(_))
    }

    /// The links of the way from one NPU to another, where all packets take the same or others in
    /// the same dimensions.
    pub(super) fn links(&mut self, src: u32, dst: u32) -> Option<Vec<u32>> {
        match &self.plan {
            Plan::Whole(_) => {
                let way = self.way(src, dst, 0) as usize;
                Some(
                    self.ways[way..].iter().map_while(|way| self.lanes.link(way.channel)).collect(),
                )
            }
            Plan::Adaptive(_) => Some(self.links.route(src, dst).map(|hop| hop.link).collect()),
            Plan::Valiant(_) => None,
        }
    }

    fn ejection(&self, dst: u32, entry: u32) -> Way {
        let (first, count) = self.ejections[dst as usize];
        Way { channel: first + entry % count, vnet: 0 }
    }

    /// Where the way of packets of a lane begins.
    fn way(&mut self, src: u32, dst: u32, lane: u32) -> u32 {
        if let Some(&known) = self.known.get(&(src, dst, lane)) {
            return known;
        }
        let Plan::Whole(whole) = &self.plan else { return 0 };
        let hops = whole.hops(&self.links, (src, dst), lane);
        let start = self.extend(&hops, lane);
        self.eject(&hops, dst, lane);
        self.known.insert((src, dst, lane), start);
        start
    }

    /// Adds channels of a lane; returns where they begin.
    fn extend(&mut self, hops: &[Hop], lane: u32) -> u32 {
        let start = self.ways.len() as u32;
        let way = |hop: &Hop| Way { channel: self.lanes.channel(hop.link, lane), vnet: hop.class };
        self.ways.extend(hops.iter().map(way));
        start
    }

    /// Adds the channel to a node, the virtual network that of the last link.
    fn eject(&mut self, hops: &[Hop], dst: u32, lane: u32) {
        let entry = |hop: &Hop| self.entries[self.lanes.channel(hop.link, lane) as usize];
        let way = self.ejection(dst, hops.last().map_or(lane, entry));
        let vnet = hops.last().map_or(0, |hop| hop.class);
        self.ways.push(Way { vnet, ..way });
    }

    /// Where the way to an intermediate node begins. Before it are its length and that node.
    fn first(&mut self, src: u32, via: u32, lane: u32) -> u32 {
        if let Some(&known) = self.known.get(&(src, via, lane)) {
            return known;
        }
        let Plan::Valiant(valiant) = &self.plan else { return 0 };
        let hops = valiant.first(&self.links, src, via);
        for number in [hops.len() as u32, via] {
            self.ways.push(Way { channel: number, vnet: 0 });
        }
        let start = self.extend(&hops, lane);
        self.known.insert((src, via, lane), start);
        start
    }

    /// The way out of a router on a route over a node at random.
    fn next_over(&mut self, packet: &Packet, hops: u32) -> Way {
        let start = packet.way as usize;
        let [length, via] = [2, 1].map(|before| self.ways[start - before].channel);
        if hops < length {
            return self.ways[start + hops as usize];
        }
        let key = (via, packet.dst, u32::from(packet.port));
        let start = match (self.later.get(&key), &self.plan) {
            (Some(&known), _) => known,
            (None, Plan::Valiant(valiant)) => {
                let hops = valiant.second(&self.links, via, packet.dst);
                let start = self.extend(&hops, key.2);
                self.eject(&hops, packet.dst, key.2);
                self.later.insert(key, start);
                start
            }
            (None, _) => 0,
        };
        self.ways[(start + hops - length) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::super::circle::circle;
    use super::super::datelines::Datelines;
    use super::super::proof::Dependencies;
    use super::*;

    fn stack(shape: &str) -> (Fabric, LinkGraph) {
        let shape: topology::Topology = shape.parse().expect("a shape");
        let (bandwidth, latency) = (units::Bandwidth(1), units::Span(1));
        let dim = |&(block, size)| topology::Dim { block, size, bandwidth, latency, parallel: 1 };
        let fabric = Fabric::Stacked(shape.dims.iter().map(dim).collect());
        let graph = LinkGraph::new(&fabric).expect("a network");
        (fabric, graph)
    }

    /// In a line the routes to the farthest have the dependencies of all.
    #[test]
    fn the_farthest_pairs_are_enough() {
        for (block, size) in
            ["R", "M", "SW", "FC"].into_iter().flat_map(|b| (2..10).map(move |n| (b, n)))
        {
            let (fabric, graph) = stack(&format!("{block}({size})"));
            let pairs = (0..size).flat_map(|src| (0..size).map(move |dst| (src, dst)));
            let all: Vec<(u32, u32)> = pairs.filter(|(src, dst)| src != dst).collect();
            for classes in 1..3 {
                let lines = Datelines::new(fabric.dims(), classes);
                let sorted = |pairs: &[(u32, u32)]| {
                    let mut found = Dependencies::new(graph.len(), classes);
                    pairs.iter().for_each(|&(a, b)| found.add_route(&lines.hops(&graph, a, b)));
                    found.sorted()
                };
                let (few, all) = (sorted(&lines.pairs()), sorted(&all));
                if block == "SW" {
                    // Every way up may be followed by every way down; none is followed by a way up.
                    assert!(
                        few.iter().zip(&all).all(|(few, all)| few.iter().all(|f| all.contains(f)))
                    );
                } else {
                    assert_eq!(few, all, "{block}({size})");
                }
                assert!(classes == 1 || circle(&all).is_none(), "{block}({size})");
            }
        }
    }

    /// Channels of parallel links follow those of all links, and lanes go round.
    #[test]
    fn lanes_name_every_channel_once() {
        let (Fabric::Stacked(mut dims), _) = stack("R(3)_FC(2)") else { return };
        dims[1].parallel = 3;
        let fabric = Fabric::Stacked(dims);
        let graph = LinkGraph::new(&fabric).expect("a network");
        let lanes = Lanes::new(&fabric, &graph);
        let all = (0..graph.len()).flat_map(|link| (0..lanes.of(link)).map(move |n| (link, n)));
        let mut found: Vec<u32> = all.map(|(link, lane)| lanes.channel(link, lane)).collect();
        found.sort_unstable();
        assert_eq!(found, (0..lanes.len()).collect::<Vec<_>>());
        assert_eq!((lanes.len(), lanes.all), (12 + 6 * 3, 3));
    }
}
