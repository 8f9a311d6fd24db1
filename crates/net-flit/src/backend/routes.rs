//! Ways of packets with a class of virtual channels for each link, and the proof that they cannot
//! lock up.
//!
//! Ways are those of the topology, as on the other networks. In a ring a packet is of class 0 until
//! it crosses the link that closes the ring, and of class 1 from there on (a dateline: Dally and
//! Seitz, IEEE Transactions on Computers C-36, 1987). Then no channel depends on itself: a packet
//! that holds a channel waits only for the next one on its way. If these dependencies have no
//! circle, the network cannot lock up (the same paper). On graphs whole routes get a class each, so
//! that no class has a circle (`layers.rs`). [`Routes::new`] looks for circles before the run.

use super::circle::circle;
use super::layers;
use crate::fabric::{Packet, Routing, Way};
use std::collections::HashMap;
use topology::{Fabric, LinkGraph};

/// A virtual channel class of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hop {
    /// Link, as the topology numbers links.
    pub link: u32,
    /// Class.
    pub class: u16,
}

/// Channels that depend on one another, each on the next and the last on the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle(pub Vec<Hop>);

/// Where the routes of a fabric lie, and where they cross a dateline.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    /// Ways out of all routers, route by route.
    ways: Vec<Way>,
    known: HashMap<(u32, u32), u32>,
    /// By dimension of a stack: distance of neighbours and size of a ring, 0 of other blocks.
    rings: Vec<(u32, u32)>,
    /// For each NPU, its first channel to its node, and their number.
    ejections: Vec<(u32, u32)>,
    /// On a graph with circles: the class of each pair of NPUs.
    layers: Vec<u8>,
    npus: u32,
    /// For each link, its number among those that enter its end, and that leave its beginning.
    entries: Vec<u32>,
    exits: Vec<u32>,
}

impl Routing for Routes {
    #[inline]
    fn next(&mut self, _: u32, packet: &Packet, hops: u32) -> Way {
        self.ways[(packet.way + hops) as usize]
    }
}

impl Routes {
    /// The routes of a fabric, and the classes that they need so that nothing locks up: two where
    /// there are rings of three NPUs or more.
    ///
    /// # Errors
    /// Channels that depend on one another in a circle, whatever the classes.
    pub(super) fn new(fabric: &Fabric, graph: &LinkGraph) -> Result<(Routes, u16), Circle> {
        let mut stride = 1;
        let mut ring = |dim: &topology::Dim| {
            let size = if dim.block.has_ways_round(dim.size) { dim.size } else { 0 };
            stride *= dim.size;
            (stride / dim.size, size)
        };
        let rings: Vec<(u32, u32)> = match fabric {
            Fabric::Stacked(dims) => dims.iter().map(&mut ring).collect(),
            Fabric::Graph(_) => Vec::new(),
        };
        let numbered = |end: fn(topology::Link) -> u32| {
            let mut counts = vec![0u32; graph.nodes() as usize];
            let number = |link| {
                let count = &mut counts[end(graph.link(link)) as usize];
                *count += 1;
                *count - 1
            };
            (0..graph.len()).map(number).collect()
        };
        let mut routes = Routes {
            ways: Vec::new(),
            known: HashMap::new(),
            ejections: Vec::new(),
            layers: Vec::new(),
            npus: graph.npus(),
            entries: numbered(|link| link.to),
            exits: numbered(|link| link.from),
            rings,
        };
        let classes = 1 + u16::from(routes.rings.iter().any(|&(_, size)| size > 0));
        let circle = circle(&routes.dependencies(graph, classes.into(), &routes.pairs(graph)));
        let Some(found) = circle else { return Ok((routes, classes)) };
        if routes.rings.is_empty()
            && let Some((layers, classes)) = layers::assign(graph)
        {
            routes.layers = layers;
            return Ok((routes, classes));
        }
        let classes = u32::from(classes);
        let hop = |number: u32| Hop { link: number / classes, class: (number % classes) as u16 };
        Err(Circle(found.into_iter().map(hop).collect()))
    }

    /// Where flits leave to nodes: for each NPU its first channel, and their number.
    pub(super) fn with_ejections(self, ejections: Vec<(u32, u32)>) -> Routes {
        Routes { ejections, ..self }
    }

