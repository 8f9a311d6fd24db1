//! Accesses to memory by another front end: whose turn it is, and when they are over.
//!
//! They take the time that a run gives them. Those to the memory of one NPU take turns, and so do
//! those to memory that NPUs share; those to a pool share its links. Not here: how long one takes
//! (`lowering::memory`), the clock (`exchange.rs`).

use device::memory::{Access, Sharing};
use executor::{Group, PoolAccesses, Wanted};
use graph::{Problem, Reach};
use lowering::memory;
use platform::Platform;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{Bytes, Span, Time};

/// The accesses of a front end.
pub(crate) struct Accesses {
    platform: Platform,
    sharing: Option<Sharing>,
    pool: Option<Access>,
    known: FxHashMap<(Bytes, Reach), Span>,
    /// When the memory of each NPU is free again, and when each shared one.
    own: FxHashMap<u32, Time>,
    shared: FxHashMap<u32, Time>,
    turns: PoolAccesses<u64>,
    /// Accesses to the pool that may be over then, with their NPU. Later ones may delay them.
    ends: BinaryHeap<Reverse<(Time, u64, u32)>>,
}

/// When an access is over.
pub(crate) enum Over {
    /// Then.
    At(Time),
    /// That depends on later accesses.
    Open,
}

impl Accesses {
    pub(crate) fn new(platform: &Platform) -> Accesses {
        let pool = memory::pool(platform);
        let npus = if pool.is_some() { platform.fabric.npus() } else { 0 };
        let links = pool.as_ref().and_then(|access| access.pool.as_ref());
        Accesses {
            sharing: memory::sharing(platform),
            turns: PoolAccesses::new(links, npus as usize, (0..npus).map(|npu| (npu, npu))),
            platform: platform.clone(),
            pool,
            known: FxHashMap::default(),
            own: FxHashMap::default(),
            shared: FxHashMap::default(),
            ends: BinaryHeap::new(),
        }
    }

    /// Begins access `number` of `npu` at `now`, when its turn has come.
    ///
    /// # Errors
    /// No such memory.
    pub(crate) fn begin(
        &mut self,
        number: u64,
        npu: u32,
        wanted: Wanted,
        reach: Reach,
        now: Time,
    ) -> Result<Over, Problem> {
        let span = self.span(wanted.bytes, reach)?;
        let free = match (reach, self.sharing) {
            (Reach::Local, _) => self.own.entry(npu),
            _ if self.pool.is_some() => {
                self.access_pool(number, npu, wanted);
                return Ok(Over::Open);
            }
            (_, Some(Sharing::PerNode { npus })) => self.shared.entry(npu / npus),
            (_, Some(Sharing::Pool)) => self.shared.entry(0),
            (_, Some(Sharing::PerNpu) | None) => self.shared.entry(npu),
        };
        let free = free.or_default();
        *free = now.max(*free) + span;
        Ok(Over::At(*free))
    }

    /// Gathers in the switches are of all NPUs.
    fn access_pool(&mut self, number: u64, npu: u32, wanted: Wanted) {
        let pool = self.pool.as_ref().and_then(|access| access.pool.as_ref());
        if let Some(pool) = pool.filter(|_| wanted.gathers) {
            let all = Group { number: None, members: self.platform.fabric.npus() };
            self.turns.gathers(pool, (npu, npu), None, |_| all);
        }
        self.turns.push(npu, number, wanted);
    }

    /// When an access to the pool may next be over, once all accesses of `now` have begun.
    pub(crate) fn next(&mut self, now: Time) -> Option<Time> {
        if let Some(access) = self.pool.as_ref().filter(|_| self.turns.has_changed()) {
            let (ends, ending) = self.turns.share(access, self.platform.fabric.npus(), now);
            self.ends.extend(ending.into_iter().map(|(npu, number)| Reverse((ends, number, npu))));
        }
        self.ends.peek().map(|Reverse((at, ..))| *at)
    }

    /// Ends the accesses to the pool that are over `now`, in the order of the calls.
    pub(crate) fn end(&mut self, now: Time, due: &mut Vec<u64>) {
        while let Some(&Reverse((at, number, npu))) = self.ends.peek()
            && at == now
        {
            self.ends.pop();
            due.extend(self.turns.end(npu, now, |&ticket| ticket == number));
        }
    }

    fn span(&mut self, bytes: Bytes, reach: Reach) -> Result<Span, Problem> {
        if let Some(&known) = self.known.get(&(bytes, reach)) {
            return Ok(known);
        }
        let span = memory::span(&self.platform, bytes, reach)?;
        self.known.insert((bytes, reach), span);
        Ok(span)
    }
}
