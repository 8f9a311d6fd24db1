//! The runs of ns-3 again (`tests/golden/packets/ns3.csv`): direct and double-binary-tree all-reduces of 128 hosts.
//! `--nocapture` prints the tables.

#[path = "../../../../crates/net-packet/tests/common/check.rs"]
#[expect(dead_code, reason = "other checks are for other tests")]
mod check;

use net_packet::{Buffer, Settings, Switch, Tcp, TcpControl, Ties, Transport};
use network::PacketUsage;
use peers::packets::{Order, Trees, all_reduce, star};
use units::{Bandwidth, Bytes, Span};

/// Hosts of every run.
const HOSTS: u32 = 128;

/// A run of ns-3: its settings, and what came of it.
struct Run {
    bytes: u64,
    /// Of a direct all-reduce.
    order: Order,
    /// Chunks of a double binary tree, and how many a host has under way.
    chunks: Option<(u32, u32)>,
    latency: Span,
    settings: Settings,
    us: f64,
    drops: u64,
    retransmits: u64,
    timeouts: u64,
    recoveries: u64,
    queue: u64,
}

fn runs() -> Vec<Run> {
    let mut lines = include_str!("../../../../tests/golden/packets/ns3.csv")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let run = |line: &str| {
        let of = |name| {
            let place = names.iter().position(|&n| n == name).expect("a column");
            line.split(',').nth(place).expect("a value")
        };
        let real = |name| of(name).parse::<f64>().expect("a number");
        let number = |name| real(name) as u64;
        let orders = [Order::Ascending, Order::Rotation, Order::Random(number("seed"))];
        let tcp = Tcp {
            initial_window: number("iw") as u32,
            ack_every: number("delack") as u32,
            sack: number("sack") == 1,
            window: Bytes(500_000),
            rto_min: Span(50_000_000_000),
            ack_delay: Span(1_000_000_000),
            ..Tcp::ns3(if of("cc") == "cubic" { TcpControl::Cubic } else { TcpControl::NewReno })
        };
        let buffer = Buffer::Port(Bytes(number("buf")));
        Run {
            bytes: number("D"),
            chunks: (of("algo") == "dbt").then(|| (number("C") as u32, number("P") as u32)),
            order: orders[number("order") as usize],
            latency: Span((real("lat_us") * 1e6) as u64),
            settings: Settings {
                mtu: number("mtu") as u16,
                // The header of the point-to-point protocol.
                framing: 2,
                tick: Span::from_ns(1),
                switch: Switch { buffer, ties: Ties::InOrder, ..Switch::default() },
                ..Settings::with(Transport::Tcp(tcp))
            },
            us: real("T_us"),
            drops: number("drops"),
            retransmits: number("retx"),
            timeouts: number("rto"),
            recoveries: number("fastrec"),
            queue: number("qmaxB"),
        }
    };
    lines.map(run).collect()
}

/// Recorded runs with each order, buffer, MTU, congestion control and acknowledgement among them, and
/// of 16 MB at most. `make thorough` has all.
const USUAL: [usize; 11] = [0, 8, 10, 12, 16, 20, 22, 24, 26, 28, 32];

fn usual_runs() -> impl Iterator<Item = Run> {
    let all = std::env::var_os("PROPTEST_CASES").is_some();
    let usual = move |(line, _): &(usize, Run)| all || USUAL.contains(line);
    runs().into_iter().enumerate().filter(usual).map(|(_, run)| run)
}

/// Ours by theirs, less 1.
fn off(ours: f64, theirs: f64) -> f64 {
    ours / theirs - 1.0
}

fn again(run: &Run) -> (f64, PacketUsage) {
    let link = (Bandwidth(12_500_000_000), run.latency);
    let mut network = star(HOSTS, link, run.settings).expect("a network");
    let (end, bytes) = match run.chunks {
        None => {
            let parts = 2 * u64::from(HOSTS) * u64::from(HOSTS - 1);
            let end = all_reduce(&mut network, HOSTS, run.bytes, run.order);
            (end, parts * (run.bytes / u64::from(HOSTS)))
        }
        Some(chunks) => {
            let sends = 2 * u64::from(HOSTS - 1) * u64::from(chunks.0);
            let end = Trees::new(&mut network, HOSTS, chunks).run(run.bytes);
            (end, sends * (run.bytes / u64::from(chunks.0)))
        }
    };
    let time = end.expect("it ends");
    check::counts(&network, bytes);
    let (us, totals) = (time.0 as f64 / 1e6, network.totals());
    let Transport::Tcp(tcp) = run.settings.transport else { unreachable!("all use TCP") };
    let Buffer::Port(buffer) = run.settings.switch.buffer else { unreachable!("of ports") };
    println!(
        "{:>8} B, buffer {:>7}, MTU {}, {:?} {:>2}, ack {}, sack {:5}, {:>9}: {us:>9.1} us {:>6.2} %",
        run.bytes,
        buffer.0,
        run.settings.mtu,
        tcp.control,
        tcp.initial_window,
        tcp.ack_every,
        tcp.sack,
        run.chunks.map_or(format!("{:?}", run.order), |(chunks, _)| format!("tree {chunks}")),
        100.0 * off(us, run.us)
    );
    (us, totals)
}

/// Within 2 % of ns-3's time, without a loss, and with its queue.
#[test]
fn runs_without_losses_take_the_same_time() {
    let runs = usual_runs().filter(|run| run.drops == 0);
    for run in runs {
        let (us, totals) = again(&run);
        let case = format!("{} B, MTU {}, {:?}", run.bytes, run.settings.mtu, run.order);
        assert!(off(us, run.us).abs() < 0.02, "{case}: {us} us, ns-3 {}", run.us);
        assert_eq!((totals.events.drops, totals.events.losses.timeouts), (0, 0), "{case}");
        // ns-3 joins chunks that are written at one moment.
        let most = if run.chunks.is_some() { 0.1 } else { 0.02 };
        let queue = totals.events.longest_queue;
        assert!(off(queue as f64, run.queue as f64).abs() < most, "{case}: queue {queue}");
    }
}

/// Drops, retransmits and timeouts within 25 % of ns-3's. Where more than a thousand timeouts make
/// the time, which of them is the last is chance: then it is of the same size.
#[test]
fn runs_with_losses_lose_as_much() {
    let runs = usual_runs().filter(|run| run.drops > 0);
    for run in runs {
        let (us, totals) = again(&run);
        let losses = totals.events.losses;
        let counts = [
            ("drops", totals.events.drops, run.drops),
            ("retransmits", losses.retransmits, run.retransmits),
            ("timeouts", losses.timeouts, run.timeouts),
            ("recoveries", losses.fast_recoveries, run.recoveries),
        ];
        for (name, ours, theirs) in counts {
            println!("{name:>14} {ours:>7} {theirs:>7}");
            // Fewer than 50 are a matter of chance.
            let most = (theirs as f64 * 0.25).max(12.0);
            let case = format!("{} B, MTU {}, {:?}", run.bytes, run.settings.mtu, run.order);
            assert!(ours.abs_diff(theirs) as f64 <= most, "{case}: {ours} {name}, ns-3 {theirs}");
        }
        let most = if run.timeouts > 1000 { 1.0 } else { 0.25 };
        let off = (us / run.us).max(run.us / us) - 1.0;
        assert!(off < most, "{us} us, ns-3 {}", run.us);
    }
}
