//! Plans: the routes of a routing with a class for each link, proved before the run.

use super::adaptive::Adaptive;
use super::datelines::Datelines;
use super::layers;
use super::plan_request::{PlanRequest, datelines, up_down};
use super::proof::Dependencies;
use super::routing_choice::{Hop, Refusal, RoutingChoice, Table};
use super::search::Search;
use super::valiant::Valiant;
use std::sync::Arc;
use topology::{Fabric, Lanes as Cards, LinkGraph};

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
    /// Those of a graph over each card of an NPU.
    Graph {
        /// The most cards of an NPU towards another one.
        cards: u32,
        /// By pair of NPUs and card; no class where one is enough.
        classes: Vec<u8>,
    },
    /// Those of a graph, links of the lowest kind first, and their classes.
    Ordered {
        /// Kind of each link.
        kinds: Vec<u32>,
        /// By pair of NPUs.
        classes: Vec<u8>,
    },
    /// Up, then down.
    UpDown(Box<Search>),
    /// Routes by a table.
    Table(Arc<Table>),
}

impl Plan {
    /// The plan of a routing, and the classes that it needs.
    ///
    /// # Errors
    /// Every [`Refusal`].
    pub(super) fn new(request: &PlanRequest<'_>) -> Result<(Plan, u16), Refusal> {
        let links = request.links;
        match (request.routing, request.fabric) {
            (RoutingChoice::Topology | RoutingChoice::DimensionOrder, Fabric::Stacked(_)) => {
                let lines = datelines(request, |lines| {
                    let mut all = Dependencies::new(links.len(), lines.classes);
                    let pairs = lines.pairs().into_iter();
                    pairs.for_each(|(a, b)| all.add_route(&lines.hops(links, a, b)));
                    all.check()
                })?;
                let classes = lines.classes;
                Ok((Plan::Whole(Whole::Stack(lines)), classes))
            }
            (RoutingChoice::Topology, Fabric::Graph(_)) => {
                let (mut all, mut cards) = (Dependencies::new(links.len(), 1), 1);
                for pair in request.pairs() {
                    let found = Cards::of(links, pair).found;
                    cards = cards.max(found.len() as u32);
                    found.iter().for_each(|lane| {
                        all.add_route(&in_class(links.over(pair, lane).into_owned(), 0));
                    });
                }
                let route = |pair, card| over_card(links, pair, card);
                let (classes, count) = of_graph(request, &all, cards, route)?;
                Ok((Plan::Whole(Whole::Graph { cards, classes }), count))
            }
            (RoutingChoice::DimensionOrder, Fabric::Graph(graph)) => {
                let kinds: Vec<u32> = graph.links.iter().map(|link| link.kind).collect();
                let route = |(src, dst), _| in_order(links, &kinds, src, dst);
                let mut all = Dependencies::new(links.len(), 1);
                request.pairs().for_each(|pair| all.add_route(&in_class(route(pair, 0), 0)));
                let (classes, count) = of_graph(request, &all, 1, route)?;
                Ok((Plan::Whole(Whole::Ordered { kinds, classes }), count))
            }
            (RoutingChoice::UpDown, _) => {
                Ok((Plan::Whole(Whole::UpDown(up_down(request)?.into())), 1))
            }
            (RoutingChoice::Table(table), _) => {
                let whole = Whole::Table(table.clone());
                let mut all = Dependencies::new(links.len(), 1);
                for (src, dst) in request.pairs() {
                    all.add_route(&by_table(table, links, src, dst)?);
                }
                request.overrule(all.check())?;
                Ok((Plan::Whole(whole), 1))
            }
            (RoutingChoice::Valiant { seed }, _) => {
                let valiant = Valiant::new(request, *seed)?;
                let classes = valiant.classes();
                Ok((Plan::Valiant(valiant), classes))
            }
            (RoutingChoice::Adaptive, _) => {
                let adaptive = Adaptive::new(request)?;
                let classes = adaptive.classes();
                Ok((Plan::Adaptive(adaptive), classes))
            }
        }
    }
}

/// The classes of a graph's routes over each of this number of cards, and the number of classes;
/// `all` has their dependencies in one class.
fn of_graph(
    request: &PlanRequest<'_>,
    all: &Dependencies,
    cards: u32,
    route: impl Fn((u32, u32), u32) -> Vec<u32>,
) -> Result<(Vec<u8>, u16), Refusal> {
    let (links, npus) = (request.links, request.links.npus());
    let Err(refusal) = all.check() else { return Ok((Vec::new(), 1)) };
    let routes = npus.saturating_mul(npus).saturating_mul(cards);
    let of_number = |number: u32| {
        let pair = number / cards;
        route((pair / npus, pair % npus), number % cards)
    };
    match layers::assign((routes, links.len()), of_number, request.most()) {
        Some(found) => Ok(found),
        None => request.overrule(Err(refusal)).map(|()| (Vec::new(), 1)),
    }
}

/// The route of the lane of a card; no links where an NPU has fewer cards towards the other, or is
/// the other.
fn over_card(links: &LinkGraph, pair: (u32, u32), card: u32) -> Vec<u32> {
    if pair.0 == pair.1 {
        return Vec::new();
    }
    let found = Cards::of(links, pair).found;
    found.get(card as usize).map_or_else(Vec::new, |lane| links.over(pair, lane).into_owned())
}

