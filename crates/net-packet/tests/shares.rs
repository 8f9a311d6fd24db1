//! Equal senders have equal shares: of the buffer that is full, and of the link behind it. Packet by
//! packet: `src/port.rs`.

use crate::common::{flat, transfers};
use net_packet::{
    Buffer, Control, Marking, Pause, Rdma, Recovery, Settings, Switch, Tcp, Ties, Transport,
};
use units::{Bytes, Ratio, Span};

/// Sends `bytes` from each of `senders` to one NPU. Returns retransmits and the time in us, by
/// sender.
fn incast(senders: u32, bytes: u64, settings: Settings) -> Vec<(u64, f64)> {
    let all: Vec<_> = (1..=senders).map(|src| (src, 0, bytes, 0)).collect();
    let mut network = flat(senders + 1, settings);
    let ends = transfers(&mut network, &all);
    let mut flows: Vec<_> = network.flows().collect();
    flows.sort_by_key(|flow| flow.src);
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

fn rdma(recovery: Recovery, switch: Switch) -> Settings {
    let rdma = Rdma { recovery, dcqcn: None, window: Bytes(250_000), ..Rdma::default() };
    Settings { switch, ..Settings::with(Transport::Rdma(rdma)) }
}

fn buffers() -> [Buffer; 2] {
    let total = Bytes(1_000_000);
    [Buffer::Port(Bytes(300_000)), Buffer::Shared { total, alpha: Ratio::ONE }]
}

/// Two that send everything again lose equally as well; the last packet decides who waits for its
/// timer.
#[test]
fn two_senders_that_go_back_lose_equally() {
    for buffer in buffers() {
        let switch = Switch { buffer, ..Switch::default() };
        let rdma = Rdma { dcqcn: None, ..Rdma::default() };
        let settings = Settings { switch, ..Settings::with(Transport::Rdma(rdma)) };
        let found = incast(2, 20_000_000, settings);
        assert!(spread(found.iter().map(|found| found.0 as f64)) < 1.05, "{buffer:?}: {found:?}");
        let in_order = Switch { ties: Ties::InOrder, ..switch };
        let found = incast(2, 20_000_000, Settings { switch: in_order, ..settings });
        assert!(spread(found.iter().map(|found| 1.0 + found.0 as f64)) > 100.0, "{found:?}");
    }
}

/// Pauses and marks: nobody loses. With pauses all end within 1 %; windows that shrink by half at a
/// mark let some be 15 % faster.
#[test]
fn equal_senders_end_together_without_losses() {
    let pause = Pause { above: Bytes(50_000), below: Bytes(40_000) };
    let paused = Switch { pause: Some(pause), ..Switch::default() };
    let marked = Switch { marking: Some(Marking::step(Bytes(100_000))), ..Switch::default() };
    let tcp = |control| {
        let tcp = Tcp { control, ack_delay: Span(1_000_000_000), ..Tcp::default() };
        Settings { switch: marked, ..Settings::with(Transport::Tcp(tcp)) }
    };
    for senders in [2, 4, 7] {
        for settings in [
            rdma(Recovery::GoBackN, paused),
            tcp(Control::NewReno),
            tcp(Control::Cubic),
            tcp(Control::Dctcp),
        ] {
            let found = incast(senders, 20_000_000, settings);
            let case = format!("{senders} senders, {:?}: {found:?}", settings.transport);
            println!("{case}");
            assert!(found.iter().all(|found| found.0 == 0), "{case}");
            let most = if matches!(settings.transport, Transport::Rdma(_)) { 1.01 } else { 1.15 };
            assert!(spread(found.iter().map(|found| found.1)) < most, "{case}");
        }
    }
}
