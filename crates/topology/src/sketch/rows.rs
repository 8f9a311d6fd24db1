//! Places in tiers. A *group* is what hangs together below a tier: without its cores a fat tree
//! falls apart into pods, a pod without its aggregation switches into leaves. So groups are a tree,
//! and a node's place is its path in that tree.

use super::position::{Layout, Spot, place};
use crate::{GraphFabric, GraphLink};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many members of a group may be drawn one by one; the first that fits is taken.
const ROOMS: [u32; 12] = [64, 48, 32, 24, 16, 12, 10, 8, 6, 5, 4, 3];
/// Most cells in the row of NPUs and in all rows, and most cables.
const MOST: (usize, usize, usize) = (72, 300, 400);

/// The spot of each node.
pub(super) fn spots(graph: &GraphFabric) -> (Layout, Vec<Spot>) {
    let tiers = tiers(graph);
    let tree = Tree::new(graph, &tiers);
    let mut spots = Vec::new();
    for room in ROOMS {
        spots = tree.spots(&tiers, room);
        let cells: BTreeSet<&Spot> = spots.iter().collect();
        let npus = cells.iter().filter(|(tier, ..)| *tier == 0).count();
        if npus <= MOST.0 && cells.len() <= MOST.1 && cables(graph, &spots) <= MOST.2 {
            break;
        }
    }
    (Layout::Tiers, spots)
}

/// Pairs of spots that are joined.
fn cables(graph: &GraphFabric, spots: &[Spot]) -> usize {
    let known: BTreeMap<&Spot, u32> = {
        let all: BTreeSet<&Spot> = spots.iter().collect();
        all.into_iter().zip(0..).collect()
    };
    let number: Vec<u32> = spots.iter().map(|spot| known[spot]).collect();
    let ends = |link: &GraphLink| {
        let (a, b) = (number[link.from as usize], number[link.to as usize]);
        (a.min(b), a.max(b))
    };
    graph.links.iter().map(ends).collect::<BTreeSet<_>>().len()
}

/// The row of each node. The tiers of the switches decide; where all are alike, how far they are
/// from an NPU. Switches of one tier that are joined to NPUs by different kinds of links (the two
/// networks of a node with rails) have rows of their own: the nearer the ranks of their NPUs, the
/// lower.
fn tiers(graph: &GraphFabric) -> Vec<u32> {
    let npus = graph.npus as usize;
    let flat = graph.nodes.iter().all(|node| node.tier <= 1);
    let far = if flat { distances(graph) } else { vec![0; graph.nodes.len()] };
    let (kind, spans) = spans(graph);
    let keys: Vec<(u32, u32, u64, u32)> = (0..graph.nodes.len())
        .map(|node| match node < npus {
            true => (0, 0, 0, 0),
            false => {
                let tier = graph.nodes[node].tier.max(1);
                let span = kind[node].map_or((u64::MAX, u32::MAX), |kind| {
                    (spans.get(&(tier, kind)).copied().unwrap_or(0), kind)
                });
                (tier, far[node], span.0, span.1)
            }
        })
        .collect();
    let known: BTreeSet<_> = keys.iter().collect();
    let row: BTreeMap<_, u32> = known.into_iter().zip(0..).collect();
    keys.iter().map(|key| row[key]).collect()
}

/// The least number of links to an NPU.
fn distances(graph: &GraphFabric) -> Vec<u32> {
    let mut near: Vec<Vec<u32>> = vec![Vec::new(); graph.nodes.len()];
    for link in &graph.links {
        near[link.from as usize].push(link.to);
        near[link.to as usize].push(link.from);
    }
    let mut far = vec![u32::MAX; graph.nodes.len()];
    far[..graph.npus as usize].fill(0);
    let mut queue: VecDeque<u32> = (0..graph.npus).collect();
    while let Some(node) = queue.pop_front() {
        for &next in &near[node as usize] {
            if far[next as usize] == u32::MAX {
                far[next as usize] = far[node as usize] + 1;
                queue.push_back(next);
            }
        }
    }
    far
}

/// Tier and kind of the links to NPUs.
type Sort = (u32, u32);

