//! Shortest ways between any two nodes, free or up*/down*.
//!
//! A breadth-first search from a root gives each node a level; a link is *up* if it leads to a
//! lower level, or to a lower number on the same one. A way goes up as often as it likes, then down
//! only. No link down is followed by one up, so the links have an order along which every way goes,
//! and nothing can lock up with a single class (Schroeder and others, "Autonet: a high-speed,
//! self-configuring local area network using point-to-point links", IEEE Journal on Selected Areas
//! in Communications 9, 1991). The root is a node in the middle of a longest way that two searches
//! find. In a tree of switches with several roots the tiers say what is up, where that joins all
//! NPUs.

use engine::Random;
use std::collections::VecDeque;
use std::sync::OnceLock;
use topology::LinkGraph;

/// Not reached.
const FAR: u16 = u16::MAX;

/// Shortest ways to each node, found when they are first asked for.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// Ends of each link, and whether it is up.
    links: Vec<(u32, u32, bool)>,
    out: Vec<Vec<u32>>,
    into: Vec<Vec<u32>>,
    /// Links from each node to the node of the table, twice: for those that may go up, and down
    /// only.
    tables: Vec<OnceLock<Box<[[u16; 2]]>>>,
}

impl Search {
    /// Ways by any link.
    pub(super) fn free(graph: &LinkGraph) -> Search {
        let nodes = graph.nodes() as usize;
        let (mut out, mut into) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
        let mut links = Vec::with_capacity(graph.len() as usize);
        for number in 0..graph.len() {
            let link = graph.link(number);
            links.push((link.from, link.to, true));
            out[link.from as usize].push(number);
            into[link.to as usize].push(number);
        }
        Search { links, out, into, tables: vec![OnceLock::new(); nodes] }
    }

    /// Ways that go up, then down. With `tiers`, by node, links to a higher tier are up, which is
    /// right for trees of switches; levels are for links within a tier.
    pub(super) fn up_down(graph: &LinkGraph, tiers: &[u32]) -> Search {
        let mut search = Search::free(graph);
        let end = farthest(&search.levels(0));
        let levels = search.levels(end);
        let root = search.half_way(farthest(&levels), &levels);
        let levels = search.levels(root);
        for (from, to, up) in &mut search.links {
            let depth = |node: &u32| {
                let tier = tiers.get(*node as usize).copied().unwrap_or(0);
                (std::cmp::Reverse(tier), levels[*node as usize], *node)
            };
            *up = depth(to) < depth(from);
        }
        search
    }

    /// Links from a node to all others, whatever their direction.
    fn levels(&self, root: u32) -> Vec<u32> {
        let mut levels = vec![u32::MAX; self.out.len()];
        levels[root as usize] = 0;
        let mut open = VecDeque::from([root]);
        while let Some(node) = open.pop_front() {
            for next in self.beside(node) {
                if levels[next as usize] == u32::MAX {
                    levels[next as usize] = levels[node as usize] + 1;
                    open.push_back(next);
                }
            }
        }
        levels
    }

    fn beside(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let out = self.out[node as usize].iter().map(|&link| self.links[link as usize].1);
        out.chain(self.into[node as usize].iter().map(|&link| self.links[link as usize].0))
    }

    /// The node half way from `node` to where all levels are counted from.
    fn half_way(&self, node: u32, levels: &[u32]) -> u32 {
        let (mut at, half) = (node, levels[node as usize] / 2);
        while levels[at as usize] > half {
            let lower = |next: &u32| levels[*next as usize] < levels[at as usize];
            let Some(next) = self.beside(at).filter(lower).min() else { break };
            at = next;
        }
        at
    }

    /// Whether a link may come after another.
    pub(super) fn may_follow(&self, link: u32, next: u32) -> bool {
        self.links[link as usize].2 || !self.links[next as usize].2
    }

    /// Links that may come after each.
    pub(super) fn turns(&self) -> Vec<Vec<u32>> {
        let follow = |link: u32| {
            let next = self.out[self.links[link as usize].1 as usize].iter().copied();
            next.filter(move |&next| self.may_follow(link, next)).collect()
        };
        (0..self.links.len() as u32).map(follow).collect()
    }

    fn table(&self, dst: u32) -> &[[u16; 2]] {
        self.tables[dst as usize].get_or_init(|| {
            let mut far = vec![[FAR; 2]; self.out.len()];
            far[dst as usize] = [0; 2];
            let mut open = VecDeque::from([(dst, false), (dst, true)]);
            while let Some((node, down)) = open.pop_front() {
                let links = far[node as usize][usize::from(down)].saturating_add(1);
                for &link in &self.into[node as usize] {
                    let (from, _, up) = self.links[link as usize];
                    // A link up is for those that may go up before and after it.
                    let before: &[bool] = match (up, down) {
                        (true, false) => &[false],
                        (false, true) => &[false, true],
                        _ => &[],
                    };
                    for &before in before {
                        let known = &mut far[from as usize][usize::from(before)];
                        if *known == FAR {
                            *known = links;
                            open.push_back((from, before));
                        }
                    }
                }
            }
            far.into()
        })
    }

