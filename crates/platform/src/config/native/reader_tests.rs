//! Native files: what they mean, and broken text against its exact message.

use super::testing::*;
use super::{from_yaml, to_yaml};
use crate::platform::{Algorithm, Choice, DimensionOrder, Hierarchy, Policy};
use device::compute::{Compute, Roofline};
use device::memory::{Link, RemoteMemory, Sharing};
use graph::CollectiveKind;
use proptest::prelude::*;
use topology::{Block, Dim, Fabric};
use units::{Bandwidth, Bytes, Flops, Span};

#[test]
fn every_key_means_what_it_says() {
    let platform = read(FULL).unwrap();
    assert_eq!(
        (platform.name.as_str(), platform.source.as_str()),
        ("dgx-h100-16n", "a data sheet")
    );
    // 450 GB/s over the 7 links of an NPU, rounded down.
    let full = Dim {
        block: Block::FullyConnected,
        size: 8,
        bandwidth: Bandwidth(64_285_714_285),
        latency: Span::from_ns(300),
        parallel: 1,
    };
    let switch = Dim {
        block: Block::Switch,
        size: 16,
        bandwidth: Bandwidth(50_000_000_000),
        latency: Span::from_ns(2_000),
        parallel: 1,
    };
    assert_eq!(platform.fabric, Fabric::Stacked(vec![full, switch]));
    let (peak, memory) = (Flops(989_000_000_000_000), Bandwidth(3_350_000_000_000));
    assert_eq!(platform.npu.compute, Compute::Roofline(Roofline::ideal(peak, memory)));
    assert_eq!(
        (platform.npu.name.as_str(), platform.npu.memory_capacity),
        ("H100", Some(Bytes(80_000_000_000)))
    );
    let (sharing, bandwidth) = (Sharing::PerNode { npus: 8 }, Bandwidth(100_000_000_000));
    assert_eq!(
        platform.remote_memory,
        Some(RemoteMemory::Link(Link {
            sharing,
            latency: Span::from_ns(1_000),
            bandwidth,
            npus_per_node: None,
            capacity: None
        }))
    );
    let choice = |kind: CollectiveKind| platform.collectives.choices[kind as usize].clone();
    let direct = |window| Algorithm::Direct { window };
    let mixed = Choice { per_dim: vec![direct(None), Algorithm::HalvingDoubling], flat: false };
    assert_eq!(choice(CollectiveKind::AllReduce), Some(mixed));
    assert_eq!(
        choice(CollectiveKind::AllToAll),
        Some(Choice { per_dim: vec![direct(Some(4)); 2], flat: false })
    );
    assert_eq!(
        choice(CollectiveKind::AllGather),
        Some(Choice { per_dim: vec![Algorithm::Ring], flat: true })
    );
    assert_eq!(
        (choice(CollectiveKind::ReduceScatter), choice(CollectiveKind::Broadcast)),
        (None, None)
    );
    assert_eq!(
        platform.custom_paths.kinds[CollectiveKind::ReduceScatter as usize].as_deref(),
        Some("rs.xml")
    );
    assert_eq!(platform.collectives.hierarchy, Hierarchy::HierarchicalOptimal);
    let s = &platform.scheduler;
    assert_eq!(
        (
            s.policy,
            s.all_to_all_first,
            s.chunks,
            *s.active_chunks.first(),
            *s.queues_per_dim.first()
        ),
        (Policy::Lifo, true, 64, 2, 3)
    );
    assert_eq!((s.dispatch_below, s.dispatch_chunks), (8, 16));
    assert_eq!(s.dimension_order, DimensionOrder::Themis);
    assert_eq!(
        (s.endpoint_delay, s.comm_streams, s.rendezvous, s.replay_only),
        (Span::from_ns(5), 2, true, false)
    );
    assert_eq!(platform.logical, Some(vec![16, 8]));
}

#[test]
fn little_is_needed_and_the_rest_is_as_documented() {
    let platform =
        read("topology: R(4)_R(4)\nlinks: {bandwidth: 50 GB/s, latency: 500 ns}\n").unwrap();
    assert_eq!(platform.name, "p");
    assert_eq!(platform.npu.compute, Compute::Recorded);
    assert_eq!(
        (platform.scheduler.chunks, platform.scheduler.policy, platform.scheduler.comm_streams),
        (16, Policy::Fifo, 0)
    );
    assert_eq!(platform.scheduler.endpoint_delay, Span::from_ns(10));
    assert_eq!(platform.scheduler.dimension_order, DimensionOrder::Baseline);
    assert_eq!(platform.collectives.hierarchy, Hierarchy::Enhanced);
    let flat = read("topology: SW(4)\nlinks: {bandwidth: 50 GB/s, latency: 500 ns}\n").unwrap();
    assert_eq!(flat.scheduler.chunks, 1);
}

