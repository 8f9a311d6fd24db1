//! Direct: every position sends to every other at once, in the order +1, +2, ...; with a window,
//! that many at a time.
//!
//! With `f = ceil(m / n)` bytes a fragment: reduce-scatter and all-to-all send `(n-1) f` bytes an
//! NPU in 1 round, all-gather `(n-1) m`, all-reduce `2 (n-1) f` in 2 rounds (reduce-scatter, then
//! all-gather once all n-1 fragments are reduced), broadcast and reduce `(n-1) m` in all, gather
//! `(n-1) m` and scatter `(n-1) f` in all, at the root's port.
//!
//! Window W: send k waits for `k+1-W` usable receptions of its half. At the root of a gather or
//! reduce it bounds the receives posted; a broadcast or scatter receives nothing it could count, so
//! there it changes nothing. Source: Rashidi et al., HOTI 2020, Table II ("AllToAll"); Chan et al.
//! 2007, section 4.

use crate::algorithm::PlanRequest;
use crate::content::Content;
use crate::{Algorithm, Plan, PlanError, Script, Step, To};
use graph::CollectiveKind;

/// The direct plan of one collective; `root` matters to rooted kinds only.
///
/// # Errors
/// An empty group, a root outside the group, a window of 0.
pub fn plan(
    kind: CollectiveKind,
    window: Option<u32>,
    n: u32,
    bytes: u64,
    root: u32,
) -> Result<Plan, PlanError> {
    PlanRequest { kind, algorithm: Algorithm::Direct { window }, n, bytes, root, chunk: 0 }.plan()
}

pub(crate) fn make(request: &PlanRequest, window: Option<u32>) -> Plan {
    let &PlanRequest { kind, n, bytes, root, .. } = request;
    let window = window.unwrap_or(n).min(n);
    let fragment = request.fragment();
    let half = |bytes, first| exchanges(n, window, bytes, first);
    match kind {
        CollectiveKind::AllReduce => {
            let steps = half(fragment, 0).chain(half(fragment, n - 1)).collect();
            Plan::uniform(n, Script { steps, charges: charges(n, fragment, 2) })
        }
        CollectiveKind::ReduceScatter => Plan::uniform(
            n,
            Script { steps: half(fragment, 0).collect(), charges: charges(n, fragment, 1) },
        ),
        CollectiveKind::AllGather => Plan::uniform(n, Script::plain(half(bytes, 0).collect())),
        CollectiveKind::AllToAll => Plan::uniform(n, Script::plain(half(fragment, 0).collect())),
        CollectiveKind::Barrier => Plan::uniform(n, Script::plain(half(0, 0).collect())),
        CollectiveKind::Broadcast => outwards(n, root, bytes),
        CollectiveKind::Scatter => outwards(n, root, fragment),
        CollectiveKind::Reduce => inwards(n, root, window, bytes, bytes),
        CollectiveKind::Gather => inwards(n, root, window, bytes, 0),
    }
}

/// One exchange with every other position, the first of them being step (and receive) `first` of
/// the script.
fn exchanges(n: u32, window: u32, bytes: u64, first: u32) -> impl Iterator<Item = Step> {
    (0..n - 1).map(move |k| {
        let after = first + (k + 1).saturating_sub(window);
        Step::send(To::Shift(k + 1), bytes, first + k, after).and_receive(To::Shift(n - 1 - k))
    })
}

/// The first n-1 receptions are reduced, those of the other halves are not.
fn charges(n: u32, bytes: u64, halves: u32) -> Vec<u64> {
    let mut charges = vec![bytes; n as usize - 1];
    charges.resize((halves * (n - 1)) as usize, 0);
    charges
}

/// The root sends to everybody.
fn outwards(n: u32, root: u32, bytes: u64) -> Plan {
    let from_root = || Script::plain(vec![Step::receive(To::At(root), 0)]);
    let to_all = || Script::plain((1..n).map(|k| Step::send(To::Shift(k), bytes, 0, 0)).collect());
    Plan::by_role(n, |p| p == root, |is_root| if is_root { to_all() } else { from_root() })
}

/// Everybody sends to the root, which posts `window` receives at a time.
fn inwards(n: u32, root: u32, window: u32, bytes: u64, charge: u64) -> Plan {
    let receive = |k: u32| Step::receive(To::Shift(k + 1), (k + 1).saturating_sub(window));
    Plan::by_role(
        n,
        |p| (p + n - root) % n,
        |v| match v {
            0 => Script {
                steps: (0..n - 1).map(receive).collect(),
                charges: vec![charge; n as usize - 1],
            },
            _ => Script::plain(vec![Step::send(To::At(root), bytes, v - 1, 0)]),
        },
    )
}

/// Content of step `step` of `position` (blocks as in [`mod@crate::prove`]).
pub(crate) fn content(request: &PlanRequest, position: u32, step: u32) -> Content {
    let n = request.n;
    let to = u64::from((position + 1 + step % (n - 1)) % n);
    let own = u64::from(position);
    match request.kind {
        CollectiveKind::ReduceScatter => Content::reduced(to),
        CollectiveKind::AllReduce if step < n - 1 => Content::reduced(to),
        CollectiveKind::AllReduce | CollectiveKind::AllGather | CollectiveKind::Gather => {
            Content::stored(own)
        }
        CollectiveKind::AllToAll => Content::stored(own * u64::from(n) + to),
        CollectiveKind::Barrier => Content::Everything,
        CollectiveKind::Broadcast => Content::stored(0),
        CollectiveKind::Reduce => Content::reduced(0),
        CollectiveKind::Scatter => Content::stored(to),
    }
}

/// Blocks a message buffer is cut into.
pub(crate) fn cut(request: &PlanRequest) -> u32 {
    if crate::is_rooted(request.kind) && request.kind != CollectiveKind::Scatter {
        1
    } else {
        request.n
    }
}

/// Bytes that all positions send together.
pub(crate) fn volume(request: &PlanRequest) -> u128 {
    let (n, m, f) =
        (u128::from(request.n), u128::from(request.bytes), u128::from(request.fragment()));
    match request.kind {
        CollectiveKind::AllReduce => n * 2 * (n - 1) * f,
        CollectiveKind::ReduceScatter | CollectiveKind::AllToAll => n * (n - 1) * f,
        CollectiveKind::AllGather => n * (n - 1) * m,
        CollectiveKind::Broadcast | CollectiveKind::Reduce | CollectiveKind::Gather => (n - 1) * m,
        CollectiveKind::Scatter => (n - 1) * f,
        CollectiveKind::Barrier => 0,
    }
}
