//! Which dimensions of a rank have their links to themselves, so that their phases may be known
//! beforehand (`solo.rs`).
//!
//! Where transfers meet only as they leave their NPU, the links of the rank itself decide. Where
//! they share links, those of all simulated ranks do.

use super::Executor;
use collective::To;
use graph::Op;
use lowering::{Geometry, PhaseSpec, Request};
use network::{Backend, Contention};
use rustc_hash::{FxHashMap, FxHashSet};

/// Dimensions of each rank whose links nothing else uses.
#[derive(Default)]
pub(super) struct UnsharedLinks {
    /// `None` until it is needed.
    dims: Vec<Option<Box<[bool]>>>,
}

/// Links that the phases of each dimension of a rank use, and those of its sends.
struct Used {
    by_dim: Vec<FxHashSet<u32>>,
    others: FxHashSet<u32>,
    /// All groups of the rank have one simulated member.
    alone: bool,
}

impl<B: Backend> Executor<'_, B> {
    /// Whether only the phases of a dimension use their links, one phase at a time.
    pub(super) fn has_unshared_links(&mut self, rank: u32, dim: u32) -> bool {
        let ranks = self.ranks.len();
        let known = &mut self.closed_forms.solos.unshared.dims;
        if known.is_empty() {
            known.resize_with(ranks, || None);
        }
        if known[rank as usize].is_none() {
            match self.settings.contention {
                Contention::Links => self.compare_all(),
                _ => self.compare_own(rank),
            }
        }
        self.closed_forms.solos.unshared.dims[rank as usize]
            .as_ref()
            .is_some_and(|dims| dims[dim as usize])
    }

    /// Finds the dimensions of `rank` that share no link with its other ones and its sends.
    fn compare_own(&mut self, rank: u32) {
        let dims = self.settings.sizes.len();
        let used = self.links_by_dim(rank).filter(|used| used.alone);
        self.closed_forms.solos.unshared.dims[rank as usize] = Some(match used {
            Some(used) => (0..dims).map(|dim| used.apart(dim)).collect(),
            None => vec![false; dims].into(),
        });
    }

    /// Finds the dimensions of all ranks that share no link with anything else.
    fn compare_all(&mut self) {
        let (ranks, dims) = (self.ranks.len() as u32, self.settings.sizes.len());
        let all: Option<Vec<Used>> = (0..ranks).map(|rank| self.links_by_dim(rank)).collect();
        let mut users: FxHashMap<u32, u32> = FxHashMap::default();
        for used in all.iter().flatten() {
            for links in used.by_dim.iter().chain([&used.others]) {
                links.iter().for_each(|&link| *users.entry(link).or_default() += 1);
            }
        }
        let unshared = |rank: u32| -> Box<[bool]> {
            let Some(used) = all.as_ref().map(|all| &all[rank as usize]) else {
                return vec![false; dims].into();
            };
            let own = |links: &FxHashSet<u32>| links.iter().all(|link| users[link] == 1);
            used.by_dim.iter().map(|links| used.alone && own(links)).collect()
        };
        self.closed_forms.solos.unshared.dims =
            (0..ranks).map(|rank| Some(unshared(rank))).collect();
    }

    /// Links on which the phases of each dimension of a rank and its sends may meet others; `None`
    /// when they aren't known beforehand.
    fn links_by_dim(&mut self, rank: u32) -> Option<Used> {
        let mut used = Used {
            by_dim: vec![FxHashSet::default(); self.settings.sizes.len()],
            others: FxHashSet::default(),
            alone: true,
        };
        let (id, first, workload) = (self.ranks[rank].id, self.ranks[rank].slots, self.workload);
        let mut asked: FxHashSet<(u32, Request)> = FxHashSet::default();
        let program = workload.program(id);
        for node in program.nodes() {
            match node.op {
                Op::Send { peer, .. } => {
                    let peer = id.wrapping_add_signed(program.offset(peer));
                    self.links_to(id, peer, &mut used.others)?;
                }
                Op::Collective { slot, .. } => {
                    let shape = self.collectives.slot(first + slot).shape;
                    let Some(request) = self.settings.request(node, shape) else { continue };
                    used.alone &= self.collectives.has_one_member(first + slot);
                    if asked.insert((first + slot, request)) {
                        self.add_links(id, first + slot, request, &mut used.by_dim)?;
                    }
                }
                _ => {}
            }
        }
        Some(used)
    }

    /// Adds the links of the phases of `request` of rank `id`.
    fn add_links(
        &mut self,
        id: u32,
        slot: u32,
        request: Request,
        links: &mut [FxHashSet<u32>],
    ) -> Option<()> {
        let (lowered, _) = self.scripts.lower(request, self.settings).ok()?;
        for phase in lowered.shapes.iter().flatten() {
            if phase.custom.is_some() {
                return None;
            }
            for (to, position, n) in peers(phase, id, self.collectives.slot(slot).position?) {
                let peer = self.peer(phase, slot, id, position, to.position(position, n));
                self.links_to(id, peer, &mut links[phase.dim as usize])?;
            }
        }
        Some(())
    }

    /// Adds the links on which a transfer may meet others.
    fn links_to(&mut self, src: u32, dst: u32, links: &mut FxHashSet<u32>) -> Option<()> {
        let mut found = Vec::new();
        self.backend.closed_form_mut()?.links(src, dst, &mut found);
        links.extend(found);
        Some(())
    }

    /// The rank at position `to` of a phase in which rank `id` is at `position`.
    fn peer(&self, phase: &PhaseSpec, slot: u32, id: u32, position: u32, to: u32) -> u32 {
        match phase.geometry {
            Geometry::Line { stride, .. } => id - position * stride + to * stride,
            Geometry::Group => self.members(slot).rank(to),
        }
    }
}

impl Used {
    /// Whether dimension `dim` shares none of its links.
    fn apart(&self, dim: usize) -> bool {
        let own = &self.by_dim[dim];
        let shares = |(d, theirs): (usize, &FxHashSet<u32>)| d != dim && !own.is_disjoint(theirs);
        own.is_disjoint(&self.others) && !self.by_dim.iter().enumerate().any(shares)
    }
}

/// The peers that rank `id` sends to in a phase, in either direction: the relation, its own
/// position, and the number of positions.
fn peers(phase: &PhaseSpec, id: u32, in_group: u32) -> Vec<(To, u32, u32)> {
    let position = match phase.geometry {
        Geometry::Line { stride, size } => id / stride % size,
        Geometry::Group => in_group,
    };
    let plans = phase.plans.iter().flat_map(|d| [&d.forward.plan, &d.backward.plan]);
    let sends =
        plans.flat_map(|plan| plan.script(position).steps.iter().map(|step| (step.to, plan.n)));
    sends.filter_map(|(to, n)| to.map(|to| (to, position, n))).collect()
}
