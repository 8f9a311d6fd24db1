//! Any network: an explicit list of one-way links, routed along the fewest links, then the least
//! latency.
//!
//! Next hops that are equally near are ordered by next node, then by link. NPUs and switches
//! forward alike. An NPU whose neighbours are all switches is a *host*: its distances follow from
//! those of its switches. So only switches (and NPUs joined to NPUs) have a table, made by a
//! breadth-first search from them, backwards, when it is first asked for; it holds a row for each
//! of the same nodes. Memory grows with the square of the switches, not of the NPUs. Tori and meshes
//! have no tables: a formula says how far any two NPUs are from each other. Neither do trees, whose
//! next hops follow from their numbers.
//!
//! The routes of a dragonfly are minimal by kind of link instead ([`groups`], `minimal.rs`).

use crate::GraphFabric;
use crate::Routing;
use crate::generate::{Climb, Metric, Rotation, groups, metric, tree};
use crate::link::{Hop, Link, LinkError};
use crate::minimal::spread;
use crate::recipe::Recipe;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;

/// No row: a host. No distance: no way.
const NONE: u32 = u32::MAX;

/// Links by node: those of node v are `links[start[v]..start[v + 1]]`.
#[derive(Clone, Debug)]
struct ByNode {
    start: Vec<u32>,
    links: Vec<u32>,
}

impl ByNode {
    /// Groups links by `node`, in the order of `other`, then by id.
    fn new(
        links: &[Link],
        nodes: u32,
        node: impl Fn(&Link) -> u32,
        other: impl Fn(&Link) -> u32,
    ) -> ByNode {
        let key = |&id: &u32| (node(&links[id as usize]), other(&links[id as usize]), id);
        let mut ids: Vec<u32> = (0..links.len() as u32).collect();
        ids.sort_unstable_by_key(key);
        let mut start = vec![0u32; nodes as usize + 1];
        links.iter().for_each(|l| start[node(l) as usize + 1] += 1);
        (0..nodes as usize).for_each(|v| start[v + 1] += start[v]);
        ByNode { start, links: ids }
    }

    fn of(&self, node: u32) -> &[u32] {
        &self.links[self.start[node as usize] as usize..self.start[node as usize + 1] as usize]
    }
}

/// Measure by which nodes are near.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Near {
    /// Few links, then little latency.
    Latency,
    /// The same, but the latency of links of hosts does not count: cards are equally near.
    Links,
}

/// Distance: links, then latency in picoseconds.
type Far = (u32, u64);
const NO_WAY: Far = (NONE, u64::MAX);

/// Ways from every node with a row to one of them.
#[derive(Clone, Debug)]
struct Table {
    /// Distance of each row, and where its next links start.
    rows: Box<[(Far, u32)]>,
    links: Box<[u32]>,
}

impl Table {
    fn far(&self, row: u32) -> Far {
        self.rows[row as usize].0
    }

    fn next(&self, row: u32) -> &[u32] {
        let row = row as usize;
        let end = self.rows.get(row + 1).map_or(self.links.len(), |next| next.1 as usize);
        &self.links[self.rows[row].1 as usize..end]
    }
}

/// Routes that the generator of a fabric knows.
#[derive(Clone, Debug)]
enum Drawn {
    /// Distances by formula; then no node has a row.
    Distances(Metric),
    /// Next hops of a tree by formula; then no node has a row.
    Tree(Climb),
    /// Group of each node, where routes take one link between two groups.
    Groups(Box<[u32]>),
}

impl Drawn {
    fn of(recipe: &Recipe) -> Option<Drawn> {
        let tree = || tree(recipe).map(|tree| Drawn::Tree(Climb::new(tree)));
        let groups = || groups(recipe).map(Drawn::Groups);
        metric(recipe).map(Drawn::Distances).or_else(tree).or_else(groups)
    }
}

