//! A capture of packets as their NPUs send them, in the pcap format with nanoseconds.
//!
//! A packet has its Ethernet, IPv4 and TCP or UDP and RoCEv2 headers; data is cut off. NPU `n` is the
//! host 10.x.y.z of the three low bytes of `n`. Checksums of TCP and UDP are zero, because they cover
//! the data. Sequence numbers count from 1, as after a handshake that is not captured.

use crate::packet::{ACK, CNP, CWR, ECE, NAK, Packet};
use crate::tcp::Sack;
use etherparse::{
    EtherType, Ethernet2Header, IpEcn, IpNumber, Ipv4Header, TcpHeader, TcpOptionElement, UdpHeader,
};
use std::io::Write;
use units::{PS_PER_NS, Time};

/// Destination port of RoCEv2 (IANA).
const ROCE: u16 = 4791;
/// Ports of connections: that of the receiver, and the first of the senders.
const PORTS: (u16, u16) = (5001, 10_000);
/// Operations of a reliable connection (InfiniBand specification, volume 1, section 9.2.1): send
/// only, acknowledge; and the report of congestion (annex A17).
const SEND: u8 = 0x04;
const ACKNOWLEDGE: u8 = 0x11;
const REPORT: u8 = 0x81;

/// Properties of a packet that leaves which a capture needs.
pub(crate) struct Leaving<'a> {
    pub time: Time,
    pub from: u32,
    pub to: u32,
    pub packet: &'a Packet,
    /// Bytes of data.
    pub data: u16,
    /// Bytes of a segment.
    pub segment: u64,
    pub sack: Option<Sack>,
    pub is_rdma: bool,
}

/// The header of a file: format 2.4 with nanoseconds, packets of Ethernet (draft-ietf-opsawg-pcap).
const FILE: [u32; 6] = [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, u16::MAX as u32, 1];

/// Writes packets.
pub(crate) struct Capture {
    out: Box<dyn Write + Send>,
    /// The first error; nothing is written after it.
    pub error: Option<String>,
}

impl Capture {
    /// Writes the header of the file.
    pub(crate) fn new(mut out: Box<dyn Write + Send>) -> Result<Capture, String> {
        words(out.as_mut(), FILE).map_err(|error| error.to_string())?;
        Ok(Capture { out, error: None })
    }

    /// Writes a packet.
    pub(crate) fn write(&mut self, leaving: &Leaving<'_>) {
        const NS_PER_S: u64 = 1_000_000_000;
        if self.error.is_some() {
            return;
        }
        let written = headers(leaving).and_then(|headers| {
            let ns = leaving.time.0 / PS_PER_NS;
            let kept = headers.len() as u32;
            let record = [
                (ns / NS_PER_S) as u32,
                (ns % NS_PER_S) as u32,
                kept,
                kept + u32::from(leaving.data),
            ];
            words(self.out.as_mut(), record)
                .and_then(|()| self.out.write_all(&headers))
                .map_err(|error| error.to_string())
        });
        self.error = written.err();
    }
}

/// Numbers of 32 bits, the low byte first.
fn words<const N: usize>(out: &mut (dyn Write + Send), words: [u32; N]) -> std::io::Result<()> {
    words.into_iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))
}

fn headers(leaving: &Leaving<'_>) -> Result<Vec<u8>, String> {
    let transport = if leaving.is_rdma { roce(leaving)? } else { tcp(leaving)? };
    let address = |npu: u32| {
        let [_, a, b, c] = npu.to_be_bytes();
        [10, a, b, c]
    };
    let hardware = |npu: u32| {
        let [a, b, c, d] = npu.to_be_bytes();
        [2, 0, a, b, c, d]
    };
    let protocol = if leaving.is_rdma { IpNumber::UDP } else { IpNumber::TCP };
    let length = transport.len() as u16 + leaving.data;
    let (source, destination) = (address(leaving.from), address(leaving.to));
    let ip = Ipv4Header::new(length, 64, protocol, source, destination);
    let mut ip = ip.map_err(|error| error.to_string())?;
    ip.ecn = IpEcn::TWO;
    ip.dont_fragment = true;
    ip.header_checksum = ip.calc_header_checksum();
    let ethernet = Ethernet2Header {
        source: hardware(leaving.from),
        destination: hardware(leaving.to),
        ether_type: EtherType::IPV4,
    };
    let mut all = ethernet.to_bytes().to_vec();
    all.extend(ip.to_bytes());
    all.extend(transport);
    Ok(all)
}

/// Sequence numbers wrap.
fn number(byte: u64) -> u32 {
    (byte + 1) as u32
}

fn tcp(leaving: &Leaving<'_>) -> Result<Vec<u8>, String> {
    let packet = leaving.packet;
    let sender = PORTS.1 + (packet.connection % 50_000) as u16;
    let is_ack = packet.is(ACK);
    let (from, to) = if is_ack { (PORTS.0, sender) } else { (sender, PORTS.0) };
    let mut header =
        TcpHeader::new(from, to, if is_ack { 1 } else { number(packet.seq) }, u16::MAX);
    header.ack = true;
    header.acknowledgment_number = if is_ack { number(packet.seq) } else { 1 };
    header.ece = packet.is(ECE);
    header.cwr = packet.is(CWR);
    if let Some(sack) = &leaving.sack {
        let mut blocks = sack.ranges().iter().map(|&(from, to)| (number(from), number(to)));
        if let Some(first) = blocks.next() {
            let others = [blocks.next(), blocks.next(), blocks.next()];
            let option = TcpOptionElement::SelectiveAcknowledgement(first, others);
            let all = [TcpOptionElement::Noop, TcpOptionElement::Noop, option];
            header.set_options(&all).map_err(|error| error.to_string())?;
        }
    }
    Ok(header.to_bytes().to_vec())
}

/// UDP, the base transport header, and of an acknowledgement its extended header.
fn roce(leaving: &Leaving<'_>) -> Result<Vec<u8>, String> {
    let packet = leaving.packet;
    let operation = match () {
        () if packet.is(CNP) => REPORT,
        () if packet.is(ACK) => ACKNOWLEDGE,
        () => SEND,
    };
    let number = (packet.seq / leaving.segment.max(1)) as u32 & 0x00ff_ffff;
    let mut base = vec![operation, 0, 0xff, 0xff];
    base.extend((packet.connection & 0x00ff_ffff).to_be_bytes());
    base.extend(number.to_be_bytes());
    if operation == ACKNOWLEDGE {
        // Syndrome: acknowledged without credits, or a sequence error.
        let syndrome: u32 = if packet.is(NAK) { 0x60 } else { 0x1f };
        base.extend((syndrome << 24 | number).to_be_bytes());
    }
    let source = 0xc000 | (packet.connection & 0x3fff) as u16;
    let length = base.len() + usize::from(leaving.data);
    let udp = UdpHeader::without_ipv4_checksum(source, ROCE, length);
    let mut all = udp.map_err(|error| error.to_string())?.to_bytes().to_vec();
    all.extend(base);
    Ok(all)
}
