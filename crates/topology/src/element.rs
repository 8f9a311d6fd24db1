//! Elements of fabrics, as data: dimensions, nodes, links, network cards, failures.

use crate::{Block, Paths, Symmetry};
use std::borrow::Cow;
use std::sync::OnceLock;
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
    /// Links side by side that a link consists of, at least 1: they have its bandwidth together.
    pub parallel: u32,
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
    /// Kind of link: a place in [`GraphFabric::kinds`](crate::GraphFabric::kinds).
    pub kind: u32,
}

/// A node of an explicit graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GraphNode {
    /// Name of the node.
    pub name: String,
    /// How far from the NPUs it stands: 0 for NPUs, from 1 for switches.
    pub tier: u32,
    /// Ports that it has; `None`: no limit.
    pub radix: Option<u32>,
}

impl GraphNode {
    /// An NPU.
    pub fn npu(name: String) -> GraphNode {
        GraphNode { name, tier: 0, radix: None }
    }

    /// A switch of a tier, from 1.
    pub fn switch(name: String, tier: u32) -> GraphNode {
        GraphNode { name, tier, radix: None }
    }
}

/// A dimension of an explicit graph: a coordinate of its NPUs that collectives run along.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GraphDim {
    /// Name of the dimension.
    pub name: Cow<'static, str>,
    /// NPUs along it.
    pub size: u32,
    /// Which places along it see the same paths.
    pub symmetry: Symmetry,
    /// By what messages pass along it.
    pub paths: Paths,
}

/// Failed elements of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Failed {
    /// Links, by the names of the nodes they join: `leaf0-spine3`.
    pub links: Vec<String>,
    /// Nodes by name.
    pub nodes: Vec<String>,
    /// The one-way links that are gone, with their places among all links.
    pub(crate) gone: Vec<(u32, GraphLink)>,
}

impl Failed {
    /// Failed elements that `links` and `nodes` name.
    pub fn named(links: Vec<String>, nodes: Vec<String>) -> Failed {
        Failed { links, nodes, gone: Vec::new() }
    }

    /// The one-way links that are gone.
    pub fn gone(&self) -> impl Iterator<Item = &GraphLink> {
        self.gone.iter().map(|(_, link)| link)
    }

    /// True where nothing has failed.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.nodes.is_empty()
    }
}

/// Reach of an NPU along one dimension of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Links to the next NPU along the dimension.
    pub hops: u32,
    /// Their latency together.
    pub latency: Span,
    /// The bandwidth of the first of them, which leaves the NPU.
    pub first: Bandwidth,
    /// The bandwidth of the slowest of them.
    pub stream: Bandwidth,
    /// An NPU's share of what the block of the dimensions below can send along this one: the
    /// maximum flow to the rest of the dimension, over the NPUs of the block.
    pub share: Bandwidth,
}

/// Something that follows from a graph and is computed when it is first asked for.
#[derive(Clone, Debug)]
pub struct Known<T>(pub(crate) OnceLock<T>);

impl<T> Default for Known<T> {
    fn default() -> Known<T> {
        Known(OnceLock::new())
    }
}

/// Results that follow from equal graphs are equal.
impl<T> PartialEq for Known<T> {
    fn eq(&self, _: &Known<T>) -> bool {
        true
    }
}

impl<T> Eq for Known<T> {}

impl<T> std::hash::Hash for Known<T> {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// A network card that every NPU has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nic {
    /// Name of the card.
    pub name: String,
    /// Bandwidth between an NPU and its card, one way.
    pub bandwidth: Bandwidth,
    /// Latency between them.
    pub latency: Span,
}

/// A stack whose dimensions share cards.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharedStack {
    /// The dimensions, innermost first.
    pub dims: Vec<Dim>,
    /// The cards.
    pub nics: Vec<Nic>,
    /// The card that the links of each dimension start at, a place in `nics`.
    pub of: Vec<Option<usize>>,
}

impl GraphDim {
    /// A dimension along which messages pass switches where all places look alike, else NPUs or
    /// routers in between.
    pub fn new(name: &'static str, size: u32, symmetry: Symmetry) -> GraphDim {
        let paths = match symmetry {
            Symmetry::Full => Paths::Switched,
            Symmetry::Rotation | Symmetry::None => Paths::Relayed,
        };
        GraphDim { name: name.into(), size, symmetry, paths }
    }
}
