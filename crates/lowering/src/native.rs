//! Our own semantics: how a collective becomes chunks and phases.
//!
//! A collective of `m` bytes is cut into chunks of `ceil(m / chunks)` (at least one byte a member);
//! the last has what is left. Over several dimensions a chunk goes through the phases of
//! `collective::phases`; every reduction is charged `3 * bytes / memory bandwidth` (two reads, one
//! write). A group that fills lines of the network is treated as a machine of its own; any other
//! group runs one phase in list order. The order of dimensions is the scheduler's (`scheduler`).

mod choice;
mod orders;

use crate::lowered::{
    Directed, Filter, Geometry, Lane, Lowered, Lowering, PhaseSpec, ReadyPlan, Request, buffer,
    regular,
};
use crate::pattern::Patterns;
use crate::scheduler::Order;
use crate::shape::{Line, Shape};
use crate::{library, lowered};
use collective::is_rooted;
use collective::phases::{Phase, phases, takes_part};
use graph::{CollectiveKind, Problem, Workload};
use platform::{Algorithm, Choice, Platform, Rings};
use topology::{Fabric, Paths, Symmetry};
use units::{Bytes, Span};

/// Lowers by our own semantics.
pub struct NativeLowering<'a> {
    platform: &'a Platform,
    /// Sizes of the dimensions collectives run over.
    sizes: Vec<u32>,
    patterns: Patterns<'a>,
}

