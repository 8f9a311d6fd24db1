//! TCP against theory, as tables that `--nocapture` prints. Event by event, and with losses that a
//! test names: `src/tcp/scenario.rs`.

use crate::common::{graph, link, transfer};
use net_packet::{Buffer, Marking, Packets, Settings, Switch, Tcp, TcpControl, Transport};
use network::Backend;
use topology::{GraphFabric, GraphLink, GraphNode, Routing};
use units::{Bandwidth, Bytes, Span, Time};

/// Bytes of a full packet on a link: 1500 and the framing.
const WIRE: u64 = 1538;

/// `senders` and one receiver on a switch. A round trip of an empty network takes `trip` without
/// what packets need on links; the receiver's link carries `rate` bytes per second.
fn bottleneck(senders: u32, trip: Span, rate: u64, settings: Settings) -> Packets {
    let (receiver, switch) = (senders, senders + 1);
    let ends = (0..=receiver).flat_map(|host| [(host, switch), (switch, host)]);
    let link = |(from, to)| {
        let bandwidth = if to == receiver { rate } else { 125_000_000_000 };
        let latency = Span(trip.0 / 4);
        GraphLink { bandwidth: Bandwidth(bandwidth), latency, ..link(from, to) }
    };
    let fabric = GraphFabric {
        npus: senders + 1,
        links: ends.map(link).collect(),
        nodes: (0..=switch).map(|n| GraphNode::npu(format!("n{n}"))).collect(),
        ..GraphFabric::default()
    };
    graph(&fabric, Routing::DModK, settings)
}

fn settings(tcp: Tcp, switch: Switch) -> Settings {
    let tcp = Tcp { window: Bytes(1 << 32), ..tcp };
    Settings { switch, ..Settings::with(Transport::Tcp(tcp)) }
}

/// Lets a network run, and looks at it after each `every`.
fn sample<T>(
    network: &mut Packets,
    every: Span,
    times: u64,
    mut look: impl FnMut(&Packets) -> T,
) -> Vec<T> {
    let mut finished = Vec::new();
    (1..=times)
        .map(|i| {
            let until = Time(every.0 * i - 1);
            while network.next_event().is_some_and(|next| next <= until) {
                network.advance(until, &mut finished);
            }
            look(network)
        })
        .collect()
}

/// RFC 5681, section 3.1: without delayed acknowledgements the window doubles each round trip, with
/// one for two segments it grows by half; counting bytes (RFC 3465) it doubles again.
#[test]
fn slow_start_grows_each_round_trip() {
    let trip = Span(40_000_000_000);
    println!("segments sent in round trips of slow start");
    for (ack_every, limit, factor) in [(1, 1, 2.0f64), (2, 1, 1.5), (2, 2, 2.0)] {
        let tcp = Tcp { ack_every, slow_start_limit: limit, ..Tcp::default() };
        let mut network = bottleneck(1, trip, 125_000_000_000, settings(tcp, Switch::default()));
        network.start(Time::ZERO, transfer(0, 1, 40_000_000, 0));
        let sent = sample(&mut network, trip, 8, |network| network.totals().sent.data);
        let each: Vec<u64> =
            std::iter::once(sent[0]).chain(sent.windows(2).map(|pair| pair[1] - pair[0])).collect();
        println!("an ACK for {ack_every}, {limit} for an ACK: {each:?}");
        assert_eq!(each[0], 10);
        // The acknowledgement of the first segment alone makes the second round trip special.
        for (round, &segments) in each.iter().enumerate().skip(2) {
            let expected = each[1] as f64 * factor.powi(round as i32 - 1);
            assert!((segments as f64 / expected - 1.0).abs() < 0.05, "{round}: {segments}");
        }
    }
}

