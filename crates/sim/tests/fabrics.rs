//! Whole runs on meshes and generated fabrics: collectives over coordinates, routing policies on
//! every backend, folding.

use crate::common::random::thorough;
use graph::{
    CollectiveKind, Group, Kernel, Members, Node, Op, Program, ProgramBuilder, RankBinding,
    Workload,
};
use platform::config::native;
use sim::{BackendKind, Config, Outcome, Source, Watch, run};
use std::sync::Arc;
use units::{Bytes, Span};

const ROUTINGS: [&str; 5] = ["auto", "lowest", "d_mod_k", "hash(7)", "spray"];
/// One of each generator; links of every kind at 50 GB/s and 1 us.
const FABRICS: [&str; 18] = [
    "{generator: leaf_spine, npus_per_leaf: 4, leaves: 4, spines: 2}",
    "{generator: fat_tree, radix: 4}",
    "{generator: clos, down: [2, 2, 2], up: [2, 1], planes: 2, cables: [1, 2, 1]}",
    "{generator: rail_optimized, npus_per_node: 4, nodes: 4, nodes_per_leaf: 2, spines: 2}",
    "{generator: dragonfly, npus_per_router: 2, routers_per_group: 2, global_links: 1}",
    "{generator: torus, sizes: [4, 4]}",
    "{generator: twisted_torus, sizes: [4, 2, 4]}",
    "{generator: rail_only, npus_per_node: 4, nodes: 4, switches_per_node: 2}",
    "{generator: dragonfly_plus, npus_per_leaf: 2, leaves: 2, spines: 2, global_links: 1}",
    "{generator: hyperx, npus_per_switch: 2, sizes: [3, 2]}",
    "{generator: concentrated_mesh, npus_per_router: 2, sizes: [3, 2]}",
    "{generator: concentrated_torus, npus_per_router: 2, sizes: [4, 3]}",
    "{generator: nvlink_domain, npus: 8, switches: 4}",
    "{generator: full_mesh, npus: 8}",
    "{generator: cube_mesh}",
    "{generator: nested, inner: {generator: cube_mesh}, outer: {generator: leaf_spine, npus_per_leaf: 2, leaves: 4, spines: 2}, nics: 4}",
    "{generator: nested, inner: {generator: full_mesh, npus: 4}, outer: {generator: torus, sizes: [2, 3]}, rails: 4}",
    "{generator: nested, inner: {generator: nvlink_domain, npus: 4}, outer: {generator: fat_tree, radix: 4}}",
];

