//! Engines together: the engine that gets a request, and the times of each request.

use crate::arrivals::{Arrivals, in_order};
use crate::diary::{Diary, Moved, Step};
use crate::engine::{Engine, Kind, Notes, Sums};
use crate::request::Request;
use crate::scaling::{Lifetimes, Scaler, Scaling};
use crate::scheduler::Token;
use crate::steady::Gaps;
use crate::timing::Line;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Engines and how requests reach them.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Engines that compute prompts; with `decode` those alone.
    pub engines: Kind,
    /// Engines that generate tokens, where others compute the prompts.
    pub decode: Option<(Kind, Transfer)>,
    /// How an engine is chosen.
    pub routing: Routing,
    /// Engines start and stop with the load; all of them run without it. Not with `decode`.
    pub scaling: Option<Scaling>,
}

/// The way of keys and values from one engine to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// Seconds by tokens. An engine sends one request after another.
    pub seconds: Line,
}

/// How the engine, and the rank in it, of a request is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// In turn.
    RoundRobin,
    /// The one with the fewest requests.
    LeastLoaded,
    /// The one that holds the longest part of the prompt, unless it has this many requests more
    /// than another one.
    Prefix(u32),
}

/// Times of a request, ps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// It arrived.
    pub arrival: u64,
    /// The first step began.
    pub admitted: u64,
    /// The first token was there.
    pub first: u64,
    /// The last token was there.
    pub end: u64,
    /// How often it lost its blocks.
    pub preemptions: u32,
    /// Tokens found in the cache when it was admitted first.
    pub cached: u32,
    /// Engine that generated its tokens.
    pub engine: u32,
    /// Time that its keys and values took from one engine to another, with the wait for it.
    pub transfer: u64,
}

/// The state of all engines at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time, ps.
    pub time: u64,
    /// Requests that run.
    pub running: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// Blocks in use, of those that generate tokens.
    pub blocks: u32,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// One for each request.
    pub records: Vec<Record>,
    /// Gaps between tokens.
    pub gaps: Gaps,
    /// Sums over the steps of each engine, those for prompts first.
    pub sums: Vec<Sums>,
    /// States from time to time.
    pub samples: Vec<Sample>,
    /// Events with their times, as far as they were asked for.
    pub diary: Diary,
    /// How many engines there were, where they start and stop.
    pub lifetimes: Option<Lifetimes>,
}

/// Why a run did not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The caller wanted that.
    Interrupted,
    /// A request that no engine can hold.
    Stuck(u32),
}

/// States that are kept at most; then every other one is dropped.
const SAMPLES: usize = 4096;

/// Events in the order in which those of one time happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The oldest step of an engine ends.
    End(u32),
    /// A request with its keys and values reaches the engines that generate tokens.
    Handed(u32),
    /// An engine has started.
    Ready(u32),
    /// The number of engines is looked at.
    Look,
}

struct Records {
    records: Vec<Record>,
    /// Time of the last token of each request.
    last: Vec<u64>,
    gaps: Gaps,
    diary: Diary,
    /// The engine whose steps begin.
    engine: u32,
}

impl Notes for Records {
    fn admitted(&mut self, request: u32, cached: u32, now: u64) {
        self.diary.moved(now, request, Moved::Admitted);
        let record = &mut self.records[request as usize];
        if record.admitted == u64::MAX {
            (record.admitted, record.cached) = (now, cached);
        }
    }

    fn preempted(&mut self, request: u32, now: u64) {
        self.diary.moved(now, request, Moved::Preempted);
        self.records[request as usize].preemptions += 1;
    }

    fn stepped(&mut self, step: impl FnOnce() -> Step) {
        if self.diary.wanted() {
            self.diary.step(Step { engine: self.engine, ..step() });
        }
    }
}

pub(crate) struct Run<'a> {
    fleet: &'a Fleet,
    requests: &'a [Request],
    /// Requests as engines for prompts see them: one token.
    engines: Vec<Engine<'a>>,
    /// Engines that compute prompts; the others follow.
    first: usize,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    records: Records,
    turns: [u64; 2],
    /// Engines that take requests: for prompts (or all), for tokens.
    open: [Vec<usize>; 2],
    scaler: Option<Scaler<'a>>,
    /// When the sender of each engine is free.
    senders: Vec<u64>,
    /// Requests that schedulers do not know yet, in the order of the times when they will.
    coming: VecDeque<(u64, u32)>,
    /// Requests that arrive when another one is done.
    closed: VecDeque<u32>,
    /// Requests that are sent after each one, with the time between.
    next: Vec<Vec<(u32, u64)>>,
    done: usize,
    samples: Vec<Sample>,
    /// Events between two samples, and until the next one.
    stride: (u64, u64),
    /// Runs each step through the scheduler, also where nothing changes. Tests compare.
    pub(crate) step_by_step: bool,
}

