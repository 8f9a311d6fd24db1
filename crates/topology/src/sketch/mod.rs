//! A graph made small enough to draw: its nodes in *cells*, and the cables between cells.
//!
//! A small graph has one cell for each node. In a larger one, the middle of a long row of alike
//! things (the leaves of a pod, the coordinates of a torus) shares a cell for each tier. Every link
//! is part of one cable of the sketch, so nothing of the graph is lost, only gathered.

mod lattice;
mod rows;

use crate::GraphFabric;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use units::{Bandwidth, Span};

/// How the cells of a sketch lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// In tiers, the NPUs lowest. Places are paths in a tree of groups: a group is what hangs
    /// together below a tier.
    Tiers,
    /// On a grid of coordinates.
    Grid,
    /// In groups by the last coordinate, which are joined to each other.
    Groups,
    /// On a circle.
    Circle,
}

impl Layout {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Tiers => "tiers",
            Layout::Grid => "grid",
            Layout::Groups => "groups",
            Layout::Circle => "circle",
        }
    }
}

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
    /// Its place, as [`Layout`] says.
    pub at: Vec<u32>,
}

/// The links between two cells, or inside one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cable {
    /// The lower cell.
    pub a: u32,
    /// The higher cell, or the same.
    pub b: u32,
    /// One-way links.
    pub links: u32,
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

/// Where a node is drawn: tier, place, and number among the nodes of that tier and place.
type Spot = (u32, Vec<u32>, u32);

impl Sketch {
    /// The sketch of a graph, which depends on nothing but the graph.
    pub fn new(graph: &GraphFabric) -> Sketch {
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
            })
            .collect();
        for (node, &cell) in (0..).zip(&cell_of) {
            let cell = &mut cells[cell as usize];
            cell.first = cell.first.min(node);
            cell.last = cell.last.max(node);
            cell.count += 1;
        }
        let cables = cables(graph, &cell_of);
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

fn cables(graph: &GraphFabric, cell_of: &[u32]) -> Vec<Cable> {
    let mut found: BTreeMap<(u32, u32), Cable> = BTreeMap::new();
    for link in &graph.links {
        let (from, to) = (cell_of[link.from as usize], cell_of[link.to as usize]);
        let (a, b) = (from.min(to), from.max(to));
        let cable = match found.entry((a, b)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Cable {
                a,
                b,
                links: 0,
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

/// Where number `index` of `count` alike things is drawn when there is room for `room` (3 or more):
/// its place, and whether it shares that place with others. All but the last share the last place
/// but one when there are too many.
fn place(index: u32, count: u32, room: u32) -> (u32, bool) {
    if count <= room || index + 2 < room {
        return (index, false);
    }
    if index + 1 == count { (room - 1, false) } else { (room - 2, true) }
}
