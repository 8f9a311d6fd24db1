//! What collectives take their time for: the terms sum to what the run took, are the same folded or
//! not, and are those of the formulas.

use crate::common::built::{self, WORK, collective, send};
use crate::common::random::{backends, cases, platform, steps};
use crate::common::watched::{ROUNDING, close, random_report};
use graph::{CollectiveKind, Op};
use proptest::prelude::*;
use sim::{BackendKind, Watch, run};
use stats::{Collective, CollectiveTerms, Report};

fn rows(report: &Report) -> &[Collective] {
    &report.detail.as_ref().expect("it was asked for").collectives
}

proptest! {
    #![proptest_config(cases(25))]

    #[test]
    fn terms_sum_to_the_duration(platform in platform(), steps in steps(), backends in backends(), fold in any::<bool>()) {
        for backend in backends {
            let report = random_report(&platform, &steps, backend, fold);
            for row in rows(&report) {
                let sum: f64 = row.terms.iter().map(CollectiveTerms::total_ns).sum::<f64>() + row.late_ns - row.ahead_ns;
                prop_assert!(close(sum, row.mean_ns), "{sum} is not {}: {row:?}", row.mean_ns);
                prop_assert!(row.mean_ns <= row.max_ns * (1.0 + ROUNDING));
                let operation = report.operations.iter().filter(|o| o.kind == row.kind).map(|o| o.max_ns);
                prop_assert!(operation.fold(0.0, f64::max) >= row.max_ns);
            }
        }
    }

    #[test]
    fn terms_are_the_same_folded_or_not(platform in platform(), steps in steps(), backends in backends()) {
        for backend in backends {
            let [folded, unfolded] = [true, false].map(|fold| random_report(&platform, &steps, backend.clone(), fold));
            prop_assert_eq!(format!("{:#?}", rows(&folded)), format!("{:#?}", rows(&unfolded)));
        }
    }

    /// One chunk around a ring: docs/models/collectives.md.
    #[test]
    fn a_ring_all_reduce_is_its_formula(n in 3u32..9, fragment in 1u64..5000, latency in 0u64..900, delay in 0u64..40) {
        let bytes = fragment * u64::from(n);
        let text = format!(
            "topology: Ring({n})\nlinks: [{{ bandwidth: 4 GB/s, latency: {latency} ns }}]\n\
             npu: {{ memory: {{ bandwidth: 100 GB/s }} }}\nscheduler: {{ endpoint_delay: {delay} ns }}\n\
             collectives: {{ all_reduce: ring }}\n"
        );
        let program: &[(Op, &[u64])] = &[(collective(CollectiveKind::AllReduce, bytes, 0), &[])];
        let programs = vec![program; n as usize];
        let mut config = built::config(&text, built::workload(&programs, &[]), BackendKind::Link);
        config.watch = Watch { detail: true, ..Watch::default() };
        let report = run(&config, &mut |_| true).unwrap_or_else(|error| panic!("{error}")).report;
        let row = &rows(&report)[0];
        let (steps, terms) = (f64::from(2 * (n - 1)), &row.terms[0]);
        prop_assert_eq!(rows(&report).len(), 1);
        prop_assert_eq!((row.count, row.ranks, row.chunks), (u128::from(n), u64::from(n), 1));
        prop_assert_eq!(terms.messages, steps);
        prop_assert!(close(terms.latency_ns, steps * latency as f64));
        prop_assert!(close(terms.transfer_ns, steps * fragment as f64 / 4.0));
        prop_assert!(close(terms.endpoint_ns, (steps + 1.0) * delay as f64));
        prop_assert!(close(terms.reduction_ns, f64::from(n - 1) * 3.0 * fragment as f64 / 100.0));
        prop_assert_eq!([terms.port_ns, terms.contention_ns, terms.congestion_ns, terms.queue_ns], [0.0; 4]);
    }
}

fn by_hand(programs: &[&[(Op, &[u64])]], more: &str, backend: BackendKind) -> Report {
    let text = format!(
        "topology: Switch({})\nlinks: [{{ bandwidth: 1 GB/s, latency: 500 ns }}]\nscheduler: {{ endpoint_delay: 0 ns }}\n{more}",
        programs.len()
    );
    let mut config = built::config(&text, built::workload(programs, &[]), backend);
    config.watch = Watch { detail: true, ..Watch::default() };
    run(&config, &mut |_| true).unwrap_or_else(|error| panic!("{error}")).report
}