    /// Links and classes from one NPU to another.
    pub(super) fn hops<'a>(
        &'a self,
        graph: &'a LinkGraph,
        src: u32,
        dst: u32,
    ) -> impl Iterator<Item = Hop> + 'a {
        let layer = self.layers.get((src * self.npus + dst) as usize).copied();
        let (mut dim, mut class) = (u32::MAX, 0);
        graph.route(src, dst).map(move |hop| {
            if let Some(layer) = layer {
                return Hop { link: hop.link, class: layer.into() };
            }
            let link = graph.link(hop.link);
            if link.dim != dim {
                (dim, class) = (link.dim, 0);
            }
            if self.closes_ring(link.from, link.to, dim) {
                class = 1;
            }
            Hop { link: hop.link, class }
        })
    }

    fn closes_ring(&self, from: u32, to: u32, dim: u32) -> bool {
        let Some(&(stride, size)) = self.rings.get(dim as usize) else { return false };
        size > 2 && (from / stride % size).abs_diff(to / stride % size) > 1
    }

    /// The number of a link among those that leave the same node.
    pub(super) fn exit(&self, link: u32) -> u32 {
        self.exits[link as usize]
    }

    /// Where the way of a packet begins, and the link by which it leaves.
    pub(super) fn way(&mut self, graph: &LinkGraph, src: u32, dst: u32) -> (u32, Hop) {
        if let Some(&known) = self.known.get(&(src, dst)) {
            let first = self.ways[known as usize];
            return (known, Hop { link: first.channel, class: first.vnet });
        }
        let start = self.ways.len() as u32;
        let hops: Vec<Hop> = self.hops(graph, src, dst).collect();
        self.ways.extend(hops.iter().map(|hop| Way { channel: hop.link, vnet: hop.class }));
        let last = hops[hops.len() - 1];
        let (first, count) = self.ejections[dst as usize];
        let channel = first + self.entries[last.link as usize] % count;
        self.ways.push(Way { channel, vnet: last.class });
        self.known.insert((src, dst), start);
        (start, hops[0])
    }

    /// For each channel, a class of a link, those that follow it on a route of a pair.
    fn dependencies(&self, graph: &LinkGraph, classes: u32, pairs: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let mut after = vec![Vec::new(); (graph.len() * classes) as usize];
        for &(src, dst) in pairs {
            let mut before: Option<u32> = None;
            for Hop { link, class } in self.hops(graph, src, dst) {
                let this = link * classes + u32::from(class);
                if let Some(before) = before {
                    let following: &mut Vec<u32> = &mut after[before as usize];
                    if !following.contains(&this) {
                        following.push(this);
                    }
                }
                before = Some(this);
            }
        }
        after
    }

    /// Pairs of NPUs whose routes have all dependencies there are. On a stack routes take one
    /// dimension after the other, all lines of a dimension are alike, and in a line every route
    /// begins like one to the farthest: to an end, or half way round either way.
    fn pairs(&self, graph: &LinkGraph) -> Vec<(u32, u32)> {
        let npus = graph.npus();
        if self.rings.is_empty() {
            return (0..npus)
                .flat_map(|src| (0..npus).map(move |dst| (src, dst)))
                .filter(|(src, dst)| src != dst)
                .collect();
        }
        let strides: Vec<u32> = self.rings.iter().map(|ring| ring.0).chain([npus]).collect();
        let mut pairs = Vec::new();
        for (dim, ends) in strides.windows(2).enumerate() {
            let (stride, size) = (ends[0], ends[1] / ends[0]);
            for from in 0..size {
                let half = (0..4).map(|more| (from + size / 2 + more + size - 1) % size);
                for to in half.chain([0, size - 1]).filter(|&to| to != from) {
                    pairs.push((from * stride, to * stride));
                    for step in strides[dim + 1..].iter().filter(|&&step| step < npus) {
                        pairs.push((from * stride, to * stride + step));
                    }
                }
            }
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a line the routes to the farthest have the dependencies of all.
    #[test]
    fn the_farthest_pairs_are_enough() {
        for (block, size) in
            ["R", "M", "SW", "FC"].into_iter().flat_map(|b| (2..10).map(move |n| (b, n)))
        {
            let shape: topology::Topology = format!("{block}({size})").parse().expect("a shape");
            let dim = |&(block, size)| topology::Dim {
                block,
                size,
                bandwidth: units::Bandwidth(1),
                latency: units::Span(1),
            };
            let fabric = Fabric::Stacked(shape.dims.iter().map(dim).collect());
            let graph = LinkGraph::new(&fabric).expect("a network");
            let (routes, classes) = Routes::new(&fabric, &graph).expect("no circle");
            let classes = u32::from(classes);
            let pairs = (0..size).flat_map(|src| (0..size).map(move |dst| (src, dst)));
            let all: Vec<(u32, u32)> = pairs.filter(|(src, dst)| src != dst).collect();
            let sorted = |pairs: &[(u32, u32)]| {
                let mut found = routes.dependencies(&graph, classes, pairs);
                found.iter_mut().for_each(|following| following.sort_unstable());
                found
            };
            let (few, all) = (sorted(&routes.pairs(&graph)), sorted(&all));
            if block == "SW" {
                // Every way up may be followed by every way down; none is followed by a way up.
                assert!(few.iter().zip(&all).all(|(few, all)| few.iter().all(|f| all.contains(f))));
            } else {
                assert_eq!(few, all, "{block}({size})");
            }
            assert_eq!(circle(&all), None, "{block}({size})");
        }
    }
}
