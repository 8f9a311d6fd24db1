//! The analytical backend: nobody waits for anybody.
//!
//! On stacked blocks a message takes, summed over the dimensions it crosses, `hops * latency + bytes / bandwidth`; hops along a
//! dimension: Ring the shorter way round, FullyConnected 1, Switch 2. On an explicit graph it takes the sum of the latencies of
//! its route plus `bytes / bandwidth` of the slowest link.
//! Not modelled: sharing of links (`link.rs`), packets (`net-packet`).
//! Source: ASTRA-sim 2.0 (ISPASS 2023) section IV-C, except that a message pays for every dimension it crosses.

use engine::EventQueue;
use network::{Backend, Delivery, LinkCost, Sequence, Stamp, Transfer, Usage};
use topology::{Block, LinkGraph};
use units::{Span, Time};

/// Which dimensions a message pays for when source and destination differ in several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// All of them.
    Every,
    /// The innermost one only (ASTRA-sim).
    Innermost,
}

/// One dimension as the backend needs it.
#[derive(Clone, Copy, Debug)]
struct Axis {
    block: Block,
    size: u32,
    /// `rank & mask` instead of `rank % size` where the size is a power of two, and the shift that goes with it.
    mask: u32,
    shift: u32,
    cost: LinkCost,
}

/// The last span computed on an axis: symmetric traffic asks for the same again and again.
#[derive(Clone, Copy, Debug)]
struct Memo {
    hops: u32,
    bytes: u64,
    span: Span,
}

enum Paths {
    Stack { axes: Vec<Axis>, crossing: Crossing },
    Graph { graph: LinkGraph, costs: Vec<LinkCost> },
}

/// The analytical backend.
pub struct Analytical {
    paths: Paths,
    memo: Vec<Memo>,
    queue: EventQueue<u64>,
    bytes: Vec<u64>,
    transfers: u64,
}

impl Analytical {
    /// A network of stacked blocks, innermost first: block, size and cost of one link.
    pub fn stacked(dims: &[(Block, u32, LinkCost)], crossing: Crossing) -> Analytical {
        let axis = |&(block, size, cost): &(Block, u32, LinkCost)| {
            let (mask, shift) = if size.is_power_of_two() { (size - 1, size.trailing_zeros()) } else { (0, u32::MAX) };
            Axis { block, size, mask, shift, cost }
        };
        let memo = dims.iter().map(|d| Memo { hops: 0, bytes: 0, span: d.2.transit(0, 0) }).collect();
        Analytical::new(Paths::Stack { axes: dims.iter().map(axis).collect(), crossing }, memo, dims.len())
    }

    /// A network on an explicit graph, with the cost of each link.
    pub fn graph(graph: LinkGraph, costs: Vec<LinkCost>) -> Analytical {
        Analytical::new(Paths::Graph { graph, costs }, Vec::new(), 1)
    }

    fn new(paths: Paths, memo: Vec<Memo>, dims: usize) -> Analytical {
        Analytical { paths, memo, queue: EventQueue::default(), bytes: vec![0; dims], transfers: 0 }
    }
}

impl Paths {
    /// Calls `each` with (dimension, hops) of every dimension paid for.
    #[inline]
    fn cross(axes: &[Axis], crossing: Crossing, src: u32, dst: u32, mut each: impl FnMut(usize, &Axis, u32)) {
        let (mut a, mut b) = (src, dst);
        for (dim, axis) in axes.iter().enumerate() {
            if a == b {
                return;
            }
            let ((x, next_a), (y, next_b)) = (axis.split(a), axis.split(b));
            (a, b) = (next_a, next_b);
            if x != y {
                each(dim, axis, axis.hops(x, y));
                if crossing == Crossing::Innermost {
                    return;
                }
            }
        }
    }

