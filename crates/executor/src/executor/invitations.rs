//! Members of a line draw one another into a phase.
//!
//! When a chunk begins a phase natively, the other members of its line begin it as well, whether
//! their queues have room or not. If they waited, each of two ranks could hold its only place for a
//! phase that the other one has not begun.

use super::Executor;
use crate::parts::chunks::ChunkRun;
use crate::parts::scripts::FlatScript;
use network::Backend;

/// To the runs of a line whose phase one of them has begun.
struct Invitation {
    /// The run that has begun it.
    host: u32,
    instance: u32,
    phase: u32,
    guests: Vec<u32>,
}

/// The invitations of the round under way.
#[derive(Default)]
pub(super) struct Invitations(Vec<Invitation>);

impl Invitations {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<B: Backend> Executor<'_, B> {
    /// Invites the other members of a line to a phase, if this one is the first to begin it.
    /// Without a script, invites all members.
    pub(super) fn invite(&mut self, run: u32, script: Option<&FlatScript>) {
        let state = self.runs[run];
        if state.has_begun(state.phase) {
            return;
        }
        self.runs[run].note_begun(state.phase);
        let guests = self.line(run, &state, script);
        let ChunkRun { instance, phase, .. } = state;
        self.invitations.0.push(Invitation { host: run, instance, phase, guests });
    }

    /// The runs of a chunk that do a phase together.
    fn line(&self, run: u32, state: &ChunkRun, script: Option<&FlatScript>) -> Vec<u32> {
        let row = run - state.member;
        let Some(script) = script else {
            let members = self.collectives.get(state.instance).members.len() as u32;
            return (row..row + members).collect();
        };
        let seat = state.seat();
        let at = |position| {
            row + self.member_at(&seat, script, position, self.rank_at(&seat, script, position))
        };
        (0..script.n).map(at).collect()
    }

    /// Hands out the invitations of a round, once all its ranks have done what they do in it.
    pub(super) fn hand_out_invitations(&mut self) {
        let mut joining = Vec::new();
        for invitation in std::mem::take(&mut self.invitations.0) {
            let Invitation { host, instance, phase, guests } = invitation;
            for guest in guests {
                let state = &mut self.runs[guest];
                let is_news = state.instance == instance && !state.has_begun(phase);
                if is_news {
                    state.note_begun(phase);
                }
                // A guest that is in this very phase of its chunk joins now. The others join when
                // they come to it.
                if is_news && state.phase == phase && state.is_issued() {
                    let (node, state) =
                        (self.collectives.node_of(&self.runs[guest]), self.runs[guest]);
                    joining.push((state.rank, node, state.chunk, guest, host));
                }
            }
        }
        joining.sort_unstable();
        for (.., guest, host) in joining {
            self.recorder.tell(|observer| observer.invited(guest, host));
            self.join(guest);
        }
    }

    /// Starts a waiting chunk whose phase another member of its line has begun.
    pub(super) fn join(&mut self, run: u32) {
        let state = self.runs[run];
        if state.is_issued() && !state.is_in_phase() && state.has_begun(state.phase) {
            self.start_waiting(run);
        }
    }

    /// Starts a chunk that waits in its queue or in the ready queue, whether there is room or not.
    fn start_waiting(&mut self, run: u32) {
        let rank = self.runs[run].rank;
        if self.ready.take(rank, run) {
            self.dispatched(run);
        }
        let queue = self.runs[run].queue;
        if self.queues.start(rank, queue, run) {
            self.start_phase(run);
        }
    }

    /// When nothing else can happen: lets the first chunk that waits in each queue begin. Queues
    /// limit what runs at once. They never stop a run for ever. False when no chunk waits.
    pub(super) fn relieve(&mut self) -> bool {
        if !self.settings.canonical {
            return false;
        }
        // All are chosen before one begins and draws others in, so that ranks that are alike do
        // alike.
        let mut first = self.queues.first_waiting();
        first.extend(self.ready.first_waiting());
        first.iter().for_each(|&run| self.start_waiting(run));
        !first.is_empty()
    }
}
