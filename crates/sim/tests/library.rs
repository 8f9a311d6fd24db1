//! Runs with a communication library: they take what the library is predicted to take, on every
//! preset that has one.

use graph::{CollectiveKind, Kernel, Node, Op, ProgramBuilder, RankBinding, Workload};
use platform::Platform;
use platform::config::native;
use sim::{BackendKind, Config, Outcome, Source, Watch, run};
use std::path::PathBuf;
use std::sync::Arc;
use units::{Bytes, Span};

const SYSTEMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../systems");

fn preset(name: &str, set: &[(&str, &str)]) -> Platform {
    let set: Vec<(String, String)> =
        set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    native::load_with(name, &[PathBuf::from(SYSTEMS)], &set)
        .unwrap_or_else(|problems| panic!("{name}: {problems:#?}"))
}

fn config(platform: &Platform, ops: &[Op], backend: BackendKind, fold: bool) -> Config {
    let mut program = ProgramBuilder::default();
    for (id, &op) in (0..).zip(ops) {
        program.push(Node { id, duration: Span::ZERO, op }, "collective", []);
    }
    let workload = Workload::uniform(program.build().expect("no edges"), platform.fabric.npus());
    let workload = Source::Built(Box::new(workload));
    let watch = Watch::default();
    Config { workload, groups: Vec::new(), platform: platform.clone(), backend, fold, watch }
}

fn time(platform: &Platform, ops: &[Op], backend: BackendKind, fold: bool) -> Outcome {
    run(&config(platform, ops, backend, fold), &mut |_| true)
        .unwrap_or_else(|error| panic!("{error}"))
}

const IDLE: Op = Op::Compute { operations: None, bytes: None, cpu: false, kernel: Kernel::Other };

fn collective(kind: CollectiveKind, bytes: u64) -> Op {
    Op::Collective { kind, bytes: Bytes(bytes), slot: 0, priority: 0, dims: u32::MAX, root: 0 }
}

/// Presets of up to 2 dimensions and the sizes at which they are tried.
const PRESETS: [(&str, &str); 6] = [
    ("dgx1-v100", "8"),
    ("dgx-h100", "8"),
    ("dgx-a100-16n", "32"),
    ("mi300x-8", "8"),
    ("mi355x-16n", "24"),
    ("gb200-nvl72", "72"),
];

/// Alone on the machine, a run takes what is predicted, to within a picosecond a step.
#[test]
fn runs_take_what_is_predicted() {
    for (name, npus) in PRESETS {
        let platform = preset(name, &[("npus", npus)]);
        for kind in CollectiveKind::ALL {
            for bytes in [8, 100_000, 1 << 28] {
                let predicted = lowering::library::choice(&platform, kind, bytes)
                    .expect("has a way")
                    .time
                    .as_ns();
                let report =
                    time(&platform, &[collective(kind, bytes)], BackendKind::Analytical, true)
                        .report;
                let off = report.step_time_ns - predicted;
                assert!(
                    off.abs() < 0.1,
                    "{name}, {} of {bytes}: {} {predicted}",
                    kind.name(),
                    report.step_time_ns
                );
            }
        }
    }
}

#[test]
fn folding_changes_nothing() {
    for (name, npus) in PRESETS {
        let platform = preset(name, &[("npus", npus)]);
        let ops = [
            collective(CollectiveKind::AllReduce, 1 << 20),
            collective(CollectiveKind::AllToAll, 1 << 20),
        ];
        let folded = time(&platform, &ops, BackendKind::Analytical, true).report;
        let whole = time(&platform, &ops, BackendKind::Analytical, false).report;
        assert_eq!(folded.digest, whole.digest, "{name}");
        assert_eq!(folded.step_time_ns, whole.step_time_ns, "{name}");
    }
}

/// Queues on links cost nothing where a collective runs alone.
#[test]
fn queues_on_links_cost_nothing_alone() {
    for (name, npus) in [("dgx-h100", "8"), ("dgx-a100-16n", "32"), ("mi300x-8", "8")] {
        let platform = preset(name, &[("npus", npus)]);
        for bytes in [8, 1 << 22, 1 << 28] {
            let of = |backend| {
                time(&platform, &[collective(CollectiveKind::AllReduce, bytes)], backend, true)
                    .report
                    .step_time_ns
            };
            let ratio = of(BackendKind::Link) / of(BackendKind::Analytical);
            assert!((0.999..1.001).contains(&ratio), "{name}, {bytes} bytes: {ratio}");
        }
    }
}

