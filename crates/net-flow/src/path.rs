//! The levels of flows and the links that they go over, close together: spreading changes reads
//! little else of a flow.

use crate::fair::{Level, NOWHERE, Use};
use crate::links::{Room, shift};

/// Links that are kept next to the level. Most routes have no more.
const NEAR: usize = 6;

/// A flow's level and its links.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Path {
    pub level: Level,
    /// Highest level of the flow.
    limit: u64,
    /// Capacity that the flow uses of each of its links for each unit of level.
    demand: u64,
    /// Links that are kept here: all, or none where they are many or used unequally.
    near: u32,
    links: [u32; NEAR],
    /// The level has changed, and the rate not yet.
    pub is_changed: bool,
}

impl Path {
    /// Path of a flow without a level.
    pub(crate) fn new(limit: Option<u64>, uses: impl ExactSizeIterator<Item = Use>) -> Path {
        let limit = limit.unwrap_or(u64::MAX);
        let (links, is_changed) = ([0; NEAR], false);
        let mut path = Path { level: NOWHERE, limit, demand: 0, near: 0, links, is_changed };
        let count = uses.len();
        for (at, one) in uses.enumerate() {
            let demand = u64::try_from(one.demand).unwrap_or(0);
            let fits = count <= NEAR && demand > 0 && (at == 0 || demand == path.demand);
            if !fits {
                path.near = 0;
                break;
            }
            (path.demand, path.links[at], path.near) = (demand, one.link, at as u32 + 1);
        }
        path
    }

    /// Does something for each link; `far` gives them where they are not kept here.
    #[inline]
    pub(crate) fn each<I: Iterator<Item = Use>>(
        &self,
        far: impl FnOnce() -> I,
        mut run: impl FnMut(Use),
    ) {
        if self.near == 0 {
            return far().for_each(run);
        }
        let demand = self.demand.into();
        self.links[..self.near as usize].iter().for_each(|&link| run(Use { link, demand }));
    }

    /// Does something for each link and for what comes free there where the flow goes from one level
    /// to another.
    #[inline]
    pub(crate) fn each_shift<I: Iterator<Item = Use>>(
        &self,
        far: impl FnOnce() -> I,
        levels: (u64, u64),
        mut run: impl FnMut(u32, i128),
    ) {
        if self.near == 0 {
            return far().for_each(|one| run(one.link, shift(one.demand, levels)));
        }
        let shift = shift(self.demand.into(), levels);
        self.links[..self.near as usize].iter().for_each(|&link| run(link, shift));
    }

    /// The level at which the flow is held back by its limit and its links.
    #[inline]
    pub(crate) fn held_at<I: Iterator<Item = Use>>(
        &self,
        rooms: &[Room],
        far: impl Fn() -> I,
    ) -> Level {
        // Without branches: which link is the tightest is hard to foresee.
        let mut value = self.limit;
        self.each(&far, |Use { link, .. }| value = value.min(rooms[link as usize].full_at.value));
        let mut exact = (value == self.limit) & (value != NOWHERE.value);
        self.each(&far, |Use { link, .. }| {
            let full = rooms[link as usize].full_at;
            exact |= (full.value == value) & full.exact;
        });
        Level { value, exact }
    }
}
