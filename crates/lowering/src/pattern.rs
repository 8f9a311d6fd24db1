//! How much more a link in the network has to carry than the one by which a message leaves its NPU.
//!
//! All lines of one stride and size run a phase at once, so what it puts on every link is known
//! beforehand. Let `T` be the time that the busiest link needs for a round, and `S` that of the
//! busiest link out of an NPU, `S <= T`. Where messages wait at their own NPU only, each keeps its
//! first link `T / S` times as long: the phase then takes `T` at least, as on the network itself,
//! and no more than before where `T = S`. The ratio is the same for all messages of a round, so
//! ranks that are alike stay so.
//!
//! A round: the steps that wait for equally many receptions, in a plan that looks the same from
//! every position; the whole phase, in any other. If several rounds load one link by turns, their
//! ratios grow until the phase takes what that link needs. Groups that are not lines count the same
//! way: all lists of one length in a workload run a phase at once. Not here: patterns of more than
//! [`HOPS`] hops, whose messages keep their own time.

use crate::lowered::{Directed, Geometry, ReadyPlan};
use crate::scheduler::predict::Wire;
use crate::shape::Shape;
use collective::{Plan, Step, To};
use graph::{Group, Members, Workload};
use platform::Platform;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use topology::{Block, Dim, Fabric, LinkGraph, Paths, Routing, Splitter, Symmetry};
use units::{Bandwidth, Bytes, Span};

/// Most hops that are gone over for a round.
const HOPS: u64 = 1 << 23;

/// Parts of a byte, so that it can be split over 2, 3, 4, 5 or 6 links.
const SHARES: u128 = 60;

/// Messages of one position in a round: the receiver and the bytes of each.
type Round = Vec<(To, u64)>;

/// A line in the network it is in, and the rounds that were looked at: by stride, size and messages.
type Known = FxHashMap<(u32, u32, Round), Option<Rc<Loads>>>;

/// Loads of rounds on the links of a platform.
pub(crate) struct Patterns<'a> {
    platform: &'a Platform,
    /// The links of the whole fabric, when they are needed.
    whole: RefCell<Option<Option<Rc<LinkGraph>>>>,
    known: RefCell<Known>,
    /// Groups that are not lines, by innermost dimension and length.
    lists: FxHashMap<(u32, u32), Vec<&'a Members>>,
}

/// A quotient of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quotient(u128, u128);

/// Load of a round on links.
struct Loads {
    links: Rc<LinkGraph>,
    /// Parts of bytes of each link, and of those that leave an NPU by it.
    all: Vec<u128>,
    leaving: Vec<u128>,
    /// The latency of the longest route.
    latency: Span,
}

impl<'a> Patterns<'a> {
    pub(crate) fn new(platform: &'a Platform) -> Patterns<'a> {
        let (whole, known) = (RefCell::default(), RefCell::default());
        Patterns { platform, whole, known, lists: FxHashMap::default() }
    }

    /// Counts the groups of `workload` that are not lines on dimensions of `sizes`.
    pub(crate) fn add_groups(&mut self, workload: &'a Workload, sizes: &[u32]) {
        for Group { members, .. } in &workload.groups {
            if let Shape::List { count, dim } = Shape::of(members, sizes, true) {
                self.lists.entry((dim, count)).or_default().push(members);
            }
        }
    }

    /// Finds for how many bytes the messages of a phase of `size` positions keep the link by which
    /// they leave; `dim` is its dimension. Chunks take the plans in turn.
    pub(crate) fn pace(
        &self,
        plans: Vec<Directed>,
        geometry: Geometry,
        (dim, size): (u32, u32),
    ) -> Vec<Directed> {
        let found = match geometry {
            Geometry::Line { stride, size } => self
                .around(stride, size)
                .map(|(around, within)| (around, Places { stride, size, within, lists: &[] })),
            Geometry::Group => self.lists.get(&(dim, size)).and_then(|lists| {
                // No line has this stride.
                let stride = u32::MAX - dim;
                Some((self.everywhere()?, Places { stride, size, within: 0, lists }))
            }),
        };
        let Some((around, places)) = found else { return plans };
        let more = self.together(&plans, &around, places);
        let one = |ready: &mut ReadyPlan| {
            self.pace_one(ready, &around, places);
            if more != Quotient::ONE {
                ready.paced.iter_mut().flatten().for_each(|bytes| *bytes = more.of(*bytes));
            }
        };
        plans.into_iter().map(|plan| plan.map(one)).collect()
    }

    /// Remaining slowdown of plans that run side by side, because they load links together.
    fn together(&self, plans: &[Directed], around: &Around, places: Places<'_>) -> Quotient {
        let links = match around {
            Around::Dim(dim) => self.links(Some(dim)),
            Around::Links(links) => Some(links.clone()),
        };
        let (Some(links), true) = (links, plans.len() > 1) else { return Quotient::ONE };
        let load = |plan: &Directed| {
            let plan = &plan.forward.plan;
            Some((Rc::new(loads(&links, places, |p| &plan.script(p).steps)?), 1))
        };
        let all: Option<Vec<(Rc<Loads>, u128)>> = plans.iter().map(load).collect();
        let Some(all) = all else { return Quotient::ONE };
        let ratios: Vec<Quotient> = all.iter().map(|(loads, _)| loads.ratio()).collect();
        missing(&links, &all, &ratios)
    }

    /// The whole fabric.
    fn everywhere(&self) -> Option<Around<'a>> {
        let whole = self.whole.borrow_mut().get_or_insert_with(|| self.links(None)).clone();
        whole.map(Around::Links)
    }

