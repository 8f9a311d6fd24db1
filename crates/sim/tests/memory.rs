//! Memory in whole runs: the pool of the paper's worked example, overlap, turns, and what is
//! refused.

use crate::common::built::{WORK, collective, config};
use graph::{
    CollectiveKind, Footprint, Kernel, MemoryChange, Node, Offloaded, Op, ProgramBuilder, Reach,
    Workload,
};
use sim::{BackendKind, run};
use stats::{Class, Part, Report};
use std::collections::BTreeMap;
use units::{Bytes, Span};

/// Section IV-D: 16 nodes of 16 GPUs, 4 out-node switches, 8 remote memory groups; bandwidths of
/// our own.
const EXAMPLE: &str = "topology: SW(16)_SW(16)\nlinks: {bandwidth: 50 GB/s, latency: 0 ns}\nremote_memory: \
    {model: hierarchical, nodes: 16, out_switches: 4, groups: 8, capacity: 1 TB, chunk_size: 1 MB, \
    memory_side: {bandwidth: 100 GB/s}, npu_side: {bandwidth: 50 GB/s}, in_node: {bandwidth: 256 GB/s}}\n";

fn memory(store: bool, bytes: u64, reach: Reach) -> Op {
    Op::Memory { store, bytes: Bytes(bytes), reach, tensor: 0, slot: None }
}

/// The same program on every rank; each node depends on the given ones.
fn everywhere(ranks: u32, nodes: &[(Op, &[u64])]) -> Workload {
    let mut builder = ProgramBuilder::default();
    for (id, (op, after)) in nodes.iter().enumerate() {
        builder.push(
            Node { id: id as u64, duration: Span::from_ns(10), op: *op },
            "n",
            after.iter().copied(),
        );
    }
    Workload::uniform(builder.build().expect("ids are unique"), ranks)
}

fn report(platform: &str, workload: Workload) -> Report {
    run(&config(platform, workload, BackendKind::Analytical), &mut |_| true)
        .unwrap_or_else(|e| panic!("{e}"))
        .report
}

fn parts(class: &Class) -> [f64; 5] {
    [Part::Compute, Part::Communication, Part::Remote, Part::Local, Part::Idle]
        .map(|part| class.parts[part])
}

/// Loads of a tensor of W on each of 256 GPUs, piece by piece: every GPU takes an equal piece by
/// every group and switch.
fn counted(w: u64) -> BTreeMap<(&'static str, u64, u64), u64> {
    let mut links = BTreeMap::new();
    let piece = w / 8 / 4;
    for (gpu, group, switch) in
        (0..256).flat_map(|g| (0..8).flat_map(move |m| (0..4).map(move |s| (g, m, s))))
    {
        for link in [
            ("group", group, 0),
            ("group-switch", group, switch),
            ("switch-node", switch, gpu / 16),
            ("gpu", gpu, 0),
        ] {
            *links.entry(link).or_default() += piece;
        }
    }
    links
}

/// "Each remote memory module will have 32W", each link 8W, 4W to a node; and the time of a run is
/// that of those loads in step.
#[test]
fn the_worked_example_by_counting_and_by_simulation() {
    let w = 64_000_000;
    for ((link, ..), bytes) in counted(w) {
        let expected = match link {
            "group" => 32 * w,
            "group-switch" => 8 * w,
            "switch-node" => 4 * w,
            _ => w,
        };
        assert_eq!(bytes, expected, "{link}");
    }
    let report = report(EXAMPLE, everywhere(256, &[(memory(false, w, Reach::Remote), &[])]));
    // 8 W over chunks of 1 MB; 10 us from a group, 10 us to a node (half a chunk), 125 kB at 256
    // GB/s to a GPU.
    let (stages, t1, t2, t3) = (8 * w / 1_000_000, 10_000.0_f64, 10_000.0, 125_000.0 / 256.0);
    let expected = t1 + t1.max(t2) + (stages - 2) as f64 * t1.max(t2).max(t3) + t2.max(t3) + t3;
    assert!(
        (report.step_time_ns - expected).abs() < 0.001 * stages as f64,
        "{} {expected}",
        report.step_time_ns
    );
    assert_eq!(report.classes.len(), 1);
    assert_eq!(parts(&report.classes[0]), [0.0, 0.0, report.step_time_ns, 0.0, 0.0]);
    assert_eq!(report.symmetry.classes, 1, "pools fold: {}", report.symmetry.reason);
}

