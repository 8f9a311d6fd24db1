//! Places by coordinates: NPUs that are joined to each other, and routers with NPUs at them.

use super::position::{Layout, Spot, place};
use crate::{GraphFabric, coordinates};

/// Most places of a lattice of NPUs, and of one of routers, that are drawn.
const MOST: (u64, u64) = (256, 100);
/// Most places along a coordinate, and on a circle.
const LONGEST: u32 = 32;

/// The layout, and the spot of each node; nothing for a graph with tiers.
pub(super) fn spots(graph: &GraphFabric) -> Option<(Layout, Vec<Spot>)> {
    let npus = graph.npus as usize;
    let lattice = if graph.nodes.len() == npus { of_npus(graph) } else { of_routers(graph)? };
    let sizes: Vec<u32> = (0..lattice.dims)
        .map(|dim| 1 + lattice.at.iter().map(|at| at[dim]).max().unwrap_or(0))
        .collect();
    let most = if graph.nodes.len() == npus { MOST.0 } else { MOST.1 };
    let room = room(&sizes, most);
    let spot = |(node, at): (usize, &Vec<u32>)| -> Spot {
        let drawn = at.iter().zip(&sizes).map(|(&index, &size)| place(index, size, room).0);
        (u32::from(node >= npus), drawn.collect(), 0)
    };
    let spots = lattice.at.iter().enumerate().map(spot).collect();
    Some((layout(graph, &lattice), spots))
}

/// Coordinates of all nodes; an NPU has those of its router.
struct Lattice {
    at: Vec<Vec<u32>>,
    dims: usize,
}

/// NPUs by their own coordinates; without any, one after the other.
fn of_npus(graph: &GraphFabric) -> Lattice {
    let sizes: Vec<u32> = graph.dims.iter().map(|dim| dim.size).collect();
    let all: u64 = sizes.iter().map(|&size| u64::from(size)).product();
    let sizes = if all == u64::from(graph.npus) { sizes } else { vec![graph.npus] };
    let at = (0..graph.npus).map(|npu| coordinates(npu, &sizes)).collect();
    Lattice { at, dims: sizes.len() }
}

/// Routers by the coordinates of their NPUs, without the first coordinate: where every NPU has one
/// router, routers are joined to each other, and each has coordinates of its own.
fn of_routers(graph: &GraphFabric) -> Option<Lattice> {
    let sizes: Vec<u32> = graph.dims.iter().map(|dim| dim.size).collect();
    if sizes.len() < 2 {
        return None;
    }
    let mut at: Vec<Option<Vec<u32>>> = vec![None; graph.nodes.len()];
    let mut joined = false;
    for link in &graph.links {
        match (link.from < graph.npus, link.to < graph.npus) {
            (true, true) => return None,
            (false, false) => joined = true,
            (true, false) => {
                let outer = Some(coordinates(link.from, &sizes).split_off(1));
                for node in [link.from, link.to] {
                    let known = &mut at[node as usize];
                    if known.is_some() && *known != outer {
                        return None;
                    }
                    known.clone_from(&outer);
                }
            }
            (false, true) => {}
        }
    }
    let at: Vec<Vec<u32>> = at.into_iter().collect::<Option<_>>()?;
    let mut routers: Vec<&Vec<u32>> = at[graph.npus as usize..].iter().collect();
    routers.sort_unstable();
    let alone = routers.windows(2).all(|two| two[0] != two[1]);
    (joined && alone).then_some(Lattice { at, dims: sizes.len() - 1 })
}

/// NPUs stand on a grid, and routers where every link changes one coordinate; with one coordinate
/// all stand on a circle.
fn layout(graph: &GraphFabric, lattice: &Lattice) -> Layout {
    if lattice.dims < 2 {
        return Layout::Circle;
    }
    let changed = |a: u32, b: u32| {
        let (a, b) = (&lattice.at[a as usize], &lattice.at[b as usize]);
        a.iter().zip(b).filter(|(a, b)| a != b).count()
    };
    let npus = graph.nodes.len() == graph.npus as usize;
    let straight = npus || graph.links.iter().all(|link| changed(link.from, link.to) <= 1);
    if straight { Layout::Grid } else { Layout::Groups }
}

/// The most places along each coordinate with which all can be drawn.
fn room(sizes: &[u32], most: u64) -> u32 {
    let drawn = |room: u32| sizes.iter().map(|&size| u64::from(size.min(room))).product::<u64>();
    (3..=LONGEST).rev().find(|&room| drawn(room) <= most).unwrap_or(3)
}
