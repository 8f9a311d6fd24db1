//! What a backend has carried.

use units::Span;

/// Sums over a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes by dimension on links that leave an NPU (a ring counts every hop). An explicit graph
    /// has one dimension.
    pub bytes: Vec<u128>,
    /// On a graph with dimensions, bytes by the outermost dimension in which source and destination
    /// differ; empty for backends that model what shares a link.
    pub outermost: Vec<u128>,
    /// On a graph, the link whose bytes take longest, and how long; `None` for backends that model
    /// what shares a link, and where one rank stood for several.
    pub busiest: Option<(u32, Span)>,
    /// Transfers started, by weight.
    pub transfers: u128,
    /// Time in which messages were sent on by nodes that had stored them whole on their way, ps, by
    /// weight.
    pub stored: u128,
    /// Every link that was used, in link order; empty for backends without links.
    pub links: Vec<LinkUsage>,
}

/// What one link has carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkUsage {
    /// Node it leaves, as the topology numbers nodes (NPUs first).
    pub from: u32,
    /// Node it enters.
    pub to: u32,
    /// Dimension, 0-based.
    pub dim: u32,
    /// Links that it stands for by [`Backend::fold`](crate::Backend::fold); `None` where nothing
    /// was passed there.
    pub count: Option<u64>,
    /// Bytes.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Time sending.
    pub busy: Span,
    /// Sum of the waits in the queue.
    pub waited: Span,
    /// Most messages waiting at once.
    pub longest_queue: u32,
}