/// 8W, 64W to each node, 256W to each GPU.
#[test]
fn the_worked_example_in_switch() {
    let w = 64_000_000;
    let report = report(EXAMPLE, everywhere(256, &[(memory(false, w, Reach::InSwitch), &[])]));
    let (stages, t1, t2, t3) = (8 * w / 1_000_000, 10_000.0, 8.0 * 1e6 / 50.0, 32.0 * 1e6 / 256.0);
    assert_eq!(report.step_time_ns, t1 + t2 * stages as f64 + t3);
}

/// 1 ms of loading next to 10 ns of compute and a collective; what is left exposed is the rest of
/// the load.
#[test]
fn prefetching_hides_behind_what_runs_meanwhile() {
    let platform = "topology: Ring(4)\nlinks: {bandwidth: 100 GB/s, latency: 0 ns}\nscheduler: {endpoint_delay: 0 ns}\n\
                    npu: {memory: {bandwidth: 1000 GB/s, latency: 5 ns}}\n\
                    remote_memory: {sharing: per_npu, latency: 0 ns, bandwidth: 100 GB/s}\n";
    let ops = [
        (WORK, &[][..]),
        (memory(false, 10_000, Reach::Remote), &[]),
        (collective(CollectiveKind::AllGather, 1_000, 0), &[0]),
        (WORK, &[1, 2]),
        (memory(true, 2_000, Reach::Local), &[3]),
    ];
    let report = report(platform, everywhere(4, &ops));
    // Compute 10, gather a step of 10 and one of 5 both ways, load 100 in all, compute 10, local
    // store 5 + 2.
    assert_eq!(parts(&report.classes[0]), [20.0, 15.0, 75.0, 7.0, 0.0]);
}

/// Two local stores take turns among themselves and not with the load from outside.
#[test]
fn local_accesses_take_turns() {
    let platform = "topology: Ring(2)\nlinks: {bandwidth: 1 GB/s, latency: 0 ns}\nnpu: {memory: {bandwidth: 1 GB/s}}\n\
                    remote_memory: {sharing: pool, latency: 0 ns, bandwidth: 1 GB/s}\n";
    let ops = [
        (memory(true, 100, Reach::Local), &[][..]),
        (memory(true, 100, Reach::Local), &[]),
        (memory(false, 150, Reach::Remote), &[]),
    ];
    let report = report(platform, everywhere(2, &ops));
    let exposed: Vec<[f64; 5]> = report.classes.iter().map(parts).collect();
    assert_eq!(exposed, [[0.0, 0.0, 150.0, 50.0, 100.0], [0.0, 0.0, 300.0, 0.0, 0.0]]);
}

fn refused(platform: &str, op: Op) -> String {
    let config = config(platform, everywhere(256, &[(op, &[])]), BackendKind::Analytical);
    run(&config, &mut |_| true).expect_err("impossible").to_string()
}

#[test]
fn impossible_accesses_are_refused_with_the_numbers() {
    let large = refused(EXAMPLE, memory(false, 40_000_000_000, Reach::Remote));
    let numbers = "the memory pool must hold 10240.0 GB of 256 NPUs, more than its 8000.0 GB";
    assert!(large.contains(numbers), "{large}");
    let link = "topology: SW(256)\nlinks: {bandwidth: 50 GB/s, latency: 0 ns}\n\
                remote_memory: {sharing: pool, latency: 1 us, bandwidth: 100 GB/s}\n";
    let switchless = refused(link, memory(false, 8, Reach::InSwitch));
    assert!(
        switchless.contains(
            "gathers or scatters in the switches of remote memory, but the memory has no switches"
        ),
        "{switchless}"
    );
    assert!(switchless.contains("hierarchical"), "{switchless}");
}

