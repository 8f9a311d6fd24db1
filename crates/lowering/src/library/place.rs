//! The resources of a group: its members in a node, its nodes, the bandwidth of a member in both,
//! and rings where a node has no switch.
//!
//! The network may have several dimensions (tiers). Rings and trees visit the nodes in their order,
//! so of their bytes `(1 - 1/s_1)` stay within blocks of `s_1` nodes, `(1 - 1/s_2) / s_1` within
//! blocks of `s_1 s_2`, and so on. A tier limits them to what a member may send along it divided by
//! that part. A message along a farther tier takes longer by the latency of its longer way.

use super::rings::{self, Rings};
use crate::shape::{Line, Shape};
use topology::{Fabric, Paths};

/// A group of evenly spread members, `inside` of them in each of `between` nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Members in a node.
    pub inside: u32,
    /// NPUs of a node from its first member to its last.
    pub(super) span: u32,
    /// Nodes.
    pub between: u32,
    /// Bandwidth of a member's links to others in the node, one way, GB/s; with rings, of all of
    /// those.
    pub link: f64,
    /// Bandwidth of a member's share of the network one way, GB/s.
    pub network: f64,
    /// The same where every member sends to every other.
    pub network_pairs: f64,
    /// Every two members of a node have a link of their own.
    pub mesh: bool,
    /// The rings of a node without switch.
    pub(super) rings: Option<Rings>,
    /// The dimensions of the network that the group lies along, from the nodes outwards.
    pub(super) tiers: Vec<Tier>,
}

/// A dimension of the network that a group lies along.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tier {
    /// The dimension.
    pub dim: u32,
    /// Positions of the group along it.
    pub size: u32,
    /// Bandwidth of a member along it one way, GB/s.
    pub bandwidth: f64,
    /// Latency of a message in excess of one along the nearest dimension of the network, us.
    pub extra: f64,
    /// Part of the bytes that rings and trees send between nodes which goes along this dimension.
    pub ring: f64,
    /// The same part of an all-to-all.
    pub pairs: f64,
}

impl Placement {
    /// The place of a group of this shape; `involved` says which dimensions take part.
    pub fn of(fabric: &Fabric, shape: &Shape, involved: impl Fn(u32) -> bool) -> Placement {
        let lines: Vec<Line> =
            lines(fabric, shape).into_iter().filter(|line| involved(line.dim)).collect();
        let node = node_dims(fabric) as u32;
        let sizes = |near: bool| lines.iter().filter(move |l| (l.dim < node) == near);
        let inside: u32 = sizes(true).map(|l| l.size).product();
        let span = 1 + sizes(true).map(|l| (l.size - 1) * l.stride).sum::<u32>();
        let between: u32 = sizes(false).map(|l| l.size).product();
        let tiers = tiers(fabric, sizes(false).filter(|l| l.size > 1), between);
        let network = rate(fabric, &tiers, |tier| tier.ring);
        let network_pairs = rate(fabric, &tiers, |tier| tier.pairs);
        let (link, mesh, rings) = in_node(fabric, inside, &lines, node);
        Placement { inside, span, between, link, network, network_pairs, mesh, rings, tiers }
    }

    /// Members.
    pub fn members(&self) -> u32 {
        self.inside * self.between
    }

    /// Additional time of a step of a ring between nodes over one to the nearest node, us: the mean
    /// of its steps.
    pub(super) fn step_extra(&self) -> f64 {
        self.tiers.iter().map(|tier| tier.ring * tier.extra).sum()
    }

    /// The same of a level of a tree.
    pub(super) fn level_extra(&self) -> f64 {
        let levels = |size: u32| f64::from(size.next_power_of_two().trailing_zeros());
        let sum: f64 = self.tiers.iter().map(|tier| levels(tier.size) * tier.extra).sum();
        if self.between > 1 { sum / levels(self.between) } else { 0.0 }
    }

    /// The same of a message to the farthest member.
    pub(super) fn farthest_extra(&self) -> f64 {
        self.tiers.iter().map(|tier| tier.extra).fold(0.0, f64::max)
    }
}

/// Bandwidth between nodes of a member of a group along `tiers`, GB/s, where `part` of its traffic
/// goes along each. In a tree of switches all traffic to farther members passes the nearer tiers.
/// The dimensions of a stack have ports of their own.
fn rate(fabric: &Fabric, tiers: &[Tier], part: impl Fn(&Tier) -> f64) -> f64 {
    if tiers.is_empty() {
        return nearest(fabric);
    }
    let passing = |tier: &Tier| match fabric {
        Fabric::Stacked(_) => part(tier),
        Fabric::Graph(_) => tiers.iter().filter(|t| t.dim >= tier.dim).map(&part).sum(),
    };
    tiers.iter().map(|tier| tier.bandwidth / passing(tier)).fold(f64::INFINITY, f64::min)
}

