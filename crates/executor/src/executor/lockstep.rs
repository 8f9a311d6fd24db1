//! The closed form of a phase: when all positions of a line enter it together, every position looks
//! the same and nothing contends, the phase takes the same time everywhere, and that time is known
//! beforehand.
//!
//! The time is that of one position that sends to itself: its script is followed with the span of
//! each transfer, once a script. Used only where the result cannot differ from the event path: one
//! script for all positions, paths that depend on the step alone, links that nobody else uses and
//! none of one's own messages waits for, an endpoint delay above zero (so that by the first send
//! all have entered or not), and no other chunk under way on the rank. The native profile lets
//! chunks overlap, so this is for the peer's.

use super::chunk::{FlatScript, FxIndexMap};
use super::{Callback, Executor};
use collective::To;
use device::memory::Sharing;
use lowering::PhaseSpec;
use lowering::loopback::{self, Loopback, Ties};
use network::{Alone, Backend, Contention, Transfer};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use units::{Span, Time};

/// Most (position, peer) pairs looked at to see whether all positions are alike.
const PAIRS: u64 = 1 << 16;

/// Who has entered a phase of a chunk on a line so far.
pub(super) struct Entries {
    time: Time,
    entered: u32,
    checked: u32,
    together: bool,
}

/// A phase in lockstep.
pub(super) struct Lockstep {
    /// From the first send to the end.
    total: Span,
    /// The last wait of it: endpoint delay and reduction after the last reception.
    last: Span,
    /// Peer, bytes and number of its sends.
    sends: Vec<(To, u64, u64)>,
}

