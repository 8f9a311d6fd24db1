//! The links of a pool, and the loads on them while some of the NPUs access it.
//!
//! NPUs are dealt in order to *places*: nodes of a tree of switches (`tree.rs`), stations of a ring
//! or mesh. On a ring and a mesh the busiest link sets the pace of all accesses. Loads and stores
//! go over the same links in opposite directions, so they do not meet. Not here: which accesses are
//! under way (`executor`).

use super::stations::holder;
use super::tree::{Crowd, Rates, Tree};
use super::{Load, Mesh, Ring};

/// A pool whose links accesses share, with its NPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Behind levels of switches.
    Tree(Tree),
    /// On a ring.
    Ring(Ring, u32),
    /// On a mesh.
    Mesh(Mesh, u32),
}

/// The loads on the links on the way of each access of a crowd.
#[derive(Clone, Debug)]
pub enum Loads {
    /// They depend on the place.
    Tree(Rates),
    /// The same ones for everybody.
    Same([Load; 3]),
}

impl Pool {
    /// Places of NPUs.
    pub fn places(&self) -> u32 {
        match self {
            Pool::Tree(tree) => tree.nodes,
            Pool::Ring(ring, _) => ring.stations,
            Pool::Mesh(mesh, _) => mesh.stations[0] * mesh.stations[1],
        }
    }

    /// The place of an NPU.
    pub fn place(&self, npu: u32) -> u32 {
        holder(npu, self.npus(), self.places())
    }

    fn npus(&self) -> u32 {
        match self {
            Pool::Tree(tree) => tree.npus,
            Pool::Ring(_, npus) | Pool::Mesh(_, npus) => *npus,
        }
    }

    /// Whether the time of an access depends on the place of its NPU.
    pub fn tells_places_apart(&self) -> bool {
        matches!(self, Pool::Tree(_))
    }

    /// Loads on the links while `crowd` accesses the pool.
    pub fn loads(&self, crowd: &Crowd) -> Loads {
        match self {
            Pool::Tree(tree) => Loads::Tree(tree.rates(crowd)),
            Pool::Ring(ring, _) => Loads::Same(ring.loads(&crowd.own)),
            Pool::Mesh(mesh, _) => Loads::Same(mesh.loads(&crowd.own)),
        }
    }

    /// The least that the links carry when an NPU accesses its own tensor.
    pub(super) fn alone(&self) -> Vec<Load> {
        let mut own = vec![0; self.places() as usize];
        own[0] = 1;
        match self.loads(&Crowd { own, gathers: Vec::new() }) {
            Loads::Tree(rates) => rates.own(0),
            // Stations differ, and the nearest one may need none of the links between them.
            Loads::Same([memory, _, npu]) => vec![memory, Load::new(0, 1), npu],
        }
    }
}

impl Loads {
    /// On the way to an NPU of `place` that accesses its own tensor.
    pub fn own(&self, place: u32) -> Vec<Load> {
        match self {
            Loads::Tree(rates) => rates.own(place),
            Loads::Same(loads) => loads.to_vec(),
        }
    }

    /// On the way of gather `index`.
    pub fn gather(&self, index: usize) -> Vec<Load> {
        match self {
            Loads::Tree(rates) => rates.gather(index),
            Loads::Same(loads) => loads.to_vec(),
        }
    }
}
