//! Plans: the routes of a course with a class for each link, proved before the run.

use super::adaptive::Adaptive;
use super::course::{Course, Hop, Refusal, Table};
use super::datelines::Datelines;
use super::layers;
use super::proof::Dependencies;
use super::search::Search;
use super::valiant::Valiant;
use super::wish::{Wish, datelines, up_down};
use std::sync::Arc;
use topology::{Fabric, LinkGraph};

/// How packets find their way.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// On whole routes.
    Whole(Whole),
    /// Over a node at random.
    Valiant(Valiant),
    /// By choice at every router.
    Adaptive(Adaptive),
}

/// Whole routes from every NPU to every other.
#[derive(Clone, Debug)]
pub(super) enum Whole {
    /// Those of a stack, with datelines.
    Stack(Datelines),
    /// Those of a graph, and the class of each pair of NPUs; no class where one is enough.
    Graph(Vec<u8>),
    /// Up, then down.
    UpDown(Box<Search>),
    /// By a table.
    Table(Arc<Table>),
}

impl Plan {
    /// The plan of a course, and the classes that it needs.
    ///
    /// # Errors
    /// Every [`Refusal`].
    pub(super) fn new(wish: &Wish<'_>) -> Result<(Plan, u16), Refusal> {
        let links = wish.links;
        match (wish.course, wish.fabric) {
            (Course::Topology, Fabric::Stacked(_)) => {
                let lines = datelines(wish, |lines| {
                    let mut all = Dependencies::new(links.len(), lines.classes);
                    let pairs = lines.pairs().into_iter();
                    pairs.for_each(|(a, b)| all.add_route(&lines.hops(links, a, b)));
                    all.check()
                })?;
                let classes = lines.classes;
                Ok((Plan::Whole(Whole::Stack(lines)), classes))
            }
            (Course::Topology, Fabric::Graph(_)) => {
                let (classes, count) = of_graph(wish)?;
                Ok((Plan::Whole(Whole::Graph(classes)), count))
            }
            (Course::UpDown, _) => Ok((Plan::Whole(Whole::UpDown(up_down(wish)?.into())), 1)),
            (Course::Table(table), _) => {
                let whole = Whole::Table(table.clone());
                let mut all = Dependencies::new(links.len(), 1);
                for (src, dst) in wish.pairs() {
                    all.add_route(&by_table(table, links, src, dst)?);
                }
                wish.overrule(all.check())?;
                Ok((Plan::Whole(whole), 1))
            }
            (Course::Valiant { seed }, _) => {
                let valiant = Valiant::new(wish, *seed)?;
                let classes = valiant.classes();
                Ok((Plan::Valiant(valiant), classes))
            }
            (Course::Adaptive, _) => {
                let adaptive = Adaptive::new(wish)?;
                let classes = adaptive.classes();
                Ok((Plan::Adaptive(adaptive), classes))
            }
        }
    }
}

/// The classes of a graph's routes, and how many.
fn of_graph(wish: &Wish<'_>) -> Result<(Vec<u8>, u16), Refusal> {
    let (links, npus) = (wish.links, wish.links.npus());
    let hop = |hop: topology::Hop| Hop { link: hop.link, class: 0 };
    let mut all = Dependencies::new(links.len(), 1);
    for (src, dst) in wish.pairs() {
        all.add_route(&links.route(src, dst).map(hop).collect::<Vec<_>>());
    }
    let Err(refusal) = all.check() else { return Ok((Vec::new(), 1)) };
    let route = |pair: u32| links.route(pair / npus, pair % npus).map(|hop| hop.link).collect();
    let pairs = npus.saturating_mul(npus);
    match layers::assign((pairs, links.len()), route, wish.most()) {
        Some(found) => Ok(found),
        None => wish.overrule(Err(refusal)).map(|()| (Vec::new(), 1)),
    }
}

/// The route of a table.
fn by_table(table: &Table, links: &LinkGraph, src: u32, dst: u32) -> Result<Vec<Hop>, Refusal> {
    let (mut at, mut hops, mut nodes) = (src, Vec::new(), vec![src]);
    while at != dst {
        let link = table.next(at, dst).ok_or(Refusal::NoWay { at, to: dst })?;
        hops.push(Hop { link, class: 0 });
        at = links.link(link).to;
        if let Some(first) = nodes.iter().position(|&node| node == at) {
            return Err(Refusal::Turns { to: dst, nodes: nodes.split_off(first) });
        }
        nodes.push(at);
    }
    Ok(hops)
}

impl Whole {
    /// Links and classes from one NPU to another.
    pub(super) fn hops(&self, links: &LinkGraph, src: u32, dst: u32) -> Vec<Hop> {
        let free = |link: u32| Hop { link, class: 0 };
        match self {
            Whole::Stack(lines) => lines.hops(links, src, dst),
            Whole::Graph(classes) => {
                let class = classes.get((src * links.npus() + dst) as usize).copied();
                let class = class.unwrap_or(0).into();
                links.route(src, dst).map(|hop| Hop { link: hop.link, class }).collect()
            }
            Whole::UpDown(search) => {
                search.way(src, dst).unwrap_or_default().into_iter().map(free).collect()
            }
            Whole::Table(table) => by_table(table, links, src, dst).unwrap_or_default(),
        }
    }
}
