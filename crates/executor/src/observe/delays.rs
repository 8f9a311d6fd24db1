//! Queue and network time of each collective of a program, by phase, and the rows by layer and pass
//! that a report has of them.
//!
//! The log keeps sums for each collective of a program, not chunks, so its size follows from the
//! programs.

use super::ChunkPhase;
use super::pass::Pass;
use super::source::Source;
use crate::parts::delays::Delays;
use graph::Workload;
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxHashMap;
use stats::{LayerPhase, Phase};
use units::Time;

/// Rows that are listed: the first of the model's layers.
const ROWS: usize = 20_000;

/// See the module.
pub(super) struct NodeDelays {
    /// Program of each simulated rank.
    programs: Vec<u32>,
    /// Entries by program and node.
    nodes: FxHashMap<(u32, u32), Delays>,
}

impl NodeDelays {
    pub(super) fn new(programs: Vec<u32>) -> NodeDelays {
        NodeDelays { programs, nodes: FxHashMap::default() }
    }

    /// A chunk of a rank that stands for `ranks` ends a phase.
    pub(super) fn ends(&mut self, chunk: &ChunkPhase, ranks: u64, now: Time) {
        let node = (self.programs[chunk.rank as usize], chunk.node);
        let delays = self.nodes.entry(node).or_default();
        if chunk.left_ready_queue {
            delays.left_ready_queue(chunk.queued.since(chunk.entered), ranks);
        }
        let label = (chunk.phase, chunk.dim, chunk.kind);
        let (queue, network) = (chunk.started.since(chunk.queued), now.since(chunk.started));
        delays.ended(label, queue, network, ranks);
    }

    /// Means by layer, pass and phase over all ranks, in order of programs, layers and phases.
    pub(super) fn rows(&self, source: &Source) -> Vec<LayerPhase> {
        let rows = self.by_layer(source).into_iter().flat_map(|((layer, pass), delays)| {
            let row = move |(dim, phase): (Option<u32>, Phase)| LayerPhase {
                layer: layer.into(),
                pass_name: pass.name().into(),
                dim: dim.map(u64::from),
                phase: phase.name,
                count: phase.count,
                queue_ns: phase.queue_ns,
                network_ns: phase.network_ns,
            };
            delays.rows(source.dims).into_iter().map(row)
        });
        rows.take(ROWS).collect()
    }

    /// Sums by layer and pass, in the order of the layers and passes.
    fn by_layer<'a>(&self, source: &Source<'a>) -> IndexMap<(&'a str, Pass), Delays> {
        let workload = source.workload;
        let mut nodes: Vec<(&(u32, u32), &Delays)> = self.nodes.iter().collect();
        nodes.sort_unstable_by_key(|(node, _)| **node);
        let places = places(workload, nodes.iter().map(|(node, _)| node.0));
        let mut found: IndexMap<(&str, Pass), Delays> = IndexMap::new();
        for (&(program, node), delays) in nodes {
            let program = &workload.programs[program as usize];
            let key = (program.layer(node as usize), Pass::of_node(program, node as usize));
            found.entry(key).or_default().merge(delays);
        }
        found.sort_by_cached_key(|&(layer, pass), _| (places.get_index_of(layer), pass));
        found
    }
}

/// Layers in the order in which these programs, which ascend, name them.
fn places(workload: &Workload, programs: impl Iterator<Item = u32>) -> IndexSet<&str> {
    let (mut places, mut seen) = (IndexSet::new(), None);
    for at in programs {
        if seen.replace(at) != Some(at) {
            let program = &workload.programs[at as usize];
            places.extend((0..program.nodes().len()).map(|node| program.layer(node)));
        }
    }
    places
}
