//! The closed form of a phase gives what simulating every transfer gives: the same report, byte for
//! byte.
//!
//! The random platforms run under ASTRA-sim's semantics, where all ranks of a line must enter a
//! phase together, and under ours, where one simulated rank must stand for them.

use crate::common::random::{RandomPlatform, Step, cases, platform, steps, workload};
use graph::CollectiveKind;
use platform::Profile;
use platform::config::native;
use platform::{Algorithm, AstraSimParameters, Choice, Launch, Platform, Scheduler};
use proptest::prelude::*;
use sim::Error;
use sim::{BackendKind, Config, Source, Watch, run_with};
use topology::{Block, Fabric};
use units::Ratio;

/// The random platform under ASTRA-sim's semantics.
fn as_astra_sim(platform: &RandomPlatform, endpoint_delay: u64) -> Platform {
    let mut parsed = native(platform);
    let Fabric::Stacked(dims) = &parsed.fabric else {
        unreachable!("random platforms are stacked")
    };
    let algorithm = |d: &topology::Dim| match d.block {
        Block::Ring => Algorithm::Ring,
        Block::Switch if d.size.is_power_of_two() => Algorithm::HalvingDoubling,
        _ => Algorithm::Direct { window: None },
    };
    let choice = |all_to_all: bool| {
        let fits = |a: Algorithm| {
            if all_to_all && a == Algorithm::HalvingDoubling { Algorithm::Ring } else { a }
        };
        Choice { per_dim: dims.iter().map(|d| fits(algorithm(d))).collect(), flat: false }
    };
    let parameters = AstraSimParameters {
        bandwidth: dims.iter().map(|d| d.bandwidth.as_gb_per_s()).collect(),
        latency: dims.iter().map(|d| d.latency.as_ns()).collect(),
        endpoint_delay,
        local_memory_bandwidth: 100.0,
        remote_latency: 300,
        remote_bandwidth: 20,
        ..AstraSimParameters::default()
    };
    parsed.collectives.choices =
        CollectiveKind::ALL.map(|k| Some(choice(k == CollectiveKind::AllToAll)));
    parsed.profile = Profile::AstraSim(Box::new(parameters));
    // It has neither launches nor kernels that communication slows.
    parsed.npu.launch = Launch::default();
    parsed.npu.comm_overlap_slowdown = Ratio(0);
    parsed
}

