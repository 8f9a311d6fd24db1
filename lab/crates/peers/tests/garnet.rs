//! Garnet's own runs again, cycle by cycle (`data/garnet_*.json`).

use net_flit::garnet::{Arrival, Garnet, Settings};
use net_flit::{DimensionOrder, Grid, Packet};
use peers::flits::{Hierarchy, Pattern, RingOfAll, Rings, Synthetic, all_to_all_on_a_ring};
use serde_json::Value;

fn number(case: &Value, key: &str) -> u64 {
    case[key].as_u64().unwrap_or_else(|| panic!("{key} of {case}"))
}

fn small(case: &Value, key: &str) -> u32 {
    number(case, key) as u32
}

/// A case of collectives, with what was missing in short ones.
fn all_reduce(case: &Value) -> Option<u64> {
    let sizes = [0, 1, 2].map(|dim| case["dims"][dim].as_u64().expect("a size") as u32);
    let rings = match case["vnets"].as_u64() {
        // As many in each dimension, twice as many between packages; a single ring inside.
        Some(vnets) if sizes[1] * sizes[2] == 1 => [vnets as u16, 0, 0],
        Some(vnets) => [vnets as u16 / 5, 2 * (vnets as u16 / 5), 2 * (vnets as u16 / 5)],
        None => [2, 4, 4],
    };
    let hierarchy = Hierarchy {
        sizes,
        rings,
        flit: small(case, "flit"),
        widths: [small(case, "tile_width"), small(case, "pkg_width")],
        latencies: [small(case, "local_lat"), small(case, "pkg_lat")],
        interface_latency: small(case, "ext_lat"),
        packets: [small(case, "local_pkt"), small(case, "pkg_pkt")],
    };
    let run = Rings {
        bytes: number(case, "bytes"),
        chunks: number(case, "chunks"),
        enhanced: number(case, "enhanced") == 1,
        delay: 10,
    };
    let settings = Settings {
        vcs_per_vnet: small(case, "vcs"),
        buffers_per_vc: case["buf"].as_u64().unwrap_or(5000) as u32,
        ..Settings::default()
    };
    let (end, network) = run.run(&hierarchy, settings, false).expect("in range");
    assert_eq!(network.traversals(), number(case, "router_traversals"), "{case}");
    end
}

fn all_to_all(case: &Value) -> Option<u64> {
    let ring = RingOfAll {
        npus: small(case, "P"),
        both_ways: number(case, "bidir") == 1,
        bytes: number(case, "bytes"),
        flit: small(case, "flit"),
        packet: small(case, "pkt"),
        latencies: [small(case, "link_lat"), small(case, "ext_lat")],
    };
    let settings = Settings {
        vcs_per_vnet: small(case, "vcs"),
        buffers_per_vc: small(case, "buf"),
        ..Settings::default()
    };
    all_to_all_on_a_ring(&ring, settings, false).expect("in range").0
}

#[test]
fn collectives_take_as_many_cycles() {
    let file: Value =
        serde_json::from_str(include_str!("data/garnet_collectives.json")).expect("valid");
    let cases = file["cases"].as_array().expect("cases").iter();
    let mut wrong = 0;
    for case in cases.chain(file["short_4x4x4"].as_array().expect("cases")) {
        let ours =
            if case["mode"] == "alltoall_ring" { all_to_all(case) } else { all_reduce(case) };
        let theirs = number(case, "sim_cycles");
        if ours != Some(theirs) {
            wrong += 1;
            println!("{ours:?} {theirs} {case}");
        }
    }
    assert_eq!(wrong, 0);
}

fn grid(case: &Value) -> Grid {
    Grid { k: small(case, "k"), n: small(case, "n"), wraps: case["topo"] != "mesh" }
}

#[test]
fn synthetic_traffic_has_the_same_latency() {
    let file: Value = serde_json::from_str(include_str!("data/garnet_synth.json")).expect("valid");
    let mut wrong = 0;
    // Every second load of each network and pattern, or all in `make thorough`.
    let step = if std::env::var_os("PROPTEST_CASES").is_some() { 1 } else { 2 };
    for case in file["cases"].as_array().expect("cases").iter().step_by(step) {
        let real = |key: &str| case[key].as_f64().expect("a number");
        let flits = small(case, "pkt_bytes").div_ceil(small(case, "flit_bytes"));
        let pattern: Pattern = case["pattern"].as_str().expect("a name").parse().expect("known");
        let settings = Settings {
            vcs_per_vnet: small(case, "vcs"),
            buffers_per_vc: small(case, "buf"),
            router_latency: small(case, "router_lat"),
            ..Settings::default()
        };
        let run = Synthetic {
            grid: grid(case),
            pattern,
            load: real("offered"),
            flits,
            cycles: number(case, "cycles"),
            latencies: [small(case, "link_lat"), small(case, "ext_lat")],
        };
        let (network, arrived) = run.on_garnet(settings, false).expect("in range");
        let mean = |of: fn(&Arrival) -> u64| {
            arrived.iter().map(of).sum::<u64>() as f64 / arrived.len() as f64
        };
        let (ours, queued) = (mean(|a| a.network), mean(|a| a.queued));
        let accepted = arrived.len() as f64 * f64::from(flits)
            / f64::from(grid(case).nodes())
            / real("cycles");
        println!(
            "{:40} net {ours:8.3} {:8.3} queue {queued:8.3} {:8.3} accepted {accepted:.4} {:.4} {}",
            case["id"].as_str().expect("a name"),
            real("pkt_net_lat"),
            real("pkt_queue_lat"),
            real("accepted"),
            network.traversals() as f64 / real("router_traversals"),
        );
        if (ours / real("pkt_net_lat") - 1.0).abs() > 0.06 {
            wrong += 1;
        }
    }
    assert_eq!(wrong, 0);
}

