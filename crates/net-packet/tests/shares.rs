//! Equal senders have equal shares: of the buffer that is full, and of the link behind it. Packet by
//! packet: `src/port.rs`.

use crate::common::{Random, flat, star, transfers};
use net_packet::{
    Buffer, Marking, Pause, Rdma, RdmaControl, RdmaRecovery, Settings, Switch, Tcp, TcpControl,
    Ties, Transport,
};
use units::{Bytes, Ratio, Span};

/// Sends `bytes` from each of `senders` to one NPU. Returns retransmits and the time in us, by
/// sender.
fn incast(senders: u32, bytes: u64, settings: Settings) -> Vec<(u64, f64)> {
    let all: Vec<_> = (1..=senders).map(|src| (src, 0, bytes, 0)).collect();
    let mut network = flat(senders + 1, settings);
    let ends = transfers(&mut network, &all);
    let mut flows: Vec<_> = network.flows().collect();
    flows.sort_by_key(|flow| flow.carried.source);
    flows
        .iter()
        .zip(ends)
        .map(|(flow, end)| (flow.losses.retransmits, end.0 as f64 / 1e6))
        .collect()
}

/// The largest by the smallest.
fn spread(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = values.clone().fold(0.0, f64::max);
    most / values.fold(f64::INFINITY, f64::min)
}

fn rdma(recovery: RdmaRecovery, switch: Switch) -> Settings {
    let rdma = Rdma {
        recovery,
        congestion_control: RdmaControl::None,
        window: Bytes(250_000),
        ..Rdma::default()
    };
    Settings { switch, ..Settings::with(Transport::Rdma(rdma)) }
}

fn buffers() -> [Buffer; 2] {
    let total = Bytes(1_000_000);
    [Buffer::Port(Bytes(300_000)), Buffer::Shared { total, alpha: Ratio::ONE }]
}

/// Senders that send everything again; the last packet decides who waits for its timer. In order of
/// events one of two never loses. Drawn, what each of them sends again has the same mean: within 3
/// standard deviations of it.
#[test]
fn senders_that_go_back_lose_equally() {
    for (senders, buffer) in [2, 3, 5].into_iter().flat_map(|n| buffers().map(|b| (n, b))) {
        let switch = Switch { buffer, ..Switch::default() };
        let rdma = Rdma { congestion_control: RdmaControl::None, ..Rdma::default() };
        let settings = Settings { switch, ..Settings::with(Transport::Rdma(rdma)) };
        let runs = (0..40).map(|seed| incast(senders, 3_000_000, Settings { seed, ..settings }));
        let runs: Vec<_> = runs.collect();
        let (count, all) = (runs.len() as f64, (runs.len() * senders as usize) as f64);
        let lost = |at: usize| runs.iter().map(move |run| run[at].0 as f64);
        let everyone = || (0..senders as usize).flat_map(lost);
        let mean = everyone().sum::<f64>() / all;
        let variance = everyone().map(|each| (each - mean).powi(2)).sum::<f64>() / all;
        for at in 0..senders as usize {
            let off = lost(at).sum::<f64>() / count - mean;
            assert!(off.abs() < 3.0 * (variance / count).sqrt(), "{senders}, {buffer:?}: {off}");
        }
        let in_order = Switch { ties: Ties::InOrder, ..switch };
        let found = incast(senders, 3_000_000, Settings { switch: in_order, ..settings });
        assert!(spread(found.iter().map(|found| 1.0 + found.0 as f64)) > 100.0, "{found:?}");
    }
}

/// How far the ranks of equal senders in all `runs` are from chance, in standard deviations: the
/// statistic of Friedman (Journal of the American Statistical Association 32, 1937) as a normal number
/// (Wilson and Hilferty, Proceedings of the National Academy of Sciences 17, 1931).
fn unequal(runs: &[Vec<f64>]) -> f64 {
    let senders = runs[0].len();
    let rank = |run: &Vec<f64>, at: usize| {
        let below = run.iter().filter(|other| **other < run[at]).count() as f64;
        below + run.iter().filter(|other| **other == run[at]).count() as f64 / 2.0
    };
    let (n, count) = (senders as f64, runs.len() as f64);
    let sum = |at: usize| runs.iter().map(|run| rank(run, at)).sum::<f64>();
    let squares: f64 = (0..senders).map(|at| (sum(at) - count * n / 2.0).powi(2)).sum();
    let (statistic, freedom) = (squares * 12.0 / (count * n * (n + 1.0)), n - 1.0);
    let width = 2.0 / (9.0 * freedom);
    ((statistic / freedom).cbrt() - (1.0 - width)) / width.sqrt()
}

/// A sender of a drawn kind, with a timer of 10 ms.
fn drawn_transport(random: &mut Random) -> Transport {
    let rdma = Rdma { window: Bytes(64_000 << random.below(5)), ..Rdma::default() };
    let tcp = Tcp {
        initial_window: 1 + random.below(20) as u32,
        rto_min: Span(10_000_000_000),
        ack_delay: Span(1_000_000_000),
        ..Tcp::default()
    };
    match random.below(5) {
        0 => Transport::Rdma(Rdma { congestion_control: RdmaControl::None, ..rdma }),
        1 => Transport::Rdma(Rdma {
            congestion_control: RdmaControl::None,
            recovery: RdmaRecovery::Selective,
            ..rdma
        }),
        2 => Transport::Rdma(rdma),
        3 => Transport::Tcp(tcp),
        _ => Transport::Tcp(Tcp { control: TcpControl::Cubic, ..tcp }),
    }
}

