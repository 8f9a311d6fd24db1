//! Routes over a node at random: any traffic becomes two halves that are uniform.
//!
//! A packet first goes to an intermediate node, then to its destination, each half on a minimal
//! route. The halves have classes of their own, so a channel of the second half never waits for one
//! of the first, and each half is proved by itself. On a graph with switches, the intermediate nodes
//! are the switches that have NPUs; else they are the NPUs. Source: Valiant and Brebner, "Universal
//! schemes for parallel communication", STOC 1981.

use super::datelines::Datelines;
use super::layers;
use super::plan_request::{PlanRequest, datelines};
use super::proof::Dependencies;
use super::routing_choice::{Hop, Refusal};
use super::search::{Search, spread};
use topology::{Fabric, LinkGraph};

/// Which nodes, and the routes to and from them.
#[derive(Clone, Debug)]
pub(super) struct Valiant {
    seed: u64,
    /// Intermediate nodes.
    via: Vec<u32>,
    halves: Halves,
    /// Classes of a half.
    half: u16,
    /// Packets that each NPU has sent.
    sent: Vec<u64>,
}

#[derive(Clone, Debug)]
enum Halves {
    Stack(Datelines),
    /// Shortest ways; classes by NPU and intermediate node, and by intermediate node and NPU.
    Graph {
        search: Box<Search>,
        layers: [Vec<u8>; 2],
    },
}

impl Valiant {
    pub(super) fn new(request: &PlanRequest<'_>, seed: u64) -> Result<Valiant, Refusal> {
        let (links, npus) = (request.links, request.links.npus());
        let sent = vec![0; npus as usize];
        if let Fabric::Stacked(_) = request.fabric {
            let lines = datelines(request, |lines| {
                let mut all = Dependencies::new(links.len(), lines.classes);
                let pairs = lines.pairs().into_iter();
                pairs.for_each(|(a, b)| all.add_route(&lines.hops(links, a, b)));
                all.check()
            })?;
            let half = lines.classes;
            let via = (0..npus).collect();
            return Ok(Valiant { seed, via, halves: Halves::Stack(lines), half, sent });
        }
        let via = intermediate(links);
        let search = Box::new(Search::free(links));
        let (halves, half) = of_graph(request, search, &via)?;
        Ok(Valiant { seed, via, halves, half, sent })
    }

    /// Classes of both halves.
    pub(super) fn classes(&self) -> u16 {
        2 * self.half
    }

    /// The intermediate node of the next packet of an NPU: its place among all.
    pub(super) fn choose(&mut self, src: u32) -> u32 {
        let sent = &mut self.sent[src as usize];
        *sent += 1;
        let number = engine::Random::new(self.seed ^ spread(src, 0)).bits() ^ *sent;
        engine::Random::new(number).below(self.via.len() as u64) as u32
    }

    /// Links and classes from an NPU to the intermediate node at a place.
    pub(super) fn first(&self, links: &LinkGraph, src: u32, via: u32) -> Vec<Hop> {
        let to = self.via[via as usize];
        match &self.halves {
            Halves::Stack(lines) => lines.hops(links, src, to),
            Halves::Graph { search, layers } => {
                let class = class(&layers[0], src as usize * self.via.len() + via as usize);
                on(search, src, to, class)
            }
        }
    }

    /// Links and classes from the intermediate node at a place to an NPU.
    pub(super) fn second(&self, links: &LinkGraph, via: u32, dst: u32) -> Vec<Hop> {
        let from = self.via[via as usize];
        let hops = match &self.halves {
            Halves::Stack(lines) => lines.hops(links, from, dst),
            Halves::Graph { search, layers } => {
                on(search, from, dst, class(&layers[1], (via * links.npus() + dst) as usize))
            }
        };
        let later = |hop: Hop| Hop { class: hop.class + self.half, ..hop };
        hops.into_iter().map(later).collect()
    }
}

fn class(layers: &[u8], at: usize) -> u16 {
    layers.get(at).copied().unwrap_or(0).into()
}

fn on(search: &Search, from: u32, to: u32, class: u16) -> Vec<Hop> {
    let links = search.way(from, to).unwrap_or_default();
    links.into_iter().map(|link| Hop { link, class }).collect()
}

/// Switches with NPUs, or all NPUs.
fn intermediate(links: &LinkGraph) -> Vec<u32> {
    let npus = links.npus();
    let mut has_npus = vec![false; links.nodes() as usize];
    for link in (0..links.len()).map(|link| links.link(link)).filter(|link| link.from < npus) {
        has_npus[link.to as usize] = true;
    }
    let switches: Vec<u32> =
        (npus..links.nodes()).filter(|&node| has_npus[node as usize]).collect();
    if switches.is_empty() { (0..npus).collect() } else { switches }
}

/// The classes of both halves on a graph.
fn of_graph(
    request: &PlanRequest<'_>,
    search: Box<Search>,
    via: &[u32],
) -> Result<(Halves, u16), Refusal> {
    let (links, npus, count) = (request.links, request.links.npus(), via.len() as u32);
    let first = |pair: u32| search.way(pair / count, via[(pair % count) as usize]);
    let second = |pair: u32| search.way(via[(pair / npus) as usize], pair % npus);
    let assign = |way: &dyn Fn(u32) -> Option<Vec<u32>>| {
        let routes = npus.saturating_mul(count);
        let route = |pair| way(pair).unwrap_or_default();
        if let Some(found) = layers::assign((routes, links.len()), route, request.most()) {
            return Ok(found);
        }
        let mut all = Dependencies::new(links.len(), 1);
        let hop = |link| Hop { link, class: 0 };
        for pair in 0..routes {
            all.add_route(&route(pair).into_iter().map(hop).collect::<Vec<_>>());
        }
        request.overrule(all.check()).map(|()| (Vec::new(), 1))
    };
    let ((to, one), (from, two)) = (assign(&first)?, assign(&second)?);
    Ok((Halves::Graph { search, layers: [to, from] }, one.max(two)))
}
