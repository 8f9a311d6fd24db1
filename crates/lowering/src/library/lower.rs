//! From a prediction to plans that a backend runs: a chunk within the nodes, and one between them.
//!
//! The algorithm decides who sends what in which round (`traffic.rs`). Alone on its links, each of
//! the two chunks takes the predicted time (`rounds.rs`). They run at the same time, each in the
//! queue of its dimension, and the collective ends with the later one. In a rooted collective only
//! the root's node, or its rails, take part.

use super::place::Tier;
use super::traffic::Traffic;
use super::wires::Wires;
use super::{Placement, Prediction, place, predict};
use crate::lowered::{
    Directed, Filter, Geometry, Lane, Lowered, PhaseSpec, ReadyPlan, Request, buffer, regular,
};
use crate::shape::{Line, Shape};
use collective::is_rooted;
use graph::{CollectiveKind, Problem};
use platform::library::{Algorithm, Library};
use topology::{Block, Dim, Fabric, LinkGraph, Paths, Reach};
use units::{Bandwidth, Span};

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
    let place = Placement::of(fabric, shape, involved);
    if place.members() < 2 {
        return Ok(Lowered { shapes: vec![Vec::new()], chunks: 1, shape_of: Vec::new() });
    }
    let Some(prediction) = predict(library, &place, request.kind, request.bytes) else {
        let text = format!(
            "{} GPUs have neither a ring of direct links nor a path through the host",
            place.members()
        );
        return Err(
            Problem::new("", "", text).help("library.node.host_bandwidth, such as \"9 GB/s\"")
        );
    };
    let lines = place::lines(fabric, shape).into_iter().filter(|l| l.size > 1 && involved(l.dim));
    let lowering = Lines {
        library,
        fabric,
        request,
        place: &place,
        prediction: &prediction,
        group: matches!(shape, Shape::List { .. }),
        lines: lines.collect(),
    };
    let phase = |at: usize| lowering.phase(at).map(|phase| vec![phase]);
    let shapes: Vec<Vec<PhaseSpec>> =
        (0..lowering.lines.len()).map(phase).collect::<Result<_, _>>()?;
    let chunks = shapes.len() as u32;
    let shape_of = if chunks > 2 { (0..chunks).collect() } else { Vec::new() };
    Ok(Lowered { chunks, shapes, shape_of })
}

/// A collective over the lines of its group: one within the nodes, one between them, or only one.
struct Lines<'a> {
    library: &'a Library,
    fabric: &'a Fabric,
    request: &'a Request,
    place: &'a Placement,
    prediction: &'a Prediction,
    /// The members are a list.
    group: bool,
    lines: Vec<Line>,
}

