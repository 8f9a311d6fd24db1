//! What lies in memory outside of NPUs over a step, against a count by hand of each program.

use crate::common::built::{WORK, config};
use graph::{Footprint, MemoryChange, Node, Offloaded, Op, ProgramBuilder, Reach, Workload};
use sim::{BackendKind, run};
use stats::Report;
use std::collections::BTreeMap;
use units::{Bytes, Span};

/// Four NPUs of 100 bytes, which spill, and a pool of two groups of 500 bytes.
const SPILLS: &str = "topology: SW(4)\nlinks: {bandwidth: 50 GB/s, latency: 0 ns}\n\
    npu: {memory: {capacity: 100 B, on_overflow: spill}}\nremote_memory: \
    {model: ring, stations: 2, groups: 2, capacity: 500 B, chunk_size: 1 kB, \
    memory_side: {bandwidth: 100 GB/s}, between: {bandwidth: 50 GB/s}, npu_side: {bandwidth: 50 GB/s}}\n";
const NPUS: u32 = 4;
const NPU: u64 = 100;

/// A node, and what it allocates and frees.
type Step = (Op, u64, u64);

fn touch(store: bool, bytes: u64, tensor: u32) -> Op {
    Op::Memory { store, bytes: Bytes(bytes), reach: Reach::Remote, tensor, slot: None }
}

/// The same steps on every NPU, one after the other.
fn steps(steps: &[Step]) -> Workload {
    let mut builder = ProgramBuilder::default();
    for (id, &(op, allocates, frees)) in steps.iter().enumerate() {
        let node = Node { id: id as u64, duration: Span::from_ns(10), op };
        builder.push(node, "n", (id as u64).checked_sub(1));
        builder.hold(id, MemoryChange { allocates: Bytes(allocates), frees: Bytes(frees) });
    }
    Workload::uniform(builder.build().expect("ids are unique"), NPUS)
}

fn report(platform: &str, workload: Workload) -> Result<Report, String> {
    let mut config = config(platform, workload, BackendKind::Analytical);
    config.watch.detail = true;
    run(&config, &mut |_| true).map(|outcome| outcome.report).map_err(|error| error.to_string())
}

/// The most that one NPU has in the pool at once.
fn most(steps: &[Step]) -> u64 {
    let mut sizes: BTreeMap<u32, (u64, bool)> = BTreeMap::new();
    for (op, ..) in steps {
        if let Op::Memory { store, bytes, tensor, .. } = *op {
            let known = sizes.entry(tensor).or_insert((0, store));
            known.0 = known.0.max(bytes.0);
        }
    }
    let loaded = |(_, (bytes, stored)): (&u32, &(u64, bool))| if *stored { 0 } else { *bytes };
    let mut there: u64 = sizes.iter().map(loaded).sum();
    let (mut most, mut held, mut spilled) = (there, 0u64, 0u64);
    for &(op, allocates, frees) in steps {
        held += allocates;
        let inside = held - spilled;
        let out = inside.saturating_sub(NPU);
        most = most.max(there + spilled + out);
        spilled += out;
        spilled -= frees.saturating_sub(inside - out).min(spilled);
        if let Op::Memory { tensor, .. } = op
            && let Some((bytes, stored)) = sizes.get_mut(&tensor)
            && *stored
        {
            (there, *stored) = (there + *bytes, false);
        }
        most = most.max(there + spilled);
        held -= frees.min(held);
        spilled = spilled.min(held);
    }
    most
}

/// 120 bytes in NPUs of 100: 4 x 20 are outside from the second node, at 10 ns, until the fifth
/// one needs them again. A tensor that is stored first lies there from its store; one that is
/// loaded first lies there from the beginning.
#[test]
fn spilled_bytes_and_stores_count_from_when_they_are_there() {
    let work = [
        (WORK, 60, 0),
        (WORK, 60, 0),
        (touch(false, 7, 1), 0, 0),
        (WORK, 0, 60),
        (WORK, 0, 60),
        (touch(true, 30, 2), 0, 0),
        (WORK, 0, 0),
    ];
    let found = report(SPILLS, steps(&work)).expect("4 x 37 bytes fit");
    let row = &found.outside[0];
    assert_eq!((row.memories, row.ranks, row.least_bytes), (1, 4, 4 * (7 + 30)));
    assert_eq!((row.contents.spilled_bytes, row.contents.other_bytes), (0, 4 * 37));
    let over_time = &found.detail.expect("asked for").outside[0];
    assert_eq!(over_time.name, "memory pool");
    let kinds: Vec<u64> = over_time.bytes.chunk_by(|a, b| a == b).map(|same| same[0]).collect();
    assert_eq!(kinds, [4 * 7, 4 * (7 + 20), 4 * 7, 4 * 37]);
}

