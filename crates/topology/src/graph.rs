//! Any network: an explicit list of one-way links, routed along the fewest links, then the least
//! latency.
//!
//! Ties go to the lowest next node, then the lowest link. NPUs and switches forward alike. The next
//! hops towards a destination are found by a breadth-first search from it, backwards, when it is
//! first asked for.

use crate::GraphFabric;
use crate::links::{Hop, Link, LinkError};
use std::collections::VecDeque;
use std::sync::OnceLock;

/// No link: the node itself, or no way.
const NONE: u32 = u32::MAX;

/// The links of an explicit graph.
#[derive(Clone, Debug)]
pub(crate) struct GraphLinks {
    npus: u32,
    nodes: u32,
    links: Vec<Link>,
    /// Links into node v: `into[into_start[v]..into_start[v + 1]]`.
    into_start: Vec<u32>,
    into: Vec<u32>,
    /// By destination: the link each node takes towards it.
    tables: Vec<OnceLock<Box<[u32]>>>,
}

impl GraphLinks {
    pub(crate) fn new(fabric: &GraphFabric) -> Result<GraphLinks, LinkError> {
        let nodes = u32::try_from(fabric.nodes.len()).map_err(|_| LinkError::TooLarge)?;
        if fabric.links.len() >= NONE as usize || fabric.npus > nodes {
            return Err(LinkError::TooLarge);
        }
        if let Some(link) =
            fabric.links.iter().position(|l| l.from >= nodes || l.to >= nodes || l.from == l.to)
        {
            return Err(LinkError::BadEnds { link });
        }
        let copy = |l: &crate::GraphLink| Link {
            from: l.from,
            to: l.to,
            bandwidth: l.bandwidth,
            latency: l.latency,
            dim: 0,
        };
        let links: Vec<Link> = fabric.links.iter().map(copy).collect();
        let (into_start, into) = by_end(&links, nodes);
        let tables = (0..fabric.npus).map(|_| OnceLock::new()).collect();
        let graph = GraphLinks { npus: fabric.npus, nodes, links, into_start, into, tables };
        graph.connected()?;
        Ok(graph)
    }

    /// Every NPU reaches every other: enough that all reach NPU 0 and NPU 0 reaches all.
    fn connected(&self) -> Result<(), LinkError> {
        if self.npus == 0 {
            return Ok(());
        }
        let towards = self.table(0);
        if let Some(from) = (1..self.npus).find(|&v| towards[v as usize] == NONE) {
            return Err(LinkError::Unreachable { from, to: 0 });
        }
        let mut reached = vec![false; self.nodes as usize];
        let mut queue = VecDeque::from([0]);
        let mut out = vec![Vec::new(); self.nodes as usize];
        self.links.iter().for_each(|l| out[l.from as usize].push(l.to));
        reached[0] = true;
        while let Some(node) = queue.pop_front() {
            for &to in &out[node as usize] {
                if !std::mem::replace(&mut reached[to as usize], true) {
                    queue.push_back(to);
                }
            }
        }
        match (1..self.npus).find(|&v| !reached[v as usize]) {
            Some(to) => Err(LinkError::Unreachable { from: 0, to }),
            None => Ok(()),
        }
    }

    pub(crate) fn npus(&self) -> u32 {
        self.npus
    }

    pub(crate) fn nodes(&self) -> u32 {
        self.nodes
    }

    pub(crate) fn len(&self) -> u32 {
        self.links.len() as u32
    }

    pub(crate) fn link(&self, link: u32) -> Link {
        self.links[link as usize].clone()
    }

    pub(crate) fn next(&self, node: u32, dst: u32) -> Option<Hop> {
        let link = self.table(dst)[node as usize];
        (link != NONE).then(|| Hop { link, to: self.links[link as usize].to, dim: 0 })
    }

    fn table(&self, dst: u32) -> &[u32] {
        self.tables[dst as usize].get_or_init(|| self.search(dst))
    }

    /// Breadth first from `dst`, backwards. A node is popped after every node nearer to `dst`, so
    /// its best link is final then.
    fn search(&self, dst: u32) -> Box<[u32]> {
        let n = self.nodes as usize;
        let mut table = vec![NONE; n].into_boxed_slice();
        let mut best = vec![(u32::MAX, u64::MAX, u32::MAX, NONE); n];
        best[dst as usize] = (0, 0, dst, NONE);
        let mut queue = VecDeque::from([dst]);
        while let Some(node) = queue.pop_front() {
            let (hops, latency, ..) = best[node as usize];
            for &id in &self.into[self.into_start[node as usize] as usize
                ..self.into_start[node as usize + 1] as usize]
            {
                let link = &self.links[id as usize];
                let from = link.from as usize;
                let offer = (hops + 1, latency.saturating_add(link.latency.0), node, id);
                if best[from].0 == u32::MAX {
                    queue.push_back(link.from);
                }
                if offer < best[from] {
                    best[from] = offer;
                    table[from] = id;
                }
            }
        }
        table
    }
}

fn by_end(links: &[Link], nodes: u32) -> (Vec<u32>, Vec<u32>) {
    let mut start = vec![0u32; nodes as usize + 1];
    links.iter().for_each(|l| start[l.to as usize + 1] += 1);
    (0..nodes as usize).for_each(|v| start[v + 1] += start[v]);
    let mut at = start.clone();
    let mut into = vec![0; links.len()];
    for (id, link) in links.iter().enumerate() {
        into[at[link.to as usize] as usize] = id as u32;
        at[link.to as usize] += 1;
    }
    (start, into)
}