#[test]
fn an_order_of_dimensions_that_changes_nothing_gives_a_warning() {
    let warnings = |rest: &str| {
        let text =
            format!("topology: R(4)_R(4)\nlinks: {{bandwidth: 50 GB/s, latency: 500 ns}}\n{rest}");
        read(&text).unwrap().warnings
    };
    assert_eq!(warnings("scheduler: {dimension_order: themis}"), [""; 0]);
    let start = "scheduler.dimension_order: themis has no effect";
    let single = warnings("scheduler: {dimension_order: themis, chunks: 1}");
    assert_eq!(single, [format!("{start} on a single chunk: set scheduler.chunks")]);
    let whole =
        warnings("scheduler: {dimension_order: themis}\ncollectives: {hierarchy: baseline}");
    assert_eq!(whole, [format!("{start} on all_reduce: it needs collectives.hierarchy: enhanced")]);
}

#[test]
fn chunks_that_nothing_dispatches_give_a_warning() {
    let warnings = |scheduler: &str| {
        let text = format!(
            "topology: R(4)_R(4)\nlinks: {{bandwidth: 50 GB/s, latency: 500 ns}}\nscheduler: {scheduler}"
        );
        read(&text).unwrap().warnings
    };
    let without = "scheduler.dispatch_chunks has no effect without scheduler.dispatch_below";
    assert_eq!(warnings("{dispatch_chunks: 4}"), [without]);
    assert_eq!(warnings("{dispatch_chunks: 4, dispatch_below: 2}"), [""; 0]);
}

#[test]
fn a_network_of_astra_sim_1_is_named() {
    for text in ["num-npus: 32\ntopology: Torus3D\n", "{\"topology-name\": \"Hierarchical\"}"] {
        let problems = read(text).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].message, "is a network file of ASTRA-sim 1.0");
        assert!(problems[0].to_string().contains("armillary platform import NETWORK"));
    }
}

