//! Settings of the packet backend: what is read, and wrong values against their exact message.

use super::*;
use crate::Platform;
use crate::config::native::{from_yaml, to_yaml};
use units::Bandwidth;

fn read(packet: &str) -> Result<Platform, Vec<String>> {
    let text = format!(
        "topology: Switch(4)\nlinks: {{bandwidth: 100 Gb/s, latency: 500 ns}}\nnetwork:\n  packet: {packet}\n"
    );
    let shown = |problem: &graph::Problem| problem.to_string();
    from_yaml(&text, "p.yml", &[]).map_err(|all| all.iter().map(shown).collect())
}

fn packet(text: &str) -> Packet {
    read(text).expect("settings").network.packet.expect("a section")
}

#[test]
fn a_plain_value_is_a_buffer_of_each_port_a_step_or_a_pause_without_hysteresis() {
    let found = packet("{buffer: 500 kB, marking: 65 kB, pause: 200 kB}");
    let buffer = Buffer { per_port: Some(Bytes(500_000)), shared: None, alpha: None };
    assert_eq!(found.buffer, Some(buffer));
    let step = Bytes(65_000);
    assert_eq!(found.marking, Some(Marking { from: step, to: step, probability: Ratio::ONE }));
    let pause = Bytes(200_000);
    assert_eq!(found.pause, Some(Pause { above: pause, below: pause }));
    assert_eq!((found.header_bytes(), found.tcp), (Bytes(40), None));
}

#[test]
fn every_key_reads_back_as_printed() {
    let text = "{transport: rdma, mtu: 4096, headers: 60, framing: 24, injection_latency: 2 us, \
                buffer: {shared: 32 MiB, alpha: 0.5}, \
                marking: {from: 5 kB, to: 200 kB, probability: 1 %}, control_first: true, \
                small_messages_first: 64 KiB, tick: 1 ns, spraying: shortest_queue, skip: 1 %, pause: {above: 100 kB, below: 50 kB}, \
                rdma: {window: 2 MiB, ack_every: 1, recovery: selective, reordering: 3, timeout: 1 ms, \
                congestion_control: dcqcn, dcqcn: {report_interval: 4 us, gain: 0.25, \
                alpha_interval: 1 us, rate_interval: 300 us, rate_bytes: 1 MB, recovery_steps: 1, \
                additive_increase: 1 Gb/s, hyper_increase: 2 Gb/s, rate_min: 1 Gb/s}}}";
    let platform = read(text).expect("settings");
    let again = from_yaml(&to_yaml(&platform), "p.yml", &[]).expect("settings");
    assert_eq!(again.network, platform.network);
    let rdma = platform.network.packet.and_then(|packet| packet.rdma).expect("RDMA");
    assert_eq!((rdma.ack_every, rdma.recovery), (1, RdmaRecovery::Selective));
    assert_eq!(rdma.dcqcn.expect("DCQCN").rate_min, Bandwidth(125_000_000));
    let text = "{tcp: {congestion_control: dctcp, initial_window: 3, window: 500 kB, ack_every: 1, \
                ack_delay: 1 ms, sack: false, rto_min: 50 ms, rto_max: 2 s, recovery: half, threshold: pipe, rescue: always, resent_in_pipe: true, slow_start_limit: 2, hystart: true, prompt_acks: 0, \
                restart_after_idle: false}}";
    let platform = read(text).expect("settings");
    let again = from_yaml(&to_yaml(&platform), "p.yml", &[]).expect("settings");
    assert_eq!(again.network, platform.network);
    let tcp = platform.network.packet.and_then(|packet| packet.tcp).expect("TCP");
    assert_eq!((tcp.congestion_control, tcp.initial_window), (TcpControl::Dctcp, 3));
    assert_eq!((tcp.rto_min, tcp.restart_after_idle), (Span(50_000_000_000), false));
}

