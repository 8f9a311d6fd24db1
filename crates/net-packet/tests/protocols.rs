//! Settings that differ by dimension, against times found by hand. Links carry 100 Gb/s, 80 ps for a
//! byte, and have a latency of 0.5 us.

use crate::common::{stack, transfers};
use net_packet::{
    Buffer, Marking, Packets, Pause, Protocols, Rdma, RdmaControl, Settings, Switch, Tcp, Transport,
};
use network::{Backend, PortUsage};
use topology::{Dim, Routing, Topology};
use units::{Bandwidth, Bytes, Span, Time};

/// The time of so many bytes on a link, and of its latency.
fn link(wire: u64) -> u64 {
    80 * wire + 500_000
}

fn dims(shape: &str) -> Vec<Dim> {
    let shape: Topology = shape.parse().expect("a shape");
    let dim = |&(block, size): &(topology::Block, u32)| Dim {
        block,
        size,
        bandwidth: Bandwidth(12_500_000_000),
        latency: Span(500_000),
        parallel: 1,
    };
    shape.dims.iter().map(dim).collect()
}

/// A stack of two dimensions with settings of their own.
fn network(shape: &str, each: [Settings; 2]) -> Packets {
    let dims = dims(shape);
    let fabric = topology::Fabric::Stacked(dims.clone());
    let links = topology::LinkGraph::new(&fabric).expect("a network");
    let kinds = (0..links.len()).map(|link| links.dim(link) as u16).collect();
    stack(&dims, Routing::Auto, Protocols::by_kind(each.to_vec(), kinds))
}

/// Large packets with large headers within nodes, Ethernet's between them.
fn sizes() -> [Settings; 2] {
    let inner = Settings { mtu: 9000, header: 60, framing: 24, ..Settings::default() };
    [inner, Settings::default()]
}

#[test]
fn packets_have_the_sizes_of_their_dimension() {
    let end = |dst: u32, bytes: u64| {
        transfers(&mut network("FC(2)_FC(2)", sizes()), &[(0, dst, bytes, 0)])[0].0
    };
    assert_eq!(end(1, 8940), link(9024), "one packet of the inner dimension");
    assert_eq!(end(2, 1460), link(1538), "one of the outer");
    assert_eq!(end(1, 8941), link(9024 + 85), "two");
    assert_eq!(end(2, 8940), link(8940 + 7 * 78), "seven");
}

/// A message over both has the headers of the outer dimension, and packets that fit to both.
#[test]
fn a_message_over_several_dimensions_has_the_smallest_mtu() {
    for each in [sizes(), [sizes()[1], sizes()[0]]] {
        let (header, framing) = (each[1].header, each[1].framing);
        let wire = u64::from(1500 + framing);
        let data = u64::from(1500 - header);
        let mut network = network("FC(2)_FC(2)", each);
        let end = transfers(&mut network, &[(0, 3, data + 1, 0)])[0].0;
        // The first packet crosses two links one after the other, the second follows on the last.
        let last = u64::from(header + framing) + 1;
        assert_eq!(end, 2 * link(wire) + 80 * last);
    }
}

/// Four senders at once to one NPU along each dimension.
fn incasts(switches: [Switch; 2]) -> Vec<PortUsage> {
    let settings = |switch| Settings { switch, ..Settings::default() };
    let mut network = network("Switch(5)_Switch(5)", switches.map(settings));
    let inner = (1..5).map(|src| (src, 0, 200_000, 0));
    let outer = (1..5).map(|node| (5 * node, 0, 200_000, 0));
    transfers(&mut network, &inner.chain(outer).collect::<Vec<_>>());
    network.usage(Time::MAX).packets.expect("packets").ports
}

#[test]
fn a_buffer_drops_in_its_own_dimension() {
    let small = Switch { buffer: Buffer::Port(Bytes(20_000)), ..Switch::default() };
    let shared = Buffer::Shared { total: Bytes(20_000), alpha: units::Ratio::ONE };
    let shared = Switch { buffer: shared, ..Switch::default() };
    for limited in [small, shared] {
        for dim in [0, 1] {
            let mut switches = [Switch::default(); 2];
            switches[dim] = limited;
            let ports = incasts(switches);
            let drops = |of: u32| -> u64 {
                ports.iter().filter(|port| port.dim == of).map(|port| port.counts.drops).sum()
            };
            assert!(drops(dim as u32) > 0 && drops(1 - dim as u32) == 0, "{dim}: {ports:?}");
            let longest = |of: usize| {
                ports.iter().filter(|p| p.dim as usize == of).map(|p| p.counts.longest_queue).max()
            };
            assert!(longest(dim) <= Some(20_000) && longest(1 - dim) > Some(20_000));
        }
    }
}

#[test]
fn marks_and_pauses_are_those_of_a_dimension() {
    let marking = Switch { marking: Some(Marking::step(Bytes(9000))), ..Switch::default() };
    let (above, below) = (Bytes(20_000), Bytes(10_000));
    let pause = Switch { pause: Some(Pause { above, below }), ..Switch::default() };
    for dim in [0, 1] {
        let mut switches = [marking, marking];
        switches[dim] = pause;
        let ports = incasts(switches);
        for port in ports.iter().filter(|port| port.counts.longest_queue > 30_000) {
            assert_eq!(
                (port.counts.marks > 0, port.counts.pauses),
                (port.dim != dim as u32, 0),
                "{port:?}"
            );
        }
        let paused = |of: usize| ports.iter().any(|p| p.dim as usize == of && p.counts.pauses > 0);
        assert!(paused(dim) && !paused(1 - dim), "{ports:?}");
    }
}

/// Each connection has its transport: RDMA without control fills the inner dimension at once, TCP
/// sends five segments of the outer one and waits for an acknowledgement.
#[test]
fn transports_differ() {
    let rdma =
        Rdma { congestion_control: RdmaControl::None, window: Bytes(1 << 30), ..Rdma::default() };
    let tcp = Tcp { initial_window: 5, ack_every: 1, ..Tcp::default() };
    let each = [Transport::Rdma(rdma), Transport::Tcp(tcp)].map(Settings::with);
    let mut both = network("FC(2)_FC(2)", each);
    let ends = transfers(&mut both, &[(0, 1, 6 * 1456, 0), (0, 2, 6 * 1460, 0)]);
    assert_eq!(ends[0].0, link(6 * 1538));
    // The sixth segment leaves when the first is acknowledged.
    assert_eq!(ends[1].0, link(1538) + link(78) + link(1538));
}

#[test]
fn messages_enter_in_the_order_of_their_latencies() {
    let late = |injection| Settings { injection: Span(injection), ..Settings::default() };
    let mut network = network("FC(2)_FC(2)", [late(5_000_000), late(1_000_000)]);
    let all = [(0, 1, 1460, 0), (0, 2, 1460, 0), (0, 2, 1460, 4_100_000), (0, 3, 1, 0)];
    let mut sorted = all;
    sorted.sort_by_key(|each| each.3);
    let ends = transfers(&mut network, &sorted);
    let least = |dst, bytes| network.physical_minimum(0, dst, bytes).0;
    assert_eq!((least(1, 0), least(2, 0)), (5_500_000, 1_500_000));
    // In the order of `sorted`: to 1, to 2, to 3, and later to 2.
    assert_eq!(ends[0].0, 5_000_000 + link(1538));
    assert_eq!(ends[1].0, 1_000_000 + link(1538));
    assert_eq!(ends[2].0, 1_000_000 + 2 * link(79), "by way of NPU 1");
    assert_eq!(ends[3].0, 5_100_000 + link(1538));
}
