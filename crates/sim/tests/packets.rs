//! Packets against the networks that carry whole messages: where nothing contends they agree once
//! headers are counted, and packets are never faster than the links.
//!
//! On a link that carries long messages, data has `(mtu - headers) / (mtu + framing)` of the
//! bandwidth; `analytical` and `flow` get that much of every link. `physical_bound.rs` holds packets
//! to the links of random networks.

use graph::{CollectiveKind, Node, Op, ProgramBuilder, Workload};
use platform::config::native;
use sim::{BackendKind, Config, Outcome, Source, Watch, run};
use units::{Bytes, Span};

/// 100 Gb/s, bytes per second.
const LINK: f64 = 12.5e9;
/// Most of a difference.
const TOLERANCE: f64 = 0.02;

/// What packets look like.
#[derive(Clone, Copy, Debug)]
struct Frames {
    mtu: u64,
    headers: u64,
    transport: &'static str,
}

impl Frames {
    /// IPv4 with TCP (20 B each), or with UDP (8 B), InfiniBand's transport header (12 B) and check
    /// sum (4 B).
    fn all() -> impl Iterator<Item = Frames> {
        let transports = [("tcp", 40), ("rdma", 44)];
        let frames =
            move |mtu| transports.map(|(transport, headers)| Frames { mtu, headers, transport });
        [1500, 4096, 9000].into_iter().flat_map(frames)
    }

    /// The part of a link that data has. Ethernet's framing has 38 B (IEEE 802.3).
    fn data(self) -> f64 {
        (self.mtu - self.headers) as f64 / (self.mtu + 38) as f64
    }

    /// The all-reduce of `bytes` on rings with links of `bytes_per_s`.
    fn all_reduce(self, topology: &str, bytes: u64, backend: BackendKind, bytes_per_s: f64) -> f64 {
        let link = format!("{{bandwidth: {bytes_per_s:.0} B/s, per: link, latency: 500 ns}}");
        let links = vec![link; topology.matches('(').count()].join(", ");
        let Frames { mtu, transport, .. } = self;
        let text = format!(
            "topology: {topology}\nlinks: [{links}]\ncollectives: {{all_reduce: ring}}\n\
             scheduler: {{chunks: 1, endpoint_delay: 0 ns}}\n\
             network: {{packet: {{transport: {transport}, mtu: {mtu}}}}}\n"
        );
        simulate(&text, CollectiveKind::AllReduce, bytes, backend).report.step_time_ns
    }
}

