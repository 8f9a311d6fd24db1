//! The closed form of a phase gives what simulating every transfer gives: the same report, byte for byte.
//!
//! Native chunks overlap and have no closed form; the peer's semantics have one, so the random platforms run under those.

#[path = "common/random.rs"]
mod random;

use proptest::prelude::*;
use random::{RandomPlatform, Step, platform, steps, workload};
use sim::config::native;
use sim::error::Error;
use sim::platform::{Algorithm, AstraSimParameters, Choice, Platform};
use sim::profile::Profile;
use sim::run::{BackendKind, Config, Source, run_with};
use topology::{Block, Fabric};

/// The random platform under the peer's semantics.
fn as_peer(platform: &RandomPlatform, endpoint_delay: u64) -> Platform {
    let parsed = native::from_yaml(&platform.text, "p.yml", &[]);
    let mut parsed = parsed.unwrap_or_else(|problems| panic!("{}\n{problems:#?}", platform.text));
    let Fabric::Stacked(dims) = &parsed.fabric else { unreachable!("random platforms are stacked") };
    let algorithm = |d: &topology::Dim| match d.block {
        Block::Ring => Algorithm::Ring,
        Block::Switch if d.size.is_power_of_two() => Algorithm::HalvingDoubling,
        _ => Algorithm::Direct { window: None },
    };
    let choice = |all_to_all: bool| {
        let fits = |a: Algorithm| if all_to_all && a == Algorithm::HalvingDoubling { Algorithm::Ring } else { a };
        Choice { per_dim: dims.iter().map(|d| fits(algorithm(d))).collect(), flat: false }
    };
    parsed.astra_sim = Some(AstraSimParameters {
        bandwidth: dims.iter().map(|d| d.bandwidth.as_gb_per_s()).collect(),
        latency: dims.iter().map(|d| d.latency.as_ns()).collect(),
        endpoint_delay,
        local_memory_bandwidth: 100.0,
        remote_latency: 300,
        remote_bandwidth: 20,
        ..AstraSimParameters::default()
    });
    parsed.collectives.choices = graph::CollectiveKind::ALL.map(|k| Some(choice(k == graph::CollectiveKind::AllToAll)));
    parsed.profile = Profile::AstraSim;
    parsed
}

/// The report and the events it took; `None` where the peer's semantics refuse the workload or let it stall.
fn report(
    platform: &Platform,
    workload: &graph::Workload,
    backend: BackendKind,
    fold: bool,
    closed_form: bool,
) -> Option<(String, u64)> {
    let workload = Source::Built(Box::new(workload.clone()));
    let platform = platform.clone();
    let config = Config { workload, groups: Vec::new(), platform, backend, fold, seed: 0 };
    match run_with(&config, closed_form, &mut |_| true) {
        Ok(outcome) => Some((serde_json::to_string_pretty(&outcome.report).expect("a report is JSON"), outcome.events)),
        Err(Error::Input(_) | Error::Stalled(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_event_path(platform in platform(), steps in steps(), delay in 1u64..50, fold in any::<bool>()) {
        let workload = workload(&platform.sizes, &steps);
        let peer = as_peer(&platform, delay);
        for backend in [BackendKind::Analytical, BackendKind::Link] {
            let closed = report(&peer, &workload, backend, fold, true);
            let events = report(&peer, &workload, backend, fold, false);
            prop_assert_eq!(closed.as_ref().map(|c| &c.0), events.as_ref().map(|e| &e.0), "{:?} {}", backend, platform.text);
        }
    }
}

/// The closed form is taken at all: a plain ring all-reduce on 64 ranks needs far fewer events than transfers.
#[test]
fn saves_events() {
    let text = "topology: Ring(64)\nlinks:\n  - {bandwidth: 50 GB/s, latency: 500 ns}\n".to_string();
    let platform = RandomPlatform { text, sizes: vec![64] };
    let kind = graph::CollectiveKind::AllReduce;
    let steps = [(Step::World { kind, bytes: 1 << 20, priority: 0, root: 0 }, false)];
    let (peer, workload) = (as_peer(&platform, 10), workload(&platform.sizes, &steps));
    for backend in [BackendKind::Analytical, BackendKind::Link] {
        let (closed, few) = report(&peer, &workload, backend, false, true).expect("it runs");
        let (events, many) = report(&peer, &workload, backend, false, false).expect("it runs");
        assert_eq!(closed, events);
        assert!(few * 20 < many, "{backend:?}: {few} events in closed form, {many} without");
    }
}
