//! Synthetic traffic on a grid (Dally and Towles, "Principles and Practices of Interconnection
//! Networks", section 3.2), injected by Bernoulli processes.

use engine::Random;
use net_flit::garnet::{Arrival, Garnet, Settings};
use net_flit::{DimensionOrder, Grid, Packet, Refused};
use std::str::FromStr;

/// Destinations by source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// To any node, itself included.
    Uniform,
    /// To the node whose number has the halves of its bits swapped.
    Transpose,
    /// To the node whose number has all bits inverted.
    BitComplement,
    /// To the node whose number has its bits in reverse order.
    BitReverse,
    /// To the node whose number has its bits rotated left by one.
    Shuffle,
    /// To the next in every dimension.
    Neighbor,
    /// Half way round in every dimension, less one where that is whole.
    Tornado,
    /// A third to the node with the next number, the rest to itself.
    Diagonal,
    /// To the node of the same number in either half.
    Asymmetric,
}

/// Names in files: those of BookSim2.
const NAMES: &str = "uniform, transpose, bitcomp, bitrev, shuffle, neighbor, tornado, diagonal, \
                     asymmetric";

impl FromStr for Pattern {
    type Err = Refused;

    fn from_str(name: &str) -> Result<Pattern, Refused> {
        match name {
            "uniform" => Ok(Pattern::Uniform),
            "transpose" => Ok(Pattern::Transpose),
            "bitcomp" => Ok(Pattern::BitComplement),
            "bitrev" => Ok(Pattern::BitReverse),
            "shuffle" => Ok(Pattern::Shuffle),
            "neighbor" => Ok(Pattern::Neighbor),
            "tornado" => Ok(Pattern::Tornado),
            "diagonal" => Ok(Pattern::Diagonal),
            "asymmetric" => Ok(Pattern::Asymmetric),
            _ => Err(Refused::new("traffic", format!("{name:?}"), NAMES)),
        }
    }
}

impl Pattern {
    /// # Errors
    /// If the nodes of a grid have no such pattern: those of bits need a power of two.
    pub fn fits(self, grid: &Grid) -> Result<(), Refused> {
        let nodes = grid.nodes();
        let (fits, allowed) = match self {
            Pattern::Transpose => (
                nodes.is_power_of_two() && nodes.ilog2().is_multiple_of(2),
                "transpose needs a power of 4",
            ),
            Pattern::BitComplement | Pattern::BitReverse | Pattern::Shuffle => {
                (nodes.is_power_of_two(), "patterns of bits need a power of 2")
            }
            Pattern::Asymmetric => (nodes.is_multiple_of(2), "asymmetric needs an even number"),
            Pattern::Uniform | Pattern::Neighbor | Pattern::Tornado | Pattern::Diagonal => {
                (true, "any")
            }
        };
        Refused::unless(fits, "number of nodes", nodes, allowed)
    }

    /// Where a packet of `src` goes.
    pub fn destination(self, grid: &Grid, src: u32, random: &mut Random) -> u32 {
        let shifted = |by: u32| {
            (0..grid.n)
                .fold(src, |node, dim| grid.moved(node, dim, (grid.place(node, dim) + by) % grid.k))
        };
        match self {
            Pattern::Uniform => random.below(grid.nodes().into()) as u32,
            Pattern::Transpose => {
                let half = grid.nodes().ilog2() / 2;
                let low = src & ((1 << half) - 1);
                src >> half | low << half
            }
            Pattern::BitComplement => grid.nodes() - 1 - src,
            Pattern::BitReverse => {
                let bits = grid.nodes().ilog2();
                if bits == 0 { src } else { src.reverse_bits() >> (32 - bits) }
            }
            Pattern::Shuffle => {
                let top = grid.nodes() / 2;
                if src < top { 2 * src } else { 2 * src - grid.nodes() + 1 }
            }
            Pattern::Diagonal => match random.below(3) {
                0 => (src + 1) % grid.nodes(),
                _ => src,
            },
            Pattern::Asymmetric => {
                let half = grid.nodes() / 2;
                src % half + half * random.below(2) as u32
            }
            Pattern::Neighbor => shifted(1),
            Pattern::Tornado => shifted(grid.k.div_ceil(2) - 1),
        }
    }
}

/// Packets that nodes inject, cycle by cycle.
#[derive(Clone, Debug)]
pub struct Bernoulli {
    grid: Grid,
    pattern: Pattern,
    /// Probability of a packet in a cycle, in 2^-64.
    chance: u64,
    random: Random,
}

impl Bernoulli {
    /// `load` in flits per node and cycle.
    pub fn new(grid: Grid, pattern: Pattern, load: f64, flits: u32, seed: u64) -> Bernoulli {
        let chance = load / f64::from(flits) * 2f64.powi(64);
        Bernoulli { grid, pattern, chance: chance as u64, random: Random::new(seed) }
    }

    /// Calls `send` with source and destination of each packet of a cycle.
    pub fn cycle(&mut self, mut send: impl FnMut(u32, u32)) {
        for src in 0..self.grid.nodes() {
            if self.random.bits() < self.chance {
                send(src, self.pattern.destination(&self.grid, src, &mut self.random));
            }
        }
    }
}

/// A run of synthetic traffic.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic {
    /// The network.
    pub grid: Grid,
    /// Destination of each source.
    pub pattern: Pattern,
    /// Flits per node and cycle.
    pub load: f64,
    /// Flits of a packet.
    pub flits: u32,
    /// Cycles, from an empty network.
    pub cycles: u64,
    /// Latency of links between routers, and of those to nodes, cycles.
    pub latencies: [u32; 2],
}

impl Synthetic {
    /// Runs it on Garnet's routers. Returns the network and the packets that have arrived.
    ///
    /// # Errors
    /// If the network cannot have its settings.
    pub fn on_garnet(
        &self,
        settings: Settings,
        checked: bool,
    ) -> Result<(Garnet<DimensionOrder>, Vec<Arrival>), Refused> {
        let Synthetic { grid, pattern, load, flits, .. } = *self;
        let (fabric, ways) = grid.fabric(self.latencies, 1);
        let mut network = Garnet::new(&fabric, settings, DimensionOrder::new(ways, 7))?;
        if checked {
            network = network.checked();
        }
        let mut source = Bernoulli::new(grid, pattern, load, flits, 11);
        let mut arrived = Vec::new();
        for cycle in 0..self.cycles {
            network.run(cycle, &mut arrived);
            source.cycle(|src, dst| {
                let packet = Packet { src, dst, vnet: 0, flits, port: 0, way: 0 };
                network.send(cycle, packet, 0);
            });
        }
        Ok((network, arrived))
    }
}
