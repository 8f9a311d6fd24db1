//! The analytical backend: `sum over crossed dimensions of (hops * latency + bytes / bandwidth)`, and nobody waits for anybody.
//!
//! Hops along a dimension: Ring the shorter way round, FullyConnected 1, Switch 2. Not modelled: sharing of links; see `link`.
//! Source: ASTRA-sim 2.0 (ISPASS 2023) section IV-C, except that a message pays for every dimension it crosses.

use engine::EventQueue;
use network::{Backend, Delivery, LinkCost, Sequence, Stamp, Transfer, Usage};
use topology::Block;
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
    cost: LinkCost,
}

/// The last span computed on an axis: symmetric traffic asks for the same again and again.
#[derive(Clone, Copy, Debug)]
struct Memo {
    hops: u32,
    bytes: u64,
    span: Span,
}

/// The analytical backend.
pub struct Analytical {
    axes: Vec<Axis>,
    memo: Vec<Memo>,
    crossing: Crossing,
    queue: EventQueue<u64>,
    bytes: Vec<u64>,
    transfers: u64,
}

impl Analytical {
    /// A network of stacked blocks, innermost first: block, size and cost of one link.
    pub fn new(dims: &[(Block, u32, LinkCost)], crossing: Crossing) -> Analytical {
        Analytical {
            axes: dims.iter().map(|&(block, size, cost)| Axis { block, size, cost }).collect(),
            memo: dims.iter().map(|d| Memo { hops: 0, bytes: 0, span: d.2.transit(0, 0) }).collect(),
            crossing,
            queue: EventQueue::default(),
            bytes: vec![0; dims.len()],
            transfers: 0,
        }
    }

    /// Adds up what each crossed dimension asks for, and tells `each` (dimension, hops) of it.
    #[inline]
    fn cross(&self, src: u32, dst: u32, mut each: impl FnMut(usize, u32)) {
        let (mut a, mut b) = (src, dst);
        for (dim, axis) in self.axes.iter().enumerate() {
            if a == b {
                return;
            }
            let (x, y) = (a % axis.size, b % axis.size);
            (a, b) = (a / axis.size, b / axis.size);
            if x != y {
                each(dim, hops(axis, x, y));
                if self.crossing == Crossing::Innermost {
                    return;
                }
            }
        }
    }

    fn span(&self, src: u32, dst: u32, bytes: u64) -> Span {
        let mut total = Span::ZERO;
        self.cross(src, dst, |dim, hops| total += self.axes[dim].cost.transit(hops, bytes));
        total
    }
}

#[inline]
fn hops(axis: &Axis, x: u32, y: u32) -> u32 {
    match axis.block {
        Block::Ring => {
            let d = x.abs_diff(y);
            d.min(axis.size - d)
        }
        Block::FullyConnected => 1,
        Block::Switch => 2,
    }
}

impl Backend for Analytical {
    #[inline]
    fn start(&mut self, now: Time, transfer: Transfer, sequence: &mut Sequence) {
        let (mut a, mut b) = (transfer.src, transfer.dst);
        let mut total = Span::ZERO;
        for dim in 0..self.axes.len() {
            if a == b {
                break;
            }
            let axis = self.axes[dim];
            let (x, y) = (a % axis.size, b % axis.size);
            (a, b) = (a / axis.size, b / axis.size);
            if x == y {
                continue;
            }
            let hops = hops(&axis, x, y);
            let memo = &mut self.memo[dim];
            if memo.hops != hops || memo.bytes != transfer.bytes {
                *memo = Memo { hops, bytes: transfer.bytes, span: axis.cost.transit(hops, transfer.bytes) };
            }
            total += memo.span;
            self.bytes[dim] += transfer.bytes;
            if self.crossing == Crossing::Innermost {
                break;
            }
        }
        self.transfers += 1;
        self.queue.push(now + total, sequence.draw(), transfer.token);
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
        Some(self.span(src, dst, bytes))
    }

    fn physical_minimum(&self, src: u32, dst: u32, bytes: u64) -> Span {
        self.span(src, dst, bytes)
    }

    fn usage(&self) -> Usage {
        Usage { bytes: self.bytes.clone(), transfers: self.transfers, links: Vec::new() }
    }
}
