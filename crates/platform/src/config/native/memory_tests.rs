//! Memory in platform files: every model read, impossible ones refused with the numbers, all of
//! them shown as they are read.

use super::{from_yaml, to_yaml};
use device::memory::{
    Cxl, Groups, Level, Link, Mesh, Offload, RemoteMemory, Ring, Sharing, Switches, Tier, Wire,
};
use units::{Bandwidth, Bytes, Span};

const GB: u64 = 1_000_000_000;

/// Memory of each model, for any number of NPUs.
pub(super) fn any(kind: u32, latency: u64, bandwidth: u64) -> RemoteMemory {
    let wire = Wire { latency: Span(latency), bandwidth: Bandwidth(bandwidth) };
    let (npus, chunk) = (kind + 1, Bytes(1 + latency / 2));
    let groups =
        Groups { count: 1 + kind, capacity: latency.is_multiple_of(2).then_some(Bytes(latency)) };
    let (latency, bandwidth) = (wire.latency, wire.bandwidth);
    match kind {
        0..3 => {
            let sharing =
                [Sharing::PerNpu, Sharing::Pool, Sharing::PerNode { npus }][kind as usize];
            let npus_per_node = (kind == 0).then_some(npus).filter(|_| latency.0.is_multiple_of(2));
            let capacity = groups.capacity;
            RemoteMemory::Link(Link { sharing, latency, bandwidth, npus_per_node, capacity })
        }
        3 => {
            let bandwidth = Bandwidth(bandwidth.0.max(2));
            RemoteMemory::Cxl(Cxl {
                sharing: Sharing::Pool,
                latency,
                bandwidth,
                flit: 68,
                outstanding: None,
                capacity: groups.capacity,
            })
        }
        4..6 => {
            let tier = Tier { wire, capacity: groups.capacity };
            let nvme = (kind == 4).then_some(Tier { capacity: None, ..tier });
            RemoteMemory::Offload(Offload { cpu: tier, nvme, chunk: nvme.map(|_| chunk) })
        }
        6 => {
            let levels =
                vec![Level { switches: 1, down: wire }, Level { switches: npus, down: wire }];
            RemoteMemory::Switches(Switches {
                levels,
                memory_level: 1 + kind % 2,
                groups,
                memory_side: wire,
                chunk,
            })
        }
        7 => {
            let (memory_side, between, npu_side) = (wire, wire, wire);
            RemoteMemory::Ring(Ring {
                stations: npus,
                groups,
                memory_side,
                between,
                npu_side,
                chunk,
            })
        }
        _ => {
            let (memory_side, between, npu_side) = (wire, wire, wire);
            RemoteMemory::Mesh(Mesh {
                stations: [npus, 2],
                groups,
                memory_side,
                between,
                npu_side,
                chunk,
            })
        }
    }
}

fn platform(memory: &str) -> String {
    format!(
        "topology: SW(16)_SW(16)\nlinks: {{bandwidth: 50 GB/s, latency: 0 ns}}\nremote_memory:\n  {memory}\n"
    )
}

fn read(memory: &str) -> RemoteMemory {
    let made = from_yaml(&platform(memory), "x.yml", &[])
        .unwrap_or_else(|problems| panic!("{}", problems[0]));
    let again = from_yaml(&to_yaml(&made), "x.yml", &[]).expect("what is shown reads back");
    assert_eq!(again, made);
    made.remote_memory.expect("it is there")
}

fn refused(memory: &str) -> Vec<String> {
    from_yaml(&platform(memory), "x.yml", &[])
        .expect_err("wrong")
        .iter()
        .map(ToString::to_string)
        .collect()
}

const HIERARCHICAL: &str = "{model: hierarchical, nodes: 16, out_switches: 4, groups: 8, capacity: 2 TB, chunk_size: 1 MB, \
    memory_side: {bandwidth: 400 GB/s, per: group, latency: 1 us}, npu_side: {bandwidth: 200 GB/s, per: node}, \
    in_node: {bandwidth: 256 GB/s, latency: 300 ns}}";

#[test]
fn a_hierarchical_pool_is_two_levels_of_switches() {
    let wire = |gb: u64, ns| Wire { bandwidth: Bandwidth(gb * GB), latency: Span::from_ns(ns) };
    let expected = Switches {
        levels: vec![
            Level { switches: 16, down: wire(256, 300) },
            Level { switches: 4, down: wire(50, 0) },
        ],
        memory_level: 2,
        groups: Groups { count: 8, capacity: Some(Bytes(2_000 * GB)) },
        memory_side: wire(100, 1_000),
        chunk: Bytes(1_000_000),
    };
    assert_eq!(read(HIERARCHICAL), RemoteMemory::Switches(expected));
}

