//! Rounds of messages: their prices, and the plan they make.
//!
//! In every round each position sends its messages at once. It begins the next round when
//! everything that it receives in this one is usable. The last reception of a round is charged the
//! time that the library spends on the round beyond the wires, so that all positions end at the
//! same instant. With a root, all receptions are charged the same: the root waits for the last one,
//! and which one that is depends on how messages share its link.
//!
//! ```text
//! time of a round = its messages alone on their links + its charge
//! time of a plan  = sum over rounds = predicted time
//! ```
//!
//! The first rounds *open* the plan: empty messages to positions 1, 2, 4, ... further on, after
//! which every position knows that all others are there. They are charged the start of a call. The
//! rounds that carry bytes share the rest of the predicted time equally: the step or level of each,
//! and the time that its bytes take beyond what the link alone needs. If other messages use the
//! links too, a round takes longer, and so does the collective. If the links alone take longer than
//! predicted, nothing is charged. Not here: who sends what (`traffic.rs`).

use super::wires::{Message, Wires};
use crate::lowered::ReadyPlan;
use collective::{Plan, Script, Step, To};
use std::collections::BTreeMap;
use units::Span;

/// Messages of each round; those of position 0 where all positions have the same.
pub(super) struct Rounds {
    /// Positions.
    pub n: u32,
    /// Every position sends what position 0 sends, turned to where it stands.
    pub alike: bool,
    /// One position sends or receives every message after the opening.
    pub rooted: bool,
    /// Rounds that open the plan.
    pub opening: usize,
    /// Messages of every round, in the order in which they leave.
    pub rounds: Vec<Vec<Message>>,
}

/// Time of a round.
struct Price {
    /// When each message arrives.
    arrivals: Vec<Span>,
    /// From the begin of the round to its end.
    total: Span,
}

impl Rounds {
    /// Rounds that open a plan of `n` positions.
    pub fn open(n: u32, alike: bool) -> Rounds {
        let round = |distance: u32| {
            let message = |from: u32| Message { from, to: (from + distance) % n, bytes: 0 };
            (0..if alike { 1 } else { n }).map(message).collect()
        };
        let distances = (0..32).map(|k| 1 << k).take_while(|&d: &u32| d < n);
        let rounds: Vec<Vec<Message>> = distances.map(round).collect();
        Rounds { n, alike, rooted: false, opening: rounds.len(), rounds }
    }

    /// Adds a round, unless nothing is sent in it.
    pub fn push(&mut self, messages: Vec<Message>) {
        if !messages.is_empty() {
            self.rounds.push(messages);
        }
    }

    /// The plan that takes `time` when nothing else uses the links; bytes move after `start`.
    pub fn ready(&self, wires: &Wires, start: Span, time: Span) -> ReadyPlan {
        let prices = self.prices(wires, start, time);
        if self.alike { self.uniform(&prices) } else { self.by_position(wires, &prices) }
    }

    fn prices(&self, wires: &Wires, start: Span, time: Span) -> Vec<Price> {
        let price = |messages: &Vec<Message>| {
            let arrivals = wires.arrivals(messages);
            let total = arrivals.iter().copied().max().unwrap_or_default();
            Price { arrivals, total }
        };
        let mut prices: Vec<Price> = self.rounds.iter().map(price).collect();
        let wired = |prices: &[Price]| prices.iter().map(|p| p.total).sum::<Span>();
        let left = time.saturating_sub(wired(&prices));
        let carrying = (prices.len() - self.opening) as u64;
        let first = if carrying == 0 {
            left
        } else {
            left.min(start.saturating_sub(wired(&prices[..self.opening])))
        };
        let left = left.saturating_sub(first);
        if let Some(price) = prices.first_mut() {
            price.total += first;
        }
        for (at, price) in (0u64..).zip(&mut prices[self.opening..]) {
            price.total += Span(left.0 / carrying + u64::from(at < left.0 % carrying));
        }
        prices
    }

    /// One script for all positions.
    fn uniform(&self, prices: &[Price]) -> ReadyPlan {
        let (mut steps, mut charges) = (Vec::new(), Vec::new());
        for (messages, price) in self.rounds.iter().zip(prices) {
            let before = steps.len() as u32;
            for message in messages {
                let to = To::Shift(message.to);
                let slot = steps.len() as u32;
                steps.push(
                    Step::send(to, message.bytes, slot, before).and_receive(to.inverse(self.n)),
                );
            }
            charges.resize(steps.len(), Span::ZERO);
            let last = price.arrivals.iter().copied().max().unwrap_or_default();
            charges[steps.len() - 1] = price.total.saturating_sub(last);
        }
        let plan = Plan::uniform(self.n, Script::plain(steps));
        ReadyPlan { charges: vec![charges], ..ReadyPlan::new(plan, |_| Span::ZERO) }
    }

    /// A script for each position.
    fn by_position(&self, wires: &Wires, prices: &[Price]) -> ReadyPlan {
        let mut scripts = vec![(Vec::new(), Vec::new(), Vec::new()); self.n as usize];
        for (round, (messages, price)) in self.rounds.iter().zip(prices).enumerate() {
            let mut active: BTreeMap<u32, Part> = BTreeMap::new();
            let last = price.arrivals.iter().copied().max().filter(|_| self.rooted);
            let arrivals = price.arrivals.iter().zip(wires.entering(messages));
            for (message, (&arrival, entering)) in messages.iter().zip(arrivals) {
                let before = scripts[message.to as usize].1.len();
                let receiver = active.entry(message.to).or_default();
                let slot = (before + receiver.receives.len()) as u32;
                receiver.receives.push(message.from);
                receiver.last = receiver.last.max(last.unwrap_or(arrival));
                let paced = if round < self.opening { message.bytes } else { entering };
                active.entry(message.from).or_default().sends.push((*message, slot, paced));
            }
            for (position, part) in active {
                let (steps, charges, paced) = &mut scripts[position as usize];
                steps.extend(part.steps(charges.len() as u32));
                paced.extend(part.sends.iter().map(|&(_, _, paced)| paced));
                paced.resize(steps.len(), 0);
                charges.resize(charges.len() + part.receives.len(), Span::ZERO);
                if let (Some(last), false) = (charges.last_mut(), part.receives.is_empty()) {
                    *last = price.total.saturating_sub(part.last);
                }
            }
        }
        let script = |p: u32| Script::plain(scripts[p as usize].0.clone());
        let plan = Plan::by_role(self.n, |p| p, script);
        let (charges, paced) = scripts.into_iter().map(|s| (s.1, s.2)).unzip();
        ReadyPlan { charges, paced, ..ReadyPlan::new(plan, |_| Span::ZERO) }
    }
}

/// Work of one position in a round.
#[derive(Default)]
struct Part {
    /// Messages, which receive of the receiver takes each, and for how many bytes it keeps its link.
    sends: Vec<(Message, u32, u64)>,
    /// Positions that it receives from.
    receives: Vec<u32>,
    /// When the last of those arrives.
    last: Span,
}

impl Part {
    /// Steps that send and receive, as far as there are both, after `before` receptions.
    fn steps(&self, before: u32) -> Vec<Step> {
        let step = |at: usize| {
            let from = self.receives.get(at).map(|&from| To::At(from));
            let send = |&(message, slot, _): &(Message, u32, u64)| {
                Step::send(To::At(message.to), message.bytes, slot, before)
            };
            let nothing = Step::receive(To::At(0), before);
            Step { from, ..self.sends.get(at).map_or(nothing, send) }
        };
        (0..self.sends.len().max(self.receives.len())).map(step).collect()
    }
}
