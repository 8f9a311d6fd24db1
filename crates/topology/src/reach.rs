//! Reach of an NPU along each dimension of a generated fabric: the way to its neighbour, and its
//! share of the bandwidth that leaves the block below.

use crate::generate::generator;
use crate::{Fabric, GraphFabric, LinkGraph, Paths, Reach};
use units::Bandwidth;

impl GraphFabric {
    /// How many of the innermost dimensions and kinds of links are inside a machine.
    pub fn machine(&self) -> (usize, usize) {
        if let Some(stack) = &self.stack {
            let inside = usize::from(stack.of.first() == Some(&None));
            return (inside, inside);
        }
        let recipe = self.recipe.as_ref();
        let of = |r: &crate::generate::Recipe| Some(generator(r.generator)?.machine(&r.values));
        recipe.and_then(|recipe| of(recipe)).unwrap_or_default()
    }

    /// Bandwidth of an NPU's links of the machine one way together.
    pub fn machine_bandwidth(&self) -> Bandwidth {
        let kinds = self.machine().1;
        let inside = |l: &&crate::GraphLink| l.from == 0 && (l.kind as usize) < kinds;
        Bandwidth(self.links.iter().filter(inside).map(|l| l.bandwidth.0).sum())
    }

    /// Whether NPUs are joined to each other outside of machines, and so pass messages on.
    pub fn relays_outside(&self) -> bool {
        let kinds = self.machine().1;
        self.links
            .iter()
            .any(|l| l.from < self.npus && l.to < self.npus && l.kind as usize >= kinds)
    }

    /// Reach of an NPU along each dimension; empty without dimensions.
    pub fn reach(&self) -> &[Reach] {
        self.reach.0.get_or_init(|| self.find_reach().unwrap_or_default())
    }

    /// NPUs that differ in the dimensions below `dim` only, and what they can send to all others
    /// together, where all such blocks are alike. `None` where they are not, or where something has
    /// failed, or for more than 65,536 links.
    pub fn leaving(&self, dim: usize) -> Option<(u32, Bandwidth)> {
        const MOST: usize = 1 << 16;
        let alike = self.dims[dim..].iter().all(|dim| dim.paths == Paths::Switched);
        if !alike || !self.failed.is_empty() || self.links.len() > MOST {
            return None;
        }
        let links = LinkGraph::new(&Fabric::Graph(self.clone())).ok()?;
        let block: u32 = self.dims[..dim].iter().map(|dim| dim.size).product();
        Some((block, Bandwidth(crate::facts::flow(&links, 0..block, block..self.npus))))
    }

    fn find_reach(&self) -> Option<Vec<Reach>> {
        // Routes and flows see the graph as it is, without what was computed of it.
        let links = LinkGraph::new(&Fabric::Graph(self.clone())).ok()?;
        let mut block = 1;
        let along = |dim: &crate::GraphDim| {
            let (inner, outer) = (block, block * dim.size);
            block = outer;
            let next = if dim.size > 1 { inner } else { 0 };
            let route = || links.route(0, next).map(|hop| links.link(hop.link));
            let flow = crate::facts::flow(&links, 0..inner, inner..outer);
            Reach {
                hops: route().count() as u32,
                latency: route().map(|link| link.latency).sum(),
                first: route().next().map_or(Bandwidth(1), |link| link.bandwidth),
                stream: route().map(|link| link.bandwidth).min().unwrap_or(Bandwidth(1)),
                share: Bandwidth((flow / u64::from(inner)).max(1)),
            }
        };
        Some(self.dims.iter().map(along).collect())
    }
}
