//! Reports of networks of either router.

use crate::fabric::Packet;

/// A packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Token that `send` was given.
    pub token: u64,
    /// The packet.
    pub packet: Packet,
    /// Cycle in which its last flit arrived.
    pub cycle: u64,
    /// Cycles in the queue of its network interface.
    pub queued: u64,
    /// Cycles from there to its destination; on Garnet less one, as Garnet counts.
    pub network: u64,
    /// Links between routers.
    pub hops: u32,
}

/// A virtual channel whose packet cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The channel.
    pub channel: u32,
    /// Virtual channel, numbered over all virtual networks.
    pub vc: u32,
}

/// Slots that wait for one another, each for the next and the last for the first; empty if a slot on
/// the way from `first` waits for none.
pub(crate) fn circle(first: usize, waits_for: impl Fn(usize) -> Option<usize>) -> Vec<usize> {
    let mut seen = vec![first];
    while let Some(next) = waits_for(seen[seen.len() - 1]) {
        if let Some(from) = seen.iter().position(|&other| other == next) {
            return seen.split_off(from);
        }
        seen.push(next);
    }
    Vec::new()
}
