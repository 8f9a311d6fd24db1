//! Wrong files of ASTRA-sim: each gets one problem that names file, place, value and what is
//! allowed; none panics, hangs or passes.

use crate::common::astra_sim_files::{Files, NETWORK, SYSTEM, all_reduce, compute};
use crate::common::built::collective;
use crate::common::refusals::{everywhere, one_problem, run_and_check, told};
use crate::common::scratch::Scratch;
use crate::common::wire::{COLLECTIVE, COMPUTE, RECV, SEND, node, trace};
use graph::CollectiveKind;
use sim::{Config, Error, Source};

type Spoil = fn(&mut Files);

/// What is spoiled, how, and what must be said: file (its end), place, message, allowed (a part of
/// each).
type Bad = (&'static str, Spoil, [&'static str; 4]);

const ASTRA_SIM: &[Bad] = &[
    // Files.
    (
        "bad_json",
        |f| f.system = Some("{\"scheduling-policy\": \"LIFO\", }}}".into()),
        ["system.json", "line 1, column 31", "JSON syntax error", "valid JSON"],
    ),
    (
        "yaml_syntax",
        |f| f.network = Some("topology: [ Ring\nnpus_count: [ 4 ]\n".into()),
        ["network.yml", "line 2, column 11", "YAML syntax error", "valid YAML"],
    ),
    (
        "missing_memory",
        |f| f.memory = None,
        ["memory.json", "", "there is no such file", "a readable remote memory file"],
    ),
    (
        "missing_network",
        |f| f.network = None,
        ["network.yml", "", "there is no such file", "a readable network file"],
    ),
    (
        "missing_system",
        |f| f.system = None,
        ["system.json", "", "there is no such file", "a readable system file"],
    ),
    (
        "empty network",
        |f| f.network = Some(String::new()),
        ["network.yml", "line 1", "holds nothing", "a YAML mapping"],
    ),
    (
        "system is a list",
        |f| f.system = Some("[]".into()),
        ["system.json", "", "holds a list", "a JSON object"],
    ),
    // Traces.
    (
        "trunc_half",
        |f| f.traces[2].as_mut().unwrap().truncate(20),
        ["trace.2.et", "rank 2 byte 8", "the file ends 30 bytes before", "a complete file"],
    ),
    (
        "empty trace",
        |f| f.traces[2] = Some(Vec::new()),
        ["trace.2.et", "rank 2", "the file is empty", "a Chakra execution trace"],
    ),
    (
        "metadata_only",
        |f| {
            f.traces = vec![Some(trace(&[compute(0, &[])])); 4];
            f.traces[2] = Some(trace(&[]));
        },
        ["", "rank 2", "the trace holds no nodes", "at least one node that computes"],
    ),
    (
        "not chakra: text",
        |f| f.traces[2] = Some(b"hello, this is no trace at all\n".to_vec()),
        ["trace.2.et", "rank 2", "text, not a Chakra trace", "protobuf or Chakra JSON"],
    ),
    (
        "not chakra: elf",
        |f| f.traces[2] = Some(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0".to_vec()),
        ["trace.2.et", "rank 2", "not a Chakra trace", "a Chakra execution trace"],
    ),
    (
        "not chakra: json",
        |f| f.traces[2] = Some(b"{\"schema\": 1, \"traceEvents\": []}".to_vec()),
        ["trace.2.et", "rank 2", "Kineto", "armillary import"],
    ),
    (
        "broken gzip",
        |f| f.traces[2] = Some(b"\x1f\x8b\x08\0\0\0\0\0\0\0\0\0".to_vec()),
        ["trace.2.et", "", "can't be read: incomplete", "read to its end"],
    ),
    ("missing rank", |f| f.traces[2] = None, ["trace", "", "no trace for rank 2", "ranks 0 to 3"]),
    (
        "no trace",
        |f| f.traces = vec![None; 4],
        ["trace", "", "no trace of this name", "PREFIX.<rank>.et"],
    ),
    (
        "more_npus_than_traces",
        |f| f.network = Some(NETWORK.replace("[ 4 ]", "[ 8 ]")),
        ["trace", "", "no trace for ranks 4-7: there are 4", "8, one for each NPU"],
    ),
    (
        "cycle_partial",
        |f| f.traces[1] = Some(trace(&[compute(0, &[]), compute(1, &[0, 2]), compute(2, &[1])])),
        ["", "rank 1 node 1", "1 -> 2 -> 1", "without a cycle"],
    ),
    (
        "cycle",
        |f| f.traces = vec![Some(trace(&[compute(1, &[2]), compute(2, &[1])])); 4],
        ["", "rank 0 node 1", "1 -> 2 -> 1; the same for 3 more ranks", "without a cycle"],
    ),
    (
        "dangling_dep",
        |f| f.traces[2] = Some(trace(&[compute(0, &[]), compute(1, &[99])])),
        [
            "trace.2.et",
            "rank 2 node 1",
            "node 99, which is not in the trace",
            "ids of nodes in this trace",
        ],
    ),
    (
        "barrier",
        |f| {
            f.traces = vec![
                Some(trace(&[node(
                    0,
                    COLLECTIVE,
                    &[],
                    0,
                    &[("comm_type", 9), ("comm_size", 8)]
                )]));
                4
            ]
        },
        ["", "rank 0 node 0", "ASTRA-sim does not support barrier", "`armillary run`"],
    ),
    (
        "unknown_comm_type",
        |f| {
            f.traces[2] =
                Some(trace(&[node(0, COLLECTIVE, &[], 0, &[("comm_type", 42), ("comm_size", 8)])]))
        },
        ["trace.2.et", "rank 2 node 0", "comm_type is 42", "9 barrier"],
    ),
    (
        "negative_size",
        |f| f.traces[2] = Some(trace(&[all_reduce(0, -5)])),
        ["trace.2.et", "rank 2 node 0", "comm_size is -5", "zero or more"],
    ),
    (
        "no comm_size",
        |f| f.traces[2] = Some(trace(&[node(0, COLLECTIVE, &[], 0, &[("comm_type", 0)])])),
        ["trace.2.et", "rank 2 node 0", "comm_size is missing", "zero or more"],
    ),
    (
        "rank_mismatch_size",
        |f| f.traces[3] = Some(trace(&[all_reduce(0, 1 << 21)])),
        [
            "",
            "group world",
            "rank 3 has all_reduce of 2097152 bytes (node 0)",
            "the same kind and size in the same order",
        ],
    ),
    (
        "rank_mismatch_count",
        |f| f.traces[3] = Some(trace(&[compute(0, &[])])),
        ["", "group world", "rank 3 has none", "the same kind and size in the same order"],
    ),
    (
        "send_to_self",
        |f| {
            f.traces[0] = Some(trace(&[
                all_reduce(0, 1 << 20),
                node(
                    1,
                    SEND,
                    &[],
                    0,
                    &[("comm_src", 0), ("comm_dst", 0), ("comm_tag", 1), ("comm_size", 8)],
                ),
            ]))
        },
        ["trace.0.et", "rank 0 node 1", "rank 0 sends to itself", "another rank"],
    ),
    (
        "send_wrong_src",
        |f| {
            f.traces[0] = Some(trace(&[
                all_reduce(0, 1 << 20),
                node(
                    1,
                    SEND,
                    &[],
                    0,
                    &[("comm_src", 1), ("comm_dst", 2), ("comm_tag", 1), ("comm_size", 8)],
                ),
            ]))
        },
        [
            "trace.0.et",
            "rank 0 node 1",
            "comm_src is 1 in the trace of rank 0",
            "the rank whose trace this is",
        ],
    ),
    (
        "send to nobody",
        |f| {
            f.traces[0] = Some(trace(&[
                all_reduce(0, 1 << 20),
                node(1, SEND, &[], 0, &[("comm_dst", 9), ("comm_tag", 1), ("comm_size", 8)]),
            ]))
        },
        ["", "rank 0 node 1", "rank 9, which does not exist", "ranks 0 to 3"],
    ),
    (
        "send unmatched",
        |f| {
            f.traces[0] = Some(trace(&[
                all_reduce(0, 1 << 20),
                node(1, SEND, &[], 0, &[("comm_dst", 2), ("comm_tag", 1), ("comm_size", 8)]),
            ]))
        },
        [
            "",
            "rank 0 node 1",
            "rank 0 sends 1 messages with tag 1 to rank 2, which receives 0",
            "the same number of sends and receives",
        ],
    ),
    (
        "unknown node type",
        |f| f.traces[2] = Some(trace(&[node(0, 77, &[], 1, &[])])),
        ["trace.2.et", "rank 2 node 0", "node type 77 is unknown", "7 collective"],
    ),
    // Network file.
    (
        "neg_bandwidth",
        |f| f.network = Some(NETWORK.replace("50.0", "-50.0")),
        ["network.yml", "line 3, bandwidth[0]", "-50", "a number above 0"],
    ),
    (
        "zero_bandwidth",
        |f| f.network = Some(NETWORK.replace("50.0", "0.0")),
        ["network.yml", "line 3, bandwidth[0]", "0 is not allowed", "a number above 0"],
    ),
    (
        "nan_bandwidth",
        |f| f.network = Some(NETWORK.replace("50.0", ".nan")),
        ["network.yml", "line 3, bandwidth[0]", ".nan", "a number above 0"],
    ),
    (
        "text bandwidth",
        |f| f.network = Some(NETWORK.replace("50.0", "fast")),
        ["network.yml", "line 3, bandwidth[0]", "fast", "a number above 0"],
    ),
    (
        "neg_latency",
        |f| f.network = Some(NETWORK.replace("500.0", "-1.0")),
        ["network.yml", "line 4, latency[0]", "-1", "a number from 0"],
    ),
    (
        "huge_latency",
        |f| f.network = Some(NETWORK.replace("500.0", "1e+30")),
        ["network.yml", "line 4, latency[0]", "1e30", "a number from 0 to 1e12"],
    ),
    (
        "npu1",
        |f| f.network = Some(NETWORK.replace("[ 4 ]", "[ 1 ]")),
        ["network.yml", "line 2, npus_count[0]", "1 is not allowed", "a whole number from 2"],
    ),
    (
        "len_mismatch",
        |f| f.network = Some(NETWORK.replace("[ Ring ]", "[ Ring, Ring ]")),
        ["network.yml", "line 1", "topology 2, npus_count 1", "one entry for each dimension"],
    ),
    (
        "unknown block",
        |f| f.network = Some(NETWORK.replace("Ring", "Rnig")),
        ["network.yml", "line 1, topology[0]", "Rnig", "Ring, FullyConnected, Switch"],
    ),
    (
        "key missing",
        |f| f.network = Some(NETWORK.replace("latency", "latencies")),
        ["network.yml", "line 1", "\"latency\" is missing", "a list with one entry"],
    ),
    // System file.
    (
        "epd_negative",
        |f| f.system = Some(SYSTEM.replace(": 10", ": -10")),
        ["system.json", "endpoint-delay", "-10", "a whole number from 0"],
    ),
    (
        "impl_string_not_list",
        |f| f.system = Some(SYSTEM.replace("[\"ring\"]", "\"ring\"")),
        [
            "system.json",
            "all-reduce-implementation",
            "\"ring\" is not allowed",
            "a list with one algorithm",
        ],
    ),
    (
        "unknown_alg",
        |f| f.system = Some(SYSTEM.replace("[\"ring\"]", "[\"rings\"]")),
        ["system.json", "all-reduce-implementation[0]", "rings", "halvingDoubling"],
    ),
    (
        "too many algs",
        |f| f.system = Some(SYSTEM.replace("[\"ring\"]", "[\"ring\", \"ring\"]")),
        ["system.json", "all-reduce-implementation", "2 algorithms for 1 dimension", "at most one"],
    ),
    (
        "no_impl_key",
        |f| f.system = Some(SYSTEM.replace("all-reduce", "all-gather")),
        [
            "system.json",
            "all-reduce-implementation",
            "calls all_reduce (rank 0 node 0)",
            "a list of one algorithm",
        ],
    ),
    (
        "unknown policy",
        |f| f.system = Some(SYSTEM.replace("LIFO", "RANDOM")),
        ["system.json", "scheduling-policy", "RANDOM", "LIFO, FIFO, EXPLICIT"],
    ),
    (
        "zero splits",
        |f| f.system = Some(SYSTEM.replace(": 4", ": 0")),
        ["system.json", "preferred-dataset-splits", "0 is not allowed", "a whole number from 1"],
    ),
    (
        "halving on 6",
        |f| {
            f.network = Some(NETWORK.replace("[ 4 ]", "[ 6 ]"));
            f.system = Some(SYSTEM.replace("\"ring\"", "\"halvingDoubling\""));
            f.traces = vec![f.traces[0].clone(); 6];
        },
        [
            "",
            "rank 0 node 0",
            "halvingDoubling cannot run all_reduce over 6 NPUs",
            "a power of two",
        ],
    ),
    // Memory file.
    (
        "unknown memory type",
        |f| f.memory = Some(r#"{"memory-type": "CLOUD"}"#.into()),
        ["memory.json", "memory-type", "CLOUD", "MEMORY_POOL"],
    ),
    (
        "zero memory bandwidth",
        |f| {
            f.memory = Some(
                r#"{"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 1, "remote-mem-bw": 0}"#.into(),
            )
        },
        ["memory.json", "remote-mem-bw", "0 is not allowed", "a whole number from 1"],
    ),
    (
        "memory node, no memory",
        |f| f.traces = vec![Some(trace(&[node(0, 2, &[], 0, &[("tensor_size", 8)])])); 4],
        ["", "rank 0 node 0", "accesses remote memory", "remote_memory in the platform"],
    ),
    // Groups file.
    (
        "group rank out of range",
        |f| f.groups = Some(r#"{"1": [0, 9]}"#.into()),
        ["groups.json", "1[1]", "9", "a whole number from 0 to 3"],
    ),
    (
        "group rank twice",
        |f| f.groups = Some(r#"{"1": [0, 0]}"#.into()),
        ["groups.json", "1", "rank 0 is in the group twice", "each rank once"],
    ),
    (
        "group rank negative",
        |f| f.groups = Some(r#"{"1": [0, -1]}"#.into()),
        ["groups.json", "1[1]", "-1", "a whole number from 0 to 3"],
    ),
    (
        "group empty",
        |f| f.groups = Some(r#"{"1": []}"#.into()),
        ["groups.json", "1", "", "a list of one or more ranks"],
    ),
    (
        "group id",
        |f| f.groups = Some(r#"{"one": [0, 1]}"#.into()),
        ["groups.json", "one", "the group id", "a whole number from 1"],
    ),
    // Flags.
    (
        "unknown_option",
        |f| f.args = vec!["--num-queue-per-dim=2".into()],
        ["", "--num-queue-per-dim", "unknown flag", "--num-queues-per-dim"],
    ),
    (
        "queues zero",
        |f| f.args = vec!["--num-queues-per-dim=0".into()],
        ["", "--num-queues-per-dim", "0", "a whole number from 1"],
    ),
    (
        "queues text",
        |f| f.args = vec!["--num-queues-per-dim=many".into()],
        ["", "--num-queues-per-dim", "many", "a whole number from 1"],
    ),
];

#[test]
fn astra_sim_inputs() {
    for &(name, spoil, parts) in ASTRA_SIM {
        let mut files = Files::sound();
        spoil(&mut files);
        one_problem(name, files.run(&Scratch::new("bad-astra-sim")), parts);
    }
}

/// What ASTRA-sim takes without a word runs, and the report says what was passed over.
#[test]
fn what_astra_sim_passes_over_is_said() {
    let cases: [(Spoil, f64, &str); 2] = [
        (
            |f| f.system = Some(SYSTEM.replace('{', r#"{"endpoint-dely": 99, "#)),
            43_000.0,
            "endpoint-dely",
        ),
        (|f| f.args = vec!["--comm-scale=2".into()], 43_000.0, "--comm-scale"),
    ];
    for (spoil, step, said) in cases {
        let mut files = Files::sound();
        spoil(&mut files);
        let outcome = files
            .run(&Scratch::new("passed-over"))
            .unwrap_or_else(|error| panic!("{said}: {error}"));
        assert_eq!(outcome.report.step_time_ns, step, "{said}");
        let warnings = &outcome.report.warnings;
        assert!(warnings.iter().any(|w| w.contains(said)), "{said}: {warnings:?}");
    }
}

/// What ASTRA-sim passes over and hides a mistake: the last of nodes with one id, and traces beyond
/// the NPUs.
#[test]
fn what_hides_a_mistake_is_refused() {
    let cases: [(Spoil, &str); 2] = [
        (
            |f| f.traces[0] = Some(trace(&[compute(0, &[]), node(0, COMPUTE, &[], 5, &[])])),
            "defined",
        ),
        (|f| f.traces.push(Some(trace(&[compute(0, &[])]))), "5 traces"),
    ];
    for (spoil, said) in cases {
        let mut files = Files::sound();
        spoil(&mut files);
        let Err(Error::Input(problems)) = files.run(&Scratch::new("hidden")) else {
            panic!("{said}: it is not refused")
        };
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(shown.iter().any(|p| p.contains(said)), "{said}: {shown:#?}");
    }
}

/// A file or folder that may not be read. The administrator may read everything: then only the
/// folder is tried.
#[cfg(unix)]
#[test]
fn unreadable_files() {
    use std::os::unix::fs::PermissionsExt;
    for name in ["system.json", "network.yml", "memory.json", "trace.2.et"] {
        let folder = Scratch::new("unreadable");
        let mut files = Files::sound();
        files.run(&folder).expect("sound files run");
        let path = folder.file(name);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).expect("our own file");
        let readable = std::fs::read(&path).is_ok();
        (files.system, files.network, files.memory, files.traces) = (None, None, None, Vec::new());
        match readable {
            true => println!("skipped: this user may read {name} whatever its mode"),
            false => one_problem(name, files.run(&folder), [name, "", "ermission", ""]),
        }
        std::fs::remove_file(&path).expect("our own file");
        std::fs::create_dir(&path).expect("our own folder");
        one_problem(name, files.run(&folder), [name, "", "", ""]);
    }
}

#[test]
fn all_that_astra_sims_files_lack_is_told_at_once() {
    let collective = |id, kind, bytes| {
        node(id, COLLECTIVE, &[], 0, &[("comm_type", kind), ("comm_size", bytes), ("is_cpu_op", 0)])
    };
    let load = node(4, 2, &[], 0, &[("tensor_size", 8)]);
    let rank = trace(&[
        collective(0, 0, 64),
        collective(1, 2, 64),
        collective(2, 6, 64),
        collective(3, 6, 128),
        load,
    ]);
    let files = Files { traces: vec![Some(rank); 4], ..Files::sound() };
    assert_eq!(
        told(files.run(&Scratch::new("all-at-once"))),
        [
            "rank 0 node 4: accesses remote memory, but the platform has none; the same for 3 more operations",
            "all-gather-implementation: missing, but the workload calls all_gather (rank 0 node 1)",
            "all-to-all-implementation: missing, but the workload calls all_to_all (rank 0 node 2); \
             the same for 1 more call",
        ]
    );
}

#[test]
fn a_plan_of_too_many_steps_under_astra_sims_files() {
    let mut files = Files::sound();
    files.network = Some(NETWORK.replace("[ 4 ]", "[ 5000 ]"));
    files.system = Some(SYSTEM.replace("all-reduce", "all-to-all"));
    let config = files.config(&Scratch::new("too-many-steps")).expect("sound files");
    let calls = everywhere(&[collective(CollectiveKind::AllToAll, 1 << 20, 0)], 5000);
    one_problem(
        "steps",
        run_and_check(&Config { workload: Source::Built(Box::new(calls)), ..config }),
        ["", "rank 0 node 0", "ring all_to_all on 5000 NPUs takes 12497500 steps", "fewer NPUs"],
    );
}

/// An algorithm for one node, which one member of its collective calls by another id.
#[test]
fn members_with_different_algorithms_of_their_own() {
    let folder = Scratch::new("own-algorithm");
    for rank in 0..4 {
        // Each tells the next one, so that in the end all have heard of all.
        let (next, previous) = ((rank + 1) % 4, (rank + 3) % 4);
        let to = [("comm_src", rank), ("comm_dst", next), ("comm_tag", 1), ("comm_size", 8)];
        let from = [("comm_src", previous), ("comm_dst", rank), ("comm_tag", 1), ("comm_size", 8)];
        let steps = [node(0, SEND, &[], 0, &to), node(1, RECV, &[], 0, &from)];
        folder.write(&format!("own.{rank}.et"), trace(&steps));
    }
    folder.write("nodes.yml", format!("7: {}\n", folder.file("own")).as_bytes());
    let key = format!("{{\"per-node-custom-implementation\": \"{}\", ", folder.file("nodes.yml"));
    let mut files = Files { system: Some(SYSTEM.replacen('{', &key, 1)), ..Files::sound() };
    files.traces = vec![Some(trace(&[all_reduce(7, 64)])); 4];
    files.run(&folder).expect("one id on every member");
    files.traces[3] = Some(trace(&[all_reduce(8, 64)]));
    assert_eq!(
        told(files.run(&folder)),
        ["rank 3 node 8: is the same collective as rank 0 node 7, which uses another algorithm"]
    );
}
