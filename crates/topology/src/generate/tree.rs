//! Trees of switches with several roots, by their numbers: wiring, routes and what looks alike.
//!
//! A node of tier t is `b + wide * rest`: it is one of `wide = prod(up[..t])` nodes above the NPUs
//! `rest * below .. (rest + 1) * below`, `below = prod(down[..t])`. So routes need no tables: they
//! climb until the destination is below, over any parent, and then have one way down.

use super::generator::{FabricBuilder, Fault};
use crate::{GraphDim, Routing, Symmetry};

/// The numbers of a tree: by tier, from the NPUs outwards.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// Children of a switch.
    pub(super) down: Vec<u32>,
    /// Parents of a node of the tier below.
    pub(super) up: Vec<u32>,
    /// Cables to each parent.
    pub(super) cables: Vec<u32>,
}

impl Tree {
    pub(super) fn wire(&self, builder: &mut FabricBuilder) {
        let mut first = 0;
        for tier in 0..self.down.len() {
            let parents = self.count(tier + 1);
            let next = builder.switches(name(tier + 1, self.down.len()), parents, tier as u32 + 1);
            // A node of the tier below is (b, a, rest): b of `wide`, a of `down`.
            let wide: u32 = self.up[..tier].iter().product();
            for child in 0..self.count(tier) {
                let (b, rest) = (child % wide, child / wide / self.down[tier]);
                for up in 0..self.up[tier] {
                    let parent = b + wide * (up + self.up[tier] * rest);
                    builder.cables(first + child, next + parent, tier as u32, self.cables[tier]);
                }
            }
            first = next;
        }
    }

    /// Nodes of a tier; tier 0 are the NPUs.
    fn count(&self, tier: usize) -> u32 {
        self.down[tier..].iter().product::<u32>() * self.up[..tier].iter().product::<u32>()
    }

    pub(super) fn dims(&self, names: &[&'static str]) -> Vec<GraphDim> {
        let dim = |(&size, &name): (&u32, &&'static str)| GraphDim::new(name, size, Symmetry::Full);
        self.down.iter().zip(names).map(dim).collect()
    }

    pub(super) fn diameter(&self) -> u32 {
        2 * self.down.iter().rposition(|&m| m > 1).map_or(0, |tier| tier as u32 + 1)
    }

    pub(super) fn faults(&self, key: &'static str) -> Vec<Fault> {
        let most = u128::from(u32::MAX >> 4);
        let product = |all: &[u32]| all.iter().map(|&m| u128::from(m)).product::<u128>();
        let counts =
            (0..=self.down.len()).map(|l| product(&self.down[l..]) * product(&self.up[..l]));
        match counts.max().filter(|&nodes| nodes > most) {
            Some(nodes) => {
                let allowed = format!("at most {most}");
                vec![Fault::new(key, format!("a tier of {nodes} nodes"), allowed)]
            }
            None => Vec::new(),
        }
    }
}

/// Name of the switches of a tier.
fn name(tier: usize, tiers: usize) -> &'static str {
    match tier {
        1 => "leaf",
        _ if tier == tiers && tiers > 2 => "core",
        _ if tier == tiers => "spine",
        2 => "aggregation",
        _ => "tier",
    }
}

/// Names of the links of a tree, from the NPUs outwards.
pub(super) const KINDS: [&str; 6] = ["npu", "leaf", "aggregation", "tier3", "tier4", "tier5"];

/// Where the nodes of a tier are, to find routes.
#[derive(Clone, Copy, Debug)]
struct Tier {
    first: u32,
    wide: u32,
    below: u32,
    /// Nodes below a node, and cables to each.
    down: u32,
    cables: u32,
}

/// Next hops in a tree.
#[derive(Clone, Debug)]
pub(crate) struct Climb {
    tree: Tree,
    /// NPUs first.
    tiers: Vec<Tier>,
}

impl Climb {
    pub(crate) fn new(tree: Tree) -> Climb {
        let (mut first, mut wide, mut below) = (0, 1, 1);
        let mut tiers = vec![Tier { first, wide, below, down: 0, cables: 0 }];
        for tier in 0..tree.down.len() {
            first += tree.count(tier);
            wide *= tree.up[tier];
            below *= tree.down[tier];
            let (down, cables) = (tree.down[tier], tree.cables[tier]);
            tiers.push(Tier { first, wide, below, down, cables });
        }
        Climb { tree, tiers }
    }

    /// Those of the links `out` of `node`, by next node, that lead to NPU `dst` on the fewest links.
    pub(crate) fn choices<'a>(&self, out: &'a [u32], node: u32, dst: u32) -> &'a [u32] {
        let at = self.tiers.partition_point(|tier| tier.first <= node) - 1;
        let tier = self.tiers[at];
        let rest = (node - tier.first) / tier.wide;
        if dst / tier.below != rest {
            return &out[(tier.down * tier.cables) as usize..];
        }
        if at == 0 {
            return &[];
        }
        let child = dst / self.tiers[at - 1].below % tier.down;
        &out[(child * tier.cables) as usize..((child + 1) * tier.cables) as usize]
    }

    /// How the tree looks the same to messages after a turn of its outermost dimension; `None` where
    /// it does not, or by this policy routes change.
    pub(crate) fn rotation(&self, routing: Routing) -> Option<Rotation> {
        let Tree { down, up, cables } = &self.tree;
        let (outer, inner) = (*down.last()?, down[..down.len() - 1].iter().product::<u32>());
        // Choices are digits of the destination, up and down: they stay where the turn is a
        // multiple of all choices together.
        let ways: u128 = match routing {
            Routing::Lowest | Routing::Spray => 1,
            Routing::DModK => {
                let ways =
                    up.iter().zip(cables).map(|(&u, &c)| u128::from(u) * u128::from(c).pow(2));
                ways.product()
            }
            Routing::Auto | Routing::Hash { .. } => return None,
        };
        let fits = |turn: &u32| {
            outer.is_multiple_of(*turn)
                && (u128::from(*turn) * u128::from(inner)).is_multiple_of(ways)
        };
        let turn = (1..outer).find(fits)?;
        let mut first = 0;
        let mut links = Vec::new();
        for tier in 0..down.len() {
            let all = self.tree.count(tier) * up[tier] * cables[tier] * 2;
            links.push((first, all / (outer / turn)));
            first += all;
        }
        Some(Rotation { npus: turn * inner, links })
    }
}

/// A turn of a fabric onto itself that takes every route to a route: NPU r to NPU r + `npus`,
/// around the end.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// NPUs by which it turns; they divide those of the fabric.
    pub npus: u32,
    /// First link of each tier, and the number of links by which it turns.
    links: Vec<(u32, u32)>,
}

impl Rotation {
    /// The lowest of the links to which turns take `link`. Each turn takes it to another one.
    pub fn lowest(&self, link: u32) -> u32 {
        let at = self.links.partition_point(|&(first, _)| first <= link) - 1;
        let (first, turn) = self.links[at];
        first + (link - first) % turn
    }
}
