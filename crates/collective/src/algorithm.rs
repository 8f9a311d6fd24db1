//! The algorithms, one collective on one group as a request, and the dispatcher that makes a plan
//! of it.

use graph::CollectiveKind;

/// An algorithm for one collective kind on one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// Neighbour to neighbour (pipelined chain for rooted kinds).
    Ring,
    /// To both neighbours at once, each block the shorter way round; kinds without a root.
    BidirectionalRing,
    /// Everybody to everybody at once; with a window, that many messages in flight.
    Direct {
        /// Messages in flight, `None` for all.
        window: Option<u32>,
    },
    /// Recursive halving and doubling, powers of two only; a binomial tree for rooted kinds and
    /// dissemination for the barrier, any number.
    HalvingDoubling,
    /// Two complementary binary trees, alternate chunks on each; all-reduce, reduce, broadcast and
    /// barrier.
    DoubleBinaryTree,
    /// The switch between the positions reduces; all-reduce and barrier, on a switch only.
    InNetwork,
}

impl std::fmt::Display for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Algorithm::Ring => f.write_str("ring"),
            Algorithm::BidirectionalRing => f.write_str("bidirectional ring"),
            Algorithm::Direct { window: None } => f.write_str("direct"),
            Algorithm::Direct { window: Some(w) } => write!(f, "direct (window {w})"),
            Algorithm::HalvingDoubling => f.write_str("halving-doubling"),
            Algorithm::DoubleBinaryTree => f.write_str("double binary tree"),
            Algorithm::InNetwork => f.write_str("in-network"),
        }
    }
}

/// One collective on one group of `n` positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanRequest {
    /// Collective that the algorithm computes.
    pub kind: CollectiveKind,
    /// How.
    pub algorithm: Algorithm,
    /// Positions, 1 or more.
    pub n: u32,
    /// Bytes per NPU, as `graph::Op::Collective` means them; a barrier ignores them.
    pub bytes: u64,
    /// Position of the root; other kinds ignore it.
    pub root: u32,
    /// Ordinal of the chunk: its parity picks the tree of the double binary tree, nothing else
    /// looks at it.
    pub chunk: u32,
}

impl PlanRequest {
    /// Bytes of one of `n` equal fragments, the last one padded: `ceil(bytes / n)`.
    pub fn fragment(&self) -> u64 {
        self.bytes.div_ceil(u64::from(self.n.max(1)))
    }
}

/// True for the kinds that have a root.
pub fn is_rooted(kind: CollectiveKind) -> bool {
    use CollectiveKind::{Broadcast, Gather, Reduce, Scatter};
    matches!(kind, Broadcast | Reduce | Gather | Scatter)
}