/// The kind of links by which each switch is joined to NPUs, and how far apart the ranks of such
/// NPUs are on average, by tier and kind.
fn spans(graph: &GraphFabric) -> (Vec<Option<u32>>, BTreeMap<Sort, u64>) {
    let mut kind: Vec<Option<u32>> = vec![None; graph.nodes.len()];
    let mut ranks: Vec<(u32, u32)> = vec![(u32::MAX, 0); graph.nodes.len()];
    for link in graph.links.iter().filter(|l| l.from < graph.npus && l.to >= graph.npus) {
        let (kind, ranks) = (&mut kind[link.to as usize], &mut ranks[link.to as usize]);
        *kind = Some(kind.map_or(link.kind, |kind| kind.min(link.kind)));
        *ranks = (ranks.0.min(link.from), ranks.1.max(link.from));
    }
    let mut sums: BTreeMap<Sort, (u64, u64)> = BTreeMap::new();
    for (node, kind) in kind.iter().enumerate() {
        if let Some(kind) = kind {
            let sum = sums.entry((graph.nodes[node].tier.max(1), *kind)).or_default();
            sum.0 += u64::from(ranks[node].1 - ranks[node].0);
            sum.1 += 1;
        }
    }
    (kind, sums.into_iter().map(|(sort, (sum, count))| (sort, sum / count)).collect())
}

/// Groups within groups.
struct Tree {
    /// By tier but the last, by node of this tier or below: number of its group among its siblings,
    /// and how many these are.
    levels: Vec<Vec<(u32, u32)>>,
    /// Number of each node among the nodes of its tier in its group, and how many these are.
    own: Vec<(u32, u32)>,
}

impl Tree {
    fn new(graph: &GraphFabric, tiers: &[u32]) -> Tree {
        let top = tiers.iter().copied().max().unwrap_or(0);
        let mut sets = Sets((0..graph.nodes.len() as u32).collect());
        let mut by_tier: Vec<Vec<(u32, u32)>> = vec![Vec::new(); top as usize + 1];
        for link in &graph.links {
            let tier = tiers[link.from as usize].max(tiers[link.to as usize]);
            by_tier[tier as usize].push((link.from, link.to));
        }
        // The lowest node of each node's group, by tier; above the top tier there is one group.
        let mut roots: Vec<Vec<u32>> = Vec::new();
        for links in &by_tier[..top as usize] {
            links.iter().for_each(|&(a, b)| sets.join(a, b));
            roots.push((0..graph.nodes.len() as u32).map(|node| sets.root(node)).collect());
        }
        roots.push(vec![0; graph.nodes.len()]);
        let mut counts: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let mut own: Vec<(u32, u32)> = Vec::new();
        for (node, &tier) in tiers.iter().enumerate() {
            let count = counts.entry((tier, roots[tier as usize][node])).or_default();
            own.push((*count, 0));
            *count += 1;
        }
        for ((node, &tier), own) in tiers.iter().enumerate().zip(&mut own) {
            own.1 = counts[&(tier, roots[tier as usize][node])];
        }
        let levels = (0..top).map(|tier| siblings(&roots, tiers, tier)).collect();
        Tree { levels, own }
    }

    /// Spots with room for `room` members of each group.
    fn spots(&self, tiers: &[u32], room: u32) -> Vec<Spot> {
        let spot = |(node, &tier): (usize, &u32)| -> Spot {
            let mut path = Vec::new();
            for level in self.levels[tier as usize..].iter().rev() {
                let (index, count) = level[node];
                let (at, shared) = place(index, count, room);
                path.push(at);
                if shared {
                    return (tier, path, 0);
                }
            }
            let (index, count) = self.own[node];
            (tier, path, place(index, count, room.max(6)).0)
        };
        tiers.iter().enumerate().map(spot).collect()
    }
}

/// Number of each node's group of `tier` among those of the same group of the next tier.
fn siblings(roots: &[Vec<u32>], tiers: &[u32], tier: u32) -> Vec<(u32, u32)> {
    let (inner, outer) = (&roots[tier as usize], &roots[tier as usize + 1]);
    let mut children: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let below = |node: &usize| tiers[*node] <= tier;
    for node in (0..tiers.len()).filter(below) {
        children.entry(outer[node]).or_default().insert(inner[node]);
    }
    let mut number: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for group in children.values() {
        let count = group.len() as u32;
        group.iter().zip(0..).for_each(|(&root, at)| {
            number.insert(root, (at, count));
        });
    }
    let of = |node: usize| number.get(&inner[node]).copied().unwrap_or((0, 1));
    (0..tiers.len()).map(of).collect()
}

/// Disjoint sets of nodes, each named by its lowest.
struct Sets(Vec<u32>);

impl Sets {
    fn root(&mut self, node: u32) -> u32 {
        let mut at = node;
        while self.0[at as usize] != at {
            let above = self.0[self.0[at as usize] as usize];
            self.0[at as usize] = above;
            at = above;
        }
        at
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}
