//! Max-min fair rates by progressive filling.
//!
//! All flows grow together. When a link is full, or a flow has reached its limit, those flows stay
//! as they are and the others go on (Bertsekas and Gallager, Data Networks, 2nd ed., section
//! 6.5.2). The result is the only one in which no flow can grow without shrinking one that is not
//! larger.
//!
//! A flow's *level* is its rate for one unit of weight. It uses `demand` of a link's capacity for
//! each unit of level. Everything is an integer. A level is rounded down, and all links and flows
//! that stop at one level stop together, so the result does not depend on the order in which links
//! and flows were added.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No limit, or no level yet.
const OPEN: u64 = u64::MAX;

/// Use of a link by a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The link, as [`Solver::link`] numbers it.
    pub link: u32,
    /// Capacity used for each unit of level, above zero.
    pub demand: u128,
}

/// A flow's rate for one unit of weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Rounded down.
    pub value: u64,
    /// Not rounded: the level is this value.
    pub exact: bool,
}

/// Where a link is full that is never full.
pub const NOWHERE: Level = Level { value: OPEN, exact: false };

/// Links and flows, and the level of each flow. It is made once and used for many problems.
#[derive(Debug, Default)]
pub struct Solver {
    /// Capacity of each link that is left, demand of the open flows, and their quotient.
    left: Vec<u128>,
    demand: Vec<u128>,
    share: Vec<u64>,
    /// Whether some flows of each link have levels that were rounded.
    rough: Vec<bool>,
    /// Start of the uses of each flow, its limit, its level.
    starts: Vec<u32>,
    uses: Vec<Use>,
    limits: Vec<u64>,
    levels: Vec<Level>,
    /// Flows by link.
    first: Vec<u32>,
    users: Vec<u32>,
    /// Links that lost demand in this round.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
    /// Level at which a link is full (its number) or a flow has its limit (links, then its number).
    stops: BinaryHeap<Reverse<(u64, u32)>>,
    round: Vec<u32>,
    /// Level at which each link is full.
    full_at: Vec<Level>,
}

impl Solver {
    /// Forgets all links and flows.
    pub fn clear(&mut self) {
        self.left.clear();
        self.demand.clear();
        self.starts.clear();
        self.uses.clear();
        self.limits.clear();
    }

    /// Adds a link; returns its number.
    pub fn link(&mut self, capacity: u128) -> u32 {
        self.left.push(capacity);
        self.demand.push(0);
        self.left.len() as u32 - 1
    }

    /// Adds a flow over links that were added before, each at most once; returns its number. Its
    /// level never exceeds `limit`.
    pub fn flow(&mut self, limit: Option<u64>, uses: impl Iterator<Item = Use>) -> u32 {
        self.starts.push(self.uses.len() as u32);
        self.limits.push(limit.unwrap_or(OPEN));
        for one in uses {
            self.demand[one.link as usize] += one.demand;
            self.uses.push(one);
        }
        self.limits.len() as u32 - 1
    }

    /// The level of every flow, in the order in which they were added. A flow without links and
    /// without a limit has `u64::MAX`.
    pub fn solve(&mut self) -> &[Level] {
        self.prepare();
        while let Some(&Reverse((level, _))) = self.stops.peek() {
            self.collect(level);
            self.stop(level);
            self.update();
        }
        &self.levels
    }

    /// The levels that were found last.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The level at which each link is full, in the order in which they were added;
    /// [`NOWHERE`] where that is not what holds flows back.
    pub fn full_at(&self) -> &[Level] {
        &self.full_at
    }

    fn flows(&self) -> usize {
        self.limits.len()
    }

    fn uses_of(&self, flow: u32) -> std::ops::Range<usize> {
        let flow = flow as usize;
        let end = self.starts.get(flow + 1).map_or(self.uses.len(), |&next| next as usize);
        self.starts[flow] as usize..end
    }