    /// The network that holds lines, and their stride in it; `None` where none can be slower than
    /// the links out of the NPUs.
    fn around(&self, stride: u32, size: u32) -> Option<(Around<'a>, u32)> {
        if let Fabric::Stacked(dims) = &self.platform.fabric
            && let Some(wire) = Wire::find(dims, stride, size)
        {
            let dim = &dims[wire.index];
            let direct = dim.block.paths() == Paths::Direct || dim.size < 3;
            return (!direct).then(|| (Around::Dim(dim), wire.stride()));
        }
        self.everywhere().map(|around| (around, stride))
    }

    fn links(&self, dim: Option<&Dim>) -> Option<Rc<LinkGraph>> {
        let links = match dim {
            Some(dim) => LinkGraph::new(&Fabric::Stacked(vec![dim.clone()])),
            None => LinkGraph::new(&self.platform.fabric),
        };
        links.ok().map(|links| Rc::new(links.with_routing(self.platform.network.routing)))
    }

    fn pace_one(&self, ready: &mut ReadyPlan, around: &Around, line: Places<'_>) {
        let plan = &ready.plan;
        let paced = match around {
            Around::Dim(dim) if plan.is_uniform() && dim.block.paths() == Paths::Switched => return,
            Around::Dim(dim) if shifts_on_ring(plan, dim, line) => self.on_ring(plan, dim),
            Around::Dim(dim) => match self.links(Some(dim)) {
                Some(links) => self.over(plan, &links, line),
                None => return,
            },
            Around::Links(links) => self.over(plan, links, line),
        };
        if let Some(paced) = paced {
            ready.paced = paced;
        }
    }

    /// Bytes by script and step, where lines are shifted on a whole ring.
    fn on_ring(&self, plan: &Plan, dim: &Dim) -> Option<Vec<Vec<u64>>> {
        let routing = self.platform.network.routing;
        let by_round = rounds(&plan.scripts[0].steps);
        let ratio = |round: &Round| ring_ratio(round, dim.block, dim.size, routing);
        let ratios = by_round.iter().map(|(&round, steps)| (round, ratio(steps))).collect();
        Some(paced(plan, &ratios))
    }

    /// Bytes by script and step, by going over the routes on `links`; `None` where there are too
    /// many.
    fn over(&self, plan: &Plan, links: &Rc<LinkGraph>, line: Places<'_>) -> Option<Vec<Vec<u64>>> {
        if !plan.is_uniform() {
            let loads = loads(links, line, |p| &plan.script(p).steps)?;
            let ratio = loads.ratio();
            let scaled = |step: &Step| ratio.of(step.bytes);
            let script = |s: &collective::Script| s.steps.iter().map(scaled).collect();
            return Some(plan.scripts.iter().map(script).collect());
        }
        // Rounds that load links alike count as one, with the sum of their units.
        let mut all: Vec<(Rc<Loads>, u128)> = Vec::new();
        let mut which: BTreeMap<u32, usize> = BTreeMap::new();
        for (round, messages) in rounds(&plan.scripts[0].steps) {
            let (found, unit) = self.round(links, line, messages)?;
            let at = all.iter().position(|(loads, _)| Rc::ptr_eq(loads, &found));
            let at = at.unwrap_or_else(|| {
                all.push((found, 0));
                all.len() - 1
            });
            all[at].1 += unit;
            which.insert(round, at);
        }
        let ratios: Vec<Quotient> = all.iter().map(|(loads, _)| loads.ratio()).collect();
        let more = if all.len() > 1 { missing(links, &all, &ratios) } else { Quotient::ONE };
        let ratios = which.into_iter().map(|(round, at)| (round, ratios[at].times(more))).collect();
        Some(paced(plan, &ratios))
    }
}

