//! Which links are alike in a folded run, for backends on which transfers share links.
//!
//! Links are alike when they cost the same and carry, of each colour of flows, equally many; flows
//! are of one colour when they are the same message of the same script of ranks of one colour. If
//! in addition all flows of a colour go over links that are alike, the partition of flows and links
//! is equitable: max-min fair rates, which are unique, are then equal for all flows of a colour, at
//! all times. So one link of each class, with the capacity of all of them, carries what one rank of
//! each class sends for all.
//!
//! Where every message stays within a dimension of a stack, that holds without looking: a link
//! belongs to the NPU that it leaves or that it enters from a switch, and refinement has compared
//! what those send and receive. Everything else is checked, route by route. Where a turn of a
//! generated fabric takes flows to flows and routes to routes (`rotations.rs`), only the ranks of one
//! turn are looked at: links to which turns take a link carry the same.

use super::fingerprints::Hash;
use super::programs::Message;
use super::{Finder, Peers, Ports};
use collective::To;
use executor::Folding;
use lowering::Geometry;
use network::{Alike, LinkClasses};
use rustc_hash::{FxHashMap, FxHashSet};
use topology::{Dim, Fabric, LinkGraph, Paths, Splitter, Symmetry};

/// Most hops that are looked at.
const HOPS: u64 = 1 << 24;

/// Links of a stack: those in the same place of NPUs of one class are alike.
struct ByOwner {
    graph: LinkGraph,
    folding: Folding,
    /// Ranks by class.
    members: Vec<Vec<u32>>,
    /// By link of a representative: the link that stands for its class.
    first: FxHashMap<u32, u32>,
}

impl ByOwner {
    fn new(graph: LinkGraph, folding: Folding) -> ByOwner {
        let mut members = vec![Vec::new(); folding.representatives.len()];
        (0..graph.npus()).for_each(|rank| members[folding.local(rank) as usize].push(rank));
        ByOwner { graph, folding, members, first: FxHashMap::default() }
    }
}

impl LinkClasses for ByOwner {
    fn of(&mut self, link: u32) -> (u32, u64) {
        let ByOwner { graph, folding, members, first } = self;
        let class = |npu: u32| folding.local(npu) as usize;
        let Some(owner) = graph.owner(link) else { return (link, 1) };
        let key = graph.same_place(link, |npu| folding.representatives[class(npu)]);
        let ranks = &members[class(owner)];
        let first = first.entry(key).or_insert_with(|| {
            let links = ranks.iter().map(|&rank| graph.same_place(key, |_| rank));
            links.min_by_key(|&link| ends(graph, link)).unwrap_or(key)
        });
        (*first, ranks.len() as u64)
    }
}

/// The order by which reports name links.
fn ends(graph: &LinkGraph, link: u32) -> (u32, u32) {
    let topology::Link { from, to, .. } = graph.link(link);
    (from, to)
}

/// The link that represents each link, and the number of links that it represents.
struct Listed(Vec<(u32, u64)>);

impl LinkClasses for Listed {
    fn of(&mut self, link: u32) -> (u32, u64) {
        self.0[link as usize]
    }
}

/// Sums that do not depend on the order of what is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Sum(u64, u64);

impl Sum {
    fn add(&mut self, words: &[u64]) {
        let mut hash = Hash::default();
        words.iter().for_each(|&word| hash.add(word));
        let (a, b) = hash.value();
        (self.0, self.1) = (self.0.wrapping_add(a), self.1.wrapping_add(b));
    }
}

/// A flow: a number for its colour, source and destination.
type Flow = ((u64, u64), u32, u32);

