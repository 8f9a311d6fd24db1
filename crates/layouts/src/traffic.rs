//! Collectives of one stage, which wait for each other in the queues of dimensions.
//!
//! A dimension runs one collective at a time, those first that were issued first. A collective over
//! several dimensions waits in the queue of each and ends with the last one.

use crate::script::{Op, STARTED};
use std::collections::VecDeque;

const DIMS: usize = 8;
const OPEN: u64 = u64::MAX;
/// Ticket of a call whose end is not asked for.
const UNASKED: usize = usize::MAX;
/// Most calls of a chain that a state has.
const PENDING: usize = 24;

/// A collective of data parallelism that is to come.
#[derive(Clone, Copy, Debug)]
struct Call {
    ready: u64,
    time: u64,
    ticket: usize,
}

/// Collectives that follow each other.
#[derive(Clone, Debug, Default)]
struct Chain {
    calls: VecDeque<Call>,
    end: u64,
    dims: u8,
}

/// Calls that are under way and to come, with all times counted from a moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    dims: [u64; DIMS],
    until: u64,
    /// The end of the last call of each chain, and the calls to come with their times.
    chains: [(u64, Vec<(u64, u64)>); 3],
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    dims: [u64; DIMS],
    chains: [Chain; 3],
    /// End of each call by its ticket.
    ends: Vec<u64>,
    /// When the last collective of data parallelism that was begun ends.
    until: u64,
    /// When the last of all that were begun ends.
    latest: u64,
    /// Calls of chains that are to come.
    to_come: usize,
    /// When the next of them is issued.
    next: u64,
    /// Ends of what a script has started, by its number.
    started: Vec<u64>,
}

impl Default for Traffic {
    fn default() -> Traffic {
        Traffic {
            dims: [0; DIMS],
            chains: Default::default(),
            ends: Vec::new(),
            until: 0,
            latest: 0,
            to_come: 0,
            next: OPEN,
            started: Vec::new(),
        }
    }
}

impl Traffic {
    pub fn clear(&mut self, dims: [u8; 3]) {
        self.dims = [0; DIMS];
        self.ends.clear();
        (self.until, self.latest, self.to_come, self.next) = (0, 0, 0, OPEN);
        for (chain, dims) in self.chains.iter_mut().zip(dims) {
            chain.calls.clear();
            chain.end = 0;
            chain.dims = dims;
        }
    }

    /// Whether nothing is under way from `now` on.
    pub fn is_quiet(&self, now: u64) -> bool {
        self.busy() <= now
    }

    /// From when on nothing is under way, as far as is known.
    pub fn busy(&self) -> u64 {
        if self.to_come > 0 { OPEN } else { self.latest }
    }

    /// Begins the calls before `base`, before which nothing more is added.
    pub fn catch_up(&mut self, base: u64) {
        while base > 0 && self.begin_next(base - 1) {}
    }

    /// The state from `base` on, before which nothing more is added; none where an end may be asked
    /// for later, or where too much is to come.
    pub fn state(&mut self, base: u64) -> Option<State> {
        self.catch_up(base);
        let plain = |chain: &Chain| {
            chain.calls.len() <= PENDING && chain.calls.iter().all(|call| call.ticket == UNASKED)
        };
        if !self.chains.iter().all(plain) {
            return None;
        }
        let from = |time: u64| time.saturating_sub(base);
        let calls = |chain: &Chain| chain.calls.iter().map(|c| (from(c.ready), c.time)).collect();
        Some(State {
            dims: self.dims.map(from),
            until: from(self.until),
            chains: self.chains.each_ref().map(|chain| (from(chain.end), calls(chain))),
        })
    }

    /// Takes over a state that was counted from what is `base` now.
    pub fn resume(&mut self, base: u64, state: &State) {
        self.dims = state.dims.map(|time| base + time);
        self.until = base + state.until;
        self.latest = self.dims.iter().fold(0, |latest, &end| latest.max(end));
        self.to_come = 0;
        for (chain, (end, calls)) in self.chains.iter_mut().zip(&state.chains) {
            chain.end = base + end;
            self.latest = self.latest.max(chain.end);
            self.to_come += calls.len();
            let call = |&(ready, time)| Call { ready: base + ready, time, ticket: UNASKED };
            chain.calls.clear();
            chain.calls.extend(calls.iter().map(call));
        }
        self.find_next();
    }

