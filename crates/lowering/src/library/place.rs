//! The resources of a group: its members in a node, its nodes, the bandwidth of a member in both,
//! and rings where a node has no switch.

use super::rings::{self, Rings};
use crate::shape::{Line, Shape};
use topology::{Fabric, Paths};

/// A group of evenly spread members, `inside` of them in each of `between` nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Members in a node.
    pub inside: u32,
    /// Nodes.
    pub between: u32,
    /// What a member's links to others in the node carry one way, GB/s; with rings, what all of
    /// those carry.
    pub link: f64,
    /// What a member's share of the network carries one way, GB/s.
    pub network: f64,
    /// Every two members of a node have a link of their own.
    pub mesh: bool,
    /// The rings of a node without switch.
    pub(super) rings: Option<Rings>,
}

impl Placement {
    /// The place of a group of this shape; `involved` says which dimensions take part.
    pub fn of(fabric: &Fabric, shape: &Shape, involved: impl Fn(u32) -> bool) -> Placement {
        let lines = lines(fabric, shape);
        let size =
            |dim: u32| lines.iter().find(|l| l.dim == dim && involved(dim)).map_or(1, |l| l.size);
        let (inside, between) = (size(0), size(1));
        match fabric {
            Fabric::Stacked(dims) => {
                let mesh = dims[0].block.paths() == Paths::Direct;
                let links = if mesh { f64::from(inside.saturating_sub(1)) } else { 1.0 };
                let link = dims[0].bandwidth.as_gb_per_s() * links;
                let network = dims.get(1).map_or(0.0, |d| d.bandwidth.as_gb_per_s());
                Placement { inside, between, link, network, mesh, rings: None }
            }
            Fabric::Graph(graph) => {
                let stride = lines.first().map_or(1, |l| l.stride);
                let members: Vec<u32> = (0..inside).map(|i| i * stride).collect();
                let rings = rings::pack(graph, &members);
                Placement {
                    inside,
                    between: 1,
                    link: rings.bandwidth,
                    network: 0.0,
                    mesh: false,
                    rings: Some(rings),
                }
            }
        }
    }

    /// Members.
    pub fn members(&self) -> u32 {
        self.inside * self.between
    }
}

/// The lines of a shape; of a list all members are taken to lie along the dimension it counts for.
pub(super) fn lines(fabric: &Fabric, shape: &Shape) -> Vec<Line> {
    match shape {
        Shape::World => {
            let mut stride = 1;
            let line = |(dim, size): (usize, u32)| {
                let line = Line { dim: dim as u32, stride, size };
                stride *= size;
                line
            };
            fabric.sizes().into_iter().enumerate().map(line).collect()
        }
        Shape::Lines(lines) => lines.clone(),
        Shape::List { count, dim } => vec![Line { dim: *dim, stride: 1, size: *count }],
    }
}
