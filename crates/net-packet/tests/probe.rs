mod common;
use common::{Order, flat};
use net_packet::{Settings, Tcp, Reduction};
use network::{Backend, Transfer};
use units::{Bytes, Span, Time};
#[test]
fn probe() {
    for (reduction, sack) in [(Reduction::Proportional, true), (Reduction::Half, true), (Reduction::Half, false)] {
    for seed in 1..4 {
    let settings = Settings { mtu: 9000, header: 40, framing: 2, buffer: Some(Bytes(500_000)), mark_above: None,
        tcp: Tcp { window: Bytes(500_000), rto_min: Span(50_000_000_000), ack_delay: Span(1_000_000_000), reduction, sack, ..Tcp::default() } };
    let hosts = 128u32; let part = 16_000_000u64 / 128;
    let mut net = flat(hosts, settings);
    let orders: Vec<Vec<u32>> = (0..hosts).map(|h| Order::Random(seed).of(hosts, h)).collect();
    let go = |net: &mut net_packet::Packets, now, step: u64, host: u32| for &dst in &orders[host as usize] {
        let token = (step * 128 + host as u64) * 128 + dst as u64;
        net.start(now, Transfer { src: host, dst, bytes: part, paced: part, token, weight: 1 });
    };
    for h in 0..hosts { go(&mut net, Time(0), 0, h); }
    let mut missing = vec![127; 128]; let mut left = 2 * 128 * 127; let mut fin = vec![]; let mut mark = 0u64; let mut started = 0;
    while left > 0 {
        let next = net.next_event().unwrap();
        if next.0 / 200_000_000 > mark { let t = net.totals();
            if mark < 40 || mark % 50 == 0 && mark > 200 { println!("{:>8.1} ms: left {left} ag started {started} drops {} retx {} rec {} rto {}", mark as f64 * 0.2, t.drops, t.losses.retransmits, t.losses.recoveries, t.losses.timeouts); }
            mark = next.0 / 200_000_000; }
        net.advance(next, &mut fin);
        for d in fin.drain(..) { left -= 1; let dst = (d.token % 128) as usize; if d.token < 128 * 128 { missing[dst] -= 1; if missing[dst] == 0 { started += 1; go(&mut net, d.time, 1, dst as u32); } } 
        if left == 0 { let t = net.totals(); println!("{reduction:?} sack {sack} seed {seed} end {} drops {} retx {} rec {} rto {}", d.time.0 as f64 / 1e6, t.drops, t.losses.retransmits, t.losses.recoveries, t.losses.timeouts); } }
    }
    }}
}
