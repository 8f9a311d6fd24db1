//! From a prediction to phases: the bytes really move over the links, and the time the library adds
//! is a delay among them.
//!
//! One chunk moves what passes within the node, another what passes between nodes, side by side, as
//! the library pipelines both. On a line of `n` positions a *carrier* sends the bytes in a few
//! pieces to the next position (to every other one where each has a link of its own; along the
//! rings of a mesh), then `ceil(log2 n) - 1` rounds of empty messages so that nobody ends before
//! everybody has begun. Alone on its links a carrier takes
//!
//! ```text
//! carrier = network time of its messages + delay = predicted time
//! ```
//!
//! on the analytical backend; the delay is charged once, after the last piece. Where others use the
//! links too, messages take longer and so does the collective. What the library can't do faster
//! than the links is timed by them: the delay is then nothing.

use super::place::{self, Place};
use super::rings::Rings;
use super::time::predict;
use crate::lowered::{
    Directed, Geometry, Lane, Lowered, PhaseSpec, ReadyPlan, Request, buffer, regular,
};
use crate::scheduler::predict::{Wire, cost};
use crate::shape::{Line, Shape};
use collective::{Plan, Script, Step, To};
use graph::Problem;
use platform::library::Library;
use topology::{Fabric, GraphFabric, LinkGraph, Paths};
use units::{Bytes, Span};

/// Messages the bytes of a line are cut into, so that a network that stores them whole loses an
/// eighth at most.
const PIECES: u64 = 8;

/// The phases of a collective as the library does it.
///
/// # Errors
/// Members that have no way to one another.
pub fn lower(
    library: &Library,
    fabric: &Fabric,
    request: &Request,
    shape: &Shape,
) -> Result<Lowered, Problem> {
    let involved = |dim: u32| dim >= 32 || request.dims >> dim & 1 == 1;
    let place = Place::of(fabric, shape, involved);
    if place.members() < 2 {
        return Ok(Lowered { shapes: vec![Vec::new()], chunks: 1, shape_of: Vec::new() });
    }
    let Some(prediction) = predict(library, &place, request.kind, request.bytes) else {
        let text = format!(
            "{} GPUs without a ring of direct links, and no path through the host",
            place.members()
        );
        return Err(Problem::new("", "", text).help("library.node.host, such as \"9 GB/s\""));
    };
    let lines = place::lines(fabric, shape).into_iter().filter(|l| l.size > 1 && involved(l.dim));
    let carrier = |line: Line| {
        let bytes = if line.dim == 0 { prediction.inside } else { prediction.between };
        let geometry = match shape {
            Shape::List { .. } => Geometry::Group,
            _ => Geometry::Line { stride: line.stride, size: line.size },
        };
        let ready = Carrier { fabric, place: &place, line, bytes }.plan(prediction.time);
        let plans = vec![Directed::new(ready)];
        vec![PhaseSpec {
            dim: line.dim,
            lane: Lane::All,
            geometry,
            regular: regular(fabric, geometry, &plans),
            plans,
            custom: None,
            only: Vec::new(),
            endpoint_delay: Span::ZERO,
            kind: request.kind,
            algorithm: prediction.name().into(),
            bytes: buffer(request.kind, request.bytes, place.members()),
        }]
    };
    let shapes: Vec<Vec<PhaseSpec>> = lines.map(carrier).collect();
    Ok(Lowered { chunks: shapes.len() as u32, shapes, shape_of: Vec::new() })
}

/// What moves along one line.
struct Carrier<'a> {
    fabric: &'a Fabric,
    place: &'a Place,
    line: Line,
    bytes: u64,
}

