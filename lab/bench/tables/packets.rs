//! Packets: hops a second of an all-to-all between 128 hosts at one switch, next to those of ns-3
//! and htsim on the same kind of machine, and long transfers with steady states skipped.

use crate::{Arguments, cells, child as measured, digits, head};
use benches::clock::{Effort, peak_memory_mb};
use net_packet::{Buffer, Packets, Settings, Switch, Tcp, Transport};
use network::{Backend, PacketUsage, Transfer};
use peers::packets::{Order, all_reduce, star};
use std::io;
use units::{Bandwidth, Bytes, Ratio, Span, Time};

const BANDWIDTH: Bandwidth = Bandwidth(12_500_000_000);
const LATENCY: Span = Span::from_ns(500);
const PERCENT: Ratio = Ratio(Ratio::ONE.0 / 100);

const HOSTS: u32 = 128;
const BYTES: u64 = 16_000_000;

/// Name, maximum transmission unit, order of destinations, and the hops a second of ns-3 and of
/// htsim, in millions: reference runs with the same bytes and buffers.
const CASES: [(&str, u16, Order, &str, &str); 4] = [
    ("rotation, MTU 9000", 9000, Order::Rotation, "0.09-0.11", "2.4-2.9"),
    ("rotation, MTU 1500", 1500, Order::Rotation, "0.09-0.11", "2.4-2.9"),
    ("random, MTU 9000", 9000, Order::Random(1), "0.09-0.11", "0.6-1.4"),
    ("random, MTU 1500", 1500, Order::Random(1), "0.09-0.11", "0.6-1.4"),
];

pub fn table(arguments: &Arguments) -> io::Result<()> {
    head(
        "Packets: direct all-reduce of 16 MB, 128 hosts, 16,256 connections, full TCP, 1 GB buffer",
        &[
            "order",
            "M hops",
            "CPU s",
            "M hops/s",
            "peak memory MB",
            "ns-3 M hops/s",
            "htsim M hops/s",
        ],
    );
    for (at, (name, _, _, ns3, htsim)) in CASES.into_iter().enumerate() {
        if arguments.row(name) {
            let runs = if arguments.quick { "1" } else { "5" };
            let found = measured(&["packets", &at.to_string(), runs])?;
            cells(&[name, &found[0], &found[1], &found[2], &found[3], ns3, htsim]);
        }
    }
    head(
        "Packets: ring of 16 hosts, each sends to the next, steady states skipped to 1 %",
        &[
            "bytes each",
            "CPU ms, every packet",
            "CPU ms, skipped",
            "ratio",
            "difference of the end",
        ],
    );
    let sizes: &[u64] =
        if arguments.quick { &[100_000_000] } else { &[1_000_000_000, 10_000_000_000] };
    for &bytes in sizes {
        if arguments.row("skip") {
            skipped(arguments, bytes);
        }
    }
    Ok(())
}

fn settings(mtu: u16) -> Settings {
    let tcp = Tcp {
        window: Bytes(500_000),
        rto_min: Span(50_000_000_000),
        ack_delay: Span(1_000_000_000),
        ..Tcp::default()
    };
    let switch = Switch { buffer: Buffer::Port(Bytes(7_812_500)), ..Switch::default() };
    Settings { mtu, framing: 2, switch, ..Settings::with(Transport::Tcp(tcp)) }
}

/// Prints millions of hops, CPU seconds, millions of hops a second and megabytes of `[case, runs]`.
pub fn child(words: &[String]) -> io::Result<()> {
    let number = |i: usize| words[i].parse::<u32>().map_err(io::Error::other);
    let (_, mtu, order, _, _) = CASES[number(0)? as usize];
    let effort = Effort { runs: number(1)?, ..Effort::FULL };
    let (seconds, totals) = effort.least(|| all_to_all(mtu, order));
    let hops = totals?.sent.hops as f64 / 1e6;
    let memory = peak_memory_mb().map_or("?".into(), digits);
    println!("{} {} {} {memory}", digits(hops), digits(seconds), digits(hops / seconds));
    Ok(())
}

fn all_to_all(mtu: u16, order: Order) -> io::Result<PacketUsage> {
    let mut network = star(HOSTS, (BANDWIDTH, LATENCY), settings(mtu)).map_err(io::Error::other)?;
    all_reduce(&mut network, HOSTS, BYTES, order).ok_or_else(|| io::Error::other("stuck"))?;
    Ok(network.totals())
}

fn skipped(arguments: &Arguments, bytes: u64) {
    let network = || star(16, (BANDWIDTH, LATENCY), settings(9000)).expect("few links");
    let (whole, end) = arguments.effort().least(|| ring(network(), bytes));
    let (quick, early) = arguments.effort().least(|| ring(network().with_skipping(PERCENT), bytes));
    cells(&[
        bytes.to_string(),
        digits(whole * 1e3),
        digits(quick * 1e3),
        digits(whole / quick),
        format!("{:.4} %", 100.0 * (early.0 as f64 / end.0 as f64 - 1.0)),
    ]);
}

fn ring(mut network: Packets, bytes: u64) -> Time {
    for src in 0..16 {
        let transfer = Transfer {
            src,
            dst: (src + 1) % 16,
            bytes,
            paced: bytes,
            token: src.into(),
            weight: 1,
        };
        network.start(Time::ZERO, transfer);
    }
    let (mut finished, mut last) = (Vec::new(), Time::ZERO);
    while network.next_event().is_some() {
        network.advance(Time::MAX, &mut finished);
        last = finished.drain(..).map(|delivery| delivery.time).fold(last, Time::max);
    }
    last
}
