//! Ring: every position sends to its successor only. A pipelined chain for rooted kinds.
//!
//! With `f = ceil(m / n)` bytes a fragment, bytes each NPU sends and messages in a row:
//!
//! | kind | bytes an NPU sends | rounds |
//! | --- | --- | --- |
//! | reduce-scatter | `(n-1) f` | `n-1` |
//! | all-gather | `(n-1) m` | `n-1` |
//! | all-reduce | `2 (n-1) f`, the least possible (Patarasuk and Yuan 2009) | `2 (n-1)` |
//! | all-to-all | `n (n-1) / 2 f`: a block for distance d is stored and forwarded d times | `n (n-1) / 2` |
//! | broadcast, reduce | `n f` on each of the `n-1` links of the chain | `n-1`, and `n-1` more fragments behind |
//! | gather, scatter | `n (n-1) / 2` blocks over all links | `n-1` |
//! | barrier | 0 | `n-1` |
//!
//! One message at a time leaves each NPU of the unrooted kinds: step k waits for k usable
//! receptions. The first position of a chain receives nothing, so its fragments leave all at once
//! and the link puts them in line. Not here: rings over several dimensions (`phases`). Source:
//! Thakur, Rabenseifner, Gropp 2005; Chan, Heimlich, Purkayastha, van de Geijn 2007; Patarasuk and
//! Yuan 2009.

use crate::algorithm::PlanRequest;
use crate::content::Content;
use crate::{Algorithm, Plan, PlanError, Script, Step, To};
use graph::CollectiveKind;

/// The ring plan of one collective; `root` matters to rooted kinds only.
///
/// # Errors
/// An empty group, a root outside the group, a plan beyond [`crate::MAX_STEPS`].
pub fn plan(kind: CollectiveKind, n: u32, bytes: u64, root: u32) -> Result<Plan, PlanError> {
    PlanRequest { kind, algorithm: Algorithm::Ring, n, bytes, root, chunk: 0 }.plan()
}

pub(crate) fn make(request: &PlanRequest) -> Plan {
    let &PlanRequest { kind, n, bytes, .. } = request;
    let fragment = request.fragment();
    match kind {
        CollectiveKind::AllReduce => uniform(n, 2 * (n - 1), fragment, n - 1),
        CollectiveKind::ReduceScatter => uniform(n, n - 1, fragment, n - 1),
        CollectiveKind::AllGather => uniform(n, n - 1, bytes, 0),
        CollectiveKind::AllToAll => uniform(n, n * (n - 1) / 2, fragment, 0),
        CollectiveKind::Barrier => uniform(n, n - 1, 0, 0),
        CollectiveKind::Gather => chain(n, first(request), bytes, |v| counts(request, v)),
        _ => chain(n, first(request), fragment, |v| counts(request, v)),
    }
}

/// `steps` lock-step messages round the ring, the first `reduced` of them reduced on reception.
fn uniform(n: u32, steps: u32, bytes: u64, reduced: u32) -> Plan {
    let step = |k| Step::send(To::Shift(1), bytes, k, k).and_receive(To::Shift(n - 1));
    let charges = (0..steps).map(|k| if k < reduced { bytes } else { 0 }).collect();
    Plan::uniform(n, Script { steps: (0..steps).map(step).collect(), charges })
}

/// A chain from `first` round to its predecessor. `counts(v)`: how many messages of `bytes` the
/// v-th position receives and sends, and what it is charged for each reception.
///
/// A position that sends more than it receives starts with its own message; the others forward the
/// k-th reception as their k-th send. A receive is posted only after the one before it is usable,
/// so receptions come in order.
fn chain(n: u32, first: u32, bytes: u64, counts: impl Fn(u32) -> (u32, u32, u64)) -> Plan {
    let key = |position: u32| counts((position + n - first) % n);
    Plan::by_role(n, key, |(receives, sends, charge)| {
        let lead = lead(receives, sends);
        let step = |k: u32| {
            let after = k.min(receives);
            let from = (k < receives).then_some(To::Shift(n - 1));
            let send = (lead..lead + sends)
                .contains(&k)
                .then(|| Step::send(To::Shift(1), bytes, k - lead, after));
            Step { from, ..send.unwrap_or(Step::receive(To::Shift(n - 1), after)) }
        };
        Script {
            steps: (0..receives.max(sends + lead)).map(step).collect(),
            charges: vec![charge; receives as usize],
        }
    })
}

