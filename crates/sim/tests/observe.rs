//! What is told of a watched run: it sums to what every run reports, and cases small enough to work
//! out by hand.

use crate::common::built::{self, WORK, collective, recv, send};
use crate::common::random::{backends, cases, platform, steps};
use crate::common::watched::{close, random_report};
use graph::{CollectiveKind, Op};
use proptest::prelude::*;
use sim::{BackendKind, Watch, run};
use stats::{Detail, Part, Report};

fn detail_of(report: &Report) -> &Detail {
    report.detail.as_ref().expect("it was asked for")
}

/// Mean of a series of bins over the step.
fn mean(report: &Report, bins: &[f64]) -> f64 {
    let (width, step) = (detail_of(report).bin_ns, report.step_time_ns);
    let long = |i: usize| width.min(step - i as f64 * width);
    bins.iter().enumerate().map(|(i, share)| share * long(i)).sum::<f64>() / step
}

proptest! {
    #![proptest_config(cases(25))]

    #[test]
    fn parts_sum_to_the_whole(platform in platform(), steps in steps(), backends in backends(), fold in any::<bool>()) {
        for backend in backends {
            let report = random_report(&platform, &steps, backend, fold);
            let detail = detail_of(&report);
            let path: f64 = detail.critical_path.by_kind.iter().map(|part| part.ns).sum();
            prop_assert!(close(path, report.step_time_ns), "the path is {path} of {}", report.step_time_ns);
            for (at, class) in report.classes.iter().enumerate().take(64) {
                for (part, _) in Part::charged() {
                    let layers = detail.layers.iter().filter(|l| l.rank_class == at as u64);
                    let charged = layers.map(|layer| layer.parts.charged[part]).sum();
                    prop_assert!(close(charged, class.parts[part]), "{part:?}");
                }
                for layer in detail.layers.iter().filter(|l| l.rank_class == at as u64) {
                    let sum = |of: fn(&stats::LayerPass) -> f64| layer.passes.iter().map(of).sum();
                    let (charged, flying) = (&layer.parts.charged, &layer.parts.in_flight);
                    prop_assert!(close(sum(|pass| pass.compute_ns), charged[Part::Compute]));
                    prop_assert!(close(sum(|pass| pass.exposed_comm_ns), charged[Part::Communication]));
                    prop_assert!(close(sum(|pass| pass.comm_ns), flying[Part::Communication]));
                }
                // To the picosecond: sums of integers as long as they fit a double.
                let ps = |ns: f64| (ns * 1e3).round() as u64;
                let busy: u64 = Part::charged().map(|(part, _)| ps(class.parts[part])).sum();
                prop_assert_eq!(busy + ps(class.parts[Part::Idle]), ps(report.step_time_ns));
                prop_assert!(busy <= ps(class.finish_ns));
            }
            for phase in &report.phases {
                let same: Vec<_> = detail.layer_phases.iter().filter(|row| row.phase == phase.name).collect();
                let named = report.phases.iter().filter(|other| other.name == phase.name);
                let (all, count, sum) = named.fold((0, 0, [0.0; 2]), |(all, count, sum), phase| {
                    let times = [phase.queue_ns, phase.network_ns].map(|ns| ns * phase.count as f64);
                    (all + 1, count + phase.count, [sum[0] + times[0], sum[1] + times[1]])
                });
                prop_assert!(all > 0 && same.iter().map(|row| row.count).sum::<u128>() == count);
                let queue = same.iter().map(|row| row.queue_ns * row.count as f64).sum();
                let network = same.iter().map(|row| row.network_ns * row.count as f64).sum();
                prop_assert!(close(queue, sum[0]) && close(network, sum[1]), "{}", phase.name);
            }
            let busy = |class: &stats::Class| class.count as f64 * (report.step_time_ns - class.parts[Part::Idle]);
            let cost: f64 = report.operations.iter().map(|operation| operation.cost_ns).sum();
            prop_assert!(close(cost, report.classes.iter().map(busy).sum()), "{cost} is charged");
            for bin in 0..detail.activity.parts[Part::Compute].len() {
                let width = detail.bin_ns.min(report.step_time_ns - bin as f64 * detail.bin_ns);
                let of_bin: f64 = detail.critical_path.over_time.iter().map(|series| series.ns[bin]).sum();
                prop_assert!(close(of_bin, width), "bin {bin} of the path holds {of_bin} of {width}");
            }
            let over_ranks = |part: fn(&stats::Class) -> f64| -> f64 {
                let sum: f64 = report.classes.iter().map(|class| part(class) * class.count as f64).sum();
                sum / report.ranks as f64
            };
            if report.step_time_ns > 0.0 {
                let activity = &detail.activity;
                let compute = mean(&report, &activity.parts[Part::Compute]) * report.step_time_ns;
                prop_assert!(close(compute, over_ranks(|class| class.parts[Part::Compute])));
                let comm = mean(&report, &activity.parts[Part::Communication]) * report.step_time_ns;
                prop_assert!(close(comm, over_ranks(|class| class.comm_ns)));
                for (bins, dimension) in activity.dimensions.iter().zip(&report.dimensions) {
                    let busy = mean(&report, bins) * report.step_time_ns;
                    prop_assert!(close(busy, dimension.busy_ns), "{busy} is not {}", dimension.busy_ns);
                }
            }
        }
    }

    #[test]
    fn the_path_has_no_gap(platform in platform(), steps in steps()) {
        let report = random_report(&platform, &steps, BackendKind::Analytical, true);
        let path = &detail_of(&report).critical_path;
        if path.count == path.segments.len() as u64 {
            let mut now = 0.0;
            for segment in &path.segments {
                prop_assert_eq!(segment.start_ns, now);
                now = segment.end_ns;
            }
            prop_assert_eq!(now, report.step_time_ns);
        }
    }
}

