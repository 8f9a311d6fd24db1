//! RDMA and what switches do for it: pauses, marks, priorities, shared buffers.

use crate::common::{flat, graph, link, transfers};
use net_packet::{
    Buffer, Marking, Packets, Pause, Rdma, RdmaControl, RdmaRecovery, Settings, Spraying, Switch,
    Tcp, Transport,
};
use network::Backend;
use topology::{GraphFabric, GraphNode, Routing};
use units::{Bytes, Ratio, Time};

const RATE: f64 = 12.5;

fn rdma(rdma: Rdma, switch: Switch) -> Settings {
    Settings { mtu: 4096, switch, ..Settings::with(Transport::Rdma(rdma)) }
}

/// Nanoseconds that a link needs for `bytes` in packets.
fn on_link(settings: &Settings, bytes: u64) -> f64 {
    let payload = u64::from(settings.mtu - settings.header);
    let packets = bytes.div_ceil(payload);
    (bytes + packets * u64::from(settings.header + settings.framing)) as f64 / RATE
}

/// One message takes its packets on the link, a full packet once more on the second link, because
/// the last and shorter one waits for it there, and the latency.
#[test]
fn a_message_alone_takes_what_its_packets_need() {
    let plain = Rdma { congestion_control: RdmaControl::None, ..Rdma::default() };
    for settings in [rdma(plain, Switch::default()), rdma(Rdma::default(), Switch::default())] {
        let bytes = 10_000_000;
        let ends = transfers(&mut flat(4, settings), &[(0, 1, bytes, 0)]);
        let full = f64::from(settings.mtu + settings.framing);
        let expected = on_link(&settings, bytes) + full / RATE + 1000.0;
        assert!((ends[0].0 as f64 / 1e3 - expected).abs() < 2.0, "{:?} {expected}", ends[0]);
    }
}

/// Eight send to one through a switch with 200 KB of buffer for its port: packets are dropped. With
/// pauses above 20 KB for each link none is, and the time is what the link to the receiver needs.
#[test]
fn pauses_keep_an_incast_lossless() {
    let incast: Vec<_> = (1..9).map(|src| (src, 0, 2_000_000, 0)).collect();
    let buffer = Buffer::Port(Bytes(400_000));
    let pause = Some(Pause { above: Bytes(20_000), below: Bytes(10_000) });
    let plain = Rdma { congestion_control: RdmaControl::None, ..Rdma::default() };
    let run = |pause| {
        let settings = rdma(plain, Switch { buffer, pause, ..Switch::default() });
        let mut network = flat(9, settings);
        let end = transfers(&mut network, &incast).into_iter().max().unwrap();
        (end.0 as f64 / 1e3, network.totals(), on_link(&settings, 16_000_000))
    };
    let (_, lossy, _) = run(None);
    assert!(lossy.events.drops > 0 && lossy.events.losses.retransmits > 0, "{lossy:?}");
    let (end, lossless, expected) = run(pause);
    assert_eq!((lossless.events.drops, lossless.events.losses.retransmits), (0, 0), "{lossless:?}");
    assert!(lossless.events.pauses > 8 && lossless.events.longest_queue < 400_000, "{lossless:?}");
    assert!((1.0..1.01).contains(&(end / expected)), "{end} {expected}");
}

