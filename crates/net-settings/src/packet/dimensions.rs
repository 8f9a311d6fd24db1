//! Settings of packets that differ by dimension: `mtu: [9000, 1500]`.
//!
//! Links differ in `buffer`, `marking` and `pause`. Connections differ in the rest: they have what
//! their outermost dimension says, and the smallest `mtu` on their way. A list has an entry for each
//! dimension of a stack, or for each kind of link of a fabric, as `links` has.

use super::{Buffer, Like, Marking, Packet, Pause, Rdma, Tcp, TcpControl, Ties, Transport};
use declared::ByDim;
use units::{Ratio, Span};

/// The settings of one dimension, with defaults put in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The protocol that carries messages.
    pub transport: Transport,
    /// Largest IP packet, bytes.
    pub mtu: u64,
    /// Headers within it, bytes.
    pub headers: u64,
    /// Bytes that Ethernet adds to it on a link.
    pub framing: u64,
    /// Time from the start of a message until its first packet may leave.
    pub injection_latency: Span,
    /// Where the packets of a switch wait; `None`: without limit.
    pub buffer: Option<Buffer>,
    /// When a port marks packets.
    pub marking: Option<Marking>,
    /// When a switch stops those that send to it.
    pub pause: Option<Pause>,
    /// Which packet is the first of those that meet.
    pub ties: Ties,
    /// See [`Packet::skip`].
    pub skip: Option<Ratio>,
    /// Settings of TCP.
    pub tcp: Tcp,
    /// Settings of RDMA.
    pub rdma: Rdma,
}

impl Packet {
    /// The settings of a dimension or kind of link, innermost first.
    pub fn protocol(&self, place: usize) -> Protocol {
        let transport = *self.transport.at(place);
        let tcp = self.tcp.at(place).unwrap_or_default().resolved();
        let headers =
            self.headers.at(place).map_or(transport.headers(tcp.like), |headers| headers.0);
        Protocol {
            transport,
            mtu: self.mtu.at(place).0,
            headers,
            framing: self.framing.at(place).0,
            injection_latency: *self.injection_latency.at(place),
            buffer: *self.buffer.at(place),
            marking: *self.marking.at(place),
            pause: *self.pause.at(place),
            ties: self.ties_used(),
            skip: self.skip,
            tcp,
            rdma: self.rdma.at(place).unwrap_or_default(),
        }
    }

    /// The settings of each dimension that lists tell apart; of all where there is no list.
    pub fn protocols(&self) -> Vec<Protocol> {
        let places = self.lists().iter().map(|list| list.1).max().unwrap_or(1);
        (0..places).map(|place| self.protocol(place)).collect()
    }

    /// The keys with a list, and how many entries it has.
    pub fn lists(&self) -> Vec<(&'static str, usize)> {
        let keys = [
            (Packet::transport, self.transport.entries()),
            (Packet::mtu, self.mtu.entries()),
            (Packet::headers, self.headers.entries()),
            (Packet::framing, self.framing.entries()),
            (Packet::injection_latency, self.injection_latency.entries()),
            (Packet::buffer, self.buffer.entries()),
            (Packet::marking, self.marking.entries()),
            (Packet::pause, self.pause.entries()),
            (Packet::tcp, self.tcp.entries()),
            (Packet::rdma, self.rdma.entries()),
        ];
        keys.into_iter().filter_map(|(key, entries)| Some((key, entries?))).collect()
    }

    /// The settings with what each word for TCP stands for.
    #[must_use]
    pub fn resolved(self) -> Packet {
        let resolve = |tcp: Option<Tcp>| tcp.map(Tcp::resolved);
        let tcp = match self.tcp {
            ByDim::All(tcp) => ByDim::All(resolve(tcp)),
            ByDim::Each(each) => ByDim::Each(each.into_iter().map(resolve).collect()),
        };
        Packet { tcp, ..self }
    }

    /// The order of packets that meet: `ties`, or that of the network whose TCP is used.
    fn ties_used(&self) -> Ties {
        let is_ns3 = |tcp: &Option<Tcp>| tcp.as_ref().is_some_and(|tcp| tcp.like == Like::Ns3);
        let ns3 = self.tcp.values().iter().any(is_ns3);
        self.ties.unwrap_or(if ns3 { Ties::InOrder } else { Ties::Drawn })
    }

    /// Warnings about settings of TCP that hardly make sense together.
    pub fn doubt(&self) -> Vec<String> {
        let mut doubts: Vec<String> = Vec::new();
        for doubt in self.protocols().iter().flat_map(Protocol::doubt) {
            if !doubts.contains(&doubt) {
                doubts.push(doubt);
            }
        }
        doubts
    }
}

impl Transport {
    /// Bytes of its headers: those of IPv4 and its own. Linux's TCP sends timestamps
    /// (`TCPOLEN_TSTAMP_ALIGNED`).
    fn headers(self, like: Like) -> u64 {
        match self {
            Transport::Tcp if like == Like::Linux => 52,
            Transport::Tcp => 40,
            Transport::Rdma => 44,
        }
    }
}

impl Protocol {
    fn doubt(&self) -> Vec<String> {
        let doubts = [self.early(), self.unmarked()];
        doubts.into_iter().flatten().filter(|_| self.transport == Transport::Tcp).collect()
    }

    /// The sender's timer may end while the receiver still waits for another segment to acknowledge.
    fn early(&self) -> Option<String> {
        let (least, delay) = (self.tcp.rto_min, self.tcp.ack_delay);
        (self.tcp.ack_every > 1 && least < delay).then(|| {
            format!(
                "network.packet.tcp.rto_min ({least}) is below ack_delay ({delay}): while an \
                 acknowledgement is delayed, its segment may be sent again although nothing was lost"
            )
        })
    }

    /// DCTCP that never hears of congestion.
    fn unmarked(&self) -> Option<String> {
        let is_idle = self.tcp.control() == TcpControl::Dctcp && self.marking.is_none();
        let text = "network.packet.tcp.congestion_control: dctcp behaves as new_reno without \
                    network.packet.marking: no packet is marked";
        is_idle.then(|| text.to_string())
    }

    /// Bytes of data in the largest packet.
    pub(super) fn segment(&self) -> u64 {
        self.mtu - self.headers
    }

    /// Bytes that a link carries for the largest packet.
    pub(super) fn wire(&self) -> u64 {
        self.mtu + self.framing
    }

    /// Whether it matters which packet comes first to a switch.
    pub(super) fn meets(&self) -> bool {
        self.buffer.is_some() || self.marking.is_some()
    }

    /// Whether something is drawn.
    pub(super) fn draws(&self) -> bool {
        let chance = self.marking.as_ref().is_some_and(|marking| marking.from < marking.to);
        chance || self.meets() && self.ties == Ties::Drawn
    }
}
