//! Accesses to memory, one at a time wherever it is shared, first come first served; and what the
//! memory of each NPU holds.
//!
//! What doesn't fit is refused, or spills: what was allocated first moves to memory outside the
//! NPU, and back when a node frees it. A node that needs such a move begins when it is over. Not
//! here: how long an access takes (`lowering::memory`), and accesses to a pool (`pool.rs`).

use super::Executor;
use super::pool::Then;
use crate::parts::agenda::Callback;
use crate::parts::recorder::Change;
use crate::pool_sharing::Wanted;
use device::memory::Sharing;
use graph::{MemoryChange, OpKind, Problem, Reach};
use network::Backend;
use platform::Exceeded;
use rustc_hash::{FxHashMap, FxHashSet};
use units::{Bytes, Span, Time};

/// Bytes that a node waits for before it begins.
pub(super) struct Moves {
    /// Bytes that move out of its NPU, and back.
    out: Bytes,
    back: Bytes,
}

/// The memory of one NPU.
struct Own {
    /// When it is free again.
    free: Time,
    /// Bytes that the program holds, and how many of them lie outside.
    held: u64,
    spilled: u64,
}

/// All memory.
#[derive(Default)]
pub(super) struct Memory {
    own: Vec<Own>,
    /// When each shared memory is free again.
    shared: FxHashMap<u32, Time>,
    /// Bytes that come back for a node that waits for them.
    back: FxHashMap<(u32, u32), u64>,
    /// Tensors that each rank has accessed outside, by number.
    touched: FxHashSet<(u32, u32, Reach)>,
}

