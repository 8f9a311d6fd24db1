//! Backends made for a platform. A new backend is one function here and one arm in `run.rs`.

use crate::error::Error;
use graph::Problem;
use net_analytical::{Analytical, Crossing, LinkQueues, Ports};
use network::LinkCost;
use platform::Platform;
use topology::{Fabric, LinkGraph};

/// Which network backend to run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendKind {
    /// Latency, hops and bandwidth; no contention.
    #[default]
    Analytical,
    /// A queue on every link.
    Link,
}

/// Cost of one link of each dimension of a stack, or of each link of a graph.
fn costs(platform: &Platform) -> Vec<LinkCost> {
    match (&platform.astra_sim, &platform.fabric) {
        (Some(raw), _) => raw
            .bandwidth
            .iter()
            .zip(&raw.latency)
            .map(|(&b, &latency)| peer_cost(b, latency))
            .collect(),
        (None, Fabric::Stacked(dims)) => dims
            .iter()
            .map(|d| LinkCost::Exact { bandwidth: d.bandwidth, latency: d.latency })
            .collect(),
        (None, Fabric::Graph(graph)) => graph
            .links
            .iter()
            .map(|l| LinkCost::Exact { bandwidth: l.bandwidth, latency: l.latency })
            .collect(),
    }
}

/// The peer's GB is 2^30 bytes.
fn peer_cost(gb_per_s: f64, latency: f64) -> LinkCost {
    LinkCost::Nanoseconds { bandwidth: gb_per_s * f64::from(1u32 << 30) / 1e9, latency }
}

fn links(platform: &Platform) -> Result<LinkGraph, Error> {
    LinkGraph::new(&platform.fabric)
        .map_err(|e| Problem::new(&platform.name, "topology", e.to_string()).into())
}

/// Why a backend cannot take the platform's network. Explicit graphs were looked at when their file
/// was read.
pub fn refusal(platform: &Platform, kind: BackendKind) -> Option<Problem> {
    if kind == BackendKind::Analytical || matches!(platform.fabric, Fabric::Graph(_)) {
        return None;
    }
    let error = LinkGraph::new(&platform.fabric).err()?;
    Some(
        Problem::new(&platform.name, "topology", error.to_string())
            .help("a smaller network, or --backend analytical"),
    )
}

/// The analytical backend.
///
/// # Errors
/// An explicit graph with broken links.
pub fn analytical(platform: &Platform) -> Result<Analytical, Error> {
    let peer = platform.astra_sim.is_some();
    let (crossing, ports) = if peer {
        (Crossing::Innermost, Ports::Unlimited)
    } else {
        (Crossing::Every, Ports::OneAtATime)
    };
    match &platform.fabric {
        Fabric::Stacked(dims) => {
            let axes: Vec<_> =
                dims.iter().zip(costs(platform)).map(|(d, cost)| (d.block, d.size, cost)).collect();
            Ok(Analytical::stacked(&axes, crossing, ports))
        }
        Fabric::Graph(_) => Ok(Analytical::graph(links(platform)?, costs(platform))),
    }
}

/// The link-queue backend.
///
/// # Errors
/// An explicit graph with broken links, or more than 2^32 links.
pub fn link(platform: &Platform) -> Result<LinkQueues, Error> {
    Ok(LinkQueues::new(
        links(platform)?,
        costs(platform),
        matches!(platform.fabric, Fabric::Graph(_)),
    ))
}
