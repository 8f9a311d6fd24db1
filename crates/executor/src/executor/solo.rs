//! The closed form of a phase in a native run: one simulated rank stands for all positions of its
//! line, and nothing else uses its links, so that a phase takes the same time whenever it starts.
//!
//! That time is found once for each script, by following it with messages that come from the rank
//! itself (`lowering::loopback`): `departure = max(now, link free)`, `arrival = departure +
//! transit`. It is used only if events would give the same result to the picosecond:
//! - messages delay one another where they leave their NPU and nowhere else (the analytical
//!   backend), or no two of them are on one link at once (backends that share links);
//! - one chunk at a time runs in each dimension, and all groups of the rank have one simulated
//!   member, so that no other rank is drawn into a phase;
//! - no other dimension, no send and no algorithm from a file uses the links by which the phases of
//!   a dimension leave, or on which they may meet others (`unshared_links.rs`);
//! - no message arrives the moment it is sent, so that a phase ends in the first round of its
//!   instant, where its end is registered.
//!
//! When a phase begins the links are idle: the one before it in its dimension ended when its last
//! message had arrived. Not here: the closed form of ASTRA-sim's profile (`lockstep.rs`), in which
//! all positions of a line must enter together.

use super::Executor;
use super::lockstep::Locksteps;
use super::unshared_links::UnsharedLinks;
use crate::parts::agenda::Callback;
use crate::parts::chunks::ChunkRun;
use crate::parts::scripts::FlatScript;
use collective::{Step, To};
use indexmap::IndexMap;
use lowering::loopback::{self, Ties};
use network::{Backend, Contention, Transfer};
use rustc_hash::{FxBuildHasher, FxHashMap};
use units::Span;

type FxIndexMap<K, V> = IndexMap<K, V, FxBuildHasher>;

/// Phases in closed form, of either kind.
#[derive(Default)]
pub(super) struct ClosedForms {
    pub(super) locksteps: Locksteps,
    pub(super) solos: Solos,
    /// By slot and script: whether one simulated run stands for all positions of its line.
    alone: FxHashMap<(u32, u32), bool>,
}

/// Phases that run alone.
#[derive(Default)]
pub(super) struct Solos {
    pub(super) unshared: UnsharedLinks,
    /// By slot and script, an index of `forms`; `None` where events must be simulated.
    known: FxHashMap<(u32, u32), Option<u32>>,
    forms: Vec<Solo>,
}

/// A phase that runs alone.
struct Solo {
    /// From its start to its end.
    total: Span,
    /// Number of such transfers that a phase sends, by destination and bytes. Their number is
    /// that of the ranks if each rank sends to all others.
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
        if !self.settings.runs_alone() || self.folding.class_of.is_none() {
            return false;
        }
        // Where links are shared, those of all ranks count: they are looked at last.
        let shared = self.settings.contention == Contention::Links;
        if !shared && !self.has_unshared_links(state.rank, dim) {
            return false;
        }
        let key = (state.slot, state.script);
        let found = match self.closed_forms.solos.known.get(&key) {
            Some(&found) => found,
            None => self.find_solo(run, key),
        };
        let Some(at) = found else { return false };
        if shared && !self.has_unshared_links(state.rank, dim) {
            return false;
        }
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

    /// The closed form of a script; `None` where its end depends on more than the script.
    fn follow_alone(&mut self, state: &ChunkRun, script: &FlatScript) -> Option<Solo> {
        let src = self.folding.representatives[state.rank as usize];
        let weight = self.folding.multiplicity[state.rank as usize];
        let peer = |step: &Step| {
            let position = step.to?.position(state.position, script.n);
            Some(self.rank_at(&state.seat(), script, position))
        };
        let peers: Vec<Option<u32>> = self.scripts.steps(script).iter().map(peer).collect();
        let waits = self.settings.contention == Contention::Departures;
        let (scripts, form) = (&self.scripts, self.backend.closed_form_mut()?);
        let mut free: FxHashMap<u32, Span> = FxHashMap::default();
        let mut sends: FxIndexMap<(u32, u64), u64> = FxIndexMap::default();
        let mut links = Vec::new();
        let send = |now: Span, step: u32, _: To, bytes: u64| {
            let dst = peers[step as usize]?;
            let paced = scripts.paced(script, step);
            let transfer = Transfer { src, dst, bytes, paced, token: 0, weight };
            let alone = form.unshared(&transfer).filter(|alone| alone.transit > Span::ZERO)?;
            links.clear();
            form.links(src, dst, &mut links);
            let busy = links.iter().filter_map(|link| free.get(link)).max();
            let leaves = busy.map_or(now, |&busy| now.max(busy));
            if leaves > now && !waits {
                return None;
            }
            free.extend(links.iter().map(|&link| (link, leaves + alone.occupancy)));
            *sends.entry((dst, bytes)).or_default() += 1;
            Some(leaves + alone.transit)
        };
        let first = scripts.steps(script).first()?;
        let start = if first.to.is_some() { script.delay } else { Span::ZERO };
        let followed = loopback::follow(&scripts.loopback(script, start, Ties::Rounds), send)?;
        let ended = followed.is_over && script.receives > 0 && followed.in_first_round;
        ended.then_some(Solo { total: followed.end, sends, from: (src, weight), phases: 0 })
    }
}
