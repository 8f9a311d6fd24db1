//! A connection between two NPUs and the messages on it.

use crate::settings::{Settings, Tcp};
use crate::tcp::{Receiver, Sender};
use std::collections::VecDeque;
use units::{Span, Time};

/// A message that has not arrived whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// Where it ends in the stream.
    pub end: u64,
    pub token: u64,
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Its ways there and back in the table of routes.
    pub there: u32,
    pub back: u32,
    pub sender: Sender,
    pub receiver: Receiver,
    pub messages: VecDeque<Message>,
    /// Which events of its timers count.
    pub timeout_at: Option<Time>,
    pub ack_at: Option<Time>,
}

impl Connection {
    pub(crate) fn new(
        (there, back): (u32, u32),
        round_trip: Span,
        settings: &Settings,
        tcp: &Tcp,
    ) -> Connection {
        Connection {
            there,
            back,
            sender: Sender::new(tcp, settings.payload(), round_trip),
            receiver: Receiver::default(),
            messages: VecDeque::new(),
            timeout_at: None,
            ack_at: None,
        }
    }
}
