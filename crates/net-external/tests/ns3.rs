//! ns-3 behind the contract (`adapters/ns3`), a live peer: `make peers PEERS=ns3` runs these tests. They
//! build the adapter, which needs Debian's libns3-dev.

mod common;

use common::{backend, example_in_ns3};
use net_external::External;
use network::{Backend, PacketUsage, Transfer, conformance};
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
#[ignore = "a live peer: make peers"]
fn it_keeps_the_contract() {
    let command = example_in_ns3();
    for name in ["Ring(8)", "Switch(8)", "Ring(4)_Switch(2)"] {
        let make = || backend(&command, name, 60.0);
        assert_eq!(conformance::check(make, &traffic(), bound), Ok(()), "{name}");
    }
}

/// Ten packets of 1,460 B are the initial window of a connection: one after the other they leave at
/// 10 GB/s, 1,502 B with headers (20 B of IP, 20 B of TCP, 2 B of the point-to-point protocol). The
/// adapter sees a send 1 ps late, as ns-3 does with all of them.
#[test]
#[ignore = "a live peer: make peers"]
fn a_short_message_takes_the_time_of_its_packets() {
    let command = example_in_ns3();
    let mut network = backend(&command, "Ring(4)", 60.0);
    let done = conformance::run(&mut network, &[(Time::ZERO, one(0, 1, 14_600, 1))]);
    let time = done.expect("it runs")[0].time;
    assert_eq!(time, Time(10 * 150_200 + 500_000 + 1));
    let usage = network.usage(Time::MAX);
    let packets = usage.packets.expect("ns-3 has packets");
    assert_eq!(
        (packets.sent.data, packets.events.drops, packets.events.losses.timeouts),
        (10, 0, 0)
    );
    let there = usage.links.iter().find(|link| (link.from, link.to) == (0, 1)).expect("a link");
    assert_eq!((there.bytes, there.messages), (10 * 1502, 10));
}

/// Two links of a switch: eleven packets of 1,502 B one after the other, and twice 500 ns.
const BEHIND_A_SWITCH: Time = Time(11 * 150_200 + 1_000_000 + 1);
const DISCIPLINES: [&str; 11] = [
    "PfifoFast",
    "Red",
    "Fifo",
    "CoDel",
    "Pie",
    "Cobalt",
    "Tbf",
    "Prio",
    "FqCoDel",
    "FqPie",
    "FqCobalt",
];

/// Without a queue no discipline changes a time. With one, none holds more than its room of 30
/// packets of 1,500 B; the fair ones take one more before they drop one. A token bucket sends at the
/// rate of the links.
#[test]
#[ignore = "a live peer: make peers"]
fn queue_disciplines_hold_what_their_ports_have_room_for() {
    let command = example_in_ns3();
    for name in DISCIPLINES {
        let disc = format!(
            "{command} --queue-disc={name}QueueDisc --buffer=45000 --rto-min-us=1000 \
             --attribute=ns3::TbfQueueDisc::Rate=80Gbps --attribute=ns3::TbfQueueDisc::Burst=1000000"
        );
        let mut network = backend(&disc, "Switch(8)", 60.0);
        let done = conformance::run(&mut network, &[(Time::ZERO, one(0, 1, 14_600, 1))]);
        assert_eq!(done.expect(name)[0].time, BEHIND_A_SWITCH, "{name}");
        let (_, packets) = incast(&disc, 7, 100_000);
        assert!(
            packets.events.drops > 0 && packets.events.losses.retransmits >= packets.events.drops,
            "{name}"
        );
        assert!((15_000..=46_500).contains(&packets.events.longest_queue), "{name}: {packets:?}");
    }
}

/// `senders` send to NPU 0 of eight at one switch at once: when the last message has arrived, ps, and
/// what became of the packets.
fn incast(command: &str, senders: u32, bytes: u64) -> (u64, PacketUsage) {
    let mut network = backend(command, "Switch(8)", 60.0);
    let messages: Vec<(Time, Transfer)> =
        (1..=senders).map(|src| (Time::ZERO, one(src, 0, bytes, src.into()))).collect();
    let done = conformance::run(&mut network, &messages).expect(command);
    assert_eq!(done.len(), messages.len(), "{command}");
    let last = done.last().expect("some arrive").time.0;
    (last, *network.usage(Time::MAX).packets.expect("ns-3 has packets"))
}

/// Of four packets that meet at a port one leaves and one has room. The two others are sent again
/// together, a timeout later.
#[test]
#[ignore = "a live peer: make peers"]
fn a_lost_packet_waits_for_the_timeout() {
    let command = example_in_ns3();
    let lossy = format!("{command} --buffer=1502 --rto-min-us=5000");
    let (last, packets) = incast(&lossy, 4, 1460);
    assert_eq!((packets.events.drops, packets.events.losses.timeouts), (2, 2));
    assert_eq!(last, 5_000_000_000 + 3 * 150_200 + 1_000_000 + 1);
}

