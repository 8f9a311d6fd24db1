//! What a backend observes reaches the report: flows and links over time, by hand on small
//! networks, and the same folded or not.

#[path = "common/built.rs"]
mod built;

use built::collective;
use graph::{CollectiveKind, Op};
use sim::{BackendKind, Config, run};
use stats::{Network, Report};

const LINKS: &str = "links: {bandwidth: 50 GB/s, per: link, latency: 500 ns}\n";

fn report(topology: &str, ranks: usize, op: Op, backend: BackendKind, fold: bool) -> Report {
    let rest = "collectives: {all_to_all: direct}\nscheduler: {chunks: 1, endpoint_delay: 0 ns}\n";
    let text = format!("topology: {topology}\n{LINKS}{rest}");
    let program: &[(Op, &[u64])] = &[(op, &[])];
    let workload = built::workload(&vec![program; ranks], &[]);
    let mut config = Config { fold, ..built::config(&text, workload, backend) };
    config.watch.detail = true;
    run(&config, &mut |_| true).expect("a sound run").report
}

fn observed(report: &Report) -> &Network {
    report.network.as_ref().expect("the backend observes")
}

/// A direct all-to-all of 1 MB to each of three others through a switch: each link into the switch
/// sends 3 x 20 us, and the step takes what the links out of it need.
#[test]
fn links_over_time_sum_to_their_busy_time() {
    let op = collective(CollectiveKind::AllToAll, 4_000_000, 0);
    let report = report("Switch(4)", 4, op, BackendKind::Link, false);
    let network = observed(&report);
    assert_eq!(network.kind, "link");
    let busy: Vec<&stats::Series> =
        network.series.iter().filter(|series| series.quantity == "utilisation").collect();
    assert_eq!(busy.iter().map(|series| series.count).sum::<u64>(), 8, "four up and four down");
    for series in busy {
        let last = series.values.len() - 1;
        let width = |bin: usize| match bin == last {
            true => report.step_time_ns - last as f64 * network.bin_ns,
            false => network.bin_ns,
        };
        let sum: f64 = series.values.iter().enumerate().map(|(b, v)| v * width(b)).sum();
        assert!((sum - 60_000.0).abs() < 1e-3, "{}: {sum}", series.name);
    }
}

/// Each of 12 pairs sends 1 MB once.
#[test]
fn transfers_are_counted_by_size() {
    let op = collective(CollectiveKind::AllToAll, 4_000_000, 0);
    for backend in BackendKind::ALL {
        let report = report("FullyConnected(4)", 4, op, backend, false);
        let [flow] = &observed(&report).flows[..] else { panic!("sizes differ: {report:?}") };
        assert_eq!((flow.transfers, flow.bytes), (12, 1_000_000));
        assert_eq!((flow.mean_ns, flow.max_ns), (20_500.0, 20_500.0), "20 us and 500 ns");
    }
}

#[test]
fn the_section_is_the_same_folded_or_not() {
    let kinds = [CollectiveKind::AllReduce, CollectiveKind::AllToAll];
    for (topology, ranks) in [("Ring(6)", 6), ("FullyConnected(5)", 5), ("Ring(4)_Ring(3)", 12)] {
        for (kind, backend) in kinds.iter().flat_map(|k| BackendKind::ALL.map(|b| (*k, b))) {
            let [folded, whole] = [true, false].map(|fold| {
                let op = collective(kind, 3_600_000, 0);
                serde_json::to_string(&report(topology, ranks, op, backend.clone(), fold))
                    .expect("a report")
            });
            assert_eq!(folded, whole, "{kind:?} on {topology}, {backend}");
        }
    }
}

#[test]
fn a_run_that_is_not_watched_observes_nothing() {
    let text = format!("topology: Ring(4)\n{LINKS}");
    let program: &[(Op, &[u64])] = &[(collective(CollectiveKind::AllReduce, 1000, 0), &[])];
    let workload = built::workload(&[program; 4], &[]);
    let config = built::config(&text, workload, BackendKind::Link);
    assert!(run(&config, &mut |_| true).expect("a sound run").report.network.is_none());
}
