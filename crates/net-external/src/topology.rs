//! The links of a network, their costs, and the routes over them.

use network::LinkCost;
use topology::LinkGraph;
use units::{Bandwidth, Span};

/// The network that the simulator carries.
pub struct Topology {
    /// Links and routes.
    pub links: LinkGraph,
    /// Costs by dimension, or by link.
    pub costs: Vec<LinkCost>,
    /// Whether `costs` are by link.
    pub by_link: bool,
}

impl Topology {
    /// Bandwidth and latency of a link.
    pub(crate) fn cost(&self, link: u32, dim: u32) -> (Bandwidth, Span) {
        match self.costs[if self.by_link { link } else { dim } as usize] {
            LinkCost::Exact { bandwidth, latency } => (bandwidth, latency),
            // ASTRA-sim's profile runs on no backend with an order of events of its own.
            LinkCost::Nanoseconds { .. } => (Bandwidth(1), Span::ZERO),
        }
    }
}