impl Patterns<'_> {
    /// Loads of a round on `links` where every message is a number of units, and the bytes of a
    /// unit; `None` for too many hops.
    fn round(
        &self,
        links: &Rc<LinkGraph>,
        line: Places<'_>,
        round: Round,
    ) -> Option<(Rc<Loads>, u128)> {
        let unit = round.iter().fold(0, |unit, m| gcd(unit, m.1.into())).max(1) as u64;
        let scaled: Round = round.iter().map(|&(to, bytes)| (to, bytes / unit)).collect();
        let key = (line.stride, line.size, scaled);
        let found = self.known.borrow().get(&key).cloned();
        let found = found.unwrap_or_else(|| {
            let steps: Vec<Step> =
                key.2.iter().map(|&(to, bytes)| Step::send(to, bytes, 0, 0)).collect();
            loads(links, line, |_| &steps).map(Rc::new)
        });
        self.known.borrow_mut().insert(key, found.clone());
        Some((found?, u128::from(unit)))
    }

    /// The time that the busiest link of a graph needs for uniform plans, each on all lines of its
    /// geometry. `None` for too many hops.
    pub(crate) fn busiest(&self, plans: &[(Plan, Geometry)]) -> Option<Span> {
        let Around::Links(links) = self.everywhere()? else { return None };
        let mut all = vec![0; links.len() as usize];
        for (plan, geometry) in plans {
            let &Geometry::Line { stride, size } = geometry else { return None };
            let line = Places { stride, size, within: stride, lists: &[] };
            for round in rounds(&plan.scripts[0].steps).into_values() {
                let (loads, unit) = self.round(&links, line, round)?;
                all.iter_mut().zip(&loads.all).for_each(|(sum, parts)| *sum += parts * unit);
            }
        }
        Some(time(longest(&links, &all)))
    }

    /// Time of a plan on all lines of a geometry at once, by latency and bandwidth: in each round
    /// the latency of its longest route, `delay`, and the time of its busiest link. A plan whose
    /// positions differ counts as one load; its longest chain of messages has `chain` messages and
    /// bytes. `None` for too many hops, and for lines of a full connection.
    pub(crate) fn time(
        &self,
        plan: &Plan,
        geometry: Geometry,
        chain: (u64, u64),
        delay: Span,
    ) -> Option<Span> {
        let Geometry::Line { stride, size } = geometry else { return None };
        let (around, within) = self.around(stride, size)?;
        let links = match around {
            Around::Dim(dim) => self.links(Some(dim))?,
            Around::Links(links) => links,
        };
        let line = Places { stride, size, within, lists: &[] };
        if !plan.is_uniform() {
            let loads = loads(&links, line, |p| &plan.script(p).steps)?;
            let (messages, bytes) = chain;
            let bytes = loads.slowest().span(Bytes(bytes));
            return Some((loads.latency + delay) * messages + loads.time(1).max(bytes));
        }
        let one = |round| {
            let (loads, unit) = self.round(&links, line, round)?;
            Some(loads.latency + delay + loads.time(unit))
        };
        rounds(&plan.scripts[0].steps).into_values().map(one).sum()
    }
}

/// Lines of one stride and size (`within`: their stride in the network around them), or lists of one
/// length.
#[derive(Clone, Copy)]
struct Places<'p> {
    stride: u32,
    size: u32,
    within: u32,
    /// Empty for lines.
    lists: &'p [&'p Members],
}

impl Places<'_> {
    /// A number for each line among `npus` NPUs, or for each list.
    fn numbers(&self, npus: u32) -> Vec<u32> {
        if !self.lists.is_empty() {
            return (0..self.lists.len() as u32).collect();
        }
        (0..npus).filter(|rank| (rank / self.within).is_multiple_of(self.size)).collect()
    }

    /// The NPU at a position of the line or list with this number.
    fn npu(&self, number: u32, position: u32) -> u32 {
        match self.lists.get(number as usize) {
            Some(list) => list.rank(position),
            None => number + position * self.within,
        }
    }
}

/// Where a line is.
enum Around<'a> {
    /// In one dimension of a stack.
    Dim(&'a Dim),
    /// In the whole fabric.
    Links(Rc<LinkGraph>),
}

