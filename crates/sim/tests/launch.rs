//! Hosts that launch one kernel after the other, and kernels beside communication.

use crate::common::built::{WORK, collective, config, recv, send};
use graph::{CollectiveKind, Node, Op, Program, ProgramBuilder, Workload};
use sim::{BackendKind, run};
use stats::Part;
use std::sync::Arc;
use units::Span;

const TWO: &str = "topology: Ring(2)\nlinks: {bandwidth: 1 GB/s, latency: 0 ns}\nscheduler: {endpoint_delay: 0 ns, chunks: 1}\n";

/// Nodes with their durations in us and what they depend on.
fn program(nodes: &[(Op, u64, &[u64])]) -> Program {
    let mut builder = ProgramBuilder::default();
    for (id, (op, us, after)) in nodes.iter().enumerate() {
        let node = Node { id: id as u64, duration: Span::from_ns(1000 * us), op: *op };
        builder.push(node, &format!("n{id}"), after.iter().copied());
    }
    builder.build().expect("ids are unique")
}

fn step_us(npu: &str, workload: Workload) -> f64 {
    let platform = format!("{TWO}npu: {npu}\n");
    let finished = run(&config(&platform, workload, BackendKind::Analytical), &mut |_| true);
    finished.unwrap_or_else(|e| panic!("{e}")).report.step_time_ns / 1000.0
}

/// Hosts run ahead of their NPUs: kernel i begins when i + 1 launches are over and the kernel
/// before it is.
#[test]
fn a_host_runs_ahead() {
    let alone = |kernels: &[u64], npu: &str| {
        let nodes: Vec<_> = kernels.iter().map(|&us| (WORK, us, &[][..])).collect();
        step_us(npu, Workload::uniform(program(&nodes), 2))
    };
    assert_eq!(alone(&[100, 1, 1, 1], "{launch: 10 us}"), 10.0 + 100.0 + 3.0);
    assert_eq!(alone(&[1, 1, 1, 100], "{launch: 10 us}"), 40.0 + 100.0);
    assert_eq!(alone(&[1, 1, 1, 100], "{}"), 103.0);
}

/// What a collective takes beside a kernel is for every other member; sends have a time of their
/// own.
#[test]
fn collectives_and_sends_take_their_own() {
    let reduce = program(&[(collective(CollectiveKind::AllReduce, 0, 0), 0, &[]), (WORK, 1, &[0])]);
    let mut workload = Workload::uniform(reduce, 2);
    workload.slots = vec![0];
    assert_eq!(
        step_us("{launch: {kernel: 10 us, per_member: 70 us}}", workload),
        10.0 + 70.0 + 10.0 + 1.0
    );
    let passed = |npu: &str| {
        let first = program(&[(send(1, 100_000), 0, &[]), (send(1, 100_000), 0, &[0])]);
        let second = program(&[(recv(-1, 100_000), 0, &[]), (recv(-1, 100_000), 0, &[0])]);
        let mut workload = Workload::uniform(first, 2);
        workload.programs.push(Arc::new(second));
        workload.ranks[1].program = 1;
        step_us(npu, workload)
    };
    assert_eq!(passed("{launch: 10 us}"), passed("{launch: {kernel: 10 us}}"));
    assert_eq!(passed("{launch: {kernel: 10 us, send: 500 us}}"), 500.0 + 500.0 + 100.0);
    // Both hosts take their time beside each other; the second receive begins when the first is
    // over.
    assert_eq!(passed("{launch: {send: 500 us, receive: 500 us}}"), 500.0 + 100.0 + 500.0);
}

/// It waits for what its NPU receives: what follows is launched after that.
#[test]
fn a_host_waits_for_receives() {
    let first = program(&[(WORK, 50, &[]), (send(1, 100_000), 0, &[0])]);
    let second = program(&[(recv(-1, 100_000), 0, &[]), (WORK, 1, &[0]), (WORK, 1, &[1])]);
    let mut workload = Workload::uniform(first, 2);
    workload.programs.push(Arc::new(second));
    workload.ranks[1].program = 1;
    // Launch, kernel, the send (launched meanwhile), 100 us of bytes; then two launches, and the
    // kernel after the last.
    assert_eq!(step_us("{launch: 10 us}", workload), 10.0 + 50.0 + 100.0 + 20.0 + 1.0);
}

