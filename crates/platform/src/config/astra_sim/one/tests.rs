//! Files of version 1.0, in the formats of the samples of its repository.

use super::*;
use crate::platform::{Algorithm, Hierarchy, Policy};
use declared::ByDim;
use graph::CollectiveKind;
use proptest::prelude::*;
use topology::{Block, Fabric};
use units::{Bandwidth, Bytes, Span};

const TORUS: &str = "num-npus: 32\nnum-packages: 8\npackage-rows: 4 \ntopology: Torus3D\nlocal-rings: 2
vertical-rings: 2\nhorizontal-rings: 1\nflit-width: 2048 \nlocal-packet-size: 4096 \npackage-packet-size: 4096
tile-link-width: 256 \npackage-link-width: 128 \nvcs-per-vnet: 50 \nrouting-algorithm: Ring_XY  \nrouter-latency: 1
local-link-latency: 90 \npackage-link-latency: 200 \nbuffers-per-vc: 5000\nlocal-link-efficiency: 1.0
package-link-efficiency: 0.5  \n";
const SWITCHES: &str =
    "num-npus: 8\nnum-packages: 4\npackage-rows: 1\ntopology: NV_Switch\nlocal-rings: 2
links-per-tile: 3\ntile-link-width: 256\npackage-link-width: 256\nlocal-link-latency: 90
package-link-latency: 200\n";
const SYSTEM: &str = "scheduling-policy: LIFO \nendpoint-delay: 10\npacket-routing: software\ninjection-policy: normal
preferred-dataset-splits: 4\nboost-mode: 1\ncollective-implementation: hierarchicalRing
collective-optimization: localBWAware\n";
const LISTS: &str = r#"{"topology-name": "Hierarchical", "topologies-per-dim": ["Ring", "FullyConnected", "Switch"],
    "dimension-type": ["N", "N", "P"], "dimensions-count": 3, "units-count": [2, 8, 2], "links-count": [2, 7, 1],
    "link-latency": [500, 500, 500], "link-bandwidth": [250, 25, 12.5], "nic-latency": [0, 0, 10],
    "router-latency": [0, 0, 20], "hbm-latency": [1, 1, 1], "hbm-bandwidth": [1, 1, 1], "hbm-scale": [0, 0, 0]}"#;

fn converted(network: &str, system: &str) -> Result<Converted, Vec<Problem>> {
    let load = |path: &str| {
        let text = if path == "network.txt" { network } else { system };
        Ok(text.as_bytes().to_vec())
    };
    convert_from("network.txt", "system.txt", &load)
}

fn platform(network: &str, system: &str) -> Platform {
    let text = converted(network, system).unwrap().text;
    native::from_yaml(&text, "one.yml", &[])
        .unwrap_or_else(|problems| panic!("{problems:?}\n{text}"))
}

/// Faults of the files.
fn faults(network: &str, system: &str) -> Vec<String> {
    converted(network, system).unwrap_err().iter().map(ToString::to_string).collect()
}

/// Block, size, GB/s of a link, latency of each dimension.
fn dims(platform: &Platform) -> Vec<(Block, u32, Bandwidth, Span)> {
    let Fabric::Stacked(dims) = &platform.fabric else { panic!("a stack") };
    dims.iter().map(|dim| (dim.block, dim.size, dim.bandwidth, dim.latency)).collect()
}

const GB: u64 = 1_000_000_000;

/// 256 bits a cycle are 32 GB/s. Two one-way rings of 4 are one link each way; two rings of both
/// ways two, at 16 GB/s, half of it data; between two NPUs both ways of one ring are one link.
#[test]
fn a_torus_has_its_rings_as_links() {
    let found = platform(TORUS, SYSTEM);
    let ns = |cycles: u64| Span(cycles * 1_000);
    assert_eq!(
        dims(&found),
        [
            (Block::Ring, 4, Bandwidth(32 * GB), ns(91)),
            (Block::Ring, 4, Bandwidth(2 * 8 * GB), ns(201)),
            (Block::Ring, 2, Bandwidth(2 * 8 * GB), ns(201)),
        ]
    );
    assert_eq!(found.scheduler.policy, Policy::Lifo);
    assert_eq!((found.scheduler.chunks, found.scheduler.endpoint_delay), (4, Span(10_000)));
    // A ring of both ways has two queues, and normal injection one chunk in each.
    assert_eq!(queues(&found), [(2, 1), (4, 1), (2, 1)]);
    assert_eq!(found.collectives.hierarchy, Hierarchy::HierarchicalOptimal);
}

/// Queues of each dimension, and chunks at once in each.
fn queues(platform: &Platform) -> Vec<(u32, u32)> {
    let of = |dim| platform.scheduler.queues(dim);
    (0..platform.sizes().len()).map(|dim| (of(dim).count, of(dim).room)).collect()
}

