//! The shape of the network: building blocks stacked by dimension, or a graph, explicit or
//! generated; links, hops and routes.
//!
//! Here: [`Block`], [`Topology`] (shape only), [`Fabric`] (shape with bandwidth and latency),
//! notation, links, routes with a policy among equal ones, generators of graphs. Not here: what
//! happens on a link in time (`net-*`), and which algorithm runs on it (`collective`). Rank r sits
//! at coordinates (a0, a1, ...) with r = a0 + n0*(a1 + n1*(a2 + ...)): dimension 1 of the notation
//! is fastest.

mod block;
mod cards;
mod divide;
mod element;
mod fabric;
mod facts;
mod failed;
pub mod generate;
mod graph;
mod lane;
mod link;
mod links;
mod minimal;
mod notation;
mod reach;
mod recipe;
mod routing;
mod routing_key;
mod shared;
mod sketch;
mod split;
mod stack;

pub use block::{Block, NOTATION, Paths, Symmetry};
pub use cards::Lanes;
pub use element::{Dim, Failed, GraphDim, GraphLink, GraphNode, Known, Nic, Reach, SharedStack};
pub use fabric::{Fabric, GraphFabric};
pub use facts::Facts;
pub use failed::{FailedEntry, WrongFailure};
pub use generate::Rotation;
pub use lane::Lane;
pub use link::{Hop, LaneId, Link, LinkError};
pub use links::LinkGraph;
pub use notation::{NotationError, Topology};
pub use routing::{Routing, SprayTurns};
pub use sketch::{Cable, Cell, Layout, Sketch};
pub use split::{Part, Splitter};
pub use stack::{coordinates, outermost, rank};
