//! Accesses to memory outside the NPU: `latency + bytes / bandwidth`, one at a time in a shared memory, first come first served.

use super::Executor;
use device::memory::Sharing;
use network::{Backend, LinkCost};
use rustc_hash::FxHashMap;
use units::{Bytes, Time};

/// Remote memory as the executor needs it.
#[derive(Clone, Copy, Debug)]
pub struct RemoteTiming {
    /// Who shares it.
    pub sharing: Sharing,
    /// Latency and bandwidth.
    pub cost: LinkCost,
}

/// When each shared memory is free again.
#[derive(Default)]
pub(super) struct Contention {
    free: FxHashMap<u32, Time>,
}

impl<B: Backend> Executor<'_, B> {
    pub(super) fn access_memory(&mut self, rank: u32, node: u32, bytes: Bytes) {
        let Some(memory) = self.settings.remote_memory else {
            let text = "accesses remote memory, and the platform has none".to_string();
            let problem = graph::Problem::new("", self.place(rank, node), text);
            return self.fail(problem.help("a platform with remote memory"));
        };
        let id = self.ranks[rank as usize].id;
        let shared_by = match memory.sharing {
            Sharing::PerNpu => id,
            Sharing::PerNode { npus } => id / npus,
            Sharing::Pool => 0,
        };
        let free = self.memory.free.entry(shared_by).or_default();
        let done = self.now.max(*free) + memory.cost.transit(1, bytes.0);
        *free = done;
        self.finish_at(rank, node, done);
    }
}
