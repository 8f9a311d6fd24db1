//! Parts and capacity of a fabric: switches, links, diameter, bisection bandwidth.
//!
//! The bisection is that between the lower and the upper half of the ranks: the most that the first
//! can send to the second over any routes, found as a maximum flow (Dinic, Soviet Math. Doklady 11,
//! 1970). No routing carries more.

use crate::generate::generator;
use crate::{Fabric, LinkError, LinkGraph};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use units::Bandwidth;

/// Parts and capacity of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// NPUs.
    pub npus: u32,
    /// Switches by tier, from the NPUs outwards; of a stack by dimension.
    pub switches: Vec<u32>,
    /// One-way links.
    pub links: u32,
    /// Links between the two NPUs that are farthest apart; `None` for large explicit graphs.
    pub diameter: Option<u32>,
    /// Bandwidth from the lower half of the ranks to the upper half; `None` for more than a million
    /// links.
    pub bisection: Option<Bandwidth>,
}

/// Most pairs of NPUs of an explicit graph for which the diameter is searched.
const PAIRS: u64 = 1 << 22;

/// Most links over which the maximum flow is sought.
const LINKS: u32 = 1 << 20;

impl Fabric {
    /// Parts and capacity of the fabric.
    ///
    /// # Errors
    /// Every [`LinkError`].
    pub fn facts(&self) -> Result<Facts, LinkError> {
        let links = LinkGraph::new(self)?;
        Ok(Facts {
            npus: links.npus(),
            switches: self.switches(),
            links: links.len(),
            diameter: self.diameter(&links),
            bisection: (links.len() <= LINKS).then(|| Bandwidth(bisection(&links))),
        })
    }

    fn switches(&self) -> Vec<u32> {
        match self {
            Fabric::Stacked(dims) => {
                let npus = self.npus();
                let has = |dim: &crate::Dim| dim.block.paths() == crate::Paths::Switched;
                let count = |dim| if has(dim) && dim.size > 1 { npus / dim.size } else { 0 };
                dims.iter().map(count).collect()
            }
            Fabric::Graph(graph) => {
                let mut count =
                    vec![0; graph.nodes.iter().map(|n| n.tier).max().unwrap_or(0) as usize];
                for node in graph.nodes.iter().filter(|node| node.tier > 0) {
                    count[node.tier as usize - 1] += 1;
                }
                count
            }
        }
    }

    fn diameter(&self, links: &LinkGraph) -> Option<u32> {
        match self {
            Fabric::Stacked(dims) => Some(dims.iter().map(|d| d.block.diameter(d.size)).sum()),
            Fabric::Graph(graph) => match &graph.recipe {
                Some(recipe) if graph.failed.is_empty() => generator(recipe.generator)
                    .and_then(|g| g.diameter(&recipe.values))
                    .or_else(|| farthest(links)),
                _ => farthest(links),
            },
        }
    }
}

/// Links between the two NPUs that are farthest apart, by a search; `None` for too many pairs.
fn farthest(links: &LinkGraph) -> Option<u32> {
    let npus = links.npus();
    if u64::from(npus) * u64::from(npus) > PAIRS {
        return None;
    }
    (0..npus).map(|npu| links.farthest(npu)).max()
}

/// The maximum flow from the lower half of the ranks to the upper half, bytes per second.
fn bisection(links: &LinkGraph) -> u64 {
    flow(links, 0..links.npus() / 2, links.npus() / 2..links.npus())
}

/// The maximum flow from some NPUs to others, bytes per second.
pub(crate) fn flow(links: &LinkGraph, from: Range<u32>, to: Range<u32>) -> u64 {
    let nodes = links.nodes() as usize;
    let mut between: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for link in (0..links.len()).map(|id| links.link(id)) {
        let sum = between.entry((link.from, link.to)).or_default();
        *sum = sum.saturating_add(link.bandwidth.0);
    }
    let mut flow = Flow { edges: Vec::new(), of: vec![Vec::new(); nodes + 2] };
    between.into_iter().for_each(|((a, b), room)| flow.add(a as usize, b as usize, room));
    from.for_each(|npu| flow.add(nodes, npu as usize, u64::MAX));
    to.for_each(|npu| flow.add(npu as usize, nodes + 1, u64::MAX));
    flow.most(nodes, nodes + 1)
}

/// A network of edges with room; edge `e ^ 1` is the way back of edge `e`.
struct Flow {
    /// Where each leads, and the room it has left.
    edges: Vec<(usize, u64)>,
    /// Edges of each node.
    of: Vec<Vec<usize>>,
}

impl Flow {
    fn add(&mut self, from: usize, to: usize, room: u64) {
        self.of[from].push(self.edges.len());
        self.of[to].push(self.edges.len() + 1);
        self.edges.extend([(to, room), (from, 0)]);
    }

    /// The maximum flow: as long as there is a way, fills all shortest ways.
    fn most(&mut self, source: usize, sink: usize) -> u64 {
        let mut total: u64 = 0;
        loop {
            let level = self.levels(source);
            if level[sink] == usize::MAX {
                return total;
            }
            let mut tried = vec![0; self.of.len()];
            while let Some(path) = self.path(source, sink, &level, &mut tried) {
                let least = path.iter().map(|&e| self.edges[e].1).min().unwrap_or(0);
                for e in path {
                    self.edges[e].1 -= least;
                    self.edges[e ^ 1].1 = self.edges[e ^ 1].1.saturating_add(least);
                }
                total = total.saturating_add(least);
            }
        }
    }

    fn levels(&self, source: usize) -> Vec<usize> {
        let mut level = vec![usize::MAX; self.of.len()];
        level[source] = 0;
        let mut queue = VecDeque::from([source]);
        while let Some(node) = queue.pop_front() {
            for &(to, room) in self.of[node].iter().map(|&e| &self.edges[e]) {
                if room > 0 && level[to] == usize::MAX {
                    level[to] = level[node] + 1;
                    queue.push_back(to);
                }
            }
        }
        level
    }

    /// Edges of a way from level to level; `tried` edges of each node lead nowhere.
    fn path(
        &self,
        source: usize,
        sink: usize,
        level: &[usize],
        tried: &mut [usize],
    ) -> Option<Vec<usize>> {
        let (mut path, mut at) = (Vec::new(), source);
        while at != sink {
            let Some(&edge) = self.of[at].get(tried[at]) else {
                let back: usize = path.pop()?;
                at = self.edges[back ^ 1].0;
                tried[at] += 1;
                continue;
            };
            let (to, room) = self.edges[edge];
            if room > 0 && level[to] == level[at] + 1 {
                path.push(edge);
                at = to;
            } else {
                tried[at] += 1;
            }
        }
        Some(path)
    }
}
