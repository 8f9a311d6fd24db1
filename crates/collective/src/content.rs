//! What a send of a plan carries, for the checker (blocks as in [`mod@crate::prove`]).

/// What a send carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// These blocks, to be joined with the receiver's or to be stored.
    Blocks { blocks: Vec<u64>, reduce: bool },
    /// All the sender knows (barriers).
    Everything,
    /// What position `of` came with of a block, to be joined with the receiver's; a switch has
    /// reduced it, so nobody is charged.
    Contribution { block: u64, of: u32 },
}

impl Content {
    pub(crate) fn reduced(block: u64) -> Content {
        Content::Blocks { blocks: vec![block], reduce: true }
    }

    pub(crate) fn stored(block: u64) -> Content {
        Content::Blocks { blocks: vec![block], reduce: false }
    }
}
