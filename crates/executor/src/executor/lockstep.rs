//! The closed form of a phase in ASTRA-sim's profile. If all positions of a line enter a phase
//! together, look the same and nothing contends, the phase takes the same time everywhere, and that
//! time is known beforehand.
//!
//! The time is that of one position that sends to itself (`lowering::loopback`), found once for
//! each script. It is used only if events would give the same result: all positions run one script;
//! paths depend on the step alone; nothing else uses the links, and no message waits for another one
//! of its own rank; the endpoint delay is above zero, so that by the first send all have entered or
//! not; and no other chunk is under way on the rank. Native runs let chunks overlap and have
//! `solo.rs` instead.

use super::Executor;
use crate::parts::agenda::Callback;
use crate::parts::chunks::ChunkRun;
use crate::parts::scripts::FlatScript;
use collective::To;
use indexmap::IndexMap;
use lowering::loopback::{self, Ties};
use network::{Backend, Contention, Transfer, Uncontended};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::rc::Rc;
use units::{Span, Time};

/// Most (position, peer) pairs that are compared to see whether all positions are alike.
const PAIRS: u64 = 1 << 16;

/// Which positions have entered a phase of a chunk on a line so far.
struct Entries {
    time: Time,
    entered: u32,
    checked: u32,
    together: bool,
}

/// A phase in lockstep.
struct Lockstep {
    /// From the first send to the end.
    total: Span,
    /// Endpoint delay and reduction after the last reception.
    last: Span,
    /// Peer, bytes and number of its sends.
    sends: Vec<(To, u64, u64)>,
}

/// Lines that enter a phase, and the phases in lockstep.
#[derive(Default)]
pub(super) struct Locksteps {
    /// By line (the run of its first position) and phase.
    entries: FxHashMap<(u32, u32), Entries>,
    /// By script and line; `None` where events must be simulated.
    forms: FxHashMap<(u32, u32), Option<Rc<Lockstep>>>,
}

