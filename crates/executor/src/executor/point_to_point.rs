//! Sends and receives between ranks.
//!
//! The k-th send from a rank to another with a tag meets the k-th receive there (with the peer, of
//! the same byte count, too). A send ends when its message has arrived; a receive ends then, or at
//! once when it is posted later. With rendezvous the receiver announces itself first and the
//! message starts when the announcement has arrived.

use super::chunk::ANNOUNCEMENT;
use super::token::Token;
use super::{Callback, Executor, NONE};
use crate::observe::{Message, Sender};
use network::{Backend, Transfer};
use units::{Span, Time};

/// Who talks to whom, seen from the receiver: rank index, offset from source to destination, tag,
/// bytes (0 unless they must match).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ChannelKey {
    receiver: u32,
    offset: i32,
    tag: u32,
    bytes: u64,
    /// ChunkRun of an algorithm from a file and its position's row; 0 for the workload's own
    /// messages.
    scope: u32,
}

/// Who posted a send or a receive.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub rank: u32,
    pub node: u32,
    /// Run of an algorithm from a file; `NONE` for a node of the workload.
    pub run: u32,
    /// Keeps messages of different collectives apart; 0 for nodes of the workload.
    pub scope: u32,
}

impl Owner {
    /// A node of the workload.
    pub(super) fn node(rank: u32, node: u32) -> Owner {
        Owner { rank, node, run: NONE, scope: 0 }
    }

    /// Whose time goes on in a message, or in its announcement.
    fn sender(self, announces: bool) -> Sender {
        match self {
            Owner { run: NONE, node, .. } if !announces => Sender::Node(node),
            Owner { run: NONE, node, .. } => Sender::Beside(Some(node)),
            Owner { .. } => Sender::Beside(None),
        }
    }
}

/// All messages of one key.
#[derive(Default)]
pub(super) struct Channel {
    sends: Vec<Posted>,
    receives: Vec<Posted>,
    /// Arrived messages and announcements, by ordinal.
    arrived: Vec<bool>,
    announced: Vec<bool>,
    offset: i32,
}

#[derive(Clone, Copy)]
struct Posted {
    owner: Owner,
    bytes: u64,
    /// When the message of a send left.
    left: Time,
}

