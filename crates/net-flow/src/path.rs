//! The levels of flows and the links that they go over, close together: spreading changes reads
//! little else of a flow.

use crate::fair::{Level, NOWHERE, Use};
use crate::links::Room;

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

    /// The level at which the flow is held back by its limit and its links, except one of them.
    #[inline]
    pub(crate) fn held_at<I: Iterator<Item = Use>>(
        &self,
        except: u32,
        rooms: &[Room],
        far: impl FnOnce() -> I,
    ) -> Level {
        let mut level = match self.limit {
            u64::MAX => NOWHERE,
            value => Level { value, exact: true },
        };
        self.each(far, |Use { link, .. }| {
            let full = rooms[link as usize].full_at;
            let value = if link == except { NOWHERE.value } else { full.value };
            // Without branches: which link is the tightest is hard to foresee.
            let is_tighter = value < level.value;
            let is_as_tight = (value == level.value) & (link != except);
            level.exact = (is_tighter & full.exact)
                | (!is_tighter & (level.exact | (is_as_tight & full.exact)));
            level.value = level.value.min(value);
        });
        level
    }
}