/// At a bottleneck of C packets a round trip with a buffer of B, NewReno's window swings between W =
/// C + B and W / 2. A period has 3/8 W^2 packets (Mathis et al., CCR 27, 1997: p = 8 / 3 W^2). Below
/// C a round trip takes T, above it T w / C, so a period takes T (C - W/2) + T (W^2 - C^2) / 2C.
#[test]
fn the_sawtooth_at_a_buffer() {
    let (capacity, trip) = (300.0, 0.1);
    let rate = (capacity / trip) * WIRE as f64;
    println!("{:>6} {:>21} {:>21} {:>21}", "B / C", "packets a period", "seconds", "utilization");
    for part in [0.25, 0.5, 1.0] {
        let buffer = Buffer::Port(Bytes((part * capacity) as u64 * WIRE));
        let switch = Switch { buffer, ..Switch::default() };
        let tcp = Tcp { ack_every: 1, rto_min: Span(1_000_000_000_000), ..Tcp::default() };
        let span = Span((trip * 1e12) as u64);
        let mut network = bottleneck(1, span, rate as u64, settings(tcp, switch));
        network.start(Time::ZERO, transfer(0, 1, 1 << 40, 0));
        let totals = sample(&mut network, span, 3000, Packets::totals);
        // Whole periods, from drop to drop, after the first half minute.
        let drops: Vec<usize> =
            (300..3000).filter(|&i| totals[i].events.drops > totals[i - 1].events.drops).collect();
        let (first, last) = (drops[0], drops[drops.len() - 1]);
        let (begin, end) = (&totals[first], &totals[last]);
        let periods = (end.events.drops - begin.events.drops) as f64;
        let packets = (end.sent.data - begin.sent.data) as f64 / periods;
        let seconds = (last - first) as f64 * trip / periods;
        let utilization = packets / (seconds * capacity / trip);
        let (window, half) = (capacity * (1.0 + part), capacity * (1.0 + part) / 2.0);
        let expected = 3.0 / 8.0 * window * window;
        let time = trip * (capacity - half).max(0.0)
            + trip * (window.powi(2) - capacity.max(half).powi(2)) / (2.0 * capacity);
        let most = expected / (time * capacity / trip);
        println!(
            "{part:>6} {packets:>10.0} {expected:>10.0} {seconds:>10.2} {time:>10.2} \
             {utilization:>10.3} {most:>10.3}"
        );
        assert!((packets / expected - 1.0).abs() < 0.1, "{part}: {packets} packets a period");
        assert!((seconds / time - 1.0).abs() < 0.1, "{part}: {seconds} s");
        assert!((utilization / most - 1.0).abs() < 0.03, "{part}: {utilization}");
        assert_eq!(end.events.losses.timeouts, begin.events.losses.timeouts);
    }
}

/// Alizadeh et al., SIGCOMM 2010, section 3.3: with N flows and marks from K packets on, the queue
/// swings between K + N - A and K + N, with A = sqrt(2 N (C RTT + K)) / 2.
#[test]
fn dctcp_keeps_the_queue_at_the_threshold() {
    let (rate, trip) = (1_250_000_000u64, Span(100_000_000));
    println!("{:>3} {:>5} {:>17} {:>17} {:>17}", "N", "K", "mean", "top", "amplitude");
    for (senders, threshold) in [(1u32, 40u64), (2, 40), (2, 65), (10, 65)] {
        let switch =
            Switch { marking: Some(Marking::step(Bytes(threshold * WIRE))), ..Switch::default() };
        let tcp = Tcp { control: TcpControl::Dctcp, ack_every: 1, ..Tcp::default() };
        let mut network = bottleneck(senders, trip, rate, settings(tcp, switch));
        for sender in 0..senders {
            network.start(Time::ZERO, transfer(sender, senders, 1 << 40, sender.into()));
        }
        // Packets that wait on average over a fifth of a round trip.
        let every = Span(20_000_000);
        let waited = sample(&mut network, every, 10_000, |network| {
            network.counters().map(|(_, port)| port.waited.0).max().unwrap_or(0)
        });
        let queue = waited[5000..].windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 2e7);
        let mut queue: Vec<f64> = queue.collect();
        queue.sort_by(f64::total_cmp);
        let mean = queue.iter().sum::<f64>() / queue.len() as f64;
        let (low, top) = (queue[queue.len() / 50], queue[queue.len() * 49 / 50]);
        let (n, k) = (f64::from(senders), threshold as f64);
        let pipe = rate as f64 * 100e-6 / WIRE as f64;
        let amplitude = (2.0 * n * (pipe + k)).sqrt() / 2.0;
        println!(
            "{senders:>3} {threshold:>5} {mean:>8.1} {:>8.1} {top:>8.1} {:>8.1} {:>8.1} {amplitude:>8.1}",
            k + n - amplitude / 2.0,
            k + n,
            top - low
        );
        let (middle, top_expected) = (k + n - amplitude / 2.0, k + n);
        assert!((mean / middle - 1.0).abs() < 0.1, "mean {mean}");
        assert!((top / top_expected - 1.0).abs() < 0.1, "top {top}");
        assert!(((top - low) / amplitude - 1.0).abs() < 0.25, "amplitude {}", top - low);
        assert_eq!(network.totals().events.drops, 0);
    }
}