impl Lines<'_> {
    fn phase(&self, at: usize) -> Result<PhaseSpec, Problem> {
        let Line { dim, stride, size } = self.lines[at];
        let (kind, bytes) = (self.request.kind, self.request.bytes);
        let wires = self.wires(dim, stride)?;
        let far = self.is_far(at);
        let traffic = Traffic {
            library: self.library,
            place: self.place,
            prediction: self.prediction,
            kind,
            far,
            positions: size,
            bytes: if far {
                (self.prediction.between as f64 * self.part(dim)) as u64
            } else {
                self.prediction.inside
            },
            root: self.root(at),
        };
        let mut ready = traffic.rounds(&wires).ready(&wires, traffic.start(), self.prediction.time);
        self.pace(&mut ready, dim);
        let plans = vec![Directed::new(ready)];
        let geometry = if self.group { Geometry::Group } else { Geometry::Line { stride, size } };
        let only = self.only(at);
        Ok(PhaseSpec {
            dim,
            lane: Lane::All,
            geometry,
            regular: only.is_empty() && regular(self.fabric, geometry, &plans),
            plans,
            custom: None,
            only,
            endpoint_delay: Span::ZERO,
            kind,
            algorithm: self.prediction.name().into(),
            bytes: buffer(kind, bytes, self.place.members()),
        })
    }

    /// Whether a line runs through nodes, not within one.
    fn is_far(&self, at: usize) -> bool {
        !self.is_near(self.lines[at].dim)
    }

    /// Whether a dimension is within nodes.
    fn is_near(&self, dim: u32) -> bool {
        (dim as usize) < place::node_dims(self.fabric)
    }

    /// The part of what a member sends between nodes that goes along a dimension of the network.
    fn part(&self, dim: u32) -> f64 {
        let tiers = &self.place.tiers;
        let tier = tiers.iter().find(|tier| tier.dim == dim && tiers.len() > 1);
        tier.map_or(1.0, |tier| self.part_along(tier))
    }

    fn part_along(&self, tier: &Tier) -> f64 {
        let pairs = matches!(self.prediction.algorithm, Algorithm::Pairwise | Algorithm::Pxn);
        if pairs { tier.pairs } else { tier.ring }
    }

    /// Bandwidth of a member along a dimension of a graph while all send along all dimensions of
    /// the network. Messages to farther members pass the nearer tiers, so each dimension has its
    /// part of a member's card, and of the links that leave each block.
    fn shared(&self, dim: u32, along: &Reach) -> Bandwidth {
        const GB: f64 = 1e9;
        let (tiers, part) = (&self.place.tiers, self.part(dim));
        let passing = |at: usize| match tiers.len() {
            1 => 1.0,
            _ => tiers[at..].iter().map(|tier| self.part_along(tier)).sum::<f64>(),
        };
        let nearer = (0..tiers.len()).filter(|&at| tiers[at].dim <= dim && !self.is_near(dim));
        let shares = nearer.map(|at| tiers[at].bandwidth * GB * part / passing(at));
        let least = shares.fold(along.stream.0 as f64 * part, f64::min);
        Bandwidth((least as u64).max(1))
    }

    /// Where messages wait at their own NPU only, they keep its link for as long as they need what
    /// they share with others.
    fn pace(&self, ready: &mut ReadyPlan, dim: u32) {
        let Fabric::Graph(graph) = self.fabric else { return };
        let Some(along) = graph.reach().get(dim as usize) else { return };
        let part = |of: Bandwidth| of.0 as f64 * self.part(dim);
        let shared = self.shared(dim, along).0 as f64;
        if shared < part(along.stream) - 1.0 {
            let ratio = (part(along.first) / shared).max(1.0);
            let longer = |bytes: &mut u64| *bytes = (*bytes as f64 * ratio) as u64;
            ready.paced.iter_mut().flatten().for_each(longer);
        }
    }

    /// The links along a dimension.
    fn wires(&self, dim: u32, stride: u32) -> Result<Wires, Problem> {
        let graph = match self.fabric {
            Fabric::Stacked(dims) => return Ok(Wires::Dim(dims[dim as usize].clone())),
            Fabric::Graph(graph) => graph,
        };
        let near = self.is_near(dim);
        match graph.reach().get(dim as usize) {
            Some(reach) if !near || self.place.rings.is_none() => {
                let paths = if near && self.place.mesh { Paths::Direct } else { Paths::Switched };
                let block = Block::with_paths(paths)
                    .ok_or_else(|| Problem::new("", "", format!("no block has {paths:?} paths")))?;
                let size = graph.dims[dim as usize].size;
                let hops = block.hops(2, 0, 1);
                let latency = Span(reach.latency.0 / u64::from(hops));
                let bandwidth = self.shared(dim, reach);
                Ok(Wires::Dim(Dim { block, size, bandwidth, latency, parallel: 1 }))
            }
            _ => {
                let links = LinkGraph::new(self.fabric);
                let links = links.map_err(|e| Problem::new("", "", e.to_string()))?;
                Ok(Wires::Graph { links: Box::new(links), stride })
            }
        }
    }

    /// The root's position on a line.
    fn root(&self, at: usize) -> u32 {
        if !is_rooted(self.request.kind) {
            return 0;
        }
        let within: u32 = self.lines[..at].iter().map(|line| line.size).product();
        self.request.root / within % self.lines[at].size
    }

    /// Who takes part along a line: of a gather or scatter the root's node, and the root's rail
    /// or, with PXN, every rail.
    fn only(&self, at: usize) -> Vec<Filter> {
        let rooted = matches!(self.request.kind, CollectiveKind::Gather | CollectiveKind::Scatter);
        if !rooted {
            return Vec::new();
        }
        let rails = self.is_far(at) && self.prediction.algorithm == Algorithm::Pxn;
        let others =
            (0..self.lines.len()).filter(|&other| other != at && (!rails || self.is_far(other)));
        let filter = |other: usize| {
            let Line { stride, size, .. } = self.lines[other];
            Filter { stride, size, at: self.root(other) }
        };
        others.map(filter).collect()
    }
}
