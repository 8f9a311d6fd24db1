//! The ready queues: chunks of a rank that have not been dispatched to the queue of their first
//! phase.
//!
//! Source: Rashidi et al., "ASTRA-SIM", ISPASS 2020, section IV-B and Fig. 7: when fewer than T
//! chunks of a rank are in their first phase, P chunks leave its ready queue. Not here: the queues
//! of phases (`chunks.rs`).

use super::chunks::{Priority, Waiting, add, take};
use platform::Dispatch;

/// The ready queue of a rank.
#[derive(Default)]
struct Ready {
    waiting: Waiting,
    /// Chunks that were dispatched and have not ended their first phase.
    first: u32,
}

/// The ready queues of all ranks; none without limits.
#[derive(Default)]
pub(crate) struct ReadyQueues {
    ranks: Vec<Ready>,
    limits: Option<Dispatch>,
}

impl ReadyQueues {
    pub(crate) fn new(ranks: usize, limits: Option<Dispatch>) -> ReadyQueues {
        let mut queues = ReadyQueues { ranks: Vec::new(), limits };
        if limits.is_some() {
            queues.ranks.resize_with(ranks, Ready::default);
        }
        queues
    }

    /// Whether chunks wait here at all.
    #[inline]
    pub(crate) fn are_used(&self) -> bool {
        self.limits.is_some()
    }

    /// Adds a run behind every waiting one of the same or higher priority.
    pub(crate) fn add(&mut self, rank: u32, priority: Priority, run: u32) {
        add(&mut self.ranks[rank as usize].waiting, priority, run);
    }

    /// The runs that are to leave now: none while enough chunks are in their first phase.
    pub(crate) fn batch(&mut self, rank: u32) -> Vec<u32> {
        let Some(limits) = self.limits else { return Vec::new() };
        let ready = &mut self.ranks[rank as usize];
        if ready.first >= limits.below {
            return Vec::new();
        }
        let count = ready.waiting.len().min(limits.chunks as usize);
        let batch: Vec<u32> = ready.waiting.drain(..count).map(|(_, run)| run).collect();
        ready.first += batch.len() as u32;
        batch
    }

    /// Takes out this very run, whether it is its turn or not; false if it does not wait.
    pub(crate) fn take(&mut self, rank: u32, run: u32) -> bool {
        let Some(ready) = self.ranks.get_mut(rank as usize) else { return false };
        let waits = take(&mut ready.waiting, run);
        ready.first += u32::from(waits);
        waits
    }

    /// A chunk has ended its first phase.
    pub(crate) fn first_ended(&mut self, rank: u32) {
        self.ranks[rank as usize].first -= 1;
    }

    /// The first run that waits on each rank.
    pub(crate) fn first_waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranks.iter().filter_map(|ready| ready.waiting.front().map(|&(_, run)| run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_leaves_while_fewer_than_the_limit_are_in_their_first_phase() {
        let mut ready = ReadyQueues::new(1, Some(Dispatch { below: 2, chunks: 3 }));
        (0..8).for_each(|run| ready.add(0, (false, 0), run));
        assert_eq!(ready.batch(0), [0, 1, 2], "none was in its first phase");
        assert!(ready.batch(0).is_empty(), "three are");
        ready.first_ended(0);
        assert!(ready.batch(0).is_empty(), "two are");
        ready.add(0, (false, 5), 9);
        ready.first_ended(0);
        assert_eq!(ready.batch(0), [9, 3, 4], "the one of higher priority overtakes");
        assert!(ready.take(0, 6), "drawn in before its turn");
        assert!(!ready.take(0, 6), "it does not wait any more");
        assert_eq!(ready.first_waiting().collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn without_limits_nothing_waits() {
        let mut ready = ReadyQueues::new(4, None);
        assert!(!ready.are_used() && !ready.take(3, 1));
        assert_eq!(ready.first_waiting().count(), 0);
    }
}
