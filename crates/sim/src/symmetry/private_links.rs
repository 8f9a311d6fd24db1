//! Links over which only one NPU ever sends: on those the closed form of a phase is exact with link
//! queues, too.
//!
//! Every route of every transfer is gone over once. Not here: the closed form
//! (`executor/lockstep.rs`), the queues (`net-analytical`).

use super::{Finder, Ports};
use crate::parts::Parts;
use lowering::Geometry;
use network::{Alike, Backend, Contention};
use topology::{Lanes, LinkGraph, Routing};

/// Whether only one NPU ever sends over each link; empty where the closed form that needs it is not
/// taken, or where there are too many routes to look at.
pub fn private_links(parts: &Parts<'_>, network: &dyn Backend) -> Vec<bool> {
    let Parts { workload, platform, settings, lowering, .. } = *parts;
    if network.contention() != Contention::Links
        || network.alike() == Alike::Classes
        || settings.canonical
        || !settings.closed_form
        || settings.ranks > RANKS
    {
        return Vec::new();
    }
    // Collectives of one phase: on one dimension, or of a communicator group.
    let single =
        settings.sizes.iter().filter(|&&s| s > 1).count() == 1 || workload.groups.len() > 1;
    if !single || !settings.one_at_a_time() || settings.rendezvous {
        return Vec::new();
    }
    let Ok(graph) = LinkGraph::new(&platform.fabric) else { return Vec::new() };
    if platform.network.routing == Routing::Spray {
        return Vec::new();
    }
    let graph = graph.with_routing(platform.network.routing);
    let mut finder = Finder::new(workload, platform, settings, lowering, network);
    if finder.look_at_collectives().is_err() {
        return Vec::new();
    }
    finder.private_links(&graph).unwrap_or_default()
}

/// Most ranks for which [`private_links`] looks.
const RANKS: u32 = 1 << 16;
/// Most hops it looks at.
const HOPS: u64 = 1 << 22;

impl Finder<'_> {
    /// Goes over every route of every transfer and notes who uses each link; `None` when there are
    /// too many.
    fn private_links(&self, graph: &LinkGraph) -> Option<Vec<bool>> {
        const FREE: u32 = u32::MAX;
        const SHARED: u32 = u32::MAX - 1;
        let mut user = vec![FREE; graph.len() as usize];
        let mut hops = 0;
        let mut mark = |src: u32, dst: u32| {
            let lanes = Lanes::of(graph, (src, dst));
            let links = lanes.found.iter().map(|lane| graph.over((src, dst), lane).into_owned());
            for link in links.flatten() {
                hops += 1;
                let user = &mut user[link as usize];
                *user = if *user == FREE || *user == src { src } else { SHARED };
            }
            hops <= HOPS
        };
        for (rank, binding) in (0..).zip(&self.workload.ranks) {
            for ports in self.ports[self.first[rank as usize] as usize].iter() {
                if !self.mark_ports(rank, ports, &mut mark) {
                    return None;
                }
            }
            let peers = self.programs.messages[binding.program as usize].iter();
            // Both ends see a message; the route is the sender's.
            for other in peers
                .map(|message| rank.wrapping_add_signed(message.peer))
                .filter(|&p| p < graph.npus())
            {
                if !(mark(rank, other) && mark(other, rank)) {
                    return None;
                }
            }
        }
        Some(user.into_iter().map(|u| u != SHARED).collect())
    }

    /// Marks the routes of one rank's sends in a phase.
    fn mark_ports(
        &self,
        rank: u32,
        ports: &Ports,
        mark: &mut impl FnMut(u32, u32) -> bool,
    ) -> bool {
        let group = self.workload.group_of(rank, ports.slot);
        let members = &self.workload.groups[group as usize].members;
        let (position, base, stride) = match ports.geometry {
            Geometry::Line { stride, size } => {
                (rank / stride % size, rank - rank / stride % size * stride, stride)
            }
            Geometry::Group => (members.position(rank, self.settings.ranks).unwrap_or(0), 0, 0),
        };
        let at = |p: u32| if stride > 0 { base + p * stride } else { members.rank(p) };
        let plans = ports
            .phases
            .iter()
            .flat_map(|p| &p.phase.plans)
            .flat_map(|d| [&d.forward.plan, &d.backward.plan]);
        plans.into_iter().all(|plan| {
            let mut peers: Vec<u32> = plan
                .script(position)
                .steps
                .iter()
                .filter_map(|s| s.to.map(|to| to.position(position, plan.n)))
                .collect();
            peers.sort_unstable();
            peers.dedup();
            peers.into_iter().filter(|&p| p != position).all(|p| mark(rank, at(p)))
        })
    }
}
