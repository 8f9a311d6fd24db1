//! How a message spreads over the cards of its NPU.
//!
//! The cards towards another NPU are the links by which its routes leave: all lead to switches, or
//! all to one and the same node. Each card has a *lane*: a route of [`Routing::DModK`] on which all
//! choices behind the card are turned by one number. Usually that is the number of the card. Then
//! lanes share no link where a fabric has the room. Where links are not alike, it is the first
//! number by which the lane is the least slowed down by its other links and by lanes before it.
//!
//! A message has parts in proportion to the bandwidth of its lanes. Lanes with more latency take
//! part where messages arrive earlier with them.

use crate::graph::{GraphLinks, Near};
use crate::routing::{mix, over_cards, turned_digit};
use crate::{Fabric, Lane, LaneId, LinkGraph, Routing};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most turns of choices that a lane tries.
const TURNS: u16 = 8;
/// A lane with this many times less bandwidth than the fastest, and no less latency, is left: most
/// often it belongs to another network.
const SLOWER: u64 = 4;
/// Most sources that [`Fabric::cards`] looks at.
const LOOKED_AT: u32 = 64;
const PS_PER_S: u128 = 1_000_000_000_000;

/// Finds the lanes of messages on one graph.
#[derive(Debug)]
pub struct Lanes {
    /// Those that were found last, at least one: by latency, then the fastest first.
    pub found: Arc<[Lane]>,
    /// NPUs that one may send to.
    peers: u32,
    /// The lane of a message on one route.
    only: Arc<[Lane]>,
}

impl Default for Lanes {
    fn default() -> Lanes {
        let only = Lane { id: LaneId::default(), rate: 1, latency: 0, links: Box::default() };
        let only: Arc<[Lane]> = [only].into();
        Lanes { found: only.clone(), peers: 1, only }
    }
}

impl Lanes {
    /// The lanes from NPU `src` to NPU `dst`.
    pub fn of(graph: &LinkGraph, ends: (u32, u32)) -> Lanes {
        let mut lanes = Lanes::default();
        lanes.find(graph, ends);
        lanes
    }

    /// Finds the lanes from NPU `src` to NPU `dst`.
    pub fn find(&mut self, graph: &LinkGraph, ends: (u32, u32)) {
        self.peers = graph.npus().saturating_sub(1).max(1);
        let known = graph.remembered().map(|(links, known)| {
            known.of(ends, || Search::new(graph, links, ends).lanes().into())
        });
        self.found = known.unwrap_or_else(|| self.only.clone());
    }

    /// The lanes that carry a message. Over them it arrives at the earliest if its NPU sends such a
    /// message to every other one: a slow lane of little latency then does not fill up.
    fn used(&self, bytes: u64) -> &[Lane] {
        let mut best = (u128::MAX, self.found.len());
        let mut total = 0u128;
        for (at, lane) in self.found.iter().enumerate() {
            total += u128::from(lane.rate);
            if self.found.get(at + 1).is_some_and(|next| next.latency == lane.latency) {
                continue;
            }
            let bytes = u128::from(bytes) * u128::from(self.peers);
            let sends = bytes.saturating_mul(PS_PER_S).div_ceil(total.max(1));
            let time = u128::from(lane.latency) + sends;
            if time < best.0 {
                best = (time, at + 1);
            }
        }
        &self.found[..best.1]
    }

    /// Lanes with their part of a message; all parts together are the message, and only the first
    /// may carry nothing.
    pub fn parts(&self, bytes: u64) -> impl Iterator<Item = (LaneId, u64)> + '_ {
        self.shares(bytes, bytes).map(|(lane, bytes)| (lane.id, bytes))
    }

    /// Lanes of a message of `bytes` with their share of `whole`.
    pub(crate) fn shares(&self, bytes: u64, whole: u64) -> impl Iterator<Item = (&Lane, u64)> + '_ {
        let used = self.used(bytes);
        let total: u128 = used.iter().map(|lane| u128::from(lane.rate)).sum();
        let upto = move |rate: u128| (u128::from(whole) * rate).div_ceil(total.max(1)) as u64;
        let mut before = 0;
        used.iter().enumerate().filter_map(move |(at, lane)| {
            let first = upto(before);
            before += u128::from(lane.rate);
            let part = upto(before) - first;
            (at == 0 || part > 0).then_some((lane, part))
        })
    }
}

