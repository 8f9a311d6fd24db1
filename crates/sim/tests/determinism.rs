//! The same bytes out: twice, folded and not, on one thread and on two.

use crate::common::random::{RandomPlatform, Step, backends, cases, platform, steps, workload};
use graph::CollectiveKind;
use platform::config::native;
use proptest::prelude::*;
use sim::{BackendKind, Config, Outcome, Source, Watch, run};

const BACKENDS: [BackendKind; 5] = BackendKind::ALL;

fn config(
    platform: &RandomPlatform,
    steps: &[(Step, bool)],
    backend: BackendKind,
    fold: bool,
) -> Config {
    let parsed = native::from_yaml(&platform.text, "p.yml", &[]);
    let parsed = parsed.unwrap_or_else(|problems| panic!("{}\n{problems:#?}", platform.text));
    let workload = Source::Built(Box::new(workload(&platform.sizes, steps)));
    Config {
        workload,
        groups: Vec::new(),
        platform: parsed,
        backend,
        fold,
        watch: Watch { detail: true, ..Watch::default() },
    }
}

/// The report as text with the times of every rank below it; and how many ranks were simulated.
fn answer(config: &Config) -> (String, u64) {
    let (text, outcome) = report_of(config);
    (text, outcome.simulated_ranks)
}

/// The report as text with the times of every rank below it; and the run.
fn report_of(config: &Config) -> (String, Outcome) {
    let outcome =
        run(config, &mut |_| true).unwrap_or_else(|error| panic!("{:?}: {error}", config.backend));
    let mut text = serde_json::to_string_pretty(&outcome.report).expect("a report is JSON");
    for rank in 0..outcome.report.ranks as u32 {
        text += &format!("\nrank {rank}: {:?} {:?}", outcome.finish(rank), outcome.exposed(rank));
    }
    (text, outcome)
}

/// The lines that differ; `None` for equal texts.
fn difference(left: &str, right: &str) -> Option<String> {
    let (mut a, mut b): (Vec<&str>, Vec<&str>) = (left.lines().collect(), right.lines().collect());
    let longest = a.len().max(b.len());
    a.resize(longest, "nothing");
    b.resize(longest, "nothing");
    let lines = a.iter().zip(&b).filter(|(a, b)| a != b).take(12);
    (left != right).then(|| lines.map(|(a, b)| format!("{} | {}\n", a.trim(), b.trim())).collect())
}

proptest! {
    #![proptest_config(cases(25))]

    #[test]
    fn folded_runs_give_the_same_bytes(platform in platform(), steps in steps(), backends in backends()) {
        for backend in backends {
            let (plain, ranks) = answer(&config(&platform, &steps, backend.clone(), false));
            let (folded, simulated) = answer(&config(&platform, &steps, backend.clone(), true));
            prop_assert!(simulated <= ranks);
            let difference = difference(&plain, &folded);
            prop_assert!(difference.is_none(), "{backend:?}, {simulated} of {ranks}: {}", difference.unwrap_or_default());
        }
    }

    #[test]
    fn the_same_run_gives_the_same_bytes(platform in platform(), steps in steps(), backends in backends(), fold in any::<bool>()) {
        for backend in backends {
            let config = config(&platform, &steps, backend.clone(), fold);
            let difference = difference(&answer(&config).0, &answer(&config).0);
            prop_assert!(difference.is_none(), "{backend:?}: {}", difference.unwrap_or_default());
        }
    }
}

