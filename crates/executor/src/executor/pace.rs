//! How fast a computation goes: slower for as long as its NPU communicates.
//!
//! A node takes `quiet` if its NPU never communicates meanwhile, and `overlapped` if it always
//! does. Its work has `quiet * overlapped` parts. A picosecond does `overlapped` parts in quiet,
//! and `quiet` parts otherwise. So changes of pace lose nothing to rounding, and two at one instant
//! cancel. Not here: both durations (`lowering::compute`).

use super::Executor;
use crate::parts::agenda::Callback;
use graph::OpKind;
use network::Backend;
use units::{Span, Time};

/// A computation under way.
#[derive(Clone, Copy, Debug)]
struct Pace {
    node: u32,
    quiet: Span,
    overlapped: Span,
    /// Parts that were left to do at `since`.
    left: u128,
    since: Time,
    shared: bool,
    ends: Time,
}

impl Pace {
    fn new(node: u32, quiet: Span, overlapped: Span, shared: bool, now: Time) -> Pace {
        let left = u128::from(quiet.0) * u128::from(overlapped.0);
        Pace {
            node,
            quiet,
            overlapped,
            left,
            since: now,
            shared,
            ends: now + if shared { overlapped } else { quiet },
        }
    }

    /// Parts done in a picosecond.
    fn rate(&self) -> u128 {
        u128::from(if self.shared { self.quiet.0 } else { self.overlapped.0 })
    }

    /// Goes on from `now` at the other pace.
    fn turn(&mut self, now: Time) {
        self.left = self.left.saturating_sub(u128::from(now.since(self.since).0) * self.rate());
        self.since = now;
        self.shared = !self.shared;
        let span = u64::try_from(self.left.div_ceil(self.rate())).unwrap_or(u64::MAX);
        self.ends = now + Span(span);
    }
}

/// The computation under way of each rank, where its pace may change.
pub(super) struct Paces(Vec<Option<Pace>>);

impl Paces {
    pub(super) fn new(ranks: usize) -> Paces {
        Paces(vec![None; ranks])
    }
}

impl<B: Backend> Executor<'_, B> {
    /// Begins a computation on the NPU.
    pub(super) fn compute(&mut self, rank: u32, node: u32, quiet: Span, overlapped: Span) {
        let shared = self.ranks.communicates(rank);
        let pace = Pace::new(node, quiet, overlapped, shared, self.now);
        self.paces.0[rank as usize] = Some(pace);
        self.finish_at(rank, node, pace.ends);
    }

    /// A rank may have begun or ended to communicate: what it computes changes its pace.
    pub(super) fn repace(&mut self, rank: u32) {
        let shared = self.ranks.communicates(rank);
        let now = self.now;
        if let Some(pace) = &mut self.paces.0[rank as usize]
            && pace.shared != shared
            && pace.left > 0
        {
            pace.turn(now);
            let Pace { node, ends, .. } = *pace;
            self.register(rank, ends, Callback::Node(node));
        }
    }

    /// Whether `node` does not end now although that was registered: it has changed its pace since.
    pub(super) fn has_changed_pace(&mut self, rank: u32, node: u32) -> bool {
        if self.settings.overlapped.is_empty() || self.ranks.kind(rank, node) != OpKind::Compute {
            return false;
        }
        let pace = &mut self.paces.0[rank as usize];
        let ends = pace.is_some_and(|pace| pace.node == node && pace.ends == self.now);
        if ends {
            *pace = None;
        }
        !ends
    }
}
