//! The one-way links of a fabric and the routes over them: what a backend with queues on links
//! needs.
//!
//! Link ids are dense, `0..len()`. Nodes `0..npus()` are the NPUs, the rest are switches. From
//! wherever a message is, [`LinkGraph::choices`] names its equally near next hops, a [`Routing`]
//! policy chooses one ([`LinkGraph::take`]), and [`LinkGraph::next`] is the lowest of them.

use crate::graph::{GraphLinks, Near};
use crate::lane::KnownLanes;
use crate::link::{Hop, Link, LinkError};
use crate::routing::{digit, is_over_cards, over_cards, turned, turned_digit};
use crate::stack::StackLinks;
use crate::{Fabric, GraphFabric, LaneId, Rotation, Routing, SprayTurns};
use std::collections::BTreeMap;
use units::Span;

/// All links of a fabric, with routing.
#[derive(Clone, Debug)]
pub struct LinkGraph {
    kind: Kind,
    routing: Routing,
    /// Messages spread over the cards of their NPU: over these lanes.
    lanes: Option<KnownLanes>,
}

#[derive(Clone, Debug)]
enum Kind {
    Stack(StackLinks),
    Graph(GraphLinks),
}

impl LinkGraph {
    /// The links of `fabric`, on which messages take the lowest next hop. A stack costs a few words
    /// whatever its size; a graph costs its links, and a table for each of its switches.
    ///
    /// # Errors
    /// Every [`LinkError`].
    pub fn new(fabric: &Fabric) -> Result<LinkGraph, LinkError> {
        let kind = match fabric {
            Fabric::Stacked(dims) => Kind::Stack(StackLinks::new(dims)?),
            Fabric::Graph(graph) => Kind::Graph(GraphLinks::new(graph)?),
        };
        Ok(LinkGraph { kind, routing: Routing::Lowest, lanes: None })
    }

    /// The same links with another policy. [`Routing::Auto`] is [`Routing::DModK`] on a graph, on
    /// which messages spread over the cards of their NPU.
    #[must_use]
    pub fn with_routing(self, routing: Routing) -> LinkGraph {
        let (routing, spreads) = match (&self.kind, routing) {
            (Kind::Graph(graph), Routing::Auto) => (Routing::DModK, graph.has_cards()),
            (_, routing) => (routing, false),
        };
        LinkGraph { routing, lanes: spreads.then(KnownLanes::default), ..self }
    }

    /// Whether messages may spread over several cards of their NPU.
    #[inline]
    pub fn spreads(&self) -> bool {
        self.lanes.is_some()
    }

    /// The links and the lanes that are known, where messages spread.
    pub(crate) fn remembered(&self) -> Option<(&GraphLinks, &KnownLanes)> {
        match &self.kind {
            Kind::Graph(graph) => self.lanes.as_ref().map(|lanes| (graph, lanes)),
            Kind::Stack(_) => None,
        }
    }

    /// The key with which a message starts that takes a lane; that of the first lane is
    /// [`LinkGraph::key`].
    #[inline]
    pub fn lane_key(&self, src: u32, dst: u32, lane: LaneId) -> u64 {
        match &self.kind {
            Kind::Graph(graph) if lane.over_cards => {
                let ways = graph.ways(src, dst, Near::Links);
                over_cards((graph.number(src), graph.number(dst)), ways, lane)
            }
            _ => self.key(src, dst),
        }
    }

