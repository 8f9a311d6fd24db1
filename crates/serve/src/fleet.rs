//! Engines together: the engine that gets a request, and the times of each request.

use crate::engine::{Engine, Kind, Notes, Sums};
use crate::request::Request;
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

/// When requests arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At these times, ps, in ascending order.
    Open(Vec<u64>),
    /// This number is there at any time.
    Closed(u32),
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
}

struct Records {
    records: Vec<Record>,
    /// Time of the last token of each request.
    last: Vec<u64>,
    gaps: Gaps,
}

impl Notes for Records {
    fn admitted(&mut self, request: u32, cached: u32, now: u64) {
        let record = &mut self.records[request as usize];
        if record.admitted == u64::MAX {
            (record.admitted, record.cached) = (now, cached);
        }
    }

    fn preempted(&mut self, request: u32) {
        self.records[request as usize].preemptions += 1;
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
    /// When the sender of each engine is free.
    senders: Vec<u64>,
    /// Requests that schedulers do not know yet, in the order of the times when they will.
    coming: VecDeque<(u64, u32)>,
    /// Requests that arrive when another one is done.
    closed: VecDeque<u32>,
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
        let count = requests.len() as u32;
        let (there, closed): (Vec<(u64, u32)>, _) = match arrivals {
            Arrivals::Open(times) => (times.iter().copied().zip(0..).collect(), VecDeque::new()),
            Arrivals::Closed(most) => {
                let most = count.min(*most);
                ((0..most).map(|request| (0, request)).collect(), (most..count).collect())
            }
        };
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
            },
            turns: [0; 2],
            coming: VecDeque::new(),
            closed,
            done: 0,
            samples: Vec::new(),
            stride: (1, 0),
            step_by_step: false,
        };
        there.into_iter().for_each(|(time, request)| run.come(request, time));
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
                    Event::Handed(request) => self.arrive(request, true, &mut stirred),
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
        let (from, to) = if handed { (self.first, self.engines.len()) } else { (0, self.first) };
        let ranks = self.engines[from].ranks.len();
        let places = (to - from) * ranks;
        let of = |place: usize| (from + place % (to - from), place / (to - from));
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
        let Records { gaps, last, .. } = &mut self.records;
        let coasted = !self.step_by_step && engine.coast(until, gaps, last) > 0;
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
        stirred.push(number);
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
        self.events.push(Reverse((end, Event::Handed(request))));
    }

    /// Begins the steps that an engine may begin.
    fn begin(&mut self, number: usize, now: u64) {
        let engine = &mut self.engines[number];
        let idle = engine.flights.is_empty();
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