impl<B: Backend> Executor<'_, B> {
    /// True when a phase may take the closed form at all; `single`: its collective has no other
    /// phase.
    pub(super) fn may_lockstep(&self, phase: &PhaseSpec, single: bool) -> bool {
        let settings = self.settings;
        let alone = settings.comm_streams == 1
            && settings.per_queue == 1
            && settings.queues_per_dim == 1
            && single;
        settings.closed_form
            && !settings.rendezvous
            // Whoever is first at one instant is served first there: the order of scheduling shows.
            && settings.remote_memory.is_none_or(|sharing| sharing == Sharing::PerNpu)
            && phase.endpoint_delay > Span::ZERO
            && phase.only.is_empty()
            && !settings.canonical
            && alone
            && !phase.plans.is_empty()
            && phase.plans.iter().all(|d| d.forward.plan.is_uniform())
    }

    /// Notes that a chunk has entered a phase. `line` names the line: the stream of its first
    /// position.
    pub(super) fn note_entry(&mut self, stream: u32, line: u32, script: &FlatScript) {
        let (now, state) = (self.now, self.streams[stream as usize]);
        let src = self.folding.representatives[state.rank as usize];
        let form = self.form(stream, line, script);
        let free = |&(to, ..): &(To, u64, u64)| {
            let dst = self.rank_at(&state, script, to.position(state.position, script.n));
            let form = self.backend.closed_form();
            form.is_some_and(|form| form.is_idle(src, dst, now + script.delay))
        };
        let fit = form.is_some_and(|f| f.sends.iter().all(free));
        let fresh = Entries { time: now, entered: 0, checked: 0, together: true };
        let entries = self.entries.entry((line, state.phase)).or_insert(fresh);
        entries.entered += 1;
        entries.together &= fit && entries.time == now;
    }

    /// At the first send: have all `n` positions entered together?
    fn together(&mut self, line: u32, phase: u32, n: u32) -> bool {
        let entries = self.entries.get_mut(&(line, phase)).expect("noted on entry");
        entries.checked += 1;
        entries.together &= entries.entered == n;
        let (together, over) = (entries.together, entries.checked == n);
        if over {
            self.entries.remove(&(line, phase));
        }
        together
    }

    /// Takes the closed form if it holds; false when the phase must run step by step.
    pub(super) fn lockstep(&mut self, stream: u32, line: u32) -> bool {
        let state = self.streams[stream as usize];
        let script = self.scripts[state.script as usize];
        // A folded line is one stream that stands for all of its positions.
        let folded = self.folding.class_of.is_some();
        let positions = if folded { 1 } else { script.n };
        if !self.together(line, state.phase, positions) || folded && !self.stands_alone(stream) {
            return false;
        }
        let Some(form) = self.form(stream, line, &script) else { return false };
        let src = self.folding.representatives[state.rank as usize];
        let weight = self.folding.multiplicity[state.rank as usize];
        for &(to, bytes, count) in &form.sends {
            let dst = self.rank_at(&state, &script, to.position(state.position, script.n));
            self.carry(Transfer { src, dst, bytes, token: 0, weight }, count);
        }
        self.register(
            state.rank,
            self.now + (form.total - form.last),
            Callback::LastReceived(stream, form.last),
        );
        true
    }

    /// What the backend says of a transfer that no other NPU's can hold up.
    pub(super) fn uncontended(&self, src: u32, dst: u32, bytes: u64) -> Option<Alone> {
        self.backend.closed_form()?.uncontended(src, dst, bytes)
    }

    /// Accounts for transfers that were timed without the network.
    pub(super) fn carry(&mut self, transfer: Transfer, times: u64) {
        let form = self.backend.closed_form_mut();
        form.expect("times came from a closed form").carry(transfer, times);
    }

    fn form(&mut self, stream: u32, line: u32, script: &FlatScript) -> Option<Rc<Lockstep>> {
        let state = self.streams[stream as usize];
        // Without contention all lines of a regular geometry are one; else they are looked at one
        // by one.
        let place = match script.stride {
            _ if self.regular_everywhere(script) => u32::MAX,
            0 => self.streams[line as usize].slot,
            _ => state.base,
        };
        if let Some(form) = self.forms.get(&(state.script, place)) {
            return form.clone();
        }
        let form = if self.alike(stream, script) {
            self.follow(&state, script).map(Rc::new)
        } else {
            None
        };
        self.forms.insert((state.script, place), form.clone());
        form
    }

    fn regular_everywhere(&self, script: &FlatScript) -> bool {
        script.regular && self.settings.contention == Contention::None
    }

    /// True when every step takes the same time from every position.
    fn alike(&self, stream: u32, script: &FlatScript) -> bool {
        if self.regular_everywhere(script) {
            return true;
        }
        let state = self.streams[stream as usize];
        let steps = &self.steps[script.first as usize..script.last as usize];
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
            let rank = |p| self.rank_at(&state, script, p);
            self.uncontended(rank(position), rank(to.position(position, script.n)), bytes)
        };
        peers.iter().all(|&(to, bytes)| {
            let first = span(0, to, bytes);
            first.is_some() && (1..script.n).all(|p| span(p, to, bytes) == first)
        })
    }

    /// Follows one position's script as if it sent to itself.
    fn follow(&self, state: &super::chunk::ChunkRun, script: &FlatScript) -> Option<Lockstep> {
        let src = self.folding.representatives[state.rank as usize];
        let mut sends: FxIndexMap<(To, u64), u64> = FxIndexMap::default();
        // When the link to each peer is free again.
        let mut free: FxHashMap<u32, Span> = FxHashMap::default();
        let send = |now: Span, to: To, bytes: u64| {
            let peer = self.rank_at(state, script, to.position(state.position, script.n));
            let alone = self.uncontended(src, peer, bytes)?;
            let free = free.entry(peer).or_default();
            if *free > now {
                return None;
            }
            *free = now + alone.occupancy;
            *sends.entry((to, bytes)).or_default() += 1;
            Some(now + alone.transit)
        };
        let from_first_send = self.loopback(script, Span::ZERO, Ties::Scheduled);
        let followed = loopback::follow(&from_first_send, send)?;
        let sends = sends.into_iter().map(|((to, bytes), count)| (to, bytes, count)).collect();
        Some(Lockstep { total: followed.end, last: followed.last_wait, sends })
    }

    /// A script as a position that sends to itself follows it.
    pub(super) fn loopback(
        &self,
        script: &FlatScript,
        start: Span,
        ties: Ties,
    ) -> Loopback<'_, impl Fn(u32) -> Span> {
        let (delay, first) = (script.delay, script.charges as usize);
        let charges = &self.charges[first..first + script.receives as usize];
        let steps = &self.steps[script.first as usize..script.last as usize];
        Loopback { steps, start, wait: move |j: u32| delay + charges[j as usize], ties }
    }
}
