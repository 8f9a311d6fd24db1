//! Packets that wait at a port which sends a packet of each connection in turn.

use crate::packet::Packet;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Classes of packets.
const CLASSES: usize = 3;

/// Packets that wait for their turn (Nagle, RFC 970): those of one connection in order, connections
/// in turns, lower classes first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    rings: [Ring; CLASSES],
    packets: usize,
}

/// The connections of a class that have packets, the next one first.
#[derive(Clone, Debug, Default)]
struct Ring {
    order: VecDeque<u32>,
    lines: FxHashMap<u32, VecDeque<Packet>>,
}

impl Turns {
    /// A packet comes.
    pub(crate) fn push(&mut self, packet: Packet) {
        let ring = &mut self.rings[usize::from(packet.class).min(CLASSES - 1)];
        let line = ring.lines.entry(packet.connection).or_default();
        if line.is_empty() {
            ring.order.push_back(packet.connection);
        }
        line.push_back(packet);
        self.packets += 1;
    }

    /// The next packet leaves.
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        let ring = self.rings.iter_mut().find(|ring| !ring.order.is_empty())?;
        let connection = ring.order.pop_front()?;
        let line = ring.lines.get_mut(&connection)?;
        let packet = line.pop_front();
        if line.is_empty() {
            ring.lines.remove(&connection);
        } else {
            ring.order.push_back(connection);
        }
        self.packets -= usize::from(packet.is_some());
        packet
    }

    /// Packets that wait.
    pub(crate) fn len(&self) -> usize {
        self.packets
    }

    /// The packets that wait, in any order.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.rings.iter().flat_map(|ring| ring.lines.values().flatten())
    }
}