/// Every model of memory, on either backend, over any network: all ranks fold, and a 4,096-NPU pool
/// is one rank's work.
#[test]
fn every_network_and_memory_folds() {
    let pools = [
        "{sharing: per_npu, latency: 1 us, bandwidth: 100 GB/s}",
        "{model: cxl, sharing: per_npu, latency: 200 ns, bandwidth: 64 GB/s}",
        "{model: zero_infinity, cpu: {bandwidth: 100 GB/s}, nvme: {bandwidth: 6 GB/s}, chunk_size: 1 MB}",
        "{model: hierarchical, nodes: 256, out_switches: 16, groups: 1024, chunk_size: 256 kB, memory_side: {bandwidth: 9 GB/s}, \
          npu_side: {bandwidth: 50 GB/s}, in_node: {bandwidth: 256 GB/s}}",
        "{model: ring, stations: 4096, groups: 1000, chunk_size: 1 MB, memory_side: {bandwidth: 100 GB/s}, \
          between: {bandwidth: 400 GB/s}, npu_side: {bandwidth: 400 GB/s}}",
        "{model: mesh, stations: [64, 64], groups: 1000, chunk_size: 1 MB, memory_side: {bandwidth: 100 GB/s}, \
          between: {bandwidth: 400 GB/s}, npu_side: {bandwidth: 400 GB/s}}",
    ];
    let networks = ["Ring(4096)", "FC(16)_FC(16)_FC(16)", "SW(4096)", "R(16)_FC(16)_SW(16)"];
    for (pool, network) in pools.iter().flat_map(|pool| networks.map(|network| (pool, network))) {
        let text = format!(
            "topology: {network}\nlinks: {{bandwidth: 50 GB/s, per: link, latency: 1 us}}\nremote_memory: {pool}\n\
             collectives: {{all_reduce: ring}}\nscheduler: {{chunks: 2}}\n"
        );
        let ops = [
            (memory(false, 1 << 24, Reach::Remote), &[][..]),
            (WORK, &[0]),
            (collective(CollectiveKind::AllReduce, 4096, 0), &[1]),
            (memory(true, 1 << 24, Reach::Remote), &[2]),
        ];
        let outcome =
            run(&config(&text, everywhere(4096, &ops), BackendKind::Analytical), &mut |_| true);
        let outcome = outcome.unwrap_or_else(|error| panic!("{text}\n{error}"));
        assert_eq!(
            (outcome.simulated_ranks, outcome.report.classes.len()),
            (1, 1),
            "{network} {pool}"
        );
    }
}

/// A program whose nodes compute 10 ns each, one after the other, and hold bytes: (allocates,
/// frees).
fn holding(holds: &[(u64, u64)]) -> Workload {
    let mut builder = ProgramBuilder::default();
    for (id, &(allocates, frees)) in holds.iter().enumerate() {
        let after = (id as u64).checked_sub(1);
        builder.push(Node { id: id as u64, duration: Span::from_ns(10), op: WORK }, "n", after);
        builder.hold(id, MemoryChange { allocates: Bytes(allocates), frees: Bytes(frees) });
    }
    let mut workload = Workload::uniform(builder.build().expect("ids are unique"), 2);
    workload.footprints = vec![Footprint {
        weights: 300,
        gradients: 100,
        optimizer: 100,
        activations: 150,
        ..Footprint::default()
    }];
    workload
}

fn small(memory: &str) -> String {
    format!(
        "topology: Ring(2)\nlinks: {{bandwidth: 1 GB/s, latency: 0 ns}}\nnpu: {{memory: {{{memory}}}}}\n\
         remote_memory: {{sharing: per_npu, latency: 3 ns, bandwidth: 10 GB/s}}\n"
    )
}

/// Two tensors of 100 and 50 bytes are kept from their forward to their backward node.
const TENSORS: [(u64, u64); 4] = [(100, 0), (50, 0), (0, 50), (0, 100)];