/// Small cases that random search has found faults in, kept so that it need not find them again.
#[test]
fn cases_that_once_failed() {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, Broadcast, Scatter};
    let world = |kind, bytes| (Step::World { kind, bytes, priority: 0, root: 0 }, false);
    let odd = (Step::Odd { kind: AllReduce, bytes: 64, first: 2, step: 1, backward: false }, false);
    type Case<'a> = (&'a str, &'a str, &'a [u32], Vec<(Step, bool)>);
    let all = (Step::Odd { kind: AllReduce, bytes: 1, first: 0, step: 1, backward: false }, false);
    let odd2 = (Step::Odd { kind: AllReduce, bytes: 1, first: 2, step: 1, backward: false }, false);
    let back = (Step::Odd { kind: AllReduce, bytes: 0, first: 0, step: 2, backward: true }, false);
    let across =
        (Step::Odd { kind: AllReduce, bytes: 1, first: 4, step: 3, backward: false }, false);
    let root = (Step::Odd { kind: Broadcast, bytes: 0, first: 0, step: 2, backward: true }, false);
    let shift = (Step::Shift { by: 1, bytes: 1 }, false);
    let beside = (world(AllReduce, 0).0, true);
    let cases: [Case<'_>; 11] = [
        (
            "phases of one slot with different peers, folded",
            "Switch(4)_Ring(2)",
            &[4, 2],
            vec![all, (Step::Pipeline { by: 5, bytes: 1 }, false), world(AllToAll, 1)],
        ),
        (
            "a root that receives nothing, folded",
            "FullyConnected(3)",
            &[3],
            vec![world(Broadcast, 0)],
        ),
        ("scatter, folded", "FullyConnected(4)", &[4], vec![world(Scatter, 0)]),
        (
            "several queues, ranks with different histories",
            "Ring(4)_Ring(2)_Ring(2)",
            &[4, 2, 2],
            vec![odd, world(AllGather, 64)],
        ),
        ("a root that only sends, rendezvous", "Ring(2)", &[2], vec![world(Broadcast, 64)]),
        ("links of a folded run", "Ring(8)", &[8], vec![world(AllReduce, 1 << 20)]),
        ("announcements of a folded run", "Ring(2)_FullyConnected(3)", &[2, 3], vec![root]),
        ("part of two switches", "Switch(4)_Ring(2)", &[4, 2], vec![odd2]),
        ("links of two dimensions", "Ring(5)_Ring(2)", &[5, 2], vec![across]),
        ("peers at other offsets", "Ring(2)", &[2], vec![shift, beside]),
        ("a group in the opposite order", "Ring(4)_Ring(3)", &[4, 3], vec![back]),
    ];
    for (name, topology, sizes, steps) in cases {
        for (queues, rendezvous, backend) in [1, 2]
            .into_iter()
            .flat_map(|q| [false, true].into_iter().flat_map(move |r| BACKENDS.map(|b| (q, r, b))))
        {
            let text = format!(
                "topology: {topology}\nlinks: {{bandwidth: 50 GB/s, per: link, latency: 0 ns}}\n\
                 scheduler: {{chunks: 1, endpoint_delay: 0 ns, queues_per_dim: {queues}, rendezvous: {rendezvous}}}\n"
            );
            let platform = RandomPlatform { text, sizes: sizes.to_vec() };
            let [plain, folded] = [false, true]
                .map(|fold| answer(&config(&platform, &steps, backend.clone(), fold)).0);
            let difference = difference(&plain, &folded);
            assert!(
                difference.is_none(),
                "{name}, {queues} queues, rendezvous {rendezvous}, {backend:?}: {difference:?}"
            );
        }
    }
}

/// A receive posted after its send counts as communication once, with rendezvous, too: not during
/// the computation after it.
#[test]
fn a_message_is_communication_once() {
    let text = "topology: Switch(2)\nlinks: {bandwidth: 50 GB/s, latency: 0 ns}\nscheduler: {rendezvous: true}\n";
    let platform = RandomPlatform { text: text.into(), sizes: vec![2] };
    let steps = [(Step::Shift { by: 1, bytes: 0 }, false), (Step::Compute(1000), false)];
    for fold in [false, true] {
        let outcome = run(&config(&platform, &steps, BackendKind::Analytical, fold), &mut |_| true)
            .expect("it runs");
        // Both announcements cross at once, 8,192 bytes at 50 GB/s; the messages are empty.
        assert!(
            outcome.report.classes.iter().all(|class| class.comm_ns == 163.84),
            "{:#?}",
            outcome.report.classes
        );
    }
}

/// Ranks that enter an all-reduce of several chunks and phases at different times must not block
/// each other's slots.
#[test]
fn late_ranks_do_not_stall_a_collective() {
    let text = "topology: Ring(2)_Switch(2)_Switch(2)\nlinks:\n  - {bandwidth: 7.3 GB/s, latency: 0 ns}\n  - {bandwidth: 7.3 GB/s, latency: 0 ns}\n  \
                - {bandwidth: 50 GB/s, latency: 0 ns}\nscheduler: {chunks: 2, endpoint_delay: 0 ns}\n";
    let platform = RandomPlatform { text: text.into(), sizes: vec![2, 2, 2] };
    let all_reduce =
        Step::World { kind: CollectiveKind::AllReduce, bytes: 9, priority: 0, root: 0 };
    let steps = [(Step::Shift { by: 2, bytes: 131_073 }, false), (all_reduce, false)];
    for backend in BACKENDS {
        answer(&config(&platform, &steps, backend, false));
    }
}

fn even(topology: &str, sizes: &[u32]) -> RandomPlatform {
    let text = format!(
        "topology: {topology}\nlinks: {{bandwidth: 50 GB/s, per: link, latency: 500 ns}}\nscheduler: {{chunks: 4}}\n"
    );
    RandomPlatform { text, sizes: sizes.to_vec() }
}

fn training_step() -> Vec<(Step, bool)> {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, ReduceScatter};
    let lines = |kind, dim| Step::Lines { kind, bytes: 1 << 16, dim };
    let steps = [
        Step::Compute(2_000),
        lines(AllReduce, 0),
        Step::Compute(3_000),
        lines(ReduceScatter, 1),
        Step::World { kind: AllToAll, bytes: 1 << 14, priority: 0, root: 0 },
        lines(AllGather, 1),
    ];
    steps.into_iter().enumerate().map(|(i, step)| (step, i % 3 == 2)).collect()
}

