//! Sends and receives of the workload and of algorithms from files, and how they meet.
//!
//! The k-th send from a rank to another with a tag meets the k-th receive there. In ASTRA-sim's
//! profile both must also have the same byte count. Here: who has posted what, what has arrived and
//! what is announced. Not here: when a message leaves and what follows
//! (`executor/point_to_point.rs`).

use rustc_hash::FxHashMap;
use units::Time;

const NONE: u32 = u32::MAX;

/// A sender and its receiver, seen from the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChannelKey {
    /// Rank index of the receiver.
    pub(crate) receiver: u32,
    /// From the rank that sends to the one that receives.
    pub(crate) offset: i32,
    pub(crate) tag: u32,
    /// 0 unless they must match.
    pub(crate) bytes: u64,
    /// See [`Owner::scope`].
    pub(crate) scope: u32,
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
    /// When the message of a send left.
    pub(crate) left: Time,
}

/// All messages of one key.
#[derive(Default)]
struct Channel {
    sends: Vec<Posted>,
    receives: Vec<Posted>,
    /// Messages that have arrived, for each ordinal; receives that are announced to the sender.
    arrived: Vec<bool>,
    announced: Vec<bool>,
    offset: i32,
}

/// All channels. A message is named by its channel and its ordinal there.
#[derive(Default)]
pub(crate) struct Messages {
    channels: Vec<Channel>,
    known: FxHashMap<ChannelKey, u32>,
}

impl Messages {
    pub(crate) fn channel(&mut self, key: ChannelKey) -> u32 {
        let next = self.channels.len() as u32;
        let at = *self.known.entry(key).or_insert(next);
        if at == next {
            self.channels.push(Channel { offset: key.offset, ..Channel::default() });
        }
        at
    }

    /// Posts a send; its ordinal.
    pub(crate) fn post_send(&mut self, at: u32, owner: Owner, bytes: u64) -> u32 {
        post(&mut self.channels[at as usize].sends, owner, bytes)
    }

    /// Posts a receive; its ordinal.
    pub(crate) fn post_receive(&mut self, at: u32, owner: Owner, bytes: u64) -> u32 {
        post(&mut self.channels[at as usize].receives, owner, bytes)
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

    /// From the rank that sends to the one that receives.
    pub(crate) fn offset(&self, at: u32) -> i32 {
        self.channels[at as usize].offset
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

fn post(posted: &mut Vec<Posted>, owner: Owner, bytes: u64) -> u32 {
    posted.push(Posted { owner, bytes, left: Time::MAX });
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
