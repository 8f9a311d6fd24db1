//! The time of a round's messages on links that carry nothing else. The library's share is charged
//! on top, so that a plan alone takes the predicted time.
//!
//! A message leaves an NPU when its first link is free, and arrives after `hops * latency +
//! bytes / bandwidth`. On a graph it arrives after the sum of the latencies plus
//! `bytes / bandwidth` of the slowest link. That is the analytical backend's rule
//! (`net-analytical/src/analytical.rs`); tests compare runs with it.

use rustc_hash::FxHashMap;
use topology::{Dim, Hop, LinkGraph, Paths};
use units::{Bytes, Span};

/// A message between two positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// Who sends.
    pub from: u32,
    /// Who receives.
    pub to: u32,
    /// On the wire.
    pub bytes: u64,
}

/// The links between the positions of a line.
pub(super) enum Wires {
    /// A line of a dimension whose blocks are switches or full meshes.
    Dim(Dim),
    /// An explicit graph; position p is NPU `p * stride`.
    Graph {
        /// Its links.
        links: Box<LinkGraph>,
        /// NPUs between neighbours.
        stride: u32,
    },
}

impl Wires {
    /// When each of `messages`, all ready at once, arrives.
    pub fn arrivals(&self, messages: &[Message]) -> Vec<Span> {
        let mut free: FxHashMap<(u32, u32), Span> = FxHashMap::default();
        let arrival = |message: &Message| {
            let way = self.way(message);
            let leaves = free.entry(way.port).or_default();
            let arrival = *leaves + way.transit;
            *leaves += way.occupied;
            arrival
        };
        messages.iter().map(arrival).collect()
    }

    fn way(&self, message: &Message) -> Way {
        match self {
            Wires::Dim(dim) => {
                let mesh = dim.block.paths() == Paths::Direct;
                let occupied = dim.bandwidth.span(Bytes(message.bytes));
                let hops = u64::from(dim.block.hops(dim.size, 0, 1));
                Way {
                    port: (message.from, if mesh { message.to } else { 0 }),
                    occupied,
                    transit: dim.latency * hops + occupied,
                }
            }
            Wires::Graph { links, stride } => {
                let (src, dst) = (message.from * stride, message.to * stride);
                let busy = |hop: Hop| links.link(hop.link).bandwidth.span(Bytes(message.bytes));
                let route = || links.route(src, dst);
                let latency: Span = route().map(|hop| links.link(hop.link).latency).sum();
                Way {
                    port: (src, links.next(src, dst).map_or(u32::MAX, |hop| hop.link)),
                    occupied: route().next().map(busy).unwrap_or_default(),
                    transit: latency + route().map(busy).max().unwrap_or_default(),
                }
            }
        }
    }
}

/// The way of a message.
struct Way {
    /// The position and the link by which it leaves.
    port: (u32, u32),
    /// How long it keeps that link.
    occupied: Span,
    /// From leaving to arriving.
    transit: Span,
}
