//! A collective whose chunks take the dimensions in orders of their own: what the schedulers see of
//! it, and what becomes of their choice.
//!
//! Not here: the schedulers (`scheduler`), the phases of one chunk (`native.rs`).

use super::{Chunks, Does, NativeLowering};
use crate::lowered::{Geometry, Lowered, PhaseSpec, Request};
use crate::scheduler::predict::{self, Cost, Wire};
use crate::scheduler::{self, Costs, Job, Order, Share};
use crate::shape::Line;
use collective::{Phase, is_rooted};
use graph::{CollectiveKind, Problem};
use indexmap::IndexMap;
use indexmap::map::Entry;
use platform::{Algorithm, DimensionOrder, Policy, Queues};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use topology::Fabric;

impl NativeLowering<'_> {
    /// One list of phases for each order and size that occurs.
    pub(super) fn by_order(
        &self,
        request: &Request,
        lines: &[Line],
        chunks: &[(Order, u64)],
    ) -> Result<Lowered, Problem> {
        let mut known: IndexMap<(&Order, u64), Vec<PhaseSpec>> = IndexMap::new();
        let mut shape_of = Vec::with_capacity(chunks.len());
        for &(ref order, bytes) in chunks {
            let entry = known.entry((order, bytes));
            shape_of.push(entry.index() as u32);
            if let Entry::Vacant(vacant) = entry {
                vacant.insert(self.over_lines(request, bytes, lines, order)?);
            }
        }
        let count = chunks.len() as u32;
        Ok(Lowered { shapes: known.into_values().collect(), chunks: count, shape_of })
    }

    /// The order of dimensions of each chunk, and its bytes; empty: the order of the lines, for all.
    pub(super) fn orders(
        &self,
        request: &Request,
        lines: &[Line],
        chunks: Chunks,
        members: u64,
    ) -> Result<Vec<(Order, u64)>, Problem> {
        let policy = self.platform.scheduler.dimension_order;
        match policy {
            DimensionOrder::Baseline => return Ok(Vec::new()),
            DimensionOrder::AllAtOnce => return self.all_at_once(request, lines, members),
            DimensionOrder::Themis | DimensionOrder::OfflineGreedy => {}
        }
        let chosen = self
            .with_job(request, lines, chunks, |job, costs| scheduler::orders(policy, job, costs));
        let orders = chosen.unwrap_or_else(|| Ok(Vec::new()))?;
        Ok((0..).zip(orders).map(|(chunk, order)| (order, chunks.size(chunk))).collect())
    }

    /// The chunks of a collective that uses all dimensions at once: those of its shares in turn.
    fn all_at_once(
        &self,
        request: &Request,
        lines: &[Line],
        members: u64,
    ) -> Result<Vec<(Order, u64)>, Problem> {
        let &Request { kind, bytes, .. } = request;
        let dims = lines.len() as u64;
        // An all-gather counts what one member brings.
        let members = if kind == CollectiveKind::AllGather { 1 } else { members };
        if lines.len() < 2 || !is_divisible(kind) || bytes < dims.saturating_mul(members) {
            return Ok(Vec::new());
        }
        let whole = Chunks { full: bytes, count: 1, last: bytes };
        let shares = self.with_job(request, lines, whole, |job, costs| {
            scheduler::shares(lines.len(), Some((job, costs)))
        });
        let shares = shares.unwrap_or_else(|| scheduler::shares(lines.len(), None))?;
        Ok(cut(&shares, bytes, members, self.platform.scheduler.chunks))
    }

    /// Shows a collective to `look` as schedulers see it; `None` where its lines are not those of
    /// the network.
    fn with_job<T>(
        &self,
        request: &Request,
        lines: &[Line],
        chunks: Chunks,
        look: impl FnOnce(&Job, &Costs) -> T,
    ) -> Option<T> {
        let wires = self.wires(lines)?;
        let dims: Vec<(u32, u32)> = (0..).zip(lines).map(|(i, l)| (i, l.size)).collect();
        let sizes: Vec<u64> = (0..chunks.count).map(|chunk| chunks.size(chunk)).collect();
        let one_way = |(line, wire): (&Line, &Wire)| {
            wire.has_directions()
                && self.of_line(request.kind, line) != Algorithm::BidirectionalRing
        };
        let directions: Vec<bool> = lines.iter().zip(&wires).map(one_way).collect();
        let whole: Vec<bool> = lines.iter().map(|l| self.is_whole(request.kind, l)).collect();
        let setup = &self.platform.scheduler;
        let queues: Vec<Queues> = lines.iter().map(|l| setup.queues(l.dim as usize)).collect();
        let job = Job {
            kind: request.kind,
            dims: &dims,
            chunks: &sizes,
            hierarchy: self.platform.collectives.hierarchy,
            queues: &queues,
            dispatch: setup.dispatch(),
            smallest_first: setup.policy == Policy::SmallestFirst,
            directions: &directions,
            whole: &whole,
        };
        let known: RefCell<FxHashMap<Phase, Cost>> = RefCell::default();
        let costs = |phase: &Phase| {
            if let Some(&cost) = known.borrow().get(phase) {
                return Ok(cost);
            }
            let at = phase.dim.unwrap_or(0) as usize;
            let cost = self.cost(request.kind, phase, &lines[at], &wires[at])?;
            known.borrow_mut().insert(*phase, cost);
            Ok(cost)
        };
        Some(look(&job, &costs))
    }

    /// The algorithm of a line.
    fn of_line(&self, kind: CollectiveKind, line: &Line) -> Algorithm {
        let at = Geometry::Line { stride: line.stride, size: line.size };
        // On a dimension of a stack the choice does not depend on the bytes.
        let does = Does { within: kind, kind, bytes: 0, root: 0 };
        self.algorithm(&does, line.dim, at, line.size)
    }

    /// Whether a line's algorithm does all-reduces, and neither reduce-scatter nor all-gather.
    fn is_whole(&self, kind: CollectiveKind, line: &Line) -> bool {
        let algorithm = self.of_line(kind, line);
        let can = |kind| {
            collective::PlanRequest { kind, algorithm, n: line.size, bytes: 0, root: 0, chunk: 0 }
                .check()
                .is_ok()
        };
        kind == CollectiveKind::AllReduce && can(kind) && !can(CollectiveKind::ReduceScatter)
    }

    /// The physical dimension of each line; `None` where one crosses dimensions.
    fn wires(&self, lines: &[Line]) -> Option<Vec<Wire<'_>>> {
        let Fabric::Stacked(dims) = &self.platform.fabric else { return None };
        lines.iter().map(|l| Wire::find(dims, l.stride, l.size)).collect()
    }

    fn cost(
        &self,
        kind: CollectiveKind,
        phase: &Phase,
        line: &Line,
        wire: &Wire,
    ) -> Result<Cost, Problem> {
        let algorithm = self.of_line(kind, line);
        let geometry = Geometry::Line { stride: line.stride, size: line.size };
        let plans =
            self.plans((phase.kind, algorithm), geometry, (line.dim, line.size), phase.bytes, 0)?;
        Ok(predict::cost(&plans[0].forward, wire, self.platform.scheduler.endpoint_delay))
    }
}