/// Bytes that move are those of the algorithm: rings of 8 send 7/4 of the buffer.
#[test]
fn bytes_are_accounted_for() {
    let platform = preset("dgx-a100", &[]);
    let report = time(
        &platform,
        &[collective(CollectiveKind::AllReduce, 1 << 28)],
        BackendKind::Analytical,
        true,
    )
    .report;
    assert_eq!(report.dimensions[0].bytes, 8 * 7 * (1 << 28) / 4);
}

/// Two collectives at once share the links: together they take as long as the bytes of both.
#[test]
fn collectives_share_links() {
    let platform = preset("dgx-a100", &[("scheduler.active_chunks", "2")]);
    let op = collective(CollectiveKind::AllReduce, 1 << 30);
    let alone = time(&platform, &[op], BackendKind::Analytical, true).report.step_time_ns;
    let both = time(&platform, &[op, op], BackendKind::Analytical, true).report.step_time_ns;
    assert!(both > 1.5 * alone && both < 2.01 * alone, "{both} {alone}");
}

/// A message alone takes its start and its bytes at the part of the bandwidth that one stream
/// reaches, within a node and between two; with the library switched off only latency and
/// bandwidth.
#[test]
fn messages_take_what_the_library_takes() {
    for (name, npus, peer) in [("dgx-a100", 8u32, 1i32), ("dgx-a100-16n", 16, 8)] {
        let bytes = 100_000_000;
        let step = |set: &[(&str, &str)], backend| {
            let platform =
                preset(name, &[&[("npus", if npus == 8 { "8" } else { "16" })], set].concat());
            let bytes = Bytes(bytes);
            let programs = [
                IDLE,
                Op::Send { peer: peer.into(), bytes, tag: 0 },
                Op::Recv { peer: (-peer).into(), bytes, tag: 0 },
            ];
            let program = |op: Op| {
                let mut builder = ProgramBuilder::default();
                builder.push(Node { id: 0, duration: Span::from_ns(1), op }, "", []);
                Arc::new(builder.build().expect("no edges"))
            };
            let of = |rank: i32| if rank == 0 { 1 } else { 2 * u32::from(rank == peer) };
            let workload = Workload {
                programs: programs.into_iter().map(program).collect(),
                ranks: (0..npus as i32)
                    .map(|rank| RankBinding { program: of(rank), slots: 0 })
                    .collect(),
                ..Workload::default()
            };
            let mut config = config(&platform, &[], backend, true);
            config.workload = Source::Built(Box::new(workload));
            run(&config, &mut |_| true)
                .unwrap_or_else(|error| panic!("{error}"))
                .report
                .step_time_ns
        };
        // us, and GB/s: 0.8 of 300 and 0.9 of 25.
        let (start, rate) = (8.5, if npus == 8 { 240.0 } else { 22.5 });
        let between = ("library.network.efficiency", "0.9");
        let own = [("library.p2p_overhead", "8.5 us"), ("library.node.efficiency", "0.8"), between];
        let own = if npus == 8 { &own[..2] } else { &own[..] };
        let expected = start * 1e3 + bytes as f64 / rate;
        let found = step(own, BackendKind::Analytical);
        assert!((found - expected).abs() < 1.0, "{name}: {found} {expected}");
        let bare = |backend| step(&[("library", "null")], backend);
        assert!(bare(BackendKind::Analytical) < 0.95 * expected);
        assert_eq!(step(own, BackendKind::Link), found, "nothing else is on its links");
    }
}

/// An algorithm that is named is not the library's, but its messages are: each of 14, and the
/// first send, costs the LL step of 280 ns less the 200 ns of the links.
#[test]
fn an_algorithm_that_is_named_is_taken() {
    let ring = ("collectives.all_reduce", "ring");
    let one = ("scheduler.chunks", "1");
    let steps = ("library.node.step_latency", "[280 ns, 2 us, 5 us]");
    let named = preset("dgx-h100", &[ring, one, steps]);
    let bare = preset("dgx-h100", &[ring, one, ("library", "null")]);
    assert_eq!(lowering::library::choice(&named, CollectiveKind::AllReduce, 1 << 20), None);
    let ns = |platform: &Platform| {
        let op = collective(CollectiveKind::AllReduce, 1 << 20);
        time(platform, &[op], BackendKind::Analytical, true).report.step_time_ns
    };
    assert!((ns(&named) - ns(&bare) - 15.0 * 80.0).abs() < 1e-6);
    let hierarchy =
        preset("dgx-h100-16n", &[("collectives.hierarchy", "baseline"), ("scheduler.chunks", "4")]);
    assert_eq!(
        hierarchy.warnings,
        ["no effect with \"library\": collectives.hierarchy, scheduler.chunks"]
    );
    let crossing = |pxn: &str| {
        preset(
            "dgx-h100-16n",
            &[("library.network.cross_rail_efficiency", "0.5"), ("library.network.pxn", pxn)],
        )
    };
    assert_eq!(
        crossing("8").warnings,
        ["library.network.cross_rail_efficiency has no effect with library.network.pxn"]
    );
    assert_eq!(crossing("null").warnings, [""; 0]);
}