impl Finder<'_> {
    /// The classes of links for `folding`; `None` where the backend needs none.
    pub(super) fn link_classes(
        &mut self,
        folding: &Folding,
    ) -> Result<Option<Box<dyn LinkClasses>>, String> {
        if self.network.alike() != Alike::Classes {
            return Ok(None);
        }
        let graph = LinkGraph::new(&self.platform.fabric).map_err(|error| error.to_string())?;
        let graph =
            graph.with_routing(self.platform.fabric.splitting(self.platform.network.routing));
        let plain = match &self.platform.fabric {
            Fabric::Stacked(dims) => self.stays_in_dimensions(dims),
            Fabric::Graph(_) => false,
        };
        if plain {
            return Ok(Some(Box::new(ByOwner::new(graph, folding.clone()))));
        }
        let listed = self.list(&graph)?;
        Ok(Some(Box::new(listed)))
    }

    /// Whether every message stays within a dimension, and meets only what its own NPU or its
    /// destination see, or passes along a line on which all are alike.
    fn stays_in_dimensions(&mut self, dims: &[Dim]) -> bool {
        for rank in 0..self.colours.len() as u32 {
            let ports = self.ports[self.first[rank as usize] as usize].clone();
            let fits = |(index, ports)| self.stays_on_line(rank, (index, ports), dims);
            if !ports.iter().enumerate().all(fits) {
                return false;
            }
        }
        self.messages_stay(dims)
    }

    fn stays_on_line(&mut self, rank: u32, (index, ports): (usize, &Ports), dims: &[Dim]) -> bool {
        let Geometry::Line { stride, size } = ports.geometry else { return false };
        let Some((dim, symmetry, full)) = self.platform.fabric.line(stride, size) else {
            return false;
        };
        if dims[dim].block.paths() != Paths::Relayed {
            return true;
        }
        let mut peers = ports.phases.iter().flat_map(|p| &p.scripts).flatten().flat_map(|s| &s.1);
        let next = |to: &To| matches!(to, To::Shift(k) if *k == 1 || *k + 1 == size);
        let round = full && symmetry == Symmetry::Rotation;
        round
            && (peers.all(|(to, _)| next(to)) || {
                ports.homogeneous && self.line_of_one_colour(rank, ports, index).is_some()
            })
    }

    /// Whether messages between ranks cross one dimension, by a switch or a link of their own.
    fn messages_stay(&self, dims: &[Dim]) -> bool {
        let crosses_one = |rank: u32, peer: i32| {
            let (mut a, mut b, mut crossed) = (rank, rank.wrapping_add_signed(peer), 0);
            for dim in dims {
                let (x, y) = (a % dim.size, b % dim.size);
                let relayed = dim.block.paths() == Paths::Relayed;
                crossed += match dim.block.hops(dim.size, x, y) {
                    hops if relayed => hops,
                    hops => hops.min(1),
                };
                (a, b) = (a / dim.size, b / dim.size);
            }
            crossed <= 1
        };
        (0..).zip(&self.workload.ranks).all(|(rank, binding)| {
            let messages = &self.programs.messages[binding.program as usize];
            messages.iter().all(|message| crosses_one(rank, message.peer))
        })
    }

    /// Classes of links, found by going over every route twice: which flows meet on each link, and
    /// whether flows of one colour meet the same links.
    fn list(&self, graph: &LinkGraph) -> Result<Listed, String> {
        let mut splitter = Splitter::default();
        let mut met = vec![Sum::default(); graph.len() as usize];
        let mut hops = 0;
        let turn = graph.rotation().filter(|turn| self.turns(turn.npus));
        let ranks = turn.as_ref().map_or(self.workload.ranks.len() as u32, |turn| turn.npus);
        let lowest = |link: u32| turn.as_ref().map_or(link, |turn| turn.lowest(link)) as usize;
        self.each_flow(ranks, &mut |(colour, src, dst)| {
            splitter.find(graph, (src, dst), u64::MAX);
            hops += splitter.found.len() as u64;
            for part in &splitter.found {
                met[lowest(part.link)].add(&[colour.0, colour.1, part.parts]);
            }
            hops <= HOPS
        })?;
        // Links of different tiers stay apart, as in reports and pictures.
        let tier = |node: u32| match &self.platform.fabric {
            Fabric::Graph(graph) => graph.nodes[node as usize].tier,
            Fabric::Stacked(_) => u32::from(node >= graph.npus()),
        };
        let mut known: FxHashMap<_, (u32, u64)> = FxHashMap::default();
        let key = |id: u32| {
            let link = graph.link(id);
            let tiers = (tier(link.from), tier(link.to));
            (met[lowest(id)], link.dim, tiers, link.bandwidth.0, link.latency.0)
        };
        for id in 0..graph.len() {
            let (first, count) = known.entry(key(id)).or_insert((id, 0));
            *count += 1;
            if ends(graph, id) < ends(graph, *first) {
                *first = id;
            }
        }
        let listed: Vec<(u32, u64)> = (0..graph.len()).map(|id| known[&key(id)]).collect();
        let mut routes: FxHashMap<(u64, u64), Sum> = FxHashMap::default();
        let mut differ = false;
        self.each_flow(ranks, &mut |(colour, src, dst)| {
            let mut route = Sum::default();
            splitter.find(graph, (src, dst), u64::MAX);
            for part in &splitter.found {
                route.add(&[listed[part.link as usize].0.into(), part.parts]);
            }
            differ |= *routes.entry(colour).or_insert(route) != route;
            !differ
        })
        .map_err(|_| "transfers of alike ranks share links with different others".to_string())?;
        Ok(Listed(listed))
    }

    /// Calls `each` with every flow that the first `ranks` may send; it stops the walk by returning
    /// false.
    fn each_flow(&self, ranks: u32, each: &mut impl FnMut(Flow) -> bool) -> Result<(), String> {
        let all = (0..ranks).all(|rank| self.flows_of(rank, each));
        all.then_some(()).ok_or_else(|| "there are too many routes to compare".into())
    }

    fn flows_of(&self, rank: u32, each: &mut impl FnMut(Flow) -> bool) -> bool {
        let ports = &self.ports[self.first[rank as usize] as usize];
        let collectives = (0u64..)
            .zip(ports.iter())
            .all(|(index, ports)| self.flows_of_ports(rank, index, ports, each));
        let colour = u64::from(self.colours[rank as usize]);
        let program = self.workload.ranks[rank as usize].program as usize;
        let mut messages = self.programs.messages[program].iter();
        // Both ends list a message, and announcements go the other way.
        collectives
            && messages.all(|&Message { port, peer, bytes }| {
                let other = rank.wrapping_add_signed(peer);
                let mut flow = |src: u32, dst: u32, back: u64| {
                    let words = [colour, u64::MAX, port.into(), bytes, back];
                    (src == dst || dst.max(src) as usize >= self.colours.len())
                        || each((colour_of(&words), src, dst))
                };
                flow(rank, other, 0) && flow(other, rank, 1)
            })
    }

    fn flows_of_ports(
        &self,
        rank: u32,
        index: u64,
        ports: &Ports,
        each: &mut impl FnMut(Flow) -> bool,
    ) -> bool {
        let group = self.workload.group_of(rank, ports.slot);
        let members = &self.workload.groups[group as usize].members;
        let (position, base, stride) = match ports.geometry {
            Geometry::Line { stride, size } => {
                let position = rank / stride % size;
                (position, rank - position * stride, stride)
            }
            Geometry::Group => (members.position(rank, self.settings.ranks).unwrap_or(0), 0, 0),
        };
        let at = |p: u32| if stride > 0 { base + p * stride } else { members.rank(p) };
        let colour = u64::from(self.colours[rank as usize]);
        for (number, Peers { phase, .. }) in (0u64..).zip(&ports.phases) {
            if !phase.only.iter().all(|f| rank / f.stride % f.size == f.at) {
                continue;
            }
            let plans = phase.plans.iter().flat_map(|d| [&d.forward.plan, &d.backward.plan]);
            for (which, plan) in (0u64..).zip(plans) {
                let steps = plan.script(position).steps.iter();
                let mut known: FxHashSet<(To, u64)> = FxHashSet::default();
                let sends = steps
                    .filter_map(|step| Some((step.to?, step.bytes)))
                    .filter(|&send| known.insert(send));
                for (order, (to, bytes)) in (0u64..).zip(sends) {
                    let peer = to.position(position, plan.n);
                    let mut flow = |src, dst, back| {
                        let words = [colour, index, number, which, order, bytes, back];
                        peer == position || each((colour_of(&words), src, dst))
                    };
                    let announced = self.settings.rendezvous;
                    if !flow(rank, at(peer), 0) || announced && !flow(at(peer), rank, 1) {
                        return false;
                    }
                }
            }
        }
        true
    }
}

fn colour_of(words: &[u64]) -> (u64, u64) {
    let mut hash = Hash::default();
    words.iter().for_each(|&word| hash.add(word));
    hash.value()
}
