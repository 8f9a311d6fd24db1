//! Recursive halving and doubling: exchanges with partner `i XOR d`, powers of two only.
//!
//! With `f = ceil(m / n)` and `L = log2 n`:
//!
//! | kind | what | bytes an NPU sends | rounds |
//! | --- | --- | --- | --- |
//! | reduce-scatter | vector halving, distance doubling: half of what is left to partner 1, 2, 4, ... | `(n-1) f` | `L` |
//! | all-gather | the mirror: all it has to partner n/2, ..., 2, 1 | `(n-1) m` | `L` |
//! | all-reduce | the two in turn (Rabenseifner) | `2 (n-1) f` | `2 L` |
//! | all-to-all | pairwise exchange: one block with partner 1, 2, 3, ..., n-1 | `(n-1) f` | `n-1` |
//!
//! The largest messages go to the nearest partner. Rooted kinds take a binomial tree (`binomial`),
//! the barrier disseminates (`ceil(log2 n)` rounds of empty messages to +1, +2, +4, ...); both run
//! on any number. Source: Thakur, Rabenseifner, Gropp 2005; Hensgen, Finkel, Manber 1988
//! (dissemination).

use crate::algorithm::PlanRequest;
use crate::content::Content;
use crate::{Algorithm, Plan, PlanError, Script, Step, To, binomial, is_rooted};
use graph::CollectiveKind;

/// The halving-doubling plan of one collective; `root` matters to rooted kinds only.
///
/// # Errors
/// A number other than a power of two (for kinds that are neither rooted nor barrier), an empty
/// group, a root outside.
pub fn plan(kind: CollectiveKind, n: u32, bytes: u64, root: u32) -> Result<Plan, PlanError> {
    PlanRequest { kind, algorithm: Algorithm::HalvingDoubling, n, bytes, root, chunk: 0 }.plan()
}

/// Whether `kind` can run on `n` positions.
pub(crate) fn fits(kind: CollectiveKind, n: u32) -> bool {
    n.is_power_of_two() || is_rooted(kind) || kind == CollectiveKind::Barrier
}

pub(crate) fn make(request: &PlanRequest) -> Plan {
    let &PlanRequest { kind, n, bytes, .. } = request;
    let fragment = request.fragment();
    match kind {
        CollectiveKind::AllReduce => {
            let mut steps: Vec<Step> = halving(n, fragment).collect();
            steps.extend(doubling(n, fragment, n.ilog2()));
            let charges = steps
                .iter()
                .enumerate()
                .map(|(k, s)| if k < n.ilog2() as usize { s.bytes } else { 0 })
                .collect();
            Plan::uniform(n, Script { steps, charges })
        }
        CollectiveKind::ReduceScatter => {
            let steps: Vec<Step> = halving(n, fragment).collect();
            let charges = steps.iter().map(|s| s.bytes).collect();
            Plan::uniform(n, Script { steps, charges })
        }
        CollectiveKind::AllGather => {
            Plan::uniform(n, Script::plain(doubling(n, bytes, 0).collect()))
        }
        CollectiveKind::AllToAll => {
            Plan::uniform(n, Script::plain((1..n).map(|k| exchange(k, fragment, k - 1)).collect()))
        }
        CollectiveKind::Barrier => Plan::uniform(n, Script::plain(dissemination(n).collect())),
        _ => binomial::make(request),
    }
}

/// The `k`-th exchange, in lock step.
fn exchange(mask: u32, bytes: u64, k: u32) -> Step {
    Step::send(To::Xor(mask), bytes, k, k).and_receive(To::Xor(mask))
}

fn halving(n: u32, fragment: u64) -> impl Iterator<Item = Step> {
    (0..n.ilog2())
        .map(move |k| exchange(1 << k, fragment.saturating_mul(u64::from(n >> (k + 1))), k))
}

fn doubling(n: u32, block: u64, first: u32) -> impl Iterator<Item = Step> {
    (0..n.ilog2()).map(move |k| exchange(n >> (k + 1), block.saturating_mul(1 << k), first + k))
}

fn dissemination(n: u32) -> impl Iterator<Item = Step> {
    let rounds = n.next_power_of_two().ilog2();
    (0..rounds)
        .map(move |k| Step::send(To::Shift(1 << k), 0, k, k).and_receive(To::Shift(n - (1 << k))))
}

/// Content of step `step` of `position` (blocks as in [`mod@crate::prove`]).
pub(crate) fn content(request: &PlanRequest, position: u32, step: u32) -> Content {
    let n = request.n;
    let rounds = n.ilog2();
    match request.kind {
        CollectiveKind::ReduceScatter => {
            Content::Blocks { blocks: halved(n, position, step), reduce: true }
        }
        CollectiveKind::AllReduce if step < rounds => {
            Content::Blocks { blocks: halved(n, position, step), reduce: true }
        }
        CollectiveKind::AllReduce => {
            Content::Blocks { blocks: doubled(n, position, step - rounds), reduce: false }
        }
        CollectiveKind::AllGather => {
            Content::Blocks { blocks: doubled(n, position, step), reduce: false }
        }
        CollectiveKind::AllToAll => {
            Content::stored(u64::from(position) * u64::from(n) + u64::from(position ^ (step + 1)))
        }
        CollectiveKind::Barrier => Content::Everything,
        _ => binomial::content(request, position, step),
    }
}

/// Before round `k` of the halving a position holds the blocks that share its k low bits; it sends
/// those whose bit k is the partner's.
fn halved(n: u32, position: u32, k: u32) -> Vec<u64> {
    let low = (1u32 << (k + 1)) - 1;
    let partner = position ^ (1 << k);
    (0..n).filter(|b| (b ^ partner) & low == 0).map(u64::from).collect()
}

/// Before round `k` of the doubling a position holds the blocks that differ from it in the k high
/// bits only.
fn doubled(n: u32, position: u32, k: u32) -> Vec<u64> {
    let low = (n >> k) - 1;
    (0..n).filter(|b| (b ^ position) & low == 0).map(u64::from).collect()
}

/// Blocks a message buffer is cut into.
pub(crate) fn cut(request: &PlanRequest) -> u32 {
    if is_rooted(request.kind) { binomial::cut(request) } else { request.n }
}

/// Bytes that all positions send together.
pub(crate) fn volume(request: &PlanRequest) -> u128 {
    let (n, m, f) =
        (u128::from(request.n), u128::from(request.bytes), u128::from(request.fragment()));
    match request.kind {
        CollectiveKind::AllReduce => n * 2 * (n - 1) * f,
        CollectiveKind::ReduceScatter | CollectiveKind::AllToAll => n * (n - 1) * f,
        CollectiveKind::AllGather => n * (n - 1) * m,
        CollectiveKind::Barrier => 0,
        _ => binomial::volume(request),
    }
}