/// Settings, the place below `network.packet`, what is wrong, what is allowed.
const WRONG: [(&str, &str, &str, &str); 20] = [
    (
        "{mtu: 40}",
        ".mtu",
        "an MTU of 40 B leaves no byte for data: headers take 40 B",
        "more than 40, at most 65000",
    ),
    (
        "{transport: rdma, mtu: 44}",
        ".mtu",
        "an MTU of 44 B leaves no byte for data: headers take 44 B",
        "more than 44, at most 65000",
    ),
    ("{mtu: 65001}", ".mtu", "an MTU of 65001 B", "more than 40, at most 65000"),
    (
        "{headers: 1500}",
        "",
        "an MTU of 1500 B leaves no byte for data: headers take 1500 B",
        "more than 1500, at most 65000",
    ),
    ("{mtu: 65000, framing: 536}", ".framing", "536 B around each packet", "at most 535"),
    (
        "{buffer: 0 B}",
        ".buffer",
        "0 B hold no packet of 1538 B (MTU and framing)",
        "at least 1538 B",
    ),
    (
        "{buffer: {per_port: 1537 B}}",
        ".buffer.per_port",
        "1.537 kB hold no packet of 1538 B (MTU and framing)",
        "at least 1538 B",
    ),
    (
        "{buffer: {shared: 3 kB, alpha: 0.5}}",
        ".buffer.shared",
        "3 kB shared with \"alpha\" 0.5 hold no packet of 1538 B (MTU and framing)",
        "at least 1538 B",
    ),
    (
        "{buffer: {shared: 1 MB, per_port: 1 MB}}",
        ".buffer",
        "two kinds of buffer",
        "per_port, or shared with alpha",
    ),
    ("{buffer: {}}", ".buffer", "a buffer without a size", "per_port, or shared with alpha"),
    (
        "{buffer: {per_port: 1 MB, alpha: 1}}",
        ".buffer.alpha",
        "\"alpha\" without \"shared\"",
        "shared with alpha",
    ),
    (
        "{marking: {from: 2 kB, to: 1 kB}}",
        ".marking",
        "marking ends at 1 kB, before it begins at 2 kB",
        "\"from\" up to \"to\"",
    ),
    (
        "{marking: {from: 2 kB, probability: 1.1}}",
        ".marking.probability",
        "\"probability\" is 1.1",
        "above 0, at most 1 (100 %)",
    ),
    (
        "{pause: {above: 1 kB, below: 2 kB}}",
        ".pause",
        "links paused above 1 kB resume at 2 kB",
        "\"below\" at most \"above\"",
    ),
    (
        "{tcp: {window: 1459 B}}",
        ".tcp.window",
        "a window of 1.459 kB holds no segment of 1460 B (MTU less headers)",
        "at least 1460 B",
    ),
    ("{tcp: {rto_min: 0 ns}}", ".tcp.rto_min", "\"rto_min\" is 0 ns", "a time above 0"),
    (
        "{tcp: {rto_min: 2 s, rto_max: 1 s}}",
        ".tcp.rto_min",
        "\"rto_min\" 2 s is above \"rto_max\" 1 s",
        "at most \"rto_max\"",
    ),
    (
        "{transport: rdma, rdma: {window: 1455 B}}",
        ".rdma.window",
        "a window of 1.455 kB holds no segment of 1456 B (MTU less headers)",
        "at least 1456 B",
    ),
    (
        "{transport: rdma, rdma: {timeout: 0 ns}}",
        ".rdma.timeout",
        "\"timeout\" is 0 ns",
        "a time above 0",
    ),
    (
        "{transport: rdma, rdma: {dcqcn: {rate_interval: 0 ns}}}",
        ".rdma.dcqcn.rate_interval",
        "\"rate_interval\" is 0 ns",
        "a time above 0",
    ),
];

#[test]
fn values_that_cannot_be_are_named() {
    for (text, place, message, allowed) in WRONG {
        let expected =
            format!("p.yml: line 4, network.packet{place}: {message} (allowed: {allowed})");
        assert_eq!(read(text).expect_err(text), [expected], "{text}");
    }
}

