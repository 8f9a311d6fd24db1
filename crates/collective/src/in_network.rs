//! In-network: the switch reduces. Every position hands it its buffer once and gets the sum once
//! (SHARP and its like).
//!
//! All-reduce of m bytes: m up and m down at every port, whatever the number of positions, against
//! `2 (n-1) / n m` both ways for the best algorithm at the ends. A plan names positions only, so a
//! port's m bytes up and down are one message to the next position; that the switch waits for
//! everybody is n-1 messages without bytes, one from each other position, over the same two links.
//! Each of the n messages that a position gets brings the contribution of its sender; the reduction
//! costs the NPU nothing. Barrier: m = 0. Only on Switch dimensions, which is for whoever lays a
//! collective out to see to (`sim`). Source: Graham et al., "Scalable Hierarchical Aggregation
//! Protocol (SHArP)", COMHPC 2016; Klenk et al., ISCA 2020.

use crate::algorithm::PlanRequest;
use crate::content::Content;
use crate::{Plan, Script, Step, To};
use graph::CollectiveKind;

/// The kinds in which every port sends as much as it gets.
pub(crate) fn fits(kind: CollectiveKind) -> bool {
    matches!(kind, CollectiveKind::AllReduce | CollectiveKind::Barrier)
}

pub(crate) fn make(request: &PlanRequest) -> Plan {
    let n = request.n;
    let step = |k: u32| {
        Step::send(To::Shift(k + 1), bytes(request, k), k, 0).and_receive(To::Shift(n - 1 - k))
    };
    Plan::uniform(n, Script::plain((0..n - 1).map(step).collect()))
}

/// Bytes of the message of step `step`: all of them are in the first.
pub(crate) fn bytes(request: &PlanRequest, step: u32) -> u64 {
    if step == 0 && request.kind != CollectiveKind::Barrier { request.bytes } else { 0 }
}

/// Content of every step of `position`: its initial content, which the switch has received from it.
pub(crate) fn content(request: &PlanRequest, position: u32) -> Content {
    match request.kind {
        CollectiveKind::Barrier => Content::Everything,
        _ => Content::Contribution { block: 0, of: position },
    }
}

/// Bytes that all positions send together.
pub(crate) fn volume(request: &PlanRequest) -> u128 {
    u128::from(request.n) * u128::from(if request.n > 1 { bytes(request, 0) } else { 0 })
}
