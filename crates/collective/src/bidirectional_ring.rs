//! Ring, both ways round: every position sends to both neighbours at once, and each block goes the
//! shorter way. On an even ring the block of the opposite position goes half each way.
//!
//! With `f = ceil(m / n)` bytes a fragment and `h = floor(n / 2)` rounds, bytes each NPU sends *to
//! each side*:
//!
//! | kind | bytes | rounds |
//! | --- | --- | --- |
//! | reduce-scatter | `(n-1)/2 f` | `h` |
//! | all-gather | `(n-1)/2 m` | `h` |
//! | all-reduce | `(n-1) f`, the least over two links | `2 h` |
//! | all-to-all | `floor(n^2 / 4) / 2 f`, even `n`: the least that must cross any cut in two halves | `h` |
//! | barrier | 0 | `h` |
//!
//! Step k waits for both receptions of step k-1. A reduce-scatter is an all-gather backwards: sums
//! begin at the farthest positions of both sides and meet at their owner. In an all-to-all a
//! message carries all blocks that have further to go. On two positions both ways are one link, so
//! that this is [`mod@crate::ring`]. Not here: rooted kinds. Source: Chan, Heimlich, Purkayastha,
//! van de Geijn 2007, sections 4 and 7 (buckets on a bidirectional ring); jax-ml/scaling-book,
//! "Sharded matrices" (bytes over both directions, n/2 hops).

use crate::algorithm::PlanRequest;
use crate::content::Content;
use crate::{Plan, Script, Step, To, ring};
use graph::CollectiveKind;

/// Kinds it has a form of.
pub(crate) fn fits(kind: CollectiveKind) -> bool {
    !crate::is_rooted(kind)
}

pub(crate) fn make(request: &PlanRequest) -> Plan {
    if request.n < 3 {
        return ring::make(request);
    }
    let (n, rounds) = (request.n, rounds(request));
    let mut script = Script::default();
    for k in 0..rounds {
        let bytes = pieces(request, k).saturating_mul(piece(request));
        let charge = if is_reduced(request, k) { bytes } else { 0 };
        for (to, from) in [(1, n - 1), (n - 1, 1)] {
            // A message meets the receive of its own direction.
            let slot = 2 * k + u32::from(to != 1);
            let step = Step::send(To::Shift(to), bytes, slot, 2 * k);
            script.steps.push(step.and_receive(To::Shift(from)));
            script.charges.push(charge);
        }
    }
    Plan::uniform(n, script)
}

fn rounds(request: &PlanRequest) -> u32 {
    let way = request.n / 2;
    if request.kind == CollectiveKind::AllReduce { 2 * way } else { way }
}

/// Whether what arrives in round `k` is reduced.
fn is_reduced(request: &PlanRequest, k: u32) -> bool {
    match request.kind {
        CollectiveKind::AllReduce => k < request.n / 2,
        kind => kind == CollectiveKind::ReduceScatter,
    }
}

/// Pieces of a block: the opposite position's goes half each way.
pub(crate) fn parts(request: &PlanRequest) -> u32 {
    let data = request.kind != CollectiveKind::Barrier;
    if data && request.n > 2 && request.n.is_multiple_of(2) { 2 } else { 1 }
}

/// Bytes of a piece.
fn piece(request: &PlanRequest) -> u64 {
    let parts = u64::from(parts(request));
    match request.kind {
        CollectiveKind::Barrier => 0,
        CollectiveKind::AllGather => request.bytes.div_ceil(parts),
        _ => request.bytes.div_ceil(u64::from(request.n) * parts),
    }
}

/// Pieces that a message of round `k` carries.
fn pieces(request: &PlanRequest, k: u32) -> u64 {
    let (h, parts) = (request.n / 2, u64::from(parts(request)));
    let halved = parts == 2;
    match request.kind {
        CollectiveKind::Barrier => 0,
        CollectiveKind::AllToAll => parts * u64::from(h - k) - u64::from(halved),
        CollectiveKind::ReduceScatter | CollectiveKind::AllReduce if k == 0 => 1,
        CollectiveKind::AllReduce | CollectiveKind::AllGather if k + 1 == rounds(request) => 1,
        _ => parts,
    }
}

/// Content of step `step` of `position` (blocks as in [`mod@crate::prove`]).
pub(crate) fn content(request: &PlanRequest, position: u32, step: u32) -> Content {
    if request.n < 3 {
        return ring::content(request, position, step);
    }
    let (n, h, parts) = (request.n, request.n / 2, parts(request));
    let (k, leftwards) = (step / 2, step % 2 == 1);
    // The position `distance` ahead in the direction of the message; negative is behind.
    let ahead = |distance: i64| {
        let distance = if leftwards { -distance } else { distance };
        (i64::from(position) + distance).rem_euclid(i64::from(n)) as u64
    };
    // The pieces of a block that this direction carries over `distance` hops.
    let split = |block: u64, distance: u32| {
        let all = 0..u64::from(parts);
        let half = u64::from(leftwards);
        let range = if parts == 2 && distance == h { half..half + 1 } else { all };
        range.map(move |piece| block * u64::from(parts) + piece)
    };
    let gathered = |k: u32| split(ahead(-i64::from(k)), k + 1).collect::<Vec<u64>>();
    let scattered = |k: u32| split(ahead(i64::from(h - k)), h - k).collect::<Vec<u64>>();
    let blocks = match request.kind {
        CollectiveKind::Barrier => return Content::Everything,
        CollectiveKind::AllGather => gathered(k),
        CollectiveKind::AllReduce if k >= h => gathered(k - h),
        CollectiveKind::AllToAll => {
            let source = ahead(-i64::from(k));
            let block = |d: u32| source * u64::from(n) + ahead(i64::from(d) - i64::from(k));
            (k + 1..=h).flat_map(|d| split(block(d), d)).collect()
        }
        _ => scattered(k),
    };
    Content::Blocks { blocks, reduce: is_reduced(request, k) }
}

/// Blocks a message buffer is cut into.
pub(crate) fn cut(request: &PlanRequest) -> u32 {
    request.n * parts(request)
}

/// Bytes that all positions send together.
pub(crate) fn volume(request: &PlanRequest) -> u128 {
    if request.n < 3 {
        return ring::volume(request);
    }
    let (n, piece) = (u128::from(request.n), u128::from(piece(request)));
    let parts = u128::from(parts(request));
    match request.kind {
        CollectiveKind::AllReduce => 2 * n * (n - 1) * parts * piece,
        CollectiveKind::AllToAll => n * (n * n / 4) * parts * piece,
        _ => n * (n - 1) * parts * piece,
    }
}