#[test]
#[ignore = "a live peer: make peers"]
fn every_recovery_of_ns3_runs() {
    let command = example_in_ns3();
    for name in ["TcpPrrRecovery", "TcpClassicRecovery"] {
        let (_, packets) =
            incast(&format!("{command} --buffer=45000 --recovery={name}"), 4, 300_000);
        assert!(packets.events.losses.fast_recoveries > 0, "{name}: {packets:?}");
    }
}

/// The initial window needs no acknowledgement, so every congestion control sends it alike. (BBR
/// spreads it over time.)
#[test]
#[ignore = "a live peer: make peers"]
fn every_congestion_control_of_ns3_runs() {
    let command = example_in_ns3();
    for name in [
        "NewReno",
        "LinuxReno",
        "Cubic",
        "Dctcp",
        "Bic",
        "Htcp",
        "Hybla",
        "HighSpeed",
        "Illinois",
        "Ledbat",
        "Lp",
        "Scalable",
        "Vegas",
        "Veno",
        "Westwood",
        "Yeah",
        "Bbr",
    ] {
        let mut network = backend(&format!("{command} --tcp=Tcp{name}"), "Switch(8)", 60.0);
        let done = conformance::run(&mut network, &[(Time::ZERO, one(0, 1, 14_600, 1))]);
        let time = done.expect(name)[0].time;
        assert!(
            time == BEHIND_A_SWITCH || name == "Bbr" && time > BEHIND_A_SWITCH,
            "{name}: {time:?}"
        );
    }
}

/// One message from 0 to 1 behind a switch: when it arrives, ps.
fn arrival(command: &str, bytes: u64) -> u64 {
    let mut network = backend(command, "Switch(8)", 60.0);
    let done = conformance::run(&mut network, &[(Time::ZERO, one(0, 1, bytes, 1))]);
    done.expect(command)[0].time.0
}

/// Packets of 9,002 B: two and the storing of one. An initial window of one segment: the rest waits
/// for its acknowledgement of 42 B, there and back. A window of two segments: two packets leave for
/// each acknowledgement that comes back.
#[test]
#[ignore = "a live peer: make peers"]
fn sizes_of_packets_and_windows_are_those_of_the_command() {
    let command = example_in_ns3();
    let (packet, answer) = (1_000_000 + 2 * 150_200, 1_000_000 + 2 * 4_200);
    let two = 2 * 8960;
    assert_eq!(arrival(&format!("{command} --mtu=9000"), two), 3 * 900_200 + 1_000_000 + 1);
    let slow = format!("{command} --initial-window=1");
    assert_eq!(arrival(&slow, 3 * 1460), 2 * packet + answer + 150_200 + 1);
    let narrow = format!("{command} --window=2920 --ack-every=1");
    assert_eq!(arrival(&narrow, 3 * 1460), 2 * packet + answer + 1);
    // The second packet is alone: its acknowledgement waits for a third one that cannot leave.
    let late = format!("{command} --window=1460 --ack-delay-us=100");
    assert_eq!(arrival(&late, 3 * 1460), 3 * packet + 2 * answer + 100_000_000 + 1);
    let exact = arrival(&command, 14_600);
    // A handshake comes first: two packets without data, with options of TCP.
    let opened = arrival(&format!("{command} --open-all=0"), 14_600);
    assert!((2 * 1_008_400..2 * 1_020_000).contains(&(opened - exact)), "{opened} {exact}");
    let whole = arrival(&format!("{command} --resolution=ns"), 14_600);
    assert_eq!((whole % 1000, whole.abs_diff(exact) < 12_000), (0, true));
}

#[test]
#[ignore = "a live peer: make peers"]
fn what_it_does_not_have_is_refused() {
    let command = example_in_ns3();
    let refusal = |options: &str| {
        let mut network = backend(&format!("{command} {options}"), "Ring(4)", 60.0);
        conformance::run(&mut network, &[(Time::ZERO, one(0, 1, 1, 1))]).expect_err(options)
    };
    let said = "the simulator reports: ";
    assert!(
        refusal("--speed=9").starts_with(&format!("{said}invalid option --speed=9; allowed: "))
    );
    assert_eq!(refusal("--tcp=TcpNone"), format!("{said}ns-3 has no type TcpNone"));
    let kinds = "allowed: types of the kind ns3::TcpCongestionOps";
    assert_eq!(refusal("--tcp=Node"), format!("{said}invalid type: Node; {kinds}"));
    assert_eq!(
        refusal("--window=9"),
        format!("{said}invalid window: 9; allowed: 1460 to 1073741824")
    );
    assert_eq!(refusal("--mtu=many"), format!("{said}mtu: invalid number: many"));
}