    /// The route of a lane, link by link.
    pub fn lane(&self, src: u32, dst: u32, lane: LaneId) -> impl Iterator<Item = Hop> + '_ {
        self.by_key(src, dst, self.lane_key(src, dst, lane))
    }

    /// Policy that chooses among equally near next hops; [`Routing::Auto`] on stacks only.
    pub fn routing(&self) -> Routing {
        self.routing
    }

    /// Number of NPUs: nodes `0..npus()`.
    pub fn npus(&self) -> u32 {
        match &self.kind {
            Kind::Stack(stack) => stack.npus(),
            Kind::Graph(graph) => graph.npus(),
        }
    }

    /// Number of NPUs and switches.
    pub fn nodes(&self) -> u32 {
        match &self.kind {
            Kind::Stack(stack) => stack.nodes(),
            Kind::Graph(graph) => graph.nodes(),
        }
    }

    /// Number of one-way links; ids are `0..len()`.
    pub fn len(&self) -> u32 {
        match &self.kind {
            Kind::Stack(stack) => stack.len(),
            Kind::Graph(graph) => graph.len(),
        }
    }

    /// True for a machine of one NPU.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Dimension of a link; 0 in an explicit graph.
    #[inline]
    pub fn dim(&self, link: u32) -> u32 {
        match &self.kind {
            Kind::Stack(stack) => stack.dim(link),
            Kind::Graph(_) => 0,
        }
    }

    /// The kind of a link, as [`Fabric::kinds_of_links`] counts them: on stacks its dimension.
    pub fn kind(&self, fabric: &Fabric, link: u32) -> u32 {
        match fabric {
            Fabric::Stacked(_) => self.dim(link),
            Fabric::Graph(graph) => graph.links[link as usize].kind,
        }
    }

    /// The kind of each link.
    pub fn kinds(&self, fabric: &Fabric) -> Vec<u16> {
        (0..self.len()).map(|link| self.kind(fabric, link) as u16).collect()
    }

    /// The link with this id, which must be below `len()`.
    pub fn link(&self, link: u32) -> Link {
        match &self.kind {
            Kind::Stack(stack) => stack.link(link),
            Kind::Graph(graph) => graph.link(link),
        }
    }

    /// On a stack, the NPU that owns a link: the link leaves it, or enters it from a switch.
    pub fn owner(&self, link: u32) -> Option<u32> {
        match &self.kind {
            Kind::Stack(stack) => Some(stack.owner(link)),
            Kind::Graph(_) => None,
        }
    }

    /// On a stack, the link that the NPU `npu(owner)` owns in the place that `link` has among those
    /// of its owner; on a graph `link`.
    pub fn same_place(&self, link: u32, npu: impl Fn(u32) -> u32) -> u32 {
        match &self.kind {
            Kind::Stack(stack) => stack.same_place(link, npu),
            Kind::Graph(_) => link,
        }
    }

    /// The lowest next link from `node` (NPU or switch) towards NPU `dst`; `None` when `node` is
    /// `dst`.
    #[inline]
    pub fn next(&self, node: u32, dst: u32) -> Option<Hop> {
        match &self.kind {
            Kind::Stack(stack) => stack.next(node, dst),
            Kind::Graph(graph) => {
                let links = graph.choices(node, dst, Near::Latency);
                links.first().map(|&link| graph.hop(link))
            }
        }
    }

    /// All next links from `node` towards NPU `dst` on routes of the fewest links and, on a graph,
    /// the least latency; by next node, then by link on a graph, by slot on a stack. A stack
    /// crosses its dimensions in order. A dragonfly has minimal routes, and a link is there once for
    /// each part of what the node sends. Empty when `node` is `dst`.
    pub fn choices(&self, node: u32, dst: u32) -> Vec<Hop> {
        let mut all = Vec::new();
        self.each_choice(node, dst, |hop| all.push(hop));
        all
    }

    /// Calls `each` with every hop of [`LinkGraph::choices`].
    #[inline]
    pub(crate) fn each_choice(&self, node: u32, dst: u32, mut each: impl FnMut(Hop)) {
        match &self.kind {
            Kind::Stack(stack) => {
                let ways = stack.ways(node, dst);
                (0..ways).filter_map(|way| stack.next_by(node, dst, way)).for_each(each);
            }
            Kind::Graph(graph) => {
                let links = graph.choices(node, dst, Near::Latency);
                links.iter().for_each(|&link| each(graph.hop(link)));
            }
        }
    }

    /// All links from `node` on minimal routes to NPU `dst`. Other than [`LinkGraph::choices`] they
    /// may cross the dimensions of a stack in any order, but a switch only after the dimensions
    /// before its own. Empty when `node` is `dst`.
    pub fn nearer(&self, node: u32, dst: u32, mut each: impl FnMut(Hop)) {
        match &self.kind {
            Kind::Stack(stack) => stack.each_nearer(node, dst, each),
            Kind::Graph(graph) => {
                let links = graph.choices(node, dst, Near::Latency);
                links.iter().for_each(|&link| each(graph.hop(link)));
            }
        }
    }

    /// The key with which a message from `src` to `dst` starts. On a graph NPUs count leaf by leaf,
    /// and the first digit of [`Routing::DModK`] counts the source too: where NPUs have several
    /// links, each then also receives by all of them.
    #[inline]
    pub fn key(&self, src: u32, dst: u32) -> u64 {
        match (&self.kind, self.routing) {
            (Kind::Graph(graph), Routing::DModK) => {
                let (ways, number) =
                    (u64::from(graph.ways(src, dst, Near::Latency)), u64::from(graph.number(dst)));
                turned(number * ways + (u64::from(graph.number(src)) + number) % ways, 0)
            }
            (_, routing) => routing.key(src, dst),
        }
    }

    /// The next link of a message by the routing policy. `key` starts as [`LinkGraph::key`] and goes
    /// on with the message; `turns` belongs to the network.
    #[inline]
    pub fn take(&self, node: u32, dst: u32, key: &mut u64, turns: &mut SprayTurns) -> Option<Hop> {
        match self.routing {
            Routing::Lowest => self.next(node, dst),
            Routing::Auto => self.next_evenly(node, dst),
            Routing::Spray => self.pick(node, dst, Near::Latency, |ways| turns.take(node, ways)),
            Routing::DModK | Routing::Hash { .. } => {
                let near = self.near(*key);
                self.pick(node, dst, near, |ways| self.digit(key, ways))
            }
        }
    }

    /// Measure of nearness for a message with this key.
    #[inline]
    fn near(&self, key: u64) -> Near {
        if self.spreads() && is_over_cards(key) { Near::Links } else { Near::Latency }
    }

    /// The next choice of a message that has a key.
    #[inline]
    fn digit(&self, key: &mut u64, ways: u32) -> u32 {
        match self.routing {
            Routing::DModK => turned_digit(key, ways),
            _ => digit(key, ways),
        }
    }

    /// The next link by [`Routing::Auto`].
    #[inline]
    fn next_evenly(&self, node: u32, dst: u32) -> Option<Hop> {
        match &self.kind {
            Kind::Stack(stack) => stack.next_evenly(node, dst),
            Kind::Graph(_) => self.next(node, dst),
        }
    }

    /// The next link chosen by `choose` where there are several.
    fn pick(
        &self,
        node: u32,
        dst: u32,
        near: Near,
        choose: impl FnOnce(u32) -> u32,
    ) -> Option<Hop> {
        match &self.kind {
            Kind::Stack(stack) => {
                let ways = stack.ways(node, dst);
                stack.next_by(node, dst, if ways > 1 { choose(ways) } else { 0 })
            }
            Kind::Graph(graph) => {
                let links = graph.choices(node, dst, near);
                let ways = links.len() as u32;
                let way = if ways > 1 { choose(ways) } else { 0 };
                links.get(way as usize).map(|&link| graph.hop(link))
            }
        }
    }

    /// The route from NPU `src` to NPU `dst` by the routing policy, link by link; with
    /// [`Routing::Spray`] that of the first message. Empty when they are the same.
    pub fn route(&self, src: u32, dst: u32) -> impl Iterator<Item = Hop> + '_ {
        self.by_key(src, dst, self.key(src, dst))
    }

    fn by_key(&self, src: u32, dst: u32, mut key: u64) -> impl Iterator<Item = Hop> + '_ {
        let mut at = src;
        std::iter::from_fn(move || {
            let hop = match self.routing {
                Routing::Lowest | Routing::Spray => self.next(at, dst)?,
                Routing::Auto => self.next_evenly(at, dst)?,
                Routing::DModK | Routing::Hash { .. } => {
                    let near = self.near(key);
                    self.pick(at, dst, near, |ways| self.digit(&mut key, ways))?
                }
            };
            at = hop.to;
            Some(hop)
        })
    }

    /// On a graph, the place of a link among those of its node, numbered alike at every node.
    pub(crate) fn place(&self, link: u32) -> u32 {
        match &self.kind {
            Kind::Stack(_) => link,
            Kind::Graph(graph) => graph.alike(link),
        }
    }

    /// The first link of [`LinkGraph::route`] among those of `src`, numbered alike by NPUs at which
    /// it leads the same way and, on a graph, has the same bandwidth and latency. Where messages
    /// spread, all that leave by cards have one number. `u32::MAX` when `src` is `dst`.
    pub fn departure(&self, src: u32, dst: u32) -> u32 {
        match (&self.kind, self.routing) {
            (Kind::Stack(stack), routing) => {
                stack.departure(src, dst, |ways, even| match routing {
                    Routing::Lowest | Routing::Spray => 0,
                    Routing::Auto => even,
                    Routing::DModK | Routing::Hash { .. } => {
                        self.digit(&mut routing.key(src, dst), ways.max(1))
                    }
                })
            }
            (Kind::Graph(graph), _) => {
                let first = self.route(src, dst).next().map(|hop| hop.link);
                let first =
                    first.map(|link| if self.spreads() { graph.first_card(link) } else { link });
                first.map_or(u32::MAX, |link| graph.alike(link))
            }
        }
    }

    /// The least sum of `cost` over the links of any route that the policy may take from NPU `src`
    /// to NPU `dst`.
    pub fn least(&self, src: u32, dst: u32, cost: impl Fn(Hop) -> Span) -> Span {
        // On a stack all routes cost the same.
        if self.routing != Routing::Spray || matches!(self.kind, Kind::Stack(_)) {
            let (lane, _) = self.first_part((src, dst), 0);
            return self.lane(src, dst, lane).map(cost).sum();
        }
        let mut known = BTreeMap::from([(dst, Span::ZERO)]);
        let mut open = vec![src];
        while let Some(&node) = open.last() {
            let choices = self.choices(node, dst);
            let before = open.len();
            open.extend(choices.iter().map(|hop| hop.to).filter(|to| !known.contains_key(to)));
            if open.len() == before {
                let through = |hop: &Hop| cost(*hop) + known[&hop.to];
                let least = choices.iter().map(through).min().unwrap_or_default();
                known.insert(node, least);
                open.pop();
            }
        }
        known.get(&src).copied().unwrap_or_default()
    }

    /// A turn of a generated fabric that takes every route of the policy to a route, if one is
    /// known.
    pub fn rotation(&self) -> Option<Rotation> {
        match &self.kind {
            Kind::Stack(_) => None,
            Kind::Graph(graph) => graph.rotation(self.routing),
        }
    }

    /// Links from NPU `src` to the NPU that is farthest from it.
    pub(crate) fn farthest(&self, src: u32) -> u32 {
        let found = match &self.kind {
            Kind::Stack(_) => None,
            Kind::Graph(graph) => graph.farthest(src),
        };
        let hops = || (0..self.npus()).map(|dst| self.hops(src, dst)).max();
        found.or_else(hops).unwrap_or(0)
    }

    /// Number of links from NPU `src` to NPU `dst`.
    pub fn hops(&self, src: u32, dst: u32) -> u32 {
        match &self.kind {
            Kind::Stack(stack) => stack.hops(src, dst),
            Kind::Graph(_) => self.route(src, dst).count() as u32,
        }
    }
}

impl GraphFabric {
    /// Checks that every link joins two different nodes and that every NPU reaches every other.
    ///
    /// # Errors
    /// Every [`LinkError`].
    pub fn check(&self) -> Result<(), LinkError> {
        GraphLinks::new(self).map(|_| ())
    }
}
