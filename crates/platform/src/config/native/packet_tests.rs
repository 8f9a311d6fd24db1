//! Settings of the packet backend: what is read, and wrong values against their exact message.

use super::{from_yaml, to_yaml};
use crate::Platform;
use declared::ByDim;
use net_settings::packet::*;
use units::{Bandwidth, Bytes, Ratio, Span};

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
    assert_eq!(found.buffer, ByDim::All(Some(buffer)));
    let step = Bytes(65_000);
    let marking = Marking { from: step, to: step, probability: Ratio::ONE };
    assert_eq!(found.marking, ByDim::All(Some(marking)));
    let pause = Bytes(200_000);
    assert_eq!(found.pause, ByDim::All(Some(Pause { above: pause, below: pause })));
    assert_eq!((found.protocol(0).headers, found.tcp), (40, ByDim::All(None)));
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
    let rdma = platform.network.packet.expect("packets").protocol(0).rdma;
    assert_eq!((rdma.ack_every, rdma.recovery), (1, RdmaRecovery::Selective));
    assert_eq!(rdma.dcqcn.expect("DCQCN").rate_min, Bandwidth(125_000_000));
    let text = "{tcp: {congestion_control: dctcp, initial_window: 3, window: 500 kB, ack_every: 1, \
                ack_delay: 1 ms, sack: false, rto_min: 50 ms, rto_max: 2 s, recovery: half, threshold: pipe, rescue: always, resent_in_pipe: true, slow_start_limit: 2, hystart: true, prompt_acks: 0, \
                restart_after_idle: false}}";
    let platform = read(text).expect("settings");
    let again = from_yaml(&to_yaml(&platform), "p.yml", &[]).expect("settings");
    assert_eq!(again.network, platform.network);
    let tcp = platform.network.packet.expect("packets").protocol(0).tcp;
    assert_eq!((tcp.control(), tcp.initial_window), (TcpControl::Dctcp, 3));
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
        ("{seed: 3, buffer: 9 kB, tcp: ns3}", "seed has no effect where nothing is drawn"),
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
        ("{transport: rdma, tcp: ns3}", "tcp has no effect with transport: rdma"),
        ("{spraying: shortest_queue}", "spraying has no effect without routing: spray"),
    ] {
        assert_eq!(warnings(text), [format!("network.packet.{expected}")], "{text}");
    }
    for defaults in [
        "{spraying: in_turns, seed: 0, tcp: {ack_every: 1, ack_delay: 40 ms}}",
        "{tcp: {ack_every: 1, ack_delay: 40000 us}}",
        "{marking: {from: 3 kB, probability: 1}}",
    ] {
        assert_eq!(warnings(defaults), [] as [String; 0], "defaults, however they are written");
    }
    let used = "{buffer: 9 kB, ties: drawn, seed: 3, marking: {from: 3 kB, to: 6 kB, probability: \
                0.5}, tcp: {like: ns3, congestion_control: cubic, hystart: true, rescue: once}}";
    assert_eq!(warnings(used), [] as [String; 0]);
    let [said] = &packet("{tcp: {congestion_control: dctcp}}").doubt()[..] else { panic!("none") };
    assert!(said.contains("behaves as new_reno without network.packet.marking"), "{said}");
}

/// A platform of two dimensions, or one that a generator makes with two kinds of links.
fn on(topology: &str, packet: &str) -> Result<Platform, Vec<String>> {
    let text = format!(
        "topology: {topology}\nlinks: {{bandwidth: 100 Gb/s, latency: 500 ns}}\nnetwork:\n  packet: {packet}\n"
    );
    let shown = |problem: &graph::Problem| problem.to_string();
    from_yaml(&text, "p.yml", &[]).map_err(|all| all.iter().map(shown).collect())
}

const STACK: &str = "Switch(4)_Switch(4)";
const LEAVES: &str = "{generator: leaf_spine, leaves: 4, npus_per_leaf: 4, spines: 2}";