/// Go-back-N sends everything after a loss again, selective repeat what was lost.
#[test]
fn selective_repeat_sends_less_again() {
    let incast: Vec<_> = (1..5).map(|src| (src, 0, 4_000_000, 0)).collect();
    let run = |recovery| {
        let switch = Switch { buffer: Buffer::Port(Bytes(300_000)), ..Switch::default() };
        let window = Bytes(128_000);
        let settings = rdma(
            Rdma { recovery, window, congestion_control: RdmaControl::None, ..Rdma::default() },
            switch,
        );
        let mut network = flat(5, settings);
        let ends = transfers(&mut network, &incast);
        assert!(ends.iter().all(|end| end.0 > 0));
        network.totals()
    };
    let (back, selective) = (run(RdmaRecovery::GoBackN), run(RdmaRecovery::Selective));
    assert!(back.events.drops > 0 && selective.events.drops > 0);
    // Every packet that was dropped is sent again; go-back-N sends what followed it, too.
    assert!(selective.events.losses.retransmits >= selective.events.drops, "{selective:?}");
    assert!(selective.events.losses.retransmits < 2 * selective.events.drops, "{selective:?}");
    assert!(2 * back.events.losses.retransmits > 3 * back.events.drops, "{back:?}");
}

/// DCQCN: four senders to one receiver keep the queue far below what they would fill, and share the
/// link about equally.
#[test]
fn dcqcn_keeps_the_queue_short_and_shares() {
    let marking = Some(Marking {
        from: Bytes(5_000),
        to: Bytes(200_000),
        probability: Ratio(Ratio::ONE.0 / 100),
    });
    let incast: Vec<_> = (1..5).map(|src| (src, 0, 50_000_000, 0)).collect();
    let run = |congestion_control| {
        let settings = rdma(
            Rdma { congestion_control, ..Rdma::default() },
            Switch { marking, ..Switch::default() },
        );
        let mut network = flat(5, settings);
        let ends = transfers(&mut network, &incast);
        let first = ends.iter().min().unwrap().0 as f64;
        let last = ends.iter().max().unwrap().0 as f64;
        (network.totals(), first / last, last / 1e3 / on_link(&settings, 200_000_000))
    };
    let (without, ..) = run(RdmaControl::None);
    let (with, fair, time) = run(RdmaControl::Dcqcn);
    assert!(
        with.events.marks > 0 && with.events.longest_queue < without.events.longest_queue,
        "{with:?} {without:?}"
    );
    assert!(fair > 0.75, "{fair}");
    assert!((1.0..2.0).contains(&time), "{time}");
}

/// One hot port of a shared buffer takes alpha / (1 + alpha) of it (Choudhury and Hahne).
#[test]
fn a_hot_port_takes_its_part_of_a_shared_buffer() {
    for (alpha, part) in [(1, 0.5), (2, 2.0 / 3.0), (4, 0.8)] {
        let buffer = Buffer::Shared { total: Bytes(1_000_000), alpha: Ratio(alpha * Ratio::ONE.0) };
        let settings = rdma(
            Rdma { congestion_control: RdmaControl::None, ..Rdma::default() },
            Switch { buffer, ..Switch::default() },
        );
        let mut network = flat(9, settings);
        let incast: Vec<_> = (1..9).map(|src| (src, 0, 3_000_000, 0)).collect();
        transfers(&mut network, &incast);
        let longest = network.totals().events.longest_queue as f64;
        assert!((longest / 1e6 - part).abs() < 0.01, "alpha {alpha}: {longest}");
    }
}

/// A message of 1 KB behind one of 10 MB from another sender to the same receiver: it waits for the
/// queue of the larger one, or for one packet of it.
#[test]
fn small_messages_overtake() {
    let run = |small_first| {
        let tcp = Tcp { window: Bytes(1 << 20), initial_window: 200, ..Tcp::default() };
        let switch = Switch { small_first, control_first: true, ..Switch::default() };
        let settings = Settings { mtu: 4096, switch, ..Settings::with(Transport::Tcp(tcp)) };
        let two = [(1, 0, 5_000_000, 0), (2, 0, 5_000_000, 0), (3, 0, 1000, 60_000_000)];
        transfers(&mut flat(4, settings), &two)[2].0 - 60_000_000
    };
    let alone = 2 * (1078 * 80) + 1_000_000;
    let (waits, overtakes) = (run(None), run(Some(Bytes(10_000))));
    assert!(overtakes <= alone + 4200 * 80, "{overtakes} {alone}");
    assert!(waits > 2 * overtakes, "{waits} {overtakes}");
}

