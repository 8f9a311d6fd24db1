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

use crate::routing::mix;
use crate::{Fabric, Hop, LaneId, LinkGraph, Routing};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Most turns of choices that a lane tries.
const TURNS: u16 = 8;
/// A lane with this many times less bandwidth than the fastest, and no less latency, is left: most
/// often it belongs to another network.
const SLOWER: u64 = 4;
/// Most pairs whose lanes are kept.
const KEPT: usize = 1 << 16;
/// Most sources that [`Fabric::cards`] looks at.
const LOOKED_AT: u32 = 64;
const PS_PER_S: u128 = 1_000_000_000_000;

/// A lane of the cards of an NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its name.
    pub id: LaneId,
    /// Bytes per second that its slowest link leaves to it.
    pub rate: u64,
    /// Latency of its links, in picoseconds.
    pub latency: u64,
}

/// Finds the lanes of messages on one graph.
#[derive(Debug, Default)]
pub struct Lanes {
    /// Those that were found last, at least one: by latency, then the fastest first.
    pub found: Vec<Lane>,
    /// NPUs that one may send to.
    peers: u32,
    /// Parts of links that earlier lanes take.
    taken: BTreeMap<u32, u64>,
    /// Those of pairs that were asked for.
    known: BTreeMap<(u32, u32), Box<[Lane]>>,
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
        self.found.clear();
        self.peers = graph.npus().saturating_sub(1).max(1);
        if !graph.spreads() {
            self.found.push(Lane { id: LaneId::default(), rate: 1, latency: 0 });
        } else if let Some(known) = self.known.get(&ends) {
            self.found.extend(known);
        } else {
            self.search(graph, ends);
            if self.known.len() >= KEPT {
                self.known.clear();
            }
            self.known.insert(ends, self.found.as_slice().into());
        }
    }

    fn search(&mut self, graph: &LinkGraph, (src, dst): (u32, u32)) {
        self.taken.clear();
        let first = |card: u16| {
            let id = LaneId { card, turn: card, over_cards: true };
            let link = graph.lane(src, dst, id).next().map(|hop| hop.link);
            (Reverse(link.map_or(0, |link| graph.link(link).bandwidth.0)), card)
        };
        let mut cards: Vec<_> = (0..graph.lanes(src, dst)).map(first).collect();
        cards.sort_unstable();
        for (Reverse(rate), card) in cards {
            let lane = self.best(graph, (src, dst), (card, rate));
            for hop in graph.lane(src, dst, lane.id) {
                *self.taken.entry(hop.link).or_default() += lane.rate;
            }
            self.found.push(lane);
        }
        self.leave_relayed(graph, (src, dst));
        self.leave_slow();
        self.found.sort_by_key(|lane| (lane.latency, Reverse(lane.rate), lane.id.card));
    }

    /// The lane of a card of this bandwidth: the first one that is not slowed down, or the fastest.
    fn best(&self, graph: &LinkGraph, ends: (u32, u32), (card, rate): (u16, u64)) -> Lane {
        let mut best: Option<Lane> = None;
        for more in 0..TURNS {
            let id = LaneId { card, turn: card + more, over_cards: true };
            let lane = self.lane(graph, ends, id);
            if best.is_none_or(|best| lane.rate > best.rate) {
                best = Some(lane);
            }
            if lane.rate >= rate {
                break;
            }
        }
        best.unwrap_or(Lane { id: LaneId::default(), rate: 1, latency: 0 })
    }

    fn lane(&self, graph: &LinkGraph, (src, dst): (u32, u32), id: LaneId) -> Lane {
        let left = |hop: &Hop| {
            let taken = self.taken.get(&hop.link).copied().unwrap_or(0);
            graph.link(hop.link).bandwidth.0.saturating_sub(taken)
        };
        let route = || graph.lane(src, dst, id);
        let rate = route().map(|hop| left(&hop)).min().unwrap_or(1).max(1);
        let latency = route().map(|hop| graph.link(hop.link).latency.0).sum();
        Lane { id, rate, latency }
    }

    /// Leaves lanes that other NPUs relay, unless they are parallel links to one node. Where all are
    /// relayed, the route by destination is the only one.
    fn leave_relayed(&mut self, graph: &LinkGraph, (src, dst): (u32, u32)) {
        let route = |lane: &Lane| graph.lane(src, dst, lane.id).map(|hop| hop.to);
        let mut first = self.found.iter().map(|lane| route(lane).next());
        let one = first.next();
        if self.found.len() > 1 && one.is_none_or(|one| first.all(|other| other == one)) {
            return;
        }
        self.found.retain(|lane| route(lane).all(|to| to == dst || to >= graph.npus()));
        if self.found.is_empty() {
            self.found.push(self.lane(graph, (src, dst), LaneId::default()));
        }
    }

    /// Leaves lanes that are much slower than the fastest one, and no sooner.
    fn leave_slow(&mut self) {
        let fastest = self.found.iter().max_by_key(|lane| (lane.rate, Reverse(lane.latency)));
        let Some(&fastest) = fastest else { return };
        self.found.retain(|lane| {
            let slow = lane.rate.saturating_mul(SLOWER) < fastest.rate;
            lane.id == fastest.id || !(slow && lane.latency >= fastest.latency)
        });
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
        self.shares(bytes, bytes)
    }

    /// Lanes of a message of `bytes` with their share of `whole`.
    pub(crate) fn shares(
        &self,
        bytes: u64,
        whole: u64,
    ) -> impl Iterator<Item = (LaneId, u64)> + '_ {
        let used = self.used(bytes);
        let total: u128 = used.iter().map(|lane| u128::from(lane.rate)).sum();
        let upto = move |rate: u128| (u128::from(whole) * rate).div_ceil(total.max(1)) as u64;
        let mut before = 0;
        let part = move |(at, lane): (usize, &Lane)| {
            let first = upto(before);
            before += u128::from(lane.rate);
            (at, lane.id, upto(before) - first)
        };
        let sent = used.iter().enumerate().map(part);
        sent.filter(|&(at, _, bytes)| at == 0 || bytes > 0).map(|(_, id, bytes)| (id, bytes))
    }
}

impl LinkGraph {
    /// A number for all links of [`LinkGraph::departure`] over which a message spreads.
    pub fn departures(&self, src: u32, dst: u32) -> u64 {
        let lanes = Lanes::of(self, (src, dst)).found;
        let first = |lane: &Lane| self.lane(src, dst, lane.id).next();
        let cards = lanes.iter().filter_map(first).map(|hop| self.place(hop.link));
        cards.fold(0, |all, card| mix(all.wrapping_add(card.into())))
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
