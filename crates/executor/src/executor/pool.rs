//! Accesses of nodes to a pool (`pool_sharing.rs`).

use super::Executor;
use crate::folding::Folding;
use crate::parts::agenda::Callback;
use crate::pool_sharing::{Group, PoolAccesses, Wanted};
use crate::settings::Settings;
use graph::{Members, Workload};
use network::Backend;

/// The next step of a node when its access is over.
#[derive(Clone, Copy)]
pub(super) enum Then {
    /// It ends.
    Complete,
    /// It begins.
    Begin,
    /// It waits for its next access.
    Nothing,
}

/// A node that accesses the pool.
#[derive(Clone, Copy)]
pub(super) struct Ticket {
    node: u32,
    then: Then,
}

/// No access yet.
pub(super) fn turns(settings: &Settings, folding: &Folding) -> PoolAccesses<Ticket> {
    let pool = settings.pool.as_ref().and_then(|access| access.pool.as_ref());
    let npus = (0..settings.ranks).map(|id| (id, folding.local(id)));
    PoolAccesses::new(pool, folding.representatives.len(), npus)
}

/// The group of rank `id` in a slot.
fn group(workload: &Workload, id: u32, slot: Option<u32>) -> Group {
    let world = workload.ranks.len() as u32;
    let number = slot.map(|slot| workload.group_of(id, slot));
    let members = |number: u32| &workload.groups[number as usize].members;
    let number = number.filter(|&number| *members(number) != Members::All);
    Group { number, members: number.map_or(world, |number| members(number).len(world)) }
}

impl<B: Backend> Executor<'_, B> {
    /// Accesses the pool for `node` when the earlier accesses of its rank are over.
    pub(super) fn access_pool(&mut self, rank: u32, node: u32, wanted: Wanted, then: Then) {
        let pool = self.settings.pool.as_ref().and_then(|access| access.pool.as_ref());
        if let Some(pool) = pool.filter(|_| wanted.gathers) {
            let (ids, workload) = ((rank, self.ranks[rank].id), self.workload);
            self.pool.gathers(pool, ids, wanted.slot, |id| group(workload, id, wanted.slot));
        }
        self.pool.push(rank, Ticket { node, then }, wanted);
    }

    /// Gives the accesses under way their times for the loads of now, and registers the first end.
    pub(super) fn share_pool(&mut self) {
        let access = self.settings.pool.as_ref().expect("there is a pool");
        let (ends, ending) = self.pool.share(access, self.settings.ranks, self.now);
        for (rank, Ticket { node, .. }) in ending {
            self.register(rank, ends, Callback::Accessed(node));
        }
    }

    /// Ends an access for `node`, if it is over.
    pub(super) fn accessed(&mut self, rank: u32, node: u32) {
        let ended = self.pool.end(rank, self.now, |ticket| ticket.node == node);
        match ended.map(|ticket| ticket.then) {
            Some(Then::Complete) => self.complete(rank, node),
            Some(Then::Begin) => self.begin_moved(rank, node),
            Some(Then::Nothing) | None => {}
        }
    }
}