impl<B: Backend> Executor<'_, B> {
    /// Notes that a chunk has entered a phase. `line` is the run of the first
    /// position of its line.
    pub(super) fn note_entry(&mut self, run: u32, line: u32, script: &FlatScript) {
        let (now, state) = (self.now, self.runs[run]);
        let src = self.folding.representatives[state.rank as usize];
        let form = self.form(run, line, script);
        let free = |&(to, ..): &(To, u64, u64)| {
            let dst = self.rank_at(&state.seat(), script, to.position(state.position, script.n));
            let form = self.backend.closed_form();
            form.is_some_and(|form| form.is_idle(src, dst, now + script.delay))
        };
        let fit = form.is_some_and(|f| f.sends.iter().all(free));
        let fresh = Entries { time: now, entered: 0, checked: 0, together: true };
        let entries =
            self.closed_forms.locksteps.entries.entry((line, state.phase)).or_insert(fresh);
        entries.entered += 1;
        entries.together &= fit && entries.time == now;
    }

    /// At the first send: whether all `n` positions have entered together.
    fn together(&mut self, line: u32, phase: u32, n: u32) -> bool {
        let entries =
            self.closed_forms.locksteps.entries.get_mut(&(line, phase)).expect("noted on entry");
        entries.checked += 1;
        entries.together &= entries.entered == n;
        let (together, over) = (entries.together, entries.checked == n);
        if over {
            self.closed_forms.locksteps.entries.remove(&(line, phase));
        }
        together
    }

    /// Takes the closed form if it holds; false when the phase must run step by step.
    pub(super) fn lockstep(&mut self, run: u32, line: u32) -> bool {
        let state = self.runs[run];
        let script = self.scripts.get(state.script);
        // A folded line is one run, which stands for all of its positions.
        let folded = self.folding.class_of.is_some();
        let positions = if folded { 1 } else { script.n };
        if !self.together(line, state.phase, positions) || folded && !self.stands_alone(run) {
            return false;
        }
        let Some(form) = self.form(run, line, &script) else { return false };
        let src = self.folding.representatives[state.rank as usize];
        let weight = self.folding.multiplicity[state.rank as usize];
        for &(to, bytes, count) in &form.sends {
            let dst = self.rank_at(&state.seat(), &script, to.position(state.position, script.n));
            self.carry(Transfer { src, dst, bytes, paced: bytes, token: 0, weight }, count);
        }
        self.register(
            state.rank,
            self.now + (form.total - form.last),
            Callback::LastReceived(run, form.last),
        );
        true
    }

    /// The times of a transfer, if the backend knows that no other NPU can delay it.
    pub(super) fn uncontended(&self, src: u32, dst: u32, bytes: u64) -> Option<Uncontended> {
        self.backend.closed_form()?.uncontended(src, dst, bytes)
    }

    /// Accounts for transfers that were timed without the network.
    pub(super) fn carry(&mut self, transfer: Transfer, times: u64) {
        let form = self.backend.closed_form_mut();
        form.expect("times came from a closed form").carry(transfer, times);
    }

    fn form(&mut self, run: u32, line: u32, script: &FlatScript) -> Option<Rc<Lockstep>> {
        let state = self.runs[run];
        // Without contention all lines of a regular geometry are alike. Otherwise each line has a
        // form of its own.
        let place = match script.stride {
            _ if self.regular_everywhere(script) => u32::MAX,
            0 => self.runs[line].slot,
            _ => state.base,
        };
        if let Some(form) = self.closed_forms.locksteps.forms.get(&(state.script, place)) {
            return form.clone();
        }
        let form =
            if self.alike(run, script) { self.follow(&state, script).map(Rc::new) } else { None };
        self.closed_forms.locksteps.forms.insert((state.script, place), form.clone());
        form
    }

    fn regular_everywhere(&self, script: &FlatScript) -> bool {
        script.regular && self.settings.contention == Contention::None
    }

    /// True when every step takes the same time from every position.
    fn alike(&self, run: u32, script: &FlatScript) -> bool {
        if self.regular_everywhere(script) {
            return true;
        }
        let state = self.runs[run];
        let steps = self.scripts.steps(script);
        let mut peers: Vec<(To, u64)> =
            steps.iter().filter_map(|s| s.to.map(|to| (to, s.bytes))).collect();
        peers.sort_unstable_by_key(|&(to, bytes)| {
            (to.position(0, script.n.next_power_of_two()), bytes)
        });
        peers.dedup();
        if peers.len() as u64 * u64::from(script.n) > PAIRS {
            return false;
        }
        let span = |position: u32, to: To, bytes: u64| {
            let rank = |p| self.rank_at(&state.seat(), script, p);
            self.uncontended(rank(position), rank(to.position(position, script.n)), bytes)
        };
        peers.iter().all(|&(to, bytes)| {
            let first = span(0, to, bytes);
            first.is_some() && (1..script.n).all(|p| span(p, to, bytes) == first)
        })
    }

    /// Follows one position's script as if it sent to itself.
    fn follow(&self, state: &ChunkRun, script: &FlatScript) -> Option<Lockstep> {
        let src = self.folding.representatives[state.rank as usize];
        let mut sends: IndexMap<(To, u64), u64, FxBuildHasher> = IndexMap::default();
        // When the link to each peer is free again.
        let mut free: FxHashMap<u32, Span> = FxHashMap::default();
        let send = |now: Span, _: u32, to: To, bytes: u64| {
            let peer = self.rank_at(&state.seat(), script, to.position(state.position, script.n));
            let alone = self.uncontended(src, peer, bytes)?;
            let free = free.entry(peer).or_default();
            if *free > now {
                return None;
            }
            *free = now + alone.occupancy;
            *sends.entry((to, bytes)).or_default() += 1;
            Some(now + alone.transit)
        };
        let from_first_send = self.scripts.loopback(script, Span::ZERO, Ties::Scheduled);
        let followed = loopback::follow(&from_first_send, send)?;
        let sends = sends.into_iter().map(|((to, bytes), count)| (to, bytes, count)).collect();
        Some(Lockstep { total: followed.end, last: followed.last_wait, sends })
    }
}