impl<B: Backend> Executor<'_, B> {
    fn channel(&mut self, receiver: u32, offset: i32, tag: u32, bytes: u64, scope: u32) -> u32 {
        let bytes = if self.settings.match_bytes { bytes } else { 0 };
        let next = self.channels.len() as u32;
        let at = *self
            .channel_of
            .entry(ChannelKey { receiver, offset, tag, bytes, scope })
            .or_insert(next);
        if at == next {
            self.channels.push(Channel { offset, ..Channel::default() });
        }
        at
    }

    pub(super) fn send(&mut self, owner: Owner, peer: i32, bytes: u64, tag: u32) {
        let dst = self.folding.representatives[owner.rank as usize].wrapping_add_signed(peer);
        let at = self.channel(self.folding.local(dst), peer, tag, bytes, owner.scope);
        let channel = &mut self.channels[at as usize];
        channel.sends.push(Posted { owner, bytes, left: Time::MAX });
        let ordinal = channel.sends.len() as u32 - 1;
        if !self.settings.rendezvous || flag(&channel.announced, ordinal) {
            self.start_message(at, ordinal);
        }
    }

    pub(super) fn receive(&mut self, owner: Owner, peer: i32, bytes: u64, tag: u32) {
        let at = self.channel(owner.rank, -peer, tag, bytes, owner.scope);
        let channel = &mut self.channels[at as usize];
        channel.receives.push(Posted { owner, bytes, left: Time::MAX });
        let ordinal = channel.receives.len() as u32 - 1;
        if flag(&channel.arrived, ordinal) {
            self.tell_message(at, ordinal);
            return self.owner_done(owner);
        }
        // With rendezvous the message leaves later, when this receive has been announced to it.
        if !self.settings.rendezvous && channel.sends.len() as u32 > ordinal {
            self.under_way(owner);
        }
        if self.settings.rendezvous {
            let src = self.folding.representatives[owner.rank as usize];
            let weight = self.folding.multiplicity[owner.rank as usize];
            let token = Token::Announce { channel: at, ordinal }.pack();
            let transfer = Transfer {
                src,
                dst: src.wrapping_add_signed(peer),
                bytes: ANNOUNCEMENT,
                token,
                weight,
            };
            self.depart(owner.sender(true), owner.rank, transfer, Span::ZERO);
        }
    }

    pub(super) fn start_message(&mut self, at: u32, ordinal: u32) {
        let channel = &mut self.channels[at as usize];
        let Posted { owner, bytes, left } = &mut channel.sends[ordinal as usize];
        *left = self.now;
        let (owner, bytes) = (*owner, *bytes);
        let channel = &self.channels[at as usize];
        let src = self.folding.representatives[owner.rank as usize];
        let dst = src.wrapping_add_signed(channel.offset);
        if let Some(receive) = channel.receives.get(ordinal as usize) {
            self.under_way(receive.owner);
        }
        let weight = self.folding.multiplicity[owner.rank as usize];
        let token = Token::Message { channel: at, ordinal }.pack();
        let transfer = Transfer { src, dst, bytes, token, weight };
        self.depart(
            owner.sender(false),
            owner.rank,
            transfer,
            self.handling(owner, src, dst, bytes),
        );
    }

    /// What a library adds to a message of the workload beyond what its bytes take alone.
    fn handling(&self, owner: Owner, src: u32, dst: u32, bytes: u64) -> Span {
        let library = (owner.run == NONE)
            .then(|| self.lowering.message(self.outermost(src, dst), bytes))
            .flatten();
        library.map_or(Span::ZERO, |whole| {
            whole.saturating_sub(self.backend.physical_minimum(src, dst, bytes))
        })
    }

    /// The bytes of a message are there; what the library adds is spent after them, so that nothing
    /// that departs meanwhile gets ahead.
    pub(super) fn message_delivered(&mut self, at: u32, ordinal: u32) {
        let channel = &self.channels[at as usize];
        let Posted { owner, bytes, .. } = channel.sends[ordinal as usize];
        let src = self.folding.representatives[owner.rank as usize];
        match self.handling(owner, src, src.wrapping_add_signed(channel.offset), bytes) {
            Span::ZERO => self.message_arrived(at, ordinal),
            wait => self.register(owner.rank, self.now + wait, Callback::Handled(at, ordinal)),
        }
    }

    /// A message is there: its send ends, then its receive if it is posted.
    pub(super) fn message_arrived(&mut self, at: u32, ordinal: u32) {
        let channel = &mut self.channels[at as usize];
        raise(&mut channel.arrived, ordinal);
        let send = channel.sends[ordinal as usize];
        let receive = channel.receives.get(ordinal as usize).copied();
        self.owner_done(send.owner);
        if let Some(Posted { owner, .. }) = receive {
            if owner.run == NONE {
                self.recorder.message_over(owner.rank, owner.node, self.now);
                self.repace(owner.rank);
            }
            self.tell_message(at, ordinal);
            self.owner_done(owner);
        }
    }

    /// Tells observers of a message of the workload whose send and receive have met.
    fn tell_message(&mut self, at: u32, ordinal: u32) {
        let channel = &self.channels[at as usize];
        let (send, receive) =
            (channel.sends[ordinal as usize], channel.receives[ordinal as usize].owner);
        if receive.run == NONE {
            let (from, to) = ((send.owner.rank, send.owner.node), (receive.rank, receive.node));
            let message =
                Message { from, to, bytes: send.bytes, sent: send.left, received: self.now };
            self.recorder.message(message);
        }
    }

    /// A posted receive's message is on its way: its rank communicates (a collective's does
    /// anyway).
    fn under_way(&mut self, owner: Owner) {
        if owner.run == NONE {
            self.recorder.message_under_way(owner.rank, owner.node, self.now);
            self.repace(owner.rank);
        }
    }

    fn owner_done(&mut self, owner: Owner) {
        let callback = if owner.run == NONE {
            Callback::Node(owner.node)
        } else {
            Callback::Custom(owner.run, owner.node)
        };
        if self.settings.canonical {
            self.register(owner.rank, self.now, callback)
        } else {
            self.call(owner.rank, callback)
        }
    }

    /// A receiver's announcement has arrived at the sender.
    pub(super) fn announced(&mut self, at: u32, ordinal: u32) {
        let channel = &mut self.channels[at as usize];
        raise(&mut channel.announced, ordinal);
        match channel.sends.get(ordinal as usize).map(|send| send.owner.rank) {
            // In its turn, for announcements of one instant arrive in an order that depends on the
            // numbers of ranks.
            Some(rank) if self.settings.canonical => {
                self.register(rank, self.now, Callback::Announced(at, ordinal))
            }
            Some(_) => self.start_message(at, ordinal),
            None => {}
        }
    }

    /// Who sends message `ordinal` of a channel; it has been posted.
    pub(super) fn sender(&self, at: u32, ordinal: u32) -> Owner {
        self.channels[at as usize].sends[ordinal as usize].owner
    }
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
