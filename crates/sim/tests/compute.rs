//! Durations of compute nodes in whole runs: models, the factor on compute, and what the report
//! warns of.

use graph::{Gemm, Kernel, Node, Op, ProgramBuilder, Workload};
use platform::config::native::from_yaml;
use sim::{BackendKind, Config, Outcome, Source, Watch, run};
use units::{Bytes, Span};

fn counted(operations: u64, bytes: u64, kernel: Kernel) -> Op {
    Op::Compute { operations: Some(operations), bytes: Some(Bytes(bytes)), cpu: false, kernel }
}

const UNKNOWN: Op =
    Op::Compute { operations: None, bytes: None, cpu: false, kernel: Kernel::Other };
const HOST: Op = Op::Compute { operations: None, bytes: None, cpu: true, kernel: Kernel::Other };

/// One NPU that runs the operations (with recorded durations in ns) one after the other.
fn simulate(ops: &[(Op, u64)], npu: &str, set: &[(&str, &str)]) -> Outcome {
    let mut program = ProgramBuilder::default();
    for (id, &(op, ns)) in ops.iter().enumerate() {
        let id = id as u64;
        program.push(
            Node { id, duration: Span::from_ns(ns), op },
            &format!("op{id}"),
            id.checked_sub(1),
        );
    }
    let workload = Workload::uniform(program.build().unwrap(), 2);
    let set: Vec<(String, String)> =
        set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let text = format!("topology: R(2)\nlinks: {{bandwidth: 1 GB/s, latency: 1 ns}}\nnpu: {npu}\n");
    let platform = from_yaml(&text, "p.yml", &set).unwrap();
    let workload = Source::Built(Box::new(workload));
    let config = Config {
        workload,
        groups: Vec::new(),
        platform,
        backend: BackendKind::Analytical,
        fold: true,
        watch: Watch::default(),
    };
    run(&config, &mut |_| true).unwrap()
}

fn step(ops: &[(Op, u64)], npu: &str, set: &[(&str, &str)]) -> u64 {
    simulate(ops, npu, set).finish(0).0
}

const ROOFLINE: &str = "{peak: 1 TFLOPS, memory: {bandwidth: 1 TB/s}}";

#[test]
fn every_duration_of_the_npu_is_divided_by_the_scale() {
    // 3000 ps by the roofline, 7 ns recorded, 11 ns on the host, which is not an NPU.
    let ops = [(counted(3_000, 1, Kernel::Other), 0), (UNKNOWN, 7), (HOST, 11)];
    assert_eq!(step(&ops, ROOFLINE, &[]), 3_000 + 7_000 + 11_000);
    assert_eq!(step(&ops, ROOFLINE, &[("npu.compute.speedup", "2")]), 1_500 + 3_500 + 11_000);
    assert_eq!(step(&ops, ROOFLINE, &[("npu.compute.speedup", "0.5")]), 6_000 + 14_000 + 11_000);
    // Each rounded up: 3000 / 0.7 = 4285.7..., 7000 / 0.7 = 10000
    assert_eq!(step(&ops, ROOFLINE, &[("npu.compute.speedup", "0.7")]), 4_286 + 10_000 + 11_000);
    assert_eq!(step(&ops, "{compute: recorded}", &[("npu.compute.speedup", "4")]), 1_750 + 11_000);
}

#[test]
fn kinds_of_kernels_reach_their_own_part_of_the_roofline() {
    let npu = "{peak: 1 TFLOPS, memory: {bandwidth: 1 TB/s}, compute: {efficiency: {gemm: 0.5}, memory_efficiency: {embedding: 25 %}}}";
    let ops = [
        (counted(1_000, 1, Kernel::Gemm), 0),
        (counted(1_000, 1, Kernel::Attention), 0),
        (counted(1, 1_000, Kernel::Embedding), 0),
        // 2 * 10^3 operations
        (Op::Gemm(Gemm { batch: 1, m: 10, n: 10, k: 10, width: 1 }), 0),
    ];
    assert_eq!(step(&ops, npu, &[]), 2_000 + 1_000 + 4_000 + 4_000);
}

#[test]
fn an_array_multiplies_and_the_roofline_does_the_rest() {
    let npu = "{compute: {model: systolic, rows: 4, columns: 8, dataflow: output_stationary, clock: 1 GHz}}";
    let gemm = Op::Gemm(Gemm { batch: 2, m: 10, n: 20, k: 30, width: 2 });
    // 2 * 9 folds of 2*4 + 8 + 30 - 2 cycles; 640 operations at 2 * 4 * 8 a cycle
    assert_eq!(
        step(&[(gemm, 0), (counted(640, 0, Kernel::Other), 0)], npu, &[]),
        2 * 9 * 44_000 + 10_000
    );
}

#[test]
fn a_replay_takes_what_was_recorded() {
    let set = [("scheduler.replay_only", "true")];
    assert_eq!(step(&[(counted(3_000, 1, Kernel::Other), 5)], ROOFLINE, &set), 5_000);
}

fn warnings(ops: &[(Op, u64)], npu: &str) -> Vec<String> {
    simulate(ops, npu, &[]).report.warnings
}

#[test]
fn compute_without_time_is_warned_about() {
    let gemm = Op::Gemm(Gemm { batch: 1, m: 8, n: 8, k: 8, width: 2 });
    let nothing = "neither a recorded duration nor both operations and bytes, so they take no time";
    assert_eq!(
        warnings(&[(UNKNOWN, 1), (UNKNOWN, 0), (UNKNOWN, 0), (HOST, 0), (gemm, 0)], ROOFLINE),
        [format!("compute, 2 nodes (first: \"op1\", node 1): {nothing}")]
    );
    let recorded = "no recorded duration, so they take no time; npu.compute: roofline would use their operations and bytes";
    assert_eq!(
        warnings(&[(UNKNOWN, 0), (gemm, 0), (gemm, 5)], "{compute: recorded}"),
        [
            format!("compute, 1 node (first: \"op0\", node 0): {nothing}"),
            format!("compute, 1 node (first: \"op1\", node 1): {recorded}"),
        ]
    );
    assert!(warnings(&[(UNKNOWN, 1), (gemm, 0)], ROOFLINE).is_empty());
}

#[test]
fn a_table_warns_of_what_it_does_not_cover() {
    let table = std::env::temp_dir().join(format!("armillary-warnings-{}.csv", std::process::id()));
    std::fs::write(&table, "m,n,k,width,time\n64,64,64,2,10 us\n4096,4096,4096,2,200 us\n")
        .unwrap();
    let npu =
        format!("{{peak: 1 PFLOPS, compute: {{model: measured, table: {}}}}}", table.display());
    let square = |size, width| (Op::Gemm(Gemm { batch: 1, m: size, n: size, k: size, width }), 0);
    let ops = [
        square(64, 2),
        square(64, 4),
        square(8192, 2),
        square(1024, 2),
        (counted(1_000, 1, Kernel::Gemm), 0),
    ];
    let found = warnings(&ops, &npu);
    std::fs::remove_file(&table).unwrap();
    assert_eq!(
        found,
        [
            "compute, 1 node (first: \"op1\", node 1): elements of a width that the table does not have (it has 2 bytes), so the roofline gives the times",
            "compute, 1 node (first: \"op2\", node 2): outside the measured shapes of the table, so the efficiency at its edge is used",
            "compute, 1 node (first: \"op3\", node 3): the measured shapes are so far apart that the times may be wrong by a factor of 2 or more",
        ]
    );
}
