//! Sends and receives of the workload and of algorithms from files, and how they meet.
//!
//! The k-th send from a rank to another with a tag meets the k-th receive there. In ASTRA-sim's
//! profile both must also have the same byte count. Here: who has posted what, what has arrived and
//! what is announced. Not here: when a message leaves and what follows
//! (`executor/point_to_point.rs`).

use graph::Program;
use rustc_hash::FxHashMap;
use units::Time;

const NONE: u32 = u32::MAX;

/// A sender and its receiver, seen from the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChannelKey {
    /// Rank index of the receiver.
    pub(crate) receiver: u32,
    /// The sender, as the receiver names it.
    pub(crate) from: Named,
    pub(crate) tag: u32,
    /// 0 unless they must match.
    pub(crate) bytes: u64,
    /// See [`Owner::scope`].
    pub(crate) scope: u32,
}

/// The sender of a message, as its receiver names it. Ranks of a class that run different programs
/// have peers at different offsets, but at the same ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Named {
    /// The peer at a port of the receiver's program ([`Program::peers`]).
    Port(u32),
    /// The peer at an offset: in algorithms from files, and for a sender that the receiver does not
    /// name.
    Offset(i32),
}

/// Ports of the peers of each program, found when they are asked for first.
pub(crate) struct Ports(Vec<Option<FxHashMap<i32, u32>>>);

impl Ports {
    /// Ports of `programs` programs.
    pub(crate) fn new(programs: usize) -> Ports {
        Ports(vec![None; programs])
    }

    /// The peer at an offset, as a rank of a program names it.
    pub(crate) fn name(&mut self, number: usize, program: &Program, offset: i32) -> Named {
        let known = self.0[number]
            .get_or_insert_with(|| program.peers().iter().copied().zip(0..).collect());
        known.get(&offset).map_or(Named::Offset(offset), |&port| Named::Port(port))
    }
}

/// Who posted a send or a receive.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) rank: u32,
    pub(crate) node: u32,
    /// The graph of an algorithm from a file; `NONE` for a node of the workload.
    graph: u32,
    /// Keeps messages of different collectives apart; 0 for nodes of the workload.
    pub(crate) scope: u32,
}

impl Owner {
    /// A node of the workload.
    pub(crate) fn node(rank: u32, node: u32) -> Owner {
        Owner { rank, node, graph: NONE, scope: 0 }
    }

    /// An operation of an algorithm from a file that runs for collective `instance`.
    pub(crate) fn operation(rank: u32, graph: u32, node: u32, instance: u32) -> Owner {
        Owner { rank, node, graph, scope: instance + 1 }
    }

    /// The graph of an algorithm from a file; `None` for a node of the workload.
    #[inline]
    pub(crate) fn graph(&self) -> Option<u32> {
        Some(self.graph).filter(|&graph| graph != NONE)
    }
}

/// A send or a receive.
#[derive(Clone, Copy)]
pub(crate) struct Posted {
    pub(crate) owner: Owner,
    pub(crate) bytes: u64,
    /// From the rank that posted it to the other one.
    pub(crate) offset: i32,
    /// When the message of a send left.
    pub(crate) left: Time,
}

impl Posted {
    /// Posted by `owner`; the message has not left.
    pub(crate) fn new(owner: Owner, bytes: u64, offset: i32) -> Posted {
        Posted { owner, bytes, offset, left: Time::MAX }
    }
}

/// All messages of one key.
struct Channel {
    key: ChannelKey,
    sends: Vec<Posted>,
    receives: Vec<Posted>,
    /// Messages that have arrived, for each ordinal; receives that are announced to the sender.
    arrived: Vec<bool>,
    announced: Vec<bool>,
    /// How many are over.
    over: usize,
}

impl Channel {
    fn new(key: ChannelKey) -> Channel {
        let (sends, receives) = (Vec::new(), Vec::new());
        Channel { key, sends, receives, arrived: Vec::new(), announced: Vec::new(), over: 0 }
    }

    fn clear(&mut self) {
        self.sends.clear();
        self.receives.clear();
        self.arrived.clear();
        self.announced.clear();
        self.over = 0;
    }
}

/// All channels. A message is named by its channel and its ordinal there, until it is over.
#[derive(Default)]
pub(crate) struct Messages {
    channels: Vec<Channel>,
    known: FxHashMap<ChannelKey, u32>,
    /// Channels without a message, for other keys.
    free: Vec<u32>,
}

impl Messages {
    pub(crate) fn channel(&mut self, key: ChannelKey) -> u32 {
        let (channels, free) = (&mut self.channels, &mut self.free);
        *self.known.entry(key).or_insert_with(|| {
            if let Some(at) = free.pop() {
                channels[at as usize].key = key;
                return at;
            }
            channels.push(Channel::new(key));
            channels.len() as u32 - 1
        })
    }

    /// A message has been received. Its channel goes to other keys if it has no other.
    pub(crate) fn over(&mut self, at: u32) {
        let channel = &mut self.channels[at as usize];
        channel.over += 1;
        if channel.over == channel.sends.len() && channel.over == channel.receives.len() {
            self.known.remove(&channel.key);
            channel.clear();
            self.free.push(at);
        }
    }

    /// Posts a send; its ordinal.
    pub(crate) fn post_send(&mut self, at: u32, sent: Posted) -> u32 {
        post(&mut self.channels[at as usize].sends, sent)
    }

    /// Posts a receive; its ordinal.
    pub(crate) fn post_receive(&mut self, at: u32, received: Posted) -> u32 {
        post(&mut self.channels[at as usize].receives, received)
    }

    pub(crate) fn has_send(&self, at: u32, ordinal: u32) -> bool {
        self.channels[at as usize].sends.len() > ordinal as usize
    }

    pub(crate) fn has_arrived(&self, at: u32, ordinal: u32) -> bool {
        flag(&self.channels[at as usize].arrived, ordinal)
    }

    pub(crate) fn is_announced(&self, at: u32, ordinal: u32) -> bool {
        flag(&self.channels[at as usize].announced, ordinal)
    }

    /// A send that has been posted.
    pub(crate) fn send(&self, at: u32, ordinal: u32) -> Posted {
        self.channels[at as usize].sends[ordinal as usize]
    }

    /// Who receives a message, if the receive is posted.
    pub(crate) fn receiver(&self, at: u32, ordinal: u32) -> Option<Owner> {
        self.channels[at as usize].receives.get(ordinal as usize).map(|receive| receive.owner)
    }

    /// The message of a send leaves at `now`.
    pub(crate) fn leave(&mut self, at: u32, ordinal: u32, now: Time) {
        self.channels[at as usize].sends[ordinal as usize].left = now;
    }

    pub(crate) fn arrive(&mut self, at: u32, ordinal: u32) {
        raise(&mut self.channels[at as usize].arrived, ordinal);
    }

    /// A receive is announced to the sender. Returns who sends, if the send is posted.
    pub(crate) fn announce(&mut self, at: u32, ordinal: u32) -> Option<Owner> {
        let channel = &mut self.channels[at as usize];
        raise(&mut channel.announced, ordinal);
        channel.sends.get(ordinal as usize).map(|send| send.owner)
    }
}

fn post(posted: &mut Vec<Posted>, one: Posted) -> u32 {
    posted.push(one);
    posted.len() as u32 - 1
}

fn flag(flags: &[bool], at: u32) -> bool {
    flags.get(at as usize).copied().unwrap_or(false)
}

fn raise(flags: &mut Vec<bool>, at: u32) {
    if flags.len() <= at as usize {
        flags.resize(at as usize + 1, false);
    }
    flags[at as usize] = true;
}
