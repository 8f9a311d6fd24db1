//! Sends and receives between ranks.
//!
//! A send ends when its message has arrived. A receive ends then too, or at once when it is posted
//! later. With rendezvous the receiver announces itself first, and the message leaves when the
//! announcement has arrived. Not here: which send meets which receive (`parts/messages.rs`).

use super::{ANNOUNCEMENT, Executor};
use crate::observe::{Message, Sender};
use crate::parts::agenda::Callback;
use crate::parts::messages::{ChannelKey, Named, Owner, Posted};
use crate::parts::token::Token;
use graph::OpKind;
use network::{Backend, Transfer};
use units::Span;

impl<B: Backend> Executor<'_, B> {
    /// The channel of a message to rank `receiver` from the one at `offset` from it.
    fn channel(&mut self, receiver: u32, offset: i32, bytes: u64, tag: u32, owner: Owner) -> u32 {
        let bytes = if self.settings.match_bytes { bytes } else { 0 };
        let from = match (owner.graph(), self.workload.ranks.get(receiver as usize)) {
            (None, Some(binding)) => {
                let number = binding.program as usize;
                self.ports.name(number, &self.workload.programs[number], offset)
            }
            _ => Named::Offset(offset),
        };
        let receiver = self.folding.local(receiver);
        self.messages.channel(ChannelKey { receiver, from, tag, bytes, scope: owner.scope })
    }

    pub(super) fn send(&mut self, owner: Owner, offset: i32, bytes: u64, tag: u32) {
        let dst = self.folding.representatives[owner.rank as usize].wrapping_add_signed(offset);
        let at = self.channel(dst, -offset, bytes, tag, owner);
        let ordinal = self.messages.post_send(at, Posted::new(owner, bytes, offset));
        if !self.settings.rendezvous || self.messages.is_announced(at, ordinal) {
            self.start_message(at, ordinal);
        }
    }

    /// `offset` is that of the rank that sends, from the one that receives.
    pub(super) fn receive(&mut self, owner: Owner, offset: i32, bytes: u64, tag: u32) {
        let own = self.folding.representatives[owner.rank as usize];
        let at = self.channel(own, offset, bytes, tag, owner);
        let ordinal = self.messages.post_receive(at, Posted::new(owner, bytes, offset));
        if self.messages.has_arrived(at, ordinal) {
            self.tell_message(at, ordinal);
            self.messages.over(at);
            return self.owner_done(owner);
        }
        if self.settings.rendezvous {
            // The message leaves when this announcement has arrived.
            return self.announce_receive(owner, offset, Token::Announce { channel: at, ordinal });
        }
        if self.messages.has_send(at, ordinal) {
            self.message_begins(owner);
        }
    }

    fn announce_receive(&mut self, owner: Owner, offset: i32, token: Token) {
        let src = self.folding.representatives[owner.rank as usize];
        let weight = self.folding.multiplicity[owner.rank as usize];
        let (dst, token) = (src.wrapping_add_signed(offset), token.pack());
        let transfer =
            Transfer { src, dst, bytes: ANNOUNCEMENT, paced: ANNOUNCEMENT, token, weight };
        let sender = Sender::Beside(owner.graph().is_none().then_some(owner.node));
        self.depart(sender, owner.rank, transfer, Span::ZERO);
    }

    pub(super) fn start_message(&mut self, at: u32, ordinal: u32) {
        self.messages.leave(at, ordinal, self.now);
        let Posted { owner, bytes, offset, .. } = self.messages.send(at, ordinal);
        let src = self.folding.representatives[owner.rank as usize];
        let dst = src.wrapping_add_signed(offset);
        if let Some(receiver) = self.messages.receiver(at, ordinal) {
            self.message_begins(receiver);
        }
        let weight = self.folding.multiplicity[owner.rank as usize];
        let token = Token::Message { channel: at, ordinal }.pack();
        let transfer = Transfer { src, dst, bytes, paced: bytes, token, weight };
        let sender = match owner.graph() {
            None => Sender::Node(owner.node),
            Some(_) => Sender::Beside(None),
        };
        let handling = self.handling(owner, src, dst, bytes);
        self.depart(sender, owner.rank, transfer, handling);
    }

    /// Time that a library adds to a message of the workload beyond the time of its bytes alone.
    fn handling(&mut self, owner: Owner, src: u32, dst: u32, bytes: u64) -> Span {
        if owner.graph().is_some() {
            return Span::ZERO;
        }
        let library = self.scripts.message(self.outermost(src, dst), bytes);
        library.map_or(Span::ZERO, |whole| {
            whole.saturating_sub(self.backend.physical_minimum(src, dst, bytes))
        })
    }

    /// The bytes of a message have arrived. What the library adds comes after them, so that nothing
    /// that departs meanwhile gets ahead.
    pub(super) fn message_delivered(&mut self, at: u32, ordinal: u32) {
        let Posted { owner, bytes, offset, .. } = self.messages.send(at, ordinal);
        let src = self.folding.representatives[owner.rank as usize];
        let dst = src.wrapping_add_signed(offset);
        match self.handling(owner, src, dst, bytes) {
            Span::ZERO => self.message_arrived(at, ordinal),
            wait => self.register(owner.rank, self.now + wait, Callback::Handled(at, ordinal)),
        }
    }

    /// A message has arrived: its send ends, then its receive if it is posted.
    pub(super) fn message_arrived(&mut self, at: u32, ordinal: u32) {
        self.messages.arrive(at, ordinal);
        let receiver = self.messages.receiver(at, ordinal);
        self.owner_done(self.messages.send(at, ordinal).owner);
        if let Some(owner) = receiver {
            self.message_ends(owner);
            self.tell_message(at, ordinal);
            self.messages.over(at);
            self.owner_done(owner);
        }
    }

    /// Lets observers hear of a message of the workload whose send and receive have met.
    fn tell_message(&mut self, at: u32, ordinal: u32) {
        let Posted { owner: sender, bytes, left, .. } = self.messages.send(at, ordinal);
        let receiver = self.messages.receiver(at, ordinal);
        if let Some(receiver) = receiver.filter(|owner| owner.graph().is_none()) {
            let (from, to) = ((sender.rank, sender.node), (receiver.rank, receiver.node));
            self.recorder.message(Message { from, to, bytes, sent: left, received: self.now });
        }
    }

    /// The message of a posted receive is on its way: the rank of the receive communicates.
    fn message_begins(&mut self, receiver: Owner) {
        if receiver.graph().is_none() {
            self.recorder.message_under_way(receiver.rank, receiver.node, self.now);
            self.turns(receiver.rank, None, Some(OpKind::Communication));
        }
    }

    fn message_ends(&mut self, receiver: Owner) {
        if receiver.graph().is_none() {
            self.recorder.message_over(receiver.rank, receiver.node, self.now);
            self.turns(receiver.rank, Some(OpKind::Communication), None);
        }
    }

    fn owner_done(&mut self, owner: Owner) {
        let callback = match owner.graph() {
            None => Callback::Node(owner.node),
            Some(graph) => Callback::Operation(graph, owner.node),
        };
        if self.settings.canonical {
            self.register(owner.rank, self.now, callback)
        } else {
            self.call(owner.rank, callback)
        }
    }

    /// The announcement of a receiver has arrived at the sender.
    pub(super) fn announced(&mut self, at: u32, ordinal: u32) {
        match self.messages.announce(at, ordinal) {
            // It waits for its turn: announcements of one instant arrive in an order that depends
            // on the numbers of ranks.
            Some(sender) if self.settings.canonical => {
                self.register(sender.rank, self.now, Callback::Announced(at, ordinal))
            }
            Some(_) => self.start_message(at, ordinal),
            None => {}
        }
    }
}
