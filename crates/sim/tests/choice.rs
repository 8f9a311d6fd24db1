//! `auto` never takes an algorithm far slower than another one that it knows, on graphs, logical
//! dimensions and parts of dimensions.

use crate::common::built::{WORK, collective, config, workload};
use graph::CollectiveKind;
use sim::{BackendKind, run};

/// Networks whose dimensions are no blocks, or blocks that a logical dimension crosses.
const NETWORKS: [&str; 9] = [
    "topology: {generator: leaf_spine, npus_per_leaf: 4, leaves: 4, spines: 4}\nlogical: [16]",
    "topology: {generator: leaf_spine, npus_per_leaf: 8, leaves: 4, spines: 2}\nlogical: [32]",
    "topology: {generator: clos, down: [2, 2, 3], up: [2, 2]}\nlogical: [12]",
    "topology: {generator: dragonfly, npus_per_router: 2, routers_per_group: 4, global_links: 1}\nlogical: [40]",
    "topology: {generator: full_mesh, npus: 8}\nlogical: [8]",
    "topology: {generator: torus, sizes: [4, 4]}\nlogical: [16]",
    "topology: {generator: torus, sizes: [8]}\nlogical: [8]",
    "topology: {generator: mesh, sizes: [9]}\nlogical: [9]",
    "topology: Ring(4)_Switch(4)\nlogical: [16]",
];
const ALGORITHMS: [&str; 4] = ["ring", "bidirectional_ring", "halving_doubling", "direct"];

/// Nanoseconds that a collective of all NPUs takes; `None` if the algorithm cannot run it.
fn time(network: &str, kind: CollectiveKind, bytes: u64, algorithm: &str) -> Option<f64> {
    time_of(network, kind, bytes, algorithm, None)
}

/// The same of the NPUs `members`; the others do nothing.
fn time_of(
    network: &str,
    kind: CollectiveKind,
    bytes: u64,
    algorithm: &str,
    members: Option<&[u32]>,
) -> Option<f64> {
    let text = format!(
        "{network}\nlinks: {{bandwidth: 50 GB/s, latency: 1 us}}\nscheduler: {{chunks: 1}}\n\
         collectives: {{{}: {algorithm}}}\n",
        kind.name()
    );
    let npus = platform::config::native::from_yaml(&text, "p.yml", &[]).ok()?.fabric.npus();
    let slot = u32::from(members.is_some());
    let (works, idle): (&[(graph::Op, &[u64])], &[_]) =
        (&[(collective(kind, bytes, slot), &[])], &[(WORK, &[][..])]);
    let takes_part = |rank| members.is_none_or(|members| members.contains(&rank));
    let programs: Vec<_> =
        (0..npus).map(|rank| if takes_part(rank) { works } else { idle }).collect();
    let groups: Vec<&[u32]> = members.into_iter().collect();
    let config = config(&text, workload(&programs, &groups), BackendKind::Analytical);
    run(&config, &mut |_| true).ok().map(|outcome| outcome.report.step_time_ns)
}

#[test]
fn auto_is_near_the_best_algorithm_that_it_knows() {
    for network in NETWORKS {
        for kind in CollectiveKind::ALL {
            for bytes in [1 << 12, 1 << 17, 1 << 24] {
                let auto = time(network, kind, bytes, "auto").expect("it runs");
                let times = ALGORITHMS.map(|name| time(network, kind, bytes, name));
                let best = times.iter().flatten().copied().fold(f64::INFINITY, f64::min);
                assert!(
                    auto <= 1.5 * best,
                    "{network}\n{} of {bytes} bytes: {auto} ns, {ALGORITHMS:?}: {times:?}",
                    kind.name()
                );
            }
        }
    }
}

