//! A phase in which every position does the same at the same time, followed as one position that
//! sends to itself.
//!
//! The caller's model of the links gives the `arrival` of a message; `received = max(arrival,
//! posted)`; `usable = received + wait`. Steps fire as in [`collective::Follower`]: at the start
//! and whenever a reception has become usable. Used where the events would say the same
//! (`executor/lockstep.rs`, `executor/solo.rs`), and for predictions (`scheduler/predict.rs`). Not
//! here: when that is so, and how long a message takes.

use collective::{Fired, Follower, Step, To};
use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::Span;

/// First event at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// The event that was scheduled first (ASTRA-sim's order).
    Scheduled,
    /// In rounds, as native runs do it: messages that arrive, then what is usable, and in the next
    /// round what becomes usable at once because of that.
    Rounds,
}

/// A script and what passes in it besides messages.
#[derive(Clone, Copy, Debug)]
pub struct Loopback<'a, W> {
    /// The steps of the script.
    pub steps: &'a [Step],
    /// When the first steps may fire, from the start of the phase.
    pub start: Span,
    /// Delay between the j-th reception and its use: endpoint delay and reduction.
    pub wait: W,
    /// Order of events at one instant.
    pub ties: Ties,
}

/// A script that was followed until nothing more happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// When the last event was, from the start of the phase.
    pub end: Span,
    /// The wait after the last reception.
    pub last_wait: Span,
    /// Whether the script is over. If not, it waits for a message that never comes.
    pub is_over: bool,
    /// Whether the end belongs to the first round of its instant.
    pub in_first_round: bool,
}

/// Follows a script to its end. `send(now, step, to, bytes)` is the time at which a message arrives; it
/// gives up where it returns `None`.
#[inline]
pub fn follow<W: Fn(u32) -> Span>(
    script: &Loopback<'_, W>,
    mut send: impl FnMut(Span, u32, To, u64) -> Option<Span>,
) -> Option<Followed> {
    let receives = script.steps.iter().filter(|step| step.from.is_some()).count() as u32;
    let mut run = Run::new(script);
    loop {
        while let Some(Fired { index, step, posts }) = run.follower.fire(script.steps) {
            if let Some(to) = step.to {
                run.push(send(run.now, index, to, step.bytes)?, 0, Event::Arrives(step.slot));
            }
            if posts.is_some_and(|slot| run.early.remove(&slot)) {
                run.receive(run.round + 1);
            }
        }
        let is_over = run.follower.is_over(script.steps.len(), receives);
        if is_over || !run.next_use() {
            let Run { now: end, last_wait, round, .. } = run;
            return Some(Followed { end, last_wait, is_over, in_first_round: round == 0 });
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The message for a receive arrives.
    Arrives(u32),
    /// A reception becomes usable.
    Usable,
}

/// An event to come. The first of several is the smallest one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Span,
    /// With [`Ties::Rounds`], the round of its instant, and whether messages go first.
    round: u32,
    after_messages: bool,
    /// Place of the event in the order of scheduling.
    order: u32,
    event: Event,
}

/// A script that runs.
struct Run<'a, W> {
    script: &'a Loopback<'a, W>,
    follower: Follower,
    now: Span,
    round: u32,
    last_wait: Span,
    /// Receives whose message is there, but which are not posted.
    early: FxHashSet<u32>,
    events: BinaryHeap<Reverse<Due>>,
    scheduled: u32,
}

