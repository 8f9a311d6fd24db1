//! A graph made small enough to draw: its nodes in *cells*, and the cables between cells.
//!
//! A small graph has one cell for each node. In a larger one, the middle of a long row of alike
//! things (the leaves of a pod, the coordinates of a torus) shares a cell for each tier. Every link
//! is part of one cable of the sketch, so nothing of the graph is lost, only gathered.

mod lattice;
mod position;
mod rows;

pub use position::Layout;

use crate::{GraphFabric, GraphLink};
use position::Spot;
use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use units::{Bandwidth, Span};

/// One or more nodes that are drawn as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The lowest node.
    pub first: u32,
    /// The highest node.
    pub last: u32,
    /// Number of nodes.
    pub count: u32,
    /// Row from the NPUs (0) outwards.
    pub tier: u32,
    /// Place of the cell, as [`Layout`] says.
    pub at: Vec<u32>,
    /// Nodes that have failed.
    pub failed: u32,
}

/// The links between two cells, or inside one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cable {
    /// The lower cell.
    pub a: u32,
    /// The higher cell, or the same.
    pub b: u32,
    /// One-way links, with those that have failed.
    pub links: u32,
    /// One-way links that have failed.
    pub failed: u32,
    /// Bandwidth of the slowest and of the fastest link.
    pub bandwidth: (Bandwidth, Bandwidth),
    /// Least and longest latency of a link.
    pub latency: (Span, Span),
    /// Kinds of its links: places in [`GraphFabric::kinds`], in order.
    pub kinds: Vec<u32>,
}

/// A graph made small enough to draw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    /// How the cells lie.
    pub layout: Layout,
    /// Cells, by tier and place.
    pub cells: Vec<Cell>,
    /// Cables, by cells.
    pub cables: Vec<Cable>,
    /// Cell of each node.
    cell_of: Vec<u32>,
}

impl Sketch {
    /// The sketch of a graph, which depends on nothing but the graph. What has failed is in its
    /// place.
    pub fn new(graph: &GraphFabric) -> Sketch {
        let dead: BTreeSet<&str> = graph.failed.nodes.iter().map(String::as_str).collect();
        let graph = &*whole(graph);
        let (layout, spots) = lattice::spots(graph).unwrap_or_else(|| rows::spots(graph));
        let mut number: BTreeMap<&Spot, u32> = spots.iter().map(|spot| (spot, 0)).collect();
        number.values_mut().zip(0..).for_each(|(cell, i)| *cell = i);
        let cell_of: Vec<u32> = spots.iter().map(|spot| number[spot]).collect();
        let mut cells: Vec<Cell> = number
            .keys()
            .map(|(tier, at, _)| Cell {
                first: u32::MAX,
                last: 0,
                count: 0,
                tier: *tier,
                at: at.clone(),
                failed: 0,
            })
            .collect();
        for (node, &cell) in (0..).zip(&cell_of) {
            let cell = &mut cells[cell as usize];
            cell.first = cell.first.min(node);
            cell.last = cell.last.max(node);
            cell.count += 1;
            cell.failed += u32::from(dead.contains(graph.nodes[node as usize].name.as_str()));
        }
        let mut cables = cables(graph, &cell_of);
        for link in graph.failed.gone() {
            let ends = cells_of(&cell_of, link);
            if let Ok(at) = cables.binary_search_by_key(&ends, |cable| (cable.a, cable.b)) {
                cables[at].failed += 1;
            }
        }
        Sketch { layout, cells, cables, cell_of }
    }

    /// The row of a node, from the NPUs (0) outwards.
    pub fn tier(&self, node: u32) -> u32 {
        self.cells[self.cell_of[node as usize] as usize].tier
    }

    /// The cable that a link from one node to another is part of.
    pub fn cable(&self, from: u32, to: u32) -> Option<usize> {
        let (from, to) = (self.cell_of.get(from as usize)?, self.cell_of.get(to as usize)?);
        let ends = (*from.min(to), *from.max(to));
        self.cables.binary_search_by_key(&ends, |cable| (cable.a, cable.b)).ok()
    }
}

/// The graph as it is when nothing has failed; what has failed is still named.
fn whole(graph: &GraphFabric) -> Cow<'_, GraphFabric> {
    if graph.failed.is_empty() {
        return Cow::Borrowed(graph);
    }
    Cow::Owned(GraphFabric { links: graph.all_links(), ..graph.clone() })
}

/// The cells at the ends of a link, the lower first.
fn cells_of(cell_of: &[u32], link: &GraphLink) -> (u32, u32) {
    let (from, to) = (cell_of[link.from as usize], cell_of[link.to as usize]);
    (from.min(to), from.max(to))
}

fn cables(graph: &GraphFabric, cell_of: &[u32]) -> Vec<Cable> {
    let mut found: BTreeMap<(u32, u32), Cable> = BTreeMap::new();
    for link in &graph.links {
        let (a, b) = cells_of(cell_of, link);
        let cable = match found.entry((a, b)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Cable {
                a,
                b,
                links: 0,
                failed: 0,
                bandwidth: (link.bandwidth, link.bandwidth),
                latency: (link.latency, link.latency),
                kinds: Vec::new(),
            }),
        };
        cable.links += 1;
        let Cable { bandwidth: (slow, fast), latency: (near, far), .. } = *cable;
        cable.bandwidth = (slow.min(link.bandwidth), fast.max(link.bandwidth));
        cable.latency = (near.min(link.latency), far.max(link.latency));
        if let Err(place) = cable.kinds.binary_search(&link.kind) {
            cable.kinds.insert(place, link.kind);
        }
    }
    found.into_values().collect()
}
