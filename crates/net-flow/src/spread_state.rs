//! State that is kept while a change spreads from link to link.

use crate::fair::Level;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A link that waits at a level. In order of levels, then of links: one number, which takes one
/// comparison.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waiting(u128);

impl Waiting {
    pub(crate) fn new(level: u64, link: u32) -> Waiting {
        Waiting(u128::from(level) << 32 | u128::from(link))
    }

    pub(crate) fn level(self) -> u64 {
        (self.0 >> 32) as u64
    }

    pub(crate) fn link(self) -> u32 {
        self.0 as u32
    }
}

/// Links to look at, and what is reused for it.
#[derive(Default)]
pub(crate) struct SpreadState {
    /// By the level at which something changed.
    pub queue: BinaryHeap<Reverse<Waiting>>,
    /// Links that are looked at together, and those of them that are full at another level.
    pub batch: Vec<u32>,
    pub given: Vec<(u32, u64)>,
    /// Room for the flows of a link to which it gives another level.
    pub reached: Vec<u32>,
    /// Changes of one round are looked at together.
    pub round: u32,
    /// Links that may have to be queued: the first ones of these, and room for all.
    pub listed: Vec<u32>,
    pub lists: usize,
    /// The flows of one link: the level at which something else holds them back, and their demand.
    pub held: Vec<(Level, u128)>,
    /// Flows whose levels have changed.
    pub changed: Vec<u32>,
    /// Messages on links that may still be looked at.
    pub patience: u128,
}

impl SpreadState {
    /// The links that may have to be queued. None is listed from then on.
    #[inline]
    pub(crate) fn take_listed(&mut self) -> &[u32] {
        &self.listed[..std::mem::take(&mut self.lists)]
    }
}