    /// Adds a collective of data parallelism that may begin at `ready`, and whose end is not asked
    /// for.
    pub fn append(&mut self, chain: usize, ready: u64, time: u64) {
        self.push(chain, Call { ready, time, ticket: UNASKED });
    }

    /// Adds a collective of data parallelism that may begin at `ready`; its ticket.
    pub fn add(&mut self, chain: usize, ready: u64, time: u64) -> usize {
        let ticket = self.ends.len();
        self.ends.push(OPEN);
        self.push(chain, Call { ready, time, ticket });
        ticket
    }

    fn push(&mut self, chain: usize, call: Call) {
        let Chain { calls, end, .. } = &mut self.chains[chain];
        if calls.is_empty() {
            self.next = self.next.min(call.ready.max(*end));
        }
        calls.push_back(call);
        self.to_come += 1;
    }

    /// The end of a call.
    pub fn end(&mut self, ticket: usize) -> u64 {
        while self.ends[ticket] == OPEN {
            self.begin_next(OPEN);
        }
        self.ends[ticket]
    }

    /// The end of all calls.
    pub fn end_of_all(&mut self) -> u64 {
        while self.begin_next(OPEN) {}
        self.chains.iter().map(|chain| chain.end).max().unwrap_or(0)
    }

    /// The end of a collective of a layer that is issued at `now`.
    #[inline]
    pub fn call(&mut self, now: u64, time: u64, dims: u8) -> u64 {
        while self.begin_next(now) {}
        self.occupy(now, time, dims)
    }

    /// The end of a kernel of `time` that begins at `now`, where kernels lose `slowdown` of their
    /// speed next to collectives of data parallelism.
    #[inline]
    pub fn kernel(&mut self, mut now: u64, time: u64, slowdown: f64) -> u64 {
        if slowdown == 0.0 {
            return now + time;
        }
        let mut left = time as f64;
        loop {
            while self.begin_next(now) {}
            if self.until > now {
                let room = (self.until - now) as f64;
                let done = room * (1.0 - slowdown);
                if done >= left {
                    return now + (left / (1.0 - slowdown)) as u64;
                }
                left -= done;
                now = self.until;
                continue;
            }
            let next = self.next;
            if next == OPEN || left <= (next - now) as f64 {
                return now + left as u64;
            }
            left -= (next - now) as f64;
            now = next;
        }
    }

    /// The end of operations that begin at `begins`.
    pub fn play(&mut self, begins: u64, ops: &[Op], slowdown: f64) -> u64 {
        self.started.resize(STARTED, 0);
        let mut end = begins;
        for op in ops {
            match *op {
                Op::Kernel(time) => end = self.kernel(end, time, slowdown),
                Op::Call(time, dims) => end = self.call(end, time, dims),
                Op::Start(time, dims, slot) => {
                    self.started[slot as usize] = self.call(end, time, dims);
                }
                Op::Wait(slot) => end = end.max(self.started[slot as usize]),
            }
        }
        end
    }

    /// When the next call is issued, and its chain.
    fn next_issue(&self) -> Option<(u64, usize)> {
        let issue = |(at, chain): (usize, &Chain)| {
            chain.calls.front().map(|call| (call.ready.max(chain.end), at))
        };
        self.chains.iter().enumerate().filter_map(issue).min()
    }

    /// Begins the next call if it is issued by `now`.
    fn begin_next(&mut self, now: u64) -> bool {
        if self.next > now {
            return false;
        }
        let Some((issue, at)) = self.next_issue() else { return false };
        let call = self.chains[at].calls.pop_front().expect("it was there");
        self.to_come -= 1;
        let end = self.occupy(issue, call.time, self.chains[at].dims);
        self.chains[at].end = end;
        if call.ticket != UNASKED {
            self.ends[call.ticket] = end;
        }
        self.until = self.until.max(end);
        self.find_next();
        true
    }

    fn find_next(&mut self) {
        self.next = self.next_issue().map_or(OPEN, |(issue, _)| issue);
    }

    fn occupy(&mut self, issue: u64, time: u64, dims: u8) -> u64 {
        let mut last = issue + time;
        let mut left = dims;
        while left != 0 {
            let free = &mut self.dims[left.trailing_zeros() as usize];
            *free = (*free).max(issue) + time;
            last = last.max(*free);
            left &= left - 1;
        }
        self.latest = self.latest.max(last);
        last
    }
}