impl LinkGraph {
    /// A number for all links of [`LinkGraph::departure`] over which a message spreads.
    pub fn departures(&self, src: u32, dst: u32) -> u64 {
        let lanes = Lanes::of(self, (src, dst)).found;
        let first = lanes.iter().filter_map(|lane| lane.links.first());
        let cards = first.map(|&link| self.place(link));
        cards.fold(0, |all, card| mix(all.wrapping_add(card.into())))
    }

    /// The links of a lane that [`Lanes`] found for this pair.
    pub fn over<'a>(&self, (src, dst): (u32, u32), lane: &'a Lane) -> Cow<'a, [u32]> {
        if self.spreads() {
            return Cow::Borrowed(&lane.links);
        }
        Cow::Owned(self.lane(src, dst, lane.id).map(|hop| hop.link).collect())
    }

    /// The lane that a message from `src` to `dst` takes first, and what it carries of it.
    pub fn first_part(&self, (src, dst): (u32, u32), bytes: u64) -> (LaneId, u64) {
        if !self.spreads() {
            return (LaneId::default(), bytes);
        }
        Lanes::of(self, (src, dst)).parts(bytes).next().unwrap_or((LaneId::default(), bytes))
    }
}

impl Fabric {
    /// The most cards over which a message between some of the NPUs spreads; 1 on a stack.
    pub fn cards(&self) -> usize {
        if matches!(self, Fabric::Stacked(_)) || !self.npus_choose() {
            return 1;
        }
        let Ok(graph) = LinkGraph::new(self) else { return 1 };
        let graph = graph.with_routing(Routing::Auto);
        if !graph.spreads() {
            return 1;
        }
        let n = self.npus();
        let peers = |src: u32| [0, (src + 1) % n, (src + n / 2) % n].map(|dst| (src, dst));
        let pairs = (0..n.min(LOOKED_AT)).flat_map(peers).filter(|&(src, dst)| src != dst);
        pairs.map(|ends| Lanes::of(&graph, ends).found.len()).max().unwrap_or(1)
    }
}

/// Finds the lanes of one pair.
struct Search<'a> {
    graph: &'a LinkGraph,
    links: &'a GraphLinks,
    ends: (u32, u32),
    /// The next links to the destination from each node.
    choices: BTreeMap<u32, Cow<'a, [u32]>>,
    /// Other NPUs may relay: all cards lead to one node.
    relays: bool,
    /// The route that was found last.
    route: Vec<u32>,
    /// Parts of links that earlier lanes take.
    taken: BTreeMap<u32, u64>,
}

