//! Blocks stacked by dimension: coordinates, and every link as arithmetic on dense ids, nothing
//! stored.
//!
//! NPUs are nodes `0..npus`, then come the switches, dimension by dimension. The links of dimension
//! d start at `first_link` and are numbered by the rank that owns them, then by slot. Routes are
//! dimension-ordered, dimension 0 first.

use crate::divide::Divisor;
use crate::link::{Hop, Link, LinkError};
use crate::{Block, Dim, Paths};
use units::{Bandwidth, Span};

/// The coordinates of `rank` in a stack of these sizes, innermost first.
pub fn coordinates(rank: u32, sizes: &[u32]) -> Vec<u32> {
    let mut rest = rank;
    let mut next = |&size: &u32| {
        let at = rest % size;
        rest /= size;
        at
    };
    sizes.iter().map(&mut next).collect()
}

/// The outermost of dimensions of `sizes` in which two ranks differ; `None` where they are the same.
pub fn outermost(sizes: &[u32], a: u32, b: u32) -> Option<usize> {
    let (mut a, mut b, mut found) = (a, b, None);
    for (dim, &size) in sizes.iter().enumerate() {
        if a % size != b % size {
            found = Some(dim);
        }
        (a, b) = (a / size, b / size);
    }
    found
}

/// The rank at `coordinates` in a stack of these sizes, innermost first.
pub fn rank(coordinates: &[u32], sizes: &[u32]) -> u32 {
    coordinates.iter().zip(sizes).rev().fold(0, |rank, (&at, &size)| rank * size + at)
}

#[derive(Clone, Debug)]
struct Layer {
    block: Block,
    size: u32,
    stride: u32,
    by_size: Divisor,
    by_stride: Divisor,
    /// Links that each NPU owns; 0 where the NPUs own different numbers.
    per_npu: u32,
    /// Links of one instance of the block.
    links: u32,
    /// Links by which an NPU leaves along this dimension.
    leaving: u32,
    first_link: u32,
    first_switch: u32,
    bandwidth: Bandwidth,
    latency: Span,
}

/// The links of a stacked fabric.
#[derive(Clone, Debug)]
pub(crate) struct StackLinks {
    layers: Vec<Layer>,
    npus: u32,
    nodes: u32,
    links: u32,
}

impl StackLinks {
    pub(crate) fn new(dims: &[Dim]) -> Result<StackLinks, LinkError> {
        let npus = dims
            .iter()
            .try_fold(1u32, |npus, dim| npus.checked_mul(dim.size))
            .ok_or(LinkError::TooLarge)?;
        let mut stack = StackLinks { layers: Vec::new(), npus, nodes: npus, links: 0 };
        let mut stride = 1;
        for dim in dims {
            let layer = Layer::new(dim, stride, &stack)?;
            let switches = if layer.is_switched() { npus / dim.size } else { 0 };
            stack.nodes = stack.nodes.checked_add(switches).ok_or(LinkError::TooLarge)?;
            let more = (npus / dim.size).checked_mul(layer.links).ok_or(LinkError::TooLarge)?;
            stack.links = stack.links.checked_add(more).ok_or(LinkError::TooLarge)?;
            stack.layers.push(layer);
            stride *= dim.size;
        }
        Ok(stack)
    }

    pub(crate) fn npus(&self) -> u32 {
        self.npus
    }

    pub(crate) fn nodes(&self) -> u32 {
        self.nodes
    }

    pub(crate) fn len(&self) -> u32 {
        self.links
    }

    pub(crate) fn hops(&self, src: u32, dst: u32) -> u32 {
        let (mut from, mut to) = (src, dst);
        let mut total = 0;
        for layer in &self.layers {
            let ((from_rest, a), (to_rest, b)) =
                (layer.by_size.split(from), layer.by_size.split(to));
            total += layer.block.hops(layer.size, a, b);
            (from, to) = (from_rest, to_rest);
        }
        total
    }

    #[inline]
    pub(crate) fn next(&self, node: u32, dst: u32) -> Option<Hop> {
        self.next_where(node, dst, |_, _, _| 0)
    }

    /// The next link on one of the equally short ways, `0..ways(node, dst)`.
    #[inline]
    pub(crate) fn next_by(&self, node: u32, dst: u32, way: u32) -> Option<Hop> {
        self.next_where(node, dst, |_, _, _| way)
    }

    /// The next link where messages load equally short ways alike.
    #[inline]
    pub(crate) fn next_evenly(&self, node: u32, dst: u32) -> Option<Hop> {
        self.next_where(node, dst, |layer, a, b| layer.block.even_way(layer.size, a, b))
    }

