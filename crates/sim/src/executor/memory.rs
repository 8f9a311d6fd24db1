//! Accesses to memory, one at a time wherever it is shared, first come first served. Not here: what one takes (`crate::memory`).

use super::Executor;
use device::memory::Sharing;
use graph::Reach;
use network::Backend;
use rustc_hash::FxHashMap;
use units::Time;

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
                let shared_by = match self.settings.remote_memory {
                    Some(Sharing::PerNode { npus }) => state.id / npus,
                    Some(Sharing::Pool) => 0,
                    Some(Sharing::PerNpu) | None => state.id,
                };
                self.memory.free.entry(shared_by).or_default()
            }
        };
        let done = self.now.max(*free) + span;
        *free = done;
        self.finish_at(rank, node, done);
    }
}