impl<'a, W: Fn(u32) -> Span> Run<'a, W> {
    fn new(script: &'a Loopback<'a, W>) -> Run<'a, W> {
        Run {
            script,
            follower: Follower::default(),
            now: script.start,
            round: 0,
            last_wait: Span::ZERO,
            early: FxHashSet::default(),
            events: BinaryHeap::new(),
            scheduled: 0,
        }
    }

    fn push(&mut self, at: Span, round: u32, event: Event) {
        self.scheduled += 1;
        let (round, after_messages) = match self.script.ties {
            Ties::Scheduled => (0, false),
            Ties::Rounds => (round, event == Event::Usable),
        };
        self.events.push(Reverse(Due { at, round, after_messages, order: self.scheduled, event }));
    }

    /// A message is received now. If nothing passes until it is usable, it is so in round `round`.
    fn receive(&mut self, round: u32) {
        self.last_wait = (self.script.wait)(self.follower.receive());
        let round = if self.last_wait == Span::ZERO { round } else { 0 };
        self.push(self.now + self.last_wait, round, Event::Usable);
    }

    /// Handles events up to the next one after which steps may fire; false when there is none.
    fn next_use(&mut self) -> bool {
        while let Some(Reverse(Due { at, round, event, .. })) = self.events.pop() {
            (self.now, self.round) = (at, round);
            match event {
                Event::Usable => {
                    self.follower.make_usable();
                    return true;
                }
                Event::Arrives(slot) if self.follower.has_posted(slot) => self.receive(0),
                Event::Arrives(slot) => {
                    self.early.insert(slot);
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: To = To::Shift(1);

    /// When each message leaves, and what `follow` says of a script whose `k`-th message takes
    /// `transits[k]` and whose `j`-th reception waits for `waits[j]`.
    fn run(
        steps: &[Step],
        transits: &[u64],
        waits: &[u64],
        ties: Ties,
    ) -> (Vec<u64>, Option<Followed>) {
        let mut sent = Vec::new();
        let wait = |j: u32| Span(waits[j as usize]);
        let followed = follow(&Loopback { steps, start: Span(100), wait, ties }, |now, _, _, _| {
            sent.push(now.0);
            Some(now + Span(transits[sent.len() - 1]))
        });
        (sent, followed)
    }

    fn step(slot: u32, after_usable: u32, after_received: u32) -> Step {
        Step { after_received, ..Step::send(NEXT, 8, slot, after_usable).and_receive(NEXT) }
    }

    /// A ring: each step waits for the reception of the one before, `transit + wait` later.
    #[test]
    fn the_steps_of_a_ring_follow_one_another() {
        let steps: Vec<Step> = (0..4).map(|k| step(k, k, 0)).collect();
        for ties in [Ties::Scheduled, Ties::Rounds] {
            let (sent, followed) = run(&steps, &[10; 4], &[1, 2, 3, 4], ties);
            assert_eq!(sent, [100, 111, 123, 136]);
            let (end, last_wait) = (Span(150), Span(4));
            let expected = Followed { end, last_wait, is_over: true, in_first_round: true };
            assert_eq!(followed, Some(expected));
        }
    }

    /// The message for the second receive comes at 105, its receive is posted at 150.
    #[test]
    fn an_early_message_is_received_when_its_receive_is_posted() {
        let steps = [
            Step::send(NEXT, 8, 1, 0),
            Step::send(NEXT, 8, 0, 0).and_receive(NEXT),
            Step::receive(NEXT, 1),
        ];
        let (sent, followed) = run(&steps, &[5, 20], &[30, 7], Ties::Rounds);
        assert_eq!(sent, [100, 100]);
        // The first receive has its message at 120 and may use it at 150.
        assert_eq!(followed.map(|f| f.end), Some(Span(150 + 7)));
    }

    /// At 120 a message arrives, and a reception becomes usable that was scheduled before the
    /// message was. The last step needs both.
    #[test]
    fn ties_decide_what_comes_first_at_one_instant() {
        let steps = [step(0, 0, 0), step(1, 0, 0), step(2, 1, 0), step(3, 2, 3)];
        let (transits, waits) = ([5, 6, 10, 1], [5, 14, 30, 1]);
        let sent = |ties| run(&steps, &transits, &waits, ties).0;
        assert_eq!(sent(Ties::Rounds), [100, 100, 110, 120], "the message goes first");
        assert_eq!(sent(Ties::Scheduled), [100, 100, 110, 150], "it waits for the next use");
    }

    /// Nothing passes before use: the early message is usable at once, in the second round.
    #[test]
    fn what_is_usable_at_once_is_so_in_the_next_round() {
        let steps = [
            Step::send(NEXT, 8, 1, 0),
            Step::send(NEXT, 8, 0, 0).and_receive(NEXT),
            Step::receive(NEXT, 1),
        ];
        let end = |ties| run(&steps, &[5, 20], &[0, 0], ties).1.unwrap();
        let second = end(Ties::Rounds);
        assert_eq!((second.end, second.is_over, second.in_first_round), (Span(120), true, false));
        assert!(end(Ties::Scheduled).in_first_round, "there are no rounds");
    }

    #[test]
    fn a_script_that_waits_for_ever_is_not_over() {
        let (sent, followed) = run(&[step(0, 1, 0)], &[], &[], Ties::Rounds);
        assert_eq!((sent, followed.map(|f| f.is_over)), (vec![], Some(false)));
    }

    #[test]
    fn it_gives_up_where_a_message_has_no_time_of_its_own() {
        let script = Loopback {
            steps: &[step(0, 0, 0)],
            start: Span::ZERO,
            wait: |_| Span::ZERO,
            ties: Ties::Rounds,
        };
        assert_eq!(follow(&script, |_, _, _, _| None), None);
    }
}