/// Neighbor traffic at full load on a ring of 8: what virtual channels let through
/// (`accepted = min(1, V / (3 + 2 E), V / (2 + 2 L))` for packets of a flit).
#[test]
fn virtual_channels_limit_throughput_as_the_formula_says() {
    let file: Value =
        serde_json::from_str(include_str!("data/garnet_vc_turnaround.json")).expect("valid");
    let ring = Grid { k: 8, n: 1, wraps: true };
    let accepted = |latencies, settings, flits| {
        let (pattern, cycles) = (Pattern::Neighbor, 20_000);
        let run = Synthetic { grid: ring, pattern, load: 1.0, flits, cycles, latencies };
        let (_, arrived) = run.on_garnet(settings, true).expect("in range");
        // Without the first few cycles, in which nothing arrives yet.
        let late = arrived.iter().filter(|arrival| arrival.cycle >= 2_000).count();
        late as f64 * f64::from(flits) / 8.0 / (cycles - 2_000) as f64
    };
    for case in file["cases"].as_array().expect("cases") {
        let settings = Settings { vcs_per_vnet: small(case, "V"), ..Settings::default() };
        let (link, end) = (small(case, "link_lat"), small(case, "ext_lat"));
        let ours = accepted([link, end], settings, 1);
        let (vcs, link, end) = (f64::from(settings.vcs_per_vnet), f64::from(link), f64::from(end));
        let formula = (vcs / (3.0 + 2.0 * end)).min(vcs / (2.0 + 2.0 * link)).min(1.0);
        assert!((ours - formula).abs() < 0.001, "{case}: {ours} {formula}");
        let theirs = case["accepted_flits"].as_f64().expect("a number");
        assert!((ours - theirs).abs() < 0.002, "{case}: {ours}");
    }
    let further = [("router_lat_2_V4", 4, 2, 1), ("router_lat_3_V4", 4, 3, 1), ("F2_V1", 1, 1, 2)];
    for (key, vcs_per_vnet, router_latency, flits) in further {
        let settings = Settings { vcs_per_vnet, router_latency, ..Settings::default() };
        let (ours, theirs) = (accepted([1, 1], settings, flits), file[key].as_f64().expect("one"));
        assert!((ours - theirs).abs() < 0.002, "{key}: {ours} {theirs}");
    }
}

/// Where stock Garnet deadlocks, ours does, and names channels that wait for each other.
#[test]
fn deadlocks_are_named() {
    let settings = Settings::default();
    let grids = [(Grid { k: 8, n: 1, wraps: true }, 0.7), (Grid { k: 8, n: 2, wraps: true }, 0.5)];
    for (grid, load) in grids {
        let (pattern, flits, cycles, latencies) = (Pattern::Uniform, 1, 20_000, [1, 1]);
        let run = Synthetic { grid, pattern, load, flits, cycles, latencies };
        let (mut network, mut arrived) = run.on_garnet(settings, false).expect("in range");
        network.run(1_000_000, &mut arrived);
        let cycle = network.deadlock().expect("a deadlock");
        assert!(cycle.len() > 2, "{grid:?}: {cycle:?}");
    }
    let ring = |bytes, vcs_per_vnet| {
        let ring = RingOfAll {
            npus: 8,
            both_ways: false,
            bytes,
            flit: 128,
            packet: 512,
            latencies: [90, 1],
        };
        let settings = Settings { vcs_per_vnet, buffers_per_vc: 5000, ..settings };
        let (end, network) = all_to_all_on_a_ring(&ring, settings, true).expect("in range");
        (end, network.deadlock().map(|cycle| cycle.len()))
    };
    let (end, stuck) = ring(16_384, 8);
    assert!(end.is_none() && stuck == Some(8), "{end:?} {stuck:?}");
    let (end, stuck) = ring(65_536, 50);
    println!("64 KB, 50 channels: {end:?} {stuck:?}");
    assert_eq!(ring(65_536, 500).0, Some(2237));
    assert_eq!(ring(16_384, 50).0, Some(937));
}

/// Two nodes of a line send to the third. With few credits packets wait in several virtual channels,
/// and some overtake others; in an ordered network none does.
#[test]
fn ordered_networks_keep_the_order() {
    let overtaken = |ordered| {
        let grid = Grid { k: 4, n: 1, wraps: false };
        let (fabric, ways) = grid.fabric([1, 1], 1);
        let settings = Settings { buffers_per_vc: 1, ordered, ..Settings::default() };
        let mut network = Garnet::new(&fabric, settings, DimensionOrder::new(ways, 7))
            .expect("in range")
            .checked();
        for token in 0..200 {
            for src in 0..3 {
                // Long packets and short ones.
                let flits = 1 + (token as u32 * 7 + src) % 5;
                let packet = Packet { src, dst: 3, vnet: 0, flits, port: 0, way: 0 };
                network.send(1, packet, token);
            }
        }
        let mut arrived = Vec::new();
        network.run(100_000, &mut arrived);
        assert_eq!(arrived.len(), 600);
        let of = |src| arrived.iter().filter(move |arrival| arrival.packet.src == src);
        let late = |src| {
            let tokens: Vec<u64> = of(src).map(|arrival| arrival.token).collect();
            tokens.windows(2).filter(|two| two[1] < two[0]).count()
        };
        (0..3).map(late).sum::<usize>()
    };
    assert_eq!(overtaken(true), 0);
    assert!(overtaken(false) > 0);
}