    /// Groups flows by link, and finds where each link is full.
    fn prepare(&mut self) {
        let links = self.left.len();
        self.levels.clear();
        self.levels.resize(self.flows(), Level { value: OPEN, exact: false });
        self.rough.clear();
        self.rough.resize(links, false);
        self.is_touched.clear();
        self.is_touched.resize(links, false);
        self.full_at.clear();
        self.full_at.resize(links, NOWHERE);
        self.first.clear();
        self.first.resize(links + 1, 0);
        for one in &self.uses {
            self.first[one.link as usize + 1] += 1;
        }
        (0..links).for_each(|link| self.first[link + 1] += self.first[link]);
        self.users.clear();
        self.users.resize(self.uses.len(), 0);
        let mut next = std::mem::take(&mut self.touched);
        next.clear();
        next.extend_from_slice(&self.first[..links]);
        for flow in 0..self.flows() as u32 {
            for at in self.uses_of(flow) {
                let place = &mut next[self.uses[at].link as usize];
                self.users[*place as usize] = flow;
                *place += 1;
            }
        }
        next.clear();
        self.touched = next;
        let mut stops = std::mem::take(&mut self.stops).into_vec();
        stops.clear();
        self.share.clear();
        for link in 0..links {
            let share = share(self.left[link], self.demand[link]);
            self.share.push(share);
            if self.demand[link] > 0 {
                stops.push(Reverse((share, link as u32)));
            }
        }
        let limited = self.limits.iter().enumerate().filter(|limit| *limit.1 != OPEN);
        stops.extend(limited.map(|(flow, &limit)| Reverse((limit, (links + flow) as u32))));
        self.stops = stops.into();
    }

    /// Takes everything that stops at `level`.
    fn collect(&mut self, level: u64) {
        self.round.clear();
        while let Some(&Reverse((next, who))) = self.stops.peek() {
            if next != level {
                break;
            }
            self.stops.pop();
            let link = who as usize;
            let stale =
                link < self.left.len() && (self.demand[link] == 0 || self.share[link] != level);
            if stale {
                continue;
            }
            self.round.push(who);
            if link < self.left.len() {
                let used = self.demand[link] * u128::from(level);
                let exact = !self.rough[link] && used == self.left[link];
                self.full_at[link] = Level { value: level, exact };
            }
        }
    }

    /// The flows over the links of this round, and those at their limit, stay at `level`. It is
    /// exact for flows that an exact stop holds back, so these go first.
    fn stop(&mut self, value: u64) {
        let round = std::mem::take(&mut self.round);
        let links = self.left.len() as u32;
        for exact in [true, false] {
            let level = Level { value, exact };
            for &who in &round {
                if let Some(flow) = who.checked_sub(links) {
                    self.fix(flow, level);
                } else if self.full_at[who as usize].exact == exact {
                    let (from, to) = (self.first[who as usize], self.first[who as usize + 1]);
                    (from..to).for_each(|at| self.fix(self.users[at as usize], level));
                }
            }
        }
        self.round = round;
    }

    fn fix(&mut self, flow: u32, level: Level) {
        if self.levels[flow as usize].value != OPEN {
            return;
        }
        self.levels[flow as usize] = level;
        for at in self.uses_of(flow) {
            let Use { link, demand } = self.uses[at];
            let link = link as usize;
            self.left[link] -= demand * u128::from(level.value);
            self.demand[link] -= demand;
            self.rough[link] |= !level.exact;
            if !std::mem::replace(&mut self.is_touched[link], true) {
                self.touched.push(link as u32);
            }
        }
    }

    /// Links that lost flows are full at another level.
    fn update(&mut self) {
        for link in self.touched.drain(..) {
            let at = link as usize;
            self.is_touched[at] = false;
            if self.demand[at] > 0 {
                self.share[at] = share(self.left[at], self.demand[at]);
                self.stops.push(Reverse((self.share[at], link)));
            }
        }
    }
}

/// The level at which open flows fill what is left; just below [`OPEN`] at most.
pub(crate) fn share(left: u128, demand: u128) -> u64 {
    match u64::try_from(left) {
        _ if demand == 0 => OPEN,
        // One division of 64 bits where that is enough.
        Ok(left) => match u64::try_from(demand) {
            Ok(demand) => (left / demand).min(OPEN - 1),
            Err(_) => 0,
        },
        Err(_) => u64::try_from(left / demand).unwrap_or(OPEN).min(OPEN - 1),
    }
}
