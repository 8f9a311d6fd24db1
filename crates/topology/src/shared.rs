//! Dimensions of a stack that share network cards.
//!
//! A card is a node of the graph between an NPU and its links: one link each way joins it to the
//! NPU, and the links of all dimensions that name the card start and end at it. So what an NPU sends
//! along these dimensions together passes one link, on every backend. Messages that an NPU passes on
//! go from card to card.

use crate::{
    Dim, Fabric, GraphDim, GraphFabric, GraphLink, GraphNode, LinkError, LinkGraph, SharedStack,
};

impl SharedStack {
    /// The stack as a graph, with the dimensions as coordinates.
    ///
    /// # Errors
    /// Every [`LinkError`] of the stack.
    pub fn graph(self) -> Result<GraphFabric, LinkError> {
        let links = LinkGraph::new(&Fabric::Stacked(self.dims.clone()))?;
        let (npus, nodes) = (links.npus(), links.nodes());
        let cards = npus.checked_mul(self.nics.len() as u32).ok_or(LinkError::TooLarge)?;
        nodes.checked_add(cards).ok_or(LinkError::TooLarge)?;
        let card = |nic: usize, npu: u32| nodes + nic as u32 * npus + npu;
        let switch = |i| GraphNode::switch(format!("switch{i}"), 2);
        let mut fabric = GraphFabric { npus, ..GraphFabric::default() };
        fabric.nodes.extend((0..npus).map(|i| GraphNode::npu(format!("npu{i}"))));
        fabric.nodes.extend((0..nodes - npus).map(switch));
        for nic in &self.nics {
            let name = |i| GraphNode::switch(format!("npu{i}.{}", nic.name), 1);
            fabric.nodes.extend((0..npus).map(name));
        }
        let end = |node: u32, dim: u32| match self.of[dim as usize] {
            Some(nic) if node < npus => card(nic, node),
            _ => node,
        };
        fabric.links.extend((0..links.len()).map(|id| {
            let link = links.link(id);
            let (from, to) = (end(link.from, link.dim), end(link.to, link.dim));
            let (bandwidth, latency) = (link.bandwidth, link.latency);
            GraphLink { from, to, bandwidth, latency, kind: link.dim }
        }));
        for (at, nic) in self.nics.iter().enumerate() {
            let kind = (self.dims.len() + at) as u32;
            let (bandwidth, latency) = (nic.bandwidth, nic.latency);
            for (a, b) in (0..npus).map(|npu| (npu, card(at, npu))) {
                let link = |from, to| GraphLink { from, to, bandwidth, latency, kind };
                fabric.links.extend([link(a, b), link(b, a)]);
            }
        }
        let dim = |dim: &Dim| GraphDim {
            paths: dim.block.paths(),
            ..GraphDim::new(dim.block.name(), dim.size, dim.block.symmetry())
        };
        fabric.dims = self.dims.iter().map(dim).collect();
        let of_dim = (1..=self.dims.len()).map(|number| format!("dimension {number}"));
        fabric.kinds = of_dim.chain(self.nics.iter().map(|nic| nic.name.clone())).collect();
        fabric.stack = Some(Box::new(self));
        Ok(fabric)
    }
}
