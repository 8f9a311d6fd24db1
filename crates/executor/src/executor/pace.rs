//! How fast a computation goes: slower for as long as its NPU communicates.
//!
//! A node takes `quiet` where nothing else goes on and `beside` where its NPU communicates all the
//! time. Its work is `quiet beside`, of which a picosecond does `beside` parts in quiet and `quiet`
//! parts otherwise, so that changes of pace lose nothing to rounding and two at one instant cancel.
//! Not here: both durations (`lowering::compute`).

use super::{Callback, Executor};
use graph::OpKind;
use network::Backend;
use units::{Span, Time};

/// A computation under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    node: u32,
    quiet: Span,
    beside: Span,
    /// What was left to do at `since`.
    left: u128,
    since: Time,
    shared: bool,
    ends: Time,
}

impl Pace {
    fn new(node: u32, quiet: Span, beside: Span, shared: bool, now: Time) -> Pace {
        let left = u128::from(quiet.0) * u128::from(beside.0);
        Pace {
            node,
            quiet,
            beside,
            left,
            since: now,
            shared,
            ends: now + if shared { beside } else { quiet },
        }
    }

    /// Parts done in a picosecond.
    fn rate(&self) -> u128 {
        u128::from(if self.shared { self.quiet.0 } else { self.beside.0 })
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

impl<B: Backend> Executor<'_, B> {
    /// Begins a computation on the NPU.
    pub(super) fn compute(&mut self, rank: u32, node: u32, quiet: Span, beside: Span) {
        let shared = self.recorder.communicates(rank);
        let pace = Pace::new(node, quiet, beside, shared, self.now);
        self.ranks[rank as usize].pace = Some(pace);
        self.finish_at(rank, node, pace.ends);
    }

    /// A rank may have begun or ended to communicate: what it computes changes its pace.
    pub(super) fn repace(&mut self, rank: u32) {
        let shared = self.recorder.communicates(rank);
        let now = self.now;
        if let Some(pace) = &mut self.ranks[rank as usize].pace
            && pace.shared != shared
            && pace.left > 0
        {
            pace.turn(now);
            let Pace { node, ends, .. } = *pace;
            self.register(rank, ends, Callback::Node(node));
        }
    }

    /// Whether `node`, said to end now, has changed its pace since that was foreseen.
    pub(super) fn foreseen_wrongly(&mut self, rank: u32, node: u32) -> bool {
        let state = &mut self.ranks[rank as usize];
        if self.settings.overlapped.is_empty()
            || self.kinds[state.program as usize][node as usize] != OpKind::Compute
        {
            return false;
        }
        let right = state.pace.is_some_and(|pace| pace.node == node && pace.ends == self.now);
        if right {
            state.pace = None;
        }
        !right
    }
}