/// The messages of each round.
fn rounds(steps: &[Step]) -> BTreeMap<u32, Round> {
    let mut rounds: BTreeMap<u32, Round> = BTreeMap::new();
    for step in steps {
        if let Some(to) = step.to {
            rounds.entry(step.after_usable).or_default().push((to, step.bytes));
        }
    }
    rounds
}

/// Bytes by script and step, each round's times its ratio.
fn paced(plan: &Plan, ratios: &BTreeMap<u32, Quotient>) -> Vec<Vec<u64>> {
    let one = |step: &Step| match ratios.get(&step.after_usable) {
        Some(ratio) if step.to.is_some() => ratio.of(step.bytes),
        _ => step.bytes,
    };
    plan.scripts.iter().map(|script| script.steps.iter().map(one).collect()).collect()
}

/// Whether a plan only shifts, and its line is a whole ring.
fn shifts_on_ring(plan: &Plan, dim: &Dim, line: Places<'_>) -> bool {
    let shift = |step: &Step| matches!(step.to, None | Some(To::Shift(_)));
    plan.is_uniform()
        && dim.block.symmetry() == Symmetry::Rotation
        && (line.within, line.size) == (1, dim.size)
        && plan.scripts[0].steps.iter().all(shift)
}

/// The ratio of a round on a whole ring: each shift loads every link one way with its hops, and the
/// shift by half of the ring every link both ways with its pairs, or one way.
fn ring_ratio(round: &Round, block: Block, n: u32, routing: Routing) -> Quotient {
    let (mut all, mut leaving) = ([0u128; 2], [0u128; 2]);
    for &(to, bytes) in round {
        let at = to.position(0, n);
        if at == 0 {
            continue;
        }
        let (way, hops) = (block.slot(n, 0, at) as usize, u128::from(block.hops(n, 0, at)));
        let (bytes, splits) = (u128::from(bytes), block.ways(n, 0, at) > 1);
        match routing {
            Routing::Spray if splits => (0..2).for_each(|way| {
                leaving[way] += bytes * SHARES / 2;
                all[way] += bytes * hops * SHARES / 2;
            }),
            routing if splits && routing != Routing::Lowest => {
                let back = (0..n / 2).filter(|&a| block.even_way(n, a, a + n / 2) > 0);
                let back = back.count() as u128;
                leaving[way] += bytes * SHARES;
                all[1] += bytes * back * SHARES;
                all[0] += bytes * (hops - back) * SHARES;
            }
            _ => {
                leaving[way] += bytes * SHARES;
                all[way] += bytes * hops * SHARES;
            }
        }
    }
    let most = |sums: [u128; 2]| sums.into_iter().max().unwrap_or(0);
    Quotient::at_least_one(most(all), most(leaving))
}

/// Loads of all lines of a stride and size on links when each position sends its steps; `None` for
/// too many hops.
fn loads<'s>(
    links: &Rc<LinkGraph>,
    places: Places<'_>,
    steps: impl Fn(u32) -> &'s [Step],
) -> Option<Loads> {
    let empty = || vec![0; links.len() as usize];
    let mut loads =
        Loads { links: links.clone(), all: empty(), leaving: empty(), latency: Span::ZERO };
    let (mut hops, mut splitter) = (0, Splitter::default());
    let whole = u128::from(Splitter::whole(links));
    let size = places.size;
    let numbers = places.numbers(links.npus()).into_iter();
    for (number, position) in numbers.flat_map(|number| (0..size).map(move |p| (number, p))) {
        let src = places.npu(number, position);
        for step in steps(position) {
            let Some(to) = step.to else { continue };
            let dst = places.npu(number, to.position(position, size));
            let parts = u128::from(step.bytes) * SHARES;
            splitter.find(links, (src, dst), step.bytes);
            if !links.spreads() {
                loads.leave(links, (src, dst), parts);
            }
            for part in &splitter.found {
                let carried = (parts * u128::from(part.parts)).div_ceil(whole);
                loads.all[part.link as usize] += carried;
                if links.spreads() && links.link(part.link).from == src {
                    loads.leaving[part.link as usize] += carried;
                }
                hops += 1;
            }
            let leading = splitter.found.iter().filter(|part| part.leads);
            let latency = leading.map(|part| links.link(part.link).latency).sum();
            loads.latency = loads.latency.max(latency);
            if hops > HOPS {
                return None;
            }
        }
    }
    Some(loads)
}

