//! `network.packet`: the packet backend.
//!
//! Here: the keys of packets and of switches. Not here: those of transports (`transport.rs`), values
//! that differ by dimension (`dimensions.rs`), and which values fit together (`check.rs`,
//! `faults.rs`).

mod check;
mod dimensions;
mod faults;
mod like;
mod octets;
mod resolved;
mod transport;

pub use check::check;
pub use dimensions::Protocol;
pub use faults::Fault;
pub use like::Like;
pub use octets::Octets;
pub use transport::{
    Dcqcn, Flight, Rdma, RdmaControl, RdmaRecovery, Rescue, Tcp, TcpControl, TcpRecovery, Transport,
};

use declared::{ByDim, counts, section, words};
use units::{Bytes, Ratio, Span};

/// In which order packets wait that reach a switch at one instant, and which one a full buffer drops
/// of those that came while the present packet leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ties {
    /// Each order and each packet with the same probability, so that equal senders lose equally
    /// (Floyd and Jacobson, "On traffic phase effects in packet-switched gateways", Internetworking:
    /// Research and Experience 3, 1992).
    #[default]
    Drawn,
    /// In the order of their events, and the last one (ns-3).
    InOrder,
}

words!(Ties: "drawn" = Ties::Drawn, "in_order" = Ties::InOrder);

/// Which of equally short ways a packet takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Spraying {
    /// A node sends one packet after the other to its next hops in turn.
    #[default]
    InTurns,
    /// The one before which the fewest bytes wait (adaptive routing).
    ShortestQueue,
}

words!(
    Spraying:
    "in_turns" = Spraying::InTurns,
    "shortest_queue" = Spraying::ShortestQueue,
);

counts! {
    /// A count that may be none.
    from_zero: 0 to u32::MAX;
}

section! {
    /// Settings of the packet backend.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Packet {
        /// Transport protocol of messages.
        pub transport: ByDim<Transport>, default ByDim::All(Transport::Tcp);
        /// Largest IP packet (RFC 894 for Ethernet).
        pub mtu: ByDim<Octets>, default ByDim::All(Octets(1500));
        /// Headers within it: IPv4 (20 B) with TCP (20 B), or with UDP (8 B), InfiniBand's base
        /// transport header (12 B) and its check sum (4 B). Linux adds timestamps (12 B) to TCP's.
        pub headers: ByDim<Option<Octets>>, default ByDim::All(None),
            says "40 B with `tcp`, 44 B with `rdma`, 52 B with `tcp: linux`";
        /// Bytes that Ethernet adds to each packet on a link: header (14 B), check sum (4 B),
        /// preamble (8 B) and gap (12 B) (IEEE 802.3).
        pub framing: ByDim<Octets>, default ByDim::All(Octets(38));
        /// Time from the start of a message until its first packet may leave.
        pub injection_latency: ByDim<Span>, default ByDim::All(Span::ZERO);
        /// Times that packets take on links are rounded to whole multiples of this, as ns-3 does with
        /// 1 ns.
        pub tick: Span, default Span::ZERO, says "exact";
        /// Which of equally short ways a packet takes with `network.routing: spray`: a node sends
        /// to its next hops in turn, or to the one with the fewest bytes waiting (adaptive
        /// routing).
        pub spraying: Spraying, default Spraying::InTurns;
        /// Where the packets of a switch wait: bytes of each port, or a mapping.
        pub buffer: ByDim<Option<Buffer>>, default ByDim::All(None), says "unlimited";
        /// In which order packets wait that reach a switch at one moment, and which one a full
        /// buffer drops of those that came while the present packet leaves: both drawn, so that
        /// equal senders lose equally, or in the order of events, and the last one (ns-3). With a
        /// `buffer` or `marking`.
        pub ties: Option<Ties>, default None, says "drawn; with `tcp: ns3` in_order";
        /// Seed of random draws: those of `ties`, and marks between `from` and `to`.
        pub seed: u32 as from_zero, default 0;
        /// When a port marks packets (explicit congestion notification, RFC 3168): the queue from
        /// which it does, or a mapping.
        pub marking: ByDim<Option<Marking>>, default ByDim::All(None), says "never";
        /// Whether acknowledgements and reports of congestion leave a port before data.
        pub control_first: bool, default false;
        /// Messages of at most this number of bytes leave a port before larger ones.
        pub small_messages_first: Option<Bytes>, default None, says "all wait alike";
        /// Priority flow control (IEEE 802.1Qbb): when a switch stops those that send to it.
        pub pause: ByDim<Option<Pause>>, default ByDim::All(None),
            says "never: full buffers drop";
        /// Steady states are skipped: while the rates of all connections stay within this of one
        /// another, bytes flow on at these rates.
        pub skip: Option<Ratio>, default None, says "every packet is simulated";
        /// Settings of TCP: whose TCP it is, or a mapping.
        pub tcp: ByDim<Option<Tcp>>, default ByDim::All(None), says "defaults of TCP",
            with [Transport::Tcp];
        /// Settings of RDMA over converged Ethernet (RoCEv2).
        pub rdma: ByDim<Option<Rdma>>, default ByDim::All(None), says "defaults of RDMA",
            with [Transport::Rdma];
    }
}

section! {
    /// Where the packets of a switch wait.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Buffer short per_port {
        /// Buffer of each port.
        pub per_port: Option<Bytes>, default None, says "what `shared` leaves free";
        /// Buffer that all ports of a switch share.
        pub shared: Option<Bytes>, default None, says "not shared";
        /// With `shared`: a port takes at most this multiple of the free bytes (dynamic thresholds:
        /// Choudhury and Hahne, IEEE/ACM Transactions on Networking 6, 1998).
        pub alpha: Option<Ratio>, default None, says "1";
    }
}

section! {
    /// When a port marks packets.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Marking short from {
        /// Queue from which some packets are marked.
        pub from: Bytes, required;
        /// Queue from which all are. Where it is `from`, marking is a step (RFC 8257).
        pub to: Bytes, like from;
        /// Probability just below `to`; it rises from 0 at `from` (RED: Floyd and Jacobson,
        /// IEEE/ACM Transactions on Networking 1, 1993, on the current queue).
        pub probability: Ratio, default Ratio::ONE;
    }
}

section! {
    /// When a switch stops those that send to it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Pause short above {
        /// A link is paused when more bytes than this came over it and wait.
        pub above: Bytes, required;
        /// The sender is resumed when this number of bytes is left.
        pub below: Bytes, like above;
    }
}

impl Marking {
    /// All packets from a queue of `bytes` on.
    pub fn step(bytes: Bytes) -> Marking {
        Marking { from: bytes, to: bytes, probability: Ratio::ONE }
    }
}

impl Default for Packet {
    fn default() -> Packet {
        declared::absent()
    }
}
