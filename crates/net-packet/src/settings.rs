//! How packets are made, queued and controlled.

use units::{Bandwidth, Bytes, Ratio, Span};

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

/// Which of equally short ways a packet takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spraying {
    /// A node sends one packet after the other to its next hops in turn.
    #[default]
    InTurns,
    /// The one before which the fewest bytes wait (adaptive routing).
    ShortestQueue,
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

/// In which order packets wait that reach a switch at one instant, and which one a full buffer drops
/// of those that came while the present packet leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// Each order and each packet with the same probability, so that equal senders lose equally
    /// (Floyd and Jacobson, "On traffic phase effects in packet-switched gateways", Internetworking:
    /// Research and Experience 3, 1992).
    #[default]
    Drawn,
    /// In the order of their events, and the last one (ns-3).
    InOrder,
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

/// When a port marks packets: with a probability that rises from 0 at `from` to `most` at `to`,
/// and always above (RED: Floyd and Jacobson, 1993, on the current queue). A step where both are
/// equal (RFC 8257).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// Queue from which some packets are marked.
    pub from: Bytes,
    /// Queue from which all are marked.
    pub to: Bytes,
    /// Probability just below `to`.
    pub most: Ratio,
}

/// When a switch stops those that send to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Bytes that came over one link and wait, above which it is paused.
    pub above: Bytes,
    /// Bytes at which it is resumed.
    pub below: Bytes,
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
    pub control: Control,
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
    pub reduction: Reduction,
    /// A connection that was idle for a timeout starts again with the initial window (RFC 5681,
    /// section 4.1).
    pub restart: bool,
}

/// Congestion control of TCP.
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

/// Bytes that are halved for the threshold when something is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flight {
    /// All that is not acknowledged in order (RFC 5681, equation 4).
    #[default]
    Outstanding,
    /// The part of them that is held to be in the network (RFC 6675, `SetPipe`): bytes that were
    /// acknowledged selectively or are lost do not count (ns-3).
    Pipe,
    /// The congestion window (Linux; ns-3's CUBIC).
    Window,
}

/// Segments that fast recovery with selective acknowledgements sends when all segments that are
/// known to be lost were sent again and nothing new is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rescue {
    /// Segments before the last one that arrived, and the last segment once (RFC 6675, `NextSeg`,
    /// rules 3 and 4).
    #[default]
    Once,
    /// Every segment that is not acknowledged; and each partial acknowledgement sends one segment
    /// more, whatever the window, as RFC 6582 does without selective acknowledgements (ns-3).
    Always,
}

/// How the window shrinks in fast recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// In proportion to what arrives (RFC 9937).
    #[default]
    Proportional,
    /// At once (RFC 6675, RFC 6582).
    Half,
}

/// Settings of RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rdma {
    /// Most bytes of a connection under way.
    pub window: Bytes,
    /// Packets for each acknowledgement.
    pub ack_every: u32,
    /// Packets that are sent again after a loss.
    pub recovery: Recovery,
    /// Packets that may come after a missing one before that one counts as lost; with
    /// [`Recovery::Selective`]. More than 0 where packets of a connection take different ways.
    pub reordering: u32,
    /// How long a sender waits for an acknowledgement before it sends again.
    pub timeout: Span,
    /// Congestion control. `None`: connections send as fast as their link.
    pub dcqcn: Option<Dcqcn>,
}

/// Packets that RDMA sends again after a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// Everything from the lost packet on (InfiniBand specification, volume 1, section 9.7.5.2).
    #[default]
    GoBackN,
    /// The lost packets (Mittal et al., SIGCOMM 2018).
    Selective,
}

/// Settings of DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM
/// 2015, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dcqcn {
    /// Least time between two reports of congestion of a connection.
    pub report_interval: Span,
    /// The gain g of the estimate of congestion.
    pub gain: Ratio,
    /// After so long without a report the estimate falls.
    pub alpha_interval: Span,
    /// Time and bytes after which the rate rises.
    pub rate_interval: Span,
    /// See `rate_interval`.
    pub rate_bytes: Bytes,
    /// Steps of fast recovery before the target rate rises.
    pub recovery_steps: u32,
    /// Rate that a step adds to the target rate.
    pub additive: Bandwidth,
    /// Rate that a step adds when both counters are past `recovery_steps`.
    pub hyper: Bandwidth,
    /// Least rate.
    pub least: Bandwidth,
}

impl Switch {
    /// Whether the order in which packets come is drawn: it decides which are dropped or marked.
    pub(crate) fn draws(&self) -> bool {
        let decides = self.buffer != Buffer::Unlimited || self.marking.is_some();
        decides && self.ties == Ties::Drawn
    }
}

impl Settings {
    /// With a transport: headers are IPv4's and its own.
    pub fn with(transport: Transport) -> Settings {
        let header = match transport {
            // IPv4 20, TCP 20.
            Transport::Tcp(_) => 40,
            // IPv4 20, UDP 8, base transport header 12, invariant CRC 4.
            Transport::Rdma(_) => 44,
        };
        Settings {
            mtu: 1500,
            header,
            framing: 38,
            tick: Span::ZERO,
            injection: Span::ZERO,
            spraying: Spraying::default(),
            switch: Switch::default(),
            seed: 0,
            transport,
        }
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

impl Marking {
    /// All packets from a queue of `bytes` on.
    pub fn step(bytes: Bytes) -> Marking {
        Marking { from: bytes, to: bytes, most: Ratio::ONE }
    }
}

impl Default for Tcp {
    fn default() -> Self {
        Tcp {
            control: Control::NewReno,
            initial_window: 10,
            slow_start_limit: 1,
            hystart: false,
            window: Bytes(4 << 20),
            ack_every: 2,
            prompt_acks: 1,
            ack_delay: Span(40_000_000_000),
            sack: true,
            rto_min: Span(200_000_000_000),
            rto_max: Span(60_000_000_000_000),
            flight: Flight::Outstanding,
            rescue: Rescue::Once,
            resent_in_pipe: false,
            stalls: false,
            partial: false,
            reduction: Reduction::Proportional,
            restart: true,
        }
    }
}

impl Tcp {
    /// As ns-3.44 does it (`TcpSocketBase` with `TcpNewReno`, `TcpCubic` or `TcpDctcp`), where that
    /// is not as the RFCs have it.
    pub fn ns3(control: Control) -> Tcp {
        let cubic = control == Control::Cubic;
        Tcp {
            control,
            flight: if cubic { Flight::Window } else { Flight::Pipe },
            slow_start_limit: if cubic { u32::MAX } else { 1 },
            hystart: cubic,
            rescue: Rescue::Always,
            resent_in_pipe: true,
            stalls: true,
            ..Tcp::default()
        }
    }
}

impl Default for Rdma {
    fn default() -> Self {
        Rdma {
            window: Bytes(1 << 20),
            ack_every: 4,
            recovery: Recovery::GoBackN,
            reordering: 0,
            timeout: Span(4_000_000_000),
            dcqcn: Some(Dcqcn::default()),
        }
    }
}

impl Default for Dcqcn {
    fn default() -> Self {
        Dcqcn {
            report_interval: Span(50_000_000),
            gain: Ratio(Ratio::ONE.0 / 256),
            alpha_interval: Span(55_000_000),
            rate_interval: Span(55_000_000),
            rate_bytes: Bytes(10_000_000),
            recovery_steps: 5,
            additive: Bandwidth(5_000_000),
            hyper: Bandwidth(50_000_000),
            least: Bandwidth(5_000_000),
        }
    }
}
