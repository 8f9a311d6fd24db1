//! Lower bounds of a transfer, whatever routes the simulator chooses: the latencies of the least
//! route, and its bytes over all links out of the source or into the destination together.

use crate::topology::Topology;
use std::sync::OnceLock;
use units::{Bandwidth, Bytes, Span};

/// Rates out of NPUs and into them, found when they are first asked for.
#[derive(Default)]
pub(crate) struct Bounds(OnceLock<Vec<[u64; 2]>>);

impl Bounds {
    /// The least time of `bytes` from `src` to `dst`.
    pub fn least(&self, topology: &Topology, src: u32, dst: u32, bytes: u64) -> Span {
        let rates = self.0.get_or_init(|| rates(topology));
        let rate = rates[src as usize][0].min(rates[dst as usize][1]);
        let latency = topology.links.least(src, dst, |hop| topology.cost(hop.link, hop.dim).1);
        latency + Bandwidth(rate.max(1)).span(Bytes(bytes))
    }
}

fn rates(topology: &Topology) -> Vec<[u64; 2]> {
    let mut rates = vec![[0u64; 2]; topology.links.npus() as usize];
    for id in 0..topology.links.len() {
        let link = topology.links.link(id);
        let rate = topology.cost(id, link.dim).0.0;
        for (node, way) in [(link.from, 0), (link.to, 1)] {
            if let Some(rates) = rates.get_mut(node as usize) {
                rates[way] = rates[way].saturating_add(rate);
            }
        }
    }
    rates
}