#[test]
fn switches_have_a_link_to_each_npu() {
    let system = SYSTEM.replace("hierarchicalRing", "allToAll").replace("normal", "aggressive");
    let found = platform(SWITCHES, &system);
    assert_eq!(
        dims(&found),
        [
            (Block::Ring, 2, Bandwidth(64 * GB), Span(90_000)),
            (Block::Switch, 4, Bandwidth(96 * GB), Span(200_000)),
        ]
    );
    // Three switches have three queues, and aggressive injection 32 chunks in each.
    assert_eq!(queues(&found), [(2, 32), (3, 32)]);
}

#[test]
fn lists_are_dimensions_of_an_analytical_network() {
    let later = "scheduling-policy: FIFO\nendpoint-delay: 1\nactive-chunks-per-dimension: 2\n\
                 preferred-dataset-splits: 8\nall-reduce-implementation: ring_direct_doubleBinaryTree\n\
                 all-to-all-implementation: oneDirect\ndirect-collective-window: 3\n\
                 collective-optimization: localBWAware\n";
    let found = platform(LISTS, later);
    assert_eq!(
        dims(&found),
        [
            // A ring of two has both of an NPU's links to its only neighbour.
            (Block::Ring, 2, Bandwidth(500 * GB), Span(500_000)),
            (Block::FullyConnected, 8, Bandwidth(25 * GB), Span(500_000)),
            // A message crosses two links of a switch, and a card and a router once.
            (Block::Switch, 2, Bandwidth(12 * GB + GB / 2), Span(515_000)),
        ]
    );
    assert_eq!(queues(&found), [(1, 2); 3]);
    assert_eq!(found.collectives.hierarchy, Hierarchy::Enhanced);
    let direct = Algorithm::Direct { window: Some(3) };
    let choice = |kind: CollectiveKind| found.collectives.choices[kind as usize].clone().unwrap();
    let all_reduce = choice(CollectiveKind::AllReduce);
    assert_eq!(all_reduce.per_dim, [Algorithm::Ring, direct, Algorithm::DoubleBinaryTree]);
    let all_to_all = choice(CollectiveKind::AllToAll);
    assert_eq!((all_to_all.per_dim, all_to_all.flat), (vec![direct], true));
}

#[test]
fn names_of_topologies_say_their_dimensions() {
    let of = |name: &str, count: usize| {
        let list = |value: &str| format!("[{}]", vec![value; count].join(", "));
        let text = format!(
            "{{\"topology-name\": \"{name}\", \"dimensions-count\": {count}, \"units-count\": {}, \"link-latency\": {}, \"link-bandwidth\": {}}}",
            list("4"),
            list("500"),
            list("25")
        );
        dims(&platform(&text, SYSTEM)).iter().map(|dim| dim.0).collect::<Vec<_>>()
    };
    assert_eq!(of("Torus2D", 2), [Block::Ring; 2]);
    assert_eq!(of("Ring_AllToAll_Switch", 3), [Block::Ring, Block::FullyConnected, Block::Switch]);
    // One dimension without lists, as the oldest samples have it.
    let plain = r#"{"topology-name": "Switch", "dims-count": 1, "nodes-per-dim": 4, "link-bandwidth": 25, "link-latency": 500}"#;
    assert_eq!(dims(&platform(plain, SYSTEM))[0].0, Block::Switch);
}

/// `packet-routing` and `injection-policy` of Table III: NPUs or routers pass all-to-alls on, and
/// how many messages of one are under way.
#[test]
fn routing_and_injection_choose_the_all_to_all() {
    let all_to_all = |routing: &str, injection: &str| {
        let system = SYSTEM.replace("software", routing).replace("normal", injection);
        let found = platform(TORUS, &system);
        let [all_reduce, all_to_all] = [CollectiveKind::AllReduce, CollectiveKind::AllToAll]
            .map(|kind| found.collectives.choices[kind as usize].clone().unwrap().per_dim);
        assert_eq!(all_reduce, [Algorithm::Ring; 3]);
        all_to_all[0]
    };
    assert_eq!(all_to_all("software", "normal"), Algorithm::Ring);
    assert_eq!(all_to_all("software", "aggressive"), Algorithm::Ring);
    assert_eq!(all_to_all("hardware", "normal"), Algorithm::Direct { window: Some(1) });
    assert_eq!(all_to_all("hardware", "aggressive"), Algorithm::Direct { window: None });
}

#[test]
fn keys_that_change_nothing_are_named() {
    let why = "messages cross dimensions in order";
    assert_eq!(
        converted(TORUS, &format!("{SYSTEM}L: 50\nG: 0.0038\n")).unwrap().warnings,
        [
            format!("network.txt: routing-algorithm has no effect: {why}"),
            "system.txt: boost-mode has no effect: ranks that behave alike fold by themselves"
                .into(),
            "system.txt: L, G have no effect: npu.memory.bandwidth says how long a reduction takes"
                .into(),
        ]
    );
    let scaled = LISTS.replace("\"hbm-scale\": [0, 0, 0]", "\"hbm-scale\": [1, 0, 0]");
    let warnings = converted(&scaled, SYSTEM).unwrap().warnings;
    assert!(warnings[0].starts_with("network.txt: hbm-latency, hbm-bandwidth, hbm-scale have no"));
}

