//! How a message spreads over the cards of its NPU.
//!
//! The cards towards another NPU are the links by which its routes leave: all lead to switches, or
//! all to one and the same node. Each card has a *lane*: the route of [`Routing::DModK`] with each
//! choice on it turned by the number of the lane. So lanes leave by different cards, and where a
//! fabric has the room they share no link. A message has parts in proportion to the slowest links of
//! its lanes. Lane 0 is the route that a message takes without cards.

use crate::{Fabric, LinkGraph, Routing};

/// Most sources that [`Fabric::cards`] looks at.
const LOOKED_AT: u32 = 256;

/// A lane of the cards of an NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its number.
    pub number: u16,
    /// The bandwidth of its slowest link, in bytes per second.
    pub rate: u64,
}

/// Finds the lanes of messages; buffers are reused.
#[derive(Debug, Default)]
pub struct Lanes {
    /// Those that were found last, at least one.
    pub found: Vec<Lane>,
}

impl Lanes {
    /// Finds the lanes from NPU `src` to NPU `dst`.
    pub fn find(&mut self, graph: &LinkGraph, (src, dst): (u32, u32)) {
        self.found.clear();
        let lanes = graph.lanes(src, dst);
        self.found.extend((0..lanes).map(|number| {
            let links = graph.lane(src, dst, number).map(|hop| graph.link(hop.link).bandwidth.0);
            Lane { number, rate: if lanes == 1 { 1 } else { links.min().unwrap_or(1) } }
        }));
    }

    /// What lane 0 carries of a message.
    pub fn first(graph: &LinkGraph, ends: (u32, u32), bytes: u64) -> u64 {
        if !graph.spreads() {
            return bytes;
        }
        let mut lanes = Lanes::default();
        lanes.find(graph, ends);
        lanes.parts(bytes).next().map_or(bytes, |(_, bytes)| bytes)
    }

    /// Lanes with their part of a message; all parts together are the message, and only lane 0 may
    /// carry nothing.
    pub fn parts(&self, bytes: u64) -> impl Iterator<Item = (u16, u64)> + '_ {
        let total: u128 = self.found.iter().map(|lane| u128::from(lane.rate)).sum();
        let upto = move |rate: u128| (u128::from(bytes) * rate).div_ceil(total.max(1)) as u64;
        let mut before = 0;
        let part = move |lane: &Lane| {
            let first = upto(before);
            before += u128::from(lane.rate);
            (lane.number, upto(before) - first)
        };
        self.found.iter().map(part).filter(|&(lane, bytes)| lane == 0 || bytes > 0)
    }
}

impl Fabric {
    /// The most cards over which a message between some of the NPUs spreads; 1 on a stack.
    pub fn cards(&self) -> u16 {
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
        let pairs = (0..n.min(LOOKED_AT)).flat_map(peers);
        pairs.map(|(src, dst)| graph.lanes(src, dst)).max().unwrap_or(1)
    }
}
