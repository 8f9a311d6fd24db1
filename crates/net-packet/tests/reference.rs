//! The direct all-reduce of 128 hosts against ns-3.

mod common;

use common::{Order, all_reduce, flat};
use net_packet::{Buffer, Control, Settings, Switch, Tcp, Transport};
use units::{Bytes, Span};

/// The settings of the reference runs.
fn reference(mtu: u16, buffer: u64) -> Settings {
    let tcp = Tcp {
        control: Control::NewReno,
        window: Bytes(500_000),
        rto_min: Span(50_000_000_000),
        ack_delay: Span(1_000_000_000),
        ..Tcp::default()
    };
    let switch = Switch { buffer: Buffer::Port(Bytes(buffer)), ..Switch::default() };
    Settings { mtu, framing: 2, switch, ..Settings::with(Transport::Tcp(tcp)) }
}

#[test]
fn table() {
    let rotation = Order::Rotation;
    let random = Order::Random(1);
    let rows = [
        (8_000_000, 500_000, 1500, rotation, 1320.651),
        (8_000_000, 500_000, 4096, rotation, 1288.797),
        (8_000_000, 500_000, 9000, rotation, 1279.294),
        (16_000_000, 500_000, 1500, rotation, 2637.26),
        (16_000_000, 7_812_500, 9000, rotation, 2556.605),
        (32_000_000, 500_000, 9000, rotation, 5115.274),
        (8_000_000, 7_812_500, 1500, random, 1749.628),
        (8_000_000, 7_812_500, 4096, random, 1629.755),
        (8_000_000, 7_812_500, 9000, random, 1380.651),
        (16_000_000, 7_812_500, 1500, random, 3359.412),
        (16_000_000, 7_812_500, 4096, random, 3073.617),
        (16_000_000, 7_812_500, 9000, random, 3225.616),
        (8_000_000, 500_000, 9000, random, 54769.955),
        (8_000_000, 7_812_500, 9000, Order::Ascending, 54805.448),
        (16_000_000, 500_000, 9000, random, 102478.388),
        (8_000_000, 500_000, 1500, random, 105213.686),
        (8_000_000, 500_000, 1500, Order::Ascending, 102844.944),
    ];
    for (bytes, buffer, mtu, order, expected) in rows {
        let begin = std::time::Instant::now();
        let mut network = flat(128, reference(mtu, buffer));
        let time = all_reduce(&mut network, 128, bytes, order);
        let t = network.totals();
        let us = time.0 as f64 / 1e6;
        let s = begin.elapsed().as_secs_f64();
        println!(
            "{bytes:>9} {buffer:>8} {mtu:>5} {order:?} {us:>12.3} {expected:>12.3} {:>7.2}% drops {} retx {} rto {} rec {} q {} | {:.2} M hops/s {} hops",
            (us / expected - 1.0) * 100.0,
            t.drops,
            t.losses.retransmits,
            t.losses.timeouts,
            t.losses.recoveries,
            t.longest_queue,
            t.hops as f64 / 1e6 / s,
            t.hops
        );
    }
}
