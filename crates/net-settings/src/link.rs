//! `network.link`: the link-queue backend.

use declared::{section, words};

/// When a node sends on a message that passes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Switching {
    /// As it arrives.
    #[default]
    CutThrough,
    /// When it is there as a whole.
    StoreAndForward,
}

words!(
    Switching:
    "cut_through" = Switching::CutThrough,
    "store_and_forward" = Switching::StoreAndForward,
);

section! {
    /// Settings of the link-queue backend.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Link {
        /// When a node sends on a message that passes it: as it arrives, or when it is there as a
        /// whole.
        pub switching: Switching, default Switching::CutThrough;
    }
}