/// Runs one program a rank on NPUs joined by a switch: 1 us a hop, 1 GB/s, and computations of 10
/// ns.
fn by_hand(programs: &[&[(Op, &[u64])]]) -> Report {
    let text = format!(
        "topology: Switch({})\nlinks: [{{ bandwidth: 1 GB/s, latency: 500 ns }}]\n",
        programs.len()
    );
    let mut config = built::config(&text, built::workload(programs, &[]), BackendKind::Analytical);
    config.watch = Watch { detail: true, ..Watch::default() };
    run(&config, &mut |_| true).unwrap_or_else(|error| panic!("{error}")).report
}

fn path(report: &Report) -> Vec<(u64, &str, &str)> {
    let segments = &detail_of(report).critical_path.segments;
    segments.iter().map(|s| (s.rank, s.name.as_str(), s.cause.as_str())).collect()
}

#[test]
fn a_collective_waits_for_its_last_member() {
    let cast = collective(CollectiveKind::Broadcast, 1000, 0);
    let report = by_hand(&[
        &[(WORK, &[]), (WORK, &[0]), (WORK, &[1]), (cast, &[2])],
        &[(WORK, &[]), (cast, &[0])],
    ]);
    let expected = [
        (0, "n0", "start"),
        (0, "n1", "dependency"),
        (0, "n2", "dependency"),
        (1, "n1", "last member"),
    ];
    assert_eq!(path(&report), expected);
}

#[test]
fn a_receive_waits_for_its_sender() {
    let report = by_hand(&[
        &[(WORK, &[]), (WORK, &[0]), (send(1, 1000), &[1])],
        &[(recv(-1, 1000), &[]), (WORK, &[0])],
    ]);
    let expected = [
        (0, "n0", "start"),
        (0, "n1", "dependency"),
        (1, "n0", "message"),
        (1, "n1", "dependency"),
    ];
    assert_eq!(path(&report), expected);
}

#[test]
fn compute_that_waits_for_the_npu_says_so() {
    let report = by_hand(&[&[(WORK, &[]), (WORK, &[])], &[(WORK, &[]), (WORK, &[])]]);
    assert_eq!(path(&report), [(0, "n0", "start"), (0, "n1", "resource")]);
}

#[test]
fn a_receive_costs_what_its_message_takes_not_since_when_it_is_posted() {
    let late = [(WORK, [].as_slice()), (WORK, &[0]), (send(1, 1000), &[1])];
    let report = by_hand(&[&late, &[(recv(-1, 1000), &[]), (WORK, &[0])]]);
    let operation = |kind: &str| {
        report.operations.iter().find(|operation| operation.kind == kind).expect("there is one")
    };
    let (receive, send) = (operation("recv"), operation("send"));
    assert_eq!(receive.cost_ns, send.cost_ns);
    assert!(receive.total_ns > receive.cost_ns, "posted before the sender computes: {receive:?}");
    let costs: Vec<f64> = report.operations.iter().map(|operation| operation.cost_ns).collect();
    assert!(costs.is_sorted_by(|a, b| a >= b), "{costs:?}");
}

#[test]
fn the_host_is_a_part_of_its_own() {
    let host =
        Op::Compute { operations: None, bytes: None, cpu: true, kernel: graph::Kernel::Other };
    let report = by_hand(&[&[(host, &[]), (WORK, &[0])], &[(WORK, &[])]]);
    let class = |rank: usize| &report.classes[rank];
    assert!(class(0).parts[Part::Host] > 0.0);
    assert_eq!(class(0).parts[Part::Idle], 0.0);
    assert_eq!(class(1).parts[Part::Host], 0.0);
    let layer = detail_of(&report)
        .layers
        .iter()
        .find(|layer| layer.parts.in_flight[Part::Host] > 0.0)
        .expect("the host's");
    assert_eq!(layer.parts.charged[Part::Host], class(0).parts[Part::Host]);
}

#[test]
fn exposed_communication_is_charged_to_what_ends_first() {
    // Two messages leave at once; the short one ends first, then the long one is exposed for the
    // rest.
    let report = by_hand(&[
        &[(send(1, 1000), &[]), (send(1, 3000), &[])],
        &[(recv(-1, 1000), &[]), (recv(-1, 3000), &[])],
    ]);
    let of = |name: &str| {
        let layers = &detail_of(&report).layers;
        layers
            .iter()
            .find(|l| l.rank_class == 0 && l.layer == name)
            .map(|l| (l.parts.in_flight[Part::Communication], l.parts.charged[Part::Communication]))
    };
    let (short, long) = (of("n0").expect("a layer"), of("n1").expect("a layer"));
    // Two hops of 500 ns; the messages share the link: 1 us, then 3 us.
    assert_eq!(short, (2000.0, 2000.0));
    assert_eq!(long, (5000.0, 3000.0));
}

#[test]
fn an_unwatched_run_has_no_detail() {
    let text = "topology: Ring(2)\nlinks: [{ bandwidth: 1 GB/s, latency: 0 ns }]\n";
    let config = built::config(
        text,
        built::workload(&[&[(WORK, &[])], &[(WORK, &[])]], &[]),
        BackendKind::Analytical,
    );
    assert!(run(&config, &mut |_| true).is_ok_and(|outcome| outcome.report.detail.is_none()));
}
