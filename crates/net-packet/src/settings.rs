//! How packets are made, queued and controlled.

use units::{Bytes, Span};

/// Settings of the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Headers within it: IP and transport, bytes.
    pub header: u16,
    /// What a link carries around each packet: Ethernet's header, checksum, preamble and gap, bytes.
    pub framing: u16,
    /// Buffer of each port of a switch. `None`: nothing is dropped.
    pub buffer: Option<Bytes>,
    /// Queue, in bytes, from which a port marks packets (a step). `None`: it marks none.
    pub mark_above: Option<Bytes>,
    /// TCP.
    pub tcp: Tcp,
}

/// Settings of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// What sets the congestion window.
    pub control: Control,
    /// Initial window, segments (RFC 6928: 10).
    pub initial_window: u32,
    /// Most bytes of a connection under way: the buffers of the sockets.
    pub window: Bytes,
    /// Segments for each acknowledgement (RFC 1122: 2).
    pub ack_every: u32,
    /// Longest that an acknowledgement waits for another segment (RFC 1122: below 500 ms).
    pub ack_delay: Span,
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Least retransmission timeout (RFC 6298: 1 s; Linux: 200 ms).
    pub rto_min: Span,
    /// Most that back-off makes of the timeout (RFC 6298: at least 60 s).
    pub rto_max: Span,
    /// How much of the window recovery may use.
    pub reduction: Reduction,
    /// A connection that was idle for a timeout starts again with the initial window (RFC 5681,
    /// section 4.1).
    pub restart: bool,
}

/// Congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// RFC 5681 with RFC 6582.
    #[default]
    NewReno,
    /// RFC 9438.
    Cubic,
    /// RFC 8257.
    Dctcp,
}

/// How the window shrinks in fast recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// In proportion to what arrives (RFC 6937).
    #[default]
    Proportional,
    /// At once (RFC 6675, RFC 6582).
    Half,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            mtu: 1500,
            header: 40,
            framing: 38,
            buffer: None,
            mark_above: None,
            tcp: Tcp::default(),
        }
    }
}

impl Default for Tcp {
    fn default() -> Self {
        Tcp {
            control: Control::NewReno,
            initial_window: 10,
            window: Bytes(4 << 20),
            ack_every: 2,
            ack_delay: Span(40_000_000_000),
            sack: true,
            rto_min: Span(200_000_000_000),
            rto_max: Span(60_000_000_000_000),
            reduction: Reduction::Proportional,
            restart: true,
        }
    }
}