#[test]
fn a_list_has_a_value_for_each_dimension_or_kind_of_link() {
    let text = "{transport: [rdma, tcp], mtu: [9 kB, 1500], headers: [60, null], framing: [24, 38], \
                injection_latency: [10 ns, 1 us], buffer: [64 MB, {shared: 4 MB, alpha: 0.5}], \
                marking: [null, 65 kB], pause: [1 MB, null], \
                tcp: [null, {window: 500 kB}], rdma: [{congestion_control: none}, null]}";
    for topology in [STACK, LEAVES] {
        let platform = on(topology, text).expect("settings");
        assert_eq!(platform.warnings, [] as [String; 0]);
        let again = from_yaml(&to_yaml(&platform), "p.yml", &[]).expect("settings");
        assert_eq!(again.network, platform.network);
        let packet = platform.network.packet.expect("packets");
        let [inner, outer] = &packet.protocols()[..] else { panic!("two") };
        assert_eq!((inner.mtu, inner.headers, inner.framing), (9000, 60, 24));
        assert_eq!((outer.mtu, outer.headers, outer.framing), (1500, 40, 38));
        assert_eq!((inner.transport, outer.transport), (Transport::Rdma, Transport::Tcp));
        assert_eq!((inner.marking.is_some(), outer.marking.is_some()), (false, true));
        assert_eq!((inner.pause.is_some(), outer.pause.is_some()), (true, false));
        assert_eq!(inner.rdma.congestion_control, RdmaControl::None);
        assert_eq!(outer.tcp.window, Bytes(500_000));
        let buffers = [inner, outer].map(|each| each.buffer.expect("a buffer"));
        assert_eq!(buffers[0].per_port, Some(Bytes(64_000_000)));
        assert_eq!(buffers[1].shared, Some(Bytes(4_000_000)));
    }
}

#[test]
fn wrong_lists_are_refused() {
    let one = "one value, or one for each of dimension 1, dimension 2";
    for (topology, text, problem) in [
        (STACK, "{mtu: [1500, 1500, 1500]}", format!(".mtu: 3 entries for 2 dimensions or kinds of links (allowed: {one})")),
        (STACK, "{buffer: [9 kB]}", format!(".buffer: 1 entries for 2 dimensions or kinds of links (allowed: {one})")),
        (LEAVES, "{tcp: [{sack: true}]}", ".tcp: 1 entries for 2 dimensions or kinds of links (allowed: one value, or one for each of npu, leaf)".into()),
        (STACK, "{seed: [1, 2]}", ".seed: a list is not allowed (allowed: a whole number from 0)".into()),
        (STACK, "{tcp: [rfc, bsd]}", ".tcp[1]: \"bsd\" is not allowed (allowed: rfc, linux, ns3)".into()),
        (STACK, "{mtu: [9000, 40]}", ".mtu[1]: an MTU of 40 B leaves no byte for data: headers take 40 B (allowed: more than 40, at most 65000)".into()),
        (STACK, "{mtu: 40}", ".mtu: an MTU of 40 B leaves no byte for data: headers take 40 B (allowed: more than 40, at most 65000)".into()),
        (STACK, "{mtu: [50, 1500], headers: [40, 60]}", ".mtu[0]: an MTU of 50 B leaves no byte for data of an outer dimension: headers take 60 B (allowed: more than 60)".into()),
        (STACK, "{buffer: [1530 B, 9 kB], framing: [0, 38]}", ".buffer[0]: 1.53 kB hold no packet of 1538 B (MTU and framing) (allowed: at least 1538 B)".into()),
        (STACK, "{tcp: [{window: 1 kB}, {}]}", ".tcp[0].window: a window of 1 kB holds no segment of 1460 B (MTU less headers) (allowed: at least 1460 B)".into()),
    ] {
        let expected = format!("p.yml: line 4, network.packet{problem}");
        assert_eq!(on(topology, text).expect_err(text), [expected], "{text}");
    }
    let [problem] = &on(STACK, "{mtu: []}").expect_err("no entries")[..] else { panic!("one") };
    assert!(problem.contains("network.packet.mtu: a list without entries"), "{problem}");
}

#[test]
fn a_key_without_effect_in_one_dimension_only_is_no_mistake() {
    let warnings = |text: &str| on(STACK, text).expect("settings").warnings;
    assert_eq!(warnings("{buffer: [9 kB, null], ties: drawn}"), [] as [String; 0]);
    let text = "{transport: [rdma, tcp], rdma: {window: 1 MB}, tcp: {ack_every: 1}}";
    assert_eq!(warnings(text), [] as [String; 0]);
    assert_eq!(
        warnings("{tcp: [{sack: false, rescue: once}, {rescue: once}]}"),
        ["network.packet.tcp[0].rescue has no effect with sack: false"]
    );
    assert_eq!(
        warnings("{transport: [rdma, tcp], tcp: [{ack_every: 1}, null]}"),
        ["network.packet.tcp[0] has no effect with transport: rdma"]
    );
}