fn start(
    topology: &str,
    routing: &str,
    workload: impl FnOnce(u32) -> Workload,
    backend: BackendKind,
    fold: bool,
) -> Outcome {
    let text = format!(
        "topology: {topology}\nlinks: {{bandwidth: 50 GB/s, latency: 1 us}}\n\
         network: {{routing: {routing}}}\nscheduler: {{chunks: 1, endpoint_delay: 0 ns}}\n"
    );
    let platform = native::from_yaml(&text, "p.yml", &[])
        .unwrap_or_else(|problems| panic!("{text}\n{problems:#?}"));
    let workload = Source::Built(Box::new(workload(platform.fabric.npus())));
    let config =
        Config { workload, groups: Vec::new(), platform, backend, fold, watch: Watch::default() };
    run(&config, &mut |_| true).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn program(ops: &[Op]) -> Program {
    let mut builder = ProgramBuilder::default();
    for (id, &op) in (0..).zip(ops) {
        builder.push(Node { id, duration: Span::ZERO, op }, "", []);
    }
    builder.build().expect("nodes")
}

fn collective(kind: CollectiveKind, bytes: u64) -> impl Fn(u32) -> Workload {
    let (slot, priority, dims, root) = (0, 0, u32::MAX, 0);
    let op = Op::Collective { kind, bytes: Bytes(bytes), slot, priority, dims, root };
    move |npus| Workload::uniform(program(&[op]), npus)
}

/// Rank r sends to rank r + n/2, modulo n.
fn half_shift(npus: u32) -> Workload {
    let (half, bytes) = (npus as i32 / 2, Bytes(1_000_000));
    let exchange = |peer: i32| {
        let ops = [
            Op::Send { peer: peer.into(), bytes, tag: 0 },
            Op::Recv { peer: peer.into(), bytes, tag: 0 },
        ];
        Arc::new(program(&ops))
    };
    let binding = |rank| RankBinding { program: u32::from(rank >= npus / 2), slots: 0 };
    Workload {
        programs: vec![exchange(half), exchange(-half)],
        ranks: (0..npus).map(binding).collect(),
        groups: vec![Group { name: "world".into(), members: Members::All }],
        ..Workload::default()
    }
}

/// The ring algorithm on a line: `2 (n - 1)` steps along a chain that wraps twice, and a wrap goes
/// back over `n - 1` links.
#[test]
fn an_all_reduce_on_a_mesh_takes_what_its_wraps_take() {
    let (latency, message) = (1_000.0, 20_000.0);
    for n in [3u32, 4, 8] {
        let bytes = u64::from(n) * 1_000_000;
        let all_reduce = collective(CollectiveKind::AllReduce, bytes);
        let took = |backend| {
            let topology = format!("Mesh({n})");
            start(&topology, "lowest", &all_reduce, backend, true).report.step_time_ns
        };
        let (steps, back) = (f64::from(2 * (n - 1)), f64::from(2 * (n - 2)));
        let analytical = steps * (latency + message) + back * latency;
        assert_eq!(took(BackendKind::Analytical), analytical, "{n}");
        assert_eq!(took(BackendKind::Link), analytical, "{n}");
    }
}

/// On a fat tree of full bisection D-mod-K carries a shift without contention (Zahavi 2010); the
/// lowest route sends all of a pod over one core.
#[test]
fn a_shift_meets_nobody_by_d_mod_k() {
    let took = |routing| {
        let fabric = "{generator: fat_tree, radix: 4}";
        start(fabric, routing, half_shift, BackendKind::Link, false).report.step_time_ns
    };
    let alone = 6.0 * 1_000.0 + 20_000.0;
    assert_eq!(took("d_mod_k"), alone);
    assert_eq!(took("auto"), alone);
    assert!(took("lowest") > alone + 2.0 * 20_000.0, "{}", took("lowest"));
    assert!(took("spray") < took("lowest"));
    assert!(took("hash") < took("lowest"));
}

/// On an even ring opposite NPUs have two ways; taken in turn they halve what a link carries.
#[test]
fn opposite_npus_of_a_ring_use_both_ways_when_sprayed() {
    let two = |npus: u32| {
        let mut workload = half_shift(npus);
        let (half, bytes) = (npus as i32 / 2, Bytes(1_000_000));
        let exchange = |peer: i32| {
            let op = |tag| {
                [
                    Op::Send { peer: peer.into(), bytes, tag },
                    Op::Recv { peer: peer.into(), bytes, tag },
                ]
            };
            Arc::new(program(&[op(0), op(1)].concat()))
        };
        workload.programs = vec![exchange(half), exchange(-half)];
        workload
    };
    let took =
        |routing, backend| start("Ring(4)", routing, two, backend, false).report.step_time_ns;
    let analytical = BackendKind::Analytical;
    assert_eq!(took("lowest", analytical.clone()), 2.0 * 20_000.0 + 2.0 * 1_000.0);
    assert_eq!(took("spray", analytical), 20_000.0 + 2.0 * 1_000.0);
    // Each of the two links on a way carries one message of its own and one passing.
    assert_eq!(took("spray", BackendKind::Link), 2.0 * 20_000.0 + 1_000.0);
    assert!(took("lowest", BackendKind::Link) > 2.0 * 21_000.0);
}

/// By `auto` one pair of opposite NPUs takes the one way, the other pair the other way.
#[test]
fn opposite_npus_of_a_ring_split_both_ways() {
    let took = |routing| {
        start("Ring(4)", routing, half_shift, BackendKind::Link, false).report.step_time_ns
    };
    assert_eq!(took("auto"), 20_000.0 + 2.0 * 1_000.0, "every link carries one message");
    assert_eq!(took("lowest"), 2.0 * 20_000.0 + 1_000.0, "every link of one way carries two");
}

/// The link queues come close to what ports and the links between leaves and spines allow, with an
/// uplink for each NPU or with fewer (the lowest route alone: 2 to 7 times as long).
#[test]
fn an_all_to_all_on_a_leaf_spine_is_near_its_bound() {
    for (npus_per_leaf, leaves, spines) in [(4u32, 4u32, 4u32), (4, 4, 2), (8, 8, 8), (4, 4, 1)] {
        let fabric = format!(
            "{{generator: leaf_spine, npus_per_leaf: {npus_per_leaf}, leaves: {leaves}, spines: {spines}}}\n\
             collectives: {{all_to_all: {{algorithm: direct, flat: true}}}}"
        );
        let npus = f64::from(npus_per_leaf * leaves);
        let bytes = (1u64 << 20) * u64::from(npus_per_leaf * leaves);
        let workload = collective(CollectiveKind::AllToAll, bytes);
        let run = |routing| start(&fabric, routing, &workload, BackendKind::Link, true);
        let message = f64::from(1 << 20) / 50.0;
        let beyond = npus - f64::from(npus_per_leaf);
        let uplinks = beyond * f64::from(npus_per_leaf) / f64::from(spines);
        let bound = message * (npus - 1.0).max(uplinks);
        let took = run("auto").report.step_time_ns;
        assert!(took >= bound && took < 1.10 * bound, "{fabric}: {}", took / bound);
        if spines > 1 {
            let lowest = run("lowest").report.step_time_ns;
            assert!(lowest > 1.9 * bound, "{fabric}: {}", lowest / bound);
        }
    }
}

/// An all-reduce and an all-to-all in turn, or both in `make thorough`.
fn kinds(turn: usize) -> Vec<CollectiveKind> {
    let both = [CollectiveKind::AllReduce, CollectiveKind::AllToAll];
    if thorough() { both.to_vec() } else { vec![both[turn % 2]] }
}

/// Folding changes no byte of the reports of collectives on the fabrics, by every policy on the
/// backends that see whole messages. Packets and flits take ten times as long: each fabric has one
/// policy there, the next fabric the next one.
fn folding_changes_nothing(fabrics: &[&str]) {
    for (turn, fabric) in fabrics.iter().enumerate() {
        for (at, routing) in ROUTINGS.iter().enumerate() {
            let all = at == turn % ROUTINGS.len();
            let runs =
                |b: &BackendKind| all || !matches!(b, BackendKind::Packet | BackendKind::Flit);
            for kind in kinds(turn + at) {
                let once = |backend, fold| {
                    let outcome = start(fabric, routing, collective(kind, 1 << 16), backend, fold);
                    serde_json::to_string(&outcome.report).expect("a report is JSON")
                };
                for backend in BackendKind::ALL.into_iter().filter(runs) {
                    let folded = once(backend.clone(), true);
                    assert_eq!(
                        folded,
                        once(backend.clone(), false),
                        "{fabric} {routing} {backend}"
                    );
                }
            }
        }
    }
}

/// Collectives run over the coordinates of every fabric.
#[test]
fn collectives_run_on_every_fabric_by_every_policy() {
    folding_changes_nothing(&FABRICS);
}

/// Fabrics whose places all look alike fold to one rank on the analytical network.
#[test]
fn symmetric_fabrics_fold_to_one_rank() {
    for fabric in &FABRICS[..4] {
        let all_reduce = collective(CollectiveKind::AllReduce, 1 << 20);
        let outcome = start(fabric, "lowest", all_reduce, BackendKind::Analytical, true);
        assert_eq!(outcome.simulated_ranks, 1, "{fabric}");
    }
    let large = "{generator: clos, down: [16, 16, 64], up: [16, 16]}";
    let all_reduce = collective(CollectiveKind::AllReduce, 1 << 30);
    let outcome = start(large, "d_mod_k", all_reduce, BackendKind::Analytical, true);
    assert_eq!(outcome.simulated_ranks, 1);
}

/// A tree whose routes are too many to compare one by one folds all the same: a turn by one of its
/// outermost blocks takes routes to routes.
#[test]
fn large_trees_fold_on_fair_flows() {
    let large = "{generator: clos, down: [16, 16, 64], up: [16, 16]}";
    for kind in [CollectiveKind::AllReduce, CollectiveKind::AllToAll] {
        let outcome = start(large, "d_mod_k", collective(kind, 1 << 30), BackendKind::Flow, true);
        assert_eq!(outcome.simulated_ranks, 1, "{kind:?}: {:?}", outcome.report.symmetry);
    }
}

/// Fabrics with failures that leave a way to everybody, but break their symmetry.
const FAILED: [&str; 5] = [
    "{generator: leaf_spine, npus_per_leaf: 4, leaves: 4, spines: 2}\nfailed: {links: [leaf0-spine1]}",
    "{generator: fat_tree, radix: 4}\nfailed: {nodes: [aggregation3, core0]}",
    "{generator: rail_optimized, npus_per_node: 4, nodes: 4}\nfailed: {links: [npu5-node1]}",
    "{generator: rail_optimized, npus_per_node: 4, nodes: 4}\nfailed: {nodes: [leaf2]}",
    "{generator: torus, sizes: [4, 4]}\nfailed: {links: [npu0-npu1, npu9-npu10]}",
];

/// A failure makes ranks differ that were alike: folding must not merge them.
#[test]
fn fabrics_with_failures_fold_to_the_same_report() {
    folding_changes_nothing(&FAILED);
}

/// A rail without its leaf goes round by the switches of two nodes: its messages are longer on
/// their way than those of the other rails, so the ranks are no longer alike.
#[test]
fn a_rail_without_its_leaf_goes_through_other_rails() {
    let whole = "{generator: rail_optimized, npus_per_node: 4, nodes: 4}";
    let all_reduce = collective(CollectiveKind::AllReduce, 1 << 20);
    let took = |fabric| {
        let outcome = start(fabric, "lowest", &all_reduce, BackendKind::Analytical, true);
        (outcome.report.step_time_ns, outcome.simulated_ranks)
    };
    let (all, failed) = (took(whole), took(FAILED[3]));
    assert!(failed.0 > all.0, "{failed:?} {all:?}");
    assert!((all.1, failed.1 > 1) == (1, true), "{failed:?} {all:?}");
}

/// An all-to-all of 16 MB of each of 16 NPUs at four leaves. An NPU sends 15 MB, 12 MB of them to
/// other leaves. With `lowest`, all that leaves a leaf passes spine 0. The picture has just that on
/// its cables.
#[test]
fn the_picture_has_the_load_of_the_links() {
    let topology = "{generator: leaf_spine, npus_per_leaf: 4, leaves: 4, spines: 2}";
    let all_to_all = collective(CollectiveKind::AllToAll, 16_000_000);
    let report = start(topology, "lowest", &all_to_all, BackendKind::Link, true).report;
    let picture = report.picture.expect("a small graph has a picture");
    let name = |cell: u32| picture.cells[cell as usize].name.as_str();
    let load = |a: &str, b: &str| {
        let ends = |c: &&stats::PictureCable| (name(c.a), name(c.b)) == (a, b);
        let cable = picture.cables.iter().find(ends).expect("a cable");
        (cable.bytes, cable.busy_ns)
    };
    assert_eq!(load("npu0", "leaf0"), (Some(15_000_000), Some(300_000.0)));
    assert_eq!(load("leaf0", "spine0"), (Some(48_000_000), Some(960_000.0)));
    assert_eq!(load("leaf0", "spine1"), (Some(0), Some(0.0)));
    assert_eq!(report.dimensions[0].link_busy_ns, Some(960_000.0));
    let report = start(topology, "lowest", &all_to_all, BackendKind::Analytical, true).report;
    let picture = report.picture.expect("a small graph has a picture");
    assert!(picture.cables.iter().all(|cable| cable.bytes.is_none()));
}

/// Two dimensions that share a card of 50 GB/s: sending along both at once takes what both take one
/// after the other. With cards of their own it takes the longer of the two.
#[test]
fn dimensions_that_share_a_card_share_its_bandwidth() {
    let both = |npus: u32| {
        let send = |peer: i32| Op::Send { peer: peer.into(), bytes: Bytes(50_000_000), tag: 0 };
        let receive = |peer: i32| Op::Recv { peer: peer.into(), bytes: Bytes(50_000_000), tag: 0 };
        let idle = Op::Compute { operations: None, bytes: None, cpu: false, kernel: Kernel::Other };
        let of = |rank| match rank {
            0 => program(&[send(1), send(4)]),
            1 => program(&[receive(-1)]),
            4 => program(&[receive(-4)]),
            _ => program(&[idle]),
        };
        let programs = vec![of(0), of(1), of(4), of(2)];
        let number = |rank| match rank {
            0 => 0,
            1 => 1,
            4 => 2,
            _ => 3,
        };
        let binding = |rank| RankBinding { program: number(rank), slots: 0 };
        Workload {
            programs: programs.into_iter().map(Arc::new).collect(),
            ranks: (0..npus).map(binding).collect(),
            groups: vec![Group { name: "world".into(), members: Members::All }],
            ..Workload::default()
        }
    };
    let took = |nic: &str, nics: &str, backend| {
        shared_card(nic, nics, both(16), backend, false).report.step_time_ns
    };
    for backend in BackendKind::ALL {
        let own = took("", "", backend.clone());
        let nics = "nics: [{name: a, bandwidth: 50 GB/s}]\n";
        let shared = took(", nic: a", nics, backend.clone());
        if backend == BackendKind::Packet {
            // Each crosses the card after its own window; headers take 5 % more.
            assert!((1.9..=2.0).contains(&(shared / own)), "{own} {shared}");
            continue;
        }
        if backend == BackendKind::Flit {
            // Whole cycles and flits.
            assert!((1_002_000.0..1_003_000.0).contains(&own), "{own}");
            assert!((1.98..2.01).contains(&(shared / own)), "{own} {shared}");
            continue;
        }
        // 1 ms a message, over two links of a switch or one of the ring.
        assert_eq!(own, 1_002_000.0, "{backend}");
        assert!((2_001_000.0..=2_002_000.0).contains(&shared), "{backend}: {shared}");
    }
}

/// A run on two dimensions, whose links may name the card of `nics`.
fn shared_card(
    nic: &str,
    nics: &str,
    workload: Workload,
    backend: BackendKind,
    fold: bool,
) -> Outcome {
    let link = format!("{{bandwidth: 50 GB/s, latency: 1 us{nic}}}");
    let text = format!(
        "topology: SW(4)_R(4)\nlinks: [{link}, {link}]\n{nics}scheduler: {{endpoint_delay: 0 ns}}\n"
    );
    let platform = native::from_yaml(&text, "p.yml", &[]).expect("a platform");
    let workload = Source::Built(Box::new(workload));
    let watch = Watch::default();
    let config = Config { workload, groups: Vec::new(), platform, backend, fold, watch };
    run(&config, &mut |_| true).unwrap_or_else(|error| panic!("{error}"))
}

/// Collectives over dimensions that share a card: no slower than one dimension after the other,
/// no faster than with a card for each, and folded as unfolded.
#[test]
fn collectives_over_a_shared_card_fold() {
    let nics = "nics: [{name: a, bandwidth: 50 GB/s}]\n";
    for (kind, backend) in [CollectiveKind::AllReduce, CollectiveKind::AllToAll]
        .into_iter()
        .flat_map(|kind| BackendKind::ALL.map(|backend| (kind, backend)))
    {
        let took = |nic, nics, fold| {
            shared_card(nic, nics, collective(kind, 1 << 20)(16), backend.clone(), fold).report
        };
        let (own, shared) = (took("", "", true), took(", nic: a", nics, true));
        assert!(shared.step_time_ns >= own.step_time_ns, "{backend}");
        let json = |report| serde_json::to_string(report).expect("a report is JSON");
        assert!(json(&shared) == json(&took(", nic: a", nics, false)), "{} {backend}", kind.name());
    }
}
