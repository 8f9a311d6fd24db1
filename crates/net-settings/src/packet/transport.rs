//! The keys of what carries messages: TCP and RDMA.

use super::from_zero;
use super::like::{Like, per_ack};
use declared::{section, words};
use units::{Bandwidth, Bytes, Ratio, Span};

/// Transport protocol of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// RDMA over converged Ethernet.
    Rdma,
}

words!(Transport: "tcp" = Transport::Tcp, "rdma" = Transport::Rdma);

/// Algorithm that sets the congestion window of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TcpControl {
    /// RFC 5681 with RFC 6582.
    #[default]
    NewReno,
    /// RFC 9438.
    Cubic,
    /// RFC 8257.
    Dctcp,
}

words!(
    TcpControl:
    "new_reno" = TcpControl::NewReno,
    "cubic" = TcpControl::Cubic,
    "dctcp" = TcpControl::Dctcp,
);

/// How the window shrinks in fast recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TcpRecovery {
    /// In proportion to what arrives (RFC 9937).
    #[default]
    Proportional,
    /// At once (RFC 6675, RFC 6582).
    Half,
}

words!(
    TcpRecovery:
    "proportional" = TcpRecovery::Proportional,
    "half" = TcpRecovery::Half,
);

/// Bytes that are halved for the threshold of slow start when something is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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

words!(
    Flight:
    "outstanding" = Flight::Outstanding,
    "pipe" = Flight::Pipe,
    "window" = Flight::Window,
);

/// Segments that fast recovery with selective acknowledgements sends when all segments that are
/// known to be lost were sent again and nothing new is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rescue {
    /// Segments before the last one that arrived, and the last segment once (RFC 6675, `NextSeg`,
    /// rules 3 and 4).
    #[default]
    Once,
    /// Every segment that is not acknowledged; and each partial acknowledgement sends one segment
    /// more, whatever the window, as RFC 6582 does without selective acknowledgements (ns-3).
    Always,
}

words!(Rescue: "once" = Rescue::Once, "always" = Rescue::Always);

/// Algorithm that sets the rate of RDMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RdmaControl {
    /// DCQCN.
    #[default]
    Dcqcn,
    /// The link.
    None,
}

words!(RdmaControl: "dcqcn" = RdmaControl::Dcqcn, "none" = RdmaControl::None);

/// Packets that RDMA sends again after a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RdmaRecovery {
    /// Everything from the lost packet on (InfiniBand specification, volume 1, section 9.7.5.2).
    #[default]
    GoBackN,
    /// The lost packets (Mittal et al., SIGCOMM 2018).
    Selective,
}

words!(
    RdmaRecovery:
    "go_back_n" = RdmaRecovery::GoBackN,
    "selective" = RdmaRecovery::Selective,
);

section! {
    /// Settings of TCP.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Tcp short like {
        /// Whose TCP it is: that of the RFCs, of Linux or of ns-3
        /// ([what each stands for](../models/networks-packet.md#whose-tcp)). The keys below win.
        pub like: Like, default Like::Rfc;
        /// Algorithm that sets the congestion window: RFC 5681 with RFC 6582, RFC 9438, or RFC
        /// 8257.
        pub congestion_control: Option<TcpControl>, default None,
            says "new_reno; with `like: linux` cubic";
        /// Segments of a new connection's window (RFC 6928).
        pub initial_window: u32, default 10;
        /// Most segments that an acknowledgement adds to the window in slow start (RFC 5681: 1; RFC
        /// 3465: 2), or all that it acknowledges (Linux).
        pub slow_start_limit: Option<u32> as per_ack, default None,
            says "1; with `like: linux`, or `like: ns3` and `cubic`, all";
        /// Whether CUBIC leaves slow start early when the path seems full (Ha and Rhee, Computer
        /// Networks 55, 2011), and then grows by 5 % a round trip at least until something is lost
        /// or marked, as Linux and ns-3 do.
        pub hystart: Option<bool>, default None, says "false; with `like: linux`, `like: ns3` true",
            with [TcpControl::Cubic];
        /// Most bytes of a connection under way: the buffers of its sockets. The default is the
        /// largest that Linux gives a sender by itself (`tcp_wmem`).
        pub window: Bytes, default Bytes(4 << 20);
        /// Segments for each acknowledgement (RFC 1122, section 4.2.3.2; RFC 5681, section 4.2).
        pub ack_every: u32, default 2;
        /// First segments of a connection that are acknowledged at once, so that slow start gets
        /// going (ns-3: 1; Linux: up to 16).
        pub prompt_acks: Option<u32> as from_zero, default None,
            says "1; with `like: linux` 16";
        /// Longest that an acknowledgement waits for another segment. The default is Linux's; RFC
        /// 1122 allows less than 500 ms.
        pub ack_delay: Span, default Span(40_000_000_000);
        /// Whether receivers name what came out of order (RFC 2018).
        pub sack: bool, default true;
        /// Least timeout after which a segment is sent again. The default is Linux's; RFC 6298
        /// asks for 1 s.
        pub rto_min: Span, default Span(200_000_000_000);
        /// Most that the timeout grows to (RFC 6298: 60 s or more).
        pub rto_max: Option<Span>, default None, says "60 s; with `like: linux` 120 s";
        /// How the window shrinks in fast recovery and after a mark: in proportion to what arrives
        /// (RFC 9937), or at once (RFC 6675, RFC 3168).
        pub recovery: TcpRecovery, default TcpRecovery::Proportional;
        /// After a loss the threshold of slow start is half of this: all that is not acknowledged in
        /// order (RFC 5681), of that what is held to be in the network (RFC 6675), or the window
        /// (Linux).
        pub threshold: Option<Flight>, default None,
            says "outstanding; with `like: linux` window; with `like: ns3` pipe, or window with `cubic`";
        /// Segments that fast recovery sends when nothing is left that is known to be lost: those
        /// that could be lost, once (RFC 6675), or all that are not acknowledged (ns-3).
        pub rescue: Option<Rescue>, default None, says "once; with `like: ns3` always";
        /// Whether a segment that was sent again counts as in the network until it is acknowledged
        /// in order, even where it was acknowledged selectively before (ns-3; not RFC 6675).
        pub resent_in_pipe: Option<bool>, default None, says "false; with `like: ns3` true";
        /// Whether a connection that was idle for a timeout starts again with the initial window
        /// (RFC 5681, section 4.1).
        pub restart_after_idle: bool, default true;
    }
}