/// Two leaves with four spines: eight pairs across. By hash some spines carry several; sprayed in
/// turns, or to the shortest queue, all carry the same, and the time is that of one pair.
#[test]
fn sprayed_packets_use_all_spines() {
    let (hosts, leaves) = (8u32, 2u32);
    let nodes: Vec<u32> = (0..hosts + leaves + 4).collect();
    let mut links = Vec::new();
    for host in 0..hosts {
        let leaf = hosts + host / 4;
        links.extend([link(host, leaf), link(leaf, host)]);
    }
    for spine in hosts + leaves..hosts + leaves + 4 {
        for leaf in hosts..hosts + leaves {
            links.extend([link(leaf, spine), link(spine, leaf)]);
        }
    }
    let fabric = GraphFabric {
        npus: hosts,
        links,
        nodes: nodes.iter().map(|n| GraphNode::npu(format!("n{n}"))).collect(),
        ..GraphFabric::default()
    };
    let pairs: Vec<_> = (0..4).map(|host| (host, host + 4, 4_000_000, 0)).collect();
    let run = |routing, spraying| {
        let recovery = RdmaRecovery::Selective;
        let settings = rdma(
            Rdma {
                congestion_control: RdmaControl::None,
                recovery,
                reordering: 64,
                ..Rdma::default()
            },
            Switch::default(),
        );
        let mut network = graph(&fabric, routing, Settings { spraying, ..settings });
        let last = transfers(&mut network, &pairs).into_iter().max().unwrap();
        last.0 as f64 / 1e3 / on_link(&settings, 4_000_000)
    };
    let hashed = (0..8).map(|seed| run(Routing::Hash { seed }, Spraying::InTurns));
    let hashed = hashed.fold(0.0, f64::max);
    let turns = run(Routing::Spray, Spraying::InTurns);
    let shortest = run(Routing::Spray, Spraying::ShortestQueue);
    assert!(hashed > 1.9, "{hashed}");
    assert!((1.0..1.1).contains(&turns) && (1.0..1.1).contains(&shortest), "{turns} {shortest}");
}

/// Three switches in a ring, one host at each. Each host sends to the host two switches on, so that
/// every link of the ring holds packets that wait for the next. With pauses and little room the ring
/// locks, and the backend names it.
#[test]
fn a_circle_of_pauses_is_named() {
    let mut links = Vec::new();
    for at in 0..3 {
        links.extend([link(at, 3 + at), link(3 + at, at), link(3 + at, 3 + (at + 1) % 3)]);
    }
    let fabric = GraphFabric {
        npus: 3,
        links,
        nodes: (0..6).map(|n| GraphNode::npu(format!("n{n}"))).collect(),
        ..GraphFabric::default()
    };
    let pause = Some(Pause { above: Bytes(6_000), below: Bytes(3_000) });
    let settings = rdma(
        Rdma { congestion_control: RdmaControl::None, ..Rdma::default() },
        Switch { pause, control_first: true, ..Switch::default() },
    );
    let mut network: Packets = graph(&fabric, Routing::Lowest, settings);
    for src in 0..3 {
        let dst = (src + 2) % 3;
        network.start(Time::ZERO, crate::common::transfer(src, dst, 4_000_000, u64::from(src)));
    }
    let mut finished = Vec::new();
    while let Some(next) = network.next_event().filter(|&next| next.0 < 1_000_000_000_000) {
        network.advance(next, &mut finished);
    }
    let stuck = network.stalled().expect("a deadlock");
    assert_eq!(stuck.transfers, 3 - finished.len() as u64);
    let mut ends: Vec<_> = stuck.cycle.iter().map(|port| (port.from, port.to)).collect();
    ends.sort_unstable();
    assert_eq!(ends, [(3, 4), (4, 5), (5, 3)]);
}
