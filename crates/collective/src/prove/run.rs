//! One symbolic run of a plan: fires, arrivals and receptions one at a time in a given order.

use super::promise::{Held, Proof, Rules, Set};
use crate::content::Content;
use crate::{Fired, Follower, Plan, Step};

/// Which of the things that may happen next does happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The event that has been possible longest.
    Oldest,
    /// The event that became possible last.
    Newest,
    /// Any, from this seed.
    Random(u64),
    /// Anything at this position only when nothing else can happen; else the newest.
    Starve(u32),
}

/// Something that may happen now.
#[derive(Clone, Copy)]
enum Event {
    /// The next step of a position fires.
    Fire(u32),
    /// A message reaches its destination.
    Arrive(u32),
    /// A received message becomes usable.
    Use(u32),
}

/// A message on its way.
#[derive(Clone)]
struct Message {
    from: u32,
    to: u32,
    slot: u32,
    bytes: u64,
    content: Vec<(u64, Set)>,
    reduce: bool,
    /// Messages in the longest chain that ends with this one.
    round: u32,
}

/// One position.
#[derive(Clone)]
struct Place {
    held: Held,
    follower: Follower,
    /// Whether the next step is already among the events.
    ready: bool,
    /// Rounds of the usable receptions.
    usable: Vec<u32>,
    /// Round in which the last step fired.
    round: u32,
    /// For each receive the message meant for it.
    slots: Vec<Option<u32>>,
    /// For each receive whether its message has arrived.
    arrived: Vec<bool>,
    sent: u128,
}

#[derive(Clone)]
pub(super) struct Run<'a> {
    plan: &'a Plan,
    rules: &'a dyn Rules,
    places: Vec<Place>,
    messages: Vec<Message>,
    events: Vec<Event>,
}