    /// The next link to `dst` of a packet that came to `node` by a link, if it came by one; `turn`
    /// chooses among equally short ways.
    pub(super) fn next(&self, node: u32, came: Option<u32>, dst: u32, turn: u64) -> Option<u32> {
        let far = self.table(dst);
        let down = came.is_some_and(|link| !self.links[link as usize].2);
        let here = far[node as usize][usize::from(down)];
        let leads = |link: &&u32| {
            let (_, to, up) = self.links[**link as usize];
            !(up && down) && far[to as usize][usize::from(!up)].checked_add(1) == Some(here)
        };
        let count = self.out[node as usize].iter().filter(leads).count() as u64;
        let turn = turn.checked_rem(count)?;
        self.out[node as usize].iter().filter(leads).nth(turn as usize).copied()
    }

    /// The links of a way from one node to another; nothing where there is none.
    pub(super) fn way(&self, src: u32, dst: u32) -> Option<Vec<u32>> {
        let (mut at, mut came, mut way) = (src, None, Vec::new());
        let mut random = Random::new(spread(src, dst));
        while at != dst {
            let link = self.next(at, came, dst, random.bits())?;
            way.push(link);
            (at, came) = (self.links[link as usize].1, Some(link));
        }
        Some(way)
    }

    /// A node from which there is no way to another.
    pub(super) fn cut_off(&self, dsts: std::ops::Range<u32>) -> Option<(u32, u32)> {
        dsts.into_iter().find_map(|dst| {
            let from = self.table(dst).iter().position(|far| far[0] == FAR)?;
            Some((from as u32, dst))
        })
    }
}

/// The node of the greatest level, the first of several.
fn farthest(levels: &[u32]) -> u32 {
    let level = |&node: &usize| (levels[node], std::cmp::Reverse(node));
    (0..levels.len()).filter(|&node| levels[node] != u32::MAX).max_by_key(level).unwrap_or(0) as u32
}

/// A number for a pair, so that pairs spread over equally short ways.
pub(super) fn spread(src: u32, dst: u32) -> u64 {
    Random::new(u64::from(src) << 32 | u64::from(dst)).bits() >> 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::{Block, Dim, Fabric};
    use units::{Bandwidth, Span};

    fn ring(size: u32) -> LinkGraph {
        let (bandwidth, latency) = (Bandwidth(1), Span(1));
        let dims = vec![Dim { block: Block::Ring, size, bandwidth, latency, parallel: 1 }];
        LinkGraph::new(&Fabric::Stacked(dims)).expect("a ring")
    }

    /// A ring with a root is a tree and one more link: no way passes the node opposite the root.
    #[test]
    fn ways_go_up_then_down() {
        let graph = ring(8);
        let search = Search::up_down(&graph, &[]);
        assert_eq!(super::super::circle::circle(&search.turns()), None);
        assert!(super::super::circle::circle(&Search::free(&graph).turns()).is_some());
        let mut longest = 0;
        for (src, dst) in (0..8).flat_map(|src| (0..8).map(move |dst| (src, dst))) {
            let way = search.way(src, dst).expect("a way");
            assert!(way.windows(2).all(|two| search.may_follow(two[0], two[1])), "{src} {dst}");
            longest = longest.max(way.len());
        }
        // Neighbours of the opposite node go all the way round.
        assert_eq!(longest, 6);
        assert_eq!(search.cut_off(0..8), None);
    }

    /// In a fat tree of three tiers, ways up and down by tiers are the shortest, and use every root.
    #[test]
    fn tiers_say_what_is_up_in_a_tree() {
        use topology::generate::{Values, Wire, generate, generator};
        let mut values = Values::default();
        values.set("radix", vec![4]);
        values.set("pods", vec![4]);
        values.set("planes", vec![1]);
        let wires = vec![Wire { bandwidth: Bandwidth(1), latency: Span(1) }; 3];
        let tree = generate(generator("fat_tree").expect("known"), values, wires).expect("a tree");
        let tiers: Vec<u32> = tree.nodes.iter().map(|node| node.tier).collect();
        let graph = LinkGraph::new(&Fabric::Graph(tree)).expect("connected");
        let (search, free) = (Search::up_down(&graph, &tiers), Search::free(&graph));
        let mut roots = std::collections::BTreeSet::new();
        for (src, dst) in (0..16).flat_map(|src| (0..16).map(move |dst| (src, dst))) {
            let way = search.way(src, dst).expect("a way");
            assert_eq!(way.len(), free.way(src, dst).expect("a way").len(), "{src} {dst}");
            let nodes = way.iter().map(|&link| graph.link(link).to);
            roots.extend(nodes.filter(|&node| tiers[node as usize] == 3));
        }
        assert_eq!(roots.len(), 4);
    }
}