    fn span(&self, src: u32, dst: u32, bytes: u64) -> Span {
        match self {
            Paths::Stack { axes, crossing } => {
                let mut total = Span::ZERO;
                Paths::cross(axes, *crossing, src, dst, |_, axis, hops| total += axis.cost.transit(hops, bytes));
                total
            }
            Paths::Graph { graph, costs } => {
                let cost = |hop: topology::Hop| costs[hop.link as usize];
                let latency: Span = graph.route(src, dst).map(|hop| cost(hop).transit(1, 0)).sum();
                latency + graph.route(src, dst).map(|hop| cost(hop).occupancy(bytes)).max().unwrap_or_default()
            }
        }
    }
}

impl Axis {
    /// Coordinate along the axis, and what is left for the outer ones.
    #[inline]
    fn split(&self, rank: u32) -> (u32, u32) {
        if self.shift == u32::MAX { (rank % self.size, rank / self.size) } else { (rank & self.mask, rank >> self.shift) }
    }

    #[inline]
    fn hops(&self, x: u32, y: u32) -> u32 {
        match self.block {
            Block::Ring => {
                let d = x.abs_diff(y);
                d.min(self.size - d)
            }
            Block::FullyConnected => 1,
            Block::Switch => 2,
        }
    }

    /// Links leaving an NPU on the way: every hop of a ring, the first of a switch.
    #[inline]
    fn leaving(&self, hops: u32) -> u64 {
        if self.block == Block::Ring { u64::from(hops) } else { 1 }
    }
}

impl Backend for Analytical {
    #[inline]
    fn start(&mut self, now: Time, transfer: Transfer, sequence: &mut Sequence) {
        let Transfer { src, dst, bytes, token, weight } = transfer;
        let mut total = Span::ZERO;
        match &self.paths {
            Paths::Stack { axes, crossing } => {
                let (memo, carried) = (&mut self.memo, &mut self.bytes);
                Paths::cross(axes, *crossing, src, dst, |dim, axis, hops| {
                    let memo = &mut memo[dim];
                    if memo.hops != hops || memo.bytes != bytes {
                        *memo = Memo { hops, bytes, span: axis.cost.transit(hops, bytes) };
                    }
                    total += memo.span;
                    carried[dim] += bytes * weight * axis.leaving(hops);
                });
            }
            Paths::Graph { .. } => {
                total = self.paths.span(src, dst, bytes);
                self.bytes[0] += bytes * weight;
            }
        }
        self.transfers += weight;
        self.queue.push(now + total, sequence.draw(), token);
    }

    #[inline]
    fn next_event(&self) -> Option<Stamp> {
        self.queue.peek().map(|(time, order)| Stamp { time, order })
    }

    #[inline]
    fn advance(&mut self, until: Stamp, _: &mut Sequence, finished: &mut Vec<Delivery>) {
        if self.next_event().is_some_and(|next| next <= until) {
            let (time, token) = self.queue.pop().expect("peeked");
            finished.push(Delivery { token, time });
        }
    }

    fn uncontended(&self, src: u32, dst: u32, bytes: u64) -> Option<Span> {
        Some(self.paths.span(src, dst, bytes))
    }

    fn carry(&mut self, transfer: Transfer, times: u64) {
        let bytes = transfer.bytes * transfer.weight * times;
        match &self.paths {
            Paths::Stack { axes, crossing } => {
                let carried = &mut self.bytes;
                Paths::cross(axes, *crossing, transfer.src, transfer.dst, |dim, axis, hops| {
                    carried[dim] += bytes * axis.leaving(hops);
                });
            }
            Paths::Graph { .. } => self.bytes[0] += bytes,
        }
        self.transfers += transfer.weight * times;
    }

    fn physical_minimum(&self, src: u32, dst: u32, bytes: u64) -> Span {
        self.paths.span(src, dst, bytes)
    }

    fn usage(&self) -> Usage {
        Usage { bytes: self.bytes.clone(), transfers: self.transfers, links: Vec::new() }
    }
}