impl<B: Backend> Executor<'_, B> {
    /// Sets up the memory of the next rank, which holds `resident` bytes from the beginning.
    pub(super) fn set_up_memory(&mut self, rank: u32, resident: u64) {
        self.memory.own.push(Own { free: Time::ZERO, held: resident, spilled: 0 });
        self.recorder.memory_changed(rank, resident as i64, Time::ZERO);
    }

    /// Ends node `node`, which loads or stores `bytes`, when its turn has come and its access is
    /// over.
    pub(super) fn access_memory(&mut self, rank: u32, node: u32, wanted: Wanted, reach: Reach) {
        let program = self.ranks[rank].program as usize;
        let span = self.settings.durations[program][node as usize];
        let done = match reach {
            Reach::Local => {
                let free = &mut self.memory.own[rank as usize].free;
                *free = self.now.max(*free) + span;
                *free
            }
            _ if self.settings.pool.is_some() => {
                return self.access_pool(rank, node, wanted, Then::Complete);
            }
            Reach::Remote | Reach::InSwitch | Reach::Host | Reach::Disk => self.outside(rank, span),
        };
        self.finish_at(rank, node, done);
    }

    /// A node accesses tensor `number` outside the NPU, or one without a number.
    pub(super) fn touch(&mut self, rank: u32, node: u32, number: u32, reach: Reach) {
        let outside = number != 0 && reach != Reach::Local;
        if outside && self.memory.touched.insert((rank, number, reach)) {
            self.recorder.outside_changed(rank, Change::Touched(node), self.now);
        }
    }

    /// When an access of `span` to memory outside the NPU is over.
    fn outside(&mut self, rank: u32, span: Span) -> Time {
        let id = self.ranks[rank].id;
        let shared_by = match self.settings.remote_memory {
            Some(Sharing::PerNode { npus }) => id / npus,
            Some(Sharing::Pool) => 0,
            Some(Sharing::PerNpu) | None => id,
        };
        let free = self.memory.shared.entry(shared_by).or_default();
        *free = self.now.max(*free) + span;
        *free
    }

    /// Takes memory for a node. Returns the moves that it has to wait for, if any.
    pub(super) fn allocate(&mut self, rank: u32, node: u32, held: MemoryChange) -> Option<Moves> {
        let own = &mut self.memory.own[rank as usize];
        own.held = own.held.saturating_add(held.allocates.0);
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
        let held = Bytes(self.memory.own[rank as usize].held);
        if held > limit {
            let message = format!(
                "holds {held} at {} ns, more than the {limit} of its NPU's memory",
                self.now.as_ns()
            );
            let help = "a workload that fits, a larger npu.memory.capacity, or npu.memory.on_overflow: warn or spill";
            self.fail(Problem::new("", self.place(rank, node), message).help(help));
        }
    }

    /// Moves out what doesn't fit, and back what the node frees and lies outside.
    fn spill(&mut self, rank: u32, node: u32, held: MemoryChange, limit: Bytes) -> Option<Moves> {
        let resident = self.settings.resident[self.ranks[rank].program as usize];
        let own = &mut self.memory.own[rank as usize];
        let inside = own.held - own.spilled;
        let out = inside.saturating_sub(limit.0).min(inside.saturating_sub(resident));
        let there = inside - out - resident.min(inside - out);
        let back = held.frees.0.saturating_sub(there).min(own.spilled + out);
        own.spilled = own.spilled + out - back;
        if out > 0 {
            self.recorder.outside_changed(rank, Change::Spilled(out as i64), self.now);
        }
        if back > 0 {
            self.memory.back.insert((rank, node), back);
        }
        if resident.saturating_add(held.frees.0.max(held.allocates.0)) > limit.0 {
            let (needs, keeps) = (held.frees.max(held.allocates), Bytes(resident));
            let message = format!(
                "needs {needs} at once in addition to {keeps} held all along, more than the {limit} of its NPU's memory"
            );
            self.fail(
                Problem::new("", self.place(rank, node), message)
                    .help("a larger npu.memory.capacity"),
            );
        }
        (out + back > 0).then_some(Moves { out: Bytes(out), back: Bytes(back) })
    }

    /// A node waits for its memory. Meanwhile its rank accesses memory outside.
    pub(super) fn wait_for_memory(&mut self, rank: u32, node: u32, kind: OpKind, moves: Moves) {
        self.recorder.turns(rank, node, kind, OpKind::Remote, self.now);
        self.turns(rank, Some(kind), Some(OpKind::Remote));
        let parts = [(true, moves.out), (false, moves.back)];
        let parts = parts.into_iter().filter(|&(_, bytes)| bytes > Bytes(0));
        if self.settings.pool.is_some() {
            let last = parts.clone().count() - 1;
            for (at, (store, bytes)) in parts.enumerate() {
                let then = if at == last { Then::Begin } else { Then::Nothing };
                self.access_pool(
                    rank,
                    node,
                    Wanted { store, bytes, gathers: false, slot: None },
                    then,
                );
            }
            return;
        }
        let pipeline = self.settings.spill.as_ref().expect("data is moved");
        let span = parts.map(|(_, bytes)| pipeline.span(bytes)).sum();
        let later = self.outside(rank, span);
        self.register(rank, later, Callback::Moved(node));
    }

    /// The memory of a node is there.
    pub(super) fn begin_moved(&mut self, rank: u32, node: u32) {
        let kind = self.ranks.kind(rank, node);
        if let Some(back) = self.memory.back.remove(&(rank, node)) {
            self.recorder.outside_changed(rank, Change::Spilled(-(back as i64)), self.now);
        }
        self.recorder.turns(rank, node, OpKind::Remote, kind, self.now);
        self.turns(rank, Some(OpKind::Remote), Some(kind));
        self.begin_node(rank, node, kind);
    }

    /// Gives back what a node frees at its end.
    pub(super) fn free(&mut self, rank: u32, held: MemoryChange) {
        let own = &mut self.memory.own[rank as usize];
        let freed = held.frees.0.min(own.held);
        own.held -= freed;
        let gone = own.spilled.saturating_sub(own.held);
        own.spilled -= gone;
        self.recorder.memory_changed(rank, -(freed as i64), self.now);
        if gone > 0 {
            self.recorder.outside_changed(rank, Change::Spilled(-(gone as i64)), self.now);
        }
    }
}
