//! Steps in which nothing changes but that each request grows by a token.
//!
//! Between two events a batch stays as it is. Such steps need no scheduler: contexts grow by one,
//! and a request takes a block when its last one is full. What is left is the state that the
//! scheduler would have left, step by step.

use crate::engine::Engine;
use crate::scheduler::{Batch, Scheduler};
use crate::timing::{Growing, Work};
use engine::Histogram;

/// Gaps between the tokens of a request, ps, in bins 0.1 % wide.
pub type Gaps = Histogram<10>;

impl Engine<'_> {
    /// Runs quiet steps whose ends are before `until`. Returns how many. `last` has the time of
    /// each request's last token.
    pub fn coast(&mut self, until: u64, gaps: &mut Gaps, last: &mut [u64]) -> u64 {
        let asynchronous = self.asynchronous;
        let settled = self.stirred == 0
            && !self.holds()
            && self.flights.len() == self.depth
            && self.flights.iter().all(|flight| flight.quiet)
            && self
                .ranks
                .iter()
                .zip(&self.flights[0].batches)
                .all(|(rank, batch)| rank.stays(batch));
        if !settled || self.flights[0].end >= until {
            return 0;
        }
        let groups = if asynchronous { 1 } else { self.flights.len() };
        // Tokens that each request may still generate before something happens.
        let reserve = if asynchronous { 3 } else { 2 };
        let mut groups: Vec<Group> = (0..groups).map(|at| Group::new(self, at)).collect();
        let left = groups.iter().map(|group| group.left).min().unwrap_or(0);
        if left < reserve {
            return 0;
        }
        let most = u64::from(left - reserve + 1) * groups.len() as u64;
        let stages = self.kind.stages as usize;
        let grow = |group: &Group| Growing::new(&self.kind.timing, &group.work, stages);
        let mut growing: Vec<Growing> = groups.iter().map(grow).collect();
        if asynchronous && self.flights.len() == 2 {
            // The step in flight is one token further than the oldest.
            growing[0].step();
        }
        let mut steps = 0;
        let mut at = 0;
        while steps < most && self.flights[0].end < until && groups[at].fits(self) {
            let now = self.flights[0].end;
            let group = &mut groups[at];
            group.generate(now, gaps, last);
            group.grow(self);
            let times = growing[at].step();
            let mut flight =
                self.flights.pop_front().expect("an engine that coasts has steps in flight");
            flight.end = self.pass(now, times);
            self.sums.steps += 1;
            self.sums.parts += group.parts;
            self.sums.tokens += group.parts;
            self.sums.busy += times.first;
            self.sums
                .terms
                .iter_mut()
                .zip(growing[at].terms())
                .for_each(|(sum, term)| *sum += term);
            self.flights.push_back(flight);
            steps += 1;
            at = (at + 1) % groups.len();
        }
        for (place, flight) in self.flights.iter_mut().enumerate() {
            let grown = if asynchronous {
                // The two steps in flight have the same requests, and took turns.
                steps as u32 + place as u32 - ((place as u64 + steps) % 2) as u32
            } else {
                groups[(at + place) % groups.len()].steps
            };
            let parts = flight.batches.iter_mut().flat_map(|batch| &mut batch.parts);
            parts.for_each(|part| part.context += grown);
        }
        for (at, rank) in self.ranks.iter_mut().enumerate() {
            let batches = self.flights.iter().map(|flight| &flight.batches[at]);
            let lanes = batches.filter(|batch| !batch.parts.is_empty()).map(|batch| batch.lane);
            if let Some(plan) = &mut rank.sglang {
                plan.turned(lanes);
            }
        }
        for group in groups {
            group.settle(self, last);
        }
        self.looked_in_vain(steps);
        steps
    }
}

/// Requests that run in the same step, on all ranks.
struct Group {
    ranks: Vec<Growth>,
    work: Vec<Work>,
    parts: u64,
    /// Steps that it has run.
    steps: u32,
    /// The end of the last one; `None` before the first.
    last: Option<u64>,
    /// The least number of tokens that a request still generates.
    left: u32,
}

/// The requests of a rank.
struct Growth {
    slots: Vec<u32>,
    requests: Vec<u32>,
    /// Places of those whose tokens leave this rest in a block.
    by_rest: Vec<Vec<u32>>,
    /// Tokens that each has generated in these steps and its state knows.
    known: Vec<u32>,
}