/// A collective of all NPUs of the platform `text`.
fn simulate(text: &str, kind: CollectiveKind, bytes: u64, backend: BackendKind) -> Outcome {
    let platform = native::from_yaml(text, "p.yml", &[])
        .unwrap_or_else(|problems| panic!("{text}\n{problems:#?}"));
    let bytes = Bytes(bytes);
    let op = Op::Collective { kind, bytes, slot: 0, priority: 0, dims: u32::MAX, root: 0 };
    let mut builder = ProgramBuilder::default();
    builder.push(Node { id: 0, duration: Span::from_ns(1), op }, "", []);
    let program = builder.build().expect("one node");
    let config = Config {
        workload: Source::Built(Box::new(Workload::uniform(program, platform.fabric.npus()))),
        groups: Vec::new(),
        platform,
        backend,
        fold: false,
        watch: Watch::default(),
    };
    run(&config, &mut |_| true).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

#[test]
fn rings_take_as_long_as_whole_messages_once_headers_are_counted() {
    println!(
        "topology           MB   mtu  via        packet us       flow us  analytical us   packet/flow"
    );
    let mut worst: f64 = 0.0;
    for (topology, megabytes) in
        [("Ring(8)", 8), ("Ring(8)", 32), ("Ring(4)_Ring(4)", 16), ("Ring(4)_Ring(4)", 64)]
    {
        for frames in Frames::all() {
            let time = |backend, bytes_per_s: f64| {
                frames.all_reduce(topology, megabytes * 1_000_000, backend, bytes_per_s)
            };
            let packet = time(BackendKind::Packet, LINK);
            let least = LINK * frames.data();
            let [flow, analytical] =
                [BackendKind::Flow, BackendKind::Analytical].map(|backend| time(backend, least));
            println!(
                "{topology:16} {megabytes:>4} {:>5}  {:4} {:>15.3} {:>13.3} {:>14.3} {:>13.4}",
                frames.mtu,
                frames.transport,
                packet / 1e3,
                flow / 1e3,
                analytical / 1e3,
                packet / flow
            );
            for other in [flow, analytical] {
                worst = worst.max((packet / other - 1.0).abs());
            }
            // What data alone would take.
            assert!(packet >= time(BackendKind::Analytical, LINK), "{topology} {frames:?}");
        }
    }
    println!("largest difference {:.2} %", worst * 100.0);
    assert!(worst <= TOLERANCE, "{worst}");
}

/// Seven NPUs send 1 MB to the first, over a switch.
fn incast(packet: &str, backend: BackendKind) -> Outcome {
    let text = format!(
        "topology: Switch(8)\nlinks: {{bandwidth: 100 Gb/s, latency: 500 ns}}\n\
         collectives: {{gather: direct}}\nscheduler: {{chunks: 1, endpoint_delay: 0 ns}}\n\
         network: {{packet: {packet}}}\n"
    );
    simulate(&text, CollectiveKind::Gather, 1_000_000, backend)
}

#[test]
fn a_report_counts_packets_without_loss() {
    let report = incast("{}", BackendKind::Packet).report;
    let packets = report.packets.expect("packets");
    // 684 packets of 1,460 bytes and one of 1,360.
    assert_eq!(packets.sent.data, 7 * 685);
    assert_eq!(
        (packets.events.drops, packets.events.losses.retransmits, packets.events.losses.timeouts),
        (0, 0, 0)
    );
    // Two links each; the last acknowledgements are on their way when the run ends.
    let whole = 2 * (packets.sent.data + packets.sent.acknowledgements);
    assert!((whole - 7..=whole).contains(&packets.sent.hops), "{packets:?}");
    assert_eq!(packets.connection_count, 7);
    for connection in &packets.connections {
        assert_eq!((connection.carried.bytes, connection.carried.destination), (1_000_000, 0));
        assert!(connection.carried.last.as_ns() <= report.step_time_ns, "{connection:?}");
        // A seventh of the link each, at the best.
        assert!(connection.goodput_gb_per_s <= 12.5, "{connection:?}");
    }
    // Six windows of ten packets of 1,538 bytes meet the seventh at the port of NPU 0.
    assert_eq!(packets.ports[0].name, "switch0 -> npu0 (dimension 1)");
    assert!(packets.events.longest_queue >= 6 * 10 * 1538, "{packets:?}");
    assert_eq!(packets.ports[0].counts.longest_queue, packets.events.longest_queue);
    // Two links and back, and one packet on each of them: 1,538 B and 78 B at 12.5 B/ns.
    let empty = 4.0 * 500.0 + 2.0 * (1538.0 + 78.0) / 12.5;
    assert!(
        packets.events.round_trips.mean.as_ns() >= empty
            && packets.events.round_trips.p50.as_ns() <= packets.events.round_trips.p99.as_ns()
    );
    let analytical = incast("{}", BackendKind::Analytical).report;
    assert!(analytical.packets.is_none(), "whole messages");
    assert!(report.step_time_ns >= analytical.step_time_ns);
}

#[test]
fn a_report_counts_what_a_full_buffer_drops() {
    let settings = "{buffer: 50 kB, tcp: {rto_min: 1 ms}}";
    let packets = incast(settings, BackendKind::Packet).report.packets.expect("packets");
    assert!(packets.events.drops > 0 && packets.events.losses.retransmits > 0, "{packets:?}");
    assert!(packets.events.longest_queue <= 50_000, "{packets:?}");
    let dropped: u64 = packets.ports.iter().map(|port| port.counts.drops).sum();
    assert_eq!(dropped, packets.events.drops);
    assert_eq!(
        packets.sent.data,
        7 * 685 + packets.events.losses.retransmits,
        "nothing new is sent twice"
    );
    let again: u64 = packets.connections.iter().map(|each| each.losses.retransmits).sum();
    assert_eq!(again, packets.events.losses.retransmits);
    // With marks or pauses instead of a deep queue nothing is lost.
    let marked = "{marking: 30 kB, tcp: {congestion_control: dctcp}}";
    let found = incast(marked, BackendKind::Packet).report.packets.expect("packets");
    assert!(found.events.marks > 0 && found.events.drops == 0, "{found:?}");
    let paused = "{transport: rdma, buffer: 1 MB, pause: 60 kB, rdma: {congestion_control: none}}";
    let found = incast(paused, BackendKind::Packet).report.packets.expect("packets");
    assert!(
        found.events.pauses > 0 && found.events.drops == 0 && found.events.losses.retransmits == 0,
        "{found:?}"
    );
}

/// Four equal senders and a buffer of ten packets: some are lost. A seed draws again only where it
/// has drawn.
#[test]
fn a_time_with_losses_is_chance_and_a_seed_draws_again_where_it_drew() {
    for (keys, lost, drawn) in [
        ("buffer: 15 kB", true, true),
        ("buffer: 15 kB, ties: in_order", true, false),
        ("buffer: 15 kB, tcp: ns3", true, false),
        ("buffer: 15 MB", false, false),
        ("mtu: 1500", false, false),
    ] {
        let text = format!(
            "topology: Switch(5)\nlinks: {{bandwidth: 100 Gb/s, latency: 500 ns}}\n\
             collectives: {{gather: direct}}\nnetwork: {{packet: {{{keys}}}}}\n"
        );
        let found = simulate(&text, CollectiveKind::Gather, 1_000_000, BackendKind::Packet);
        let has = |text: &str| found.report.warnings.iter().any(|each| each.contains(text));
        assert_eq!(has("packets were dropped"), lost, "{keys}: {:?}", found.report.warnings);
        assert_eq!(has("seed draws again"), drawn, "{keys}: {:?}", found.report.warnings);
    }
}
