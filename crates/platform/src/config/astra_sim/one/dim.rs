//! A dimension of a network of version 1.0, and the blocks that its files know.

use topology::Block;
use units::{Bandwidth, Ratio, Span};

/// Rings.
pub(super) const RING: Block = Block::Ring;
/// A link between every two NPUs.
pub(super) const ALL_TO_ALL: Block = Block::FullyConnected;
/// NPUs around switches.
pub(super) const SWITCH: Block = Block::Switch;

/// A dimension and its links.
pub(super) struct Dim {
    pub block: Block,
    pub size: u32,
    pub bandwidth: Bandwidth,
    pub latency: Span,
    /// Links by which an NPU sends; `None` where the file does not say how many.
    pub links: Option<u32>,
    pub efficiency: Ratio,
    /// Scheduling queues: one for each one-way ring, or for each global switch.
    pub queues: u32,
}

impl Dim {
    /// Entry of `links` for the dimension.
    pub(super) fn link(&self) -> String {
        let count = self
            .links
            .map_or_else(|| "per: link".to_string(), |links| format!("count: {links}, per: npu"));
        let Dim { bandwidth, latency, efficiency, .. } = self;
        let whole = *efficiency == Ratio::ONE;
        let part = if whole { String::new() } else { format!(", efficiency: {efficiency}") };
        format!("{{bandwidth: {bandwidth}, {count}{part}, latency: {latency}}}")
    }
}
