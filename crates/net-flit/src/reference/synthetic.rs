//! Synthetic traffic on a grid (Dally and Towles, "Principles and Practices of Interconnection
//! Networks", section 3.2), injected by Bernoulli processes.

use crate::grid::Grid;
use crate::random::Random;
use std::str::FromStr;

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// To any node, itself included.
    Uniform,
    /// To the node whose number has the halves of its bits swapped.
    Transpose,
    /// To the next in every dimension.
    Neighbor,
    /// Half way round in every dimension, less one where that is whole.
    Tornado,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(name: &str) -> Result<Pattern, String> {
        match name {
            "uniform" => Ok(Pattern::Uniform),
            "transpose" => Ok(Pattern::Transpose),
            "neighbor" => Ok(Pattern::Neighbor),
            "tornado" => Ok(Pattern::Tornado),
            _ => Err(format!("unknown pattern {name:?}")),
        }
    }
}

impl Pattern {
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
    /// Of a packet in a cycle, in 2^-64.
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