/// 256 NPUs on a Clos without oversubscription: an all-to-all of 1 GiB is what each NPU sends to the
/// others over its link, 255 / 256 GiB at 50 GB/s, and some latency. In a ring each byte passes 128
/// NPUs.
#[test]
fn an_all_to_all_on_one_dimension_of_a_graph_is_direct() {
    let network = "topology: {generator: clos, down: [16, 4, 4], up: [16, 4]}\nlogical: [256]";
    let bytes = 1 << 30;
    let sent = (bytes - bytes / 256) as f64 / 50.0;
    let took = time(network, CollectiveKind::AllToAll, bytes, "auto").expect("it runs");
    assert!((sent..1.05 * sent).contains(&took), "{took} ns, and the bytes take {sent}");
}

/// Networks with coordinates, on which all dimensions share an NPU's port, or do not. An all-to-all
/// over all of them takes at most what it takes straight from NPU to NPU, and on the non-blocking one
/// what an NPU's port needs.
#[test]
fn an_all_to_all_over_dimensions_of_a_graph_is_as_fast_as_a_direct_one() {
    let networks = [
        "topology: {generator: leaf_spine, npus_per_leaf: 4, leaves: 4, spines: 4}",
        "topology: {generator: leaf_spine, npus_per_leaf: 4, leaves: 4, spines: 1}",
        "topology: {generator: clos, down: [4, 2, 3], up: [4, 2]}",
        "topology: {generator: dragonfly, npus_per_router: 2, routers_per_group: 4, global_links: 1}",
        "topology: {generator: twisted_torus, sizes: [4, 8]}",
    ];
    let bytes = 1 << 26;
    let times = networks.map(|network| {
        let time = |algorithm| time(network, CollectiveKind::AllToAll, bytes, algorithm).unwrap();
        let (auto, straight) = (time("auto"), time("{algorithm: direct, flat: true}"));
        assert!(auto <= 1.001 * straight, "{network}: {auto} ns, straight {straight}");
        auto
    });
    let sent = (bytes - bytes / 16) as f64 / 50.0;
    assert!((sent..1.02 * sent).contains(&times[0]), "{} ns, sent {sent}", times[0]);
    // 12 of the 15 blocks of each NPU leave its leaf, whose four NPUs share one link.
    let crossing = 4.0 * sent * 12.0 / 15.0;
    assert!((crossing..1.02 * crossing).contains(&times[1]), "{} ns, {crossing}", times[1]);
}

/// Eight NPUs with a link of 50 GB/s to each of four switches. A message splits over all four links
/// out of an NPU and into one: seven of them need 7/4 of the time of one on a link.
#[test]
fn npus_with_several_links_use_all_of_them() {
    let network = "topology: {generator: nvlink_domain, npus: 8, switches: 4}";
    let bytes = 1u64 << 26;
    let turns = 7.0 / 4.0 * bytes as f64 / 8.0 / 50.0;
    for (kind, phases) in [(CollectiveKind::AllToAll, 1.0), (CollectiveKind::AllReduce, 2.0)] {
        let took = time(network, kind, bytes, "auto").expect("it runs");
        let ratio = took / (phases * turns);
        assert!((1.0..1.02).contains(&ratio), "{} {ratio}", kind.name());
    }
}

/// An all-to-all of NPUs that are a part of a ring or a mesh: direct, as messages take the shorter
/// way, and a ring relays them.
#[test]
fn an_all_to_all_of_a_part_of_a_dimension_is_direct() {
    let parts: [(&str, &[u32]); 5] = [
        ("topology: Ring(8)", &[0, 2, 4, 6]),
        ("topology: Ring(8)", &[0, 1, 2, 3]),
        ("topology: Ring(8)", &[0, 1, 3, 6, 7]),
        ("topology: Mesh(8)", &[0, 1, 2, 3, 4, 5, 6, 7]),
        ("topology: {generator: torus, sizes: [4, 4]}", &[0, 5, 10, 15]),
    ];
    for (network, members) in parts {
        let time = |algorithm| {
            time_of(network, CollectiveKind::AllToAll, 1 << 24, algorithm, Some(members)).unwrap()
        };
        let (auto, direct, ring) = (time("auto"), time("direct"), time("ring"));
        assert!(auto == direct && direct < ring, "{network} {members:?}: {auto} {direct} {ring}");
    }
}
