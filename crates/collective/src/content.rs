//! Contents of the sends of a plan, for the checker (blocks as in [`mod@crate::prove`]).

/// Content of a send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// These blocks, to be joined with the receiver's or to be stored.
    Blocks { blocks: Vec<u64>, reduce: bool },
    /// All the sender knows (barriers).
    Everything,
    /// The initial content of position `of` in a block, to be joined with the receiver's; a switch
    /// has reduced it, so no NPU is charged.
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