/// Spilled bytes are refused together with the contents of the pool, and the message says when.
#[test]
fn a_pool_that_spilled_bytes_fill_is_refused() {
    let work = |more| [(touch(false, 230, 1), 0, 0), (WORK, NPU, 0), (WORK, more, 0)];
    let fits = report(SPILLS, steps(&work(20))).expect("4 x 250 bytes");
    assert_eq!((fits.outside[0].least_bytes, fits.outside[0].contents.spilled_bytes), (1_000, 80));
    assert!(fits.outside[0].peak_ns > 0.0, "{fits:?}");
    let refused = report(SPILLS, steps(&work(21))).expect_err("4 x 251 bytes");
    let says = "must hold 1.004 kB of 4 NPUs at";
    assert!(refused.contains(says) && refused.contains("84 B of it moved out"), "{refused}");
}

/// Contents by kind, as a generator states them for the host and for the disk behind it.
#[test]
fn contents_are_told_apart_by_what_they_are() {
    let platform = "topology: SW(4)\nlinks: {bandwidth: 50 GB/s, latency: 0 ns}\n\
        remote_memory: {model: zero_infinity, cpu: {bandwidth: 30 GB/s, capacity: 1 kB}, \
        nvme: {bandwidth: 3 GB/s}}\n";
    let host =
        Op::Memory { store: false, bytes: Bytes(1), reach: Reach::Host, tensor: 0, slot: None };
    let mut workload = steps(&[(host, 0, 0)]);
    let outside = Offloaded { weights: 10, gradients: 20, optimizer: 30, tables: 400 };
    let disk = Offloaded { tables: 5_000, ..Offloaded::default() };
    workload.footprints = vec![Footprint { outside, disk, ..Footprint::default() }];
    let rows = report(platform, workload.clone()).expect("460 of 1,000 bytes").outside;
    let [cpu, nvme] = &rows[..] else { panic!("{rows:?}") };
    let (near, far) = (&cpu.contents, &nvme.contents);
    assert_eq!((cpu.name.as_str(), cpu.least_bytes, cpu.memories), ("CPU memory", 460, 4));
    let kinds = [near.weights_bytes, near.gradients_bytes, near.optimizer_bytes];
    assert_eq!((kinds, near.tables_bytes, near.other_bytes), ([10, 20, 30], 400, 0));
    assert_eq!((nvme.name.as_str(), far.tables_bytes), ("NVMe", 5_000));
    workload.footprints[0].outside.tables = 941;
    assert!(report(platform, workload).is_err());
}

/// 1,000 random programs that allocate, free, load and store: the most that lies in the pool at
/// once is what a count by hand gives, and never more than it can hold.
#[test]
fn contents_over_time_are_never_above_the_capacity() {
    let mut state = 7u64;
    let mut random = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut outcomes = [0; 2];
    for _ in 0..1_000 {
        let mut step = || match random(3) {
            0 => (touch(random(2) == 0, 1 + random(120), 1 + random(3) as u32), 0, 0),
            1 => (WORK, random(NPU), 0),
            _ => (WORK, random(NPU / 2), random(NPU)),
        };
        let work: Vec<Step> = (0..8).map(|_| step()).collect();
        let expected = u64::from(NPUS) * most(&work);
        match report(SPILLS, steps(&work)) {
            Err(refused) => {
                assert!(expected > 1_000, "{refused} {work:?}");
                outcomes[0] += 1;
            }
            Ok(found) => {
                let most = found.outside.first().map_or(0, |row| row.least_bytes);
                assert_eq!(most, expected, "{work:?}");
                assert!(most <= 1_000);
                outcomes[1] += 1;
            }
        }
    }
    assert!(outcomes.iter().all(|&count| count > 50), "{outcomes:?}");
}
