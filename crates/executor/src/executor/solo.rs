//! The closed form of a phase in a native run: one simulated rank stands for all positions of its
//! line, and nothing else uses its links, so that a phase takes the same time whenever it starts.
//!
//! That time is found once for each script, by following it with messages that come from the rank
//! itself (`lowering::loopback`): `departure = max(now, link free)`, `arrival = departure +
//! transit`. It is used only if events would give the same result to the picosecond:
//! - messages delay one another where they leave their NPU and nowhere else (the analytical
//!   backend);
//! - one chunk at a time runs in each dimension, and all groups of the rank have one simulated
//!   member, so that nobody is drawn into a phase;
//! - no other dimension, no send and no algorithm from a file uses the links by which the phases of
//!   a dimension leave;
//! - no message arrives the moment it is sent, so that a phase ends in the first round of its
//!   instant, where its end is registered.
//!
//! When a phase begins the links are idle: the one before it in its dimension ended when its last
//! message had arrived. Not here: the closed form of ASTRA-sim's profile (`lockstep.rs`), in which
//! all positions of a line must enter together.

use super::Executor;
use super::lockstep::Locksteps;
use crate::parts::agenda::Callback;
use crate::parts::chunks::ChunkRun;
use crate::parts::scripts::FlatScript;
use collective::To;
use graph::Op;
use indexmap::IndexMap;
use lowering::loopback::{self, Ties};
use lowering::{Geometry, PhaseSpec, Request};
use network::{Backend, Transfer};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use units::Span;

type FxIndexMap<K, V> = IndexMap<K, V, FxBuildHasher>;

/// Phases in closed form, of either kind.
#[derive(Default)]
pub(super) struct ClosedForms {
    pub(super) locksteps: Locksteps,
    solos: Solos,
    /// By slot and script: whether one simulated run stands for all positions of its line.
    alone: FxHashMap<(u32, u32), bool>,
}

/// Phases that run alone.
#[derive(Default)]
struct Solos {
    /// For each rank the dimensions in which phases may run alone; `None` until it is needed.
    dims: Vec<Option<Box<[bool]>>>,
    /// By slot and script, an index of `forms`; `None` where events must be simulated.
    known: FxHashMap<(u32, u32), Option<u32>>,
    forms: Vec<Solo>,
}

/// A phase that runs alone.
struct Solo {
    /// From its start to its end.
    total: Span,
    /// By destination and bytes, how often a phase sends such a transfer. There are as many entries
    /// as ranks if everybody sends to everybody.
    sends: FxIndexMap<(u32, u64), u64>,
    /// The rank that sends, and the number of ranks that it stands for.
    from: (u32, u64),
    /// Phases that have taken this form.
    phases: u64,
}

