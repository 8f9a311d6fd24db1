//! The shape of the network: building blocks stacked by dimension, or an explicit graph; links,
//! hops and routes.
//!
//! Here: [`Topology`] (shape only), [`Fabric`] (shape with bandwidth and latency), notation, links
//! and routes. Not here: what happens on a link in time (`net-*`), and which algorithm runs on it
//! (`collective`). Rank r sits at coordinates (a0, a1, ...) with r = a0 + n0*(a1 + n1*(a2 + ...)):
//! dimension 1 of the notation is fastest.

mod block;
mod divide;
mod fabric;
mod graph;
mod links;
mod notation;
mod stack;

pub use block::{Block, NOTATION, Paths, Symmetry};
pub use fabric::{Dim, Fabric, GraphFabric, GraphLink};
pub use links::{Hop, Link, LinkError, LinkGraph};
pub use notation::{NotationError, Topology};
pub use stack::{coordinates, rank};
