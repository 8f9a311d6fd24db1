//! BookSim2's own runs again (`data/booksim_*.json`).

use net_flit::Grid;
use net_flit::input_queued::{Pipeline, Settings};
use peers::flits::Pattern;
use peers::flits::booksim::{Load, Measured, Setup};
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

fn setup(name: &str, settings: Settings) -> Setup {
    Setup { grid: grid(name), settings, link: 1, checked: cfg!(debug_assertions) }
}

#[test]
fn an_empty_network_has_the_latency_of_the_formula() {
    let file = file(include_str!("data/booksim_zero_load.json"));
    for case in cases(&file, "cases") {
        let (flits, router) = (small(case, "packet_size"), text(case, "router"));
        let speculation = matches!(router, "la_spec" | "st_final0");
        let pipeline = Pipeline {
            route_computation: u32::from(!speculation && router != "lookahead"),
            speculation,
            credit_processing: u32::from(router == "st_final0"),
            ..Pipeline::default()
        };
        let settings = Settings { pipeline, ..Settings::default() };
        let link = if router.starts_with("link2") { small(case, "t_link") } else { 1 };
        let setup = Setup { link, checked: true, ..setup(text(case, "topo"), settings) };
        let ours = setup.alone(flits).expect("a network");
        let latencies: BTreeMap<u32, f64> =
            serde_json::from_value(case["min_latency_by_link_hops"].clone()).expect("latencies");
        let theirs = latencies.into_iter().map(|(hops, cycles)| (hops, cycles as u64)).collect();
        assert_eq!(ours, theirs, "{router} {flits} {}", case["topo"]);
    }
}

#[test]
fn batches_take_as_many_cycles() {
    let file = file(include_str!("data/booksim_batch.json"));
    let mut wrong = 0;
    for case in cases(&file, "cases") {
        let theirs: Vec<u64> = serde_json::from_value(case["batch_cycles"].clone()).expect("three");
        let exact = case["deterministic"] == true;
        let seeds = if exact || cfg!(debug_assertions) { 1 } else { 12 };
        let (topology, traffic) = (text(case, "topology"), text(case, "traffic"));
        let setup = Setup { checked: true, ..setup(topology, Settings::default()) };
        let pattern = (traffic.parse().expect("known"), small(case, "packet_flits"));
        let packets = (3, small(case, "packets_per_node"));
        let run = |seed| setup.batches(pattern, packets, seed).expect("a network");
        let runs: Vec<Vec<u64>> = (0..seeds).map(|seed| run(seed).expect("no deadlock")).collect();
        let (ours, all) = (&runs[0], runs.concat());
        let mean = |cycles: &[u64]| cycles.iter().sum::<u64>() as f64 / cycles.len() as f64;
        let ratio = mean(&all) / mean(&theirs);
        let noise = if cfg!(debug_assertions) { 0.25 } else { 0.07 };
        let fits = if exact { *ours == theirs } else { (ratio - 1.0).abs() < noise };
        wrong += u32::from(!fits);
        println!("{fits} {topology:12} {traffic:9} {ours:?} {theirs:?} {ratio:.4}");
    }
    assert_eq!(wrong, 0);
}

/// A load of a curve.
fn measure(curve: &Value, load: f64, seed: u64) -> Option<Measured> {
    let speculation = text(curve, "router") == "la_spec_tailcredit";
    let pipeline = Pipeline {
        route_computation: u32::from(!speculation),
        speculation,
        waits_for_tail_credit: speculation,
        ..Pipeline::default()
    };
    let settings = Settings { pipeline, ..Settings::default() };
    let load = Load {
        pattern: text(curve, "traffic").parse().expect("known"),
        flits: small(curve, "packet_flits"),
        load,
        period: small(&curve["config"], "sample_period").into(),
        warmup: 3,
        most: 9,
        limit: 300.0,
        seed,
    };
    setup(text(curve, "topology"), settings).measure(&load).expect("a network")
}

/// Every third curve, which still have each topology and traffic, or all in `make thorough`; fewer
/// without optimization.
fn some(file: &Value) -> impl Iterator<Item = &Value> {
    let all = std::env::var_os("PROPTEST_CASES").is_some();
    let step = if cfg!(debug_assertions) {
        10
    } else if all {
        1
    } else {
        3
    };
    cases(file, "curves").iter().step_by(step)
}

