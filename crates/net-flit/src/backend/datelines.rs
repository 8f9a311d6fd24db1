//! Classes of virtual channels on stacks: datelines.
//!
//! Routes cross the dimensions in order. In a ring a packet is of class 0 until it crosses the link
//! that closes the ring, and of class 1 from there on (Dally and Seitz, IEEE Transactions on
//! Computers C-36, 1987). Rings without a circle of dependencies, such as those of three NPUs, and
//! all other blocks need one class.

use super::routing_choice::Hop;
use topology::{Dim, LinkGraph, Paths, Symmetry};

/// Where a stack has rings, and how many classes it uses.
#[derive(Clone, Debug)]
pub(super) struct Datelines {
    /// Distance of neighbours and size of a ring for each dimension, 0 of other blocks.
    rings: Vec<(u32, u32)>,
    npus: u32,
    pub classes: u16,
}

impl Datelines {
    pub(super) fn new(dims: &[Dim], classes: u16) -> Datelines {
        let mut stride = 1;
        let ring = |dim: &Dim| {
            let block = dim.block;
            let closes = block.paths() == Paths::Relayed
                && block.symmetry() == Symmetry::Rotation
                && dim.size > 2;
            stride *= dim.size;
            (stride / dim.size, if closes { dim.size } else { 0 })
        };
        Datelines { rings: dims.iter().map(ring).collect(), npus: stride_of(dims), classes }
    }

    /// Links and classes from one NPU to another.
    pub(super) fn hops(&self, graph: &LinkGraph, src: u32, dst: u32) -> Vec<Hop> {
        let (mut dim, mut class) = (u32::MAX, 0);
        let hop = |hop: topology::Hop| {
            let link = graph.link(hop.link);
            if link.dim != dim {
                (dim, class) = (link.dim, 0);
            }
            if self.closes_ring(link.from, link.to, dim) {
                class = self.classes - 1;
            }
            Hop { link: hop.link, class }
        };
        graph.route(src, dst).map(hop).collect()
    }

    /// The class of a link on a minimal way to NPU `dst`, by where it begins only: 0 where the way
    /// still crosses the link that closes its ring, the last one else.
    pub(super) fn class_towards(&self, graph: &LinkGraph, link: u32, dst: u32) -> u16 {
        let link = graph.link(link);
        let Some(&(stride, size)) = self.rings.get(link.dim as usize) else { return 0 };
        if size == 0 {
            return 0;
        }
        let place = |npu: u32| npu / stride % size;
        let (from, next, to) = (place(link.from), place(link.to), place(dst));
        let crosses = if next == (from + 1) % size { to < from } else { to > from };
        if crosses { 0 } else { self.classes - 1 }
    }

    fn closes_ring(&self, from: u32, to: u32, dim: u32) -> bool {
        let Some(&(stride, size)) = self.rings.get(dim as usize) else { return false };
        size > 2 && (from / stride % size).abs_diff(to / stride % size) > 1
    }

    /// Whether opposite places of a ring may take either way round, by pair.
    pub(super) fn has_ties(&self, graph: &LinkGraph) -> bool {
        use topology::Routing::{DModK, Hash};
        matches!(graph.routing(), DModK | Hash { .. })
            && self.rings.iter().any(|ring| ring.1 > 0 && ring.1.is_multiple_of(2))
    }

    /// Pairs of NPUs whose routes have all dependencies there are. Routes take one dimension after
    /// the other, all lines of a dimension are alike, and in a line every route begins like one to
    /// the farthest: to an end, or half way round either way.
    pub(super) fn pairs(&self) -> Vec<(u32, u32)> {
        let npus = self.npus;
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

    /// Pairs of NPUs of one line of each dimension.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let strides: Vec<u32> = self.rings.iter().map(|ring| ring.0).chain([self.npus]).collect();
        (0..self.rings.len()).flat_map(move |dim| {
            let (stride, size) = (strides[dim], strides[dim + 1] / strides[dim]);
            let places = (0..size).flat_map(move |from| (0..size).map(move |to| (from, to)));
            places.filter(|(from, to)| from != to).map(move |(a, b)| (a * stride, b * stride))
        })
    }
}

fn stride_of(dims: &[Dim]) -> u32 {
    dims.iter().map(|dim| dim.size).product()
}
