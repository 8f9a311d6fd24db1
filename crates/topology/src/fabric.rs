//! A shape together with bandwidth and latency.

use crate::recipe::Recipe;
use crate::{
    Dim, Failed, GraphDim, GraphLink, GraphNode, Known, Paths, Reach, Routing, SharedStack,
    Symmetry, Topology,
};

/// An explicit graph: nodes `0..npus` are NPUs, the rest pass messages on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct GraphFabric {
    /// Number of NPUs.
    pub npus: u32,
    /// Nodes, NPUs first.
    pub nodes: Vec<GraphNode>,
    /// One-way links; several between the same nodes are parallel.
    pub links: Vec<GraphLink>,
    /// Dimensions of the NPUs, innermost first; none: one of all NPUs.
    pub dims: Vec<GraphDim>,
    /// Names of the kinds of links; none: all are alike.
    pub kinds: Vec<String>,
    /// How it was made, if a generator made it.
    pub recipe: Option<Box<Recipe>>,
    /// The stack whose dimensions share network cards, if it was made of one.
    pub stack: Option<Box<SharedStack>>,
    /// Failed elements; `links` are without them.
    pub failed: Failed,
    /// Reach of an NPU along each dimension: [`GraphFabric::reach`].
    pub reach: Known<Vec<Reach>>,
}

/// A network: shape, bandwidth, latency.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fabric {
    /// Blocks stacked by dimension, innermost first.
    Stacked(Vec<Dim>),
    /// Anything else.
    Graph(GraphFabric),
}

impl Fabric {
    /// Number of NPUs.
    pub fn npus(&self) -> u32 {
        match self {
            Fabric::Stacked(dims) => dims.iter().map(|d| d.size).product(),
            Fabric::Graph(graph) => graph.npus,
        }
    }

    /// The name of a node: `npu3`, `switch1`, or its own in an explicit graph.
    pub fn node_name(&self, node: u32) -> String {
        match self {
            Fabric::Graph(graph) => {
                let known = graph.nodes.get(node as usize).map(|node| node.name.clone());
                known.unwrap_or_else(|| format!("node{node}"))
            }
            Fabric::Stacked(_) => match node.checked_sub(self.npus()) {
                Some(switch) => format!("switch{switch}"),
                None => format!("npu{node}"),
            },
        }
    }

    /// The dimensions, innermost first; none for an explicit graph.
    pub fn dims(&self) -> &[Dim] {
        match self {
            Fabric::Stacked(dims) => dims,
            Fabric::Graph(_) => &[],
        }
    }

    /// The sizes of the dimensions collectives run over, innermost first; an explicit graph without
    /// coordinates is one dimension.
    pub fn sizes(&self) -> Vec<u32> {
        match self {
            Fabric::Stacked(dims) => dims.iter().map(|d| d.size).collect(),
            Fabric::Graph(graph) if graph.dims.is_empty() => vec![graph.npus],
            Fabric::Graph(graph) => graph.dims.iter().map(|d| d.size).collect(),
        }
    }

    /// Kinds by which links may differ, innermost first: the dimensions of a stack, or the kinds of
    /// links of a graph. None where all links are equal, or where dimensions share cards.
    pub fn kinds_of_links(&self) -> Vec<String> {
        match self {
            Fabric::Stacked(dims) => {
                (1..=dims.len()).map(|dim| format!("dimension {dim}")).collect()
            }
            Fabric::Graph(graph) if graph.stack.is_some() => Vec::new(),
            Fabric::Graph(graph) => graph.kinds.clone(),
        }
    }

    /// Whether an NPU may have several equally near next hops: where it has not, all routing
    /// policies leave it by the same link.
    pub fn npus_choose(&self) -> bool {
        match self {
            Fabric::Stacked(dims) => {
                dims.iter().filter(|d| d.block.paths() == Paths::Relayed).any(|dim| {
                    (1..dim.size).any(|b| dim.block.ways(dim.size, 0, b) > 1)
                        || dim.block.symmetry() == Symmetry::None && dim.size > 2
                })
            }
            Fabric::Graph(graph) => {
                let mut out = vec![0u32; graph.nodes.len()];
                graph.links.iter().for_each(|link| out[link.from as usize] += 1);
                out[..graph.npus as usize].iter().any(|&links| links > 1)
            }
        }
    }

    /// Whether NPUs that look alike may leave by links that do not, by this policy: by destination,
    /// by hash or in turn where they choose. Opposite places of a ring look alike all the same.
    pub fn parts_npus(&self, routing: Routing) -> bool {
        match (routing, self) {
            (Routing::Lowest, _) | (Routing::Auto, Fabric::Stacked(_)) => false,
            _ => self.npus_choose(),
        }
    }

    /// Which places look alike along the dimension that holds the line of `size` ranks `stride`
    /// apart, and whether the line fills it; `None` where it crosses dimensions. No places look
    /// alike where something has failed.
    pub fn line(&self, stride: u32, size: u32) -> Option<(usize, Symmetry, bool)> {
        let symmetry = |dim: usize| match self {
            Fabric::Stacked(dims) => Some(dims[dim].block.symmetry()),
            Fabric::Graph(graph) if !graph.failed.is_empty() => Some(Symmetry::None),
            Fabric::Graph(graph) => graph.dims.get(dim).map(|d| d.symmetry),
        };
        let mut inner = 1;
        for (dim, of_dim) in self.sizes().into_iter().enumerate() {
            let outer = inner * of_dim;
            if stride >= inner
                && stride.is_multiple_of(inner)
                && stride * size <= outer
                && outer.is_multiple_of(stride * size)
            {
                return Some((dim, symmetry(dim)?, stride == inner && stride * size == outer));
            }
            inner = outer;
        }
        None
    }

    /// The shape alone; `None` for an explicit graph.
    pub fn topology(&self) -> Option<Topology> {
        match self {
            Fabric::Stacked(dims) => {
                Some(Topology { dims: dims.iter().map(|d| (d.block, d.size)).collect() })
            }
            Fabric::Graph(_) => None,
        }
    }
}
