//! Chunks of collectives on ranks, and the queues in which they wait for their phases.
//!
//! Here: the data of a chunk run, the table of all runs, and the queues of each dimension of each
//! rank. Not here: what a chunk does in a phase (`executor/phases.rs`, `executor/steps.rs`).

use collective::Follower;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use units::Time;

const NONE: u32 = u32::MAX;

/// In the place of a script: an algorithm from a file runs.
pub(crate) const CUSTOM: u32 = u32::MAX - 1;

/// Larger goes first: whether it goes before the others, then by the policy.
pub(crate) type Priority = (bool, i64);

/// One chunk of one collective on one rank.
#[derive(Clone, Copy)]
pub(crate) struct ChunkRun {
    /// Rank index; `NONE` until the rank issues the collective.
    pub(crate) rank: u32,
    pub(crate) instance: u32,
    pub(crate) chunk: u32,
    /// Own index among the members. The chunk's row of runs starts at `index - member`.
    pub(crate) member: u32,
    /// The slot of its group.
    pub(crate) slot: u32,
    pub(crate) phase: u32,
    /// The queue of its phase (index within the rank), and whether chunks in it run backwards.
    pub(crate) queue: u32,
    pub(crate) backward: bool,
    /// Index of its script; `NONE` while no phase is in progress.
    pub(crate) script: u32,
    pub(crate) position: u32,
    /// On a line, the rank of position 0.
    pub(crate) base: u32,
    /// Where it is in its script.
    pub(crate) follower: Follower,
    /// Messages that came before their receive was posted, and announcements before their step
    /// fired.
    pub(crate) early: u32,
    /// Bit p: a member of its line has begun phase p.
    begun: u64,
    /// When it came to its phase, left the ready queue if that was its first, and began it.
    pub(crate) entered: Time,
    pub(crate) dispatched: Time,
    pub(crate) started: Time,
    /// It has left the ready queue and not ended the first phase that its rank enters.
    pub(crate) is_first: bool,
}

/// Where a chunk run stands in its phase. It does not change while the phase lasts, so it can be
/// copied without waiting for the counts that just have.
#[derive(Clone, Copy)]
pub(crate) struct Seat {
    pub(crate) rank: u32,
    pub(crate) member: u32,
    pub(crate) slot: u32,
    pub(crate) phase: u32,
    pub(crate) script: u32,
    pub(crate) position: u32,
    pub(crate) base: u32,
}

impl ChunkRun {
    #[inline]
    pub(crate) fn seat(&self) -> Seat {
        let &ChunkRun { rank, member, slot, phase, script, position, base, .. } = self;
        Seat { rank, member, slot, phase, script, position, base }
    }

    fn new(instance: u32, chunk: u32) -> ChunkRun {
        ChunkRun {
            rank: NONE,
            instance,
            chunk,
            member: 0,
            slot: 0,
            phase: 0,
            queue: 0,
            backward: false,
            script: NONE,
            position: 0,
            base: 0,
            follower: Follower::default(),
            early: 0,
            begun: 0,
            entered: Time::ZERO,
            dispatched: Time::ZERO,
            started: Time::ZERO,
            is_first: false,
        }
    }

    /// Whether its rank has issued the collective.
    pub(crate) fn is_issued(&self) -> bool {
        self.rank != NONE
    }

    /// Whether a phase is in progress.
    #[inline]
    pub(crate) fn is_in_phase(&self) -> bool {
        self.script != NONE
    }

    /// Leaves its phase for the next one.
    pub(crate) fn leave_phase(&mut self) {
        (self.script, self.phase) = (NONE, self.phase + 1);
    }

    /// Whether a member of its line has begun `phase`.
    pub(crate) fn has_begun(&self, phase: u32) -> bool {
        self.begun & bit(phase) != 0
    }

    /// Notes that a member of its line has begun `phase`.
    pub(crate) fn note_begun(&mut self, phase: u32) {
        self.begun |= bit(phase);
    }
}

/// The bit of a phase in `ChunkRun::begun`. Phases beyond the last bit are not joined early.
fn bit(phase: u32) -> u64 {
    1u64.checked_shl(phase).unwrap_or(0)
}

/// All chunk runs. Those of one instance stand side by side, chunk by chunk.
#[derive(Default)]
pub(crate) struct ChunkRuns {
    runs: Vec<ChunkRun>,
    /// Blocks of runs that are not in use, by their length.
    free: FxHashMap<u32, Vec<u32>>,
}

impl ChunkRuns {
    /// New runs of an instance, one for each chunk and member; the first of them.
    pub(crate) fn add(&mut self, instance: u32, chunks: u32, members: u32) -> u32 {
        let count = chunks * members;
        let runs = (0..count).map(|k| ChunkRun::new(instance, k / members.max(1)));
        if let Some(first) = self.free.get_mut(&count).and_then(Vec::pop) {
            runs.zip(&mut self.runs[first as usize..]).for_each(|(new, old)| *old = new);
            return first;
        }
        let first = self.runs.len() as u32;
        self.runs.extend(runs);
        first
    }

    /// Gives back `count` runs from `first` on.
    pub(crate) fn give_back(&mut self, first: u32, count: u32) {
        self.free.entry(count).or_default().push(first);
    }
}

impl Index<u32> for ChunkRuns {
    type Output = ChunkRun;

    #[inline]
    fn index(&self, run: u32) -> &ChunkRun {
        &self.runs[run as usize]
    }
}

impl IndexMut<u32> for ChunkRuns {
    #[inline]
    fn index_mut(&mut self, run: u32) -> &mut ChunkRun {
        &mut self.runs[run as usize]
    }
}