#[test]
fn the_peak_is_what_is_held_at_once() {
    assert_eq!(report(&small(""), holding(&TENSORS)).classes[0].peak_memory_bytes, 500 + 150);
    let mut watched = config(&small(""), holding(&TENSORS), BackendKind::Analytical);
    watched.watch.detail = true;
    let detail = run(&watched, &mut |_| true)
        .unwrap_or_else(|e| panic!("{e}"))
        .report
        .detail
        .expect("asked for");
    let line = &detail.memory[0].bytes;
    // Four nodes of 10 ns: 600, 650, 650 and 600 bytes.
    assert_eq!([1, 3, 5, 7].map(|i| line[line.len() * i / 8]), [600, 650, 650, 600]);
    assert_eq!(line.iter().max(), Some(&650));
    // Freed before the next is allocated: only the larger counts.
    let turns = [(100, 100), (50, 50)];
    assert_eq!(report(&small(""), holding(&turns)).classes[0].peak_memory_bytes, 500 + 100);
    // Nothing said by node: all of it, all along.
    assert_eq!(report(&small(""), holding(&[(0, 0)])).classes[0].peak_memory_bytes, 650);
}

#[test]
fn what_does_not_fit_is_warned_of_or_refused_where_it_happens() {
    let warned = report(&small("capacity: 600 B"), holding(&TENSORS));
    assert_eq!((warned.fits.as_deref(), warned.memory_bytes), (Some("no"), Some(650)));
    let near = report(&small("capacity: 649 B"), holding(&TENSORS));
    assert_eq!(near.fits.as_deref(), Some("near"));
    assert!(near.warnings[0].starts_with("the workload may not fit: rank 0 needs"), "{near:?}");
    let fits = report(&small("capacity: 690 B"), holding(&TENSORS));
    assert_eq!((fits.fits.as_deref(), fits.warnings.len()), (Some("yes"), 0));
    assert_eq!(report(&small(""), holding(&TENSORS)).fits, None);
    assert!(
        warned.warnings[0].starts_with("the workload does not fit: rank 0 needs"),
        "{:?}",
        warned.warnings
    );
    assert!(
        report(&small("capacity: 650 B, on_overflow: refuse"), holding(&TENSORS))
            .warnings
            .is_empty()
    );
    let refusal = |memory: &str, workload: Workload| {
        run(&config(&small(memory), workload, BackendKind::Analytical), &mut |_| true)
            .expect_err("too much")
            .to_string()
    };
    let declared = refusal("capacity: 649 B, on_overflow: refuse", holding(&TENSORS));
    assert!(
        declared.contains("holds 650 B at its peak, more than the 649 B of its NPU's memory"),
        "{declared}"
    );
    let mut silent = holding(&TENSORS);
    silent.footprints = Vec::new();
    let during = refusal("capacity: 149 B, on_overflow: refuse", silent);
    assert!(
        during.contains("rank 0 node 1: holds 150 B at 10 ns, more than the 149 B"),
        "{during}"
    );
    let kept = refusal("capacity: 499 B, on_overflow: spill", holding(&TENSORS));
    assert!(
        kept.contains("holds 500 B all the time, which can't be moved out, more than the 499 B"),
        "{kept}"
    );
}

/// 20 of 150 bytes don't fit: out at the second node (3 + 2 ns), back at the last one, which frees
/// 100 with 80 inside.
#[test]
fn what_does_not_fit_spills_and_comes_back() {
    let report = report(&small("capacity: 630 B, on_overflow: spill"), holding(&TENSORS));
    assert_eq!(parts(&report.classes[0]), [40.0, 0.0, 10.0, 0.0, 0.0]);
    assert_eq!(report.classes[0].peak_memory_bytes, 650);
    let mut single = config(
        &small("capacity: 630 B, on_overflow: spill"),
        holding(&TENSORS),
        BackendKind::Analytical,
    );
    single.fold = false;
    let unfolded = run(&single, &mut |_| true).unwrap_or_else(|e| panic!("{e}")).report;
    assert_eq!(serde_json::to_string(&unfolded).ok(), serde_json::to_string(&report).ok());
}

