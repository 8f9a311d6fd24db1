//! The level at which a link is full, from the levels of its flows.

use crate::backend::FairFlows;
use crate::backend::settle::uses;
use crate::fair::{Level, NOWHERE, share};
use crate::links::Member;
use crate::path::Path;
use std::hint::select_unpredictable;

impl FairFlows {
    /// The level at which the link is full, where its flows are held back as they are elsewhere.
    pub(crate) fn full_at(&mut self, link: u32) -> Level {
        // Only the other links of its flows count.
        let room = &mut self.links.rooms[link as usize];
        let full = std::mem::replace(&mut room.full_at, NOWHERE);
        let again = if full == NOWHERE { None } else { self.full_again_at(link, full.value) };
        let found = again.unwrap_or_else(|| self.full_anew_at(link, full.value));
        self.links.rooms[link as usize].full_at = full;
        found
    }

    /// The same for a link that holds flows back, found from these flows alone: the others are so
    /// slow that they remain held back elsewhere. `None` where that is not clear.
    #[inline(never)]
    fn full_again_at(&mut self, link: u32, full: u64) -> Option<Level> {
        let left = self.links.rooms[link as usize].left;
        let state = &self.links.states[link as usize];
        let here = &mut self.spread.reached;
        let sides = Sides::of(&state.members, &self.paths, (full, here));
        let here = &self.spread.reached[..sides.count];
        if sides.top > full || here.is_empty() {
            return None;
        }
        let demand = here.iter().map(|&at| state.members[at as usize].demand).sum::<u128>();
        let open = left.checked_add_unsigned(demand.checked_mul(full.into())?)?;
        let open = Open { left: u128::try_from(open).ok()?, demand, rough: sides.rough };
        let value = open.share();
        // Rounded levels of links that are full at about the same level decide nothing here.
        let clear = || share(state.demand, demand).saturating_add(3);
        let is_near = u128::from(value) < u128::from(sides.below) + state.demand + 3;
        if is_near && value < sides.below.saturating_add(clear()) {
            return None;
        }
        if left < 0 {
            return Some(open.full(value));
        }
        let (rooms, flows, paths) = (&self.links.rooms[..], &self.flows, &self.paths);
        let (held, mut least) = (&mut self.spread.held, u64::MAX);
        held.clear();
        held.extend(here.iter().map(|&at| {
            let Member { flow, demand, .. } = state.members[at as usize];
            let level = paths[flow as usize].held_at(rooms, || uses(&flows[flow as usize]));
            least = least.min(level.value);
            (level, demand)
        }));
        Some(if least < value { open.settle(value, held) } else { open.full(value) })
    }

    /// The same from the levels of all its flows.
    #[inline(never)]
    fn full_anew_at(&mut self, link: u32, full: u64) -> Level {
        let (rooms, flows, paths) = (&self.links.rooms[..], &self.flows, &self.paths);
        let state = &self.links.states[link as usize];
        let has_room = rooms[link as usize].left >= 0;
        let held = &mut self.spread.held;
        held.clear();
        held.extend(state.members.iter().map(|&Member { flow, demand, .. }| {
            let path = &paths[flow as usize];
            // Where another link holds it back, that is its level. Where this one is full at a lower
            // level, the others do not matter to the flows that it holds back.
            let level = if path.level.value < full {
                path.level
            } else if has_room {
                path.held_at(rooms, || uses(&flows[flow as usize]))
            } else {
                NOWHERE
            };
            (level, demand)
        }));
        let open = Open { left: state.capacity, demand: state.demand, rough: false };
        open.settle(open.share(), held)
    }
}

/// The flows of a link on both sides of a level.
struct Sides {
    /// Number of those at this level or above, and the highest level of all.
    count: usize,
    top: u64,
    /// The highest level below, and whether one of those levels was rounded.
    below: u64,
    rough: bool,
}

impl Sides {
    #[inline]
    fn of(members: &[Member], paths: &[Path], (level, here): (u64, &mut Vec<u32>)) -> Sides {
        let mut sides = Sides { count: 0, top: 0, below: 0, rough: false };
        here.resize(here.len().max(members.len()), 0);
        for (at, &Member { flow, .. }) in (0..).zip(members) {
            let Level { value, exact } = paths[flow as usize].level;
            // Without branches: on which side a flow is is hard to foresee.
            let is_below = value < level;
            // Each place is written, and kept where the next one does not take its place.
            here[sides.count] = at;
            sides.count += usize::from(!is_below);
            sides.top = sides.top.max(value);
            sides.below = select_unpredictable(is_below, sides.below.max(value), sides.below);
            sides.rough |= is_below & !exact;
        }
        sides
    }
}

/// The part of a link that is left for the flows that nothing else holds back, as far as they are known.
#[derive(Clone, Copy)]
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

    /// The level at which the link is full, where something else may hold back these flows, each at
    /// its level, and `value` is what they share.
    fn settle(mut self, mut value: u64, held: &mut [(Level, u128)]) -> Level {
        let mut count = held.len();
        while self.demand > 0 {
            let kept = self.take(value, &mut held[..count]);
            if kept == count {
                return self.full(value);
            }
            self.demand = held[..kept].iter().map(|held| held.1).sum();
            (value, count) = (self.share(), kept);
        }
        NOWHERE
    }

    /// Flows that are held back below this value take their part. The others come first then;
    /// returns their number.
    #[inline]
    fn take(&mut self, value: u64, held: &mut [(Level, u128)]) -> usize {
        let mut kept = 0;
        for at in 0..held.len() {
            let (level, demand) = held[at];
            // Without branches: each one is written, and kept where the next does not take its place.
            let passes = level.value < value;
            held[kept] = (level, demand);
            kept += usize::from(!passes);
            self.left -= demand * u128::from(select_unpredictable(passes, level.value, 0));
            self.rough |= passes & !level.exact;
        }
        kept
    }

    fn full(&self, value: u64) -> Level {
        Level { value, exact: !self.rough && self.demand * u128::from(value) == self.left }
    }
}
