//! Transfers that enter a network, and their deliveries.

use units::Time;

/// Bytes from a source rank to a destination rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Source rank.
    pub src: u32,
    /// Destination rank, different from the source.
    pub dst: u32,
    /// Size; zero is allowed and costs latency only.
    pub bytes: u64,
    /// Bytes for which it keeps the link by which it leaves: at least its own, more where the
    /// traffic that it belongs to loads a link behind that one more. Means something only where
    /// transfers meet nowhere else ([`Contention::Departures`](crate::Contention)).
    pub paced: u64,
    /// The caller's name for it, returned with the delivery. Unique among transfers under way.
    pub token: u64,
    /// Number of equal transfers it stands for: 1, or more in a folded run. Counts in
    /// [`Usage`](crate::Usage), not in time.
    pub weight: u64,
}

/// A transfer that has arrived whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The transfer's token.
    pub token: u64,
    /// When it arrived.
    pub time: Time,
}
