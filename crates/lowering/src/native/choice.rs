//! The algorithm of a phase where the network is not a building block that suggests one: a graph
//! without switched dimensions, logical dimensions, a part of a ring or mesh.
//!
//! On links of a graph every algorithm that can run is priced by latency and bandwidth
//! (`Patterns::time`): in each round the longest route's latency and endpoint delay, and the time
//! of the busiest link when all groups of the dimension run the phase at once. The cheapest one is
//! taken. Model: Thakur, Rabenseifner, Gropp, IJHPCA 2005, section 3, with the bytes of the busiest
//! link in the place of an NPU's own.
//!
//! An all-to-all is always direct. A ring relays each block past every NPU on the way, so it loads
//! no link less than messages that take the shortest route. Over several dimensions of a graph, an
//! all-to-all sends each block straight to its receiver, unless one dimension after the other loads
//! the busiest link less: where the dimensions share an NPU's port, each block would leave by it
//! once per dimension. Not here: groups whose ranks form no line. They take rings, because lowering
//! does not know their members.

use super::{Does, NativeLowering};
use crate::lowered::{Geometry, Request};
use crate::scheduler::predict::Wire;
use crate::shape::Line;
use collective::PlanRequest;
use collective::is_rooted;
use collective::phases::phases;
use graph::CollectiveKind;
use platform::{Algorithm, Rings};
use topology::Fabric;
use units::Span;

/// Most positions for which direct exchange, with its n (n - 1) messages, is tried with
/// halving-doubling, where an NPU has one link.
const MOST_DIRECT: u32 = 64;

impl NativeLowering<'_> {
    /// The cheapest algorithm of a phase on a line of `size` positions.
    pub(super) fn cheapest(&self, does: &Does, dim: u32, at: Geometry, size: u32) -> Algorithm {
        const DIRECT: Algorithm = Algorithm::Direct { window: None };
        let one_way = self.platform.collectives.rings == Rings::OneWay;
        match (self.is_wired(at), does.kind) {
            (true, CollectiveKind::AllToAll) if one_way => return Algorithm::Ring,
            (_, CollectiveKind::AllToAll) if size > 2 => return DIRECT,
            (true, _) => return Algorithm::Ring,
            (false, _) if size < 3 => return Algorithm::Ring,
            (false, _) => {}
        }
        let delay = self.endpoint_delay(dim);
        let time = |&algorithm: &Algorithm| self.time(does, algorithm, at, size, delay);
        let all = self.candidates(does.kind, size);
        let timed = all.into_iter().filter_map(|algorithm| Some((time(&algorithm)?, algorithm)));
        timed.min_by_key(|&(time, _)| time).map_or(Algorithm::Ring, |(_, algorithm)| algorithm)
    }

    /// Whether a group runs along a dimension of a stack, or is not a line at all.
    fn is_wired(&self, at: Geometry) -> bool {
        match (at, &self.platform.fabric) {
            (Geometry::Group, _) => true,
            (Geometry::Line { stride, size }, Fabric::Stacked(dims)) => {
                self.platform.logical.is_none() && Wire::find(dims, stride, size).is_some()
            }
            (Geometry::Line { .. }, Fabric::Graph(_)) => false,
        }
    }

    /// The algorithms that are tried, the usual one first.
    fn candidates(&self, kind: CollectiveKind, size: u32) -> Vec<Algorithm> {
        let mut all = vec![Algorithm::Ring];
        if self.platform.collectives.rings == Rings::BothWays && !is_rooted(kind) {
            all.push(Algorithm::BidirectionalRing);
        }
        let any = is_rooted(kind) || kind == CollectiveKind::Barrier;
        let halves = any || size.is_power_of_two();
        if halves {
            all.push(Algorithm::HalvingDoubling);
        }
        let few = is_rooted(kind) || size <= MOST_DIRECT;
        if !halves || few || self.platform.fabric.npus_choose() {
            all.push(Algorithm::Direct { window: None });
        }
        all
    }

    /// The line of all members of an all-to-all over `lines`, where they send to each other at once;
    /// `None` where it runs along one line after the other.
    ///
    /// Chunks in different dimensions overlap, so what one line after the other takes is at least
    /// the time of the link that is busiest in all its phases together.
    pub(super) fn at_once(&self, request: &Request, lines: &[Line]) -> Option<Line> {
        const DIRECT: Algorithm = Algorithm::Direct { window: None };
        let &Request { kind, bytes, .. } = request;
        let is_open = kind == CollectiveKind::AllToAll
            && self.platform.collectives.choices[kind as usize].is_none()
            && self.platform.logical.is_none()
            && matches!(self.platform.fabric, Fabric::Graph(_))
            && lines.windows(2).all(|l| l[0].stride * l[0].size == l[1].stride);
        let (first, true) = (lines.first()?, is_open && lines.len() > 1) else { return None };
        let line = Line { size: lines.iter().map(|l| l.size).product(), ..*first };
        let plan = |line: Line, bytes| {
            let Line { stride, size, .. } = line;
            let request =
                PlanRequest { kind, algorithm: DIRECT, n: size, bytes, root: 0, chunk: 0 };
            Some((request.plan().ok()?, Geometry::Line { stride, size }))
        };
        let dims: Vec<(u32, u32)> = (0..).zip(lines).map(|(i, l)| (i, l.size)).collect();
        let split = phases(kind, bytes, &dims, self.platform.collectives.hierarchy);
        let each = split.iter().map(|phase| plan(lines[phase.dim? as usize], phase.bytes));
        let each: Option<Vec<_>> = each.collect();
        let at_once = self.patterns.busiest(&[plan(line, bytes)?])?;
        (at_once <= self.patterns.busiest(&each?)?).then_some(line)
    }

    fn time(
        &self,
        does: &Does,
        algorithm: Algorithm,
        at: Geometry,
        size: u32,
        delay: Span,
    ) -> Option<Span> {
        let &Does { kind, bytes, root, .. } = does;
        let request = PlanRequest { kind, algorithm, n: size, bytes, root, chunk: 0 };
        self.patterns.time(&request.plan().ok()?, at, longest_chain(&request), delay)
    }
}

/// Messages one after the other from the root to the last position, or back, and their bytes: those
/// that a position waits for.
fn longest_chain(request: &PlanRequest) -> (u64, u64) {
    let &PlanRequest { kind, algorithm, bytes, .. } = request;
    let (n, fragment) = (u64::from(request.n), request.fragment());
    let rounds = u64::from(request.n.next_power_of_two().ilog2());
    let whole = matches!(kind, CollectiveKind::Broadcast | CollectiveKind::Reduce);
    let block = if kind == CollectiveKind::Gather { bytes } else { fragment };
    match algorithm {
        Algorithm::HalvingDoubling if whole => (rounds, bytes.saturating_mul(rounds)),
        Algorithm::HalvingDoubling => (rounds, block.saturating_mul(n - 1)),
        Algorithm::Ring if whole => (n - 1, fragment.saturating_mul(2 * n - 2)),
        Algorithm::Ring => (n - 1, block.saturating_mul(n - 1)),
        _ => (1, block),
    }
}
