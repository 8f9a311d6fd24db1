//! Messages and sends of chunks whose other side is not there yet.
//!
//! A message that arrives before its receive is posted is *early*. With rendezvous, a send is
//! *held* until its receiver has announced itself; an announcement that comes before the send is
//! early, too. Not here: sends and receives of the workload (`messages.rs`).

use super::chunks::Seat;
use super::token::SLOT_BITS;
use rustc_hash::{FxHashMap, FxHashSet};

/// Marks steps that are announced, among receives whose message is early.
const ANNOUNCED: u32 = 1 << SLOT_BITS;

/// Chunk run, phase, and step or receive.
type Key = (u32, u32, u32);

/// Messages that have come early for a chunk run in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Early {
    /// The message for a receive.
    Message(u32),
    /// The announcement for a step.
    Announcement(u32),
}

impl Early {
    fn key(self, run: u32, phase: u32) -> Key {
        match self {
            Early::Message(slot) => (run, phase, slot),
            Early::Announcement(step) => (run, phase, ANNOUNCED | step),
        }
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Rendezvous {
    /// Sends by run, phase and step, with the state of the run when the step fired.
    held: FxHashMap<Key, Seat>,
    early: FxHashSet<Key>,
}

impl Rendezvous {
    /// Holds the send of a step until [`Rendezvous::release`].
    pub(crate) fn hold(&mut self, run: u32, step: u32, seat: Seat) {
        self.held.insert((run, seat.phase, step), seat);
    }

    /// The rank of a held send.
    pub(crate) fn holder(&self, run: u32, phase: u32, step: u32) -> Option<u32> {
        self.held.get(&(run, phase, step)).map(|seat| seat.rank)
    }

    /// Where a run stood when the step of a held send fired.
    pub(crate) fn release(&mut self, run: u32, phase: u32, step: u32) -> Seat {
        self.held.remove(&(run, phase, step)).expect("held until its receiver is there")
    }

    pub(crate) fn keep(&mut self, run: u32, phase: u32, early: Early) {
        self.early.insert(early.key(run, phase));
    }

    /// Takes what has come early; false if it has not.
    pub(crate) fn take(&mut self, run: u32, phase: u32, early: Early) -> bool {
        self.early.remove(&early.key(run, phase))
    }
}
