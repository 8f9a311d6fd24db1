//! What a backend observes reaches the report: flows and links over time, by hand on small
//! networks, and the same folded or not.

use crate::common::built::{WORK, collective, config, recv, send, workload};
use graph::{CollectiveKind, Members, Op};
use sim::{BackendKind, Config, run};
use stats::{Network, Report};

const LINKS: &str = "links: {bandwidth: 50 GB/s, per: link, latency: 500 ns}\n";

fn report(topology: &str, ranks: usize, op: Op, backend: BackendKind, fold: bool) -> Report {
    let rest = "collectives: {all_to_all: direct}\nscheduler: {chunks: 1, endpoint_delay: 0 ns}\n";
    let text = format!("topology: {topology}\n{LINKS}{rest}");
    let program: &[(Op, &[u64])] = &[(op, &[])];
    let workload = workload(&vec![program; ranks], &[]);
    let mut config = Config { fold, ..config(&text, workload, backend) };
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
        let report = report("FullyConnected(4)", 4, op, backend.clone(), false);
        let [flow] = &observed(&report).flows[..] else { panic!("sizes differ: {report:?}") };
        assert_eq!((flow.transfers, flow.bytes), (12, 1_000_000));
        if backend == BackendKind::Packet {
            // 1,538 bytes on the wire for 1,460 of data, at least.
            assert!(flow.mean_ns > 20_500.0 * 1538.0 / 1460.0, "{flow:?}");
            continue;
        }
        if backend == BackendKind::Flit {
            // Whole cycles, and the way through two routers and interfaces.
            assert!((20_500.0..20_520.0).contains(&flow.mean_ns), "{flow:?}");
            continue;
        }
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

/// On flits, what links wait and hold over time adds up to what they do in all.
#[test]
fn flits_wait_and_are_held_over_time() {
    let op = collective(CollectiveKind::AllToAll, 3_600_000, 0);
    let report = report("Ring(4)_Ring(3)", 12, op, BackendKind::Flit, false);
    let (network, flits) = (observed(&report), report.flits.as_ref().expect("flits"));
    let sum = |quantity: &str| -> f64 {
        let left = |bin: usize| report.step_time_ns - bin as f64 * network.bin_ns;
        let width = |bin: usize| left(bin).min(network.bin_ns);
        let rows = network.series.iter().filter(|row| row.quantity == quantity);
        let time = |values: &[f64]| -> f64 {
            values.iter().enumerate().map(|(bin, value)| value * width(bin)).sum()
        };
        rows.map(|row| time(&row.values) * row.count as f64).sum()
    };
    let waited = flits.no_credit_ns + flits.no_channel_ns + flits.lost_allocation_ns;
    let held = |link: &stats::FlitLink| link.channel.occupancy_mean * link.count as f64;
    let held = flits.links.iter().map(held).sum::<f64>() * report.step_time_ns;
    for (quantity, total) in [("waiting", waited), ("occupancy", held)] {
        let found = sum(quantity);
        assert!(total > 0.0 && (found / total - 1.0).abs() < 1e-5, "{quantity}: {found} {total}");
    }
}

#[test]
fn a_run_that_is_not_watched_observes_nothing() {
    let text = format!("topology: Ring(4)\n{LINKS}");
    let program: &[(Op, &[u64])] = &[(collective(CollectiveKind::AllReduce, 1000, 0), &[])];
    let workload = workload(&[program; 4], &[]);
    let config = config(&text, workload, BackendKind::Link);
    assert!(run(&config, &mut |_| true).expect("a sound run").report.network.is_none());
}

const FABRIC: &str = "topology: {generator: leaf_spine, npus_per_leaf: 4, leaves: 2, spines: 1}\n\
                      links: {bandwidth: 50 GB/s, latency: 0 ns}\n";

/// Four NPUs of a leaf send over its one uplink: it carries four times what it can in the time that
/// `analytical` counts. A collective takes the time of its busiest link, so it says nothing.
#[test]
fn analytical_says_where_messages_together_are_too_much_for_links() {
    let none: &[u64] = &[];
    let exchange = |peer| [(send(peer, 1 << 20), none), (recv(peer, 1 << 20), none)];
    let (up, down) = (exchange(4), exchange(-4));
    let sends: Vec<&[(Op, &[u64])]> =
        (0..8).map(|rank| if rank < 4 { &up[..] } else { &down[..] }).collect();
    let all_reduce = [(collective(CollectiveKind::AllReduce, 1 << 20, 0), none)];
    let warnings = |programs: &[&[(Op, &[u64])]], backend, fold| {
        let config = Config { fold, ..config(FABRIC, workload(programs, &[]), backend) };
        run(&config, &mut |_| true).unwrap().report.warnings
    };
    for fold in [true, false] {
        let text = "what spine(2) and the dimensions outside it carried is 4.00 times what its \
                    links can carry: operations share links, which --backend flow and --backend \
                    link model";
        assert_eq!(warnings(&sends, BackendKind::Analytical, fold), [text]);
    }
    assert_eq!(warnings(&sends, BackendKind::Flow, true), [""; 0]);
    assert_eq!(warnings(&[&all_reduce[..]; 8], BackendKind::Analytical, true), [""; 0]);
}

/// The same without coordinates: two NPUs send at once over the one link between two switches. Where
/// one rank stands for several, nobody knows what each link carried.
#[test]
fn analytical_names_the_link_that_carries_too_much() {
    let ends = [
        ("npu0", "left"),
        ("npu1", "left"),
        ("left", "right"),
        ("right", "npu2"),
        ("right", "npu3"),
    ];
    let links: String = ends
        .iter()
        .map(|(a, b)| format!("  - {{between: [{a}, {b}], bandwidth: 50 GB/s, latency: 0 ns}}\n"))
        .collect();
    let platform = format!("graph:\n  npus: 4\n  switches: [left, right]\n  links:\n{links}");
    let none: &[u64] = &[];
    let first = [(send(2, 1 << 20), none)];
    let second = [(recv(-2, 1 << 20), none)];
    let third = [(send(1, 1 << 20), none)];
    let idle: &[(Op, &[u64])] = &[(WORK, &[])];
    let apart = [&third[..], &[(recv(-1, 1 << 20), none)], idle, idle];
    let together = [&first[..], &first[..], &second[..], &second[..]];
    let warnings = |programs: &[&[(Op, &[u64])]], backend| {
        let config = Config { fold: false, ..config(&platform, workload(programs, &[]), backend) };
        run(&config, &mut |_| true).unwrap().report.warnings
    };
    let text = "the link from left to right carried 2.00 times what it can in the time of the step: \
                operations share links, which --backend flow and --backend link model";
    assert_eq!(warnings(&together, BackendKind::Analytical), [text]);
    assert_eq!(warnings(&together, BackendKind::Flow), [""; 0]);
    assert_eq!(warnings(&apart, BackendKind::Analytical), [""; 0]);
}

/// A group that forms no line takes the time of its busiest link: 3 NPUs of a leaf send to 3 of the
/// other, 9 messages over one uplink while an NPU sends 5.
#[test]
fn a_group_without_lines_takes_the_time_of_its_busiest_link() {
    let members: &[u32] = &[0, 1, 3, 4, 6, 7];
    let works: &[(Op, &[u64])] = &[(collective(CollectiveKind::AllToAll, 6 << 24, 1), &[])];
    let idle: &[(Op, &[u64])] = &[(WORK, &[])];
    let programs: Vec<_> =
        (0..8).map(|rank| if members.contains(&rank) { works } else { idle }).collect();
    let text = format!("{FABRIC}scheduler: {{endpoint_delay: 0 ns}}\n");
    let report = |backend| {
        let config = config(&text, workload(&programs, &[members]), backend);
        run(&config, &mut |_| true).unwrap().report
    };
    let (fast, real) = (report(BackendKind::Analytical), report(BackendKind::Flow));
    assert_eq!(fast.warnings, [""; 0]);
    assert!((real.step_time_ns / fast.step_time_ns - 1.0).abs() < 0.01);
}

/// A group of 4 of the 8 NPUs of a full connection has 3 of 7 links: the report says so.
#[test]
fn the_report_says_which_links_of_a_full_connection_a_group_leaves_idle() {
    let says = |members: &[u32]| {
        let program: &[(Op, &[u64])] = &[(collective(CollectiveKind::AllReduce, 1 << 20, 1), &[])];
        let idle: &[(Op, &[u64])] = &[(WORK, &[])];
        let programs: Vec<_> =
            (0..16).map(|rank| if members.contains(&rank) { program } else { idle }).collect();
        let platform =
            "topology: Ring(2)_FC(8)\nlinks: {bandwidth: 50 GB/s, per: link, latency: 0 ns}\n";
        let mut workload = workload(&programs, &[members]);
        let (first, count, step) = (members[0], members.len() as u32, members[1] - members[0]);
        workload.groups[1].members = Members::Strided { first, count, step };
        let config = config(platform, workload, BackendKind::Analytical);
        let report = run(&config, &mut |_| true).unwrap().report;
        report
            .assumptions
            .into_iter()
            .filter(|text| text.contains("links there"))
            .collect::<Vec<_>>()
    };
    let text = "collectives of 4 of the 8 NPUs of dimension 2 use 3 of an NPU's 7 links there: \
                between two NPUs with a link, messages take only that link";
    assert_eq!(says(&[0, 2, 4, 6]), [text]);
    assert_eq!(says(&[0, 4, 8, 12]), [text]);
    assert_eq!(says(&[0, 2, 4, 6, 8, 10, 12, 14]), [""; 0]);
}
