//! Wrong platforms and workloads: each gets one problem that names file, place, value and what is
//! allowed; none panics, hangs or passes.

use crate::common::built::{WORK, collective, config, recv, send, workload};
use crate::common::refusals::{everywhere, one_problem, run_and_check, told};
use graph::{CollectiveKind, Op, Workload};
use platform::config::native;
use sim::{BackendKind, Error, Outcome};
use units::Bytes;

/// A platform file and what must be said of it. `crates/platform/src/config/native/tests.rs` has
/// the exact words of many more.
const NATIVE: &[(&str, &str, [&str; 3])] = &[
    (
        "unknown key",
        "topology: Ring(4)\nlinks: {bandwidth: 1 GB/s, latency: 1 ns}\nschedular: {}\n",
        ["line 3", "schedular", "scheduler"],
    ),
    (
        "unknown block",
        "topology: Rung(4)\nlinks: {bandwidth: 1 GB/s, latency: 1 ns}\n",
        ["line 1, topology", "Rung", "Ring"],
    ),
    (
        "no unit",
        "topology: Ring(4)\nlinks: {bandwidth: 50, latency: 1 ns}\n",
        ["line 2", "50", "GB/s"],
    ),
    (
        "wrong unit",
        "topology: Ring(4)\nlinks: {bandwidth: 50 ns, latency: 1 ns}\n",
        ["line 2", "50 ns", "GB/s"],
    ),
    (
        "negative",
        "topology: Ring(4)\nlinks: {bandwidth: 50 GB/s, latency: -1 ns}\n",
        ["line 2", "-1 ns", "ns"],
    ),
    (
        "zero",
        "topology: Ring(4)\nlinks: {bandwidth: 0 GB/s, latency: 1 ns}\n",
        ["line 2", "0 GB/s", "GB/s"],
    ),
    (
        "not a number",
        "topology: Ring(4)\nlinks: {bandwidth: .nan, latency: 1 ns}\n",
        ["line 2", "nan", "GB/s"],
    ),
    (
        "infinite",
        "topology: Ring(4)\nlinks: {bandwidth: inf GB/s, latency: 1 ns}\n",
        ["line 2", "inf", "GB/s"],
    ),
    (
        "one NPU",
        "topology: Ring(0)\nlinks: {bandwidth: 1 GB/s, latency: 1 ns}\n",
        ["line 1, topology", "0", ""],
    ),
    (
        "algorithm on the wrong size",
        "topology: Ring(6)\nlinks: {bandwidth: 1 GB/s, latency: 1 ns}\ncollectives: {all_reduce: halving_doubling}\n",
        ["line 3", "all_reduce cannot run on 6 NPUs", "a power of two"],
    ),
    (
        "unknown policy",
        "topology: Ring(4)\nlinks: {bandwidth: 1 GB/s, latency: 1 ns}\nscheduler: {policy: random}\n",
        ["line 3", "random", "lifo, fifo, explicit"],
    ),
    (
        "zero chunks",
        "topology: Ring(4)\nlinks: {bandwidth: 1 GB/s, latency: 1 ns}\nscheduler: {chunks: 0}\n",
        ["line 3", "0", "from 1"],
    ),
];

#[test]
fn native_platforms() {
    for (name, text, [place, message, allowed]) in NATIVE {
        let answer = native::from_yaml(text, "p.yml", &[])
            .map_err(Error::Input)
            .map(|_| panic!("{name}: it is taken"));
        one_problem(name, answer, ["p.yml", place, message, allowed]);
    }
}

fn simulate(platform: &str, workload: Workload, backend: BackendKind) -> Result<Outcome, Error> {
    run_and_check(&config(platform, workload, backend))
}

#[test]
fn all_that_a_native_platform_lacks_is_told_at_once() {
    use CollectiveKind::{AllReduce, AllToAll};
    let platform = |npus: u32| {
        format!(
            "topology: Ring({npus})\nlinks: {{bandwidth: 50 GB/s, latency: 500 ns}}\n\
             collectives: {{rings: one_way, all_reduce: {{custom: nothing.xml}}}}\n"
        )
    };
    let load = Op::Memory {
        store: false,
        bytes: Bytes(8),
        reach: graph::Reach::Remote,
        tensor: 0,
        slot: None,
    };
    let calls = [
        collective(AllReduce, 8, 0),
        collective(AllToAll, 8, 0),
        load,
        collective(AllToAll, 1 << 20, 0),
    ];
    for backend in BackendKind::ALL {
        // Flits prove their routes first, which takes seconds for so many NPUs.
        let npus = if backend == BackendKind::Flit { 50 } else { 5000 };
        let mut expected = vec![
            ": can't be read: No such file or directory (os error 2)".to_string(),
            format!(
                "rank 0 node 2: accesses remote memory, but the platform has none; the same for {} more operations",
                npus - 1
            ),
        ];
        if npus == 5000 {
            expected.push("rank 0 node 1: ring all_to_all on 5000 NPUs takes 12497500 steps, more than 8388608; the same for 1 more call".to_string());
        }
        assert_eq!(told(simulate(&platform(npus), everywhere(&calls, npus), backend)), expected);
    }
}

