//! ns-3 behind the contract (`adapters/ns3`). The tests build the adapter where Debian's libns3-dev is
//! installed, and skip elsewhere.

mod common;

use common::{backend, example_in_ns3};
use net_external::External;
use network::{Backend, Transfer, conformance};
use units::{Span, Time};

fn one(src: u32, dst: u32, bytes: u64, token: u64) -> Transfer {
    Transfer { src, dst, bytes, paced: bytes, token, weight: 1 }
}

/// 24 messages among eight NPUs, three every 2 us.
fn traffic() -> Vec<(Time, Transfer)> {
    let message = |at: u64| {
        let src = (at * 5 % 8) as u32;
        let dst = (src + 1 + (at / 3 % 7) as u32) % 8;
        let bytes = [0, 1, 1000, 20_000, 300_000][(at % 5) as usize];
        (Time(at / 3 * 2_000_000), one(src, dst, bytes, at))
    };
    (0..24).map(message).collect()
}

/// A message takes one of the at most three links of its NPU, which the minimum counts together. With
/// an acknowledgement for every second packet, slow start adds half of the window in each round trip:
/// 10, 15, 22, ... packets are 300 kB after seven. A packet of 1.5 kB is stored on at most three links,
/// so there and back takes no longer than twice 6 kB would alone.
fn bound(backend: &External, transfer: &Transfer) -> Span {
    let least = |bytes| backend.physical_minimum(transfer.src, transfer.dst, bytes);
    least(transfer.bytes * 3) + least(6000) * 14
}

#[test]
fn it_keeps_the_contract() {
    let Some(command) = example_in_ns3() else { return };
    for name in ["Ring(8)", "Switch(8)", "Ring(4)_Switch(2)"] {
        let make = || backend(&command, name, 60.0);
        assert_eq!(conformance::check(make, &traffic(), bound), Ok(()), "{name}");
    }
}

/// Ten packets of 1,460 B are the initial window of a connection: one after the other they leave at
/// 10 GB/s, 1,502 B with headers (20 B of IP, 20 B of TCP, 2 B of the point-to-point protocol). The
/// adapter sees a send 1 ps late, as ns-3 does with all of them.
#[test]
fn a_short_message_takes_the_time_of_its_packets() {
    let Some(command) = example_in_ns3() else { return };
    let mut network = backend(&command, "Ring(4)", 60.0);
    let done = conformance::run(&mut network, &[(Time::ZERO, one(0, 1, 14_600, 1))]);
    let time = done.expect("it runs")[0].time;
    assert_eq!(time, Time(10 * 150_200 + 500_000 + 1));
    let usage = network.usage();
    let packets = usage.packets.expect("ns-3 has packets");
    assert_eq!((packets.data, packets.drops, packets.losses.timeouts), (10, 0, 0));
    let there = usage.links.iter().find(|link| (link.from, link.to) == (0, 1)).expect("a link");
    assert_eq!((there.bytes, there.messages), (10 * 1502, 10));
}

#[test]
fn what_it_does_not_have_is_refused() {
    let Some(command) = example_in_ns3() else { return };
    let refusal = |options: &str| {
        let mut network = backend(&format!("{command} {options}"), "Ring(4)", 60.0);
        conformance::run(&mut network, &[(Time::ZERO, one(0, 1, 1, 1))]).expect_err(options)
    };
    let said = "the simulator reports: ";
    assert!(
        refusal("--speed=9").starts_with(&format!("{said}invalid option --speed=9; allowed: "))
    );
    assert_eq!(refusal("--tcp=TcpNone"), format!("{said}ns-3 has no type TcpNone"));
    assert_eq!(refusal("--mtu=many"), format!("{said}mtu: invalid number: many"));
}
