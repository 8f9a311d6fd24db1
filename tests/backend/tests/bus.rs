//! A backend of another crate keeps the contract and carries a workload.

use bus::{BUS, Bus};
use graph::{CollectiveKind, Node, Op, ProgramBuilder, Workload};
use network::{Backend, LinkCost, Transfer, conformance};
use platform::Platform;
use platform::config::native;
use sim::backends::BackendKind;
use sim::{Config, Outcome, Source, Watch, run};
use units::{Bandwidth, Bytes, Span, Time};

const COST: LinkCost =
    LinkCost::Exact { bandwidth: Bandwidth(50_000_000_000), latency: Span(500_000) };

/// 24 messages among four NPUs, three at a time.
fn traffic() -> Vec<(Time, Transfer)> {
    let transfer = |token: u64| {
        let src = (token % 4) as u32;
        let dst = (src + 1 + (token / 4 % 3) as u32) % 4;
        let bytes = [0, 1, 4096, 1_000_003][(token / 2 % 4) as usize];
        (
            Time(token / 3 * 700_000),
            Transfer { src, dst, bytes, paced: bytes, token, weight: 1 + token % 2 },
        )
    };
    (0..24).map(transfer).collect()
}

#[test]
fn it_passes_the_conformance_suite() {
    let bound = |_: &Bus, transfer: &Transfer| COST.transit(1, transfer.bytes);
    assert_eq!(conformance::check(|| Bus::new(COST), &traffic(), bound), Ok(()));
}

fn platform(topology: &str) -> Platform {
    let links = "links: {bandwidth: 50 GB/s, per: link, latency: 500 ns}\n";
    let rest = "collectives: {all_to_all: direct}\nscheduler: {chunks: 1, endpoint_delay: 0 ns}\n";
    native::from_yaml(&format!("topology: {topology}\n{links}{rest}"), "bus.yml", &[])
        .expect("a sound platform")
}

/// An all-to-all of 1 MB from each NPU to each other one.
fn exchange(platform: Platform, fold: bool) -> Result<Outcome, sim::Error> {
    let npus = platform.fabric.npus();
    let bytes = Bytes(1_000_000 * u64::from(npus));
    let kind = CollectiveKind::AllToAll;
    let op = Op::Collective { kind, bytes, slot: 0, priority: 0, dims: u32::MAX, root: 0 };
    let mut program = ProgramBuilder::default();
    program.push(Node { id: 0, duration: Span::ZERO, op }, "exchange", []);
    let program = program.build().expect("one operation");
    let config = Config {
        workload: Source::Built(Box::new(Workload::uniform(program, npus))),
        groups: Vec::new(),
        platform,
        backend: BackendKind::Other(BUS),
        fold,
        watch: Watch::default(),
    };
    run(&config, &mut |_| true)
}

/// 4 x 3 messages of 1 MB, 20 us each at 50 GB/s, one after the other, and the last one's latency.
#[test]
fn it_carries_a_workload() {
    let outcome = exchange(platform("FullyConnected(4)"), true).expect("a bus carries it");
    assert_eq!(outcome.report.step_time_ns, 12.0 * 20_000.0 + 500.0);
    assert_eq!(outcome.report.config.backend, "bus");
    assert_eq!(outcome.report.counts.transfers, 12);
}

/// A backend that knows no alike links is never folded, and the report says why.
#[test]
fn nothing_is_folded_that_it_does_not_call_alike() {
    let folded = exchange(platform("FullyConnected(4)"), true).expect("a bus carries it");
    let whole = exchange(platform("FullyConnected(4)"), false).expect("a bus carries it");
    assert_eq!(folded.simulated_ranks, 4);
    assert_eq!(folded.report.symmetry.reason, "the backend treats no links as alike");
    let json = |outcome: &Outcome| serde_json::to_string(&outcome.report).expect("a report");
    assert_eq!(json(&folded), json(&whole));
}

#[test]
fn what_keeps_it_from_being_made_is_reported() {
    let error = exchange(platform("Ring(2)_Ring(2)"), true).expect_err("two dimensions");
    assert_eq!(error.to_string().trim(), "bus: topology: a bus has one dimension");
}

/// A backend runs without a workload, too.
#[test]
fn it_can_be_driven_alone() {
    let kind = BackendKind::Other(BUS);
    let mut network = kind.make(&platform("FullyConnected(4)")).expect("one dimension");
    let done = conformance::run(&mut network, &traffic()).expect("it moves");
    assert_eq!(done.len(), 24);
    assert_eq!(network.usage(Time::MAX).transfers, 36);
}

/// The page for people who write a backend shows this very crate.
#[test]
fn the_page_shows_the_code() {
    let page = include_str!("../../../docs/internals/network-backends.md");
    assert!(page.contains(include_str!("../src/lib.rs").trim_end()), "the page shows other code");
}