/// 1 GB/s of 3 GB/s are left next to a ring of 1 GB/s: kernels bound by memory take three times as
/// long meanwhile.
#[test]
fn communication_takes_its_part_of_the_memory() {
    let kernel = Op::Compute {
        operations: Some(1),
        bytes: Some(Bytes(300)),
        cpu: false,
        kernel: Kernel::Other,
    };
    let ops =
        [(kernel, &[][..]), (collective(CollectiveKind::AllGather, 1_000, 0), &[]), (kernel, &[0])];
    let step = |contention: bool| {
        let platform = format!(
            "topology: Ring(2)\nlinks: {{bandwidth: 1 GB/s, latency: 0 ns}}\nscheduler: {{endpoint_delay: 0 ns}}\n\
             npu: {{peak: 100 TFLOPS, memory: {{bandwidth: 3 GB/s, contention: {contention}}}}}\n"
        );
        report(&platform, everywhere(2, &ops)).classes[0].parts[Part::Compute]
    };
    assert_eq!((step(false), step(true)), (200.0, 300.0 + 300.0));
    let platform = "topology: Ring(2)\nlinks: {bandwidth: 1 GB/s, latency: 0 ns}\n\
                    npu: {memory: {bandwidth: 2 GB/s, contention: true}}\n";
    let error = run(&config(platform, everywhere(2, &ops), BackendKind::Analytical), &mut |_| true)
        .expect_err("none left");
    assert!(
        error
            .to_string()
            .contains("communication at 1 GB/s uses twice that bandwidth of the memory"),
        "{error}"
    );
}

/// m bytes up and m down, two hops; 2 (n-1) / n m for the best algorithm at the ends.
#[test]
fn switches_reduce() {
    let (m, n) = (1_000_000u64, 16u32);
    let step = |algorithm: &str, backend| {
        let platform = format!(
            "topology: SW({n})\nlinks: {{bandwidth: 100 GB/s, latency: 500 ns}}\nscheduler: {{endpoint_delay: 0 ns}}\n\
             collectives: {{all_reduce: {algorithm}}}\n"
        );
        let workload = everywhere(n, &[(collective(CollectiveKind::AllReduce, m, 0), &[])]);
        run(&config(&platform, workload, backend), &mut |_| true)
            .unwrap_or_else(|e| panic!("{e}"))
            .report
            .step_time_ns
    };
    assert_eq!(step("in_network", BackendKind::Analytical), 1_000.0 + 10_000.0);
    assert_eq!(step("in_network", BackendKind::Link), 1_000.0 + 10_000.0);
    let ends = step("halving_doubling", BackendKind::Analytical);
    assert!((ends - (8.0 * 1_000.0 + 2.0 * 15.0 / 16.0 * 10_000.0)).abs() < 1.0, "{ends}");
}

/// A pool of four NPUs: two groups of 500 bytes.
const SMALL_POOL: &str = "topology: SW(4)\nlinks: {bandwidth: 50 GB/s, latency: 0 ns}\nremote_memory: \
    {model: ring, stations: 2, groups: 2, capacity: 500 B, chunk_size: 1 kB, \
    memory_side: {bandwidth: 100 GB/s}, between: {bandwidth: 50 GB/s}, npu_side: {bandwidth: 50 GB/s}}\n";

/// Runs on the small pool; its warnings, or why it is refused.
fn on_small_pool(workload: Workload) -> Result<Vec<String>, String> {
    run(&config(SMALL_POOL, workload, BackendKind::Analytical), &mut |_| true)
        .map(|outcome| outcome.report.warnings)
        .map_err(|error| error.to_string())
}

fn touch(store: bool, bytes: u64, tensor: u32) -> Op {
    Op::Memory { store, bytes: Bytes(bytes), reach: Reach::Remote, tensor, slot: None }
}