impl<'a> Search<'a> {
    fn new(graph: &'a LinkGraph, links: &'a GraphLinks, ends: (u32, u32)) -> Search<'a> {
        let first = links.choices(ends.0, ends.1, Near::Links);
        let to = |&link: &u32| links.hop(link).to;
        let relays = first.len() > 1 && first.windows(2).all(|pair| to(&pair[0]) == to(&pair[1]));
        let choices = BTreeMap::from([(ends.0, first)]);
        let (route, taken) = (Vec::new(), BTreeMap::new());
        Search { graph, links, ends, choices, relays, route, taken }
    }

    /// The lanes; at least one.
    fn lanes(mut self) -> Vec<Lane> {
        let number = self.links.cards(self.ends.0, self.ends.1);
        let mut cards: Vec<_> = (0..number).map(|card| (Reverse(self.first(card)), card)).collect();
        cards.sort_unstable();
        let mut found = Vec::new();
        for (Reverse(rate), card) in cards {
            let Some(lane) = self.best(card, rate) else { continue };
            for &link in &lane.links {
                *self.taken.entry(link).or_default() += lane.rate;
            }
            found.push(lane);
        }
        if found.is_empty() {
            found.push(self.by_destination());
        }
        leave_slow(&mut found);
        found.sort_by_key(|lane| (lane.latency, Reverse(lane.rate), lane.id.card));
        found
    }

    /// The next links from a node.
    fn next(&mut self, node: u32) -> &[u32] {
        let (links, dst) = (self.links, self.ends.1);
        self.choices.entry(node).or_insert_with(|| links.choices(node, dst, Near::Links))
    }

    fn key(&mut self, id: LaneId) -> u64 {
        let (src, dst) = self.ends;
        let ways = self.next(src).len() as u32;
        over_cards((self.links.number(src), self.links.number(dst)), ways, id)
    }

    fn take(&mut self, node: u32, key: &mut u64) -> Option<u32> {
        let links = self.next(node);
        let ways = links.len() as u32;
        let way = if ways > 1 { turned_digit(key, ways) } else { 0 };
        links.get(way as usize).copied()
    }

    /// Bandwidth of the link by which a card leaves.
    fn first(&mut self, card: u16) -> u64 {
        let mut key = self.key(LaneId { card, turn: card, over_cards: true });
        let link = self.take(self.ends.0, &mut key);
        link.map_or(0, |link| self.graph.link(link).bandwidth.0)
    }

    /// The lane of a card of this bandwidth: the first one that is not slowed down, or the fastest.
    /// None where other NPUs relay all of them.
    fn best(&mut self, card: u16, rate: u64) -> Option<Lane> {
        let mut best: Option<Lane> = None;
        for more in 0..TURNS {
            let id = LaneId { card, turn: card + more, over_cards: true };
            if !self.walk(id) {
                continue;
            }
            let left = self.rate();
            if best.as_ref().is_none_or(|best| left > best.rate) {
                best = Some(self.lane(id));
            }
            if left >= rate {
                break;
            }
        }
        best
    }

    /// Finds the route of a lane; false where another NPU relays it and must not.
    fn walk(&mut self, id: LaneId) -> bool {
        self.route.clear();
        let (mut at, mut key) = (self.ends.0, self.key(id));
        while let Some(link) = self.take(at, &mut key) {
            at = self.links.hop(link).to;
            self.route.push(link);
            if at < self.graph.npus() && at != self.ends.1 && !self.relays {
                return false;
            }
        }
        true
    }

    /// Bytes per second that the links of the route leave.
    fn rate(&self) -> u64 {
        let left = |link: &u32| {
            let taken = self.taken.get(link).copied().unwrap_or(0);
            self.graph.link(*link).bandwidth.0.saturating_sub(taken)
        };
        self.route.iter().map(left).min().unwrap_or(1).max(1)
    }

    fn lane(&self, id: LaneId) -> Lane {
        let latency = self.route.iter().map(|&link| self.graph.link(link).latency.0).sum();
        Lane { id, rate: self.rate(), latency, links: self.route.as_slice().into() }
    }

    /// The lane of the route by destination.
    fn by_destination(&mut self) -> Lane {
        let id = LaneId::default();
        self.route.clear();
        self.route.extend(self.graph.lane(self.ends.0, self.ends.1, id).map(|hop| hop.link));
        self.lane(id)
    }
}

/// Leaves lanes that are much slower than the fastest one, and no sooner.
fn leave_slow(found: &mut Vec<Lane>) {
    let fastest = found.iter().max_by_key(|lane| (lane.rate, Reverse(lane.latency)));
    let Some(fastest) = fastest.cloned() else { return };
    found.retain(|lane| {
        let slow = lane.rate.saturating_mul(SLOWER) < fastest.rate;
        lane.id == fastest.id || !(slow && lane.latency >= fastest.latency)
    });
}