    /// The next link on the way that `choose` names for the coordinates in the dimension crossed.
    #[inline]
    fn next_where(
        &self,
        node: u32,
        dst: u32,
        choose: impl FnOnce(&Layer, u32, u32) -> u32,
    ) -> Option<Hop> {
        if node >= self.npus {
            return self.down(node, dst);
        }
        let (mut from, mut to) = (node, dst);
        for (dim, layer) in self.layers.iter().enumerate() {
            let ((from_rest, a), (to_rest, b)) =
                (layer.by_size.split(from), layer.by_size.split(to));
            if a != b {
                let way = choose(layer, a, b);
                return Some(layer.first_hop(node, a, b, dim as u32, way));
            }
            (from, to) = (from_rest, to_rest);
        }
        None
    }

    /// Equally short ways along the next dimension that a message crosses; none when it is there.
    pub(crate) fn ways(&self, node: u32, dst: u32) -> u32 {
        if node >= self.npus {
            return 1;
        }
        let (mut from, mut to) = (node, dst);
        for layer in &self.layers {
            let ((from_rest, a), (to_rest, b)) =
                (layer.by_size.split(from), layer.by_size.split(to));
            if a != b {
                return layer.block.ways(layer.size, a, b);
            }
            (from, to) = (from_rest, to_rest);
        }
        0
    }

    /// Calls `each` with every link from `node` that leads nearer to `dst`, whatever the order in
    /// which dimensions are crossed. Only the dimensions before one with a switch come before it.
    pub(crate) fn each_nearer(&self, node: u32, dst: u32, mut each: impl FnMut(Hop)) {
        if node >= self.npus {
            return self.down(node, dst).into_iter().for_each(each);
        }
        let (mut from, mut to, mut first) = (node, dst, true);
        for (dim, layer) in (0..).zip(&self.layers) {
            let ((from_rest, a), (to_rest, b)) =
                (layer.by_size.split(from), layer.by_size.split(to));
            if a != b && (first || !layer.is_switched()) {
                let ways = layer.block.ways(layer.size, a, b);
                (0..ways).for_each(|way| each(layer.first_hop(node, a, b, dim, way)));
            }
            first &= a == b;
            (from, to) = (from_rest, to_rest);
        }
    }

    /// The slot by which a message leaves `src`, numbered alike by NPUs at which it leads the same
    /// way; `choose` is given the number of equally short ways and the even one, and names one.
    pub(crate) fn departure(
        &self,
        src: u32,
        dst: u32,
        choose: impl FnOnce(u32, u32) -> u32,
    ) -> u32 {
        let (mut from, mut to, mut first) = (src, dst, 0);
        for layer in &self.layers {
            let ((from_rest, a), (to_rest, b)) =
                (layer.by_size.split(from), layer.by_size.split(to));
            if a != b {
                let ways = layer.block.ways(layer.size, a, b);
                let way = choose(ways, layer.block.even_way(layer.size, a, b));
                return first + layer.block.direction(layer.size, a, b) + way;
            }
            (from, to) = (from_rest, to_rest);
            first += layer.leaving;
        }
        u32::MAX
    }

    /// From a switch to its NPU with the destination's coordinate.
    fn down(&self, node: u32, dst: u32) -> Option<Hop> {
        let dim = self.layers.iter().rposition(|l| l.is_switched() && l.first_switch <= node)?;
        let layer = &self.layers[dim];
        let at = layer.coordinate(dst);
        let to = layer.member(node - layer.first_switch, at);
        Some(Hop { link: layer.link_id(to, at, layer.leaving), to, dim: dim as u32 })
    }

    pub(crate) fn dim(&self, link: u32) -> u32 {
        self.layers.iter().rposition(|l| l.links > 0 && l.first_link <= link).unwrap_or(0) as u32
    }

    /// The link of NPU `npu` in the place that `link` has among those of its owner.
    pub(crate) fn same_place(&self, link: u32, npu: impl Fn(u32) -> u32) -> u32 {
        let layer = &self.layers[self.dim(link) as usize];
        let (owner, _, slot) = layer.owner(link - layer.first_link);
        let npu = npu(owner);
        layer.link_id(npu, layer.coordinate(npu), slot)
    }

    /// The NPU that owns a link: it leaves the NPU, or enters it from a switch.
    pub(crate) fn owner(&self, link: u32) -> u32 {
        let layer = &self.layers[self.dim(link) as usize];
        layer.owner(link - layer.first_link).0
    }