/// The links of an explicit graph.
#[derive(Clone, Debug)]
pub(crate) struct GraphLinks {
    npus: u32,
    links: Vec<Link>,
    out: ByNode,
    into: ByNode,
    /// Row of each node in tables; none for hosts.
    row: Box<[u32]>,
    rows: u32,
    /// Place of each link among the links of its node and its kind, numbered in the same way at
    /// every node.
    alike: Box<[u32]>,
    /// Table of each row.
    tables: Box<[OnceLock<Table>]>,
    /// Routes that its generator knows.
    drawn: Option<Box<Drawn>>,
    /// Number of each NPU leaf by leaf; empty where that is its id.
    numbers: Box<[u32]>,
}

impl GraphLinks {
    pub(crate) fn new(fabric: &GraphFabric) -> Result<GraphLinks, LinkError> {
        let nodes = u32::try_from(fabric.nodes.len()).map_err(|_| LinkError::TooLarge)?;
        if fabric.links.len() >= NONE as usize || fabric.npus > nodes {
            return Err(LinkError::TooLarge);
        }
        let broken = |l: &crate::GraphLink| l.from >= nodes || l.to >= nodes || l.from == l.to;
        if let Some(link) = fabric.links.iter().position(broken) {
            return Err(LinkError::BadEnds { link });
        }
        let copy = |l: &crate::GraphLink| Link {
            from: l.from,
            to: l.to,
            bandwidth: l.bandwidth,
            latency: l.latency,
            dim: 0,
        };
        let links: Vec<Link> = fabric.links.iter().map(copy).collect();
        let out = ByNode::new(&links, nodes, |l| l.from, |l| l.to);
        let into = ByNode::new(&links, nodes, |l| l.to, |l| l.from);
        let whole = fabric.recipe.as_ref().filter(|_| fabric.failed.is_empty());
        let drawn = whole.and_then(|recipe| Drawn::of(recipe)).map(Box::new);
        let (row, rows) = match drawn.as_deref() {
            Some(Drawn::Distances(_) | Drawn::Tree(_)) => (vec![NONE; nodes as usize], 0),
            _ => rows(fabric.npus, nodes, &links),
        };
        let mut graph = GraphLinks {
            npus: fabric.npus,
            alike: Box::default(),
            tables: (0..rows).map(|_| OnceLock::new()).collect(),
            links,
            out,
            into,
            row: row.into(),
            rows,
            drawn,
            numbers: Box::default(),
        };
        graph.alike = graph.number_alike().into();
        graph.numbers = graph.number_by_leaf(fabric).into();
        graph.connected()?;
        Ok(graph)
    }

    fn number_alike(&self) -> Vec<u32> {
        let mut known = BTreeMap::new();
        let mut alike = vec![0; self.links.len()];
        for node in 0..self.nodes() {
            for (at, &id) in self.out.of(node).iter().enumerate() {
                let link = &self.links[id as usize];
                let next = known.len() as u32;
                alike[id as usize] =
                    *known.entry((at, link.bandwidth.0, link.latency.0)).or_insert(next);
            }
        }
        alike
    }

    /// NPUs in the order of the switches above them, the highest first: those at one leaf follow one
    /// another, as the hosts of a fat tree do.
    fn number_by_leaf(&self, fabric: &GraphFabric) -> Vec<u32> {
        let tier = |node: u32| fabric.nodes[node as usize].tier;
        let above = |node: u32| {
            let next = self.out.of(node).iter().map(|&id| self.links[id as usize].to);
            let next = next.filter(|&to| to >= self.npus);
            next.filter(|&to| node < self.npus || tier(to) > tier(node))
                .max_by_key(|&to| (tier(to), to))
        };
        let path = |npu: u32| {
            let mut path: Vec<u32> =
                std::iter::successors(Some(npu), |&node| above(node)).collect();
            path.reverse();
            path
        };
        let mut order: Vec<u32> = (0..self.npus).collect();
        order.sort_by_cached_key(|&npu| path(npu));
        if order.is_sorted() {
            return Vec::new();
        }
        let mut numbers = vec![0; order.len()];
        (0..).zip(&order).for_each(|(number, &npu)| numbers[npu as usize] = number);
        numbers
    }