#[test]
fn a_network_with_too_many_links_for_queues() {
    let platform = "topology: FullyConnected(70000)\nlinks: {bandwidth: 50 GB/s, per: link, latency: 500 ns}\n";
    simulate(platform, everywhere(&[WORK], 70_000), BackendKind::Analytical)
        .expect("no links, no limit");
    one_problem(
        "links",
        simulate(platform, everywhere(&[WORK], 70_000), BackendKind::Link),
        ["", "topology", "more than 4,294,967,295", "--backend analytical"],
    );
}

/// What means nothing to a collective need not be the same on its members.
#[test]
fn members_may_differ_in_what_means_nothing() {
    let call = |kind, bytes, root| Op::Collective {
        kind,
        bytes: Bytes(bytes),
        slot: 0,
        priority: 0,
        dims: u32::MAX,
        root,
    };
    let rank = |n| {
        [
            (call(CollectiveKind::Barrier, n, 0), &[] as &[u64]),
            (call(CollectiveKind::AllReduce, 8, n as u32), &[0]),
        ]
    };
    for backend in BackendKind::ALL {
        simulate(PAIR, workload(&[&rank(0), &rank(1)], &[]), backend)
            .expect("they agree in all that counts");
    }
}

const PAIR: &str = "topology: Ring(2)\nlinks: {bandwidth: 50 GB/s, latency: 500 ns}\n";

#[test]
fn workloads_that_cannot_run() {
    use CollectiveKind::{AllGather, AllReduce, Broadcast};
    let rooted = Op::Collective {
        kind: Broadcast,
        bytes: Bytes(64),
        slot: 0,
        priority: 0,
        dims: u32::MAX,
        root: 2,
    };
    let cases: Vec<(&str, Workload, [&str; 4])> = vec![
        (
            "too few ranks",
            workload(&[&[(WORK, &[])]], &[]),
            ["", "", "1 rank", "one rank for each NPU"],
        ),
        (
            "order differs",
            workload(
                &[
                    &[(collective(AllReduce, 8, 0), &[]), (collective(AllGather, 8, 0), &[0])],
                    &[(collective(AllGather, 8, 0), &[]), (collective(AllReduce, 8, 0), &[0])],
                ],
                &[],
            ),
            [
                "",
                "group world",
                "rank 0 has all_reduce of 8 bytes (node 0), rank 1 has all_gather of 8 bytes (node 0)",
                "order",
            ],
        ),
        (
            "kind differs",
            workload(
                &[&[(collective(AllReduce, 8, 0), &[])], &[(collective(AllGather, 8, 0), &[])]],
                &[],
            ),
            ["", "group world", "all_gather of 8 bytes", "same kind"],
        ),
        (
            "root",
            workload(&[&[(rooted, &[])], &[(rooted, &[])]], &[]),
            ["", "node 0", "root 2", "0 to 1"],
        ),
        (
            "sizes differ",
            workload(&[&[(send(1, 8), &[])], &[(recv(-1, 16), &[])]], &[]),
            [
                "",
                "rank 0 node 0",
                "sends 8 bytes with tag 0 (node 0), but rank 1 receives 16",
                "same sizes",
            ],
        ),
        (
            "no receive",
            workload(&[&[(send(1, 8), &[])], &[(WORK, &[])]], &[]),
            ["", "rank 0 node 0", "rank 1, which receives 0", "the same number of sends"],
        ),
        (
            "no send",
            workload(&[&[(WORK, &[])], &[(recv(-1, 8), &[])]], &[]),
            ["", "rank 1 node 0", "sends 0 messages", "the same number of sends"],
        ),
        (
            "cycle",
            workload(&[&[(WORK, &[1]), (WORK, &[0])], &[(WORK, &[])]], &[]),
            ["", "rank 0 node 0", "0 -> 1 -> 0", "without a cycle"],
        ),
        (
            "group out of range",
            workload(
                &[&[(collective(AllReduce, 8, 1), &[])], &[(collective(AllReduce, 8, 1), &[])]],
                &[&[0, 1, 7]],
            ),
            ["", "group g0", "7", "ranks 0 to 1"],
        ),
    ];
    for (name, workload, parts) in cases {
        for backend in BackendKind::ALL {
            one_problem(name, simulate(PAIR, workload.clone(), backend), parts);
        }
    }
}