/// The report and the events it took; `None` where ASTRA-sim's semantics refuse the workload or let
/// it stall.
fn report(
    platform: &Platform,
    workload: &graph::Workload,
    backend: BackendKind,
    fold: bool,
    closed_form: bool,
) -> Option<(String, u64)> {
    let workload = Source::Built(Box::new(workload.clone()));
    let platform = platform.clone();
    let config =
        Config { workload, groups: Vec::new(), platform, backend, fold, watch: Watch::default() };
    match run_with(&config, closed_form, &mut |_| true) {
        Ok(outcome) => Some((
            serde_json::to_string_pretty(&outcome.report).expect("a report is JSON"),
            outcome.events,
        )),
        Err(Error::Input(_) | Error::Stalled(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(cases(120))]

    #[test]
    fn equals_the_event_path(platform in platform(), steps in steps(), delay in 1u64..50, fold in any::<bool>()) {
        let workload = workload(&platform.sizes, &steps);
        let reference = as_astra_sim(&platform, delay);
        for backend in [BackendKind::Analytical, BackendKind::Link] {
            let closed = report(&reference, &workload, backend.clone(), fold, true);
            let events = report(&reference, &workload, backend.clone(), fold, false);
            prop_assert_eq!(closed.as_ref().map(|c| &c.0), events.as_ref().map(|e| &e.0), "{:?} {}", backend, platform.text);
        }
    }

    #[test]
    fn equals_the_event_path_natively(platform in platform(), steps in steps(), narrow in prop::bool::weighted(0.8)) {
        let workload = workload(&platform.sizes, &steps);
        let mut native = native(&platform);
        if narrow {
            native.scheduler = Scheduler { active_chunks: declared::ByDim::All(1), queues_per_dim: declared::ByDim::All(1), rendezvous: false, ..native.scheduler };
        }
        // Those that have closed forms.
        for backend in [BackendKind::Analytical, BackendKind::Link, BackendKind::Flow] {
            let closed = report(&native, &workload, backend.clone(), true, true);
            let events = report(&native, &workload, backend.clone(), true, false);
            prop_assert_eq!(closed.as_ref().map(|c| &c.0), events.as_ref().map(|e| &e.0), "{} {}", backend, platform.text);
        }
    }
}

/// The random platform as it is.
fn native(platform: &RandomPlatform) -> Platform {
    let parsed = native::from_yaml(&platform.text, "p.yml", &[]);
    parsed.unwrap_or_else(|problems| panic!("{}\n{problems:#?}", platform.text))
}

/// Three queues, and a middle group that has dealt more chunks than its peers: its first chunk runs
/// the way theirs does, its second against them. ASTRA-sim hangs; taking the messages of both
/// neighbours for one another's would be worse.
#[test]
fn refuses_rings_that_run_against_each_other() {
    let text = "topology: Ring(3)_Ring(4)\nlinks:\n  - {bandwidth: 50 GB/s, latency: 0 ns}\n  - {bandwidth: 50 GB/s, latency: 0 ns}\n\
        scheduler: {policy: fifo, chunks: 2, queues_per_dim: 3}\n";
    let platform = RandomPlatform { text: text.into(), sizes: vec![3, 4] };
    let odd = Step::Odd {
        kind: CollectiveKind::AllReduce,
        bytes: 1 << 20,
        first: 3,
        step: 3,
        backward: false,
    };
    let lines = Step::Lines { kind: CollectiveKind::AllGather, bytes: 2, dim: 1 };
    let world = Step::World { kind: CollectiveKind::ReduceScatter, bytes: 0, priority: 0, root: 0 };
    let workload = workload(&platform.sizes, &[(world, false), (odd, false), (lines, false)]);
    let config = Config {
        workload: Source::Built(Box::new(workload)),
        groups: Vec::new(),
        platform: as_astra_sim(&platform, 1),
        backend: BackendKind::Analytical,
        fold: false,
        watch: Watch::default(),
    };
    let Err(Error::Input(problems)) = run_with(&config, false, &mut |_| true) else {
        panic!("it ran")
    };
    assert!(
        problems.iter().all(|p| p.message.contains("runs in another direction")),
        "{problems:#?}"
    );
}

/// The closed form is taken at all: a plain ring all-reduce on 64 ranks needs far fewer events than
/// transfers.
#[test]
fn saves_events() {
    let text =
        "topology: Ring(64)\nlinks:\n  - {bandwidth: 50 GB/s, latency: 500 ns}\n".to_string();
    let platform = RandomPlatform { text, sizes: vec![64] };
    let kind = CollectiveKind::AllReduce;
    let steps = [(Step::World { kind, bytes: 1 << 20, priority: 0, root: 0 }, false)];
    let (reference, workload) = (as_astra_sim(&platform, 10), workload(&platform.sizes, &steps));
    for backend in [BackendKind::Analytical, BackendKind::Link] {
        let (closed, few) =
            report(&reference, &workload, backend.clone(), false, true).expect("it runs");
        let (events, many) =
            report(&reference, &workload, backend.clone(), false, false).expect("it runs");
        assert_eq!(closed, events);
        assert!(few * 20 < many, "{backend:?}: {few} events in closed form, {many} without");
    }
}

/// The native closed form is taken at all: chunk by chunk on the one simulated rank, in two
/// dimensions at once.
#[test]
fn saves_events_natively() {
    let links = "  - {bandwidth: 50 GB/s, latency: 500 ns}\n".repeat(2);
    let text = format!("topology: Ring(8)_Switch(16)\nlinks:\n{links}scheduler: {{chunks: 16}}\n");
    let platform = RandomPlatform { text, sizes: vec![8, 16] };
    let kind = CollectiveKind::AllReduce;
    let lines = |dim| (Step::Lines { kind, bytes: 1 << 24, dim }, true);
    for backend in [BackendKind::Analytical, BackendKind::Flow] {
        let events = |steps: &[(Step, bool)], closed_form| {
            let workload = workload(&platform.sizes, steps);
            report(&native(&platform), &workload, backend.clone(), true, closed_form)
                .expect("it runs")
        };
        let ((closed, few), (stepwise, many)) =
            (events(&[lines(0), lines(1)], true), events(&[lines(0), lines(1)], false));
        assert_eq!(closed, stepwise);
        assert!(few * 8 < many, "{backend}: {few} events in closed form, {many} without");
    }
}
