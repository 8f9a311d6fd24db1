//! Binomial trees for broadcast, reduce, gather and scatter, on any number of positions.
//!
//! Relative to the root, position `v` has the parent `v - lowbit(v)` and the children `v + 2^k` for
//! `2^k < lowbit(v)`, as far as they exist; below it (itself included) are `v .. v + size`, with
//! `size = min(lowbit(v), n - v)`. `ceil(log2 n)` rounds. Broadcast and reduce send the whole
//! buffer over `n-1` edges: `(n-1) m` bytes. Gather and scatter send over an edge the blocks below
//! it: block v travels `popcount(v)` edges, `n/2 log2 n` blocks in all on a power of two. Source:
//! Thakur, Rabenseifner, Gropp 2005, section 4; Chan et al. 2007, section 3 (minimum spanning
//! trees).

use crate::algorithm::PlanRequest;
use crate::content::Content;
use crate::{Algorithm, Plan, PlanError, Script, Step, To};
use graph::CollectiveKind;

/// The binomial-tree plan of a rooted kind (what halving-doubling means for these).
///
/// # Errors
/// A kind without a root, an empty group, a root outside.
pub fn plan(kind: CollectiveKind, n: u32, bytes: u64, root: u32) -> Result<Plan, PlanError> {
    if !crate::is_rooted(kind) {
        let allowed = "broadcast, reduce, gather and scatter";
        return Err(PlanError::Unsupported {
            algorithm: Algorithm::HalvingDoubling,
            kind: kind.name(),
            allowed,
        });
    }
    PlanRequest { kind, algorithm: Algorithm::HalvingDoubling, n, bytes, root, chunk: 0 }.plan()
}

/// A position's place in the tree: the bit to its parent (0 at the root) and how many positions are
/// below it, with itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    up: u32,
    size: u32,
}

impl Place {
    fn of(v: u32, n: u32) -> Place {
        if v == 0 {
            return Place { up: 0, size: n };
        }
        let up = 1 << v.trailing_zeros();
        Place { up, size: up.min(n - v) }
    }

    /// Children: the k-th is `2^k` further on.
    fn children(self) -> u32 {
        self.size.next_power_of_two().ilog2()
    }

    /// Positions below the k-th child, with itself.
    fn below(self, k: u32) -> u32 {
        (1 << k).min(self.size - (1 << k))
    }
}

pub(crate) fn make(request: &PlanRequest) -> Plan {
    let &PlanRequest { kind, n, bytes, root, .. } = request;
    let place = |position: u32| Place::of((position + n - root) % n, n);
    let blocks = |block: u64, count: u32| block.saturating_mul(u64::from(count));
    match kind {
        CollectiveKind::Broadcast => Plan::by_role(n, place, |p| outwards(n, p, |_| bytes)),
        CollectiveKind::Scatter => {
            Plan::by_role(n, place, |p| outwards(n, p, |count| blocks(request.fragment(), count)))
        }
        CollectiveKind::Gather => {
            Plan::by_role(n, place, |p| inwards(n, p, blocks(bytes, p.size), 0))
        }
        _ => Plan::by_role(n, place, |p| inwards(n, p, bytes, bytes)),
    }
}

/// From the parent, then to the children, the largest subtree first.
fn outwards(n: u32, place: Place, size: impl Fn(u32) -> u64) -> Script {
    let below_root = u32::from(place.up > 0);
    let receive = (place.up > 0).then(|| Step::receive(To::Shift(n - place.up), 0));
    let send = |k: u32| Step::send(To::Shift(1 << k), size(place.below(k)), 0, below_root);
    Script::plain(receive.into_iter().chain((0..place.children()).rev().map(send)).collect())
}

/// From all children, the smallest subtree first, then to the parent.
fn inwards(n: u32, place: Place, bytes: u64, charge: u64) -> Script {
    let children = place.children();
    let receives = (0..children).map(|k| Step::receive(To::Shift(1 << k), 0));
    let send = || Step::send(To::Shift(n - place.up), bytes, place.up.ilog2(), children);
    let steps = receives.chain((place.up > 0).then(send)).collect();
    Script { steps, charges: vec![charge; children as usize] }
}

/// Content of step `step` of `position` (blocks as in [`mod@crate::prove`]).
pub(crate) fn content(request: &PlanRequest, position: u32, step: u32) -> Content {
    let &PlanRequest { kind, n, root, .. } = request;
    let v = (position + n - root) % n;
    let place = Place::of(v, n);
    let range = |from: u32, count: u32| Content::Blocks {
        blocks: (from..from + count).map(|u| u64::from((root + u) % n)).collect(),
        reduce: false,
    };
    match kind {
        CollectiveKind::Broadcast => Content::stored(0),
        CollectiveKind::Gather => range(v, place.size),
        CollectiveKind::Scatter => {
            let k = place.children() - 1 - (step - u32::from(v > 0));
            range(v + (1 << k), place.below(k))
        }
        _ => Content::reduced(0),
    }
}

/// Blocks a message buffer is cut into.
pub(crate) fn cut(request: &PlanRequest) -> u32 {
    if request.kind == CollectiveKind::Scatter { request.n } else { 1 }
}

/// Bytes that all positions send together.
pub(crate) fn volume(request: &PlanRequest) -> u128 {
    let hops = || (0..request.n).map(|v| u128::from(v.count_ones())).sum::<u128>();
    match request.kind {
        CollectiveKind::Gather => hops() * u128::from(request.bytes),
        CollectiveKind::Scatter => hops() * u128::from(request.fragment()),
        _ => u128::from(request.n - 1) * u128::from(request.bytes),
    }
}
