//! Rings, meshes and tori with a router for each node, and the order of dimensions as their routing.

use crate::fabric::{End, Fabric, Packet, Routing, Way};
use engine::Random;

/// A `k`-ary `n`-mesh, or torus where it `wraps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Nodes of a dimension.
    pub k: u32,
    /// Dimensions.
    pub n: u32,
    /// Whether the ends of a dimension are joined.
    pub wraps: bool,
}

impl Grid {
    /// Nodes.
    pub fn nodes(&self) -> u32 {
        self.k.pow(self.n)
    }

    /// The place of a node in a dimension.
    pub fn place(&self, node: u32, dim: u32) -> u32 {
        node / self.k.pow(dim) % self.k
    }

    /// The node at another place of a dimension.
    pub fn moved(&self, node: u32, dim: u32, place: u32) -> u32 {
        let stride = self.k.pow(dim);
        node - self.place(node, dim) * stride + place * stride
    }

    /// Routers and channels of the grid. `latencies` of links between routers and of those to
    /// nodes.
    pub fn fabric(&self, latencies: [u32; 2], vnets: u16) -> (Fabric, GridWays) {
        let nodes = self.nodes();
        let mut fabric = Fabric { routers: nodes, nodes, ..Fabric::default() };
        let width = 1 + 2 * self.n as usize;
        let mut ways = vec![u32::MAX; nodes as usize * width];
        for node in 0..nodes {
            let (router, end) = (End::Router(node), End::Node(node));
            fabric.channel(end, router, latencies[1], 0..vnets);
            ways[node as usize * width] = fabric.channel(router, end, latencies[1], 0..vnets);
        }
        for node in 0..nodes {
            for dim in 0..self.n {
                for (side, ahead) in [(0, true), (1, false)] {
                    if let Some(next) = self.beside(node, dim, ahead) {
                        let (from, to) = (End::Router(node), End::Router(next));
                        let channel = fabric.channel(from, to, latencies[0], 0..vnets);
                        ways[node as usize * width + 1 + 2 * dim as usize + side] = channel;
                    }
                }
            }
        }
        let places = (0..nodes).flat_map(|node| (0..self.n).map(move |dim| self.place(node, dim)));
        (fabric, GridWays { grid: *self, nodes: nodes as usize, places: places.collect(), ways })
    }

    fn beside(&self, node: u32, dim: u32, ahead: bool) -> Option<u32> {
        let (place, k) = (self.place(node, dim), self.k);
        let next = if ahead { place + 1 } else { place + k - 1 };
        let steps_off = if ahead { next == k } else { place == 0 };
        (k > 1 && (self.wraps || !steps_off)).then(|| self.moved(node, dim, next % k))
    }
}

/// The channels of a grid.
#[derive(Clone, Debug)]
pub struct GridWays {
    grid: Grid,
    nodes: usize,
    /// The place of each node in each dimension.
    places: Vec<u32>,
    /// For each router: the channel to its node, then up and down in each dimension.
    ways: Vec<u32>,
}

impl GridWays {
    #[inline]
    fn place(&self, node: u32, dim: u32) -> u32 {
        self.places[(node * self.grid.n + dim) as usize]
    }

    #[inline]
    fn way(&self, router: u32, at: usize) -> u32 {
        self.ways[router as usize * (1 + 2 * self.grid.n as usize) + at]
    }
}

/// Dimensions in increasing order, the shorter way round, ties at random.
#[derive(Clone, Debug)]
pub struct DimensionOrder {
    ways: GridWays,
    random: Random,
    /// For each router and destination of a grid that is not too large, what [`packed`] has.
    table: Vec<u32>,
}

/// Most pairs of nodes whose routes are known beforehand.
const PAIRS: u64 = 1 << 20;

/// Instead of a dimension: the packet is where it goes.
const HERE: u8 = u8::MAX;

impl DimensionOrder {
    /// On the channels of a grid.
    pub fn new(ways: GridWays, seed: u64) -> DimensionOrder {
        let nodes = ways.grid.nodes();
        let mut order = DimensionOrder { ways, random: Random::new(seed), table: Vec::new() };
        if u64::from(nodes).pow(2) <= PAIRS {
            let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
            order.table = pairs.map(|(from, to)| packed(order.leaves(from, to))).collect();
        }
        order
    }
}

impl DimensionOrder {
    /// The first dimension in which a packet is not where it goes, the channel up or the shorter way,
    /// and whether the way down is as long; the channel to the node if there is no such dimension.
    fn leaves(&self, router: u32, dst: u32) -> (u8, bool, u32) {
        let Grid { k, n, wraps } = self.ways.grid;
        let differs = |&dim: &u32| self.ways.place(router, dim) != self.ways.place(dst, dim);
        let Some(dim) = (0..n).find(differs) else {
            return (HERE, false, self.ways.way(router, 0));
        };
        let (from, to) = (self.ways.place(router, dim), self.ways.place(dst, dim));
        let up = if to > from { to - from } else { to + k - from };
        let (ahead, tie) = match (wraps, (2 * up).cmp(&k)) {
            (false, _) => (to > from, false),
            (true, order) => (order.is_le(), order.is_eq()),
        };
        let channel = self.ways.way(router, 1 + 2 * dim as usize + usize::from(!ahead));
        (dim as u8, tie, channel)
    }

    /// The dimension and the channel of a packet.
    #[inline]
    fn way(&mut self, router: u32, packet: &Packet) -> (u8, u32) {
        let at = router as usize * self.ways.nodes + packet.dst as usize;
        let (dim, tie, channel) = match self.table.get(at) {
            Some(&known) => unpacked(known),
            None => self.leaves(router, packet.dst),
        };
        if tie && self.random.below(2) != 0 {
            return (dim, self.ways.way(router, 2 + 2 * usize::from(dim)));
        }
        (dim, channel)
    }
}

/// A dimension, whether the way back is equally long, and the channel, in a word. Channels of grids
/// whose routes are known beforehand have at most 17 bits.
#[inline]
fn packed((dim, tie, channel): (u8, bool, u32)) -> u32 {
    debug_assert!(channel < 1 << 23);
    channel << 9 | u32::from(tie) << 8 | u32::from(dim)
}

#[inline]
fn unpacked(word: u32) -> (u8, bool, u32) {
    (word as u8, word >> 8 & 1 == 1, word >> 9)
}

impl Routing for DimensionOrder {
    #[inline]
    fn next(&mut self, router: u32, packet: &Packet, _: u32) -> Way {
        Way { channel: self.way(router, packet).1, vnet: packet.vnet }
    }

    /// On tori, the lower half of the virtual channels or the upper half: that of packets whose
    /// place of departure in the dimension is above their destination. Kept in a dimension, so
    /// that no packet that passes the end of a ring waits for one that does not.
    #[inline(always)]
    fn next_of(&mut self, router: u32, packet: &Packet, _: u32, vcs: u32) -> (Way, u64) {
        let (dim, channel) = self.way(router, packet);
        let all = u64::MAX >> (64 - vcs);
        let allowed = match dim {
            dim if dim != HERE && self.ways.grid.wraps && vcs > 1 => {
                let lower = all >> (vcs - vcs / 2);
                let place = |node| self.ways.place(node, dim.into());
                // Without a branch: half of the packets are above.
                let above = u64::from(place(packet.src) > place(packet.dst));
                lower ^ all & 0u64.wrapping_sub(above)
            }
            _ => all,
        };
        (Way { channel, vnet: packet.vnet }, allowed)
    }
}