#[test]
fn a_late_member_is_waited_for() {
    let sum = collective(CollectiveKind::AllReduce, 2, 0);
    let text = "topology: Switch(2)\nlinks: [{ bandwidth: 1 GB/s, latency: 1 ns }]\nscheduler: { endpoint_delay: 0 ns }\n";
    let programs: [&[(Op, &[u64])]; 2] = [&[(sum, &[])], &[(WORK, &[]), (sum, &[0])]];
    let mut config = built::config(text, built::workload(&programs, &[]), BackendKind::Analytical);
    config.watch = Watch { detail: true, ..Watch::default() };
    let report = run(&config, &mut |_| true).unwrap_or_else(|error| panic!("{error}")).report;
    let row = &rows(&report)[0];
    // The second rank comes at 10 ns and sends two messages (3 ns each, the second 1 ns behind the
    // first): the first rank ends at 14. Its answer to the first one leaves at 13 and ends the
    // second rank at 16.
    assert_eq!((row.late_ns, row.ahead_ns, row.max_ns, row.mean_ns), (5.0, 0.0, 14.0, 10.0));
    let terms = &row.terms[0];
    assert_eq!((terms.latency_ns, terms.transfer_ns, terms.port_ns), (3.0, 1.5, 0.5));
}

#[test]
fn a_root_that_is_crowded_congests_the_network() {
    // Three NPUs send 1000 bytes to the first at once: each is at the switch after 0.5 us, then one
    // takes 1 us after the other.
    let gather: &[(Op, &[u64])] = &[(collective(CollectiveKind::Gather, 1000, 0), &[])];
    let more = "collectives: { gather: direct }\n";
    let report = by_hand(&[gather; 4], more, BackendKind::Link);
    let row = &rows(&report)[0];
    assert_eq!(row.max_ns, 2.0 * 500.0 + 3.0 * 1000.0);
    let free = by_hand(&[gather; 4], more, BackendKind::Analytical);
    assert_eq!(rows(&free)[0].max_ns, row.max_ns, "the port of the root is the limit on both");
    assert_eq!(rows(&free)[0].terms[0].congestion_ns, 2000.0 / 4.0);
    // The root waits for the third of three: two messages' time, the others not at all.
    assert_eq!(row.terms[0].congestion_ns, 2000.0 / 4.0);
}

#[test]
fn direct_messages_share_the_port() {
    let program: &[(Op, &[u64])] = &[(collective(CollectiveKind::AllToAll, 4000, 0), &[])];
    let report = by_hand(&[program; 4], "", BackendKind::Analytical);
    let terms = &rows(&report)[0].terms[0];
    // Three messages of 1000 bytes through one port: the last waits for two of them.
    assert_eq!(
        (terms.messages, terms.port_ns, terms.transfer_ns, terms.latency_ns),
        (1.0, 2000.0, 1000.0, 1000.0)
    );
}

#[test]
fn messages_of_others_contend_for_the_port() {
    let to_all: &[(Op, &[u64])] =
        &[(send(1, 3000), &[]), (collective(CollectiveKind::AllGather, 1000, 0), &[])];
    let receiver: &[(Op, &[u64])] =
        &[(built::recv(-1, 3000), &[]), (collective(CollectiveKind::AllGather, 1000, 0), &[])];
    let report = by_hand(&[to_all, receiver], "", BackendKind::Analytical);
    let row = rows(&report).iter().find(|row| row.kind == "all_gather").expect("it is there");
    // What the first rank sends waits for 3000 bytes; only the second rank waits for it.
    assert_eq!(row.terms[0].contention_ns, 3000.0 / 2.0);
    assert_eq!(row.behind[0].name, "n*");
    let sent = rows(&report).iter().find(|row| row.kind == "send").expect("it is there");
    assert_eq!(
        (sent.mean_ns, sent.terms[0].transfer_ns, sent.terms[0].latency_ns),
        (4000.0, 3000.0, 1000.0)
    );
}
