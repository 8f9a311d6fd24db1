//! Rings in a node without a switch: the most Hamiltonian cycles over the members' direct links
//! that fit at the same time. Where there is none, a tree over the widest links that join all
//! members. NCCL builds chains and trees there: five GPUs of a DGX-1 have the chain 4, 0, 3, 2, 1
//! of double links.
//!
//! A wide link counts as several of the narrowest one. Used both ways, each cycle is two rings. A
//! DGX-1 has 3 cycles over all 8 GPUs, 2 over a quad, 1 over 3 or 6. Source of the links:
//! `nvidia-smi topo -m` of a DGX-1 (systems/nvidia/dgx1-v100.yml).

use topology::GraphFabric;
use units::GIGA;

/// Beyond this many members rings are not looked for.
const MOST: usize = 16;
/// Steps of the search.
const BUDGET: u32 = 200_000;

/// Rings side by side.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rings {
    /// Positions in the order of each cycle.
    pub cycles: Vec<Vec<u32>>,
    /// Bandwidth of all rings of a member one way, GB/s; 0 without any.
    pub bandwidth: f64,
    /// The parent of each position but the first in a tree of direct links, as (position, parent);
    /// empty with rings, and where direct links don't join all members.
    pub tree: Vec<(u32, u32)>,
    /// The narrowest link of this tree, GB/s; 0 without one.
    pub tree_bandwidth: f64,
}

impl Rings {
    fn of(cycles: Vec<Vec<u32>>, bandwidth: f64) -> Rings {
        Rings { cycles, bandwidth, tree: Vec::new(), tree_bandwidth: 0.0 }
    }
}

/// The rings of `members`, NPUs of `graph`.
pub(super) fn pack(graph: &GraphFabric, members: &[u32]) -> Rings {
    let n = members.len();
    let width = widths(graph, members);
    let narrowest = width.iter().flatten().copied().filter(|&w| w > 0).min();
    let Some(unit) = narrowest.filter(|_| (2..=MOST).contains(&n)) else {
        return Rings::of(Vec::new(), 0.0);
    };
    if n == 2 {
        return Rings::of(vec![vec![0, 1]], width[0][1] as f64 / GIGA);
    }
    let mut left: Vec<Vec<u64>> =
        width.iter().map(|row| row.iter().map(|w| w / unit).collect()).collect();
    let degree = |row: &Vec<u64>| row.iter().sum::<u64>() / 2;
    let bound = left.iter().map(degree).min().unwrap_or(0) as usize;
    let mut search = Search { bound, best: Vec::new(), taken: Vec::new(), budget: BUDGET };
    search.extend(
        &mut left,
        &mut vec![0],
        &mut [true].into_iter().chain(vec![false; n - 1]).collect(),
    );
    let bandwidth = 2.0 * search.best.len() as f64 * unit as f64 / GIGA;
    let rings = Rings::of(search.best, bandwidth);
    if rings.cycles.is_empty() { widest_tree(&width) } else { rings }
}

/// No rings, and the spanning tree whose narrowest link is as wide as can be: from the first
/// member, always the widest link to one that is not in it yet (Prim).
fn widest_tree(width: &[Vec<u64>]) -> Rings {
    let none = Rings::of(Vec::new(), 0.0);
    let n = width.len();
    let (mut inside, mut tree, mut narrowest) = (vec![0], Vec::new(), u64::MAX);
    while inside.len() < n {
        let outside = (0..n).filter(|at| !inside.contains(at));
        let links = outside.flat_map(|at| inside.iter().map(move |&from| (from, at)));
        let widest = links.max_by_key(|&(from, at)| (width[from][at], n - from, n - at));
        let Some((from, at)) = widest.filter(|&(from, at)| width[from][at] > 0) else {
            return none;
        };
        narrowest = narrowest.min(width[from][at]);
        tree.push((at as u32, from as u32));
        inside.push(at);
    }
    Rings { tree, tree_bandwidth: narrowest as f64 / GIGA, ..none }
}

/// Bytes per second between every two members, both ways.
fn widths(graph: &GraphFabric, members: &[u32]) -> Vec<Vec<u64>> {
    let one_way = |a: u32, b: u32| -> u64 {
        graph.links.iter().filter(|l| (l.from, l.to) == (a, b)).map(|l| l.bandwidth.0).sum()
    };
    members
        .iter()
        .map(|&a| members.iter().map(|&b| one_way(a, b).min(one_way(b, a))).collect())
        .collect()
}

/// Depth first: a cycle link by link, then the next one with what is left.
struct Search {
    bound: usize,
    best: Vec<Vec<u32>>,
    taken: Vec<Vec<u32>>,
    budget: u32,
}

impl Search {
    fn done(&self) -> bool {
        self.best.len() >= self.bound || self.budget == 0
    }

    fn extend(&mut self, left: &mut [Vec<u64>], path: &mut Vec<u32>, used: &mut Vec<bool>) {
        let last = path[path.len() - 1] as usize;
        if path.len() == used.len() {
            return if left[last][0] > 0 {
                self.close(left, path)
            };
        }
        for next in 1..used.len() {
            if self.done() {
                return;
            }
            if used[next] || left[last][next] == 0 {
                continue;
            }
            self.budget -= 1;
            used[next] = true;
            path.push(next as u32);
            self.extend(left, path, used);
            path.pop();
            used[next] = false;
        }
    }

    /// Takes the cycle and goes on with the links it leaves.
    fn close(&mut self, left: &mut [Vec<u64>], path: &[u32]) {
        self.taken.push(path.to_vec());
        if self.taken.len() > self.best.len() {
            self.best = self.taken.clone();
        }
        if !self.done() {
            take(left, path, u64::wrapping_sub);
            let n = path.len();
            self.extend(
                left,
                &mut vec![0],
                &mut [true].into_iter().chain(vec![false; n - 1]).collect(),
            );
            take(left, path, u64::wrapping_add);
        }
        self.taken.pop();
    }
}

fn take(left: &mut [Vec<u64>], path: &[u32], change: impl Fn(u64, u64) -> u64) {
    for (i, &a) in path.iter().enumerate() {
        let (a, b) = (a as usize, path[(i + 1) % path.len()] as usize);
        left[a][b] = change(left[a][b], 1);
        left[b][a] = change(left[b][a], 1);
    }
}
