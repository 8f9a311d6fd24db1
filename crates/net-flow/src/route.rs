//! The links that a flow goes over, and what they allow it.
//!
//! In a folded run few pairs of ranks exchange very many flows, so their routes are kept.

use crate::fair::{Level, NOWHERE, Use, share};
use crate::limits::Limits;
use crate::links::{LinkState, Links, Room};
use rustc_hash::FxHashMap;
use topology::Splitter;
use units::Span;

/// A link of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossed {
    /// Where its state is.
    pub link: u32,
    /// Parts of the flow that go over it.
    pub parts: u128,
    /// How often the route goes over links that this one stands for: several in a folded run.
    pub crossings: u32,
}

/// The way from one NPU to another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    pub crossed: Vec<Crossed>,
    pub latency: Span,
    /// How much its flows count where they share a link.
    pub weight: u64,
    /// The highest level of its flows.
    pub limit: Option<u64>,
    /// Parts that leave NPUs, by the place where their bytes count.
    pub leaving: Vec<(usize, u128)>,
}

impl Route {
    /// Gives all links to a flow that stands for `copies` and has no level yet; returns its level.
    pub(crate) fn alone(&self, links: &mut Links, copies: u128) -> Level {
        let level = self.level(&links.states, copies);
        for crossed in &self.crossed {
            let full = self.fills(&links.states, crossed, copies);
            let full_at = if full.value == level.value { full } else { NOWHERE };
            let demand = self.used(crossed, copies).demand;
            let room: &mut Room = &mut links.rooms[crossed.link as usize];
            room.shift(demand, (NOWHERE.value, level.value));
            room.full_at = full_at;
        }
        level
    }

    /// The level at which a flow that stands for `copies` fills a link.
    fn fills(&self, states: &[LinkState], crossed: &Crossed, copies: u128) -> Level {
        let state = &states[crossed.link as usize];
        let demand = copies * crossed.parts * u128::from(self.weight);
        if demand == state.unit {
            return Level { value: state.full, exact: true };
        }
        let value = share(state.capacity, demand);
        Level { value, exact: demand * u128::from(value) == state.capacity }
    }

    /// The level of a flow that stands for `copies` and has all its links to itself.
    pub(crate) fn level(&self, states: &[LinkState], copies: u128) -> Level {
        let mut level = Level { value: self.limit.unwrap_or(u64::MAX), exact: true };
        for crossed in &self.crossed {
            let full = self.fills(states, crossed, copies);
            if full.value < level.value {
                level = full;
            } else {
                level.exact |= full.exact && full.value == level.value;
            }
        }
        level
    }

    /// Use of a link by a flow that represents `copies`.
    pub(crate) fn used(&self, crossed: &Crossed, copies: u128) -> Use {
        Use { link: crossed.link, demand: copies * crossed.parts * u128::from(self.weight) }
    }
}

/// Finds routes.
#[derive(Default)]
pub(crate) struct Routes {
    splitter: Splitter,
    /// The one that was found last, where none are kept.
    last: Route,
    /// Routes by source, destination and, where that counts, bytes.
    kept: FxHashMap<(u32, u32, u64), Route>,
}

impl Routes {
    /// The route of `bytes` between two NPUs.
    #[inline]
    pub(crate) fn of(
        &mut self,
        links: &mut Links,
        limits: &Limits,
        (src, dst): (u32, u32),
        bytes: u64,
    ) -> &Route {
        let Routes { splitter, last, kept } = self;
        if links.is_folded() {
            let counts = if links.graph.spreads() { bytes } else { 0 };
            return kept.entry((src, dst, counts)).or_insert_with(|| {
                let mut route = Route::default();
                find(splitter, &mut route, (links, limits), ((src, dst), bytes));
                route
            });
        }
        find(splitter, last, (links, limits), ((src, dst), bytes));
        last
    }
}

fn find(
    splitter: &mut Splitter,
    route: &mut Route,
    (links, limits): (&mut Links, &Limits),
    (ends, bytes): ((u32, u32), u64),
) {
    splitter.find(&links.graph, ends, bytes);
    let leading = splitter.found.iter().filter(|part| part.leads);
    route.latency = leading.map(|part| links.cost(part.link, part.dim).1).sum();
    route.weight = limits.weight(route.latency);
    route.limit = limits.level(route.weight, || links.slowest(&splitter.found));
    route.crossed.clear();
    route.leaving.clear();
    for part in &splitter.found {
        if part.from_npu {
            route.leaving.push((links.place(part.dim), part.parts.into()));
        }
        let link = links.state(part.link, part.dim);
        match route.crossed.iter_mut().find(|crossed| crossed.link == link) {
            Some(crossed) => {
                crossed.parts += u128::from(part.parts);
                crossed.crossings += 1;
            }
            None => route.crossed.push(Crossed { link, parts: part.parts.into(), crossings: 1 }),
        }
    }
}