/// Steps before the first send: none for who has something of its own to send.
fn lead(receives: u32, sends: u32) -> u32 {
    u32::from(receives >= sends)
}

/// Receives, sends and charge of the v-th position of a chain.
fn counts(request: &PlanRequest, v: u32) -> (u32, u32, u64) {
    let n = request.n;
    let all_but = |end: u32| if v == end { 0 } else { n };
    match request.kind {
        CollectiveKind::Reduce => (all_but(0), all_but(n - 1), request.fragment()),
        CollectiveKind::Gather => (v, if v == n - 1 { 0 } else { v + 1 }, 0),
        CollectiveKind::Scatter => (if v == 0 { 0 } else { n - v }, n - 1 - v, 0),
        _ => (all_but(0), all_but(n - 1), 0),
    }
}

/// Where a chain starts: at the root, or behind it when it ends there.
fn first(request: &PlanRequest) -> u32 {
    match request.kind {
        CollectiveKind::Reduce | CollectiveKind::Gather => (request.root + 1) % request.n,
        _ => request.root,
    }
}

/// Content of step `step` of `position` (blocks as in [`mod@crate::prove`]).
pub(crate) fn content(request: &PlanRequest, position: u32, step: u32) -> Content {
    let n = request.n;
    let before = |k: u32| u64::from((position + 2 * n - k) % n);
    let v = (position + n - first(request)) % n;
    let (receives, sends, _) = counts(request, v);
    let message = || step - lead(receives, sends);
    match request.kind {
        CollectiveKind::ReduceScatter => Content::reduced(before(step + 1)),
        CollectiveKind::AllReduce if step < n - 1 => Content::reduced(before(step + 1)),
        CollectiveKind::AllReduce => Content::stored(before(step - (n - 1))),
        CollectiveKind::AllGather => Content::stored(before(step)),
        CollectiveKind::AllToAll => {
            let (distance, hop) = distance_and_hop(step);
            let source = before(hop);
            Content::stored(source * u64::from(n) + (source + u64::from(distance)) % u64::from(n))
        }
        CollectiveKind::Barrier => Content::Everything,
        CollectiveKind::Broadcast => Content::stored(u64::from(message())),
        CollectiveKind::Reduce => Content::reduced(u64::from(message())),
        CollectiveKind::Gather => Content::stored(before(message())),
        CollectiveKind::Scatter => {
            Content::stored(u64::from((request.root + n - 1 - message()) % n))
        }
    }
}

/// All-to-all sends blocks for distance 1, then 2, ...; one for distance d makes d hops in d steps.
fn distance_and_hop(step: u32) -> (u32, u32) {
    let (mut distance, mut hop) = (1, step);
    while hop >= distance {
        hop -= distance;
        distance += 1;
    }
    (distance, hop)
}

/// Blocks a message buffer is cut into.
pub(crate) fn cut(request: &PlanRequest) -> u32 {
    request.n
}

/// Bytes that all positions send together.
pub(crate) fn volume(request: &PlanRequest) -> u128 {
    let (n, m, f) =
        (u128::from(request.n), u128::from(request.bytes), u128::from(request.fragment()));
    let pairs = n * (n - 1) / 2;
    match request.kind {
        CollectiveKind::AllReduce => n * 2 * (n - 1) * f,
        CollectiveKind::ReduceScatter => n * (n - 1) * f,
        CollectiveKind::AllGather => n * (n - 1) * m,
        CollectiveKind::AllToAll => n * pairs * f,
        CollectiveKind::Broadcast | CollectiveKind::Reduce => (n - 1) * n * f,
        CollectiveKind::Gather => pairs * m,
        CollectiveKind::Scatter => pairs * f,
        CollectiveKind::Barrier => 0,
    }
}
