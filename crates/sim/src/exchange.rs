//! The network of a platform under another front end: send, receive, schedule, and the clock.
//!
//! Here: [`Exchange`]. It matches sends with receives, keeps what is scheduled, and says what is due,
//! by the number that each call got. Not here: who is called then (Python and the pipe, `py`),
//! accesses to memory (`accesses.rs`).
//!
//! At every instant the network comes first, then accesses to a pool, then what is scheduled for it
//! and other accesses, in the order of the calls.

use crate::accesses::{Accesses, Over};
use crate::backends::Network;
use crate::{BackendKind, Error, names};
use executor::Wanted;
use graph::{Problem, Reach};
use network::{Backend, Delivery, Transfer};
use platform::Platform;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use topology::Fabric;
use units::{Bytes, Span, Time};

/// Receives that an error lists.
const LISTED: usize = 8;

/// Whose messages match: source, destination and tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel {
    /// Source NPU.
    pub src: u32,
    /// Destination NPU.
    pub dst: u32,
    /// The front end's own mark.
    pub tag: u64,
}

/// A call that waits for its other half.
#[derive(Clone, Copy)]
struct Posted {
    number: u64,
    bytes: u64,
}

/// Calls of a channel without their other half, in order. One of the two is always empty.
#[derive(Default)]
struct Halves {
    sends: VecDeque<Posted>,
    receives: VecDeque<Posted>,
}

/// The network of a platform, driven by another front end.
pub struct Exchange {
    name: String,
    fabric: Fabric,
    network: Network,
    now: Time,
    calls: u64,
    /// Transfers of now that the network has not heard of yet.
    starts: Vec<Transfer>,
    /// Messages under way, each with the number of its receive.
    flying: FxHashMap<u64, Option<u64>>,
    channels: BTreeMap<Channel, Halves>,
    accesses: Accesses,
    scheduled: BinaryHeap<Reverse<(Time, u64)>>,
    due: Vec<u64>,
    finished: Vec<Delivery>,
}

impl Exchange {
    /// The network of `platform` at time 0.
    ///
    /// # Errors
    /// A network that the backend cannot carry.
    pub fn new(platform: &Platform, backend: &BackendKind) -> Result<Exchange, Problem> {
        Ok(Exchange {
            name: backend.name().to_string(),
            fabric: platform.fabric.clone(),
            network: backend.make(platform)?,
            now: Time::ZERO,
            calls: 0,
            starts: Vec::new(),
            flying: FxHashMap::default(),
            channels: BTreeMap::new(),
            accesses: Accesses::new(platform),
            scheduled: BinaryHeap::new(),
            due: Vec::new(),
            finished: Vec::new(),
        })
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Sends a message now. The call's number is due when the message has arrived.
    ///
    /// # Errors
    /// NPUs that do not exist or are the same, or a receive of another size.
    pub fn send(&mut self, channel: Channel, bytes: u64) -> Result<u64, Problem> {
        self.check(channel)?;
        let receiver = match self.channels.entry(channel).or_default().receives.front() {
            Some(receive) if receive.bytes != bytes => {
                return Err(other_size(channel, bytes, receive.bytes));
            }
            front => front.map(|receive| receive.number),
        };
        let number = self.number();
        let halves = self.channels.entry(channel).or_default();
        match receiver {
            Some(_) => drop(halves.receives.pop_front()),
            None => halves.sends.push_back(Posted { number, bytes }),
        }
        self.forget_if_matched(channel);
        self.flying.insert(number, receiver);
        let Channel { src, dst, .. } = channel;
        self.starts.push(Transfer { src, dst, bytes, paced: bytes, token: number, weight: 1 });
        Ok(number)
    }

    /// Posts a receive now. The call's number is due when its message has arrived.
    ///
    /// # Errors
    /// NPUs that do not exist or are the same, or a message of another size.
    pub fn receive(&mut self, channel: Channel, bytes: u64) -> Result<u64, Problem> {
        self.check(channel)?;
        let send = match self.channels.entry(channel).or_default().sends.front() {
            Some(send) if send.bytes != bytes => {
                return Err(other_size(channel, send.bytes, bytes));
            }
            front => front.map(|send| send.number),
        };
        let number = self.number();
        let halves = self.channels.entry(channel).or_default();
        match send {
            Some(_) => drop(halves.sends.pop_front()),
            None => halves.receives.push_back(Posted { number, bytes }),
        }
        self.forget_if_matched(channel);
        match send.map(|send| self.flying.get_mut(&send)) {
            Some(Some(receiver)) => *receiver = Some(number),
            Some(None) => self.scheduled.push(Reverse((self.now, number))),
            None => {}
        }
        Ok(number)
    }

    /// Makes the call's number due `delay` from now.
    ///
    /// # Errors
    /// A time that the clock cannot show.
    pub fn schedule(&mut self, delay: Span) -> Result<u64, Problem> {
        let at = self.now + delay;
        if at == Time::MAX {
            return Err(too_late());
        }
        let number = self.number();
        self.scheduled.push(Reverse((at, number)));
        Ok(number)
    }

    /// Begins a load from memory now, or a store to it, when its turn has come. The call's number
    /// is due when it is over.
    ///
    /// # Errors
    /// An NPU or a memory that does not exist.
    pub fn access(
        &mut self,
        npu: u32,
        bytes: Bytes,
        reach: Reach,
        store: bool,
    ) -> Result<u64, Problem> {
        self.exists("npu", npu)?;
        let wanted = Wanted { store, bytes, gathers: reach == Reach::InSwitch, slot: None };
        let number = self.calls + 1;
        match self.accesses.begin(number, npu, wanted, reach, self.now)? {
            Over::At(Time::MAX) => return Err(too_late()),
            Over::At(at) => self.scheduled.push(Reverse((at, number))),
            Over::Open => {}
        }
        Ok(self.number())
    }

    /// Goes on to the next instant at which something is due, no later than `limit`, or a part of
    /// the way. False when there is nothing more until then; the clock then shows the limit,
    /// unless that is [`Time::MAX`].
    ///
    /// # Errors
    /// A network that can no longer move, or a simulator that failed.
    pub fn advance(&mut self, limit: Time) -> Result<bool, Error> {
        for transfer in self.starts.drain(..) {
            self.network.start(self.now, transfer);
        }
        let event = self.network.next_event();
        self.still_answers()?;
        let task = self.scheduled.peek().map(|Reverse((at, _))| *at);
        let task = [task, self.accesses.next(self.now)].into_iter().flatten().min();
        let next = [event, task].into_iter().flatten().min().filter(|&at| at <= limit);
        match next {
            None => return self.rest(limit, event).map(|()| false),
            Some(at) if event == Some(at) => self.carry(limit.min(task.unwrap_or(limit)))?,
            Some(at) => self.call(at),
        }
        Ok(true)
    }

    /// Numbers of what is due, in order.
    pub fn due(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.due)
    }