fn in_class(links: Vec<u32>, class: u16) -> Vec<Hop> {
    links.into_iter().map(|link| Hop { link, class }).collect()
}

/// The minimal route that takes links of the lowest kind first.
fn in_order(links: &LinkGraph, kinds: &[u32], src: u32, dst: u32) -> Vec<u32> {
    let (mut at, mut route) = (src, Vec::new());
    while at != dst {
        let mut best: Option<(u32, u32, u32)> = None;
        links.nearer(at, dst, |hop| {
            let this = (kinds[hop.link as usize], hop.link, hop.to);
            best = Some(best.map_or(this, |best| best.min(this)));
        });
        let Some((_, link, to)) = best else { break };
        route.push(link);
        at = to;
    }
    route
}

/// The route of a table.
fn by_table(table: &Table, links: &LinkGraph, src: u32, dst: u32) -> Result<Vec<Hop>, Refusal> {
    let (mut at, mut hops, mut nodes) = (src, Vec::new(), vec![src]);
    while at != dst {
        let link = table.next(at, dst).ok_or(Refusal::NoWay { at, to: dst })?;
        hops.push(Hop { link, class: 0 });
        at = links.link(link).to;
        if let Some(first) = nodes.iter().position(|&node| node == at) {
            return Err(Refusal::Loop { to: dst, nodes: nodes.split_off(first) });
        }
        nodes.push(at);
    }
    Ok(hops)
}

impl Whole {
    /// Links and classes from one NPU to another, on a graph over one of its cards.
    pub(super) fn hops(&self, links: &LinkGraph, (src, dst): (u32, u32), card: u32) -> Vec<Hop> {
        let pair = src * links.npus() + dst;
        let of = |classes: &[u8], at: u32| classes.get(at as usize).copied().unwrap_or(0).into();
        match self {
            Whole::Stack(lines) => lines.hops(links, src, dst),
            Whole::Graph { cards, classes } => {
                in_class(over_card(links, (src, dst), card), of(classes, pair * cards + card))
            }
            Whole::Ordered { kinds, classes } => {
                in_class(in_order(links, kinds, src, dst), of(classes, pair))
            }
            Whole::UpDown(search) => in_class(search.way(src, dst).unwrap_or_default(), 0),
            Whole::Table(table) => by_table(table, links, src, dst).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::generate::{Values, Wire, generate, generator};

    /// A ring of NPUs with two cables to each neighbor needs classes. Every route over every card leads
    /// to its end.
    #[test]
    fn routes_over_all_cards_have_classes() {
        let ends = (0..6u32).map(|from| (from, (from + 1) % 6));
        let both = ends.flat_map(|(a, b)| [(a, b), (b, a), (a, b), (b, a)]);
        let (bandwidth, latency) = (units::Bandwidth(1_000_000), units::Span(1));
        let link = |(from, to)| topology::GraphLink { from, to, bandwidth, latency, kind: 0 };
        let fabric = Fabric::Graph(topology::GraphFabric {
            npus: 6,
            links: both.map(link).collect(),
            nodes: (0..6).map(|npu| topology::GraphNode::npu(format!("n{npu}"))).collect(),
            ..topology::GraphFabric::default()
        });
        let links = LinkGraph::new(&fabric).expect("connected");
        let links = links.with_routing(topology::Routing::Auto);
        let (routing, classes, may_lock_up) = (RoutingChoice::Topology, None, false);
        let request =
            PlanRequest { fabric: &fabric, links: &links, routing: &routing, classes, may_lock_up };
        let (Plan::Whole(whole), 2) = Plan::new(&request).expect("two classes") else {
            panic!("other classes")
        };
        let cards =
            |pair| (0..Cards::of(&links, pair).found.len() as u32).map(move |at| (pair, at));
        assert_eq!(cards((0, 1)).count(), 2);
        for ((src, dst), card) in request.pairs().flat_map(cards) {
            let hops = whole.hops(&links, (src, dst), card);
            let end = hops.iter().fold(src, |at, hop| {
                assert_eq!(links.link(hop.link).from, at);
                links.link(hop.link).to
            });
            assert_eq!(end, dst, "{src} {dst} {card}");
        }
    }

    /// Routes in the order of dimensions never take a link of a lower kind after one of a higher,
    /// and are as short as others.
    #[test]
    fn dimensions_come_in_order() {
        let mut values = Values::default();
        values.set("sizes", vec![5, 4]);
        let wire = Wire { bandwidth: units::Bandwidth(1), latency: units::Span(1) };
        let torus = generator("torus").expect("known");
        let graph = generate(torus, values, vec![wire; 2]).expect("a torus");
        let kinds: Vec<u32> = graph.links.iter().map(|link| link.kind).collect();
        let links = LinkGraph::new(&Fabric::Graph(graph)).expect("connected");
        for (src, dst) in (0..20).flat_map(|src| (0..20).map(move |dst| (src, dst))) {
            let route = in_order(&links, &kinds, src, dst);
            assert_eq!(route.len() as u32, links.hops(src, dst));
            let of = |link: &u32| kinds[*link as usize];
            assert!(route.is_sorted_by_key(of), "{src} {dst}");
            let end = route.iter().fold(src, |at, &link| {
                assert_eq!(links.link(link).from, at);
                links.link(link).to
            });
            assert_eq!(end, dst);
        }
    }
}
