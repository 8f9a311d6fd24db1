//! Queues of network interfaces.

use crate::fabric::Packet;

/// Packets that wait, from one node to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// Each of them.
    pub packet: Packet,
    /// How many.
    pub left: u64,
    /// Flits of the last.
    pub last: u32,
    /// Token that `send` was given.
    pub token: u64,
    /// Cycle in which they came.
    pub since: u64,
}

impl Waiting {
    /// The next packet, and whether it is the last.
    #[inline]
    pub(crate) fn pop(&mut self) -> (Packet, bool) {
        self.left -= 1;
        let is_last = self.left == 0;
        let flits = if is_last { self.last } else { self.packet.flits };
        (Packet { flits, ..self.packet }, is_last)
    }

    /// Flits of the next packet.
    #[inline]
    pub(crate) fn flits(&self) -> u32 {
        if self.left == 1 { self.last } else { self.packet.flits }
    }
}
