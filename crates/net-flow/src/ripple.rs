//! What is kept while a change spreads from link to link.

use crate::fair::Level;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Links to look at, and what is reused for it.
#[derive(Default)]
pub(crate) struct Ripple {
    /// By the level at which something changed.
    pub queue: BinaryHeap<Reverse<(u64, u32)>>,
    /// The flows of one link: the level at which something else holds them back, and their demand.
    pub held: Vec<(Level, u128)>,
    /// Flows whose levels have changed.
    pub changed: Vec<u32>,
    /// Uses that may still be looked at.
    pub patience: usize,
}