impl Carrier<'_> {
    /// The plan that takes `time` when nobody else uses the links.
    fn plan(&self, time: Span) -> ReadyPlan {
        let (plan, delayed) = match self.fabric {
            Fabric::Stacked(dims)
                if dims[self.line.dim as usize].block.paths() == Paths::Direct =>
            {
                self.direct()
            }
            Fabric::Stacked(_) => self.pieces(),
            Fabric::Graph(_) => match &self.place.rings {
                Some(rings) if !rings.cycles.is_empty() => along(rings, self.bytes),
                _ => self.pieces(),
            },
        };
        let mut ready = ReadyPlan::new(plan, |_| Span::ZERO);
        let delay = time.saturating_sub(self.alone(&ready));
        for charges in &mut ready.charges {
            for at in delayed.clone() {
                charges[at] = delay;
            }
        }
        ready
    }

    /// To the next position in pieces, then rounds of empty messages.
    fn pieces(&self) -> (Plan, std::ops::Range<usize>) {
        let n = self.line.size;
        let count = if self.bytes < PIECES { 1 } else { PIECES };
        let piece = |i: u64| self.bytes / count + u64::from(i < self.bytes % count);
        let mut steps: Vec<Step> = (0..count)
            .map(|i| Step::send(To::Shift(1), piece(i), i as u32, 0).and_receive(To::Shift(n - 1)))
            .collect();
        steps.extend(rounds(n, count as u32));
        (Plan::uniform(n, Script::plain(steps)), count as usize - 1..count as usize)
    }

    /// To every other position at once.
    fn direct(&self) -> (Plan, std::ops::Range<usize>) {
        let n = self.line.size;
        let share = self.bytes / u64::from(n - 1);
        let send =
            |k: u32| Step::send(To::Shift(k + 1), share, k, 0).and_receive(To::Shift(n - 1 - k));
        (Plan::uniform(n, Script::plain((0..n - 1).map(send).collect())), 0..n as usize - 1)
    }

    /// What the messages take when nobody else uses the links.
    fn alone(&self, ready: &ReadyPlan) -> Span {
        let Line { stride, size, .. } = self.line;
        match self.fabric {
            Fabric::Stacked(dims) => {
                // A list of members lies as it may; it is timed as if it filled its dimension.
                let within = Wire::find(dims, stride, size).or_else(|| {
                    let stride = dims[..self.line.dim as usize].iter().map(|d| d.size).product();
                    Wire::find(dims, stride, dims[self.line.dim as usize].size)
                });
                within.map_or(Span::ZERO, |wire| cost(ready, &wire, Span::ZERO).alone)
            }
            Fabric::Graph(graph) => over_graph(graph, &ready.plan, stride),
        }
    }
}

/// Rounds of a dissemination barrier after the one that brought the bytes; `before` receptions come
/// first.
fn rounds(n: u32, before: u32) -> impl Iterator<Item = Step> {
    let rounds = n.next_power_of_two().trailing_zeros();
    (1..rounds).map(move |k| {
        let slot = before + k - 1;
        Step::send(To::Shift(1 << k), 0, slot, slot).and_receive(To::Shift(n - (1 << k)))
    })
}

/// Both ways round every cycle, then rounds of empty messages.
fn along(rings: &Rings, bytes: u64) -> (Plan, std::ops::Range<usize>) {
    let n = rings.cycles[0].len() as u32;
    // Two members have one cycle, whose two ways are the same.
    let ways = if n == 2 { 1 } else { 2 * rings.cycles.len() as u32 };
    let share = bytes / u64::from(ways);
    let neighbour = |position: u32, way: u32| {
        let cycle = &rings.cycles[way as usize / 2];
        let at = cycle.iter().position(|&p| p == position).unwrap_or(0);
        let step = if way.is_multiple_of(2) { 1 } else { cycle.len() - 1 };
        (cycle[(at + step) % cycle.len()], cycle[(at + cycle.len() - step) % cycle.len()])
    };
    let script = |position: u32| {
        let mut steps: Vec<Step> = (0..ways)
            .map(|way| {
                let (next, last) = neighbour(position, way);
                Step::send(To::At(next), share, way, 0).and_receive(To::At(last))
            })
            .collect();
        steps.extend(rounds(n, ways));
        Script::plain(steps)
    };
    (Plan::by_role(n, |p| p, script), 0..ways as usize)
}

/// The end of a carrier on a graph: its pieces leave an NPU one after the other on each link, its
/// rounds follow one another.
fn over_graph(graph: &GraphFabric, plan: &Plan, stride: u32) -> Span {
    let Ok(links) = LinkGraph::new(&Fabric::Graph(graph.clone())) else { return Span::ZERO };
    let n = plan.n;
    let latency =
        |a: u32, b: u32| links.route(a, b).map(|hop| links.link(hop.link).latency).sum::<Span>();
    let busy = |a: u32, b: u32, bytes: u64| {
        let of = |hop: topology::Hop| links.link(hop.link).bandwidth.span(Bytes(bytes));
        (links.route(a, b).next().map(of), links.route(a, b).map(of).max().unwrap_or_default())
    };
    let mut now = vec![Span::ZERO; n as usize];
    for p in 0..n {
        let mut free: std::collections::BTreeMap<u32, Span> = Default::default();
        for step in plan.script(p).steps.iter().filter(|s| s.after_usable == 0) {
            let Some(to) = step.to.map(|to| to.position(p, n)) else { continue };
            let Some(first) = links.next(p * stride, to * stride) else { continue };
            let (occupied, slowest) = busy(p * stride, to * stride, step.bytes);
            let leaves = free.entry(first.link).or_default();
            let arrival = *leaves + latency(p * stride, to * stride) + slowest;
            *leaves += occupied.unwrap_or_default();
            now[to as usize] = now[to as usize].max(arrival);
        }
    }
    for k in 1..n.next_power_of_two().trailing_zeros() {
        let before = now.clone();
        for p in 0..n {
            let from = (p + n - (1 << k)) % n;
            let arrival = before[from as usize] + latency(from * stride, p * stride);
            now[p as usize] = before[p as usize].max(arrival);
        }
    }
    now.into_iter().max().unwrap_or_default()
}
