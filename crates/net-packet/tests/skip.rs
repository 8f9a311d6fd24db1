//! Steady-state skipping changes times by less than its tolerance, and saves packets.

use crate::common::check::Watch;
use crate::common::{flat, transfers};
use net_packet::{
    Buffer, Marking, Rdma, RdmaControl, Settings, Switch, Tcp, TcpControl, Transport,
};
use units::{Bytes, Ratio, Span, Time};

/// Source, destination, bytes and start, picoseconds.
type Case = (u32, u32, u64, u64);

const PERCENT: Ratio = Ratio(Ratio::ONE.0 / 100);

/// Transfers of 8 hosts: pairs, an incast, and messages that start while others go on.
fn cases() -> Vec<(&'static str, Vec<Case>)> {
    let ring = (0..8).map(|src| (src, (src + 1) % 8, 400_000_000, 0)).collect();
    let incast = (1..5).map(|src| (src, 0, 100_000_000 * u64::from(src), 0)).collect();
    let late = vec![
        (0, 1, 400_000_000, 0),
        (2, 1, 100_000_000, 5_000_000_000),
        (3, 4, 50_000_000, 7_000_000_000),
    ];
    vec![("ring", ring), ("incast", incast), ("late", late)]
}

fn transports() -> Vec<(&'static str, Settings)> {
    let tcp = Tcp { window: Bytes(500_000), rto_min: Span(5_000_000_000), ..Tcp::default() };
    let switch = Switch { buffer: Buffer::Port(Bytes(2_000_000)), ..Switch::default() };
    let marking = Some(Marking::step(Bytes(100_000)));
    let settings = |transport, switch| Settings { mtu: 4096, switch, ..Settings::with(transport) };
    let dctcp = Tcp { control: TcpControl::Dctcp, ..tcp };
    let rdma =
        Rdma { congestion_control: RdmaControl::None, window: Bytes(300_000), ..Rdma::default() };
    vec![
        ("tcp", settings(Transport::Tcp(tcp), switch)),
        ("dctcp", settings(Transport::Tcp(dctcp), Switch { marking, ..switch })),
        ("rdma", settings(Transport::Rdma(rdma), switch)),
    ]
}

#[test]
fn skipping_keeps_times_within_its_tolerance() {
    for (transport, settings) in transports() {
        for (name, case) in cases() {
            let mut whole = flat(8, settings);
            let expected = transfers(&mut whole, &case);
            let mut quick = flat(8, settings).with_skipping(PERCENT);
            let found = transfers(&mut quick, &case);
            let saved = whole.totals().sent.data as f64 / quick.totals().sent.data as f64;
            let off = |(a, b): (&Time, &Time)| (b.0 as f64 / a.0 as f64 - 1.0).abs();
            let worst = expected.iter().zip(&found).map(off).fold(0.0, f64::max);
            let last = off((expected.iter().max().unwrap(), found.iter().max().unwrap()));
            let skipped = quick.skipped();
            println!("{transport} {name}: {last:.5} {worst:.5} saved {saved:.1} {skipped:?}");
            assert!(last < 0.01, "{transport} {name}: {last}");
            // How two flows share while they settle depends on the moment at which they meet.
            assert!(worst < 0.03, "{transport} {name}: {worst}");
            assert!(skipped.times > 0, "{transport} {name}");
            // Packets that were skipped are counted on the links.
            let bytes = |network: &net_packet::Packets| -> u64 {
                network.counters().map(|(_, counters)| counters.bytes).sum()
            };
            let ratio = bytes(&quick) as f64 / bytes(&whole) as f64;
            assert!((0.97..1.03).contains(&ratio), "{transport} {name}: {ratio}");
        }
    }
}

/// Whoever listens hears of all bytes of every link, skipped or not, and of no two at once.
#[test]
fn skipped_bytes_are_reported_on_their_links() {
    let (_, settings) = transports()[0];
    let mut quick = flat(8, settings).with_skipping(PERCENT);
    let watch = Watch::over(&mut quick);
    transfers(&mut quick, &cases()[0].1);
    assert!(quick.skipped().times > 0);
    watch.compare(&quick);
}

/// One pair and 10 GB: nearly everything is skipped.
#[test]
fn a_long_transfer_is_a_hundred_times_shorter() {
    let (_, settings) = transports()[0];
    let mut quick = flat(2, settings).with_skipping(PERCENT);
    let end = transfers(&mut quick, &[(0, 1, 10_000_000_000, 0)])[0];
    let packets = 10_000_000_000u64.div_ceil(4056);
    assert!(quick.totals().sent.data * 100 < packets, "{:?}", quick.totals());
    let expected = (10_000_000_000 + packets * 78) as f64 * 80.0;
    assert!((end.0 as f64 / expected - 1.0).abs() < 0.01, "{end:?} {expected}");
}