/// Up to 0.9 of saturation. Four seeds of BookSim2 differ by 0.2 % to 2.5 % there, more on rings of 8
/// nodes, where few packets are counted (`data/booksim_seed_noise.json`).
#[test]
fn latency_agrees_below_saturation() {
    let file = file(include_str!("data/booksim_latency_throughput.json"));
    let (mut wrong, mut sum, mut count) = (0, 0.0, 0);
    for curve in some(&file) {
        let saturation = curve["saturation_bracket"][0].as_f64().expect("a load");
        for point in cases(curve, "points") {
            let load = point["offered"].as_f64().expect("a load");
            let Some(theirs) = point["packet_latency"].as_f64() else { continue };
            if load > 0.9 * saturation {
                continue;
            }
            // As many packets on rings as on the other networks.
            let seeds = if text(curve, "topology") == "ring_8" { 5..9 } else { 5..6 };
            let latency = |seed| measure(curve, load, seed).map(|measured| measured.latency);
            let means: Option<Vec<f64>> = seeds.map(latency).collect();
            let ours = means.map(|means| means.iter().sum::<f64>() / means.len() as f64);
            let ratio = ours.map_or(f64::INFINITY, |ours| ours / theirs);
            (sum, count) = (sum + ratio - 1.0, count + 1);
            let noise = if load < 0.6 * saturation { 0.025 } else { 0.06 };
            if (ratio - 1.0).abs() > noise {
                wrong += 1;
                println!("{} {load} {ours:?} {theirs} {ratio:.4}", text(curve, "id"));
            }
        }
    }
    println!("{wrong} of {count}, mean {:.5}", sum / f64::from(count));
    assert_eq!(wrong, 0);
    assert!((sum / f64::from(count)).abs() < 0.005);
}

/// Three periods of warm-up, then three alike in throughput and in latency. Near saturation the
/// network accepts as much from the first period on, while latencies still grow.
#[test]
fn a_run_goes_on_until_latencies_are_steady() {
    let file = file(include_str!("data/booksim_latency_throughput.json"));
    let id = "mesh_8x8/uniform/flits4/la_spec_tailcredit";
    let curve = cases(&file, "curves").iter().find(|curve| text(curve, "id") == id).expect("known");
    let saturation = curve["saturation_bracket"][0].as_f64().expect("a load");
    let period = u64::from(small(&curve["config"], "sample_period"));
    let periods =
        |load: f64| measure(curve, load * saturation, 5).expect("below saturation").cycles / period;
    assert_eq!([periods(0.2), periods(0.97)], [6, 9]);
}

#[test]
fn saturation_lies_in_the_bracket() {
    let file = file(include_str!("data/booksim_latency_throughput.json"));
    let mut wrong = 0;
    for curve in some(&file) {
        let bracket = &curve["saturation_bracket"];
        let below = measure(curve, 0.97 * bracket[0].as_f64().expect("a load"), 5);
        // Neighbor traffic of 4 flits on rings locks into a slow order in some runs only.
        let falls = |load: f64| (5..12).any(|seed| measure(curve, load, seed).is_none());
        let above = bracket[1].as_f64().is_none_or(|load| falls(1.03 * load));
        if below.is_none() || !above {
            wrong += 1;
            println!("{} {bracket} {below:?} {above:?}", text(curve, "id"));
        }
    }
    assert_eq!(wrong, 0);
}

/// Two virtual channels of a class, each for a packet in 3 cycles, or in 6 if its last credit must
/// have come back: a batch of many packets takes as long.
#[test]
fn virtual_channels_limit_neighbor_traffic() {
    for (name, waits, cycles) in [("ring_8", false, 3.0), ("torus_8x8", true, 6.0)] {
        let pipeline = Pipeline {
            route_computation: u32::from(!waits),
            speculation: waits,
            waits_for_tail_credit: waits,
            ..Pipeline::default()
        };
        let settings = Settings { pipeline, ..Settings::default() };
        let packets = 2000;
        let batch = setup(name, settings).batches((Pattern::Neighbor, 1), (1, packets), 1);
        let took = batch.expect("a network").expect("no deadlock")[0] as f64;
        let expected = f64::from(packets) * cycles / 2.0;
        assert!((took / expected - 1.0).abs() < 0.02, "{name}: {took} {expected}");
    }
}