/// 4 x 250 bytes fill the pool; a second tensor of one byte each is too much; a second load of the
/// first is not.
#[test]
fn a_pool_holds_each_tensor_once() {
    let twice =
        |tensor| everywhere(4, &[(touch(false, 250, 1), &[]), (touch(false, 1, tensor), &[0])]);
    assert_eq!(on_small_pool(twice(1)), Ok(Vec::new()));
    let refused = on_small_pool(twice(2)).expect_err("4 x 251 bytes in 1,000");
    assert!(refused.contains("must hold 1.004 kB of 4 NPUs, more than its 1 kB"), "{refused}");
    let unclear = on_small_pool(twice(0)).expect("it may be one tensor");
    assert!(unclear[0].contains("between 1 kB and 1.004 kB lie in it"), "{unclear:?}");
}

/// The report says what lies in the pool: 4 x 200 bytes of a named tensor; of those without a number
/// 4 x 100 at least, all 4 x 140 at most.
#[test]
fn reports_say_what_lies_in_a_pool() {
    let rows = |nodes: &[(Op, &[u64])]| {
        let workload = everywhere(4, nodes);
        report(SMALL_POOL, workload).outside
    };
    let named = rows(&[(touch(true, 200, 1), &[]), (touch(false, 150, 1), &[0])]);
    assert_eq!((named.len(), named[0].name.as_str()), (1, "memory pool"));
    assert_eq!((named[0].memories, named[0].ranks), (1, 4));
    assert_eq!((named[0].least_bytes, named[0].most_bytes), (800, 800));
    assert_eq!(named[0].capacity_bytes, Some(1_000));
    let unnamed = rows(&[(touch(true, 100, 0), &[]), (touch(false, 40, 0), &[0])]);
    assert_eq!((unnamed[0].least_bytes, unnamed[0].most_bytes), (400, 560));
    assert!(rows(&[(WORK, &[])]).is_empty());
}

/// What a generator says lies outside counts, although each access is small.
#[test]
fn what_a_generator_offloads_counts() {
    let offloads = |optimizer| {
        let mut workload = everywhere(4, &[(touch(false, 1, 0), &[])]);
        let outside = Offloaded { optimizer, ..Offloaded::default() };
        workload.footprints = vec![Footprint { outside, ..Footprint::default() }];
        on_small_pool(workload)
    };
    assert_eq!(offloads(250), Ok(Vec::new()));
    assert!(offloads(251).is_err());
}

/// 1,000 random workloads: the tensors that were touched, each once, fit, or the run is refused.
/// With accesses without a number all of them together fit, or there is a warning.
#[test]
fn contents_are_never_above_the_capacity() {
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut outcomes = [0; 3];
    for _ in 0..1_000 {
        let named = random(3) > 0;
        let nodes: Vec<(Op, &[u64])> = (0..1 + random(6))
            .map(|_| {
                let tensor = if named { 1 + random(4) as u32 } else { random(3) as u32 };
                (touch(random(2) == 0, 1 + random(150), tensor), &[][..])
            })
            .collect();
        let (mut sizes, mut unnamed) = (BTreeMap::new(), 0);
        for (op, _) in &nodes {
            let Op::Memory { bytes, tensor, .. } = *op else { continue };
            if tensor == 0 {
                unnamed += bytes.0;
            } else {
                let size = sizes.entry(tensor).or_insert(0);
                *size = bytes.0.max(*size);
            }
        }
        let at_most = 4 * (sizes.values().sum::<u64>() + unnamed);
        match on_small_pool(everywhere(4, &nodes)) {
            Err(_) => {
                assert!(at_most > 1_000, "{nodes:?}");
                outcomes[0] += 1;
            }
            Ok(warnings) if warnings.is_empty() => {
                assert!(at_most <= 1_000, "{nodes:?}");
                outcomes[1] += 1;
            }
            Ok(_) => {
                assert!(at_most > 1_000 && unnamed > 0, "{nodes:?}");
                outcomes[2] += 1;
            }
        }
    }
    assert!(outcomes.iter().all(|&count| count > 50), "{outcomes:?}");
}
