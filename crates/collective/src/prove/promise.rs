//! Promises of an algorithm: contents of its sends, volume, and the contents of positions before
//! and after.

use crate::algorithm::PlanRequest;
use crate::content::Content;
use crate::{
    Algorithm, bidirectional_ring, direct, double_binary_tree, halving_doubling, in_network, ring,
};
use graph::CollectiveKind;
use std::collections::BTreeMap;
use std::ops::Range;

/// Positions the checker can follow: a set is one 128-bit word.
pub const MAX_POSITIONS: u32 = 128;

/// A set of positions.
pub(super) type Set = u128;

/// Contents of a position: block to contributors.
pub(super) type Held = BTreeMap<u64, Set>;

/// Facts that a proof found on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Messages of all positions.
    pub messages: u64,
    /// Bytes of all messages.
    pub bytes: u128,
    /// Bytes sent by the position that sends most.
    pub busiest: u128,
    /// Longest chain of messages, each waiting for the one before.
    pub rounds: u32,
    /// Orders of events tried.
    pub orders: u32,
}

/// Messages of a plan, for the checker.
pub(super) trait Rules {
    /// Content that step `step` of `position` sends.
    fn content(&self, position: u32, step: u32) -> Content;
    /// Bytes of the message of a step that carries this number of blocks; `None`: any.
    fn bytes(&self, step: u32, blocks: u64) -> Option<u64>;
    /// Whether the plan charges what a position reduces.
    fn charges(&self) -> bool;
    /// Whether blocks are data. Sending one in vain is then an error.
    fn listed(&self) -> bool;
}

impl Rules for PlanRequest {
    fn content(&self, position: u32, step: u32) -> Content {
        content(self, position, step)
    }

    fn bytes(&self, step: u32, blocks: u64) -> Option<u64> {
        Some(message_bytes(self, step, blocks))
    }

    fn charges(&self) -> bool {
        self.algorithm != Algorithm::InNetwork
    }

    fn listed(&self) -> bool {
        self.kind != CollectiveKind::Barrier
    }
}

/// Content of step `step` of `position`.
fn content(request: &PlanRequest, position: u32, step: u32) -> Content {
    match request.algorithm {
        Algorithm::Ring => ring::content(request, position, step),
        Algorithm::BidirectionalRing => bidirectional_ring::content(request, position, step),
        Algorithm::Direct { .. } => direct::content(request, position, step),
        Algorithm::HalvingDoubling => halving_doubling::content(request, position, step),
        Algorithm::DoubleBinaryTree => double_binary_tree::content(request, position, step),
        Algorithm::InNetwork => in_network::content(request, position),
    }
}

/// Pieces a buffer is cut into.
pub(super) fn cut(request: &PlanRequest) -> u64 {
    u64::from(match request.algorithm {
        Algorithm::Ring => ring::cut(request),
        Algorithm::BidirectionalRing => bidirectional_ring::cut(request),
        Algorithm::Direct { .. } => direct::cut(request),
        Algorithm::HalvingDoubling => halving_doubling::cut(request),
        Algorithm::DoubleBinaryTree => double_binary_tree::cut(request),
        Algorithm::InNetwork => 1,
    })
}

/// Pieces of the block that belongs to one position, or to one pair of positions.
pub(super) fn parts(request: &PlanRequest) -> u64 {
    match request.algorithm {
        Algorithm::BidirectionalRing => u64::from(bidirectional_ring::parts(request)),
        _ => 1,
    }
}

/// Bytes of the message of step `step` that carries `blocks` blocks.
fn message_bytes(request: &PlanRequest, step: u32, blocks: u64) -> u64 {
    match request.algorithm {
        Algorithm::InNetwork => in_network::bytes(request, step),
        _ => blocks.saturating_mul(block_bytes(request)),
    }
}

/// Bytes of one block.
pub(super) fn block_bytes(request: &PlanRequest) -> u64 {
    match request.kind {
        CollectiveKind::AllGather | CollectiveKind::Gather => {
            request.bytes.div_ceil(parts(request))
        }
        CollectiveKind::Barrier => 0,
        _ => request.bytes.div_ceil(cut(request)),
    }
}

/// Bytes all positions send together, from the algorithm's closed form.
pub(super) fn volume(request: &PlanRequest) -> u128 {
    match request.algorithm {
        Algorithm::Ring => ring::volume(request),
        Algorithm::BidirectionalRing => bidirectional_ring::volume(request),
        Algorithm::Direct { .. } => direct::volume(request),
        Algorithm::HalvingDoubling => halving_doubling::volume(request),
        Algorithm::DoubleBinaryTree => double_binary_tree::volume(request),
        Algorithm::InNetwork => in_network::volume(request),
    }
}

/// Contents of `position` before the collective.
pub(super) fn inputs(request: &PlanRequest, position: u32) -> Held {
    let n = u64::from(request.n);
    let own: Set = 1 << position;
    let (p, is_root) = (u64::from(position), position == request.root);
    let parts = parts(request);
    let blocks = match request.kind {
        CollectiveKind::AllReduce | CollectiveKind::ReduceScatter | CollectiveKind::Reduce => {
            0..cut(request)
        }
        CollectiveKind::AllGather | CollectiveKind::Gather | CollectiveKind::Barrier => {
            p * parts..(p + 1) * parts
        }
        CollectiveKind::AllToAll => p * n * parts..(p + 1) * n * parts,
        CollectiveKind::Broadcast | CollectiveKind::Scatter if is_root => 0..cut(request),
        CollectiveKind::Broadcast | CollectiveKind::Scatter => 0..0,
    };
    blocks.map(|b| (b, own)).collect()
}

/// Contents that `position` must have after it.
pub(super) fn promise(request: &PlanRequest, position: u32) -> Held {
    let n = u64::from(request.n);
    let all: Set = Set::MAX >> (MAX_POSITIONS - request.n);
    let root: Set = 1 << request.root.min(request.n - 1);
    let (p, is_root) = (u64::from(position), position == request.root);
    let parts = parts(request);
    let pieces = |block: u64| block * parts..(block + 1) * parts;
    let each = |blocks: Range<u64>| blocks.flat_map(|b| pieces(b).map(move |p| (p, 1 << b)));
    match request.kind {
        CollectiveKind::AllReduce => (0..cut(request)).map(|b| (b, all)).collect(),
        CollectiveKind::ReduceScatter => pieces(p).map(|b| (b, all)).collect(),
        CollectiveKind::AllGather | CollectiveKind::Barrier => each(0..n).collect(),
        CollectiveKind::AllToAll => {
            (0..n).flat_map(|s| pieces(s * n + p).map(move |b| (b, 1 << s))).collect()
        }
        CollectiveKind::Broadcast => (0..cut(request)).map(|b| (b, root)).collect(),
        CollectiveKind::Scatter => [(p, root)].into(),
        CollectiveKind::Reduce if is_root => (0..cut(request)).map(|b| (b, all)).collect(),
        CollectiveKind::Gather if is_root => each(0..n).collect(),
        CollectiveKind::Reduce | CollectiveKind::Gather => Held::new(),
    }
}

pub(super) fn promise_kept(request: &PlanRequest, held: &[Held]) -> Result<(), String> {
    for (position, held) in held.iter().enumerate() {
        for (block, wanted) in promise(request, position as u32) {
            let got = held.get(&block).copied().unwrap_or(0);
            if got != wanted {
                return Err(format!(
                    "position {position} ends with {got:#b} of block {block}, promised {wanted:#b}"
                ));
            }
        }
    }
    Ok(())
}