#[test]
fn broken_text_gives_its_message() {
    let cases = [
        (("450 GB/s", "-450 GB/s"), format!("line 6, links[0].bandwidth: bandwidth \"-450 GB/s\" is negative {BANDWIDTH}")),
        (("450 GB/s", "450"), format!("line 6, links[0].bandwidth: bandwidth \"450\" has no unit {BANDWIDTH}")),
        (("450 GB/s", ".nan"), format!("line 6, links[0].bandwidth: bandwidth \".nan\" is not a finite number {BANDWIDTH}")),
        (
            ("450 GB/s", "450 GHz"),
            format!("line 6, links[0].bandwidth: bandwidth \"450 GHz\" has the unknown unit \"GHz\" {BANDWIDTH}"),
        ),
        (("450 GB/s", "0 GB/s"), format!("line 6, links[0].bandwidth: bandwidth \"0 GB/s\" is zero {BANDWIDTH}")),
        (
            ("450 GB/s", "[1]"),
            format!("line 6, links[0].bandwidth: a list is not allowed {BANDWIDTH}"),
        ),
        (
            ("per: npu, ", ""),
            "line 6, links[0]: \"per\" is missing (allowed: link (each link of an NPU has this bandwidth), \
                              npu (they share it))"
                .into(),
        ),
        (
            ("per: npu", "per: gpu"),
            "line 6, links[0].per: \"gpu\" is not allowed; did you mean \"npu\"? (allowed: link, npu)".into(),
        ),
        (
            ("latency: 300", "latecny: 300"),
            "line 6, links[0].latecny: unknown key \"latecny\"; did you mean \"latency\"? \
                                            (allowed: bandwidth, latency, per, count, efficiency, nic)|line 6, links[0]: \"latency\" is missing \
                                            (allowed: a time, such as \"500 ns\")"
                .into(),
        ),
        (
            ("450 GB/s, per: npu", "6 B/s, per: npu"),
            "line 6, links[0]: 6 B/s over 7 links leaves less than 1 B/s for each link \
                                                     (allowed: more bandwidth, or per: link)"
                .into(),
        ),
        (
            ("_Switch(16)", ""),
            "line 6, links: 2 entries for 1 dimension (allowed: one mapping for each dimension, or one for all)".into(),
        ),
        (
            ("_Switch(16)", "_Switch(16"),
            format!(
                "line 4, topology: \"FullyConnected(8)_Switch(16\": \"Switch(16\" has no size in parentheses at character 26 \
                                                 (allowed: {})",
                topology::NOTATION
            ),
        ),
        (
            ("FullyConnected(8)_Switch(16)", "Ring(8"),
            format!(
                "line 4, topology: \"Ring(8\" has no size in parentheses at character 6 (allowed: {})",
                topology::NOTATION
            ),
        ),
        (
            ("_Switch(16)", "_Swich(16)"),
            format!(
                "line 4, topology: \"FullyConnected(8)_Swich(16)\": unknown block \"Swich\" at character 19 \
                                                 (allowed: {})",
                topology::NOTATION
            ),
        ),
        (
            ("peak: 989 TFLOPS, ", ""),
            "line 8, npu: the roofline needs \"peak\" \
                                      (allowed: peak: a rate such as \"989 TFLOPS\", or compute: recorded)"
                .into(),
        ),
        (
            ("compute: roofline", "compute: fast"),
            "line 8, npu.compute: \"fast\" is not allowed (allowed: roofline, recorded, systolic, measured)".into(),
        ),
        (
            ("80 GB}", "80.5 B}"),
            "line 8, npu.memory.capacity: size \"80.5 B\" is not a whole number of bytes (allowed: a whole number of bytes \
                                 with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, such as \"80 GB\")"
                .into(),
        ),
        (
            ("npus_per_node: 8, ", ""),
            "line 9, remote_memory: \"npus_per_node\" is missing (allowed: a whole number from 1)".into(),
        ),
        (
            ("sharing: per_node", "sharing: pool"),
            "line 9, remote_memory.npus_per_node: \"npus_per_node\" has no meaning without \
                                                  sharing: per_node (allowed: leave it out)"
                .into(),
        ),
        (
            ("hierarchical_optimal", "best"),
            "line 11, collectives.hierarchy: \"best\" is not allowed \
                                            (allowed: baseline, enhanced, hierarchical, hierarchical_optimal)"
                .into(),
        ),
        (
            ("[direct, halving_doubling]", "[direct]"),
            "line 12, collectives.all_reduce: 1 algorithms for 2 dimensions \
                                                      (allowed: one algorithm for all, or a list of 2)"
                .into(),
        ),
        (
            ("direct(4)", "direct(0)"),
            format!("line 13, collectives.all_to_all: unknown algorithm \"direct(0)\"; did you mean \"direct\"? {NAMES}"),
        ),
        (
            ("direct(4)", "a2a.xml"),
            "line 13, collectives.all_to_all: unknown algorithm \"a2a.xml\" (allowed: {custom: a2a.xml})".into(),
        ),
        (
            ("direct(4)", "rings"),
            format!("line 13, collectives.all_to_all: unknown algorithm \"rings\"; did you mean \"ring\"? {NAMES}"),
        ),
        (
            ("direct, halving", "double_binary_tree, halving"),
            "line 12, collectives.all_reduce[0]: double binary tree cannot run reduce_scatter, dimension 1 (allowed: all_reduce, reduce, \
             broadcast and barrier, or another algorithm)".into(),
        ),
        (
            ("algorithm: ring, flat: true", "algorithm: double_binary_tree, flat: true"),
            "line 14, collectives.all_gather.algorithm: double binary tree cannot run all_gather (allowed: all_reduce, reduce, broadcast and \
             barrier, or another algorithm)".into(),
        ),
        (
            ("[16, 8]", "[8, 4, 4]"),
            "line 12, collectives.all_reduce: 2 algorithms for 3 dimensions (allowed: one algorithm for all, or a list of 3)".into(),
        ),
        (("direct(4)", "7"), "line 13, collectives.all_to_all: 7 is not text (allowed: text)".into()),
        (("algorithm: ring, ", ""), format!("line 14, collectives.all_gather: \"algorithm\" is missing {NAMES}")),
        (("chunks: 64, ", "chunks: 0, "), "line 17, scheduler.chunks: 0 is not allowed (allowed: a whole number from 1)".into()),
        (
            ("policy: lifo", "policy: LIFO"),
            "line 17, scheduler.policy: \"LIFO\" is not allowed; did you mean \"lifo\"? \
                                                        (allowed: lifo, fifo, explicit, smallest_first)"
                .into(),
        ),
        (
            ("5 ns", "5 GB"),
            "line 17, scheduler.endpoint_delay: time \"5 GB\" has the unknown unit \"GB\" \
                            (allowed: a number with ps, ns, us, ms or s, such as \"1.5 us\")"
                .into(),
        ),
        (
            ("comm_streams: 2", "comm_streams: 0"),
            "line 17, scheduler.comm_streams: 0 is not allowed (allowed: a whole number from 1, or unlimited)".into(),
        ),
        (
            ("rendezvous: true", "rendezvous: 1"),
            "line 17, scheduler.rendezvous: 1 is neither true nor false (allowed: true, false)".into(),
        ),
        (
            ("[16, 8]", "[16, 9]"),
            "line 18, logical: the logical dimensions hold 144 NPUs, the network 128 \
                                  (allowed: sizes whose product is the number of NPUs)"
                .into(),
        ),
        (("[16, 8]", "[128, 1.5]"), "line 18, logical[1]: 1.5 is not allowed (allowed: a whole number from 1)".into()),
        (
            ("logical", "logicl"),
            "line 18, logicl: unknown key \"logicl\"; did you mean \"logical\"? (allowed: name, \
             source, measured, extends, topology, npus, graph, links, nics, failed, network, npu, \
             remote_memory, \
             collectives, library, scheduler, logical)"
                .into(),
        ),
    ];
    for ((from, to), expected) in cases {
        let expected: Vec<String> =
            expected.split('|').map(|line| format!("p.yml: {line}")).collect();
        assert_eq!(messages(read(&changed(from, to))), expected, "{to}");
    }
}

