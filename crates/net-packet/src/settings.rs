//! How packets are made, queued and controlled: what follows from the keys that users give.
//!
//! Not here: the keys, their defaults and bounds (`net_settings::packet`).

use declared::ByDim;
use net_settings::packet::{
    self as keys, Flight, Like, Marking, Packet, Pause, Protocol, Rdma, Rescue, Spraying,
    TcpControl, TcpRecovery, Ties,
};
use units::{Bytes, Ratio, Span};

/// Settings of the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Headers within it: IP and transport, bytes.
    pub header: u16,
    /// Bytes that a link carries around each packet: Ethernet's header, checksum, preamble and gap.
    pub framing: u16,
    /// The times that packets take on links are rounded to whole multiples of this (ns-3: 1 ns).
    /// Zero: they are exact.
    pub tick: Span,
    /// From the start of a message until its first packet may leave.
    pub injection: Span,
    /// Which of equally short ways a packet takes with [`topology::Routing::Spray`].
    pub spraying: Spraying,
    /// The ports of switches.
    pub switch: Switch,
    /// Seed of all draws: those of [`Ties`], and marks between two queues.
    pub seed: u32,
    /// Transport of messages.
    pub transport: Transport,
}

/// How ports of switches queue packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// Where packets wait.
    pub buffer: Buffer,
    /// When packets are marked. `None`: never.
    pub marking: Option<Marking>,
    /// Acknowledgements and reports of congestion leave before data.
    pub control_first: bool,
    /// Messages of at most this number of bytes leave before larger ones. `None`: all wait alike.
    pub small_first: Option<Bytes>,
    /// Priority flow control (IEEE 802.1Qbb). `None`: a full buffer drops.
    pub pause: Option<Pause>,
    /// Which packet is the first of those that meet.
    pub ties: Ties,
}

/// Where the packets of a switch wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buffer {
    /// There is always room.
    #[default]
    Unlimited,
    /// Each port has so much.
    Port(Bytes),
    /// All ports of a switch share `total`; each takes at most `alpha` times what is free
    /// (Choudhury and Hahne, IEEE/ACM ToN 6, 1998).
    Shared {
        /// Bytes of the whole switch.
        total: Bytes,
        /// Part of what is free that one port may take.
        alpha: Ratio,
    },
}

/// Transport of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp(Tcp),
    /// RDMA over converged Ethernet (RoCEv2).
    Rdma(Rdma),
}

/// Settings of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Algorithm that sets the congestion window.
    pub control: TcpControl,
    /// Initial window, segments (RFC 6928: 10).
    pub initial_window: u32,
    /// Most segments that an acknowledgement adds to the window in slow start (RFC 5681: 1; RFC
    /// 3465: 2; Linux, and CUBIC in ns-3: all that it acknowledges).
    pub slow_start_limit: u32,
    /// CUBIC leaves slow start early when the path seems full (Ha and Rhee, 2011; Linux, ns-3).
    pub hystart: bool,
    /// Most bytes of a connection under way: the buffers of the sockets.
    pub window: Bytes,
    /// Segments for each acknowledgement (RFC 1122: 2).
    pub ack_every: u32,
    /// First segments of a connection that are acknowledged at once, so that slow start gets going
    /// (ns-3: 1; Linux: up to 16 in its quick mode; RFC 1122 allows any number).
    pub prompt_acks: u32,
    /// Longest that an acknowledgement waits for another segment (RFC 1122: below 500 ms).
    pub ack_delay: Span,
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Least retransmission timeout (RFC 6298: 1 s; Linux: 200 ms).
    pub rto_min: Span,
    /// Most that back-off makes of the timeout (RFC 6298: at least 60 s).
    pub rto_max: Span,
    /// Rule for the threshold after a loss.
    pub flight: Flight,
    /// Segments that recovery sends at its end.
    pub rescue: Rescue,
    /// A segment that was sent again counts as in the network until it is acknowledged in order,
    /// even where it was acknowledged selectively before (ns-3; not RFC 6675, `SetPipe`).
    pub resent_in_pipe: bool,
    /// The acknowledgement that ends the recovery from a timeout does not grow the window (ns-3; not
    /// RFC 5681, section 3.1).
    pub stalls: bool,
    /// The rest of the socket's buffer is sent although its last segment is not full, as ns-3 does
    /// for an application that refills the buffer; and segments grow the window only when the bytes
    /// of a full one are acknowledged.
    pub partial: bool,
    /// How much of the window recovery may use.
    pub reduction: TcpRecovery,
    /// A connection that was idle for a timeout starts again with the initial window (RFC 5681,
    /// section 4.1).
    pub restart: bool,
}

/// ns-3 sends what an application has written one step of its clock later.
fn injection(packet: &Packet, protocol: &Protocol) -> Span {
    let is_ns3 = protocol.transport == keys::Transport::Tcp && protocol.tcp.like == Like::Ns3;
    let step = if is_ns3 { packet.tick.max(Span(1)) } else { Span::ZERO };
    protocol.injection_latency + step
}

/// A size within a packet, which has at most 65,535 bytes.
fn short(size: u64) -> u16 {
    u16::try_from(size).unwrap_or(u16::MAX)
}

