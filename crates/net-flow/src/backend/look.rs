//! The level at which a link is full, from the levels of its flows.

use crate::backend::FairFlows;
use crate::backend::settle::uses;
use crate::fair::{Level, NOWHERE, share};
use crate::links::{Member, Room};
use crate::path::Path;

impl FairFlows {
    /// The level at which the link is full, where its flows are held back as they are elsewhere.
    pub(crate) fn full_at(&mut self, link: u32) -> Level {
        let again =
            if self.links.rooms[link as usize].is_full() { self.full_again_at(link) } else { None };
        again.unwrap_or_else(|| self.full_anew_at(link))
    }

    /// The same for a link that holds flows back, found from these flows alone: the others are so
    /// slow that they remain held back elsewhere. `None` where that is not clear.
    #[inline(never)]
    fn full_again_at(&mut self, link: u32) -> Option<Level> {
        let Room { full_at: full, left, .. } = self.links.rooms[link as usize];
        let state = &self.links.states[link as usize];
        let here = &mut self.ripples.reached;
        let sides = Sides::of(&state.members, &self.paths, (full.value, here));
        if sides.top > full.value || sides.here == 0 {
            return None;
        }
        let here = sides.here.checked_mul(full.value.into())?;
        let open = u128::try_from(left.checked_add_unsigned(here)?).ok()?;
        let mut open = Open { left: open, demand: sides.here, rough: sides.rough };
        let value = open.share();
        // Rounded levels of links that are full at about the same level decide nothing here.
        let clear = share(state.demand, sides.here).saturating_add(3);
        if value < sides.below.saturating_add(clear) {
            return None;
        }
        let held = &mut self.ripples.held;
        held.clear();
        if left >= 0 {
            let (rooms, flows, paths) = (&self.links.rooms, &self.flows, &self.paths);
            held.extend(self.ripples.reached[..sides.count].iter().map(|&at| {
                let Member { flow, demand, .. } = state.members[at as usize];
                let far = || uses(&flows[flow as usize]);
                (paths[flow as usize].held_at(link, rooms, far), demand)
            }));
        }
        Some(open.settle(held))
    }

    /// The same from the levels of all its flows.
    #[inline(never)]
    fn full_anew_at(&mut self, link: u32) -> Level {
        let (rooms, flows, paths) = (&self.links.rooms, &self.flows, &self.paths);
        let state = &self.links.states[link as usize];
        let Room { full_at: full, left, .. } = rooms[link as usize];
        let held = &mut self.ripples.held;
        held.clear();
        let mut open = Open { left: state.capacity, demand: state.demand, rough: false };
        let value = open.share();
        for member in &state.members {
            let path = &paths[member.flow as usize];
            // Where another link holds it back, that is its level. Where this one is full at a lower
            // level, the others do not matter to the flows that it holds back.
            let level = if path.level.value < full.value {
                path.level
            } else if left >= 0 {
                path.held_at(link, rooms, || uses(&flows[member.flow as usize]))
            } else {
                continue;
            };
            if !open.passes(level, member.demand, value) {
                held.push((level, member.demand));
            }
        }
        open.settle(held)
    }
}

/// The flows of a link on both sides of a level.
struct Sides {
    /// Demand and number of those at this level or above, and the highest level of all.
    here: u128,
    count: usize,
    top: u64,
    /// The highest level below, and whether one of those levels was rounded.
    below: u64,
    rough: bool,
}

impl Sides {
    #[inline]
    fn of(members: &[Member], paths: &[Path], (level, here): (u64, &mut Vec<u32>)) -> Sides {
        let mut sides = Sides { here: 0, count: 0, top: 0, below: 0, rough: false };
        here.resize(here.len().max(members.len()), 0);
        for (at, member) in (0..).zip(members) {
            let Level { value, exact } = paths[member.flow as usize].level;
            let is_below = value < level;
            // Each place is written, and kept where the next one does not take its place.
            here[sides.count] = at;
            sides.count += usize::from(!is_below);
            sides.here += member.demand & u128::from(!is_below).wrapping_neg();
            sides.top = sides.top.max(value);
            sides.below = sides.below.max(if is_below { value } else { 0 });
            sides.rough |= is_below & !exact;
        }
        sides
    }
}

/// The part of a link that is left for the flows that nothing else holds back, as far as they are known.
struct Open {
    left: u128,
    demand: u128,
    /// Levels of other flows were rounded.
    rough: bool,
}

impl Open {
    #[inline]
    fn share(&self) -> u64 {
        share(self.left, self.demand)
    }

    /// A flow that is held back below this value takes its part.
    #[inline]
    fn passes(&mut self, level: Level, demand: u128, value: u64) -> bool {
        let passes = level.value < value;
        if passes {
            self.left -= demand * u128::from(level.value);
            self.demand -= demand;
            self.rough |= !level.exact;
        }
        passes
    }

    /// The level at which the link is full, where something else may hold back these flows, each at
    /// its level.
    fn settle(&mut self, held: &mut Vec<(Level, u128)>) -> Level {
        loop {
            let value = self.share();
            if self.demand == 0 {
                return NOWHERE;
            }
            let least = held.iter().map(|held| held.0.value).min();
            if least.is_none_or(|least| least >= value) {
                return self.full(value);
            }
            held.retain(|&(level, demand)| !self.passes(level, demand, value));
        }
    }

    fn full(&self, value: u64) -> Level {
        Level { value, exact: !self.rough && self.demand * u128::from(value) == self.left }
    }
}