/// Runs that wait, with their priorities, in order.
pub(crate) type Waiting = VecDeque<(Priority, u32)>;

/// Adds a run behind every waiting one of the same or higher priority.
pub(crate) fn add(waiting: &mut Waiting, priority: Priority, run: u32) {
    let behind = waiting.iter().rposition(|&(p, _)| p >= priority).map_or(0, |i| i + 1);
    waiting.insert(behind, (priority, run));
}

/// Takes out this very run; false if it does not wait.
pub(crate) fn take(waiting: &mut Waiting, run: u32) -> bool {
    let at = waiting.iter().position(|&(_, other)| other == run);
    at.and_then(|at| waiting.remove(at)).is_some()
}

/// One queue of one dimension of one rank.
#[derive(Default)]
struct Queue {
    waiting: Waiting,
    running: u32,
}

/// The queues of all ranks. A queue has a number within its rank.
pub(crate) struct Queues {
    queues: Vec<Queue>,
    /// Chunks that run at once, by queue within a rank.
    rooms: Vec<u32>,
    /// The first queue of each dimension within a rank.
    firsts: Vec<u32>,
}

impl Queues {
    pub(crate) fn new(ranks: usize, dims: &[platform::Queues]) -> Queues {
        let (mut queues, mut rooms, mut firsts) = (Vec::new(), Vec::new(), Vec::new());
        for dim in dims {
            firsts.push(rooms.len() as u32);
            rooms.extend((0..dim.count).map(|_| dim.room));
        }
        queues.resize_with(ranks * rooms.len(), Queue::default);
        Queues { queues, rooms, firsts }
    }

    /// The first queue of a dimension within a rank.
    #[inline]
    pub(crate) fn first(&self, dim: u32) -> u32 {
        self.firsts[dim as usize]
    }

    #[inline]
    fn queue(&mut self, rank: u32, queue: u32) -> &mut Queue {
        &mut self.queues[(rank * self.rooms.len() as u32 + queue) as usize]
    }

    /// Adds a run behind every waiting one of the same or higher priority.
    pub(crate) fn add(&mut self, rank: u32, queue: u32, priority: Priority, run: u32) {
        add(&mut self.queue(rank, queue).waiting, priority, run);
    }

    /// Takes the next waiting run, if the queue has room for it.
    pub(crate) fn start_next(&mut self, rank: u32, queue: u32) -> Option<u32> {
        let room = self.rooms[queue as usize];
        let queue = self.queue(rank, queue);
        if queue.running >= room {
            return None;
        }
        let (_, run) = queue.waiting.pop_front()?;
        queue.running += 1;
        Some(run)
    }

    /// Takes this very run, whether the queue has room or not; false if it does not wait.
    pub(crate) fn start(&mut self, rank: u32, queue: u32, run: u32) -> bool {
        let queue = self.queue(rank, queue);
        let waits = take(&mut queue.waiting, run);
        queue.running += u32::from(waits);
        waits
    }

    /// A run leaves a queue at the end of its phase.
    pub(crate) fn leave(&mut self, rank: u32, queue: u32) {
        self.queue(rank, queue).running -= 1;
    }

    /// The first run that waits in each queue.
    pub(crate) fn first_waiting(&self) -> Vec<u32> {
        self.queues.iter().filter_map(|q| q.waiting.front().map(|&(_, run)| run)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(count: u32) -> platform::Queues {
        platform::Queues { count, room: 1 }
    }

    #[test]
    fn dimensions_have_queues_and_room_of_their_own() {
        let dims = [(2, 1), (1, 3), (3, 2)].map(|(count, room)| platform::Queues { count, room });
        let mut queues = Queues::new(2, &dims);
        assert_eq!([0, 1, 2].map(|dim| queues.first(dim)), [0, 2, 3]);
        for (queue, room) in [(1, 1), (2, 3), (5, 2)] {
            (0..4).for_each(|run| queues.add(1, queue, (false, 0), run));
            let started = (0..4).filter(|_| queues.start_next(1, queue).is_some()).count();
            assert_eq!(started, room, "queue {queue}");
        }
    }

    #[test]
    fn a_queue_runs_the_highest_priority_first_and_equal_ones_in_order() {
        let mut queues = Queues::new(1, &[of(2)]);
        for (priority, run) in [(0, 10), (5, 11), (0, 12), (5, 13)] {
            queues.add(0, 1, (false, priority), run);
        }
        let mut order = Vec::new();
        while let Some(run) = queues.start_next(0, 1) {
            assert_eq!(queues.start_next(0, 1), None, "there is room for one");
            order.push(run);
            queues.leave(0, 1);
        }
        assert_eq!(order, [11, 13, 10, 12]);
    }

    #[test]
    fn a_run_may_start_before_its_turn() {
        let mut queues = Queues::new(2, &[of(1)]);
        queues.add(1, 0, (false, 0), 7);
        queues.add(1, 0, (false, 0), 8);
        assert!(queues.start(1, 0, 8), "it waits");
        assert!(!queues.start(1, 0, 8), "it runs");
        assert_eq!(queues.first_waiting(), [7]);
    }

    #[test]
    fn runs_are_used_again() {
        let mut runs = ChunkRuns::default();
        assert_eq!((runs.add(0, 3, 2), runs.add(1, 1, 2)), (0, 6));
        assert_eq!((runs[4].instance, runs[4].chunk), (0, 2));
        runs.give_back(0, 6);
        assert_eq!(runs.add(2, 2, 3), 0, "six runs fit in the place of six");
        assert_eq!((runs[4].instance, runs[4].chunk), (2, 1));
    }
}