impl<B: Backend> Executor<'_, B> {
    /// Ends the phase that `run` begins after its known time; false when it must run step by step.
    #[inline]
    pub(super) fn runs_alone(&mut self, run: u32, dim: u32) -> bool {
        let state = self.runs[run];
        if !self.settings.runs_alone()
            || self.folding.class_of.is_none()
            || !self.is_quiet(state.rank, dim)
        {
            return false;
        }
        let key = (state.slot, state.script);
        let found = match self.closed_forms.solos.known.get(&key) {
            Some(&found) => found,
            None => self.find_solo(run, key),
        };
        let Some(at) = found else { return false };
        let form = &mut self.closed_forms.solos.forms[at as usize];
        form.phases += 1;
        let end = self.now + form.total;
        self.register(state.rank, end, Callback::Over(run));
        true
    }

    /// Accounts for what the phases in closed form have sent.
    pub(super) fn carry_solos(&mut self) {
        for form in std::mem::take(&mut self.closed_forms.solos.forms) {
            let (src, weight) = form.from;
            for ((dst, bytes), times) in form.sends {
                let transfer = Transfer { src, dst, bytes, paced: bytes, token: 0, weight };
                self.carry(transfer, times * form.phases);
            }
        }
    }

    /// True when one simulated run stands for all positions of its line.
    pub(super) fn stands_alone(&mut self, run: u32) -> bool {
        let state = self.runs[run];
        let script = self.scripts.get(state.script);
        if let Some(&known) = self.closed_forms.alone.get(&(state.slot, state.script)) {
            return known;
        }
        let is_own = |p: u32| {
            self.folded_member(state.slot, self.rank_at(&state.seat(), &script, p)) == state.member
        };
        let alone = (0..script.n).all(is_own);
        self.closed_forms.alone.insert((state.slot, state.script), alone);
        alone
    }

    fn find_solo(&mut self, run: u32, key: (u32, u32)) -> Option<u32> {
        let state = self.runs[run];
        let script = self.scripts.get(state.script);
        let form = if self.stands_alone(run) { self.follow_alone(&state, &script) } else { None };
        let at = form.map(|form| {
            self.closed_forms.solos.forms.push(form);
            self.closed_forms.solos.forms.len() as u32 - 1
        });
        self.closed_forms.solos.known.insert(key, at);
        at
    }

    /// Whether only the phases of a dimension use their links, one phase at a time.
    fn is_quiet(&mut self, rank: u32, dim: u32) -> bool {
        if self.closed_forms.solos.dims.is_empty() {
            self.closed_forms.solos.dims.resize_with(self.ranks.len(), || None);
        }
        if self.closed_forms.solos.dims[rank as usize].is_none() {
            let dims = self.settings.sizes.len();
            self.closed_forms.solos.dims[rank as usize] = Some(match self.links_by_dim(rank) {
                Some((links, others)) => (0..dims).map(|d| apart(&links, &others, d)).collect(),
                None => vec![false; dims].into(),
            });
        }
        self.closed_forms.solos.dims[rank as usize].as_ref().is_some_and(|dims| dims[dim as usize])
    }

    /// Links by which the phases of each dimension leave a rank, and those of its sends; `None`
    /// when they aren't known beforehand.
    fn links_by_dim(&mut self, rank: u32) -> Option<(Vec<FxHashSet<u32>>, FxHashSet<u32>)> {
        let (mut links, mut others) =
            (vec![FxHashSet::default(); self.settings.sizes.len()], FxHashSet::default());
        let (id, first, workload) = (self.ranks[rank].id, self.ranks[rank].slots, self.workload);
        let mut asked: FxHashSet<(u32, Request)> = FxHashSet::default();
        for node in workload.program(id).nodes() {
            match node.op {
                Op::Send { peer, .. } => {
                    others.insert(self.departure(id, id.wrapping_add_signed(peer))?);
                }
                Op::Collective { slot, .. } => {
                    let shape = self.collectives.slot(first + slot).shape;
                    let Some(request) = self.settings.request(node, shape) else { continue };
                    if !self.collectives.has_one_member(first + slot) {
                        return None;
                    }
                    if asked.insert((first + slot, request)) {
                        self.add_links(id, first + slot, request, &mut links)?;
                    }
                }
                _ => {}
            }
        }
        Some((links, others))
    }

    /// Adds the links by which the phases of `request` leave rank `id`.
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
                links[phase.dim as usize].insert(self.departure(id, peer)?);
            }
        }
        Some(())
    }

    /// The number of the link by which a transfer leaves `src`.
    fn departure(&self, src: u32, dst: u32) -> Option<u32> {
        Some(self.backend.closed_form()?.departure(src, dst))
    }

    /// The rank at position `to` of a phase in which rank `id` is at `position`.
    fn peer(&self, phase: &PhaseSpec, slot: u32, id: u32, position: u32, to: u32) -> u32 {
        match phase.geometry {
            Geometry::Line { stride, .. } => id - position * stride + to * stride,
            Geometry::Group => self.members(slot).rank(to),
        }
    }

    /// The closed form of a script; `None` where its end depends on more than the script.
    fn follow_alone(&self, state: &ChunkRun, script: &FlatScript) -> Option<Solo> {
        let src = self.folding.representatives[state.rank as usize];
        let weight = self.folding.multiplicity[state.rank as usize];
        let mut free: FxHashMap<u32, Span> = FxHashMap::default();
        let mut sends: FxIndexMap<(u32, u64), u64> = FxIndexMap::default();
        let send = |now: Span, step: u32, to: To, bytes: u64| {
            let dst = self.rank_at(&state.seat(), script, to.position(state.position, script.n));
            let paced = self.scripts.paced(script, step);
            let form = self.backend.closed_form()?;
            let alone = form.paced(src, dst, (bytes, paced)).filter(|a| a.transit > Span::ZERO)?;
            let free = free.entry(self.departure(src, dst)?).or_default();
            let leaves = now.max(*free);
            *free = leaves + alone.occupancy;
            *sends.entry((dst, bytes)).or_default() += 1;
            Some(leaves + alone.transit)
        };
        let first = self.scripts.steps(script).first()?;
        let start = if first.to.is_some() { script.delay } else { Span::ZERO };
        let followed = loopback::follow(&self.scripts.loopback(script, start, Ties::Rounds), send)?;
        let ended = followed.is_over && script.receives > 0 && followed.in_first_round;
        ended.then_some(Solo { total: followed.end, sends, from: (src, weight), phases: 0 })
    }
}

/// Whether dimension `dim` shares none of its links.
fn apart(links: &[FxHashSet<u32>], others: &FxHashSet<u32>, dim: usize) -> bool {
    let own = &links[dim];
    let shares = |(d, theirs): (usize, &FxHashSet<u32>)| d != dim && !own.is_disjoint(theirs);
    own.is_disjoint(others) && !links.iter().enumerate().any(shares)
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
