//! Accesses to memory, one at a time wherever it is shared, first come first served; and what the
//! memory of each NPU holds.
//!
//! What doesn't fit is refused, or spills: what was allocated first moves to memory outside, and
//! back when a node frees it. Such a node begins when its transfers are over. Not here: what an
//! access takes (`lowering::memory`).

use super::{Callback, Executor};
use device::memory::Sharing;
use graph::{Held, OpKind, Problem, Reach};
use network::Backend;
use platform::Exceeded;
use rustc_hash::FxHashMap;
use units::{Bytes, Span, Time};

/// When each shared memory is free again.
#[derive(Default)]
pub(super) struct Contention {
    free: FxHashMap<u32, Time>,
}

impl<B: Backend> Executor<'_, B> {
    /// Ends node `node` when its turn has come and its access is over.
    pub(super) fn access_memory(&mut self, rank: u32, node: u32, reach: Reach) {
        let state = &mut self.ranks[rank as usize];
        let span = self.settings.durations[state.program as usize][node as usize];
        let free = match reach {
            Reach::Local => &mut state.memory_free,
            Reach::Remote | Reach::InSwitch => {
                let done = self.outside(rank, span);
                return self.finish_at(rank, node, done);
            }
        };
        let done = self.now.max(*free) + span;
        *free = done;
        self.finish_at(rank, node, done);
    }

    /// When an access of `span` to memory outside the NPU is over.
    fn outside(&mut self, rank: u32, span: Span) -> Time {
        let id = self.ranks[rank as usize].id;
        let shared_by = match self.settings.remote_memory {
            Some(Sharing::PerNode { npus }) => id / npus,
            Some(Sharing::Pool) => 0,
            Some(Sharing::PerNpu) | None => id,
        };
        let free = self.memory.free.entry(shared_by).or_default();
        *free = self.now.max(*free) + span;
        *free
    }

    /// Takes memory for a node; when it may begin, if it has to wait for what is moved out or back.
    pub(super) fn allocate(&mut self, rank: u32, node: u32, held: Held) -> Option<Time> {
        let state = &mut self.ranks[rank as usize];
        state.held = state.held.saturating_add(held.allocates.0);
        self.recorder.memory_changed(rank, held.allocates.0 as i64, self.now);
        match self.settings.memory_limit? {
            (_, Exceeded::Warn) => None,
            (limit, Exceeded::Refuse) => {
                self.refuse_more(rank, node, limit);
                None
            }
            (limit, Exceeded::Spill) => self.spill(rank, node, held, limit),
        }
    }

    fn refuse_more(&mut self, rank: u32, node: u32, limit: Bytes) {
        let held = Bytes(self.ranks[rank as usize].held);
        if held > limit {
            let message = format!(
                "holds {held} at {} ns, more than the {limit} of its NPU's memory",
                self.now.as_ns()
            );
            let help = "a workload that fits, a larger npu.memory.capacity, or npu.memory.on_overflow: warn or spill";
            self.fail(Problem::new("", self.place(rank, node), message).help(help));
        }
    }

    /// Moves out what doesn't fit and back what the node frees and isn't there.
    fn spill(&mut self, rank: u32, node: u32, held: Held, limit: Bytes) -> Option<Time> {
        let resident = self.settings.resident[self.ranks[rank as usize].program as usize];
        let state = &mut self.ranks[rank as usize];
        let inside = state.held - state.spilled;
        let out = inside.saturating_sub(limit.0).min(inside.saturating_sub(resident));
        let there = inside - out - resident.min(inside - out);
        let back = held.frees.0.saturating_sub(there).min(state.spilled + out);
        state.spilled = state.spilled + out - back;
        if resident.saturating_add(held.frees.0.max(held.allocates.0)) > limit.0 {
            let (needs, keeps) = (held.frees.max(held.allocates), Bytes(resident));
            let message = format!(
                "needs {needs} at once beside {keeps} held all along, more than the {limit} of its NPU's memory"
            );
            self.fail(
                Problem::new("", self.place(rank, node), message)
                    .help("a larger npu.memory.capacity"),
            );
        }
        let pipeline = self.settings.spill.as_ref().filter(|_| out + back > 0)?;
        let moves = [out, back].into_iter().filter(|&bytes| bytes > 0);
        let span = moves.map(|bytes| pipeline.span(Bytes(bytes))).sum();
        Some(self.outside(rank, span))
    }

    /// A node is there and waits for its memory until `later`: its rank accesses memory outside
    /// meanwhile.
    pub(super) fn wait_for_memory(&mut self, rank: u32, node: u32, kind: OpKind, later: Time) {
        self.recorder.turns(rank, node, kind, OpKind::Remote, self.now);
        self.repace(rank);
        self.register(rank, later, Callback::Moved(node));
    }

    /// A node's memory is there.
    pub(super) fn moved(&mut self, rank: u32, node: u32) {
        let kind = self.kinds[self.ranks[rank as usize].program as usize][node as usize];
        self.recorder.turns(rank, node, OpKind::Remote, kind, self.now);
        self.repace(rank);
        self.begin_node(rank, node, kind);
    }

    /// Gives back what a node frees at its end.
    pub(super) fn free(&mut self, rank: u32, held: Held) {
        let state = &mut self.ranks[rank as usize];
        let freed = held.frees.0.min(state.held);
        state.held -= freed;
        state.spilled = state.spilled.min(state.held);
        self.recorder.memory_changed(rank, -(freed as i64), self.now);
    }
}
