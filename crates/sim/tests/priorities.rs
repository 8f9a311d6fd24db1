//! Which of several waiting collectives a dimension serves first.

use crate::common::built::{collective, config, workload};
use graph::{CollectiveKind, Kernel, Op};
use sim::{BackendKind, run};
use units::Bytes;

/// The step of four collectives that every rank calls at once. The `urgent`-th is followed
/// by a computation of one second, far longer than the four together.
fn step(scheduler: &str, urgent: u64) -> f64 {
    use CollectiveKind::{AllReduce, AllToAll};
    let call = |kind| (collective(kind, 1 << 20, 0), &[] as &[u64]);
    let after = [urgent];
    let second = Op::Compute {
        operations: Some(1_000_000_000_000),
        bytes: Some(Bytes(0)),
        cpu: false,
        kernel: Kernel::Other,
    };
    let last: (Op, &[u64]) = (second, &after);
    let calls = [call(AllReduce), call(AllReduce), call(AllToAll), call(AllReduce), last];
    let built = workload(&[&calls, &calls], &[]);
    let platform = format!(
        "topology: Ring(2)\nlinks: {{bandwidth: 50 GB/s, latency: 500 ns}}\n\
         npu: {{peak: 1 TFLOPS, memory: {{bandwidth: 1 TB/s}}}}\n\
         scheduler: {{{scheduler}, chunks: 1}}\n"
    );
    let outcome = run(&config(&platform, built, BackendKind::Analytical), &mut |_| true);
    outcome.expect("it runs").report.step_time_ns
}

/// HOTI 2020, section III-C: all-reduces last in, first out, and all-to-alls before them. The first
/// all-reduce runs before the others come.
#[test]
fn all_to_alls_go_first_under_any_policy() {
    let (all_to_all, last) = (2, 3);
    for policy in ["lifo", "fifo", "explicit", "smallest_first"] {
        let plain = step(&format!("policy: {policy}"), all_to_all);
        let first = step(&format!("policy: {policy}, all_to_all_first: true"), all_to_all);
        assert!(first < plain, "{policy}: {first} against {plain} ns");
    }
    let lifo = step("policy: lifo, all_to_all_first: true", last);
    let fifo = step("policy: fifo, all_to_all_first: true", last);
    assert!(lifo < fifo, "the last all-reduce: {lifo} against {fifo} ns");
}

/// The phases of a run on a fast and a slow ring: a reduce-scatter of many chunks, and one that is
/// called while its chunks wait.
fn phases(scheduler: &str) -> (f64, Vec<stats::Phase>) {
    let call = |slot| (collective(CollectiveKind::ReduceScatter, 1 << 20, slot), &[] as &[u64]);
    let calls = [call(0), call(0)];
    let platform = format!(
        "topology: Ring(2)_Ring(4)\nlinks:\n- {{bandwidth: 200 GB/s, latency: 90 ns}}\n\
         - {{bandwidth: 25 GB/s, latency: 200 ns}}\n\
         collectives: {{hierarchy: hierarchical_optimal}}\nscheduler: {{{scheduler}, chunks: 8}}\n"
    );
    let programs: [&[(Op, &[u64])]; 8] = [&calls; 8];
    let built = workload(&programs, &[]);
    let outcome = run(&config(&platform, built, BackendKind::Analytical), &mut |_| true);
    let report = outcome.expect("it runs").report;
    (report.step_time_ns, report.phases)
}

/// ISPASS 2020, section IV-B: chunks wait in the ready queue (P0) while T chunks
/// are in their first phase.
#[test]
fn chunks_wait_in_the_ready_queue() {
    let queue = |phases: &[stats::Phase], name: &str| {
        let found = phases.iter().find(|phase| phase.name.starts_with(name));
        found.map(|phase| (phase.count, phase.queue_ns))
    };
    let (free, without) = phases("policy: fifo");
    assert_eq!(queue(&without, "P0"), None);
    let (_, first_in_p1) = queue(&without, "P1").expect("a first phase");
    // One at a time and one place in the first dimension: what waited for it waits before it.
    let (limited, one) = phases("policy: fifo, dispatch_below: 1");
    assert_eq!(limited, free, "the order is the same");
    assert_eq!(one[0].name, "P0 ready queue");
    let (count, waited) = queue(&one, "P0").expect("a ready queue");
    assert_eq!((count, one[0].network_ns), (2 * 8 * 8, 0.0), "chunks of two calls on eight NPUs");
    assert!((waited - first_in_p1).abs() < 0.01, "{waited} ns in P0, {first_in_p1} in P1 without");
    assert_eq!(queue(&one, "P1").map(|found| found.1), Some(0.0));
    // Batches of all chunks at once: nobody waits there.
    let (_, all) = phases("policy: fifo, dispatch_below: 100, dispatch_chunks: 100");
    assert_eq!(queue(&all, "P0").map(|found| found.1), Some(0.0));
    assert_eq!(queue(&all, "P1"), queue(&without, "P1"));
    // Eight below the threshold of 1: the first batch leaves whole, the next when it is through.
    let (_, batches) = phases("policy: fifo, dispatch_below: 1, dispatch_chunks: 8");
    let (p0, p1) = (queue(&batches, "P0").expect("P0").1, queue(&batches, "P1").expect("P1").1);
    assert!(p0 > 0.0 && p1 > 0.0, "{p0} and {p1} ns");
    assert!((p0 + p1 - first_in_p1).abs() < 0.01, "{p0} and {p1} ns, {first_in_p1} without");
}

/// Last in, first out overtakes what has not been dispatched. What has comes in turn.
#[test]
fn a_later_collective_overtakes_chunks_of_the_ready_queue() {
    let last = |scheduler: &str| step(scheduler, 3);
    let (fifo, lifo) = (last("policy: fifo"), last("policy: lifo"));
    assert!(lifo < fifo, "{lifo} against {fifo} ns");
    let dispatched = last("policy: lifo, dispatch_below: 100, dispatch_chunks: 100");
    assert_eq!(dispatched, fifo, "all were dispatched at once");
    assert_eq!(last("policy: lifo, dispatch_below: 1"), lifo, "all but the first were not");
}

/// `explicit` has nothing to order by where all collectives are alike, and says so.
#[test]
fn priorities_that_are_all_the_same_are_told() {
    let warned = |policy: &str, of_last: i32| {
        let call = |urgency: i32| {
            let mut call = collective(CollectiveKind::AllReduce, 1 << 20, 0);
            if let Op::Collective { priority, .. } = &mut call {
                *priority = urgency;
            }
            (call, &[] as &[u64])
        };
        let calls = [call(0), call(of_last)];
        let platform = format!(
            "topology: Ring(2)\nlinks: {{bandwidth: 50 GB/s, latency: 500 ns}}\n\
             scheduler: {{policy: {policy}}}\n"
        );
        let built = workload(&[&calls, &calls], &[]);
        let config = config(&platform, built, BackendKind::Analytical);
        let report = run(&config, &mut |_| true).expect("it runs").report;
        report
            .assumptions
            .iter()
            .any(|text| text.contains("scheduler.policy explicit orders as fifo"))
    };
    assert!(warned("explicit", 0));
    assert!(!warned("explicit", 1));
    assert!(!warned("fifo", 0));
}