impl From<Option<keys::Buffer>> for Buffer {
    fn from(buffer: Option<keys::Buffer>) -> Buffer {
        let Some(keys::Buffer { per_port, shared, alpha }) = buffer else {
            return Buffer::Unlimited;
        };
        match (per_port, shared) {
            (Some(size), _) => Buffer::Port(size),
            (None, Some(total)) => Buffer::Shared { total, alpha: alpha.unwrap_or(Ratio::ONE) },
            (None, None) => Buffer::Unlimited,
        }
    }
}

impl Switch {
    fn new(packet: &Packet, protocol: &Protocol) -> Switch {
        Switch {
            buffer: protocol.buffer.into(),
            marking: protocol.marking,
            control_first: packet.control_first,
            small_first: packet.small_messages_first,
            pause: protocol.pause,
            ties: protocol.ties,
        }
    }

    /// Whether the order in which packets come is drawn: it decides which are dropped or marked.
    pub(crate) fn draws(&self) -> bool {
        let decides = self.buffer != Buffer::Unlimited || self.marking.is_some();
        decides && self.ties == Ties::Drawn
    }
}

impl Settings {
    /// Settings of one dimension of `packet`, which has no faults.
    pub fn new(packet: &Packet, protocol: &Protocol) -> Settings {
        Settings {
            mtu: short(protocol.mtu),
            header: short(protocol.headers),
            framing: short(protocol.framing),
            injection: injection(packet, protocol),
            tick: packet.tick,
            switch: Switch::new(packet, protocol),
            seed: packet.seed,
            spraying: packet.spraying,
            transport: match protocol.transport {
                keys::Transport::Tcp => Transport::Tcp(Tcp::new(protocol.tcp)),
                keys::Transport::Rdma => Transport::Rdma(protocol.rdma.resolved()),
            },
        }
    }

    /// The defaults with a transport.
    pub fn with(transport: Transport) -> Settings {
        let kind = match transport {
            Transport::Tcp(_) => keys::Transport::Tcp,
            Transport::Rdma(_) => keys::Transport::Rdma,
        };
        let packet = Packet { transport: ByDim::All(kind), ..Packet::default() };
        Settings { transport, ..Settings::new(&packet, &packet.protocol(0)) }
    }

    /// The settings with those of the algorithm that sets the rate of RDMA.
    pub(crate) fn resolved(self) -> Settings {
        let transport = match self.transport {
            Transport::Rdma(rdma) => Transport::Rdma(rdma.resolved()),
            tcp @ Transport::Tcp(_) => tcp,
        };
        Settings { transport, ..self }
    }

    /// Bytes that a link carries for a packet without data.
    pub(crate) fn around(&self) -> u16 {
        self.header + self.framing
    }

    /// Most bytes of data in a packet.
    pub(crate) fn payload(&self) -> u64 {
        u64::from(self.mtu - self.header)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings::with(Transport::Tcp(Tcp::default()))
    }
}

impl Default for Tcp {
    fn default() -> Self {
        Tcp::new(keys::Tcp::default())
    }
}

impl Tcp {
    /// The TCP of `keys`. Those without effect may be left out.
    fn new(keys: keys::Tcp) -> Tcp {
        let keys = keys.resolved();
        let is_ns3 = keys.like == Like::Ns3;
        Tcp {
            control: keys.control(),
            initial_window: keys.initial_window,
            slow_start_limit: keys.slow_start_limit.unwrap_or(1),
            hystart: keys.hystart.unwrap_or(false),
            window: keys.window,
            ack_every: keys.ack_every,
            prompt_acks: keys.prompt_acks.unwrap_or(1),
            ack_delay: keys.ack_delay,
            sack: keys.sack,
            rto_min: keys.rto_min,
            rto_max: keys.rto_max.unwrap_or(keys.rto_min),
            flight: keys.threshold.unwrap_or_default(),
            rescue: keys.rescue.unwrap_or_default(),
            resent_in_pipe: keys.resent_in_pipe.unwrap_or(false),
            stalls: is_ns3,
            partial: is_ns3,
            reduction: keys.recovery,
            restart: keys.restart_after_idle,
        }
    }

    /// As ns-3.44 does it (`TcpSocketBase` with `TcpNewReno`, `TcpCubic` or `TcpDctcp`), where that
    /// is not as the RFCs have it, for messages that are written at once.
    pub fn ns3(control: TcpControl) -> Tcp {
        let keys = keys::Tcp {
            like: Like::Ns3,
            congestion_control: Some(control),
            ..keys::Tcp::default()
        };
        Tcp { partial: false, ..Tcp::new(keys) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_of_ports_or_shared() {
        let port = keys::Buffer { per_port: Some(Bytes(7)), ..keys::Buffer::default() };
        assert_eq!(Buffer::from(Some(port)), Buffer::Port(Bytes(7)));
        let shared = keys::Buffer { shared: Some(Bytes(7)), ..keys::Buffer::default() };
        let total = Bytes(7);
        assert_eq!(Buffer::from(Some(shared)), Buffer::Shared { total, alpha: Ratio::ONE });
    }
}
