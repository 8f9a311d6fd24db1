//! Whose TCP it is: what each word stands for, old places of the key, and origins of values.

use super::{explain, from_yaml, to_yaml};
use crate::Platform;
use net_settings::packet::*;
use units::{Bytes, Span};

const TEXT: &str =
    "topology: Switch(4)\nlinks: {bandwidth: 100 Gb/s, latency: 500 ns}\nnetwork:\n  packet: ";

fn read(packet: &str, set: &[(&str, &str)]) -> Result<Platform, Vec<String>> {
    let set: Vec<_> = set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let shown = |problem: &graph::Problem| problem.to_string();
    from_yaml(&format!("{TEXT}{packet}\n"), "p.yml", &set)
        .map_err(|all| all.iter().map(shown).collect())
}

fn protocol(packet: &str) -> Protocol {
    let network = read(packet, &[]).expect("settings").network;
    network.packet.expect("a section").protocol(0)
}

/// `include/net/tcp.h` (`TCP_INIT_CWND`, `TCP_RTO_MIN`, `TCP_RTO_MAX`, `TCP_DELACK_MIN`,
/// `TCP_MAX_QUICKACKS`, `TCPOLEN_TSTAMP_ALIGNED`), `net/ipv4/tcp_cubic.c` (`hystart`) and
/// `ip-sysctl.rst` (`tcp_sack`, `tcp_slow_start_after_idle`, `tcp_wmem`) of Linux 6.6.
#[test]
fn linux_has_the_defaults_of_its_sources() {
    let found = protocol("{tcp: linux}");
    let milliseconds = |count: u64| Span(count * 1_000_000_000);
    assert_eq!(found.headers, 20 + 20 + 12);
    let tcp = found.tcp;
    assert_eq!((tcp.control(), tcp.hystart), (TcpControl::Cubic, Some(true)));
    assert_eq!((tcp.initial_window, tcp.slow_start_limit), (10, Some(u32::MAX)));
    assert_eq!((tcp.prompt_acks, tcp.ack_every), (Some(16), 2));
    assert_eq!((tcp.ack_delay, tcp.rto_min), (milliseconds(40), milliseconds(200)));
    assert_eq!(tcp.rto_max, Some(milliseconds(120_000)));
    assert_eq!((tcp.window, tcp.sack, tcp.restart_after_idle), (Bytes(4 << 20), true, true));
    assert_eq!((tcp.recovery, tcp.threshold), (TcpRecovery::Proportional, Some(Flight::Window)));
    assert_eq!((tcp.rescue, tcp.resent_in_pipe), (Some(Rescue::Once), Some(false)));
}

/// The table of `docs/models/networks-packet.md`.
#[test]
fn ns3_differs_from_the_standards_in_what_the_page_says() {
    let rfc = protocol("{}");
    assert_eq!(rfc, protocol("{tcp: rfc}"));
    assert_eq!((rfc.headers, rfc.tcp.control()), (40, TcpControl::NewReno));
    assert_eq!((rfc.tcp.slow_start_limit, rfc.tcp.hystart), (Some(1), None));
    assert_eq!(
        (rfc.tcp.threshold, rfc.tcp.rescue),
        (Some(Flight::Outstanding), Some(Rescue::Once))
    );
    let ns3 = protocol("{tcp: ns3, buffer: 9 kB}");
    assert_eq!((ns3.ties, ns3.tcp.control()), (Ties::InOrder, TcpControl::NewReno));
    assert_eq!((ns3.tcp.threshold, ns3.tcp.rescue), (Some(Flight::Pipe), Some(Rescue::Always)));
    assert_eq!((ns3.tcp.slow_start_limit, ns3.tcp.resent_in_pipe), (Some(1), Some(true)));
    let cubic = protocol("{tcp: {like: ns3, congestion_control: cubic}}").tcp;
    assert_eq!((cubic.threshold, cubic.hystart), (Some(Flight::Window), Some(true)));
    assert_eq!(cubic.slow_start_limit, Some(u32::MAX));
}

#[test]
fn keys_win_over_the_word_and_keys_without_effect_stay_out() {
    let tcp = protocol("{tcp: {like: linux, slow_start_limit: 2, hystart: false}}").tcp;
    assert_eq!((tcp.slow_start_limit, tcp.hystart), (Some(2), Some(false)));
    let tcp =
        protocol("{tcp: {like: linux, congestion_control: new_reno, ack_every: 1, sack: false}}");
    let tcp = tcp.tcp;
    assert_eq!((tcp.hystart, tcp.prompt_acks, tcp.rescue), (None, None, None));
    assert_eq!(protocol("{headers: 40, tcp: linux}").headers, 40);
    assert_eq!(read("{tcp: linux}", &[]).expect("settings").warnings, [] as [String; 0]);
}

#[test]
fn every_value_is_shown_and_reads_back() {
    for word in ["rfc", "linux", "ns3"] {
        for more in ["", ", congestion_control: cubic", ", sack: false, ack_every: 1"] {
            let platform =
                read(&format!("{{tcp: {{like: {word}{more}}}}}"), &[]).expect("settings");
            let again = from_yaml(&to_yaml(&platform), "p.yml", &[]).expect("settings");
            assert_eq!(again.network, platform.network, "{word}{more}");
        }
    }
    let path = std::env::temp_dir().join(format!("armillary-like-{}.yml", std::process::id()));
    std::fs::write(&path, format!("{TEXT}{{tcp: linux}}\n")).expect("a file");
    let text = explain(&path.to_string_lossy(), &[], &[]).expect("a platform").1;
    std::fs::remove_file(&path).expect("a file");
    let line = |key: &str| text.lines().find(|line| line.contains(key)).expect(key).to_string();
    assert!(line("congestion_control: cubic").contains("# like, "), "{text}");
    assert!(line("slow_start_limit: all").contains("# like, "), "{text}");
    assert!(line("like: linux").ends_with(".yml:4"), "{text}");
}

#[test]
fn the_key_is_read_where_it_was() {
    let moved =
        "the key network.packet.like is now called network.packet.tcp.like; the old name will go";
    for (old, new) in [
        ("{like: ns3}", "{tcp: ns3}"),
        ("{like: ns3, tcp: {window: 1 MB}}", "{tcp: {like: ns3, window: 1 MB}}"),
        ("{tcp: null, like: rfc}", "{tcp: rfc}"),
    ] {
        let platform = read(old, &[]).expect(old);
        assert_eq!(platform.warnings, [moved], "{old}");
        assert_eq!(platform.network, read(new, &[]).expect(new).network, "{old}");
    }
    let set = [("network.packet.like", "ns3")];
    let platform = read("{tcp: {window: 1 MB}}", &set).expect("settings");
    let new = read("{tcp: {like: ns3, window: 1 MB}}", &[]).expect("settings");
    assert_eq!(
        (&platform.network, &platform.warnings[..]),
        (&new.network, &[moved.to_string()][..])
    );
    let [said] = &read("{like: ns3, tcp: rfc}", &[]).expect_err("both")[..] else { panic!("one") };
    assert!(said.contains("network.packet.tcp.like is given as well (allowed: only"), "{said}");
}