/// Kinds whose chunks may take the dimensions in any order, without a root to start or end at.
fn is_divisible(kind: CollectiveKind) -> bool {
    !is_rooted(kind) && kind != CollectiveKind::Barrier
}

/// Cuts each of the shares of `bytes` into `chunks` chunks or fewer, of at least one byte a member.
/// Large ones divide into halves of fragments without a rest, where `bytes` do.
fn cut(shares: &[Share], bytes: u64, members: u64, chunks: u32) -> Vec<(Order, u64)> {
    let grains: u64 = shares.iter().map(|share| u64::from(share.grains)).sum();
    let unit = Some(2 * members).filter(|&unit| bytes / unit >= grains).unwrap_or(1);
    let mut before = 0;
    let mut rows: Vec<Vec<(Order, u64)>> = Vec::new();
    for share in shares {
        // Up to where this share goes; the last one ends with the bytes.
        let end = |grain: u64| match grain == grains {
            true => bytes,
            false => {
                (u128::from(bytes) * u128::from(grain) / u128::from(grains)) as u64 / unit * unit
            }
        };
        let (from, to) = (end(before), end(before + u64::from(share.grains)));
        before += u64::from(share.grains);
        let each = u64::from(chunks.min(share.chunks));
        let chunk = (to - from).div_ceil(each).next_multiple_of(unit).max(members.min(to - from));
        let starts = (from..to).step_by(usize::try_from(chunk.max(1)).unwrap_or(usize::MAX));
        for (row, start) in starts.enumerate() {
            rows.resize_with(rows.len().max(row + 1), Vec::new);
            rows[row].push((share.order.clone(), chunk.min(to - start)));
        }
    }
    rows.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;
    use graph::{Node, Op, ProgramBuilder, Workload};
    use platform::config::native;
    use proptest::prelude::*;
    use sim::{BackendKind, Config, Source, Watch, run};
    use units::{Bytes, Span, Time};

    fn dimension() -> impl Strategy<Value = (&'static str, u32, u32, u32)> {
        let block = prop_oneof![Just("Ring"), Just("FullyConnected"), Just("Switch")];
        (block, 2u32..=5, 1u32..400, 0u32..2000)
    }

    proptest! {
        /// With one chunk at a time in a dimension a collective that runs alone takes what is
        /// predicted for it, to the picosecond.
        #[test]
        fn what_is_predicted_is_what_happens(
            dims in prop::collection::vec(dimension(), 1..=3),
            (chunks, bytes) in (1u32..9, 1u64..5_000_000),
            kind in prop::sample::select(vec![CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllGather]),
            policy in prop_oneof![Just("fifo"), Just("smallest_first")],
            memory in prop_oneof![Just(""), Just("npu: {memory: {bandwidth: 1 TB/s}}\n")],
            delay in 0u32..50,
        ) {
            let topology: Vec<String> = dims.iter().map(|d| format!("{}({})", d.0, d.1)).collect();
            let link = |d: &(&str, u32, u32, u32)| format!("  - {{bandwidth: {} GB/s, per: link, latency: {} ns}}\n", d.2, d.3);
            let text = format!(
                "topology: {}\nlinks:\n{}{memory}scheduler: {{chunks: {chunks}, policy: {policy}, endpoint_delay: {delay} ns}}\n",
                topology.join("_"),
                dims.iter().map(link).collect::<String>()
            );
            let platform = native::from_yaml(&text, "p.yml", &[]).unwrap();
            let request = Request { kind, bytes, shape: 0, node: None, dims: u32::MAX, root: 0 };
            let lowering = NativeLowering::new(&platform, platform.sizes());
            let (lines, members) = (lowering.lines(&request, &Shape::World).unwrap(), u64::from(platform.fabric.npus()));
            let cut = lowering.chunks(kind, bytes, members).unwrap();
            let predicted = lowering.with_job(&request, &lines, cut, scheduler::predicted_end).unwrap().unwrap();
            let op = Op::Collective { kind, bytes: Bytes(bytes), slot: 0, priority: 0, dims: u32::MAX, root: 0 };
            let mut program = ProgramBuilder::default();
            program.push(Node { id: 0, duration: Span::ZERO, op }, "collective", []);
            let workload = Workload::uniform(program.build().unwrap(), platform.fabric.npus());
            let workload = Source::Built(Box::new(workload));
            let (backend, watch) = (BackendKind::Analytical, Watch::default());
            let config = Config { workload, groups: Vec::new(), platform, backend, fold: true, watch };
            let outcome = run(&config, &mut |_| true).unwrap();
            prop_assert_eq!(outcome.finish(0).since(Time::ZERO), predicted, "{}", text);
        }
    }
}
