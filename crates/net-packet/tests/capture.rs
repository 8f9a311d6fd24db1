//! A capture is a pcap file whose packets parse as what was sent.

use crate::common::{flat, transfers};
use etherparse::{IpNumber, TransportSlice};
use net_packet::{Buffer, Rdma, Settings, Switch, Tcp, Transport};
use pcap_file::pcap::PcapReader;
use std::io::Write;
use std::sync::{Arc, Mutex};
use units::Bytes;

/// Bytes that can be read after the network has gone.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn captured(transport: Transport) -> (Vec<u8>, network::PacketUsage) {
    let switch = Switch { buffer: Buffer::Port(Bytes(60_000)), ..Switch::default() };
    let settings = Settings { switch, ..Settings::with(transport) };
    let (out, mut network) = (Shared::default(), flat(4, settings));
    network.capture(Box::new(out.clone())).unwrap();
    transfers(&mut network, &[(0, 1, 300_000, 0), (2, 1, 300_000, 0), (1, 3, 10, 0)]);
    assert_eq!(network.capture_error(), None);
    let bytes = out.0.lock().unwrap().clone();
    (bytes, network.totals())
}

#[test]
fn a_capture_of_tcp_has_every_segment_and_acknowledgement() {
    let (bytes, totals) = captured(Transport::Tcp(Tcp::default()));
    assert!(totals.events.losses.retransmits > 0, "some packets are sent again");
    let mut reader = PcapReader::new(&bytes[..]).unwrap();
    let (mut data, mut acks, mut sacks, mut last) = (0u64, 0, 0, 0);
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        assert!(packet.timestamp.as_nanos() >= last, "in the order of time");
        last = packet.timestamp.as_nanos();
        let sliced = etherparse::LaxPacketHeaders::from_ethernet(&packet.data).unwrap();
        let ip = sliced.net.unwrap();
        let ip = ip.ipv4_ref().unwrap().0.clone();
        assert_eq!((ip.source[0], ip.protocol), (10, IpNumber::TCP));
        let Some(etherparse::TransportHeader::Tcp(tcp)) = sliced.transport else {
            panic!("no TCP: {packet:?}")
        };
        let payload = usize::from(ip.total_len) - 20 - tcp.header_len();
        assert_eq!(packet.orig_len as usize, 14 + usize::from(ip.total_len));
        if payload > 0 {
            data += 1;
        } else {
            acks += 1;
            sacks += u64::from(tcp.options.elements_iter().count() > 2);
        }
    }
    assert_eq!((data, acks), (totals.sent.data, totals.sent.acknowledgements));
    assert!(sacks > 0);
}

#[test]
fn a_capture_of_rdma_is_udp_to_its_port() {
    let (bytes, totals) = captured(Transport::Rdma(Rdma::default()));
    let mut reader = PcapReader::new(&bytes[..]).unwrap();
    let mut count = 0;
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        let sliced = etherparse::LaxSlicedPacket::from_ethernet(&packet.data).unwrap();
        let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("no UDP") };
        assert_eq!(udp.destination_port(), 4791);
        count += 1;
    }
    assert_eq!(count, totals.sent.data + totals.sent.acknowledgements);
}
