//! A shape together with bandwidth and latency.

use crate::{Block, Topology};
use units::{Bandwidth, Span};

/// One dimension of a stacked fabric.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dim {
    /// Building block.
    pub block: Block,
    /// NPUs along the dimension, at least 1.
    pub size: u32,
    /// Bandwidth of one link in one direction.
    pub bandwidth: Bandwidth,
    /// Latency of one link (a switch is crossed by two).
    pub latency: Span,
}

impl Dim {
    /// Links that leave an NPU along the dimension, for the NPU that has most.
    pub fn leaving(&self) -> u32 {
        self.block.leaving(self.size)
    }

    /// Links that leave an NPU along the dimension, on average.
    pub fn mean_leaving(&self) -> f64 {
        self.block.links_out(self.size) as f64 / f64::from(self.size)
    }
}

/// A one-way link of an explicit graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GraphLink {
    /// Node it leaves.
    pub from: u32,
    /// Node it enters.
    pub to: u32,
    /// Bandwidth.
    pub bandwidth: Bandwidth,
    /// Latency.
    pub latency: Span,
}

/// An explicit graph: nodes `0..npus` are NPUs, the rest are switches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct GraphFabric {
    /// Number of NPUs.
    pub npus: u32,
    /// Node names, NPUs first.
    pub nodes: Vec<String>,
    /// One-way links.
    pub links: Vec<GraphLink>,
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

    /// The dimensions, innermost first; none for an explicit graph.
    pub fn dims(&self) -> &[Dim] {
        match self {
            Fabric::Stacked(dims) => dims,
            Fabric::Graph(_) => &[],
        }
    }

    /// The sizes of the dimensions collectives run over, innermost first; an explicit graph is one
    /// dimension.
    pub fn sizes(&self) -> Vec<u32> {
        match self {
            Fabric::Stacked(dims) => dims.iter().map(|d| d.size).collect(),
            Fabric::Graph(graph) => vec![graph.npus],
        }
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
