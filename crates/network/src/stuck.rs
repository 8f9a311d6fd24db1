//! Why a network cannot go on.

/// Transfers are under way and nothing can move: a deadlock inside the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stuck {
    /// Transfers that were started and not delivered.
    pub transfers: u64,
    /// Places that wait for one another: each for the next, the last for the first. Empty when
    /// there is no such circle.
    pub cycle: Vec<BlockedPort>,
}

/// A port or channel that holds something and cannot send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedPort {
    /// Node its link leaves, as the topology numbers nodes (NPUs first).
    pub from: u32,
    /// Node its link enters.
    pub to: u32,
    /// Virtual channel or priority, where the network has them.
    pub channel: Option<u32>,
    /// Reason for the wait: `paused`, `no credit`.
    pub waits_for: String,
}