impl Group {
    fn new(engine: &Engine, at: usize) -> Group {
        let batches = &engine.flights[at].batches;
        let growth = |(scheduler, batch): (&Scheduler, &Batch)| {
            let mut by_rest = vec![Vec::new(); scheduler.settings.block as usize];
            for (place, part) in batch.parts.iter().enumerate() {
                let tokens = scheduler.states[part.slot as usize].tokens();
                by_rest[(tokens % scheduler.settings.block) as usize].push(place as u32);
            }
            Growth {
                slots: batch.parts.iter().map(|part| part.slot).collect(),
                requests: batch.parts.iter().map(|part| part.request).collect(),
                known: vec![0; batch.parts.len()],
                by_rest,
            }
        };
        let left = |(scheduler, batch): (&Scheduler, &Batch)| {
            let left = |slot: u32| {
                let state = &scheduler.states[slot as usize];
                state.output - state.produced
            };
            batch.parts.iter().map(|part| left(part.slot)).min()
        };
        let ranks = || engine.ranks.iter().zip(batches);
        Group {
            ranks: ranks().map(growth).collect(),
            work: batches.iter().map(Work::of).collect(),
            parts: batches.iter().map(|batch| batch.parts.len() as u64).sum(),
            steps: 0,
            last: None,
            left: ranks().filter_map(left).min().unwrap_or(0),
        }
    }

    /// Places of requests whose tokens will be a number of whole blocks and `more` after the next
    /// step.
    fn full(growth: &Growth, step: u32, more: u32) -> &[u32] {
        let block = growth.by_rest.len() as u32;
        &growth.by_rest[((more + block - step % block) % block) as usize]
    }

    /// Whether there are blocks for the next step.
    fn fits(&self, engine: &Engine) -> bool {
        let more = more(engine);
        let fits = |(scheduler, growth): (&Scheduler, &Growth)| {
            scheduler.has_room(Group::full(growth, self.steps + 1, more).len() as u32)
        };
        engine.ranks.iter().zip(&self.ranks).all(fits)
    }

    /// Each request generates a token at `now`.
    fn generate(&mut self, now: u64, gaps: &mut Gaps, last: &[u64]) {
        match self.last.replace(now) {
            Some(before) => gaps.add_times(now - before, self.parts),
            None => {
                let requests = self.ranks.iter().flat_map(|growth| &growth.requests);
                requests.for_each(|&request| gaps.add(now - last[request as usize]));
            }
        }
        self.steps += 1;
    }

    /// Requests take the blocks of the next step, and the cache gets to know full ones.
    fn grow(&mut self, engine: &mut Engine) {
        let more = more(engine);
        for (scheduler, growth) in engine.ranks.iter_mut().zip(&mut self.ranks) {
            let taking = Group::full(growth, self.steps, more).to_vec();
            if !growth.slots.is_empty() {
                scheduler.steps_on(taking.len() as u32, growth.slots.len() as u32);
            }
            let filling = match scheduler.remembers() {
                true => Group::full(growth, self.steps, 0).to_vec(),
                false => Vec::new(),
            };
            let (mut takes, mut fills) = (taking.iter().peekable(), filling.iter().peekable());
            while let Some(&place) = match (takes.peek(), fills.peek()) {
                (Some(&one), Some(&other)) => Some(one.min(other)),
                (one, other) => one.or(other).copied(),
            } {
                let slot = growth.slots[place as usize];
                if takes.next_if(|&&next| next == place).is_some() {
                    scheduler.take(slot);
                }
                if fills.next_if(|&&next| next == place).is_some() {
                    let known = &mut growth.known[place as usize];
                    scheduler.states[slot as usize].produce(self.steps - *known);
                    *known = self.steps;
                    scheduler.remember(slot, u32::MAX);
                }
            }
        }
    }

    /// The state that the scheduler would have left.
    fn settle(self, engine: &mut Engine, last: &mut [u64]) {
        let Some(end) = self.last else { return };
        for (scheduler, growth) in engine.ranks.iter_mut().zip(&self.ranks) {
            for (place, &slot) in growth.slots.iter().enumerate() {
                let state = &mut scheduler.states[slot as usize];
                state.produce(self.steps - growth.known[place]);
                state.computed += self.steps;
                last[growth.requests[place] as usize] = end;
            }
        }
    }
}

/// Tokens in flight beyond the one that is computed next, when a step is scheduled.
fn more(engine: &Engine) -> u32 {
    u32::from(!engine.asynchronous)
}