impl<'a> Run<'a> {
    pub(super) fn new(plan: &'a Plan, rules: &'a dyn Rules, start: Vec<Held>) -> Run<'a> {
        let place = |(position, held): (usize, Held)| {
            let receives = plan.script(position as u32).receives().count();
            Place {
                held,
                follower: Follower::default(),
                ready: false,
                usable: Vec::new(),
                round: 0,
                slots: vec![None; receives],
                arrived: vec![false; receives],
                sent: 0,
            }
        };
        let places = start.into_iter().enumerate().map(place).collect();
        Run { plan, rules, places, messages: Vec::new(), events: Vec::new() }
    }

    /// Runs to the end in `order`.
    pub(super) fn finish(mut self, order: Order) -> Result<(Proof, Vec<Held>), String> {
        (0..self.plan.n).for_each(|p| self.wake(p));
        let mut random = if let Order::Random(seed) = order { seed } else { 0 };
        while !self.events.is_empty() {
            let event = self.pick(order, &mut random);
            self.apply(event).map_err(|what| format!("{order:?}: {what}"))?;
        }
        self.ended()?;
        let proof = Proof {
            messages: self.messages.len() as u64,
            bytes: self.places.iter().map(|p| p.sent).sum(),
            busiest: self.places.iter().map(|p| p.sent).max().unwrap_or(0),
            rounds: self.messages.iter().map(|m| m.round).max().unwrap_or(0),
            orders: 1,
        };
        Ok((proof, self.places.into_iter().map(|p| p.held).collect()))
    }

    /// Runs in every order there is; returns the number of distinct states, at most `limit`.
    #[cfg(test)]
    pub(super) fn every_order(
        self,
        limit: usize,
        end: impl Fn(&[Held]) -> Result<(), String>,
    ) -> Result<usize, String> {
        let mut first = self;
        (0..first.plan.n).for_each(|p| first.wake(p));
        let mut seen = std::collections::BTreeSet::from([first.fingerprint()]);
        let mut stack = vec![first];
        while let Some(run) = stack.pop() {
            if run.events.is_empty() {
                run.ended()?;
                end(&run.places.iter().map(|p| p.held.clone()).collect::<Vec<_>>())?;
            }
            for at in 0..run.events.len() {
                let mut next = run.clone();
                let event = next.events.swap_remove(at);
                next.apply(event)?;
                if seen.insert(next.fingerprint()) {
                    stack.push(next);
                }
            }
            if seen.len() > limit {
                return Err(format!("more than {limit} states"));
            }
        }
        Ok(seen.len())
    }

    /// Equal for runs that can go on in the same ways.
    #[cfg(test)]
    fn fingerprint(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        for place in &self.places {
            (&place.held, place.follower, &place.arrived).hash(&mut hasher);
            let message = |id: &Option<u32>| {
                id.map(|id| &self.messages[id as usize]).map(|m| (&m.content, m.reduce))
            };
            place.slots.iter().for_each(|id| message(id).hash(&mut hasher));
        }
        hasher.finish()
    }

    fn apply(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Fire(p) => self.fire(p),
            Event::Arrive(m) => self.arrive(m),
            Event::Use(m) => self.consume(m),
        }
    }

    fn pick(&mut self, order: Order, random: &mut u64) -> Event {
        let last = self.events.len() - 1;
        let at = match order {
            Order::Oldest => return self.events.remove(0),
            Order::Newest => last,
            Order::Random(_) => (next_random(random) % self.events.len() as u64) as usize,
            Order::Starve(p) => {
                self.events.iter().rposition(|&e| self.position(e) != p).unwrap_or(last)
            }
        };
        self.events.swap_remove(at)
    }

    fn position(&self, event: Event) -> u32 {
        match event {
            Event::Fire(p) => p,
            Event::Arrive(m) | Event::Use(m) => self.messages[m as usize].to,
        }
    }

    fn steps(&self, p: u32) -> &'a [Step] {
        &self.plan.script(p).steps
    }

    /// Lists the next step of `p` once it may fire.
    fn wake(&mut self, p: u32) {
        let steps = self.steps(p);
        let place = &mut self.places[p as usize];
        if !place.ready && place.follower.due(steps).is_some() {
            place.ready = true;
            self.events.push(Event::Fire(p));
        }
    }

    fn fire(&mut self, p: u32) -> Result<(), String> {
        let steps = self.steps(p);
        let place = &mut self.places[p as usize];
        let Some(Fired { index, step, posts }) = place.follower.fire(steps) else {
            return Err(format!("position {p} has no step left"));
        };
        place.usable.sort_unstable();
        let enabled = step.after_usable.checked_sub(1).map_or(0, |k| place.usable[k as usize]);
        place.round = place.round.max(enabled);
        place.ready = false;
        if let Some(slot) = posts.filter(|&slot| place.arrived[slot as usize]) {
            self.receive(p, slot)?;
        }
        if let Some(to) = step.to {
            self.send(p, to.position(p, self.plan.n), index, step)?;
        }
        self.wake(p);
        Ok(())
    }

    fn send(&mut self, from: u32, to: u32, index: u32, step: Step) -> Result<(), String> {
        let place = format!("step {index} of position {from}");
        if to == from || to >= self.plan.n {
            return Err(format!("{place} sends to position {to}"));
        }
        let Some(source) = self.plan.script(to).receives().nth(step.slot as usize) else {
            return Err(format!(
                "{place} sends to receive {} of position {to}, which has no such receive",
                step.slot
            ));
        };
        if source.position(to, self.plan.n) != from {
            return Err(format!(
                "{place} sends to receive {} of position {to}, which waits for another",
                step.slot
            ));
        }
        let (content, reduce) = self.content(from, index)?;
        let blocks = content.len() as u64;
        if self.rules.bytes(index, blocks).is_some_and(|bytes| bytes != step.bytes) {
            return Err(format!("{place} sends {} bytes for {blocks} blocks", step.bytes));
        }
        let sender = &mut self.places[from as usize];
        sender.sent += u128::from(step.bytes);
        let round = sender.round + 1;
        let id = self.messages.len() as u32;
        if self.places[to as usize].slots[step.slot as usize].replace(id).is_some() {
            return Err(format!(
                "{place} sends a second message to receive {} of position {to}",
                step.slot
            ));
        }
        self.messages.push(Message {
            from,
            to,
            slot: step.slot,
            bytes: step.bytes,
            content,
            reduce,
            round,
        });
        self.events.push(Event::Arrive(id));
        Ok(())
    }

    /// Contents that the sender holds of the blocks it sends, and whether the receiver reduces
    /// them.
    fn content(&self, from: u32, index: u32) -> Result<(Vec<(u64, Set)>, bool), String> {
        let held = &self.places[from as usize].held;
        match self.rules.content(from, index) {
            Content::Everything => Ok((held.iter().map(|(&b, &s)| (b, s)).collect(), false)),
            Content::Contribution { block, of } => Ok((vec![(block, 1 << of)], true)),
            Content::Blocks { blocks, reduce } => {
                let get = |b: u64| held.get(&b).map(|&s| (b, s));
                let missing = |b: u64| {
                    format!("step {index} of position {from} sends block {b} before it holds it")
                };
                let content = blocks.into_iter().map(|b| get(b).ok_or_else(|| missing(b)));
                Ok((content.collect::<Result<_, _>>()?, reduce))
            }
        }
    }

    fn arrive(&mut self, m: u32) -> Result<(), String> {
        let (to, slot) = (self.messages[m as usize].to, self.messages[m as usize].slot);
        let place = &mut self.places[to as usize];
        place.arrived[slot as usize] = true;
        if place.follower.has_posted(slot) { self.receive(to, slot) } else { Ok(()) }
    }

    /// The message for receive `slot` of `p` is there and the receive is posted.
    fn receive(&mut self, p: u32, slot: u32) -> Result<(), String> {
        let place = &mut self.places[p as usize];
        let Some(id) = place.slots[slot as usize] else {
            return Err(format!("nothing came for receive {slot} of {p}"));
        };
        let m = &self.messages[id as usize];
        let ordinal = place.follower.receive();
        let wanted = if m.reduce && self.rules.charges() { m.bytes } else { 0 };
        let charged = self.plan.script(p).charges.get(ordinal as usize).copied();
        if charged != Some(wanted) {
            return Err(format!(
                "reception {ordinal} of position {p} is charged {charged:?} bytes, it reduces {wanted}"
            ));
        }
        self.events.push(Event::Use(id));
        self.wake(p);
        Ok(())
    }

    fn consume(&mut self, m: u32) -> Result<(), String> {
        let Message { from, to, reduce, round, .. } = self.messages[m as usize];
        let content = std::mem::take(&mut self.messages[m as usize].content);
        let listed = self.rules.listed();
        let held = &mut self.places[to as usize].held;
        for (block, set) in content {
            let own = held.entry(block).or_insert(0);
            let what = || format!("block {block} from position {from} to position {to}");
            if reduce && *own & set != 0 {
                return Err(format!("{} is reduced twice: {:#b} and {set:#b}", what(), *own));
            }
            if !reduce && *own & !set != 0 && listed {
                return Err(format!("{} overwrites {:#b} with {set:#b}", what(), *own));
            }
            if *own | set == *own && listed {
                return Err(format!("{} brings nothing new", what()));
            }
            *own |= set;
        }
        let place = &mut self.places[to as usize];
        place.usable.push(round);
        place.follower.make_usable();
        self.wake(to);
        Ok(())
    }

    fn ended(&self) -> Result<(), String> {
        for (p, place) in self.places.iter().enumerate() {
            let script = self.plan.script(p as u32);
            let (steps, receives) = (script.steps.len(), place.slots.len());
            let (fired, usable) = (place.follower.fired(), place.follower.usable());
            if (fired as usize) < steps {
                return Err(format!(
                    "position {p} stops before step {fired} of {steps} with {usable} usable receptions"
                ));
            }
            if !place.follower.is_over(steps, receives as u32) || script.charges.len() != receives {
                return Err(format!("position {p} used {usable} of {receives} receptions"));
            }
        }
        Ok(())
    }
}

/// Steele, Lea, Flood 2014 (splitmix64).
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