/// 2,048 bits are 256 bytes. Garnet sends a packet as whole flits.
/// Table III of the paper: "algorithm", "baseline" or "enhanced". The enhanced all-reduce of a torus
/// has four phases (section III-D).
#[test]
fn the_hierarchy_has_the_papers_key_too() {
    let said = |line: &str| SYSTEM.replace("collective-optimization: localBWAware", line);
    let hierarchy = |line: &str| platform(TORUS, &said(line)).collectives.hierarchy;
    assert_eq!(hierarchy("algorithm: enhanced"), Hierarchy::HierarchicalOptimal);
    assert_eq!(hierarchy("algorithm: baseline"), Hierarchy::Baseline);
    assert_eq!(
        faults(TORUS, &said("algorithm: best")),
        ["system.txt: line 8, algorithm: \"best\" is not allowed (allowed: baseline, enhanced)"]
    );
    let both = format!("{SYSTEM}algorithm: enhanced\n");
    assert!(faults(TORUS, &both)[0].contains("collective-optimization says the same as algorithm"));
}

#[test]
fn flits_are_those_of_the_file() {
    let flit = |network: &str| platform(network, SYSTEM).network.flit;
    let found = flit(TORUS).unwrap();
    assert_eq!((found.flit, found.packet), (Some(Bytes(256)), ByDim::All(Some(Bytes(4096)))));
    assert_eq!((found.virtual_channels, found.buffer), (Some(50), Some(5000)));
    assert_eq!(flit(SWITCHES), None);
    let other = TORUS.replace("package-packet-size: 4096", "package-packet-size: 300");
    let sizes = [4096, 512, 512].map(|bytes| Some(Bytes(bytes)));
    assert_eq!(flit(&other).unwrap().packet, ByDim::Each(sizes.to_vec()));
    let warnings = converted(&other, SYSTEM).unwrap().warnings;
    assert!(!warnings.iter().any(|text| text.contains("packet-size")));
    assert!(warnings.iter().any(|text| text.contains("packets of 300 bytes become 512 bytes")));
    let odd = TORUS.replace("flit-width: 2048", "flit-width: 1001");
    assert_eq!(
        faults(&odd, SYSTEM),
        ["network.txt: line 8, flit-width: a flit of 1001 bits (allowed: a multiple of 8 bits)"]
    );
}

#[test]
fn every_fault_names_file_line_key_and_what_is_allowed() {
    let network = TORUS
        .replace("num-packages: 8", "num-packages: 7")
        .replace("vcs-per-vnet", "vcs-per-vnets")
        .replace("tile-link-width: 256", "tile-link-width: wide");
    let system = SYSTEM.replace("LIFO", "RANDOM").replace("preferred-dataset-splits: 4\n", "");
    let found = faults(&network, &system);
    let begin =
        |text: &str| assert!(found.iter().any(|f| f.starts_with(text)), "{text}\n{found:#?}");
    assert_eq!(found.len(), 6, "{found:#?}");
    begin(
        "network.txt: line 13, vcs-per-vnets: unknown key \"vcs-per-vnets\"; did you mean \"vcs-per-vnet\"? (allowed: num-npus, num-packages,",
    );
    begin("system.txt: line 1, scheduling-policy: \"RANDOM\" is not allowed (allowed: LIFO, FIFO)");
    begin(
        "system.txt: line 1: \"preferred-dataset-splits\" is missing (allowed: a whole number from 1)",
    );
}

#[test]
fn lists_of_algorithms_fit_the_dimensions() {
    let system = |lines: &str| format!("preferred-dataset-splits: 4\n{lines}");
    assert_eq!(
        faults(TORUS, &system("all-reduce-implementation: ring_direct\n")),
        [
            "system.txt: line 2, all-reduce-implementation: 2 algorithms for 3 dimensions (allowed: one algorithm for each dimension)"
        ]
    );
    assert_eq!(
        faults(TORUS, &system("all-gather-implementation: ring_oneRing_ring\n")),
        [
            "system.txt: line 2, all-gather-implementation: \"oneRing\" is for all dimensions together (allowed: the only algorithm, or one for each dimension)"
        ]
    );
}

proptest! {
    /// Whatever a letter becomes: a platform file that reads, or problems.
    #[test]
    fn damaged_files_are_read_or_refused(
        at in any::<prop::sample::Index>(),
        letter in "[ -~\\n]",
        which in 0..3usize,
    ) {
        let mut texts = [TORUS, SYSTEM, LISTS].map(String::from);
        let place = at.index(texts[which].len());
        texts[which].replace_range(place..=place, &letter);
        let network = if which == 2 { &texts[2] } else { &texts[0] };
        if let Ok(converted) = converted(network, &texts[1]) {
            let read = native::from_yaml(&converted.text, "one.yml", &[]);
            prop_assert!(read.is_ok(), "{read:?}");
        }
    }
}
