//! `--set`.

use super::testing::*;
use super::*;
use proptest::prelude::*;
use units::{Bandwidth, Bytes};

#[test]
fn overrides_replace_and_add() {
    assert_eq!(
        set("links[1].bandwidth", "100 GB/s").unwrap().fabric.dims()[1].bandwidth,
        Bandwidth(100_000_000_000)
    );
    assert_eq!(set("logical", "[8, 16]").unwrap().logical, Some(vec![8, 16]));
    assert!(set("scheduler.replay_only", "true").unwrap().scheduler.replay_only);
    let minimal = "topology: R(4)\nlinks: {bandwidth: 1 GB/s, latency: 1 ns}\n";
    let made =
        from_yaml(minimal, "p.yml", &[("npu.memory.capacity".into(), "1 GiB".into())]).unwrap();
    assert_eq!(made.npu.memory_capacity, Some(Bytes(1 << 30)));
}

#[test]
fn broken_overrides_give_their_message() {
    let cases = [
        (
            "links[0].bandwidth",
            "fast",
            format!("--set links[0].bandwidth: bandwidth \"fast\" does not start with a number {BANDWIDTH}"),
        ),
        (
            "links[2].bandwidth",
            "1 GB/s",
            "--set links[2].bandwidth: \"links\" has 2 entries (allowed: links[0] to links[1])".into(),
        ),
        (
            "links.bandwidth",
            "1 GB/s",
            "--set links.bandwidth: \"links\" is a list, not a mapping (allowed: links[0].bandwidth)".into(),
        ),
        ("npu[0]", "1", "--set npu[0]: \"npu\" is a mapping, not a list (allowed: npu without [0])".into()),
        ("name.x", "1", "--set name.x: \"name\" is \"dgx-h100-16n\", not a mapping (allowed: a key of a mapping)".into()),
        (
            "links[x]",
            "1",
            "--set links[x]: invalid key (allowed: keys joined by dots, such as links[0].bandwidth)".into(),
        ),
        ("", "1", "--set : invalid key (allowed: keys joined by dots, such as links[0].bandwidth)".into()),
        (
            "logical",
            "[1",
            "--set logical: the value \"[1\" is not valid YAML (allowed: a value as in the file, such as 100 GB/s or [8, 16])".into(),
        ),
        (
            "scheduler.chunk",
            "1",
            "--set scheduler.chunk: unknown key \"chunk\"; did you mean \"chunks\"? (allowed: policy, all_to_all_first, dimension_order, chunks, dispatch_below, dispatch_chunks, active_chunks, \
                                  queues_per_dim, endpoint_delay, comm_streams, rendezvous, replay_only)"
                .into(),
        ),
    ];
    for (key, value, expected) in cases {
        assert_eq!(messages(set(key, value)), [format!("p.yml: {expected}")], "{key}");
    }
}

proptest! {
    #[test]
    fn no_override_panics(key in "[a-z.\\[\\]0-9_]{0,20}", value in "[a-z0-9:\\[\\]{} ]{0,12}") {
        let _ = set(&key, &value);
    }
}