    /// How many equally near next links an NPU has to another one; at least 1.
    #[inline]
    pub(crate) fn ways(&self, src: u32, dst: u32, near: Near) -> u32 {
        if self.out.of(src).len() < 2 {
            return 1;
        }
        (self.choices(src, dst, near).len() as u32).max(1)
    }

    /// Whether an NPU has parallel links, or several links to switches.
    pub(crate) fn has_cards(&self) -> bool {
        let alike = |pair: &[u32]| {
            let (a, b) = (self.hop(pair[0]).to, self.hop(pair[1]).to);
            a == b || a >= self.npus && b >= self.npus
        };
        // Links are in the order of the nodes that they lead to.
        (0..self.npus).any(|npu| self.out.of(npu).windows(2).any(alike))
    }

    /// Over how many cards a message may leave; 1 where ways relay it over different NPUs.
    pub(crate) fn cards(&self, src: u32, dst: u32) -> u16 {
        if self.out.of(src).len() < 2 {
            return 1;
        }
        let links = self.choices(src, dst, Near::Links);
        let to = |&link: &u32| self.hop(link).to;
        let is_one = links.windows(2).all(|pair| to(&pair[0]) == to(&pair[1]));
        let spreads = is_one || links.iter().all(|link| to(link) >= self.npus);
        if spreads { u16::try_from(links.len()).unwrap_or(u16::MAX).max(1) } else { 1 }
    }

    /// The first of the links that messages share which leave by `link`.
    pub(crate) fn first_card(&self, link: u32) -> u32 {
        let Link { from, to, .. } = self.links[link as usize];
        let shared = |other: &&u32| {
            let other = self.hop(**other).to;
            other == to || other >= self.npus && to >= self.npus
        };
        self.out.of(from).iter().find(shared).copied().unwrap_or(link)
    }

    /// The number of an NPU by which routes to it are spread.
    #[inline]
    pub(crate) fn number(&self, npu: u32) -> u32 {
        self.numbers.get(npu as usize).copied().unwrap_or(npu)
    }

    /// Every NPU reaches every other: enough that all reach NPU 0 and NPU 0 reaches all.
    fn connected(&self) -> Result<(), LinkError> {
        if self.npus == 0 {
            return Ok(());
        }
        let to_first = self.distances(0, &self.into, |l| l.from);
        if let Some(from) = (1..self.npus).find(|&v| to_first[v as usize] == NONE) {
            return Err(LinkError::Unreachable { from, to: 0 });
        }
        let from_first = self.distances(0, &self.out, |l| l.to);
        match (1..self.npus).find(|&v| from_first[v as usize] == NONE) {
            Some(to) => Err(LinkError::Unreachable { from: 0, to }),
            None => Ok(()),
        }
    }

    /// Links from NPU `first` to each node along `links`, each leading to its `end`; [`NONE`] where
    /// there is no way.
    fn distances(&self, first: u32, links: &ByNode, end: impl Fn(&Link) -> u32) -> Vec<u32> {
        let mut far = vec![NONE; self.nodes() as usize];
        let mut queue = VecDeque::from([first]);
        far[first as usize] = 0;
        while let Some(node) = queue.pop_front() {
            for &id in links.of(node) {
                let next = end(&self.links[id as usize]);
                if far[next as usize] == NONE {
                    far[next as usize] = far[node as usize] + 1;
                    queue.push_back(next);
                }
            }
        }
        far
    }

    /// Links from NPU `src` to the NPU that is farthest from it; `None` where routes are not the
    /// shortest.
    pub(crate) fn farthest(&self, src: u32) -> Option<u32> {
        if matches!(self.drawn.as_deref(), Some(Drawn::Groups(_))) {
            return None;
        }
        let far = self.distances(src, &self.out, |l| l.to);
        far[..self.npus as usize].iter().copied().max()
    }

    pub(crate) fn npus(&self) -> u32 {
        self.npus
    }

    pub(crate) fn nodes(&self) -> u32 {
        self.row.len() as u32
    }

    pub(crate) fn len(&self) -> u32 {
        self.links.len() as u32
    }

