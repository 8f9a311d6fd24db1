//! The one-way links of a fabric and the routes over them: what a backend with queues on links
//! needs.
//!
//! Link ids are dense, `0..len()`. Nodes `0..npus()` are the NPUs, the rest are switches. Routing
//! is by destination only: from wherever a message is, [`LinkGraph::next`] names its next link, so
//! nothing has to be stored with a message.

use crate::graph::GraphLinks;
use crate::stack::StackLinks;
use crate::{Fabric, GraphFabric};
use units::{Bandwidth, Span};

/// A one-way link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// Node it leaves.
    pub from: u32,
    /// Node it enters.
    pub to: u32,
    /// Bandwidth.
    pub bandwidth: Bandwidth,
    /// Latency.
    pub latency: Span,
    /// Dimension it belongs to; 0 in an explicit graph.
    pub dim: u32,
}

/// One link of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// Link id.
    pub link: u32,
    /// Node at its end.
    pub to: u32,
    /// Dimension it belongs to; 0 in an explicit graph.
    pub dim: u32,
}

/// Why a fabric has no links.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Ids no longer fit 32 bits.
    #[error("the network has more than 4,294,967,295 nodes or links")]
    TooLarge,
    /// A link of an explicit graph whose ends are equal or not there.
    #[error("link {link} starts or ends at a node that does not exist, or at the same node")]
    BadEnds {
        /// Index of the link.
        link: usize,
    },
    /// An NPU that another cannot reach.
    #[error("no route from NPU {from} to NPU {to}")]
    Unreachable {
        /// Source.
        from: u32,
        /// Destination.
        to: u32,
    },
}

/// All links of a fabric, with routing.
#[derive(Clone, Debug)]
pub struct LinkGraph(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Stack(StackLinks),
    Graph(GraphLinks),
}

impl LinkGraph {
    /// The links of `fabric`. A stack costs a few words whatever its size; a graph costs its links.
    ///
    /// # Errors
    /// Every [`LinkError`].
    pub fn new(fabric: &Fabric) -> Result<LinkGraph, LinkError> {
        match fabric {
            Fabric::Stacked(dims) => Ok(LinkGraph(Kind::Stack(StackLinks::new(dims)?))),
            Fabric::Graph(graph) => Ok(LinkGraph(Kind::Graph(GraphLinks::new(graph)?))),
        }
    }

    /// Number of NPUs: nodes `0..npus()`.
    pub fn npus(&self) -> u32 {
        match &self.0 {
            Kind::Stack(stack) => stack.npus(),
            Kind::Graph(graph) => graph.npus(),
        }
    }

    /// Number of NPUs and switches.
    pub fn nodes(&self) -> u32 {
        match &self.0 {
            Kind::Stack(stack) => stack.nodes(),
            Kind::Graph(graph) => graph.nodes(),
        }
    }

    /// Number of one-way links; ids are `0..len()`.
    pub fn len(&self) -> u32 {
        match &self.0 {
            Kind::Stack(stack) => stack.len(),
            Kind::Graph(graph) => graph.len(),
        }
    }

    /// True for a machine of one NPU.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Dimension of a link; 0 in an explicit graph.
    #[inline]
    pub fn dim(&self, link: u32) -> u32 {
        match &self.0 {
            Kind::Stack(stack) => stack.dim(link),
            Kind::Graph(_) => 0,
        }
    }

    /// The link with this id, which must be below `len()`.
    pub fn link(&self, link: u32) -> Link {
        match &self.0 {
            Kind::Stack(stack) => stack.link(link),
            Kind::Graph(graph) => graph.link(link),
        }
    }

    /// The next link from `node` (NPU or switch) towards NPU `dst`; `None` when `node` is `dst`.
    #[inline]
    pub fn next(&self, node: u32, dst: u32) -> Option<Hop> {
        match &self.0 {
            Kind::Stack(stack) => stack.next(node, dst),
            Kind::Graph(graph) => graph.next(node, dst),
        }
    }

    /// The route from NPU `src` to NPU `dst`, link by link; empty when they are the same.
    pub fn route(&self, src: u32, dst: u32) -> impl Iterator<Item = Hop> + '_ {
        let mut at = src;
        std::iter::from_fn(move || {
            let hop = self.next(at, dst)?;
            at = hop.to;
            Some(hop)
        })
    }

    /// The first link from NPU `src` to NPU `dst` among those of `src`: on a stack NPUs number a
    /// link alike that leads the same way, on a graph it is the link's own number. `u32::MAX` when
    /// they are the same.
    pub fn departure(&self, src: u32, dst: u32) -> u32 {
        match &self.0 {
            Kind::Stack(stack) => stack.departure(src, dst),
            Kind::Graph(graph) => graph.next(src, dst).map_or(u32::MAX, |hop| hop.link),
        }
    }

    /// Number of links from NPU `src` to NPU `dst`.
    pub fn hops(&self, src: u32, dst: u32) -> u32 {
        match &self.0 {
            Kind::Stack(stack) => stack.hops(src, dst),
            Kind::Graph(_) => self.route(src, dst).count() as u32,
        }
    }
}

impl GraphFabric {
    /// Checks that every link joins two different nodes and that every NPU reaches every other.
    ///
    /// # Errors
    /// Every [`LinkError`].
    pub fn check(&self) -> Result<(), LinkError> {
        GraphLinks::new(self).map(|_| ())
    }
}