#[test]
fn nothing_is_not_a_count_nor_a_ratio() {
    for (text, place, allowed) in [
        ("{tcp: {initial_window: 0}}", "tcp.initial_window", "a whole number from 1"),
        ("{tcp: {ack_every: 0}}", "tcp.ack_every", "a whole number from 1"),
        ("{transport: rdma, rdma: {ack_every: 0}}", "rdma.ack_every", "a whole number from 1"),
        ("{buffer: {shared: 1 MB, alpha: 0}}", "buffer.alpha", "a number of at least a millionth"),
        (
            "{marking: {from: 1 kB, probability: 0}}",
            "marking.probability",
            "a number of at least a millionth",
        ),
    ] {
        let [problem] = &read(text).expect_err(text)[..] else { panic!("{text}") };
        assert!(problem.contains(&format!("network.packet.{place}: ")), "{problem}");
        assert!(problem.contains(&format!("(allowed: {allowed}")), "{problem}");
    }
}

#[test]
fn a_timeout_below_the_delay_of_acknowledgements_is_doubted() {
    let doubt = |text: &str| packet(text).doubt();
    let [said] = &doubt("{tcp: {rto_min: 10 ms}}")[..] else { panic!("no doubt") };
    assert!(said.contains("rto_min (10 ms) is below ack_delay (40 ms)"), "{said}");
    let none: [String; 0] = [];
    assert_eq!(doubt("{tcp: {rto_min: 40 ms}}"), none);
    assert_eq!(doubt("{tcp: {rto_min: 10 ms, ack_every: 1}}"), none);
    assert_eq!(doubt("{transport: rdma}"), none);
}

#[test]
fn keys_of_the_other_transport_have_no_effect() {
    let warnings = |text: &str| read(text).expect("settings").warnings;
    assert_eq!(
        warnings("{rdma: {window: 0 B}}"),
        ["network.packet.rdma has no effect with transport: tcp"]
    );
    assert_eq!(
        warnings("{transport: rdma, tcp: {rto_min: 0 ns}}"),
        ["network.packet.tcp has no effect with transport: rdma"]
    );
    assert_eq!(
        warnings("{transport: rdma, rdma: {congestion_control: none, dcqcn: {gain: 1}}}"),
        ["network.packet.rdma.dcqcn has no effect with congestion_control: none"]
    );
}

/// Each key with a setting that leaves it without effect.
#[test]
fn keys_that_others_leave_without_effect_are_named() {
    let warnings = |text: &str| read(text).expect("settings").warnings;
    for (text, expected) in [
        ("{tcp: {hystart: true}}", "tcp.hystart has no effect with congestion_control: new_reno"),
        ("{ties: drawn}", "ties has no effect without a buffer or marking"),
        ("{seed: 3}", "seed has no effect where nothing is drawn"),
        ("{seed: 3, buffer: 9 kB, ties: in_order}", "seed has no effect where nothing is drawn"),
        ("{seed: 3, buffer: 9 kB, like: ns3}", "seed has no effect where nothing is drawn"),
        (
            "{marking: {from: 9 kB, probability: 0.5}}",
            "marking.probability has no effect where all packets are marked from one queue on",
        ),
        (
            "{tcp: {ack_every: 1, prompt_acks: 2}}",
            "tcp.prompt_acks has no effect with ack_every: 1",
        ),
        ("{tcp: {sack: false, rescue: once}}", "tcp.rescue has no effect with sack: false"),
        (
            "{transport: rdma, marking: 9 kB, rdma: {congestion_control: none}}",
            "marking has no effect with rdma.congestion_control: none",
        ),
        (
            "{transport: rdma, rdma: {dcqcn: {gain: 0.5}}}",
            "rdma.dcqcn has no effect without marking: no congestion is reported",
        ),
        (
            "{transport: rdma, rdma: {reordering: 3}}",
            "rdma.reordering has no effect with recovery: go_back_n",
        ),
        ("{transport: rdma, like: ns3}", "like has no effect with transport: rdma"),
        ("{spraying: in_turns}", "spraying has no effect without routing: spray"),
    ] {
        assert_eq!(warnings(text), [format!("network.packet.{expected}")], "{text}");
    }
    let used = "{like: ns3, buffer: 9 kB, ties: drawn, seed: 3, marking: {from: 3 kB, to: 6 kB, probability: \
                0.5}, tcp: {congestion_control: cubic, hystart: true, rescue: once}}";
    assert_eq!(warnings(used), [] as [String; 0]);
    let [said] = &packet("{tcp: {congestion_control: dctcp}}").doubt()[..] else { panic!("none") };
    assert!(said.contains("behaves as new_reno without network.packet.marking"), "{said}");
}
