//! Loop settings of texts: without overlap, in buckets, and with data parallelism below model parallelism.

use super::*;
use graph::{LoopSettings, Members, Op};
use units::Bytes;

/// Three layers with gradients of 30, 50 and 40 bytes, and updates of 1, 2 and 3 ns.
const BODY: &str = "3
a -1 1 NONE 0 2 NONE 0 3 ALLREDUCE 30 1
b -1 4 NONE 0 5 NONE 0 6 ALLREDUCE 50 2
c -1 7 NONE 0 8 NONE 0 9 ALLREDUCE 40 3
";

fn run(first: &str, body: &str, loop_settings: LoopSettings, sizes: &[u32]) -> Workload {
    parse(format!("{first}\n{body}").as_bytes(), "t.txt")
        .and_then(|layers| layers.workload(loop_settings, Some(sizes), "t.txt"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn in_buckets(bytes: u64) -> LoopSettings {
    LoopSettings { bucket: Some(Bytes(bytes)), ..LoopSettings::default() }
}

fn blocking() -> LoopSettings {
    LoopSettings { overlap: false, ..LoopSettings::default() }
}

/// Each node behind the forward pass as `name bytes <- what it waits for`.
fn shown(workload: &Workload, with: &str) -> Vec<String> {
    let program = workload.program(0);
    let line = |(i, node): (usize, &graph::Node)| {
        let size = match node.op {
            Op::Collective { bytes, .. } => format!(" {}", bytes.0),
            _ => String::new(),
        };
        let mut deps = program.deps(i).to_vec();
        deps.sort_unstable();
        let deps: Vec<&str> = deps.iter().map(|&dep| program.name(dep as usize)).collect();
        format!("{}{size} <- {}", program.name(i), deps.join(" "))
    };
    let all = program.nodes().iter().enumerate().map(line);
    all.filter(|line| line.contains(with)).collect()
}

#[test]
fn layers_share_a_bucket_as_long_as_it_has_room() {
    let nodes = shown(&run("DATA", BODY, in_buckets(90), &[4]), ".weight_gradient.");
    let expected = [
        "b.weight_gradient.all_reduce 90 <- b.weight_gradient",
        "c.weight_gradient.update <- b.weight_gradient.all_reduce",
        "b.weight_gradient.update <- b.weight_gradient.all_reduce",
        "a.weight_gradient.all_reduce 30 <- a.weight_gradient",
        "a.weight_gradient.update <- a.weight_gradient.all_reduce",
    ];
    assert_eq!(nodes, expected);
}

#[test]
fn gradients_larger_than_a_bucket_are_cut() {
    let nodes = shown(&run("DATA", BODY, in_buckets(20), &[4]), "b.weight_gradient.");
    let expected = [
        "b.weight_gradient.0.all_reduce 16 <- b.weight_gradient",
        "b.weight_gradient.1.all_reduce 17 <- b.weight_gradient",
        "b.weight_gradient.2.all_reduce 17 <- b.weight_gradient",
        "b.weight_gradient.update <- b.weight_gradient.0.all_reduce b.weight_gradient.1.all_reduce b.weight_gradient.2.all_reduce",
    ];
    assert_eq!(nodes, expected);
}

#[test]
fn other_collectives_and_other_ranks_are_in_other_buckets() {
    let body = "3
a -1 1 NONE 0 2 NONE 0 3 ALLREDUCE 30 0 DATA
b -1 4 NONE 0 5 NONE 0 6 ALLREDUCE 50 0 HYBRID_DATA_MODEL
c -1 7 NONE 0 8 NONE 0 9 REDUCESCATTER 40 0 HYBRID_DATA_MODEL
";
    let nodes = shown(&run("HYBRID_CUSTOMIZED", body, in_buckets(1000), &[2, 2]), "_gradient.");
    let expected = [
        "c.weight_gradient.reduce_scatter 40 <- c.weight_gradient",
        "b.weight_gradient.all_reduce 50 <- b.weight_gradient",
        "a.weight_gradient.all_reduce 30 <- a.weight_gradient",
    ];
    assert_eq!(nodes, expected);
}

#[test]
fn without_overlap_computation_waits_for_updates() {
    let nodes = shown(&run("DATA", BODY, blocking(), &[4]), "input_gradient");
    let expected = [
        "c.input_gradient <- c.weight_gradient.update",
        "b.weight_gradient <- c.input_gradient",
        "b.input_gradient <- b.weight_gradient.update",
        "a.weight_gradient <- b.input_gradient",
    ];
    assert_eq!(nodes, expected);
    let twice = LoopSettings { passes: 2, ..blocking() };
    let nodes = shown(&run("DATA", BODY, twice, &[4]), "a.forward <-");
    assert_eq!(nodes, ["a.forward <- ", "a.forward <- a.weight_gradient.update"]);
}

#[test]
fn without_overlap_no_loop_computes_next_to_a_collective() {
    let body = "4
e -1 1 ALLTOALL 8 1 ALLTOALL 8 1 NONE 0 0
b -1 1 ALLGATHER 8 1 ALLREDUCE 8 1 ALLREDUCE 8 5
t -1 1 ALLGATHER 8 1 ALLREDUCE 8 1 ALLREDUCE 8 5
u -1 1 ALLGATHER 8 1 ALLREDUCE 8 1 ALLREDUCE 8 5
";
    for first in ["DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_DLRM 1"] {
        let workload = run(first, body, LoopSettings { passes: 2, ..blocking() }, &[2, 2]);
        let program = workload.program(0);
        // Every node waits for all before it, through the node before it.
        for i in 1..program.nodes().len() {
            let deps = program.deps(i);
            assert!(deps.contains(&(i as u32 - 1)), "{first}: {} {deps:?}", program.name(i));
        }
    }
}

#[test]
fn a_course_without_effect_is_named() {
    let notes = |first: &str, loop_settings: LoopSettings, sizes: &[u32]| {
        let workload = run(first, BODY, loop_settings, sizes);
        workload.notes.into_iter().map(|(note, _)| note).collect::<Vec<_>>().join("\n")
    };
    assert!(!notes("DATA", in_buckets(90), &[4]).contains("no effect"));
    assert!(!notes("DATA", blocking(), &[4]).contains("no effect"));
    for (first, npus) in [("DATA", 1), ("MODEL", 4), ("MICRO", 4)] {
        assert!(notes(first, in_buckets(90), &[npus]).contains("bucket_mb has no effect"));
    }
    for (first, npus) in [("DATA", 1), ("MICRO", 4), ("DISTRIBUTED_INFERENCE", 4)] {
        assert!(notes(first, blocking(), &[npus]).contains("overlap has no effect"));
    }
}

#[test]
fn too_many_pieces_are_refused() {
    let body = "1\na -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 18446744073709551615 0\n";
    let layers = parse(format!("DATA\n{body}").as_bytes(), "t.txt").expect("it is a text");
    let said = layers.workload(in_buckets(100_000), Some(&[4]), "t.txt").expect_err("too many");
    assert!(said[0].to_string().contains("pieces of buckets"), "{said:?}");
}

/// ISPASS 2020, section V-E: data-parallel across the local and the horizontal dimension,
/// model-parallel across the vertical one, which is the second.
#[test]
fn model_parallelism_may_take_the_second_dimension() {
    let first = "HYBRID_TRANSFORMER model_parallel_NPU_group: 3 inner_data_parallel_NPU_group: 2";
    let body = "1\na -1 1 ALLREDUCE 8 1 NONE 0 1 ALLREDUCE 8 0\n";
    let workload = run(first, body, LoopSettings::default(), &[2, 3, 4]);
    let ranks = |rank: u32, slot: u32| {
        let members = &workload.groups[workload.group_of(rank, slot) as usize].members;
        (0..members.len(24)).map(|at| members.rank(at)).collect::<Vec<u32>>()
    };
    // Rank 9 is at (1, 1, 1).
    assert_eq!(ranks(9, 0), [7, 9, 11]);
    assert_eq!(ranks(9, 1), [2, 3, 8, 9, 14, 15, 20, 21]);
    assert!(workload.groups.iter().any(|group| matches!(group.members, Members::List(_))));
    let (back, _) = recover(&workload, None, &|node| node.duration).expect("it is one");
    assert_eq!(back.to_string().lines().next(), Some(&*first.replacen(' ', "\t", 1)));
}

#[test]
fn blocks_that_do_not_divide_the_npus_are_refused() {
    let first = "HYBRID_TRANSFORMER model_parallel_NPU_group: 3 inner_data_parallel_NPU_group: 4";
    let layers = parse(format!("{first}\n{BODY}").as_bytes(), "t.txt").expect("it is a text");
    let said = layers.workload(1, Some(&[2, 3, 3]), "t.txt").expect_err("12 of 18")[0].to_string();
    assert!(said.contains("blocks of 3 x 4 NPUs"), "{said}");
    let none = parse(first.replace(": 4", ": 0").as_bytes(), "t.txt").expect_err("none");
    assert!(none[0].to_string().contains("inner_data_parallel_NPU_group is 0"), "{none:?}");
}
