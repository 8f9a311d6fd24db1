//! The time of a round's messages on links that carry nothing else. The library's share is charged
//! on top, so that a plan alone takes the predicted time.
//!
//! A message leaves an NPU when its first link is free, and arrives after `hops * latency +
//! bytes / bandwidth`. On a graph it arrives after the sum of the latencies plus
//! `bytes / bandwidth` of the slowest link. That is the analytical backend's rule
//! (`net-analytical/src/analytical.rs`). A port to a switch also receives one message at a time, as
//! where messages share links. Tests compare runs with both.

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
        /// Links of the fabric.
        links: Box<LinkGraph>,
        /// NPUs between neighbours.
        stride: u32,
    },
}

impl Wires {
    /// When each of `messages`, all ready at once, arrives.
    pub fn arrivals(&self, messages: &[Message]) -> Vec<Span> {
        let mut free: FxHashMap<(u32, u32), Span> = FxHashMap::default();
        let mut received: FxHashMap<u32, Span> = FxHashMap::default();
        let arrival = |message: &Message| {
            let way = self.way(message);
            let leaves = free.entry(way.port).or_default();
            let alone = *leaves + way.transit;
            let latency = way.transit - way.occupied;
            *leaves += way.occupied;
            if !self.has_one_port() {
                return alone;
            }
            let before = received.entry(message.to).or_default();
            *before += way.occupied;
            alone.max(*before + latency)
        };
        messages.iter().map(arrival).collect()
    }

    /// The bytes that go to the receiver of each of `messages` by the port that takes it.
    pub fn entering(&self, messages: &[Message]) -> Vec<u64> {
        if !self.has_one_port() {
            return messages.iter().map(|message| message.bytes).collect();
        }
        let mut bytes: FxHashMap<u32, u64> = FxHashMap::default();
        messages.iter().for_each(|message| *bytes.entry(message.to).or_default() += message.bytes);
        messages.iter().map(|message| bytes[&message.to]).collect()
    }

    /// Whether all messages to a position enter it by one link.
    fn has_one_port(&self) -> bool {
        matches!(self, Wires::Dim(dim) if dim.block.paths() != Paths::Direct)
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
