//! Which links a flow uses, and how much of it goes over each.
//!
//! A flow goes over the route of its policy. With [`Routing::Spray`] it splits into equal parts
//! over the equally near next hops of every node on its way. Parts are counted in [`WHOLE`]ths and
//! rounded up, so that no link carries more than it can.

use topology::{Hop, LinkGraph, Routing};

/// Parts of a flow: divisible by the numbers up to 16, and by powers of two up to 2^16.
pub(crate) const WHOLE: u64 = (1 << 16) * 9 * 5 * 7 * 11 * 13;

/// A link of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its number in the topology, and its dimension.
    pub link: u32,
    pub dim: u32,
    /// Parts of the flow that go over it.
    pub parts: u64,
    /// The first of the links at this distance from the source, which are all equally long.
    pub leads: bool,
    /// It leaves an NPU.
    pub from_npu: bool,
}

impl Part {
    fn of(graph: &LinkGraph, from: u32, hop: Hop) -> Part {
        let from_npu = from < graph.npus();
        Part { link: hop.link, dim: hop.dim, parts: 0, leads: false, from_npu }
    }
}

/// Routes flows; buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct Router {
    /// The route that was found last.
    pub found: Vec<Part>,
    /// Nodes at one distance from the destination with the part of the flow that reaches them.
    here: Vec<(u32, u64)>,
    next: Vec<(u32, u64)>,
}

impl Router {
    /// Parts in a whole flow under the policy of `graph`.
    pub(crate) fn whole(graph: &LinkGraph) -> u64 {
        if graph.routing() == Routing::Spray { WHOLE } else { 1 }
    }

    /// Finds every link from `src` to `dst`, in the order of the way.
    pub(crate) fn find(&mut self, graph: &LinkGraph, (src, dst): (u32, u32)) {
        self.found.clear();
        if graph.routing() != Routing::Spray {
            let mut at = src;
            self.found.extend(graph.route(src, dst).map(|hop| {
                let from = std::mem::replace(&mut at, hop.to);
                Part { parts: 1, leads: true, ..Part::of(graph, from, hop) }
            }));
            return;
        }
        self.here.clear();
        self.here.push((src, WHOLE));
        while self.here.iter().any(|&(node, _)| node != dst) {
            let mut leads = true;
            for &(node, parts) in &self.here {
                let hops = graph.choices(node, dst);
                let parts = parts.div_ceil(hops.len().max(1) as u64);
                for hop in hops {
                    let leads = std::mem::replace(&mut leads, false);
                    self.found.push(Part { parts, leads, ..Part::of(graph, node, hop) });
                    self.next.push((hop.to, parts));
                }
            }
            self.here.clear();
            self.next.sort_unstable();
            for &(node, parts) in &self.next {
                match self.here.last_mut() {
                    Some((last, sum)) if *last == node => *sum += parts,
                    _ => self.here.push((node, parts)),
                }
            }
            self.next.clear();
        }
    }
}