/// Kernels of 1 us that a host launches every 10 us: nine of ten microseconds are waits for
/// launches, in every part of the report that says where time goes.
#[test]
fn waits_for_launches_are_told() {
    let nodes: Vec<_> = (0..10).map(|_| (WORK, 1, &[][..])).collect();
    let platform = format!("{TWO}npu: {{launch: 10 us}}\n");
    let mut asked =
        config(&platform, Workload::uniform(program(&nodes), 2), BackendKind::Analytical);
    asked.watch.detail = true;
    let report = run(&asked, &mut |_| true).unwrap_or_else(|e| panic!("{e}")).report;
    let class = &report.classes[0];
    assert_eq!(
        (report.step_time_ns, class.parts[Part::Compute], class.parts[Part::Launch]),
        (101_000.0, 10_000.0, 91_000.0)
    );
    assert_eq!((class.parts[Part::Idle], class.parts[Part::Communication]), (0.0, 0.0));
    let detail = report.detail.as_ref().expect("asked for");
    let spent = |parts: &[stats::PathPart]| {
        parts.iter().map(|p| (p.name.clone(), p.ns)).collect::<Vec<_>>()
    };
    assert_eq!(
        spent(&detail.critical_path.by_kind),
        [("launch".to_string(), 91_000.0), ("compute".into(), 10_000.0)]
    );
    assert_eq!(
        detail.layers.iter().map(|layer| layer.parts.charged[Part::Launch]).sum::<f64>(),
        91_000.0
    );
    assert_eq!(report.operations.iter().map(|op| op.total_ns).sum::<f64>(), 2.0 * 10_000.0);
}

/// While something communicates, waiting for a launch is communication's; a collective that waits
/// for its own launch doesn't communicate yet.
#[test]
fn a_wait_beside_communication_is_communications() {
    let reduce = collective(CollectiveKind::AllReduce, 100_000, 0);
    let mut workload = Workload::uniform(program(&[(reduce, 0, &[]), (WORK, 1, &[])]), 2);
    workload.slots = vec![0];
    let platform = format!("{TWO}npu: {{launch: 10 us}}\n");
    let report = run(&config(&platform, workload, BackendKind::Analytical), &mut |_| true)
        .unwrap_or_else(|e| panic!("{e}"))
        .report;
    // Launched at 10 us, over after 100 us (both ways of the ring at once); the kernel is launched
    // at 20 us and takes 1 us.
    let class = &report.classes[0];
    assert_eq!((class.parts[Part::Launch], class.parts[Part::Compute]), (10_000.0, 1_000.0));
    assert_eq!(class.parts[Part::Communication], report.step_time_ns - 11_000.0);
    assert_eq!(class.comm_ns, report.step_time_ns - 10_000.0);
}

/// Kernels keep 0.8 of their speed for as long as a collective goes on, here 200 us: they do 160 of
/// 400 us of work meanwhile, whether they begin with it, before it or go on after it.
#[test]
fn kernels_beside_communication_are_slower() {
    let reduce = collective(CollectiveKind::AllReduce, 200_000, 0);
    let step = |nodes: &[(Op, u64, &[u64])], npu: &str| {
        let mut workload = Workload::uniform(program(nodes), 2);
        workload.slots = vec![0];
        step_us(npu, workload)
    };
    let slower = "{compute: {beside: 0.8}}";
    let with: [(Op, u64, &[u64]); 3] = [(reduce, 0, &[]), (WORK, 400, &[]), (WORK, 400, &[1])];
    assert_eq!((step(&with, "{}"), step(&with, slower)), (800.0, 840.0));
    let several: [(Op, u64, &[u64]); 4] =
        [(reduce, 0, &[]), (WORK, 100, &[]), (WORK, 100, &[1]), (WORK, 100, &[2])];
    assert_eq!(step(&several, slower), 340.0);
    let during: [(Op, u64, &[u64]); 4] =
        [(WORK, 100, &[]), (WORK, 300, &[0]), (reduce, 0, &[0]), (WORK, 1, &[1])];
    assert_eq!(step(&during, slower), 100.0 + 200.0 + 140.0 + 1.0);
    let outlasts: [(Op, u64, &[u64]); 2] = [(reduce, 0, &[]), (WORK, 80, &[])];
    assert_eq!(step(&outlasts, slower), 200.0);
    // One collective after the other, without a moment between.
    let two: [(Op, u64, &[u64]); 3] = [(reduce, 0, &[]), (reduce, 0, &[0]), (WORK, 400, &[])];
    assert_eq!(step(&two, slower), 480.0);
}