impl<'a> NativeLowering<'a> {
    /// For any platform.
    pub fn new(platform: &'a Platform, sizes: Vec<u32>) -> NativeLowering<'a> {
        NativeLowering { platform, sizes, patterns: Patterns::new(platform) }
    }

    /// The same for `workload`, whose groups that are not lines run at once.
    #[must_use]
    pub fn of_workload(mut self, workload: &'a Workload) -> NativeLowering<'a> {
        self.patterns.add_groups(workload, &self.sizes);
        self
    }

    fn chunks(&self, kind: CollectiveKind, bytes: u64, members: u64) -> Result<Chunks, Problem> {
        if kind == CollectiveKind::Barrier || bytes == 0 {
            return Ok(Chunks { full: 0, count: 1, last: 0 });
        }
        let chunk =
            bytes.div_ceil(u64::from(self.platform.scheduler.chunks)).max(members.min(bytes));
        let count = bytes.div_ceil(chunk);
        let count32 = u32::try_from(count).map_err(|_| {
            Problem::new(
                "",
                "",
                format!("{bytes} bytes in chunks of {chunk} bytes are more than 2^32 chunks"),
            )
        })?;
        Ok(Chunks { full: chunk, count: count32, last: bytes - chunk * (count - 1) })
    }

    fn paths(&self, dim: u32) -> Option<Paths> {
        match &self.platform.fabric {
            _ if self.platform.logical.is_some() => None,
            Fabric::Stacked(dims) => dims.get(dim as usize).map(|d| d.block.paths()),
            Fabric::Graph(graph) => graph.dims.get(dim as usize).map(|dim| dim.paths),
        }
    }

    /// The algorithm chosen for a kind on a dimension, or the one that suits how messages pass
    /// along it.
    fn algorithm(&self, does: &Does, dim: u32, at: Geometry, size: u32) -> Algorithm {
        let kind = does.within;
        let choice = self.platform.collectives.choices[kind as usize].as_ref();
        let chosen =
            choice.and_then(|c: &Choice| c.per_dim.get(dim as usize).or(c.per_dim.last()).copied());
        chosen.unwrap_or(match self.paths(dim) {
            Some(Paths::Relayed) if !is_rooted(kind) && self.runs_both_ways(at) => {
                Algorithm::BidirectionalRing
            }
            Some(Paths::Relayed) | None => self.cheapest(does, dim, at, size),
            // One message at a time uses one of an NPU's links.
            Some(Paths::Switched) if !is_rooted(kind) && self.has_several_ports() => {
                self.cheapest(does, dim, at, size)
            }
            // Rooted kinds and the barrier have a binomial tree for any number: direct would crowd
            // the root's port.
            Some(Paths::Switched) if is_rooted(kind) || kind == CollectiveKind::Barrier => {
                Algorithm::HalvingDoubling
            }
            Some(Paths::Switched) if size.is_power_of_two() && kind != CollectiveKind::AllToAll => {
                Algorithm::HalvingDoubling
            }
            Some(Paths::Switched | Paths::Direct) => Algorithm::Direct { window: None },
        })
    }

    /// Whether an NPU of a graph has several links.
    fn has_several_ports(&self) -> bool {
        let fabric = &self.platform.fabric;
        matches!(fabric, Fabric::Graph(_)) && fabric.npus_choose()
    }

    /// Whether a ring runs both ways round: it is closed, and both ways are not one link.
    fn runs_both_ways(&self, at: Geometry) -> bool {
        let Geometry::Line { stride, size } = at else { return false };
        let closed =
            matches!(self.platform.fabric.line(stride, size), Some((_, Symmetry::Rotation, true)));
        closed && size > 2 && self.platform.collectives.rings == Rings::BothWays
    }

    /// Delay before the first send and after each reception: the scheduler's delay and, where there
    /// is a library, the time of its transport beyond the links.
    fn endpoint_delay(&self, dim: u32) -> Span {
        let own = self.platform.scheduler.endpoint_delay;
        let Some(library) = &self.platform.library else { return own };
        own + library::transport(library, &self.platform.fabric, dim)
    }

    fn charge(&self, bytes: u64) -> Span {
        self.platform.npu.memory_bandwidth.map_or(Span::ZERO, |b| b.span(Bytes(3 * bytes)))
    }

    fn plans(
        &self,
        (kind, algorithm): (CollectiveKind, Algorithm),
        geometry: Geometry,
        (dim, n): (u32, u32),
        bytes: u64,
        root: u32,
    ) -> Result<Vec<Directed>, Problem> {
        let turns = if algorithm == Algorithm::DoubleBinaryTree { 2 } else { 1 };
        let plan = |chunk| {
            let plan = collective::plan(kind, algorithm, n, bytes, root, chunk);
            plan.map(|p| Directed::new(ReadyPlan::new(p, |b| self.charge(b))))
                .map_err(|e| Problem::new("", "", e.message()).help(e.allowed()))
        };
        let plans: Result<Vec<Directed>, Problem> = (0..turns).map(plan).collect();
        plans.map(|plans| self.patterns.pace(plans, geometry, (dim, n)))
    }

    fn phase(&self, phase: &Named) -> Result<PhaseSpec, Problem> {
        let Named { dim, kind, bytes, algorithm, geometry, size, root, lane, ref only } = *phase;
        let plans = self.plans((kind, algorithm), geometry, (dim, size), bytes, root)?;
        Ok(PhaseSpec {
            dim,
            lane,
            geometry,
            regular: only.is_empty() && regular(&self.platform.fabric, geometry, &plans),
            plans,
            custom: None,
            only: only.clone(),
            endpoint_delay: self.endpoint_delay(dim),
            kind,
            bytes: buffer(kind, bytes, size),
            algorithm: algorithm.to_string().into(),
        })
    }

    /// The phases of a chunk over `lines`, innermost first, taken in `order`.
    fn over_lines(
        &self,
        request: &Request,
        bytes: u64,
        lines: &[Line],
        order: &[u32],
    ) -> Result<Vec<PhaseSpec>, Problem> {
        let dims: Vec<(u32, u32)> = order.iter().map(|&i| (i, lines[i as usize].size)).collect();
        let split = phases(request.kind, bytes, &dims, self.platform.collectives.hierarchy);
        // The root is a position of the group: its coordinate along each line.
        let mut rest = request.root;
        let roots: Vec<u32> = lines
            .iter()
            .map(|l| {
                let at = rest % l.size;
                rest /= l.size;
                at
            })
            .collect();
        let lanes = Lane::of(request.kind, &split);
        let spec = |(at, phase): (usize, &Phase)| {
            let index = phase.dim.expect("phases over lines name one") as usize;
            let line = lines[index];
            let needed = |&d: &u32| !takes_part(&split, at, |other| other != d);
            let filter = |d: u32| Filter {
                stride: lines[d as usize].stride,
                size: lines[d as usize].size,
                at: roots[d as usize],
            };
            let geometry = Geometry::Line { stride: line.stride, size: line.size };
            let root = roots[index];
            self.phase(&Named {
                dim: line.dim,
                kind: phase.kind,
                bytes: phase.bytes,
                algorithm: self.algorithm(
                    &Does { within: request.kind, kind: phase.kind, bytes: phase.bytes, root },
                    line.dim,
                    geometry,
                    line.size,
                ),
                geometry,
                size: line.size,
                root,
                lane: lanes[at],
                only: (0..lines.len() as u32).filter(needed).map(filter).collect(),
            })
        };
        split.iter().enumerate().map(spec).collect()
    }

    fn one_phase(
        &self,
        request: &Request,
        bytes: u64,
        count: u32,
        dim: u32,
        geometry: Geometry,
    ) -> Result<Vec<PhaseSpec>, Problem> {
        let (kind, root) = (request.kind, request.root);
        let does = Does { within: kind, kind, bytes, root };
        let algorithm = self.algorithm(&does, dim, geometry, count);
        let named = Named {
            dim,
            kind,
            bytes,
            algorithm,
            geometry,
            size: count,
            root,
            lane: Lane::All,
            only: Vec::new(),
        };
        Ok(vec![self.phase(&named)?])
    }

    /// The lines that a collective runs over, innermost first; `None`: it is one phase, or nothing.
    fn lines(&self, request: &Request, shape: &Shape) -> Option<Vec<Line>> {
        let flat = self.platform.collectives.choices[request.kind as usize]
            .as_ref()
            .is_some_and(|c| c.flat);
        let lines = match shape {
            Shape::World if flat => return None,
            Shape::World => self.all_lines(),
            Shape::Lines(lines) => lines.clone(),
            Shape::List { .. } => return None,
        };
        let involved = |l: &Line| l.size > 1 && (l.dim >= 32 || request.dims >> l.dim & 1 == 1);
        let lines: Vec<Line> = lines.into_iter().filter(involved).collect();
        Some(self.at_once(request, &lines).map_or(lines, |line| vec![line]))
    }

    fn all_lines(&self) -> Vec<Line> {
        let mut stride = 1;
        let line = |(dim, &size): (usize, &u32)| {
            let line = Line { dim: dim as u32, stride, size };
            stride *= size;
            line
        };
        self.sizes.iter().enumerate().map(line).collect()
    }

    /// The phases of a chunk of a collective that runs over no lines.
    fn undivided(
        &self,
        request: &Request,
        shape: &Shape,
        bytes: u64,
    ) -> Result<Vec<PhaseSpec>, Problem> {
        match shape {
            Shape::List { count: 1, .. } => Ok(Vec::new()),
            Shape::List { count, dim } => {
                self.one_phase(request, bytes, *count, *dim, Geometry::Group)
            }
            Shape::World | Shape::Lines(_) => {
                let size = self.sizes.iter().product();
                self.one_phase(request, bytes, size, 0, Geometry::Line { stride: 1, size })
            }
        }
    }
}

/// The chunks of a collective: all of one size but the last.
#[derive(Clone, Copy)]
struct Chunks {
    full: u64,
    count: u32,
    last: u64,
}

impl Chunks {
    fn size(&self, chunk: u32) -> u64 {
        if chunk + 1 == self.count { self.last } else { self.full }
    }
}

/// Work of a phase.
struct Does {
    /// The kind of the collective that it belongs to.
    within: CollectiveKind,
    /// Kind of the phase itself.
    kind: CollectiveKind,
    /// As `graph::Op::Collective` means them for its kind.
    bytes: u64,
    /// The position of its root.
    root: u32,
}

/// Parts of a phase.
struct Named {
    dim: u32,
    kind: CollectiveKind,
    bytes: u64,
    algorithm: Algorithm,
    geometry: Geometry,
    size: u32,
    root: u32,
    lane: Lane,
    only: Vec<Filter>,
}

impl Lowering for NativeLowering<'_> {
    fn lower(&self, request: &Request, shape: &Shape) -> Result<Lowered, Problem> {
        let members = shape.members(&self.sizes);
        if is_rooted(request.kind) && u64::from(request.root) >= members {
            let text = format!(
                "{} has root {}, but the group has {members} members",
                request.kind.name(),
                request.root
            );
            return Err(Problem::new("", "", text)
                .help(format!("a position from 0 to {}", members.saturating_sub(1))));
        }
        if let Some(custom) = self.platform.collectives.custom_for(request.kind, request.node) {
            return lowered::custom(custom, request, shape, members);
        }
        let chosen = self.platform.collectives.choices[request.kind as usize].is_some();
        if let Some(library) = self.platform.library.as_ref().filter(|_| !chosen) {
            return library::lower(library, &self.platform.fabric, request, shape);
        }
        let chunks = self.chunks(request.kind, request.bytes, members)?;
        let sizes = if chunks.last == chunks.full {
            vec![chunks.full]
        } else {
            vec![chunks.full, chunks.last]
        };
        let alike = |shapes| Lowered { shapes, chunks: chunks.count, shape_of: Vec::new() };
        let Some(lines) = self.lines(request, shape) else {
            let shapes = sizes.iter().map(|&bytes| self.undivided(request, shape, bytes));
            return shapes.collect::<Result<_, _>>().map(alike);
        };
        let ordered = self.orders(request, &lines, chunks, members)?;
        if !ordered.is_empty() {
            return self.by_order(request, &lines, &ordered);
        }
        let order: Order = (0..lines.len() as u32).collect();
        let shapes = sizes.iter().map(|&bytes| self.over_lines(request, bytes, &lines, &order));
        shapes.collect::<Result<_, _>>().map(alike)
    }

    fn message(&self, dim: u32, bytes: u64) -> Option<Span> {
        library::message(self.platform.library.as_ref()?, &self.platform.fabric, dim, bytes)
    }
}
