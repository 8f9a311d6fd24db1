//! Reading, printing, training loops against what ASTRA-sim 1.0 does, and back from workloads.

use super::*;
use graph::{CollectiveKind, Members, Node, Op};
use proptest::prelude::*;
use units::Span;

/// Two layers in ASTRA-sim 1.0's columns, every time and size different.
const BODY: &str = "2\na -1 1 ALLGATHER 10 2 REDUCESCATTER 20 3 ALLREDUCE 30 4\nb -1 5 ALLTOALL 50 6 ALLGATHER 60 7 ALLREDUCE 70 0\n";

fn text(first: &str, body: &str) -> Layers {
    parse(format!("{first}\n{body}").as_bytes(), "t.txt")
        .unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn workload(first: &str, body: &str, passes: u32, sizes: &[u32]) -> Workload {
    text(first, body)
        .workload(passes, Some(sizes), "t.txt")
        .unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// Nodes of rank 0 as `name duration <- what it waits for`, `@` and the ranks of a collective.
fn shown(workload: &Workload) -> Vec<String> {
    let program = workload.program(0);
    let line = |(i, node): (usize, &Node)| {
        let what = match node.op {
            Op::Collective { bytes, slot, .. } => {
                let members = &workload.groups[workload.group_of(0, slot) as usize].members;
                let ranks: Vec<u32> = (0..members.len(workload.ranks.len() as u32))
                    .map(|p| members.rank(p))
                    .collect();
                format!("{}@{ranks:?}", bytes.0)
            }
            _ => format!("{}", node.duration.as_ns()),
        };
        let mut deps = program.deps(i).to_vec();
        deps.sort_unstable();
        let deps: Vec<&str> = deps.iter().map(|&dep| program.name(dep as usize)).collect();
        format!("{} {what} <- {}", program.name(i), deps.join(" "))
    };
    program.nodes().iter().enumerate().map(line).collect()
}

#[test]
fn a_public_file_reads_and_prints_the_same() {
    // The DLRM of ASTRA-sim 1.0's own inputs: tabs behind the first lines, as there.
    let dlrm = "HYBRID_DLRM\t1\t\t\t\n3\t\t\t\nEmbedding\t-1\t300\tALLTOALL\t98304\t300\tALLTOALL\t98304\t300\tNONE\t0\t98\n\
        MLP_Bottom_0\t-1\t1280\tNONE\t0\t794\tNONE\t0\t896\tALLREDUCE\t13312\t13\n\
        MLP_Top_0\t-1\t6400\tNONE\t0\t6400\tNONE\t0\t4480\tALLREDUCE\t1064960\t1065\n";
    let layers = parse(dlrm.as_bytes(), "dlrm.txt").expect("it is right");
    assert_eq!(layers.parallelism, Parallelism::Dlrm { last_bottom: 1, enhanced: false });
    let part = layers.layers[2].weight_gradient;
    let all_reduce = Some(CollectiveKind::AllReduce);
    assert_eq!((part.compute, part.collective, part.bytes), (4480, all_reduce, 1_064_960));
    assert_eq!(layers.to_string(), dlrm.replace("\t\t\t\n", "\n"));
}

#[test]
fn the_data_parallel_loop() {
    let expected = [
        "a.forward 1 <- ",
        "b.forward 5 <- a.forward",
        "b.weight_gradient 7 <- b.forward",
        "b.weight_gradient.all_reduce 70@[0, 1] <- b.weight_gradient",
        "b.input_gradient 6 <- b.weight_gradient",
        "a.weight_gradient 3 <- b.input_gradient",
        "a.weight_gradient.all_reduce 30@[0, 1] <- a.weight_gradient",
        "a.weight_gradient.update 4 <- a.weight_gradient.all_reduce",
    ];
    let once = workload("DATA", BODY, 1, &[2]);
    assert_eq!(shown(&once), expected);
    assert_eq!(once.notes[0].1, 4, "the four collectives that this loop doesn't start");
    let twice = shown(&workload("DATA", BODY, 2, &[2]));
    assert_eq!(twice[..8], expected);
    assert_eq!(twice[8], "a.forward 1 <- a.weight_gradient a.weight_gradient.update");
    assert_eq!(twice[9], "b.forward 5 <- b.weight_gradient.all_reduce a.forward");
    assert_eq!(twice[10..], expected[2..]);
}

#[test]
fn the_hybrid_loop_exchanges_input_gradients_next_to_weight_gradients() {
    let expected = [
        "a.forward 1 <- ",
        "a.forward.all_gather 10@[0, 1] <- a.forward",
        "a.forward.update 4 <- a.forward.all_gather",
        "b.forward 5 <- a.forward a.forward.update",
        "b.forward.all_to_all 50@[0, 1] <- b.forward",
        "b.input_gradient 6 <- b.forward b.forward.all_to_all",
        "b.input_gradient.all_gather 60@[0, 1] <- b.input_gradient",
        "b.weight_gradient 7 <- b.input_gradient",
        "b.weight_gradient.all_reduce 70@[0, 2, 4] <- b.weight_gradient",
        "a.input_gradient 2 <- b.input_gradient.all_gather b.weight_gradient",
        "a.weight_gradient 3 <- a.input_gradient",
        "a.weight_gradient.all_reduce 30@[0, 2, 4] <- a.weight_gradient",
        "a.weight_gradient.update 4 <- a.weight_gradient.all_reduce",
    ];
    assert_eq!(shown(&workload("HYBRID_DATA_MODEL", BODY, 1, &[2, 3])), expected);
    let swapped = shown(&workload("HYBRID_MODEL_DATA", BODY, 1, &[2, 3]));
    let swap = |line: &str| match line {
        line if line.contains("[0, 1]") => line.replace("[0, 1]", "[0, 2, 4]"),
        line => line.replace("[0, 2, 4]", "[0, 1]"),
    };
    assert_eq!(swapped, expected.map(swap));
    let model = shown(&workload("MODEL", BODY, 1, &[2]));
    let without = |line: &&str| !line.contains("weight_gradient.");
    assert_eq!(model, expected.into_iter().filter(without).map(String::from).collect::<Vec<_>>());
}

#[test]
fn the_transformer_loop_waits_for_input_gradients() {
    let lines = shown(&workload("HYBRID_TRANSFORMER model_parallel_NPU_group: 2", BODY, 1, &[4]));
    let expected = [
        "b.input_gradient 6 <- b.forward b.forward.all_to_all",
        "b.input_gradient.all_gather 60@[0, 1] <- b.input_gradient",
        "b.weight_gradient 7 <- b.input_gradient b.input_gradient.all_gather",
        "b.weight_gradient.all_reduce 70@[0, 2] <- b.weight_gradient",
        "a.input_gradient 2 <- b.weight_gradient",
        "a.input_gradient.reduce_scatter 20@[0, 1] <- a.input_gradient",
        "a.input_gradient.update 4 <- a.input_gradient.reduce_scatter",
        "a.weight_gradient 3 <- a.input_gradient a.input_gradient.update",
    ];
    assert_eq!(lines[5..13], expected);
}

#[test]
fn recomputation_goes_from_the_checkpoint_to_the_layer_that_starts_it() {
    let line = |name: &str| format!("{name} -1 1 NONE 0 1 NONE 0 1 NONE 0 0\n");
    let body = format!("5\n{}", ["a", "b", "c", "d", "e"].map(line).concat());
    let first = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 checkpoints: 2 0 2 checkpoint_initiates: 2 4 1";
    let names: Vec<String> = shown(&workload(first, &body, 1, &[1]));
    let order: String =
        names.iter().map(|line| format!("{}{} ", &line[..1], &line[2..3])).collect();
    assert_eq!(order, "af bf cf df ef cf df ei ew di dw ci cw af bi bw ai aw ");
}

#[test]
fn the_dlrm_loop_overlaps_the_embedding_with_the_bottom_mlp() {
    let body = "4\ne -1 1 ALLTOALL 10 9 ALLTOALL 11 2 NONE 0 5\nb -1 3 NONE 0 4 NONE 0 5 ALLREDUCE 12 0\n\
        c -1 3 NONE 0 4 NONE 0 5 NONE 0 0\nt -1 6 NONE 0 7 NONE 0 8 ALLREDUCE 13 0\n";
    let expected = [
        "e.forward 1 <- ",
        "e.forward.all_to_all 10@[0, 1] <- e.forward",
        "e.forward.update 5 <- e.forward.all_to_all",
        "b.forward 3 <- e.forward",
        "c.forward 3 <- b.forward",
        "t.forward 6 <- e.forward.update c.forward",
        "t.weight_gradient 8 <- t.forward",
        "t.weight_gradient.all_reduce 13@[0, 1] <- t.weight_gradient",
        "t.input_gradient 7 <- t.weight_gradient",
        "e.input_gradient.all_to_all 11@[0, 1] <- t.input_gradient",
        "e.input_gradient.update 5 <- e.input_gradient.all_to_all",
        "c.weight_gradient 5 <- t.input_gradient",
        "c.input_gradient 4 <- c.weight_gradient",
        "b.weight_gradient 5 <- c.input_gradient",
        "b.weight_gradient.all_reduce 12@[0, 1] <- b.weight_gradient",
        "b.input_gradient 4 <- b.weight_gradient",
        "e.weight_gradient 2 <- b.input_gradient",
    ];
    assert_eq!(shown(&workload("HYBRID_DLRM 2", body, 1, &[2])), expected);
    let next = |first| shown(&workload(first, body, 2, &[2]))[17].clone();
    assert_eq!(next("HYBRID_DLRM 2"), "e.forward 1 <- e.input_gradient.update e.weight_gradient");
    assert_eq!(next("HYBRID_DLRM_ENHANCED 2"), "e.forward 1 <- e.weight_gradient");
}

#[test]
fn inference_and_micro() {
    let inference = shown(&workload("DISTRIBUTED_INFERENCE", BODY, 2, &[2]));
    let expected = [
        "a.forward 1 <- ",
        "a.forward.all_gather 10@[0, 1] <- a.forward",
        "a.forward.update 4 <- a.forward.all_gather",
        "b.forward 5 <- a.forward a.forward.update",
        "b.forward.all_to_all 50@[0, 1] <- b.forward",
    ];
    assert_eq!(inference[..5], expected);
    assert_eq!(inference[5], "a.forward 1 <- b.forward b.forward.all_to_all");
    let micro = shown(&workload("MICRO", BODY, 2, &[2]));
    let pass = [
        "a.weight_gradient.all_reduce 30@[0, 1] <- ",
        "a.weight_gradient.update 4 <- a.weight_gradient.all_reduce",
    ];
    assert_eq!(micro, [pass, pass].concat());
}

#[test]
fn layers_choose_their_own_parallelisation() {
    let line = |name: &str, own: &str| {
        format!("{name} -1 1 ALLGATHER 10 2 REDUCESCATTER 20 3 ALLREDUCE 30 0 {own}\n")
    };
    let kinds =
        [("d", "DATA"), ("m", "MODEL"), ("x", "HYBRID_DATA_MODEL"), ("y", "HYBRID_MODEL_DATA")];
    let body = format!("4\n{}", kinds.map(|(name, own)| line(name, own)).concat());
    let workload = workload("HYBRID_CUSTOMIZED", &body, 1, &[2, 2]);
    let collectives: Vec<String> =
        shown(&workload).into_iter().filter(|line| line.contains('@')).collect();
    let of = |name: &str| {
        collectives.iter().filter(|line| line.starts_with(name)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(of("d"), ["d.weight_gradient.all_reduce 30@[0, 1, 2, 3] <- d.weight_gradient"]);
    assert_eq!(of("m").len(), 2);
    assert!(of("m").iter().all(|line| line.contains("@[0, 1, 2, 3]")), "{:?}", of("m"));
    assert!(
        of("x")[0].contains("forward.all_gather 10@[0, 1]") && of("x")[2].contains("30@[0, 2]"),
        "{:?}",
        of("x")
    );
    assert!(
        of("y")[0].contains("forward.all_gather 10@[0, 2]") && of("y")[2].contains("30@[0, 1]"),
        "{:?}",
        of("y")
    );
}

#[test]
fn ranks_sit_in_consecutive_model_and_strided_data_groups() {
    let workload = workload("HYBRID_TRANSFORMER model_parallel_NPU_group: 4", BODY, 1, &[2, 6]);
    let groups = |rank: u32| {
        [0, 1].map(|slot| workload.groups[workload.group_of(rank, slot) as usize].clone())
    };
    let [model, data] = groups(6);
    assert_eq!(
        (model.name.as_str(), model.members),
        ("model.1", Members::Strided { first: 4, count: 4, step: 1 })
    );
    assert_eq!(
        (data.name.as_str(), data.members),
        ("data.2", Members::Strided { first: 2, count: 3, step: 4 })
    );
    assert!(graph::check(&workload, 12).is_empty());
}

#[test]
fn without_a_machine_there_are_as_few_ranks_as_can_be() {
    assert_eq!(text("DATA", BODY).workload(1, None, "").expect("it runs").ranks.len(), 1);
    let layers = text("HYBRID_TRANSFORMER model_parallel_NPU_group: 4", BODY);
    assert_eq!(layers.workload(1, None, "").expect("it runs").ranks.len(), 4);
}

/// Nothing is said twice or left out: every line here is one problem.
#[test]
fn every_fault_is_named() {
    let problems = |text: &str| -> Vec<String> {
        parse(text.as_bytes(), "t.txt")
            .expect_err("it is wrong")
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    let good = "a -1 1 NONE 0 2 NONE 0 3 ALLREDUCE 30 4";
    let found = problems(
        "DATA\n4\na x -1 SUM 0 2 NONE 1.5 3 ALLREDUCE 30 99999999999999999999\na -1\na -1 1 NONE 0 2 NONE 0 3 ALLREDUCEALLTOALL 30 4\n",
    );
    let expected = [
        "t.txt: line 3, column 3 (forward compute time): the value is \"-1\" (allowed: 0 to 4611686018427387 whole ns)",
        "t.txt: line 3, column 4 (forward collective): the value is \"SUM\" (allowed: NONE, ALLREDUCE, ALLGATHER, REDUCESCATTER, ALLTOALL)",
        "t.txt: line 3, column 8 (input gradient bytes): the value is \"1.5\" (allowed: 0 to 18446744073709551615 bytes)",
        "t.txt: line 3, column 2 (reserved): the value is \"x\" (allowed: a whole number, usually -1)",
        "t.txt: line 3, column 12 (update time): the value is \"99999999999999999999\" (allowed: 0 to 4611686018427387 whole ns)",
        "t.txt: line 4: a layer of 2 columns (allowed: 12: name, reserved, forward compute time, forward collective, forward bytes, \
         input gradient compute time, input gradient collective, input gradient bytes, weight gradient compute time, \
         weight gradient collective, weight gradient bytes, update time)",
        "t.txt: line 5, column 10 (weight gradient collective): the value is \"ALLREDUCEALLTOALL\" (allowed: NONE, ALLREDUCE, \
         ALLGATHER, REDUCESCATTER, ALLTOALL)",
        "t.txt: line 2: the number of layers is 4, but 3 layers follow (allowed: 3, or 4 layers)",
    ];
    assert_eq!(found, expected);
    for (wrong, message) in [
        (String::new(), "the file is empty"),
        ("DATA".into(), "line 2: the number of layers is missing"),
        (format!("DATA\n{good}\n"), "line 2: expected the number of layers, found 12 words"),
        (
            format!("PIPELINE\n1\n{good}"),
            "line 1: the parallelisation is \"PIPELINE\" (allowed: DATA, MODEL,",
        ),
        (format!("DATA 3\n1\n{good}"), "line 1: \"3\" follows DATA (allowed: DATA alone"),
        (
            format!("HYBRID_TRANSFORMER\n1\n{good}"),
            "line 1: expected model_parallel_NPU_group:, found nothing",
        ),
        (
            format!("HYBRID_TRANSFORMER model_parallel_NPU_group: 0\n1\n{good}"),
            "line 1: model_parallel_NPU_group is 0",
        ),
        (
            format!("HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 e: 1\n1\n{good}"),
            "line 1: expected checkpoints:, found \"e:\"",
        ),
        (
            format!("HYBRID_DLRM 5\n1\n{good}"),
            "line 1: invalid last layer of the bottom MLP: 5 of 1 layers",
        ),
        (
            format!(
                "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 checkpoints: 1 0 checkpoint_initiates: 1 0\n1\n{good}"
            ),
            "line 1: layer 0 initiates a recomputation without a checkpoint of its own below it",
        ),
        (format!("HYBRID_CUSTOMIZED\n1\n{good}"), "line 3: a layer of 12 columns (allowed: 13:"),
        (
            format!("HYBRID_CUSTOMIZED\n1\n{good} MICRO"),
            "line 3, column 13 (parallelisation of the layer): the value is \"MICRO\"",
        ),
    ] {
        let found = problems(&wrong);
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("t.txt: {message}")),
            "{wrong}\n{found:#?}"
        );
    }
    let found = parse(b"DATA\n1\n\xff", "t.txt").expect_err("no text");
    assert_eq!(found[0].to_string(), "t.txt: byte 7: not a text file (allowed: UTF-8)");
}

#[test]
fn a_machine_that_does_not_fit_is_refused() {
    let layers = text("HYBRID_TRANSFORMER model_parallel_NPU_group: 6", BODY);
    let said = |passes, sizes: &[u32]| {
        layers.workload(passes, Some(sizes), "t.txt").expect_err("it doesn't fit")[0].to_string()
    };
    let expected = "t.txt: line 1: model_parallel_NPU_group 6 doesn't divide the platform's 64 NPUs (allowed: 4 or 8 on 64 NPUs)";
    assert_eq!(said(1, &[8, 8]), expected);
    assert!(
        said(0, &[6]).starts_with("t.txt: 0 passes of 2 layers (allowed: 1 to 524288"),
        "{}",
        said(0, &[6])
    );
    let slow = text("DATA", "1\na -1 4611686018427387 NONE 0 1 NONE 0 1 NONE 0 0");
    let said = slow.workload(1, None, "t.txt").expect_err("too long")[0].to_string();
    assert!(said.contains("ns of compute and update"), "{said}");
}

#[test]
fn a_foreign_program_is_refused_where_it_differs() {
    let recovered = |workload: &Workload| recover(workload, None, &|node| node.duration);
    let mut workload = workload("DATA", BODY, 1, &[4]);
    assert!(recovered(&workload).is_ok());
    let rebuilt = |rename: &dyn Fn(&str) -> String, drop: usize| {
        let (program, mut builder) =
            (workload.program(0).clone(), graph::ProgramBuilder::default());
        for (i, node) in program.nodes().iter().enumerate() {
            let deps = program.deps(i).iter().map(|&dep| u64::from(dep)).filter(|_| i != drop);
            builder.push(*node, &rename(program.name(i)), deps);
        }
        vec![std::sync::Arc::new(builder.build().expect("the ids are the same"))]
    };
    let renamed = rebuilt(&|name| name.replace("input", "x"), usize::MAX);
    let nameless = rebuilt(&|name| name.replace("gradient", "x"), usize::MAX);
    let loose = rebuilt(&|name| name.to_string(), 4);
    workload.programs = renamed;
    let problems = recovered(&workload).expect_err("no such pass");
    let said = problems[0].to_string();
    let expected =
        "node 4 (b.x_gradient): the name doesn't say which layer and pass this is (allowed";
    assert!(problems.len() == 1 && said.starts_with(expected), "{said}");
    workload.programs = nameless;
    let said = recovered(&workload).expect_err("no such passes")[0].to_string();
    assert!(said.contains("which layer and pass this is, and the same at 5 more nodes"), "{said}");
    workload.programs = loose;
    let said = recovered(&workload).expect_err("it waits for nothing")[0].to_string();
    assert!(
        said.starts_with("node 4 (b.input_gradient): this waits for nothing; in the DATA loop it waits for b.weight_gradient"),
        "{said}"
    );
}

#[test]
fn times_come_from_the_caller_and_are_rounded_up() {
    let workload = workload("DATA", BODY, 3, &[4]);
    let (layers, passes) = recover(&workload, None, &|_| Span(1_500)).expect("a DATA loop");
    assert_eq!(
        (passes, layers.layers[1].forward.compute, layers.layers[0].weight_gradient.compute),
        (3, 2, 2)
    );
}

/// A program of computations on the NPU, by name, ps and what they wait for.
fn computations(nodes: &[(&str, u64, &[u64])]) -> Workload {
    let mut builder = graph::ProgramBuilder::default();
    for (id, (name, duration, deps)) in nodes.iter().enumerate() {
        let op = graph::Op::Compute {
            operations: None,
            bytes: None,
            cpu: false,
            kernel: graph::Kernel::Other,
        };
        let node = graph::Node { id: id as u64, duration: Span(*duration), op };
        builder.push(node, name, deps.iter().copied());
    }
    Workload::uniform(builder.build().expect("the ids count up"), 4)
}

const IN_PARTS: [(&str, u64, &[u64]); 6] = [
    ("a.forward", 1_200, &[]),
    ("a.forward.normalization", 300, &[0]),
    ("a.forward.elementwise", 600, &[1]),
    ("b.forward", 1_000, &[2]),
    ("b.weight_gradient", 2_000, &[3]),
    ("a.weight_gradient", 3_000, &[4]),
];

/// Parts add up before they are rounded: 1.2 + 0.3 + 0.6 ns; the input gradient of b, which is not
/// computed, is one of 0 ns.
#[test]
fn parts_of_a_pass_are_one_and_a_missing_gradient_takes_no_time() {
    let (layers, passes) =
        recover(&computations(&IN_PARTS), None, &|node| node.duration).expect("a DATA loop");
    let expected = "DATA\n2\na\t-1\t3\tNONE\t0\t0\tNONE\t0\t3\tNONE\t0\t0\nb\t-1\t1\tNONE\t0\t0\tNONE\t0\t2\tNONE\t0\t0\n";
    assert_eq!((layers.to_string().as_str(), passes), (expected, 1));
    let mut twice = IN_PARTS.to_vec();
    let again: Vec<Vec<u64>> = (5..11).map(|dep| vec![dep]).collect();
    twice.extend(
        IN_PARTS.iter().zip(&again).map(|((name, time, _), deps)| (*name, *time, deps.as_slice())),
    );
    let found = recover(&computations(&twice), None, &|node| node.duration)
        .expect("a DATA loop of two passes");
    assert_eq!(found, (layers, 2));
}

#[test]
fn a_part_that_something_else_waits_for_is_refused() {
    let mut nodes = IN_PARTS;
    nodes[3].2 = &[1, 2];
    let problems = recover(&computations(&nodes), None, &|node| node.duration)
        .expect_err("b starts while a part of a runs");
    assert!(
        problems[0].to_string().starts_with("node 2 (a.forward.elementwise): the name"),
        "{problems:?}"
    );
}

#[test]
fn groups_of_another_size_than_the_first_dimension_are_refused() {
    let workload = workload("HYBRID_DATA_MODEL", BODY, 1, &[4, 3]);
    let onto = |sizes: &[u32]| recover(&workload, Some(sizes), &|node| node.duration);
    assert_eq!(
        onto(&[4, 3]).expect("the same machine").0.parallelism,
        Parallelism::HybridDataModel
    );
    let said = onto(&[6, 2]).expect_err("another machine")[0].to_string();
    assert!(
        said.contains("blocks of 4 ranks") && said.contains("the first dimension, 6"),
        "{said}"
    );
    // A text that says its groups itself runs on both.
    let text = self::workload("HYBRID_TRANSFORMER model_parallel_NPU_group: 4", BODY, 1, &[4, 3]);
    let back = recover(&text, Some(&[6, 2]), &|node| node.duration).expect("it fits").0;
    assert_eq!(
        back.parallelism,
        Parallelism::Transformer { blocks: blocks(1, 4), recompute: None }
    );
}

#[test]
fn a_collective_that_runs_otherwise_is_refused() {
    let changed = |change: &dyn Fn(&mut graph::Op)| {
        let mut workload = workload("DATA", BODY, 1, &[4]);
        let (program, mut builder) =
            (workload.program(0).clone(), graph::ProgramBuilder::default());
        for (i, node) in program.nodes().iter().enumerate() {
            let mut node = *node;
            change(&mut node.op);
            builder.push(node, program.name(i), program.deps(i).iter().map(|&dep| u64::from(dep)));
        }
        workload.programs =
            vec![std::sync::Arc::new(builder.build().expect("the ids are the same"))];
        recover(&workload, None, &|node| node.duration).expect_err("no text says that")[0]
            .message
            .clone()
    };
    let urgent = |op: &mut graph::Op| {
        if let graph::Op::Collective { priority, .. } = op {
            *priority = 7;
        }
    };
    let partly = |op: &mut graph::Op| {
        if let graph::Op::Collective { dims, .. } = op {
            *dims = 1;
        }
    };
    assert_eq!(changed(&urgent), "this has priority 7; in the DATA loop it has 0");
    assert!(changed(&partly).starts_with("this runs over some dimensions only"));
}

fn part() -> impl Strategy<Value = Part> {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, ReduceScatter};
    let kind = prop::sample::select(vec![
        None,
        Some(AllReduce),
        Some(AllGather),
        Some(ReduceScatter),
        Some(AllToAll),
    ]);
    (0u64..1000, kind, 0u64..1 << 40).prop_map(|(compute, collective, bytes)| Part {
        compute,
        collective,
        bytes,
        ..Part::default()
    })
}

fn layer() -> impl Strategy<Value = Layer> {
    ("[a-c.]{1,2}", -1i64..3, part(), part(), part(), 0u64..3).prop_map(
        |(name, reserved, forward, input_gradient, weight_gradient, update)| Layer {
            name,
            reserved,
            forward,
            input_gradient,
            weight_gradient,
            update: Update::Whole(update),
            own: None,
        },
    )
}

fn blocks(below: u32, inner: u32) -> Blocks {
    Blocks { below, inner }
}

fn parallelism() -> impl Strategy<Value = Parallelism> {
    let recompute = (prop::collection::vec(0u32..6, 0..3), prop::collection::vec(0u32..6, 0..3))
        .prop_map(|(checkpoints, starts)| Recompute { checkpoints, starts });
    let dealt = [1, 2, 3, 6, 12].map(|inner| blocks(1, inner)).into_iter();
    let below = [(2, 1), (2, 2), (2, 3), (3, 2), (2, 6), (4, 3), (12, 1)];
    let dealt = dealt.chain(below.map(|(below, inner)| blocks(below, inner)));
    let dealt = prop::sample::select(dealt.collect::<Vec<_>>());
    prop_oneof![
        prop::sample::select(vec![
            Parallelism::Data,
            Parallelism::Model,
            Parallelism::HybridDataModel,
            Parallelism::HybridModelData,
            Parallelism::HybridCustomized,
            Parallelism::Micro,
            Parallelism::DistributedInference,
        ]),
        (dealt, prop::option::of(recompute))
            .prop_map(|(blocks, recompute)| Parallelism::Transformer { blocks, recompute }),
        (1u32..5, any::<bool>())
            .prop_map(|(last_bottom, enhanced)| Parallelism::Dlrm { last_bottom, enhanced }),
    ]
}

fn layers() -> impl Strategy<Value = Layers> {
    let own = prop::sample::select(LayerParallelism::ALL.map(|(_, own)| own).to_vec());
    (parallelism(), prop::collection::vec((layer(), own), 1..7)).prop_map(
        |(parallelism, layers)| {
            let own = parallelism == Parallelism::HybridCustomized;
            let layers = layers
                .into_iter()
                .map(|(layer, kind)| Layer { own: own.then_some(kind), ..layer })
                .collect();
            Layers { parallelism, layers }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printed_layers_read_the_same(layers in layers()) {
        let text = layers.to_string();
        match parse(text.as_bytes(), "t.txt") {
            Ok(again) => prop_assert_eq!(again, layers),
            Err(problems) => prop_assert_eq!(problems.len(), layers.header_faults().len(), "{:?}\n{}", problems, text),
        }
    }

    /// Text, workload, text, workload: what the loop uses comes back, and means the same.
    #[test]
    fn workloads_come_back_as_layers(layers in layers(), passes in 1u32..3, sizes in prop::sample::select(vec![vec![12], vec![2, 6], vec![4, 3], vec![1, 12]])) {
        let Ok(workload) = layers.workload(passes, Some(&sizes), "") else { return Ok(()) };
        if workload.program(0).nodes().is_empty() {
            return Ok(());
        }
        let recovered = recover(&workload, None, &|node| node.duration);
        let (back, passes) = recovered.unwrap_or_else(|problems| panic!("{layers}\n{problems:#?}"));
        let text = back.to_string();
        let again = parse(text.as_bytes(), "").unwrap_or_else(|problems| panic!("{text}\n{problems:#?}"));
        // Inner groups may be as large as the first dimension was, whatever the layers' names now.
        let inner = workload.groups.iter().find_map(|group| match group.members {
            Members::Strided { first: 0, count, step: 1 } => Some(count),
            Members::Strided { first: 0, step, .. } => Some(step),
            _ => None,
        });
        let tried = inner.map_or(vec![1, 12], |inner| vec![inner]);
        let same = tried.iter().any(|inner| {
            let again = again.workload(passes, Some(&[*inner, 12 / inner]), "").unwrap_or_else(|p| panic!("{text}\n{p:#?}"));
            shown(&again) == shown(&workload)
        });
        prop_assert!(same, "{}\n{}", layers, text);
    }

    #[test]
    fn noise_is_refused_and_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), word in prop::sample::select(Parallelism::WORDS.to_vec())) {
        let _ = parse(&bytes, "t.txt");
        let text = [word.as_bytes(), b"\n2\n", &bytes].concat();
        let _ = parse(&text, "t.txt");
    }
}