/// Innermost dimensions that are inside a node: the first of a stack, and a graph without
/// dimensions as a whole.
pub(super) fn node_dims(fabric: &Fabric) -> usize {
    match fabric {
        Fabric::Graph(graph) if !graph.dims.is_empty() => graph.machine().0,
        _ => 1,
    }
}

/// Bandwidth of a member in a node, GB/s, whether it is a mesh, and its rings.
fn in_node(fabric: &Fabric, inside: u32, lines: &[Line], node: u32) -> (f64, bool, Option<Rings>) {
    let others = f64::from(inside.saturating_sub(1));
    match fabric {
        Fabric::Stacked(dims) => {
            let mesh = dims[0].block.paths() == Paths::Direct;
            let links = if mesh { others } else { 1.0 };
            (dims[0].bandwidth.as_gb_per_s() * links, mesh, None)
        }
        Fabric::Graph(graph) => {
            let dim = graph.dims.first().filter(|_| node > 0);
            match dim.map(|dim| (dim.paths, dim.size)) {
                Some((Paths::Switched, _)) => {
                    (graph.machine_bandwidth().as_gb_per_s(), false, None)
                }
                Some((Paths::Direct, size)) => {
                    let all = graph.machine_bandwidth().as_gb_per_s();
                    (all * others / f64::from(size.max(2) - 1), true, None)
                }
                None if !graph.dims.is_empty() => (0.0, false, None),
                _ => {
                    let stride = lines.iter().find(|l| l.dim < node).map_or(1, |l| l.stride);
                    let members: Vec<u32> = (0..inside).map(|i| i * stride).collect();
                    let rings = rings::pack(graph, &members);
                    (rings.bandwidth, false, Some(rings))
                }
            }
        }
    }
}

/// Bandwidth of a member along a dimension, GB/s, and the latency of a message, us.
fn along(fabric: &Fabric, dim: usize) -> Option<(f64, f64)> {
    match fabric {
        Fabric::Stacked(dims) => {
            let dim = dims.get(dim)?;
            let latency = dim.latency * u64::from(dim.block.hops(dim.size, 0, 1));
            Some((dim.bandwidth.as_gb_per_s(), latency.as_us()))
        }
        Fabric::Graph(graph) => {
            let reach = graph.reach().get(dim)?;
            Some((reach.share.as_gb_per_s(), reach.latency.as_us()))
        }
    }
}

/// The first dimension of the network along which there are NPUs.
fn first_outside(fabric: &Fabric) -> Option<usize> {
    let sizes = fabric.sizes();
    let node = node_dims(fabric);
    (node..sizes.len()).find(|&dim| sizes[dim] > 1).or((node < sizes.len()).then_some(node))
}

/// Bandwidth of a member along the nearest dimension of the network, GB/s.
fn nearest(fabric: &Fabric) -> f64 {
    first_outside(fabric).and_then(|dim| along(fabric, dim)).map_or(0.0, |found| found.0)
}

/// Additional time of a message along `dim` over one along the nearest dimension of the network,
/// us.
pub(super) fn extra(fabric: &Fabric, dim: usize) -> f64 {
    let latency = |dim: usize| along(fabric, dim).map_or(0.0, |found| found.1);
    match first_outside(fabric) {
        Some(first) if dim > first => (latency(dim) - latency(first)).max(0.0),
        _ => 0.0,
    }
}

fn tiers<'a>(fabric: &Fabric, lines: impl Iterator<Item = &'a Line>, nodes: u32) -> Vec<Tier> {
    let (mut below, mut tiers, nodes) = (1.0, Vec::new(), f64::from(nodes));
    let lines: Vec<&Line> = lines.collect();
    for (at, &&Line { dim, size, .. }) in lines.iter().enumerate() {
        let positions = f64::from(size);
        let (bandwidth, _) = along(fabric, dim as usize).unwrap_or_default();
        // A ring through all nodes in their order leaves a block of `below` nodes once. The last
        // dimension has what is left, where the ring closes.
        let last = at + 1 == lines.len();
        let ring = if last { 1.0 / below } else { (1.0 - 1.0 / positions) / below };
        let to = match fabric {
            Fabric::Stacked(_) => 1.0 - 1.0 / positions,
            Fabric::Graph(_) => below * (positions - 1.0) / nodes,
        };
        let pairs = if lines.len() == 1 { 1.0 } else { to * nodes / (nodes - 1.0) };
        tiers.push(Tier { dim, size, bandwidth, extra: extra(fabric, dim as usize), ring, pairs });
        below *= positions;
    }
    tiers
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
