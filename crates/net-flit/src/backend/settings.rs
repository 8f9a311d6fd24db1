//! Settings.

use super::routing_choice::Course;
use crate::input_queued;
use units::Span;

/// Packets that differ by kind of link. A message has those of the outermost link on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketsByKind {
    /// Bytes of a packet of each kind, the outermost last.
    pub each: Vec<u32>,
    /// The kind of each link.
    pub kinds: Vec<u16>,
}

/// Settings of a network of flits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Length of a cycle.
    pub cycle: Span,
    /// Bytes of a flit.
    pub flit: u32,
    /// Bytes of the largest packet: a multiple of `flit`.
    pub packet: u32,
    /// Packets of each kind of link; where it is `None`, all have `packet`.
    pub packets: Option<PacketsByKind>,
    /// The routers.
    pub router: Router,
    /// Virtual channels of each class; where it is `None`, what fills every link.
    pub virtual_channels: Option<u32>,
    /// Flits that each of them holds; where it is `None`, those of a packet, and on textbook routers
    /// what fills every link.
    pub buffers: Option<u32>,
    /// Whether packets that take the same way keep their order. Not with courses on which they take
    /// several.
    pub ordered: bool,
    /// How packets are routed.
    pub course: Course,
    /// Most classes of deterministic routes; where it is `None`, what the proof needs.
    pub classes: Option<u16>,
    /// Whether the network is built even if it could lock up.
    pub may_lock_up: bool,
    /// Threads that simulate it; where it is `None`, one for 2,048 routers, at most one for each
    /// core.
    pub threads: Option<u16>,
}

impl Settings {
    /// Bytes of the smallest packet.
    pub(crate) fn least_packet(&self) -> u32 {
        let least = |packets: &PacketsByKind| packets.each.iter().copied().min();
        self.packets.as_ref().and_then(least).unwrap_or(self.packet)
    }

    /// Bytes of the packets of a message on a way.
    pub(crate) fn packet_on<W: Iterator<Item = u32>>(&self, way: impl FnOnce() -> W) -> u32 {
        let Some(PacketsByKind { each, kinds }) = &self.packets else { return self.packet };
        let outermost = way().map(|link| kinds[link as usize]).max();
        outermost.map_or(self.packet, |kind| each[usize::from(kind)])
    }

    /// A clock of 1 GHz, flits of 64 B, packets of 4 KiB and channels that hold one; the routes of
    /// the topology.
    pub const DEFAULT: Settings = Settings {
        cycle: Span::from_ns(1),
        flit: 64,
        packet: 4096,
        packets: None,
        router: Router::Garnet { latency: 1 },
        virtual_channels: None,
        buffers: None,
        ordered: false,
        course: Course::Topology,
        classes: None,
        may_lock_up: false,
        threads: None,
    };
}

/// A microarchitecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Router {
    /// Garnet's.
    Garnet {
        /// Cycles of a router, at least 1.
        latency: u32,
    },
    /// The textbook's. Its virtual channels and buffers are those of [`Settings`].
    InputQueued(input_queued::Settings),
}