/// Equal senders: over many seeds each one has every rank equally often, in the time of its end and
/// in what it sends again. Of 40 such numbers one is above 4 with a probability of
/// 0.1 %. (The settings are fixed, so the test either passes or does not.)
#[test]
fn no_sender_is_ahead_over_many_seeds() {
    let mut random = Random(20_261_128);
    for case in 0..20 {
        let senders = [2, 3, 4, 8, 16][random.below(5) as usize];
        let bytes = 50_000 + random.below(400_000);
        let latency = Span(100_000 << random.below(8));
        let port = Bytes(20_000 + random.below(130_000));
        let shared = Buffer::Shared { total: Bytes(4 * port.0), alpha: Ratio::ONE };
        let buffer = [Buffer::Port(port), shared][random.below(2) as usize];
        let marking = (random.below(3) == 0).then(|| Marking::step(Bytes(port.0 / 2)));
        let switch = Switch { buffer, marking, ..Switch::default() };
        let settings = Settings { switch, ..Settings::with(drawn_transport(&mut random)) };
        let all: Vec<_> = (1..=senders).map(|src| (src, 0, bytes, 0)).collect();
        let (mut ends, mut losses) = (Vec::new(), Vec::new());
        for seed in 0..40 {
            let mut network = star(senders + 1, latency, Settings { seed, ..settings });
            let found = transfers(&mut network, &all);
            ends.push(found.iter().map(|end| end.0 as f64).collect());
            let mut flows: Vec<_> = network.flows().collect();
            flows.sort_by_key(|flow| flow.carried.source);
            losses.push(flows.iter().map(|flow| flow.losses.retransmits as f64).collect());
        }
        let found = [unequal(&ends), unequal(&losses)];
        println!("{case}: {senders} x {bytes} B, {latency}, {switch:?}: {found:.1?}");
        assert!(found.iter().all(|found| *found < 4.0), "case {case}");
    }
}

/// Incasts at two ports of a switch with one buffer: those of the first port were always the first.
#[test]
fn ports_that_share_a_buffer_lose_equally() {
    let tcp = Tcp { rto_min: Span(10_000_000_000), ..Tcp::default() };
    for transport in [
        Transport::Rdma(Rdma { congestion_control: RdmaControl::None, ..Rdma::default() }),
        Transport::Tcp(tcp),
    ] {
        let buffer = Buffer::Shared { total: Bytes(100_000), alpha: Ratio::ONE };
        let switch = Switch { buffer, ..Switch::default() };
        let all: Vec<_> = (2..10).map(|src| (src, src / 6, 300_000, 0)).collect();
        let run = |seed| {
            let settings = Settings { seed, switch, ..Settings::with(transport) };
            let ends = transfers(&mut star(10, Span(1_000_000), settings), &all);
            ends.iter().map(|end| end.0 as f64).collect()
        };
        let found = unequal(&(0..40).map(run).collect::<Vec<Vec<f64>>>());
        assert!(found < 4.0, "{found}");
    }
}

/// Pauses: nobody loses, and all end within 1 %.
#[test]
fn paused_senders_end_together() {
    let pause = Pause { above: Bytes(50_000), below: Bytes(40_000) };
    let paused = Switch { pause: Some(pause), ..Switch::default() };
    for senders in [2, 4, 7] {
        let found = incast(senders, 20_000_000, rdma(RdmaRecovery::GoBackN, paused));
        assert!(found.iter().all(|found| found.0 == 0), "{found:?}");
        assert!(spread(found.iter().map(|found| found.1)) < 1.01, "{found:?}");
    }
}

/// Marks: nobody loses. Windows that shrink by half at a mark let some be 15 % faster in a run; over
/// many seeds each one ends at every place equally often, and the mean times are within 10 %.
#[test]
fn marked_senders_end_together_over_many_seeds() {
    let switch = Switch { marking: Some(Marking::step(Bytes(100_000))), ..Switch::default() };
    for control in [TcpControl::NewReno, TcpControl::Cubic, TcpControl::Dctcp] {
        let tcp = Tcp { control, ack_delay: Span(1_000_000_000), ..Tcp::default() };
        let settings = Settings { switch, ..Settings::with(Transport::Tcp(tcp)) };
        for senders in [2, 4, 7] {
            let run = |seed| incast(senders, 2_000_000, Settings { seed, ..settings });
            let runs: Vec<_> = (0..20).map(run).collect();
            assert!(runs.iter().flatten().all(|found| found.0 == 0), "{control:?}");
            let times = |run: &Vec<(u64, f64)>| run.iter().map(|found| found.1).collect();
            let times: Vec<Vec<f64>> = runs.iter().map(times).collect();
            let mean = |at: usize| times.iter().map(|run| run[at]).sum::<f64>() / 20.0;
            let means = spread((0..senders as usize).map(mean));
            println!("{senders} {control:?}: {means:.3} {:.1}", unequal(&times));
            assert!(means < 1.1 && unequal(&times) < 4.0, "{senders} {control:?}: {means}");
        }
    }
}

/// Something is drawn where packets meet at a switch that may drop them, and nowhere else.
#[test]
fn draws_are_counted() {
    let drawn = |senders: u32, switch: Switch| {
        let all: Vec<_> = (1..=senders).map(|src| (src, 0, 100_000, 0)).collect();
        let settings = Settings { switch, ..Settings::with(Transport::Tcp(Tcp::default())) };
        let mut network = flat(senders + 1, settings);
        transfers(&mut network, &all);
        (network.totals().drawn > 0, network.totals().events.drops > 0)
    };
    let switch = Switch { buffer: Buffer::Port(Bytes(10_000)), ..Switch::default() };
    assert_eq!(drawn(4, switch), (true, true));
    assert_eq!(drawn(4, Switch { ties: Ties::InOrder, ..switch }), (false, true));
    assert_eq!(drawn(1, switch), (false, false));
    assert_eq!(drawn(4, Switch::default()), (false, false));
}