section! {
    /// Settings of RDMA.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Rdma {
        /// Most bytes of a connection under way.
        pub window: Bytes, default Bytes(1 << 20);
        /// Packets for each acknowledgement.
        pub ack_every: u32, default 4;
        /// Packets that are sent again after a loss: everything from the lost packet on (InfiniBand
        /// specification, volume 1, section 9.7.5.2), or only the lost ones (Mittal et al., SIGCOMM
        /// 2018).
        pub recovery: RdmaRecovery, default RdmaRecovery::GoBackN;
        /// With `selective`: packets that may come after a missing one before that one counts as
        /// lost. Above 0 where packets of a connection take different ways.
        pub reordering: u32 as from_zero, default 0;
        /// How long a sender waits for an acknowledgement before it sends again.
        pub timeout: Span, default Span(4_000_000_000);
        /// Algorithm that sets the rate of a connection: DCQCN, or nothing but its link.
        pub congestion_control: RdmaControl, default RdmaControl::Dcqcn;
        /// Settings of DCQCN.
        pub dcqcn: Option<Dcqcn>, default None, says "defaults of DCQCN",
            with [RdmaControl::Dcqcn];
    }
}

section! {
    /// Settings of DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments",
    /// SIGCOMM 2015; defaults of its section 5).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Dcqcn {
        /// Least time between two reports of congestion of a connection.
        pub report_interval: Span, default Span(50_000_000);
        /// The gain g of the estimate of congestion.
        pub gain: Ratio, default Ratio(Ratio::ONE.0 / 256);
        /// The estimate falls after so long without a report.
        pub alpha_interval: Span, default Span(55_000_000);
        /// The rate rises after so long.
        pub rate_interval: Span, default Span(55_000_000);
        /// Bytes after which the rate rises as well.
        pub rate_bytes: Bytes, default Bytes(10_000_000);
        /// Steps of fast recovery before the target rate rises.
        pub recovery_steps: u32, default 5;
        /// Rate that a step adds to the target rate.
        pub additive_increase: Bandwidth, default Bandwidth(5_000_000);
        /// Rate that a step adds when time and bytes both say so.
        pub hyper_increase: Bandwidth, default Bandwidth(50_000_000);
        /// Least rate.
        pub rate_min: Bandwidth, default Bandwidth(5_000_000);
    }
}

impl Rdma {
    /// The settings with those of the algorithm that sets the rate, if there is one.
    #[must_use]
    pub fn resolved(self) -> Rdma {
        let dcqcn = match self.congestion_control {
            RdmaControl::Dcqcn => Some(self.dcqcn.unwrap_or_default()),
            RdmaControl::None => None,
        };
        Rdma { dcqcn, ..self }
    }
}

impl Default for Tcp {
    fn default() -> Tcp {
        declared::absent()
    }
}

impl Default for Rdma {
    fn default() -> Rdma {
        declared::absent()
    }
}

impl Default for Dcqcn {
    fn default() -> Dcqcn {
        declared::absent()
    }
}
