//! A connection between two NPUs and the messages on it.

use crate::round_trips::RoundTrips;
use crate::settings::{Settings, Transport};
use crate::{rdma, tcp};
use network::LossUsage;
use std::collections::VecDeque;
use units::{Bandwidth, Span, Time};

/// A message that has not arrived whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// Where it ends in the stream.
    pub end: u64,
    pub token: u64,
    /// The class of its packets.
    pub class: u8,
}

/// Both sides of a transport.
#[derive(Clone, Debug)]
pub(crate) enum Sides {
    Tcp(Box<(tcp::Sender, tcp::Receiver)>),
    Rdma(Box<(rdma::Sender, rdma::Receiver)>),
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub src: u32,
    pub dst: u32,
    /// Whose settings it has: a kind of link.
    pub kind: u16,
    /// Bytes that a link carries for a packet without data, and most bytes of data in a packet.
    pub around: u16,
    pub segment: u16,
    /// Ways of the connection there and back in the table of routes.
    pub there: u32,
    pub back: u32,
    pub sides: Sides,
    /// Those that have not arrived, in order.
    pub messages: VecDeque<Message>,
    /// The token of the latest message.
    pub latest: u64,
    /// Which events of its timers count.
    pub timeout_at: Option<Time>,
    pub ack_at: Option<Time>,
    pub send_at: Option<Time>,
    /// The round trip of the empty network.
    pub round_trip: Span,
    pub round_trips: RoundTrips,
    /// Data that has arrived, and when its first message was written and its last one arrived.
    pub carried: u64,
    pub first: Time,
    pub last: Time,
}

impl Connection {
    /// `kind` and its `settings`, and bytes of data in a packet; `round_trip` of an empty network;
    /// `line`: the bandwidth of the NPU's link.
    pub(crate) fn new(
        (src, dst): (u32, u32),
        (there, back): (u32, u32),
        (round_trip, line): (Span, Bandwidth),
        (kind, segment, settings): (u16, u16, &Settings),
        now: Time,
    ) -> Connection {
        let bytes = u64::from(segment);
        let sides = match &settings.transport {
            Transport::Tcp(tcp) => {
                let sender = tcp::Sender::new(tcp, bytes, round_trip);
                Sides::Tcp(Box::new((sender, tcp::Receiver::default())))
            }
            Transport::Rdma(rdma) => {
                let sender = rdma::Sender::new(rdma, bytes, line);
                Sides::Rdma(Box::new((sender, rdma::Receiver::default())))
            }
        };
        Connection {
            src,
            dst,
            kind,
            around: settings.around(),
            segment,
            there,
            back,
            sides,
            messages: VecDeque::new(),
            latest: 0,
            timeout_at: None,
            ack_at: None,
            send_at: None,
            round_trip,
            round_trips: RoundTrips::default(),
            carried: 0,
            first: now,
            last: now,
        }
    }

    /// Losses of the sender.
    pub(crate) fn losses(&self) -> LossUsage {
        match &self.sides {
            Sides::Tcp(sides) => sides.0.losses,
            Sides::Rdma(sides) => sides.0.losses,
        }
    }

    /// Bytes that have arrived in order.
    pub(crate) fn received(&self) -> u64 {
        match &self.sides {
            Sides::Tcp(sides) => sides.1.next,
            Sides::Rdma(sides) => sides.1.next,
        }
    }

    /// The first byte that was never sent.
    pub(crate) fn sent(&self) -> u64 {
        match &self.sides {
            Sides::Tcp(sides) => sides.0.next,
            Sides::Rdma(sides) => sides.0.highest,
        }
    }

    /// When the retransmission timer expires.
    pub(crate) fn deadline(&self) -> Option<Time> {
        match &self.sides {
            Sides::Tcp(sides) => sides.0.deadline,
            Sides::Rdma(sides) => sides.0.deadline,
        }
    }
}
