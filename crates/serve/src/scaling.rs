//! Engines that are started and stopped as requests come.
//!
//! The rule is that of Kubernetes' HorizontalPodAutoscaler: `wanted = ceil(requests / goal)`, looked
//! at every few seconds. More engines start at once, and take requests after a delay. Fewer remain
//! only when all looks of a window wanted fewer. An engine that stops takes no more requests, and
//! ends those that it has. Source: kubernetes.io, "Horizontal Pod Autoscaling", algorithm details.

use std::collections::VecDeque;

/// The rule. Times are ps.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// Engines at least, and at the start.
    pub least: u32,
    /// Requests of each engine that it aims at.
    pub goal: f64,
    /// Only those that wait count.
    pub waiting: bool,
    /// Time between two looks.
    pub every: u64,
    /// Time until an engine takes requests.
    pub delay: u64,
    /// Time in which looks must want fewer engines before one stops.
    pub window: u64,
}

/// How many engines there were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// When the number of engines that start, run or stop changed, ps, and what it became.
    pub changes: Vec<(u64, u32)>,
    /// Picoseconds of all of them.
    pub time: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Off,
    Starting(u64),
    On,
    Stopping,
}

/// The engines of a fleet under a rule.
#[derive(Debug)]
pub(crate) struct Scaler<'a> {
    rule: &'a Scaling,
    states: Vec<State>,
    since: Vec<u64>,
    looks: VecDeque<(u64, u32)>,
    lifetimes: Lifetimes,
}

impl<'a> Scaler<'a> {
    /// At most `most` engines; the first ones run.
    pub fn new(rule: &'a Scaling, most: usize) -> Scaler<'a> {
        let least = (rule.least as usize).min(most);
        let state = |number: usize| if number < least { State::On } else { State::Off };
        Scaler {
            rule,
            states: (0..most).map(state).collect(),
            since: vec![0; most],
            looks: VecDeque::new(),
            lifetimes: Lifetimes { changes: vec![(0, least as u32)], time: 0 },
        }
    }

    /// Engines that take requests.
    pub fn open(&self) -> Vec<usize> {
        let on = |&number: &usize| self.states[number] == State::On;
        (0..self.states.len()).filter(on).collect()
    }

    /// A look. `load` has the waiting and all requests of an engine. Engines that will be ready at
    /// a time.
    pub fn look(&mut self, now: u64, load: impl Fn(usize) -> (usize, usize)) -> Vec<(u64, usize)> {
        let open = self.open();
        let requests: usize = open
            .iter()
            .map(|&number| {
                let (waiting, all) = load(number);
                if self.rule.waiting { waiting } else { all }
            })
            .sum();
        let most = self.states.len() as u32;
        let wanted = (requests as f64 / self.rule.goal).ceil() as u32;
        let wanted = wanted.clamp(self.rule.least.min(most), most);
        while self.looks.front().is_some_and(|&(at, _)| at + self.rule.window < now) {
            self.looks.pop_front();
        }
        self.looks.push_back((now, wanted));
        let highest = self.looks.iter().map(|&(_, wanted)| wanted).max().unwrap_or(wanted) as usize;
        let there = |state: &State| matches!(state, State::On | State::Starting(_));
        let count = self.states.iter().filter(|state| there(state)).count();
        if wanted as usize > count {
            return self.start(now, wanted as usize - count);
        }
        for _ in highest..count {
            self.stop(now, &load);
        }
        Vec::new()
    }

    /// Starts engines, those that stop first.
    fn start(&mut self, now: u64, count: usize) -> Vec<(u64, usize)> {
        let mut ready = Vec::new();
        for _ in 0..count {
            if let Some(number) = self.states.iter().position(|&state| state == State::Stopping) {
                self.states[number] = State::On;
            } else if let Some(number) = self.states.iter().position(|&state| state == State::Off) {
                let at = now.saturating_add(self.rule.delay);
                self.states[number] = State::Starting(at);
                self.since[number] = now;
                self.changed(now);
                ready.push((at, number));
            }
        }
        ready
    }

    /// Stops the last of the engines that start, or else the one with the fewest requests.
    fn stop(&mut self, now: u64, load: &impl Fn(usize) -> (usize, usize)) {
        let starting = |&number: &usize| matches!(self.states[number], State::Starting(_));
        if let Some(number) = (0..self.states.len()).rev().find(starting) {
            self.off(number, now);
            return;
        }
        let Some(number) = self.open().into_iter().rev().min_by_key(|&number| load(number).1)
        else {
            return;
        };
        self.states[number] = State::Stopping;
        if load(number).1 == 0 {
            self.off(number, now);
        }
    }

    /// An engine that started is ready, if it was not stopped meanwhile.
    pub fn ready(&mut self, number: usize, now: u64) {
        if self.states[number] == State::Starting(now) {
            self.states[number] = State::On;
        }
    }

    /// An engine has no request left.
    pub fn idle(&mut self, number: usize, now: u64) {
        if self.states[number] == State::Stopping {
            self.off(number, now);
        }
    }

    fn off(&mut self, number: usize, now: u64) {
        self.states[number] = State::Off;
        self.lifetimes.time += u128::from(now - self.since[number]);
        self.changed(now);
    }

    fn changed(&mut self, now: u64) {
        let there = self.states.iter().filter(|&&state| state != State::Off).count() as u32;
        match self.lifetimes.changes.last_mut() {
            Some((at, count)) if *at == now => *count = there,
            _ => self.lifetimes.changes.push((now, there)),
        }
    }

    /// The lifetimes of a run that ends now.
    pub fn end(mut self, now: u64) -> Lifetimes {
        for number in 0..self.states.len() {
            if self.states[number] != State::Off {
                self.lifetimes.time += u128::from(now.saturating_sub(self.since[number]));
            }
        }
        self.lifetimes
    }
}
