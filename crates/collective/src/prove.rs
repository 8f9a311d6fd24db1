//! The symbolic checker: runs a plan on sets instead of numbers and says whether it keeps the
//! collective's promise.
//!
//! A *block* is the unit of an algorithm; what a position holds of it is the set of positions whose
//! contribution is in it. Blocks: the `n` (or the single) pieces of the buffer for all-reduce,
//! reduce-scatter, broadcast, reduce and scatter; the contribution of NPU b for all-gather and
//! gather; `source * n + destination` for all-to-all; "b has arrived" for a barrier. Equation:
//! reducing joins two sets, which must not share a member; storing replaces a set by one that
//! contains it.
//!
//! Each algorithm says beside its plan what every send carries (`Content`). The checker fires
//! steps, lets messages arrive and receptions become usable one at a time, in several orders:
//! oldest first, newest first, each of some positions starved, and random ones. In each it verifies
//! that a sender holds what it sends, that every send meets exactly one posted receive, its right
//! one, that charges and sizes fit, that nothing is reduced twice or sent without need, that the
//! plan ends, and that all positions then hold what was promised. The bytes of all sends must be
//! the algorithm's known volume. On three positions the tests go through every order there is. Over
//! several dimensions: [`prove_phases`]. Not here: algorithms from files (`custom`), which need
//! only run to their end.

use crate::algorithm::Request;
use crate::{Algorithm, Plan, direct, double_binary_tree, halving_doubling, in_network, ring};
use graph::CollectiveKind;
use run::{Order, Run};
use std::collections::BTreeMap;

mod grid;
mod run;
#[cfg(test)]
mod tests;

pub use grid::{Grid, prove_phases};

/// Positions the checker can follow: a set is one 128-bit word.
pub const MAX_POSITIONS: u32 = 128;

/// A set of positions.
type Set = u128;

/// What a position holds: block to contributors.
type Held = BTreeMap<u64, Set>;

/// What a send carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// These blocks, to be joined with the receiver's or to be stored.
    Blocks { blocks: Vec<u64>, reduce: bool },
    /// All the sender knows (barriers).
    Everything,
    /// What position `of` came with of a block, to be joined with the receiver's; a switch has
    /// reduced it, so nobody is charged.
    Contribution { block: u64, of: u32 },
}

impl Content {
    pub(crate) fn reduced(block: u64) -> Content {
        Content::Blocks { blocks: vec![block], reduce: true }
    }

    pub(crate) fn stored(block: u64) -> Content {
        Content::Blocks { blocks: vec![block], reduce: false }
    }

    fn of(request: &Request, position: u32, step: u32) -> Content {
        match request.algorithm {
            Algorithm::Ring => ring::content(request, position, step),
            Algorithm::Direct { .. } => direct::content(request, position, step),
            Algorithm::HalvingDoubling => halving_doubling::content(request, position, step),
            Algorithm::DoubleBinaryTree => double_binary_tree::content(request, position, step),
            Algorithm::InNetwork => in_network::content(request, position),
        }
    }
}

/// What a proof found on the way.
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

/// Proves that `plan` does what `request` promises.
///
/// # Errors
/// What is wrong and where: the position and step at fault, or the promise that was broken; more
/// than [`MAX_POSITIONS`].
pub fn prove(plan: &Plan, request: &Request) -> Result<Proof, String> {
    let mut orders =
        vec![Order::Oldest, Order::Newest, Order::Random(1), Order::Random(2), Order::Random(3)];
    orders.extend([0, plan.n / 2, plan.n.saturating_sub(1)].map(Order::Starve));
    let mut proof = None;
    for &order in &orders {
        let (found, held) = execute(plan, request, order)?;
        promise_kept(request, &held).map_err(|what| format!("{order:?}: {what}"))?;
        proof.get_or_insert(found);
    }
    let proof = proof.ok_or("no order was tried")?;
    let volume = volume(request);
    if proof.bytes != volume {
        return Err(format!("the plan sends {} bytes, the algorithm {volume}", proof.bytes));
    }
    Ok(Proof { orders: orders.len() as u32, ..proof })
}

