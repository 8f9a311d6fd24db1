//! Which of several waiting collectives a dimension serves first.

#[path = "common/built.rs"]
mod built;

use built::{collective, config, workload};
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