    pub(crate) fn link(&self, link: u32) -> Link {
        self.links[link as usize].clone()
    }

    pub(crate) fn hop(&self, link: u32) -> Hop {
        Hop { link, to: self.links[link as usize].to, dim: 0 }
    }

    /// The link's place among those of its node, numbered alike at every node.
    pub(crate) fn alike(&self, link: u32) -> u32 {
        self.alike[link as usize]
    }

    /// A turn of the fabric that takes routes to routes, if one is known.
    pub(crate) fn rotation(&self, routing: Routing) -> Option<Rotation> {
        match self.drawn.as_deref() {
            Some(Drawn::Tree(climb)) => climb.rotation(routing),
            _ => None,
        }
    }

    /// The equally near next links from `node` to `dst`, by next node, then by id; none when they
    /// are the same.
    pub(crate) fn choices(&self, node: u32, dst: u32, near: Near) -> Cow<'_, [u32]> {
        if node == dst {
            return Cow::Borrowed(&[]);
        }
        if let Some(Drawn::Tree(climb)) = self.drawn.as_deref() {
            return Cow::Borrowed(climb.choices(self.out.of(node), node, dst));
        }
        if self.row[node as usize] == NONE {
            let out = self.out.of(node);
            return match out {
                [_] => Cow::Borrowed(out),
                _ => self.nearest(out, near, |l| self.far(l.to, dst, near)).0,
            };
        }
        if self.row[dst as usize] != NONE {
            return Cow::Borrowed(self.table(dst).next(self.row[node as usize]));
        }
        self.to_host(node, dst, near)
    }

    /// [`GraphLinks::choices`] to a host from a node with a row: the ways to those of the host's
    /// switches over which it is nearest.
    fn to_host(&self, node: u32, dst: u32, near: Near) -> Cow<'_, [u32]> {
        let row = self.row[node as usize];
        let gates = self.into.of(dst);
        let (last, _) = self.nearest(gates, near, |l| self.table(l.from).far(row));
        let mut gates = last.iter().map(|&id| self.links[id as usize].from);
        let first = gates.next().unwrap_or(dst);
        if first == node {
            return last;
        }
        let next = self.table(first).next(row);
        let mut all: Vec<u32> = Vec::new();
        let mut before = first;
        for gate in gates.filter(|&gate| gate != std::mem::replace(&mut before, gate)) {
            if all.is_empty() {
                all = next.to_vec();
            }
            all.extend(self.table(gate).next(row));
        }
        if all.is_empty() {
            return Cow::Borrowed(next);
        }
        all.sort_unstable_by_key(|&id| (self.links[id as usize].to, id));
        all.dedup();
        Cow::Owned(all)
    }

    /// Those of `links` of a host over which it is nearest, and how far; `rest` is the distance without the
    /// link.
    fn nearest<'a>(
        &self,
        links: &'a [u32],
        near: Near,
        rest: impl Fn(&Link) -> Far,
    ) -> (Cow<'a, [u32]>, Far) {
        let far = |&id: &u32| {
            let link = &self.links[id as usize];
            let (hops, latency) = rest(link);
            let own = if near == Near::Links { 0 } else { link.latency.0 };
            (hops.saturating_add(1), latency.saturating_add(own))
        };
        if let [only] = links {
            return (Cow::Borrowed(links), far(only));
        }
        let all: Vec<Far> = links.iter().map(far).collect();
        let best = all.iter().copied().min().unwrap_or(NO_WAY);
        let kept = links.iter().zip(&all).filter(|&(_, &far)| far == best).map(|(&id, _)| id);
        (Cow::Owned(kept.collect()), best)
    }

    /// Distance between two nodes.
    fn far(&self, node: u32, dst: u32, near: Near) -> Far {
        if let Some(Drawn::Distances(metric)) = self.drawn.as_deref() {
            return metric.far(node, dst);
        }
        match (self.row[node as usize], self.row[dst as usize]) {
            _ if node == dst => (0, 0),
            (NONE, _) => self.nearest(self.out.of(node), near, |l| self.far(l.to, dst, near)).1,
            (row, NONE) => self.nearest(self.into.of(dst), near, |l| self.table(l.from).far(row)).1,
            (row, _) => self.table(dst).far(row),
        }
    }

    /// The ways to a node with a row.
    fn table(&self, dst: u32) -> &Table {
        let table = || match self.drawn.as_deref() {
            Some(Drawn::Groups(groups)) => self.minimal(dst, groups),
            _ => self.search(dst),
        };
        self.tables[self.row[dst as usize] as usize].get_or_init(table)
    }

    /// The ways to `dst`: within its `group` the shortest; from elsewhere over one cable to its
    /// group. A link is there once for each part of what its node sends.
    fn minimal(&self, dst: u32, group: &[u32]) -> Table {
        let shortest = self.search(dst);
        let home = group[dst as usize];
        let of = |id: &u32| group[self.links[*id as usize].to as usize];
        let cables =
            |&node: &u32| self.out.of(node).iter().filter(|id| of(id) == home).count() as u32;
        let switches: Vec<u32> =
            (0..self.nodes()).filter(|&node| self.row[node as usize] != NONE).collect();
        let (mut rows, mut links) = (Vec::with_capacity(switches.len()), Vec::new());
        for members in switches.chunk_by(|&a, &b| group[a as usize] == group[b as usize]) {
            let cables: Vec<u32> = members.iter().map(cables).collect();
            for (at, &node) in members.iter().enumerate() {
                let row = self.row[node as usize];
                rows.push((shortest.far(row), links.len() as u32));
                if group[node as usize] == home {
                    links.extend(shortest.next(row));
                    continue;
                }
                let spread = spread(&cables, at);
                for id in self.out.of(node) {
                    let to = self.links[*id as usize].to;
                    let over = members.binary_search(&to).map_or(0, |to| spread.over[to]);
                    let parts = if of(id) == home { spread.own } else { over };
                    links.extend(std::iter::repeat_n(*id, parts as usize));
                }
            }
        }
        Table { rows: rows.into(), links: links.into() }
    }

    /// Breadth first from `dst`, backwards. A node is popped after every node nearer to `dst`, so
    /// its distance is final then.
    fn search(&self, dst: u32) -> Table {
        let mut far = vec![NO_WAY; self.row.len()];
        far[dst as usize] = (0, 0);
        let mut queue = VecDeque::from([dst]);
        while let Some(node) = queue.pop_front() {
            let (hops, latency) = far[node as usize];
            for &id in self.into.of(node) {
                let link = &self.links[id as usize];
                let from = &mut far[link.from as usize];
                if from.0 == NONE {
                    queue.push_back(link.from);
                }
                *from = (*from).min((hops + 1, latency.saturating_add(link.latency.0)));
            }
        }
        let mut table = (Vec::with_capacity(self.rows as usize), Vec::new());
        for node in (0..self.nodes()).filter(|&v| self.row[v as usize] != NONE) {
            let here = far[node as usize];
            table.0.push((here, table.1.len() as u32));
            let near = |&&id: &&u32| {
                let link = &self.links[id as usize];
                let (hops, latency) = far[link.to as usize];
                hops != NONE && (hops + 1, latency.saturating_add(link.latency.0)) == here
            };
            table.1.extend(self.out.of(node).iter().filter(near));
        }
        Table { rows: table.0.into(), links: table.1.into() }
    }
}

/// Numbers the nodes that have a row: all but the NPUs whose neighbours are all switches.
fn rows(npus: u32, nodes: u32, links: &[Link]) -> (Vec<u32>, u32) {
    let mut host: Vec<bool> = (0..nodes).map(|node| node < npus).collect();
    for link in links.iter().filter(|l| l.from < npus && l.to < npus) {
        host[link.from as usize] = false;
        host[link.to as usize] = false;
    }
    let mut rows = 0;
    let mut number = |&host: &bool| {
        if host {
            return NONE;
        }
        rows += 1;
        rows - 1
    };
    let row = host.iter().map(&mut number).collect();
    (row, rows)
}