    pub(crate) fn link(&self, link: u32) -> Link {
        let dim = self.dim(link);
        let layer = &self.layers[dim as usize];
        let (rank, at, slot) = layer.owner(link - layer.first_link);
        let (from, to) = match layer.block.paths() {
            Paths::Switched if slot == layer.leaving => (layer.switch(rank), rank),
            Paths::Switched => (rank, layer.switch(rank)),
            Paths::Direct | Paths::Relayed => (rank, layer.other_end(rank, at, slot)),
        };
        Link { from, to, bandwidth: layer.bandwidth, latency: layer.latency, dim }
    }
}

impl Layer {
    /// The next layer of `stack`, whose neighbours are `stride` ranks apart.
    fn new(dim: &Dim, stride: u32, stack: &StackLinks) -> Result<Layer, LinkError> {
        let &Dim { block, size, bandwidth, latency, .. } = dim;
        let links = u32::try_from(block.links(size)).map_err(|_| LinkError::TooLarge)?;
        let owned = block.before(size, 1);
        let alike = (0..size).all(|a| block.before(size, a + 1) == owned * u64::from(a + 1));
        Ok(Layer {
            block,
            size,
            stride,
            by_size: Divisor::new(size),
            by_stride: Divisor::new(stride),
            per_npu: if alike { owned as u32 } else { 0 },
            links,
            leaving: block.leaving(size),
            first_link: stack.links,
            first_switch: stack.nodes,
            bandwidth,
            latency,
        })
    }

    fn is_switched(&self) -> bool {
        self.links > 0 && self.block.paths() == Paths::Switched
    }

    fn switch(&self, rank: u32) -> u32 {
        self.first_switch + self.instance(rank)
    }

    /// Id of the link that `rank`, whose coordinate here is `a`, owns at `slot`. Links are numbered
    /// by rank: all of the ranks `stride` apart and below come first.
    #[inline]
    fn link_id(&self, rank: u32, a: u32, slot: u32) -> u32 {
        if self.per_npu > 0 {
            return self.first_link + rank * self.per_npu + slot;
        }
        let (before, after) = self.owned(a);
        let (outer, inner) = self.by_stride.split(rank);
        let outer = self.by_size.split(outer).0;
        self.first_link
            + self.stride * (outer * self.links + before)
            + inner * (after - before)
            + slot
    }

    /// Links of an instance owned by the coordinates below `a`, and by those up to `a`.
    fn owned(&self, a: u32) -> (u32, u32) {
        (self.block.before(self.size, a) as u32, self.block.before(self.size, a + 1) as u32)
    }

    /// Rank, coordinate and slot of a link, counted from the first of the layer.
    fn owner(&self, link: u32) -> (u32, u32, u32) {
        if let Some(rank) = link.checked_div(self.per_npu) {
            return (rank, self.coordinate(rank), link % self.per_npu);
        }
        let (outer, within) =
            (link / (self.stride * self.links), link % (self.stride * self.links));
        let owns = |a: u32| u64::from(within / self.stride) < self.block.before(self.size, a + 1);
        let (mut low, mut high) = (0, self.size - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            (low, high) = if owns(middle) { (low, middle) } else { (middle + 1, high) };
        }
        let (before, after) = self.owned(low);
        let rest = within - self.stride * before;
        let (inner, slot) = (rest / (after - before), rest % (after - before));
        (inner + self.stride * (low + self.size * outer), low, slot)
    }

    fn coordinate(&self, rank: u32) -> u32 {
        self.by_size.split(self.by_stride.split(rank).0).1
    }

    /// Which instance of the block a rank belongs to.
    fn instance(&self, rank: u32) -> u32 {
        let (outer, inner) = self.by_stride.split(rank);
        self.by_size.split(outer).0 * self.stride + inner
    }

    /// The rank at `coordinate` of an instance.
    fn member(&self, instance: u32, coordinate: u32) -> u32 {
        let (outer, inner) = self.by_stride.split(instance);
        inner + self.stride * (coordinate + self.size * outer)
    }

    /// The rank with another coordinate in this dimension.
    fn moved(&self, rank: u32, from: u32, to: u32) -> u32 {
        rank - from * self.stride + to * self.stride
    }

    #[inline]
    fn first_hop(&self, rank: u32, a: u32, b: u32, dim: u32, way: u32) -> Hop {
        let (slot, end) = self.block.first(self.size, a, b, way);
        let to = match end {
            None => self.switch(rank),
            Some(end) => self.moved(rank, a, end),
        };
        Hop { link: self.link_id(rank, a, slot), to, dim }
    }

    /// The NPU at the other end of a slot that leaves `rank`, whose coordinate here is `a`.
    fn other_end(&self, rank: u32, a: u32, slot: u32) -> u32 {
        self.moved(rank, a, self.block.end(self.size, a, slot))
    }
}
