//! Parts of a network: routers, nodes and the channels between them.

use std::ops::Range;

/// Parts of a cycle in which links count.
pub const CYCLE: u64 = 1 << 16;

/// One end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// A router.
    Router(u32),
    /// The network interface of a node.
    Node(u32),
}

/// A directed physical link with its virtual channels, and the way back of its credits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Where flits enter.
    pub from: End,
    /// Where they leave.
    pub to: End,
    /// Cycles on the link, at least 1. Credits take as long.
    pub latency: u32,
    /// Time that a flit occupies the link, in parts of [`CYCLE`]: its width over that of the link.
    /// At least a cycle.
    pub occupancy: u64,
    /// Virtual networks that use it.
    pub vnets: Range<u16>,
}

/// A network. Ports of a router are numbered in the order of the channels.
#[derive(Clone, Debug, Default)]
pub struct Fabric {
    /// Routers.
    pub routers: u32,
    /// Nodes.
    pub nodes: u32,
    /// Channels.
    pub channels: Vec<Channel>,
}

impl Fabric {
    /// Adds a channel that takes a flit each cycle; returns its number.
    pub fn channel(&mut self, from: End, to: End, latency: u32, vnets: Range<u16>) -> u32 {
        self.channels.push(Channel { from, to, latency, occupancy: CYCLE, vnets });
        self.channels.len() as u32 - 1
    }
}

/// Facts that a router knows of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Node that sent it.
    pub src: u32,
    /// Node that it goes to.
    pub dst: u32,
    /// Virtual network in which it is sent.
    pub vnet: u16,
    /// Flits.
    pub flits: u32,
    /// By which of its node's links that carry the virtual network it leaves, counted from 0.
    pub port: u16,
    /// Number by which the routing knows the way of the packet.
    pub way: u32,
}

/// The way out of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The channel.
    pub channel: u32,
    /// The virtual network of the packet from there on. Garnet's own routing never changes it; a
    /// dateline does (Dally and Seitz, IEEE Transactions on Computers C-36, 1987).
    pub vnet: u16,
}

/// A head that has arrived at a router.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Packet of the flit.
    pub packet: &'a Packet,
    /// The router.
    pub router: u32,
    /// The channel by which it came.
    pub channel: u32,
    /// Virtual network of the packet there.
    pub vnet: u16,
}

/// Decides where packets go.
pub trait Routing {
    /// How `packet` leaves `router`, where it arrives after this number of links between routers.
    fn next(&mut self, router: u32, packet: &Packet, hops: u32) -> Way;

    /// Whether routers choose among several ways: then they ask for [`Routing::ways`] instead of
    /// [`Routing::next`]. Only Garnet's router does.
    #[inline]
    fn is_adaptive(&self) -> bool {
        false
    }

    /// Adds all ways out of its router that a head may take. In each cycle it takes, of those with
    /// an idle virtual channel, the one whose channel has the fewest flits before it, and the last
    /// of the ways only where no other is idle.
    fn ways(&mut self, _head: &Head<'_>, _ways: &mut Vec<Way>) {}

    /// A packet leaves the queue of its interface for the network: sets what depends on the moment.
    #[inline]
    fn enters(&mut self, _packet: &mut Packet) {}

    /// The way, and bits of the virtual channels that the packet may have on that channel, of `vcs`.
    /// Only the input-queued router asks.
    #[inline]
    fn next_of(&mut self, router: u32, packet: &Packet, hops: u32, vcs: u32) -> (Way, u64) {
        (self.next(router, packet, hops), u64::MAX >> (64 - vcs))
    }
}