impl Loads {
    /// Counts what leaves `src` on the link on which it waits.
    fn leave(&mut self, links: &LinkGraph, (src, dst): (u32, u32), parts: u128) {
        let first = match links.routing() {
            // Where both ways round are equally long, messages wait for the lowest.
            Routing::Auto => links.next(src, dst),
            Routing::Spray => {
                let ways = links.choices(src, dst);
                let part = parts / ways.len().max(1) as u128;
                return ways.iter().for_each(|hop| self.leaving[hop.link as usize] += part);
            }
            _ => links.route(src, dst).next(),
        };
        if let Some(hop) = first {
            self.leaving[hop.link as usize] += parts;
        }
    }

    fn ratio(&self) -> Quotient {
        let (all, leaving) = (self.longest(&self.all), self.longest(&self.leaving));
        Quotient::at_least_one(all.0.saturating_mul(leaving.1), all.1.saturating_mul(leaving.0))
    }

    /// The bandwidth of the slowest link that is used.
    fn slowest(&self) -> Bandwidth {
        let used = (0..).zip(&self.all).filter(|&(_, &parts)| parts > 0);
        let slowest = used.map(|(link, _)| self.links.link(link).bandwidth).min();
        slowest.unwrap_or(Bandwidth(u64::MAX))
    }

    /// The time of the busiest link, where a unit has `unit` bytes.
    fn time(&self, unit: u128) -> Span {
        let Quotient(parts, bandwidth) = self.longest(&self.all);
        time(Quotient(parts.saturating_mul(unit), bandwidth))
    }

    fn longest(&self, bytes: &[u128]) -> Quotient {
        longest(&self.links, bytes)
    }
}

/// The most time that a link needs for its bytes, in bytes over bytes per second.
fn longest(links: &LinkGraph, bytes: &[u128]) -> Quotient {
    let used = (0..).zip(bytes).filter(|&(_, &bytes)| bytes > 0);
    let time =
        |(link, &bytes): (u32, &u128)| Quotient(bytes, u128::from(links.link(link).bandwidth.0));
    used.map(time).fold(Quotient(0, 1), |most, time| if time.exceeds(most) { time } else { most })
}

/// The time of parts of bytes over bytes per second.
fn time(Quotient(parts, bandwidth): Quotient) -> Span {
    const PS_PER_S: u128 = 1_000_000_000_000;
    let ps = parts.saturating_mul(PS_PER_S) / (SHARES * bandwidth.max(1));
    Span(u64::try_from(ps).unwrap_or(u64::MAX))
}

/// Remaining slowdown of all rounds, so that some link out of an NPU is kept as long as any link
/// needs for all of them.
fn missing(links: &LinkGraph, rounds: &[(Rc<Loads>, u128)], ratios: &[Quotient]) -> Quotient {
    let mut all = vec![0u128; links.len() as usize];
    let mut leaving = all.clone();
    for (&(ref loads, unit), ratio) in rounds.iter().zip(ratios) {
        for link in 0..all.len() {
            all[link] += loads.all[link] * unit;
            leaving[link] += ratio.of_wide(loads.leaving[link] * unit);
        }
    }
    let (all, leaving) = (longest(links, &all), longest(links, &leaving));
    Quotient::at_least_one(all.0.saturating_mul(leaving.1), all.1.saturating_mul(leaving.0))
}

impl Quotient {
    const ONE: Quotient = Quotient(1, 1);

    /// The quotient in lowest terms; one where it is less, or where nothing is loaded.
    fn at_least_one(over: u128, under: u128) -> Quotient {
        if under == 0 || over <= under {
            return Quotient::ONE;
        }
        let divisor = gcd(over, under);
        Quotient(over / divisor, under / divisor).small()
    }

    /// The same with numbers of 60 bits, rounded up.
    fn small(self) -> Quotient {
        let excess = (128 - self.0.leading_zeros()).saturating_sub(60);
        if excess == 0 {
            return self;
        }
        Quotient((self.0 >> excess) + 1, (self.1 >> excess).max(1))
    }

    fn times(self, other: Quotient) -> Quotient {
        Quotient::at_least_one(self.0 * other.0, self.1 * other.1)
    }

    fn exceeds(self, other: Quotient) -> bool {
        self.0.saturating_mul(other.1) > other.0.saturating_mul(self.1)
    }

    /// `bytes` times the quotient, rounded up.
    fn of(self, bytes: u64) -> u64 {
        u64::try_from(self.of_wide(u128::from(bytes))).unwrap_or(u64::MAX)
    }

    fn of_wide(self, bytes: u128) -> u128 {
        if self == Quotient::ONE { bytes } else { bytes.saturating_mul(self.0).div_ceil(self.1) }
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}
