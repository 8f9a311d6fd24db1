//! BookSim2's own runs again (`data/booksim_*.json`).

use net_flit::input_queued::{InputQueued, Settings};
use net_flit::reference::Pattern;
use net_flit::{DimensionOrder, Grid, Packet, Random};
use serde_json::Value;
use std::collections::BTreeMap;

fn file(text: &str) -> Value {
    serde_json::from_str(text).expect("valid")
}

fn cases<'a>(file: &'a Value, key: &str) -> &'a Vec<Value> {
    file[key].as_array().expect("a list")
}

fn small(case: &Value, key: &str) -> u32 {
    case[key].as_u64().unwrap_or_else(|| panic!("{key} of {case}")) as u32
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap_or_else(|| panic!("{key} of {case}"))
}

/// `torus_8x8`, `ring_16`.
fn grid(name: &str) -> Grid {
    let (kind, sizes) = name.split_once('_').expect("kind and sizes");
    let sizes: Vec<u32> = sizes.split('x').map(|size| size.parse().expect("a size")).collect();
    Grid { k: sizes[0], n: sizes.len() as u32, wraps: kind != "mesh" }
}

fn network(grid: Grid, settings: Settings, link: u32) -> InputQueued<DimensionOrder> {
    let (fabric, ways) = grid.fabric([link, 1], 1);
    InputQueued::new(&fabric, settings, DimensionOrder::new(ways, 7))
}

#[test]
fn an_empty_network_has_the_latency_of_the_formula() {
    let file = file(include_str!("data/booksim_zero_load.json"));
    for case in cases(&file, "cases") {
        let grid = grid(text(case, "topo"));
        let (flits, router) = (small(case, "packet_size"), text(case, "router"));
        let speculative = matches!(router, "la_spec" | "st_final0");
        let settings = Settings {
            routing: u32::from(!speculative && router != "lookahead"),
            speculative,
            credit_processing: u32::from(router == "st_final0"),
            ..Settings::default()
        };
        let link = if router.starts_with("link2") { small(case, "t_link") } else { 1 };
        let mut network = network(grid, settings, link).checked();
        let mut arrived = Vec::new();
        // From the corner to all: on a torus and on a mesh that is every distance.
        for dst in 0..grid.nodes() {
            network.send(network.now(), Packet { src: 0, dst, vnet: 0, flits, port: 0, way: 0 }, 0);
            assert!(network.advance(&mut arrived));
            let rest = network.now() + 100;
            network.run(rest, &mut arrived);
        }
        let mut ours = BTreeMap::new();
        for arrival in &arrived {
            let latency = (arrival.queued + arrival.network) as f64;
            assert_eq!(*ours.entry(arrival.hops).or_insert(latency), latency, "{case}");
        }
        let theirs: BTreeMap<u32, f64> =
            serde_json::from_value(case["min_latency_by_link_hops"].clone()).expect("latencies");
        assert_eq!(ours, theirs, "{router} {flits} {}", case["topo"]);
    }
}

/// Three batches in a row: cycles of each.
fn batches(case: &Value, seed: u64) -> Vec<u64> {
    let grid = grid(text(case, "topology"));
    let flits = small(case, "packet_flits");
    let pattern: Pattern = text(case, "traffic").parse().expect("known");
    let mut network = network(grid, Settings::default(), 1).checked();
    let (mut random, mut arrived) = (Random::new(seed), Vec::new());
    let batch = |_| {
        let start = network.now();
        for _ in 0..small(case, "packets_per_node") {
            for src in 0..grid.nodes() {
                let dst = pattern.destination(&grid, src, &mut random);
                network.send(start, Packet { src, dst, vnet: 0, flits, port: 0, way: 0 }, 0);
            }
        }
        while network.under_way() > 0 {
            assert!(network.advance(&mut arrived));
        }
        network.now() - start
    };
    (0..3).map(batch).collect()
}

#[test]
fn batches_take_as_many_cycles() {
    let file = file(include_str!("data/booksim_batch.json"));
    let mut wrong = 0;
    for case in cases(&file, "cases") {
        let theirs: Vec<u64> = serde_json::from_value(case["batch_cycles"].clone()).expect("three");
        let ours = batches(case, 3);
        let ratio = ours.iter().sum::<u64>() as f64 / theirs.iter().sum::<u64>() as f64;
        let exact = case["deterministic"] == true;
        let fits = !exact || ours == theirs;
        wrong += u32::from(!fits);
        let (topology, traffic) = (text(case, "topology"), text(case, "traffic"));
        println!("{fits} {topology:12} {traffic:9} {ours:?} {theirs:?} {ratio:.4}");
    }
    assert_eq!(wrong, 0);
}