/// Runs `plan` in one order and returns what every position holds at its end.
fn execute(plan: &Plan, request: &Request, order: Order) -> Result<(Proof, Vec<Held>), String> {
    let n = request.n;
    let shape = plan.n == n && (plan.is_uniform() || plan.roles.len() == n as usize);
    let roles = plan.scripts.len() > plan.roles.iter().copied().max().unwrap_or(0) as usize;
    if n == 0 || n > MAX_POSITIONS || !shape || !roles {
        return Err(format!(
            "a plan of {} positions for a request of {n}; allowed: 1 to {MAX_POSITIONS}, alike",
            plan.n
        ));
    }
    let start = (0..n).map(|p| inputs(request, p)).collect();
    Run::new(plan, request, start).finish(order)
}

/// Pieces a buffer is cut into.
fn cut(request: &Request) -> u64 {
    u64::from(match request.algorithm {
        Algorithm::Ring => ring::cut(request),
        Algorithm::Direct { .. } => direct::cut(request),
        Algorithm::HalvingDoubling => halving_doubling::cut(request),
        Algorithm::DoubleBinaryTree => double_binary_tree::cut(request),
        Algorithm::InNetwork => 1,
    })
}

/// Bytes of the message of step `step` that carries `blocks` blocks.
fn message_bytes(request: &Request, step: u32, blocks: u64) -> u64 {
    match request.algorithm {
        Algorithm::InNetwork => in_network::bytes(request, step),
        _ => blocks.saturating_mul(block_bytes(request)),
    }
}

/// Bytes of one block.
fn block_bytes(request: &Request) -> u64 {
    match request.kind {
        CollectiveKind::AllGather | CollectiveKind::Gather => request.bytes,
        CollectiveKind::Barrier => 0,
        _ => request.bytes.div_ceil(cut(request)),
    }
}

/// Bytes all positions send together, from the algorithm's closed form.
fn volume(request: &Request) -> u128 {
    match request.algorithm {
        Algorithm::Ring => ring::volume(request),
        Algorithm::Direct { .. } => direct::volume(request),
        Algorithm::HalvingDoubling => halving_doubling::volume(request),
        Algorithm::DoubleBinaryTree => double_binary_tree::volume(request),
        Algorithm::InNetwork => in_network::volume(request),
    }
}

/// What `position` holds before the collective.
fn inputs(request: &Request, position: u32) -> Held {
    let n = u64::from(request.n);
    let own: Set = 1 << position;
    let (p, is_root) = (u64::from(position), position == request.root);
    let blocks = match request.kind {
        CollectiveKind::AllReduce | CollectiveKind::ReduceScatter | CollectiveKind::Reduce => {
            0..cut(request)
        }
        CollectiveKind::AllGather | CollectiveKind::Gather | CollectiveKind::Barrier => p..p + 1,
        CollectiveKind::AllToAll => p * n..(p + 1) * n,
        CollectiveKind::Broadcast | CollectiveKind::Scatter if is_root => 0..cut(request),
        CollectiveKind::Broadcast | CollectiveKind::Scatter => 0..0,
    };
    blocks.map(|b| (b, own)).collect()
}

/// What `position` must hold after it.
fn promise(request: &Request, position: u32) -> Held {
    let n = u64::from(request.n);
    let all: Set = Set::MAX >> (MAX_POSITIONS - request.n);
    let root: Set = 1 << request.root.min(request.n - 1);
    let (p, is_root) = (u64::from(position), position == request.root);
    let each = |blocks: std::ops::Range<u64>| blocks.map(|b| (b, 1 << b)).collect();
    match request.kind {
        CollectiveKind::AllReduce => (0..cut(request)).map(|b| (b, all)).collect(),
        CollectiveKind::ReduceScatter => [(p, all)].into(),
        CollectiveKind::AllGather | CollectiveKind::Barrier => each(0..n),
        CollectiveKind::AllToAll => (0..n).map(|s| (s * n + p, 1 << s)).collect(),
        CollectiveKind::Broadcast => (0..cut(request)).map(|b| (b, root)).collect(),
        CollectiveKind::Scatter => [(p, root)].into(),
        CollectiveKind::Reduce if is_root => (0..cut(request)).map(|b| (b, all)).collect(),
        CollectiveKind::Gather if is_root => each(0..n),
        CollectiveKind::Reduce | CollectiveKind::Gather => Held::new(),
    }
}

fn promise_kept(request: &Request, held: &[Held]) -> Result<(), String> {
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
