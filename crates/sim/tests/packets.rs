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
    fn run(self, topology: &str, bytes: u64, backend: BackendKind, bytes_per_s: f64) -> Outcome {
        let link = format!("{{bandwidth: {bytes_per_s:.0} B/s, per: link, latency: 500 ns}}");
        let links = vec![link; topology.matches('(').count()].join(", ");
        let Frames { mtu, transport, .. } = self;
        let text = format!(
            "topology: {topology}\nlinks: [{links}]\ncollectives: {{all_reduce: ring}}\n\
             scheduler: {{chunks: 1, endpoint_delay: 0 ns}}\n\
             network: {{packet: {{transport: {transport}, mtu: {mtu}}}}}\n"
        );
        let platform = native::from_yaml(&text, "p.yml", &[])
            .unwrap_or_else(|problems| panic!("{text}\n{problems:#?}"));
        let workload = all_reduce(platform.fabric.npus(), bytes);
        let config = Config {
            workload: Source::Built(Box::new(workload)),
            groups: Vec::new(),
            platform,
            backend,
            fold: false,
            seed: 0,
            watch: Watch::default(),
        };
        run(&config, &mut |_| true).unwrap_or_else(|error| panic!("{text}\n{error}"))
    }
}

fn all_reduce(npus: u32, bytes: u64) -> Workload {
    let kind = CollectiveKind::AllReduce;
    let bytes = Bytes(bytes);
    let op = Op::Collective { kind, bytes, slot: 0, priority: 0, dims: u32::MAX, root: 0 };
    let mut builder = ProgramBuilder::default();
    builder.push(Node { id: 0, duration: Span::from_ns(1), op }, "", []);
    Workload::uniform(builder.build().expect("one node"), npus)
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
                frames
                    .run(topology, megabytes * 1_000_000, backend, bytes_per_s)
                    .report
                    .step_time_ns
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