#[test]
fn every_model_has_its_word() {
    let around = "groups: 4, memory_side: {bandwidth: 9 GB/s}, between: {bandwidth: 8 GB/s}, \
                  npu_side: {bandwidth: 7 GB/s}, chunk_size: 1 MiB";
    let words = [
        ("{sharing: pool, latency: 1 us, bandwidth: 9 GB/s}".to_string(), "link"),
        ("{model: link, sharing: per_npu, latency: 1 us, bandwidth: 9 GB/s}".into(), "link"),
        ("{model: cxl, sharing: per_npu, latency: 1 us, bandwidth: 64 GB/s, flit_size: 256, max_outstanding: 500}".into(), "cxl"),
        ("{model: zero_infinity, cpu: {bandwidth: 9 GB/s, capacity: 1 TB}}".into(), "zero_infinity"),
        ("{model: zero_infinity, cpu: {bandwidth: 9 GB/s}, nvme: {bandwidth: 3 GB/s}, chunk_size: 1 MB}".into(), "zero_infinity"),
        ("{model: switches, levels: [{switches: 4, bandwidth: 9 GB/s}], groups: 1, memory_side: {bandwidth: 1 GB/s}, chunk_size: 1 B}".into(), "switches"),
        (format!("{{model: ring, stations: 8, {around}}}"), "ring"),
        (format!("{{model: mesh, stations: [2, 4], {around}}}"), "mesh"),
    ];
    for (text, word) in words {
        assert_eq!(read(&text).name(), word, "{text}");
    }
}

#[test]
fn impossible_pools_are_refused_with_the_numbers() {
    let with = |a: &str, b: &str| refused(&HIERARCHICAL.replace(a, b));
    assert_eq!(
        with("groups: 8", "groups: 0"),
        ["x.yml: line 4, remote_memory.groups: 0 is not allowed (allowed: a whole number from 1)"]
    );
    assert_eq!(
        with("nodes: 16", "nodes: 300"),
        [
            "x.yml: line 4, remote_memory: 300 switches for 256 NPUs (allowed: 1 to 256 switches next to the NPUs, 1 or more above)"
        ]
    );
    let levels = "{model: switches, levels: [{switches: 4, bandwidth: 9 GB/s}, {switches: 2, bandwidth: 9 GB/s}], \
                  memory_level: 3, groups: 1, memory_side: {bandwidth: 1 GB/s}, chunk_size: 1 MB}";
    assert_eq!(
        refused(levels),
        [
            "x.yml: line 4, remote_memory.memory_level: unknown switch level 3: the pool has 2 (allowed: 1 to 2)"
        ]
    );
}

#[test]
fn every_fault_of_a_pool_is_listed_at_once() {
    let problems = refused(
        "{model: hierarchical, nodes: x, out_switches: 4, capacity: 9, npu_side: {bandwidth: 1 GB/s, per: group}, in_node: 4}",
    );
    let about = ["nodes", "groups", "capacity", "memory_side", "per", "in_node", "chunk"];
    assert_eq!(problems.len(), about.len(), "{problems:#?}");
    for key in about {
        assert!(problems.iter().any(|problem| problem.contains(key)), "nothing about {key}");
    }
    assert!(refused("{model: hierarchic}")[0].contains("did you mean \"hierarchical\"?"));
    assert!(
        refused("{model: ring, sharing: pool}")[0]
            .contains("\"sharing\" has no meaning with model: ring")
    );
}

#[test]
fn switches_that_reduce_must_be_there() {
    let told = |topology: &str, algorithms: &str| -> Vec<String> {
        let text = format!(
            "topology: {topology}\nlinks: {{bandwidth: 50 GB/s, per: link, latency: 0 ns}}\ncollectives: {{all_reduce: {algorithms}}}\n"
        );
        from_yaml(&text, "x.yml", &[])
            .err()
            .unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert!(told("FC(8)_SW(16)", "[direct, in_network]").is_empty());
    let ring = [
        "x.yml: line 3, collectives.all_reduce: in_network on dimension 1, which is a Ring (allowed: a Switch dimension, or another algorithm)",
    ];
    assert_eq!(told("R(8)", "in_network"), ring);
    assert!(
        told("SW(4)_SW(4)", "{algorithm: in_network, flat: true}")[0].contains("no single switch")
    );
    // The first dimension would have to reduce-scatter.
    assert!(told("SW(4)_SW(4)", "in_network")[0].contains("in-network cannot run reduce_scatter"));
}

#[test]
fn an_npus_own_memory() {
    let text = "topology: R(4)\nlinks: {bandwidth: 1 GB/s, latency: 0 ns}\nnpu: {memory: {latency: 90 ns, on_overflow: refuse, contention: true}}\n";
    let npu = from_yaml(text, "x.yml", &[]).expect("right").npu;
    assert_eq!((npu.memory_latency, npu.memory_contention), (Span::from_ns(90), true));
    assert_eq!(npu.memory_on_overflow, crate::platform::Exceeded::Refuse);
    let wrong = from_yaml(&text.replace("refuse", "spil"), "x.yml", &[]).expect_err("no such word");
    assert!(wrong[0].to_string().contains("did you mean \"spill\"?"), "{}", wrong[0]);
}
