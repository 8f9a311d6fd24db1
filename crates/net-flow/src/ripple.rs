//! State that is kept while a change spreads from link to link.

use crate::fair::Level;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Links to look at, and what is reused for it.
#[derive(Default)]
pub(crate) struct Ripple {
    /// By the level at which something changed.
    pub queue: BinaryHeap<Reverse<(u64, u32)>>,
    /// Links that are looked at together, and those of them that are full at another level.
    pub batch: Vec<u32>,
    pub given: Vec<(u32, u64)>,
    /// Room for the flows of a link to which it gives another level.
    pub reached: Vec<u32>,
    /// Changes of one round are looked at together.
    pub round: u32,
    /// Links that may have to be queued.
    pub listed: Vec<u32>,
    /// The flows of one link: the level at which something else holds them back, and their demand.
    pub held: Vec<(Level, u128)>,
    /// Flows whose levels have changed.
    pub changed: Vec<u32>,
    /// Messages on links that may still be looked at.
    pub patience: u128,
}
