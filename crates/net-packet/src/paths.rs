//! The ways of packets: a route of their own per connection, or the next link packet by packet.

use net_settings::packet::Spraying;
use rustc_hash::FxHashMap;
use topology::{LaneId, LinkGraph, Routing, SprayTurns};

/// The end of a route.
pub(crate) const END: u32 = u32::MAX;

/// Where packets go.
pub(crate) struct Paths {
    graph: LinkGraph,
    /// Links of all routes, each ended by [`END`].
    routes: Vec<u32>,
    known: FxHashMap<(u32, u32, LaneId), u32>,
    /// Where packets of a connection take different ways: the next links from a node to an NPU.
    choices: FxHashMap<(u32, u32), Box<[u32]>>,
    turns: SprayTurns,
    spraying: Spraying,
}

impl Paths {
    pub(crate) fn new(graph: LinkGraph, spraying: Spraying) -> Paths {
        Paths {
            graph,
            routes: Vec::new(),
            known: FxHashMap::default(),
            choices: FxHashMap::default(),
            turns: SprayTurns::default(),
            spraying,
        }
    }

    pub(crate) fn graph(&self) -> &LinkGraph {
        &self.graph
    }

    /// Whether each packet takes a way of its own.
    #[inline]
    pub(crate) fn vary(&self) -> bool {
        self.graph.routing() == Routing::Spray
    }

    /// Where the route of a lane from `src` to `dst` begins in the table.
    pub(crate) fn route(&mut self, src: u32, dst: u32, lane: LaneId) -> u32 {
        if let Some(&known) = self.known.get(&(src, dst, lane)) {
            return known;
        }
        let start = self.routes.len() as u32;
        self.routes.extend(self.graph.lane(src, dst, lane).map(|hop| hop.link));
        self.routes.push(END);
        self.known.insert((src, dst, lane), start);
        start
    }

    /// The link at a place of the table, or [`END`].
    #[inline]
    pub(crate) fn link(&self, place: u32) -> u32 {
        self.routes[place as usize]
    }

    /// The next link from `node` to `dst`: by turns, or the one before which the fewest bytes wait.
    pub(crate) fn next(&mut self, node: u32, dst: u32, waiting: impl Fn(u32) -> u64) -> u32 {
        let Paths { graph, choices, turns, spraying, .. } = self;
        let links = choices
            .entry((node, dst))
            .or_insert_with(|| graph.choices(node, dst).into_iter().map(|hop| hop.link).collect());
        match links.len() as u32 {
            0 => END,
            1 => links[0],
            ways if *spraying == Spraying::InTurns => links[turns.take(node, ways) as usize],
            _ => links.iter().copied().min_by_key(|&link| waiting(link)).unwrap_or(END),
        }
    }
}
