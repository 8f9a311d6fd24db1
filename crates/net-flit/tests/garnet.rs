//! Garnet's own runs again, cycle by cycle (`data/garnet_*.json`).

use net_flit::garnet::{Counters, Settings};
use net_flit::reference::{Hierarchy, RingOfAll, Rings, all_to_all_on_a_ring};
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
    let (end, network) = run.run(&hierarchy, settings, false);
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
    all_to_all_on_a_ring(&ring, settings, false).0
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
    let _ = Counters::default();
}
