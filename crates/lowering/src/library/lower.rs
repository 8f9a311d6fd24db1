//! From a prediction to plans that a backend runs: a chunk within the nodes, and one between them.
//!
//! The algorithm decides who sends what in which round (`traffic.rs`). Alone on its links, each of
//! the two chunks takes the predicted time (`rounds.rs`). They run at the same time, each in the
//! queue of its dimension, and the collective ends with the later one. In a rooted collective only
//! the root's node, or its rails, take part.

use super::traffic::Traffic;
use super::wires::Wires;
use super::{Placement, Prediction, place, predict};
use crate::lowered::{
    Directed, Filter, Geometry, Lane, Lowered, PhaseSpec, Request, buffer, regular,
};
use crate::shape::{Line, Shape};
use collective::is_rooted;
use graph::{CollectiveKind, Problem};
use platform::library::{Algorithm, Library};
use topology::{Fabric, LinkGraph};
use units::Span;

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
    Ok(Lowered { chunks: shapes.len() as u32, shapes, shape_of: Vec::new() })
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
        let wires = match self.fabric {
            Fabric::Stacked(dims) => Wires::Dim(&dims[dim as usize]),
            Fabric::Graph(_) => {
                let links = LinkGraph::new(self.fabric);
                let links = links.map_err(|e| Problem::new("", "", e.to_string()))?;
                Wires::Graph { links: Box::new(links), stride }
            }
        };
        let traffic = Traffic {
            library: self.library,
            place: self.place,
            prediction: self.prediction,
            kind,
            far: dim > 0,
            root: self.root(at),
        };
        let ready = traffic.rounds(&wires).ready(&wires, traffic.start(), self.prediction.time);
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

    /// The root's position on a line.
    fn root(&self, at: usize) -> u32 {
        if !is_rooted(self.request.kind) {
            return 0;
        }
        let within = if at == 0 { 1 } else { self.lines[0].size };
        self.request.root / within % self.lines[at].size
    }

    /// Who takes part along a line: of a gather or scatter the root's node, and the root's rail
    /// or, with PXN, every rail.
    fn only(&self, at: usize) -> Vec<Filter> {
        let rooted = matches!(self.request.kind, CollectiveKind::Gather | CollectiveKind::Scatter);
        let rails = at == 1 && self.prediction.algorithm == Algorithm::Pxn;
        if !rooted || rails || self.lines.len() < 2 {
            return Vec::new();
        }
        let Line { stride, size, .. } = self.lines[1 - at];
        vec![Filter { stride, size, at: self.root(1 - at) }]
    }
}