/// The property above says nothing if nothing folds: here one rank must do for all.
#[test]
fn even_workloads_fold_to_one_rank() {
    let shapes: [(&str, &[u32]); 3] = [
        ("Ring(8)", &[8]),
        ("Ring(4)_Switch(8)", &[4, 8]),
        ("Ring(4)_FullyConnected(4)_Switch(2)", &[4, 4, 2]),
    ];
    for (topology, sizes) in shapes {
        for backend in BACKENDS {
            let platform = even(topology, sizes);
            let (plain, ranks) =
                answer(&config(&platform, &training_step(), backend.clone(), false));
            let (folded, outcome) =
                report_of(&config(&platform, &training_step(), backend.clone(), true));
            assert_eq!(difference(&plain, &folded), None, "{topology} on {backend:?}");
            let (simulated, symmetry) = (outcome.simulated_ranks, &outcome.report.symmetry);
            // A direct all-to-all sends several messages through one port of a switch: their order
            // sets ranks apart. On the packet backend packets of different ranks may always meet.
            let reason = match backend {
                BackendKind::Link | BackendKind::Flit if topology.contains("Switch") => {
                    "share links"
                }
                BackendKind::Packet => "treats no links as alike",
                _ => "",
            };
            let expected = if reason.is_empty() { 1 } else { ranks };
            assert_eq!(simulated, expected, "{topology} on {backend:?}: {symmetry:?}");
            let given = &symmetry.reason;
            assert!(given.contains(reason), "{topology} on {backend:?}: {symmetry:?}");
            assert_eq!(given.is_empty(), reason.is_empty(), "{topology} on {backend:?}");
        }
    }
}

/// In a double binary tree every place has a task of its own, on all backends. Trees side by side
/// are alike, also where they share links.
#[test]
fn places_of_a_double_binary_tree_are_all_different() {
    let tree = "collectives: {all_reduce: {algorithm: double_binary_tree, flat: true}}\n";
    let lines = Step::Lines { kind: CollectiveKind::AllReduce, bytes: 1 << 20, dim: 1 };
    let steps = [(lines, false)];
    for backend in [BackendKind::Analytical, BackendKind::Flow] {
        let plain = even("Switch(4)_Switch(8)", &[4, 8]);
        let platform = RandomPlatform { text: plain.text + tree, ..plain };
        let once = |fold| answer(&config(&platform, &steps, backend.clone(), fold));
        let ((plain, _), (folded, simulated)) = (once(false), once(true));
        assert_eq!(difference(&plain, &folded), None, "{backend:?}");
        assert_eq!(simulated, 8, "{backend:?}");
    }
}

/// What sets ranks apart is seen, and named.
#[test]
fn lopsided_workloads_unfold_and_say_why() {
    let odd = |step| {
        training_step()
            .into_iter()
            .chain([(step, false)])
            .chain(training_step())
            .collect::<Vec<_>>()
    };
    let cases = [
        odd(Step::Straggler { rank: 5, ns: 4_000 }),
        odd(Step::Odd {
            kind: CollectiveKind::AllReduce,
            bytes: 1 << 18,
            first: 1,
            step: 3,
            backward: true,
        }),
        odd(Step::Pipeline { by: 8, bytes: 1 << 18 }),
    ];
    for steps in cases {
        for backend in BACKENDS {
            let platform = even("Ring(4)_Switch(8)", &[4, 8]);
            let config = config(&platform, &steps, backend, true);
            let outcome = run(&config, &mut |_| true).expect("it runs");
            let symmetry = &outcome.report.symmetry;
            assert_eq!(symmetry.classes, outcome.simulated_ranks, "{symmetry:?}");
            assert!(symmetry.classes > 1 && !symmetry.reason.is_empty(), "{symmetry:?}");
            let ends: std::collections::BTreeSet<_> =
                (0..32).map(|rank| outcome.finish(rank)).collect();
            assert!(ends.len() as u64 <= symmetry.classes, "{} ends in {symmetry:?}", ends.len());
        }
    }
}

#[test]
fn two_threads_do_not_disturb_each_other() {
    let platform = even("Ring(4)_FullyConnected(4)_Switch(2)", &[4, 4, 2]);
    let steps: Vec<_> = training_step()
        .into_iter()
        .chain([(Step::Straggler { rank: 3, ns: 9_000 }, true)])
        .collect();
    for backend in BACKENDS {
        let config = config(&platform, &steps, backend, false);
        let alone = answer(&config);
        std::thread::scope(|scope| {
            let both = [0, 1].map(|_| scope.spawn(|| [answer(&config), answer(&config)]));
            for thread in both {
                assert_eq!(thread.join().expect("no panic"), [alone.clone(), alone.clone()]);
            }
        });
    }
}
