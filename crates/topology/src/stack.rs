//! Blocks stacked by dimension: coordinates, and every link as arithmetic on dense ids, nothing
//! stored.
//!
//! NPUs are nodes `0..npus`, then come the switches, dimension by dimension. The links of dimension
//! d start at `first_link`; link `first_link + rank * links_per_npu + slot` is a slot of that rank.
//! Routes are dimension-ordered, dimension 0 first.

use crate::divide::Divisor;
use crate::links::{Hop, Link, LinkError};
use crate::{Block, Dim, fully_connected, ring, switch};
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

/// The rank at `coordinates` in a stack of these sizes, innermost first.
pub fn rank(coordinates: &[u32], sizes: &[u32]) -> u32 {
    coordinates.iter().zip(sizes).rev().fold(0, |rank, (&at, &size)| rank * size + at)
}

impl Block {
    /// Links between coordinates `a` and `b` of a block of `n`.
    pub fn hops(self, n: u32, a: u32, b: u32) -> u32 {
        match self {
            Block::Ring => ring::hops(n, a, b),
            Block::FullyConnected => fully_connected::hops(a, b),
            Block::Switch => switch::hops(a, b),
        }
    }

    /// One-way links a block of `n` has for each of its NPUs.
    pub fn links_per_npu(self, n: u32) -> u32 {
        match self {
            Block::Ring => ring::links_per_npu(n),
            Block::FullyConnected => fully_connected::links_per_npu(n),
            Block::Switch => switch::links_per_npu(n),
        }
    }
}

#[derive(Clone, Debug)]
struct Layer {
    block: Block,
    size: u32,
    stride: u32,
    by_size: Divisor,
    by_stride: Divisor,
    per_npu: u32,
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
            let per_npu = dim.block.links_per_npu(dim.size);
            let (block, size, bandwidth, latency) =
                (dim.block, dim.size, dim.bandwidth, dim.latency);
            let (first_link, first_switch) = (stack.links, stack.nodes);
            let (by_size, by_stride) = (Divisor::new(size), Divisor::new(stride));
            stack.layers.push(Layer {
                block,
                size,
                stride,
                by_size,
                by_stride,
                per_npu,
                first_link,
                first_switch,
                bandwidth,
                latency,
            });
            let switches = if block == Block::Switch && size > 1 { npus / size } else { 0 };
            stack.nodes = stack.nodes.checked_add(switches).ok_or(LinkError::TooLarge)?;
            let more = npus.checked_mul(per_npu).ok_or(LinkError::TooLarge)?;
            stack.links = stack.links.checked_add(more).ok_or(LinkError::TooLarge)?;
            stride *= size;
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

    pub(crate) fn next(&self, node: u32, dst: u32) -> Option<Hop> {
        if node >= self.npus {
            return self.down(node, dst);
        }
        let (mut from, mut to) = (node, dst);
        for (dim, layer) in self.layers.iter().enumerate() {
            let ((from_rest, a), (to_rest, b)) =
                (layer.by_size.split(from), layer.by_size.split(to));
            if a != b {
                return Some(layer.first_hop(node, a, b, dim as u32));
            }
            (from, to) = (from_rest, to_rest);
        }
        None
    }

    pub(crate) fn departure(&self, src: u32, dst: u32) -> u32 {
        let (mut from, mut to, mut first) = (src, dst, 0);
        for layer in &self.layers {
            let ((from_rest, a), (to_rest, b)) =
                (layer.by_size.split(from), layer.by_size.split(to));
            if a != b {
                return first
                    + match layer.block {
                        Block::Ring => ring::slot(layer.size, a, b),
                        Block::FullyConnected => (b + layer.size - a) % layer.size,
                        Block::Switch => switch::UP,
                    };
            }
            (from, to) = (from_rest, to_rest);
            first += layer.size.max(2);
        }
        u32::MAX
    }

    /// From a switch to its NPU with the destination's coordinate.
    fn down(&self, node: u32, dst: u32) -> Option<Hop> {
        let dim =
            self.layers.iter().rposition(|l| l.block == Block::Switch && l.first_switch <= node)?;
        let layer = &self.layers[dim];
        let to = layer.member(node - layer.first_switch, layer.coordinate(dst));
        Some(Hop {
            link: layer.first_link + to * layer.per_npu + switch::DOWN,
            to,
            dim: dim as u32,
        })
    }

    pub(crate) fn dim(&self, link: u32) -> u32 {
        self.layers.iter().rposition(|l| l.per_npu > 0 && l.first_link <= link).unwrap_or(0) as u32
    }

    pub(crate) fn link(&self, link: u32) -> Link {
        let dim = self.dim(link);
        let layer = &self.layers[dim as usize];
        let (rank, slot) =
            ((link - layer.first_link) / layer.per_npu, (link - layer.first_link) % layer.per_npu);
        let other = layer.other_end(rank, layer.coordinate(rank), slot);
        let (from, to) = if layer.block == Block::Switch && slot == switch::DOWN {
            (other, rank)
        } else {
            (rank, other)
        };
        Link { from, to, bandwidth: layer.bandwidth, latency: layer.latency, dim }
    }
}

impl Layer {
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

    fn first_hop(&self, rank: u32, a: u32, b: u32, dim: u32) -> Hop {
        let slot = match self.block {
            Block::Ring => ring::slot(self.size, a, b),
            Block::FullyConnected => fully_connected::slot(a, b),
            Block::Switch => switch::UP,
        };
        Hop {
            link: self.first_link + rank * self.per_npu + slot,
            to: self.other_end(rank, a, slot),
            dim,
        }
    }

    /// The node at the other end of a slot of `rank`, whose coordinate here is `a`.
    fn other_end(&self, rank: u32, a: u32, slot: u32) -> u32 {
        match self.block {
            Block::Ring => self.moved(rank, a, ring::end(self.size, a, slot)),
            Block::FullyConnected => self.moved(rank, a, fully_connected::end(a, slot)),
            Block::Switch => self.first_switch + self.instance(rank),
        }
    }
}