#[test]
fn every_fault_is_reported_at_once() {
    let text =
        changed("450 GB/s", "450").replace("chunks: 64", "chunks: none").replace("80 GB}", "80}");
    assert_eq!(
        read(&text).unwrap_err().len(),
        3,
        "a fabric that cannot be read hides only what depends on it"
    );
    let text =
        changed("80 GB}", "80}").replace("chunks: 64", "chunks: none").replace("direct(4)", "4");
    assert_eq!(read(&text).unwrap_err().len(), 3);
}

proptest! {
    #[test]
    fn no_text_panics(text in "[a-z:\\[\\]{}, 0-9\n\"'&*!|>.-]{0,80}") {
        let _ = read(&text);
    }

    #[test]
    fn no_changed_file_panics(at in 0usize..800, text in "[a-z0-9:\\[\\]{}\n -]{0,6}", drop in 0usize..12) {
        let mut changed: Vec<char> = FULL.chars().collect();
        let at = at.min(changed.len());
        changed.splice(at..(at + drop).min(changed.len()), text.chars());
        if let Err(problems) = read(&changed.into_iter().collect::<String>()) {
            prop_assert!(!problems.is_empty());
        }
    }
}

#[test]
fn queues_and_active_chunks_may_be_lists() {
    let read = |scheduler: &str| {
        let text = format!(
            "topology: R(4)_SW(2)\nlinks: {{bandwidth: 1 GB/s, latency: 1 ns}}\nscheduler: {scheduler}\n"
        );
        from_yaml(&text, "p.yml", &[])
    };
    let platform = read("{queues_per_dim: [4, 2], active_chunks: [4, 6]}").unwrap();
    let queues = [0, 1].map(|dim| platform.scheduler.queues(dim));
    assert_eq!(queues.map(|queues| (queues.count, queues.room)), [(4, 1), (2, 3)]);
    let again = from_yaml(&to_yaml(&platform), "p.yml", &[]).unwrap();
    assert_eq!(again.scheduler, platform.scheduler);
    for (text, message) in [
        (
            "{queues_per_dim: [4, 2, 1]}",
            "scheduler.queues_per_dim: 3 numbers for 2 dimensions (allowed: one number for all, or a list of 2)",
        ),
        (
            "{active_chunks: [4, 0]}",
            "scheduler.active_chunks[1]: 0 is not allowed (allowed: a whole number from 1)",
        ),
        (
            "{chunks: [4, 2]}",
            "scheduler.chunks: a list is not allowed (allowed: a whole number from 1)",
        ),
    ] {
        let [problem] = &read(text).unwrap_err()[..] else { panic!("{text}") };
        assert_eq!(problem.to_string(), format!("p.yml: line 3, {message}"));
    }
}
