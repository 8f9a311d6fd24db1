//! What reports say of queues and round trips, against numbers found by hand.

use crate::common::{flat, transfers};
use net_packet::{Settings, Tcp, Transport};
use network::{Backend, PacketUsage};
use units::{Bytes, Span, Time};

fn usage(hosts: u32, settings: Settings, cases: &[(u32, u32, u64, u64)]) -> PacketUsage {
    let mut network = flat(hosts, settings);
    transfers(&mut network, cases);
    *network.usage(Time::MAX).packets.expect("a network of packets")
}

/// Eleven packets come to the switch at one moment, for one host. The first leaves at once, the
/// second waits alone, and so on: they find 0, 0, 1, 2, ... 9 packets waiting.
#[test]
fn queues_are_what_packets_find() {
    let settings = Settings::with(Transport::Tcp(Tcp::default()));
    let cases: Vec<_> = (1..12).map(|src| (src, 0, 1460, 0)).collect();
    let found = usage(12, settings, &cases);
    let port = found.ports.iter().find(|port| port.to == 0).expect("the port to host 0");
    let near = |found: u64, packets: u64| {
        assert!((found as f64 / (1538 * packets) as f64 - 1.0).abs() < 0.032, "{found} {packets}");
    };
    near(port.counts.queue_p50, 4);
    near(port.counts.queue_p99, 9);
    assert_eq!(port.counts.longest_queue, 10 * 1538);
}

/// A packet alone: two links there, two back for its acknowledgement. A run ends with the last data,
/// so a second message comes later.
#[test]
fn the_round_trip_of_an_empty_network_is_exact() {
    let settings = Settings::with(Transport::Tcp(Tcp::default()));
    let found = usage(2, settings, &[(0, 1, 1460, 0), (0, 1, 1, 10_000_000)]);
    // 100 Gb/s take 80 ps for a byte, and a link has a latency of 0.5 us.
    let link = |wire: u64| 80 * wire + 500_000;
    let expected = Span(2 * link(1538) + 2 * link(78));
    let [connection] = found.connections[..] else { panic!("one connection") };
    assert_eq!(connection.round_trips.max, expected);
    assert_eq!((found.events.round_trips.count, found.events.round_trips.mean), (1, expected));
    assert_eq!(connection.round_trips.sampled_mean, None, "shorter than a millisecond");
}

/// A window of ten packets needs less time than a round trip: nothing waits at the switch, and each
/// round trip is as long as the one before. One each millisecond says the same.
#[test]
fn what_is_taken_each_millisecond_is_the_mean_where_nothing_changes() {
    let tcp = Tcp { window: Bytes(14_600), ack_every: 1, ..Tcp::default() };
    let settings = Settings::with(Transport::Tcp(tcp));
    let found = usage(2, settings, &[(0, 1, 40_000_000, 0)]);
    let [connection] = found.connections[..] else { panic!("one connection") };
    let sampled = connection.round_trips.sampled_mean.expect("longer than a millisecond");
    let mean = connection.round_trips.mean;
    assert!((sampled.0 as f64 / mean.0 as f64 - 1.0).abs() < 0.1, "{sampled:?} {mean:?}");
    let all = found.events.round_trips;
    assert_eq!([all.sampled_mean, all.sampled_p50, all.sampled_p99], [Some(sampled); 3]);
    for percentile in [connection.round_trips.p50, connection.round_trips.p99] {
        assert!(percentile <= connection.round_trips.max.max(Span(mean.0 * 103 / 100)));
    }
}