    /// Whether something is due.
    pub fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Receives without a send.
    pub fn waiting(&self) -> Vec<Problem> {
        let all = self.channels.iter().flat_map(|(channel, halves)| {
            halves.receives.iter().map(move |receive| (channel, receive.bytes))
        });
        let mut listed: Vec<Problem> = all.clone().take(LISTED).map(waits).collect();
        let more = all.count().saturating_sub(LISTED);
        if more > 0 {
            listed.push(Problem::new("", "receive", format!("and {more} more wait")));
        }
        listed
    }

    fn number(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    fn check(&self, Channel { src, dst, .. }: Channel) -> Result<(), Problem> {
        self.exists("src", src)?;
        self.exists("dst", dst)?;
        let allowed = "another NPU, or schedule for what an NPU does by itself";
        let same = format!("NPU {src} sends to itself, which takes no network");
        if src == dst { Err(Problem::new("", "dst", same).help(allowed)) } else { Ok(()) }
    }

    fn exists(&self, place: &str, npu: u32) -> Result<(), Problem> {
        let npus = self.fabric.npus();
        if npu < npus {
            return Ok(());
        }
        let text = format!("NPU {npu} does not exist");
        Err(Problem::new("", place, text).help(format!("0 to {}", npus - 1)))
    }

    fn forget_if_matched(&mut self, channel: Channel) {
        if self.channels.get(&channel).is_some_and(|h| h.sends.is_empty() && h.receives.is_empty())
        {
            self.channels.remove(&channel);
        }
    }

    fn still_answers(&self) -> Result<(), Error> {
        let failed = self.network.failed();
        failed.map_or(Ok(()), |failure| Err(Problem::new(&self.name, "", failure).into()))
    }

    /// Nothing happens until `limit`.
    fn rest(&mut self, limit: Time, event: Option<Time>) -> Result<(), Error> {
        if let Some(stuck) = event.is_none().then(|| self.network.stalled()).flatten() {
            return Err(Error::Locked(names::stall(&self.fabric, stuck), self.now));
        }
        if limit != Time::MAX {
            self.now = limit;
        }
        Ok(())
    }

    /// Lets the network go on until it delivers.
    fn carry(&mut self, until: Time) -> Result<(), Error> {
        let mut finished = std::mem::take(&mut self.finished);
        self.network.advance(until, &mut finished);
        self.still_answers()?;
        if finished.is_empty() {
            self.catch_up(until);
        }
        for Delivery { token, time } in finished.drain(..) {
            if time == Time::MAX {
                return Err(too_late().into());
            }
            self.now = time;
            let receiver = self.flying.remove(&token).flatten();
            self.due.extend([Some(token), receiver].into_iter().flatten());
        }
        self.finished = finished;
        Ok(())
    }

    /// The clock follows a network that has handled events without a delivery: nothing may start
    /// before them.
    fn catch_up(&mut self, until: Time) {
        let reached = self.network.next_event().unwrap_or(until).min(until);
        if reached != Time::MAX {
            self.now = self.now.max(reached);
        }
    }

    /// Handles events scheduled for `at`, and accesses to a pool that are over then.
    fn call(&mut self, at: Time) {
        self.now = at;
        self.accesses.end(at, &mut self.due);
        while let Some(&Reverse((time, number))) = self.scheduled.peek()
            && time == at
        {
            self.due.push(number);
            self.scheduled.pop();
        }
    }
}

fn too_late() -> Problem {
    let text = "a time later than 213 simulated days (2^64 picoseconds)";
    Problem::new("", "time", text).help("an earlier time")
}

fn other_size(channel: Channel, sent: u64, received: u64) -> Problem {
    let Channel { src, dst, tag } = channel;
    let text = format!(
        "a message of {sent} bytes from NPU {src} to NPU {dst} with tag {tag} meets a receive of \
         {received} bytes"
    );
    Problem::new("", "bytes", text).help("the same size on both sides")
}

fn waits((channel, bytes): (&Channel, u64)) -> Problem {
    let Channel { src, dst, tag } = channel;
    let text = format!(
        "NPU {dst} waits for {bytes} bytes from NPU {src} with tag {tag}, and there is no such send"
    );
    Problem::new("", "receive", text)
}