/// A DGX H100 with another network: topology, and links by dimension or kind.
const NETWORKS: [(&str, &str); 9] = [
    ("SW(8)_SW(4)_SW(4)", NODE_AND_TWO),
    (
        "{generator: rail_optimized, npus_per_node: 8, nodes: 8, nodes_per_leaf: 4, spines: 4}",
        NODE_AND_TWO,
    ),
    ("{generator: rail_only, npus_per_node: 8, nodes: 8}", NODE_AND_ONE),
    (
        "{generator: nested, inner: {generator: nvlink_domain, npus: 8}, outer: {generator: leaf_spine, npus_per_leaf: 16, leaves: 4, spines: 16}}",
        NODE_AND_TWO,
    ),
    (
        "{generator: nested, inner: {generator: full_mesh, npus: 8}, outer: {generator: leaf_spine, npus_per_leaf: 2, leaves: 4, spines: 2}, rails: 8}",
        "[{bandwidth: 64 GB/s, latency: 300 ns}, {bandwidth: 50 GB/s, latency: 1 us}, {bandwidth: 50 GB/s, latency: 1 us}]",
    ),
    (
        "{generator: nested, inner: {generator: nvlink_domain, npus: 4}, outer: {generator: clos, down: [8, 4, 2], up: [4, 4]}}",
        "[{bandwidth: 450 GB/s, latency: 300 ns}, {bandwidth: 50 GB/s, latency: 1 us}, {bandwidth: 50 GB/s, latency: 1 us}, {bandwidth: 50 GB/s, latency: 1 us}]",
    ),
    (
        "{generator: leaf_spine, npus_per_leaf: 8, leaves: 4, spines: 8}",
        "{bandwidth: 50 GB/s, latency: 1 us}",
    ),
    (
        "{generator: nested, inner: {generator: nvlink_domain, npus: 8}, outer: {generator: leaf_spine, npus_per_leaf: 16, leaves: 1, spines: 1}, nics: 4}",
        NODE_AND_CARD,
    ),
    (
        "{generator: nested, inner: {generator: nvlink_domain, npus: 8}, outer: {generator: leaf_spine, npus_per_leaf: 8, leaves: 2, spines: 2}, nics: 4}",
        NODE_AND_CARD,
    ),
];
const NODE_AND_CARD: &str = "[{bandwidth: 450 GB/s, latency: 300 ns}, {bandwidth: 64 GB/s, latency: 500 ns}, {bandwidth: 50 GB/s, latency: 1 us}, {bandwidth: 50 GB/s, latency: 1 us}]";
const NODE_AND_ONE: &str =
    "[{bandwidth: 450 GB/s, latency: 300 ns}, {bandwidth: 50 GB/s, latency: 1 us}]";
const NODE_AND_TWO: &str = "[{bandwidth: 450 GB/s, latency: 300 ns}, {bandwidth: 50 GB/s, latency: 1 us}, {bandwidth: 50 GB/s, latency: 1 us}]";

/// On three levels and on generated fabrics a run takes what is predicted, folded or not, and with
/// fair flows.
#[test]
fn libraries_run_on_every_network_as_predicted() {
    for (topology, links) in NETWORKS {
        let platform = preset("dgx-h100-16n", &[("topology", topology), ("links", links)]);
        for kind in CollectiveKind::ALL {
            for bytes in [8, 100_000, 1 << 28] {
                let predicted = lowering::library::choice(&platform, kind, bytes)
                    .expect("has a way")
                    .time
                    .as_ns();
                let took = |fold| {
                    time(&platform, &[collective(kind, bytes)], BackendKind::Analytical, fold)
                        .report
                };
                let (folded, whole) = (took(true), took(false));
                let flow = time(&platform, &[collective(kind, bytes)], BackendKind::Flow, true);
                // Tiers that share a card meet there in another order than predicted.
                let shared = topology.contains("spine") || topology.contains("clos");
                let exact = 1.0 - 1e-6..1.0 + 1e-6;
                let (analytical, fair) =
                    if shared { (0.79..1.19, 0.95..1.001) } else { (exact.clone(), exact) };
                let ratio = |report: &stats::Report| report.step_time_ns / predicted;
                for (took, allowed) in [(&folded, analytical), (&flow.report, fair)] {
                    let ratio = ratio(took);
                    assert!(
                        allowed.contains(&ratio),
                        "{topology} {} {bytes}: {ratio}",
                        kind.name()
                    );
                }
                assert_eq!(folded.digest, whole.digest, "{topology} {}", kind.name());
            }
        }
    }
}