/// Runs all requests to their end. `go_on` is asked now and then with how many are done.
pub fn run(
    fleet: &Fleet,
    requests: &[Request],
    arrivals: &Arrivals,
    go_on: impl FnMut(usize, u64) -> bool,
) -> Result<Outcome, Stopped> {
    Run::new(fleet, requests, arrivals).finish(go_on)
}

/// As [`run`], and keeps a diary of at most `most.0` steps, and of the first `most.1` requests.
pub fn run_noted(
    fleet: &Fleet,
    requests: &[Request],
    arrivals: &Arrivals,
    most: (usize, u32),
    go_on: impl FnMut(usize, u64) -> bool,
) -> Result<Outcome, Stopped> {
    let mut run = Run::new(fleet, requests, arrivals);
    run.records.diary.most = most;
    run.finish(go_on)
}

impl<'a> Run<'a> {
    pub(crate) fn new(fleet: &'a Fleet, requests: &'a [Request], arrivals: &Arrivals) -> Run<'a> {
        let mut engines: Vec<Engine> =
            (0..fleet.engines.engines).map(|_| Engine::new(&fleet.engines)).collect();
        let first = engines.len();
        if let Some((kind, _)) = &fleet.decode {
            engines.extend((0..kind.engines).map(|_| Engine::new(kind)));
        }
        let unknown =
            Record { admitted: u64::MAX, first: u64::MAX, end: u64::MAX, ..Record::default() };
        let (there, closed, next) = in_order(requests.len() as u32, arrivals);
        let scaler = fleet.scaling.as_ref().map(|rule| Scaler::new(rule, first));
        let open = [
            scaler.as_ref().map_or_else(|| (0..first).collect(), Scaler::open),
            (first..engines.len()).collect(),
        ];
        let mut run = Run {
            fleet,
            requests,
            senders: vec![0; engines.len()],
            engines,
            first,
            events: BinaryHeap::new(),
            records: Records {
                records: vec![unknown; requests.len()],
                last: vec![0; requests.len()],
                gaps: Gaps::default(),
                diary: Diary::default(),
                engine: 0,
            },
            turns: [0; 2],
            open,
            scaler,
            coming: VecDeque::new(),
            closed,
            next,
            done: 0,
            samples: Vec::new(),
            stride: (1, 0),
            step_by_step: false,
        };
        there.into_iter().for_each(|(time, request)| run.come(request, time));
        if let Some(rule) = &fleet.scaling {
            run.events.push(Reverse((rule.every, Event::Look)));
        }
        run
    }

    /// A request is sent. Its engine's scheduler knows it a while later.
    fn come(&mut self, request: u32, now: u64) {
        self.records.records[request as usize].arrival = now;
        let tokens = f64::from(self.requests[request as usize].prompt_tokens());
        let known = now + (self.fleet.engines.front.value(tokens) * 1e12).round().max(0.0) as u64;
        let place = self.coming.partition_point(|&(time, _)| time <= known);
        self.coming.insert(place, (known, request));
    }

    /// Runs to the end.
    pub(crate) fn finish(
        mut self,
        mut go_on: impl FnMut(usize, u64) -> bool,
    ) -> Result<Outcome, Stopped> {
        let mut events = 0u64;
        while let Some(now) = self.next() {
            events += 1;
            if events.is_multiple_of(1024) && !go_on(self.done, now) {
                return Err(Stopped::Interrupted);
            }
            let mut stirred = Vec::new();
            while let Some(&Reverse((time, event))) =
                self.events.peek().filter(|&&Reverse((time, _))| time == now)
            {
                self.events.pop();
                match event {
                    Event::End(engine) => self.end(engine as usize, time, &mut stirred),
                    Event::Handed(request) => {
                        self.records.diary.moved(time, request, Moved::Arrived);
                        self.arrive(request, true, &mut stirred);
                    }
                    Event::Ready(engine) => self.ready(engine as usize, time),
                    Event::Look => self.look(time),
                }
            }
            while self.coming.front().is_some_and(|&(time, _)| time <= now) {
                let (_, request) = self.coming.pop_front().expect("one is coming");
                self.arrive(request, false, &mut stirred);
            }
            stirred.sort_unstable();
            stirred.dedup();
            for engine in stirred {
                self.begin(engine, now);
            }
            self.sample(now);
        }
        match self.records.records.iter().position(|record| record.end == u64::MAX) {
            Some(stuck) => Err(Stopped::Stuck(stuck as u32)),
            None => Ok(Outcome {
                lifetimes: self.scaler.map(|scaler| {
                    let ends = self.records.records.iter().map(|record| record.end);
                    scaler.end(ends.max().unwrap_or(0))
                }),
                diary: self.records.diary,
                records: self.records.records,
                gaps: self.records.gaps,
                sums: self.engines.into_iter().map(|engine| engine.sums).collect(),
                samples: self.samples,
            }),
        }
    }

    /// The time of the next event.
    fn next(&self) -> Option<u64> {
        let event = self.events.peek().map(|&Reverse((time, _))| time);
        let arrival = self.coming.front().map(|&(time, _)| time);
        match (event, arrival) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// A request reaches the engines that compute prompts, or those that only generate.
    fn arrive(&mut self, request: u32, handed: bool, stirred: &mut Vec<usize>) {
        let of = &self.requests[request as usize];
        let (engine, rank) = self.route(of, handed);
        self.records.records[request as usize].engine = engine as u32;
        let alone = self.fleet.decode.is_none();
        let brought = if handed { of.prompt_tokens() - 1 } else { 0 };
        if alone || handed {
            self.engines[engine].add(rank, request, of, brought);
        } else {
            let prompt = Request { output: 1, ..of.clone() };
            self.engines[engine].add(rank, request, &prompt, 0);
        }
        stirred.push(engine);
    }

    /// The engine of a request and its rank there.
    fn route(&mut self, request: &Request, handed: bool) -> (usize, usize) {
        let open = &self.open[usize::from(handed)];
        let ranks = self.engines[open[0]].ranks.len();
        let places = open.len() * ranks;
        let of = |place: usize| (open[place % open.len()], place / open.len());
        let load = |place: usize| {
            let (engine, rank) = of(place);
            self.engines[engine].requests(rank)
        };
        let turn = &mut self.turns[usize::from(handed)];
        match self.fleet.routing {
            Routing::RoundRobin => {
                *turn += 1;
                of((*turn - 1) as usize % places)
            }
            Routing::LeastLoaded => of((0..places).min_by_key(|&place| load(place)).unwrap_or(0)),
            Routing::Prefix(most) => {
                let least = (0..places).map(load).min().unwrap_or(0);
                let held = |place: usize| {
                    let (engine, rank) = of(place);
                    self.engines[engine].ranks[rank].held(&request.prompt)
                };
                let near = (0..places).filter(|&place| load(place) <= least + most as usize);
                let key = |&place: &usize| (Reverse(held(place)), load(place), place);
                of(near.min_by_key(key).unwrap_or(0))
            }
        }
    }

    /// The oldest step of an engine ends. Where nothing changes, later ones end at once too.
    fn end(&mut self, number: usize, now: u64, stirred: &mut Vec<usize>) {
        let until = self.next().unwrap_or(u64::MAX);
        let engine = &mut self.engines[number];
        let before =
            self.records.diary.wanted().then(|| (engine.sums.clone(), engine.free().max(now)));
        let Records { gaps, last, .. } = &mut self.records;
        let coasted = !self.step_by_step && engine.coast(until, gaps, last) > 0;
        if let (true, Some((sums, begin))) = (coasted, before) {
            let of = &engine.sums;
            self.records.diary.step(Step {
                engine: number as u32,
                begin,
                end: engine.free(),
                steps: of.steps - sums.steps,
                requests: of.parts - sums.parts,
                tokens: of.tokens - sums.tokens,
                terms: of.terms.iter().zip(&sums.terms).map(|(now, before)| now - before).collect(),
                ..engine.state()
            });
        }
        let tokens = if coasted { Vec::new() } else { engine.end() };
        if let Some(flight) = engine.flights.front() {
            self.events.push(Reverse((flight.end, Event::End(number as u32))));
        }
        if coasted {
            return;
        }
        for token in tokens {
            if self.fleet.decode.is_some() && number < self.first {
                self.hand(token.request, number, now);
            } else {
                self.generated(&token, now);
            }
        }
        let idle = load_of(&self.engines[number]).1 == 0;
        if let Some(scaler) = self.scaler.as_mut().filter(|_| idle) {
            scaler.idle(number, now);
        }
        stirred.push(number);
    }

    /// An engine that has started takes requests.
    fn ready(&mut self, number: usize, now: u64) {
        if let Some(scaler) = &mut self.scaler {
            scaler.ready(number, now);
            self.open[0] = scaler.open();
        }
    }

    /// Starts or stops engines, and looks again later while there are requests.
    fn look(&mut self, now: u64) {
        let Some(scaler) = self.scaler.as_mut().filter(|_| self.done < self.requests.len()) else {
            return;
        };
        for (at, number) in scaler.look(now, |number| load_of(&self.engines[number])) {
            self.events.push(Reverse((at, Event::Ready(number as u32))));
        }
        self.open[0] = scaler.open();
        // Without anything to come, requests that are left are stuck.
        if !self.events.is_empty() || !self.coming.is_empty() {
            let every = self.fleet.scaling.as_ref().map_or(u64::MAX, |rule| rule.every);
            self.events.push(Reverse((now.saturating_add(every), Event::Look)));
        }
    }

    /// A request has more tokens.
    fn generated(&mut self, token: &Token, now: u64) {
        let record = &mut self.records.records[token.request as usize];
        let last = &mut self.records.last[token.request as usize];
        if token.first {
            record.first = now;
        } else {
            self.records.gaps.add(now - *last);
        }
        *last = now;
        if token.last {
            record.end = now;
            self.done += 1;
            let after = match self.next.get_mut(token.request as usize) {
                Some(after) => std::mem::take(after),
                None => Vec::new(),
            };
            let goes_on = !after.is_empty();
            after.into_iter().for_each(|(next, think)| self.come(next, now.saturating_add(think)));
            if goes_on {
                return;
            }
            if let Some(next) = self.closed.pop_front() {
                self.come(next, now);
            }
        }
    }

    /// A prompt is computed: its keys and values go to an engine that generates.
    fn hand(&mut self, request: u32, from: usize, now: u64) {
        let Some((_, transfer)) = &self.fleet.decode else { return };
        let tokens = self.requests[request as usize].prompt_tokens();
        let time = (transfer.seconds.value(f64::from(tokens)) * 1e12).round() as u64;
        let end = self.senders[from].max(now) + time;
        self.senders[from] = end;
        self.records.records[request as usize].transfer = end - now;
        self.records.diary.moved(now, request, Moved::Sent);
        self.events.push(Reverse((end, Event::Handed(request))));
    }

    /// Begins the steps that an engine may begin.
    fn begin(&mut self, number: usize, now: u64) {
        let engine = &mut self.engines[number];
        let idle = engine.flights.is_empty();
        self.records.engine = number as u32;
        engine.begin(now, &mut self.records);
        if let Some(flight) = engine.flights.front().filter(|_| idle) {
            self.events.push(Reverse((flight.end, Event::End(number as u32))));
        }
    }

    /// Keeps the state, if it is time.
    fn sample(&mut self, now: u64) {
        if self.stride.1 > 0 {
            self.stride.1 -= 1;
            return;
        }
        self.stride.1 = self.stride.0 - 1;
        let mut sample = Sample { time: now, running: 0, waiting: 0, blocks: 0 };
        for (number, engine) in self.engines.iter().enumerate() {
            for (at, rank) in engine.ranks.iter().enumerate() {
                sample.running += rank.running() as u32;
                sample.waiting += engine.waiting(at) as u32;
                if number >= self.first || self.fleet.decode.is_none() {
                    sample.blocks += rank.settings.blocks - rank.free_blocks();
                }
            }
        }
        self.samples.push(sample);
        if self.samples.len() == SAMPLES {
            let mut even = false;
            self.samples.retain(|_| {
                even = !even;
                even
            });
            self.stride = (2 * self.stride.0, 2 * self.stride.0 - 1);
        }
    }
}

/// Waiting and all requests of an engine.
fn load_of(engine: &Engine) -> (usize, usize) {
    let ranks = 0..engine.ranks.len();
    (
        ranks.clone().map(|rank| engine.waiting(rank)).sum(),
        ranks.map(|rank| engine.requests(rank)).sum(),
    )
}
