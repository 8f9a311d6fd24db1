//! Readers against the recorded corpus (when it is there) and against broken text.

use super::*;
use crate::platform::{Algorithm, DimensionOrder, Hierarchy, Policy};
use device::memory::{Link, RemoteMemory, Sharing};
use graph::CollectiveKind;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use topology::{Block, Fabric};
use units::{Bandwidth, Span};

/// Reads with these files instead of the disk.
fn read_files(args: &AstraSimArgs, files: &[(&str, &str)]) -> Result<AstraSimInputs, Vec<Problem>> {
    let load = |path: &str| match files.iter().find(|(name, _)| *name == path) {
        Some((_, text)) => Ok(text.as_bytes().to_vec()),
        None => Err(std::io::ErrorKind::NotFound.into()),
    };
    read_from(args, &load)
}

const NETWORK: &str = "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 50.0, 25 ]\nlatency: [ 500.0, 30.5 ]\n";
const SYSTEM: &str = r#"{"scheduling-policy": "LIFO", "collective-optimization": "baseline", "endpoint-delay": 15,
    "preferred-dataset-splits": 4, "local-mem-bw": 1600, "all-reduce-implementation": ["ring", "direct3"],
    "all-to-all-implementation": ["oneDirect"]}"#;
const MEMORY: &str = r#"{"memory-type": "NO_MEMORY_EXPANSION"}"#;

fn arguments() -> AstraSimArgs {
    let [system, network, memory] = ["system.json", "network.yml", "memory.json"].map(String::from);
    AstraSimArgs { system, network, memory, injection_scale: 2.5, ..AstraSimArgs::default() }
}

fn with(network: &str, system: &str, memory: &str) -> Result<AstraSimInputs, Vec<Problem>> {
    read_files(
        &arguments(),
        &[("network.yml", network), ("system.json", system), ("memory.json", memory)],
    )
}

/// The one problem of a reading.
fn only(result: Result<AstraSimInputs, Vec<Problem>>) -> String {
    let problems = result.unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].to_string()
}

#[test]
fn values_keep_the_units_of_the_peer() {
    let (platform, groups) = with(NETWORK, SYSTEM, MEMORY).unwrap();
    assert!(groups.is_empty());
    let Fabric::Stacked(dims) = &platform.fabric else { panic!("a stack") };
    assert_eq!((dims[0].block, dims[0].size), (Block::Ring, 4));
    assert_eq!((dims[1].block, dims[1].size), (Block::Switch, 2));
    // 50 * 2^30 and 25 * 2^30 bytes per second.
    assert_eq!(
        (dims[0].bandwidth, dims[1].bandwidth),
        (Bandwidth(53_687_091_200), Bandwidth(26_843_545_600))
    );
    assert_eq!((dims[0].latency, dims[1].latency), (Span(500_000), Span(30_500)));
    let raw = platform.profile.astra_sim().unwrap();
    assert_eq!(
        (raw.bandwidth.as_slice(), raw.latency.as_slice()),
        ([50.0, 25.0].as_slice(), [500.0, 30.5].as_slice())
    );
    // 15 ns * 2.5, truncated.
    assert_eq!((raw.endpoint_delay, platform.scheduler.endpoint_delay), (37, Span(37_000)));
    assert_eq!(platform.npu.memory_bandwidth, Some(Bandwidth(1_600_000_000_000)));
    assert_eq!(
        (
            platform.scheduler.chunks,
            *platform.scheduler.active_chunks.first(),
            platform.scheduler.comm_streams
        ),
        (4, 1, 1)
    );
    assert_eq!(
        (platform.scheduler.policy, platform.collectives.hierarchy),
        (Policy::Lifo, Hierarchy::Baseline)
    );
    let all_reduce =
        platform.collectives.choices[CollectiveKind::AllReduce as usize].as_ref().unwrap();
    assert_eq!(all_reduce.per_dim, [Algorithm::Ring, Algorithm::Direct { window: Some(3) }]);
    assert!(!all_reduce.flat);
    let all_to_all =
        platform.collectives.choices[CollectiveKind::AllToAll as usize].as_ref().unwrap();
    assert_eq!(
        (all_to_all.per_dim.as_slice(), all_to_all.flat),
        ([Algorithm::Direct { window: None }].as_slice(), true)
    );
    assert_eq!(platform.collectives.choices[CollectiveKind::AllGather as usize], None);
    assert_eq!(platform.warnings, Vec::<String>::new());
}

#[test]
fn the_injection_scale_leaves_the_default_delay_alone() {
    let (platform, _) =
        with(NETWORK, r#"{"preferred-dataset-splits": 1, "local-mem-bw": 1}"#, MEMORY).unwrap();
    assert_eq!(platform.profile.astra_sim().unwrap().endpoint_delay, 10);
    let undefined = "is missing, which ASTRA-sim leaves undefined; taken as";
    assert_eq!(
        platform.warnings,
        [
            format!("system.json: \"collective-optimization\" {undefined} localBWAware"),
            format!("system.json: \"scheduling-policy\" {undefined} FIFO"),
        ]
    );
}

#[test]
fn unknown_keys_are_named_and_ignored() {
    let system = SYSTEM.replace('{', r#"{"boost-mode": 1, "comment": "x", "#);
    let (platform, _) = with(NETWORK, &system, MEMORY).unwrap();
    assert_eq!(platform.warnings.len(), 1);
    assert!(
        platform.warnings[0]
            .ends_with("system.json: keys without effect, ignored: boost-mode, comment")
    );
}

/// The peer compared with ignores the key; what it asks for is kept for the platform's native form.
#[test]
fn a_scheduler_of_dimensions_is_read_with_a_warning() {
    let system = SYSTEM.replace('{', r#"{"inter-dimension-scheduling": "themis", "#);
    let (platform, _) = with(NETWORK, &system, MEMORY).unwrap();
    assert_eq!(platform.scheduler.dimension_order, DimensionOrder::Themis);
    assert_eq!(platform.warnings.len(), 1);
    assert!(platform.warnings[0].contains("ASTRA-sim ignores inter-dimension-scheduling: themis"));
    let system = SYSTEM.replace('{', r#"{"inter-dimension-scheduling": "baseline", "#);
    assert_eq!(with(NETWORK, &system, MEMORY).unwrap().0.warnings, [""; 0]);
}

#[test]
fn remote_memory_reads_integers() {
    let memory = r#"{"memory-type": "PER_NODE_MEMORY_EXPANSION", "remote-mem-latency": 1000.9, "remote-mem-bw": 100,
        "num-nodes": 2, "num-npus-per-node": 4}"#;
    let (platform, _) = with(NETWORK, SYSTEM, memory).unwrap();
    let expected = Link {
        sharing: Sharing::PerNode { npus: 4 },
        latency: Span::from_ns(1000),
        bandwidth: Bandwidth(100_000_000_000),
        npus_per_node: None,
        capacity: None,
    };
    assert_eq!(platform.remote_memory, Some(RemoteMemory::Link(expected)));
    let raw = platform.profile.astra_sim().unwrap();
    assert_eq!((raw.remote_latency, raw.remote_bandwidth), (1000, 100));
}

#[test]
fn broken_networks_give_one_message() {
    let lists = |topology: &str, npus: &str, bandwidth: &str, latency: &str| {
        format!(
            "topology: {topology}\nnpus_count: {npus}\nbandwidth: {bandwidth}\nlatency: {latency}\n"
        )
    };
    let rate = "(allowed: a number above 0, at most 1e9, in GB/s of 2^30 bytes)";
    let delay = "(allowed: a number from 0 to 1e12, in ns)";
    let four = "(allowed: a list with one entry for each dimension, 1 to 32 of them)";
    let cases = [
        (lists("[Ring]", "[4]", "[-50.0]", "[1]"), format!("network.yml: line 3, bandwidth[0]: -50 is not allowed {rate}")),
        (lists("[Ring]", "[4]", "[0.0]", "[1]"), format!("network.yml: line 3, bandwidth[0]: 0 is not allowed {rate}")),
        (lists("[Ring]", "[4]", "[.nan]", "[1]"), format!("network.yml: line 3, bandwidth[0]: \".nan\" is not a number {rate}")),
        (lists("[Ring]", "[4]", "[50 GB/s]", "[1]"), format!("network.yml: line 3, bandwidth[0]: \"50 GB/s\" is not a number {rate}")),
        (lists("[Ring]", "[4]", "[50]", "[-1.0]"), format!("network.yml: line 4, latency[0]: -1 is not allowed {delay}")),
        (lists("[Ring]", "[4]", "[50]", "[1e+30]"), format!("network.yml: line 4, latency[0]: 1e30 is not allowed {delay}")),
        (lists("[Ring]", "[1]", "[50]", "[1]"), "network.yml: line 2, npus_count[0]: 1 is not allowed (allowed: a whole number from 2)".into()),
        (lists("[Ring]", "[2.5]", "[50]", "[1]"), "network.yml: line 2, npus_count[0]: 2.5 is not allowed (allowed: a whole number from 2)".into()),
        (lists("Ring", "[4]", "[50]", "[1]"), format!("network.yml: line 1, topology: \"Ring\" is not allowed {four}")),
        (lists("[]", "[]", "[]", "[]").lines().next().unwrap().to_string() + "\nnpus_count: [4]\nbandwidth: [5]\nlatency: [1]",
            format!("network.yml: line 1, topology: a list is not allowed {four}")),
        (lists("[ring]", "[4]", "[50]", "[1]"),
            "network.yml: line 1, topology[0]: \"ring\" is not allowed; did you mean \"Ring\"? (allowed: Ring, FullyConnected, Switch)".into()),
        (lists("[Ring, Ring]", "[4]", "[50]", "[1]"),
            "network.yml: line 1: lists of unequal length: topology 2, npus_count 1, bandwidth 1, latency 1 \
             (allowed: four lists with one entry for each dimension)".into()),
        (lists("[Ring, Ring]", "[65536, 65536]", "[5, 5]", "[1, 1]"),
            "network.yml: npus_count: more than 4,294,967,295 NPUs (allowed: sizes with a product below 2^32)".into()),
        ("topology: [Ring]\nnpus_count: [4]\nbandwidth: [5]\n".into(),
            "network.yml: line 1: \"latency\" is missing (allowed: a list with one entry for each dimension)".into()),
        ("topology: [ Ring\nnpus_count: [ 4 ]\n".into(),
            "network.yml: line 2, column 11: YAML syntax error: illegal placement of ':' indicator (allowed: valid YAML)".into()),
        ("topology: [Ring]\ntopology: [Switch]\n".into(),
            "network.yml: line 2, column 1: the key \"topology\" is given twice (allowed: valid YAML)".into()),
        (String::new(), "network.yml: line 1: the network file holds nothing (allowed: a YAML mapping)".into()),
        ("- 1\n".into(), "network.yml: line 1: the network file holds a list (allowed: a YAML mapping)".into()),
    ];
    for (text, message) in cases {
        assert_eq!(
            only(with(&text, SYSTEM.replace(", \"direct3\"", "").as_str(), MEMORY)),
            message,
            "{text}"
        );
    }
}

#[test]
fn broken_systems_give_one_message() {
    let splits = r#"{"preferred-dataset-splits": 4, "#;
    let cases = [
        (
            r#"{"scheduling-policy": "LIFO", }}}"#.to_string(),
            "system.json: line 1, column 31: JSON syntax error: trailing comma (allowed: valid JSON)".to_string(),
        ),
        (
            String::new(),
            "system.json: line 1, column 0: JSON syntax error: EOF while parsing a value (allowed: valid JSON)".into(),
        ),
        ("[]".into(), "system.json: the system file holds a list (allowed: a JSON object)".into()),
        (
            "{}".into(),
            "system.json: \"preferred-dataset-splits\" is missing (allowed: a whole number from 1: the chunks of a collective)"
                .into(),
        ),
        (
            r#"{"preferred-dataset-splits": 0}"#.into(),
            "system.json: preferred-dataset-splits: 0 is not allowed (allowed: a whole number from 1 to 4294967295)".into(),
        ),
        (
            format!("{splits}\"endpoint-delay\": -10}}"),
            "system.json: endpoint-delay: -10 is not allowed (allowed: a whole number from 0 to 1000000000)".into(),
        ),
        (
            format!("{splits}\"endpoint-delay\": \"10\"}}"),
            "system.json: endpoint-delay: \"10\" is not a number (allowed: a whole number from 0 to 1000000000)".into(),
        ),
        (
            format!("{splits}\"scheduling-policy\": \"lifo\"}}"),
            "system.json: scheduling-policy: \"lifo\" is not allowed; did you mean \"LIFO\"? (allowed: LIFO, FIFO, EXPLICIT)"
                .into(),
        ),
        (
            format!("{splits}\"local-mem-bw\": -1}}"),
            "system.json: local-mem-bw: -1 is not allowed (allowed: a number from 0 to 1e15)".into(),
        ),
        (
            format!("{splits}\"roofline-enabled\": 1}}"),
            "system.json: roofline-enabled: the roofline needs \"peak-perf\" and \"local-mem-bw\" above zero \
             (allowed: TFLOP/s and GB/s above zero)"
                .into(),
        ),
        (
            format!("{splits}\"all-reduce-implementation\": \"ring\"}}"),
            format!(
                "system.json: all-reduce-implementation: \"ring\" is not allowed (allowed: a list with one algorithm for each dimension: {ALLOWED})"
            ),
        ),
        (
            format!("{splits}\"all-reduce-implementation\": [1]}}"),
            format!(
                "system.json: all-reduce-implementation: a list of other things than texts is not allowed \
                     (allowed: a list with one algorithm for each dimension: {ALLOWED})"
            ),
        ),
        (
            format!("{splits}\"all-reduce-implementation\": [\"rings\"]}}"),
            format!(
                "system.json: all-reduce-implementation[0]: unknown algorithm \"rings\"; did you mean \"ring\"? (allowed: {ALLOWED})"
            ),
        ),
        (
            format!("{splits}\"all-reduce-implementation\": [\"direct0\"]}}"),
            format!(
                "system.json: all-reduce-implementation[0]: unknown algorithm \"direct0\"; did you mean \"direct\"? (allowed: {ALLOWED})"
            ),
        ),
        (
            format!("{splits}\"all-reduce-implementation\": [\"ring\", \"ring\", \"ring\"]}}"),
            "system.json: all-reduce-implementation: 3 algorithms for 2 dimensions (allowed: at most one algorithm for each dimension)"
                .into(),
        ),
        (
            format!("{splits}\"all-reduce-implementation\": [\"ring\", \"oneRing\"]}}"),
            "system.json: all-reduce-implementation[1]: a \"one\" algorithm after one for a single dimension \
             (allowed: \"one\" algorithms first in the list)"
                .into(),
        ),
        (
            format!("{splits}\"per-node-custom-implementation\": \"no-such-file.yml\"}}"),
            "no-such-file.yml: cannot read the per-node custom implementation file: there is no such file \
             (allowed: the path of a readable per-node custom implementation file)"
                .into(),
        ),
    ];
    for (text, message) in cases {
        assert_eq!(only(with(NETWORK, &text, MEMORY)), message, "{text}");
    }
}

const ALLOWED: &str = "ring, direct, directW, halvingDoubling, doubleBinaryTree, oneRing, oneDirect, oneDirectW, \
                       oneHalvingDoubling, where W is a whole number from 1";

#[test]
fn broken_memories_give_one_message() {
    let cases = [
        (
            r#"{"memory-type": "POOL"}"#,
            "memory.json: memory-type: \"POOL\" is not allowed (allowed: NO_MEMORY_EXPANSION, PER_NPU_MEMORY_EXPANSION, \
             PER_NODE_MEMORY_EXPANSION, MEMORY_POOL)",
        ),
        (
            r#"{"memory-type": "MEMORY_POOL", "remote-mem-latency": 1, "remote-mem-bw": 0}"#,
            "memory.json: remote-mem-bw: 0 is not allowed (allowed: a whole number from 1 to 1000000000)",
        ),
        (
            r#"{"memory-type": "MEMORY_POOL", "remote-mem-bw": 1}"#,
            "memory.json: \"remote-mem-latency\" is missing (allowed: a whole number from 0, in ns)",
        ),
        (
            r#"{"memory-type": "PER_NODE_MEMORY_EXPANSION", "remote-mem-latency": 1, "remote-mem-bw": 1, "num-nodes": 1, "num-npus-per-node": 4}"#,
            "memory.json: num-nodes: 1 nodes of 4 NPUs are fewer than the 8 NPUs of the network \
             (allowed: num-nodes times num-npus-per-node at least the number of NPUs)",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(only(with(NETWORK, SYSTEM, text)), message, "{text}");
    }
}

fn with_groups(groups: &str, logical: &str) -> Result<AstraSimInputs, Vec<Problem>> {
    let (comm_group, logical_topology) =
        (Some("groups.json".to_string()), Some("logical.json".to_string()));
    let args = AstraSimArgs { comm_group, logical_topology, ..arguments() };
    let fixed = [("network.yml", NETWORK), ("system.json", SYSTEM), ("memory.json", MEMORY)];
    let files: Vec<_> =
        fixed.into_iter().chain([("groups.json", groups), ("logical.json", logical)]).collect();
    read_files(&args, &files)
}

#[test]
fn groups_keep_their_order_and_logical_sizes_their_texts() {
    let (platform, groups) =
        with_groups(r#"{"10": [6, 0, 2], "2": [1]}"#, r#"{"logical-dims": ["2", "4"]}"#).unwrap();
    assert_eq!(groups, [("2".to_string(), vec![1]), ("10".to_string(), vec![6, 0, 2])]);
    assert_eq!(platform.logical, Some(vec![2, 4]));
}

#[test]
fn broken_groups_give_one_message() {
    let fine = r#"{"logical-dims": ["8"]}"#;
    let cases = [
        (
            r#"{"0": [1]}"#,
            fine,
            "groups.json: 0: the group id \"0\" is not allowed (allowed: a whole number from 1 to 2147483647)",
        ),
        (
            r#"{"tp": [1]}"#,
            fine,
            "groups.json: tp: the group id \"tp\" is not allowed (allowed: a whole number from 1 to 2147483647)",
        ),
        (
            r#"{"1": []}"#,
            fine,
            "groups.json: 1: a list is not allowed (allowed: a list of one or more ranks)",
        ),
        (
            r#"{"1": [0, 8]}"#,
            fine,
            "groups.json: 1[1]: 8 is not allowed (allowed: a whole number from 0 to 7)",
        ),
        (
            r#"{"1": [0, 3, 0]}"#,
            fine,
            "groups.json: 1: rank 0 is in the group twice (allowed: each rank once)",
        ),
        (
            "{}",
            r#"{"logical-dims": ["3", "2"]}"#,
            "logical.json: logical-dims: the logical dimensions hold 6 NPUs, the network 8 (allowed: sizes whose product is the number of NPUs)",
        ),
        (
            "{}",
            r#"{"logical-dims": ["x"]}"#,
            "logical.json: logical-dims[0]: \"x\" is not allowed (allowed: a whole number from 1)",
        ),
    ];
    for (groups, logical, message) in cases {
        assert_eq!(only(with_groups(groups, logical)), message, "{groups} {logical}");
    }
}

#[test]
fn a_group_path_with_empty_in_it_means_none() {
    let mut all = declared::findings::Findings::new("");
    assert_eq!(
        groups::read(Some("/nowhere/empty.json"), Some(4), &file::disk, &mut all),
        Some(Vec::new())
    );
    assert!(all.problems.is_empty());
}

#[test]
fn flags_are_read_as_the_peer_reads_them() {
    let args = AstraSimArgs::parse(&[
        "--workload-configuration=w/p",
        "--system-configuration",
        "s.json",
        "--network-configuration=n.yml",
        "--remote-memory-configuration=m.json",
        "--rendezvous-protocol",
        "--num-queues-per-dim=4",
        "--injection-scale=0.5",
        "--comm-scale=2",
    ])
    .unwrap();
    assert_eq!((args.workload.as_str(), args.system.as_str()), ("w/p", "s.json"));
    assert_eq!((args.rendezvous, args.num_queues_per_dim, args.injection_scale), (true, 4, 0.5));
    assert_eq!(args.without_effect, ["--comm-scale"]);
}

#[test]
fn broken_flags_give_their_messages() {
    let four = [
        "--workload-configuration=w",
        "--system-configuration=s",
        "--network-configuration=n",
        "--remote-memory-configuration=m",
    ];
    let cases = [
        (
            "--num-queues-per-dim=0",
            "--num-queues-per-dim: \"0\" is not allowed (allowed: a whole number from 1)",
        ),
        (
            "--injection-scale=nan",
            "--injection-scale: \"nan\" is not allowed (allowed: a number from 0)",
        ),
        (
            "--rendezvous-protocol=maybe",
            "--rendezvous-protocol: \"maybe\" is not allowed (allowed: true, false)",
        ),
        ("--comm-scale", "--comm-scale: the flag has no value (allowed: --comm-scale=VALUE)"),
    ];
    for (flag, message) in cases {
        let words: Vec<&str> = four.into_iter().chain([flag]).collect();
        let problems = AstraSimArgs::parse(&words).unwrap_err();
        assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>(), [message]);
    }
    let words: Vec<&str> = four.into_iter().chain(["--netwrk-configuration=x"]).collect();
    let text = AstraSimArgs::parse(&words).unwrap_err()[0].to_string();
    assert!(
        text.starts_with(
            "--netwrk-configuration: unknown flag; did you mean \"--network-configuration\"? (allowed: --workload"
        ),
        "{text}"
    );
    assert!(text.ends_with("--backend, --json, --no-fold)"), "{text}");
    let text = AstraSimArgs::parse(&["--bakend=link"]).unwrap_err()[0].to_string();
    assert!(text.starts_with("--bakend: unknown flag; did you mean \"--backend\"?"), "{text}");
    assert_eq!(AstraSimArgs::parse::<&str>(&[]).unwrap_err().len(), 4);
}

fn shared(part: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance").join(part);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} is not there", path.display());
    None
}

fn folder_args(folder: &Path) -> AstraSimArgs {
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    AstraSimArgs {
        system: file("system.json"),
        network: file("network.yml"),
        memory: file("memory.json"),
        ..AstraSimArgs::default()
    }
}

#[test]
fn every_recorded_case_is_read() {
    let Some(root) = shared("astra-sim") else { return };
    let index: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(root.join("index.json")).unwrap()).unwrap();
    for case in index["cases"].as_array().unwrap() {
        let file = |name: &str| {
            case["files"][name].as_str().map(|f| root.join(f).to_string_lossy().into_owned())
        };
        let args = AstraSimArgs {
            system: file("system").unwrap(),
            network: file("network").unwrap(),
            memory: file("memory").unwrap(),
            comm_group: file("comm_group"),
            ..AstraSimArgs::default()
        };
        let id = case["id"].as_str().unwrap();
        let result = read(&args);
        // The peer divides by zero without this key.
        if id == "N_Ring8_ar_splits0" {
            assert!(only(result).contains("system.json: \"preferred-dataset-splits\" is missing"));
            continue;
        }
        let (platform, groups) = result.unwrap_or_else(|problems| panic!("{id}: {problems:?}"));
        assert_eq!(u64::from(platform.fabric.npus()), case["npus"].as_u64().unwrap(), "{id}");
        let raw = platform.profile.astra_sim().unwrap().clone();
        let numbers = |key: &str| {
            case[key].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(
            (raw.bandwidth, raw.latency),
            (numbers("bandwidth"), numbers("latency")),
            "{id}"
        );
        assert_eq!(groups.is_empty(), args.comm_group.is_none(), "{id}");
    }
}

#[test]
fn every_broken_case_of_these_files_gives_one_problem() {
    let Some(root) = shared("bad") else { return };
    let cases = [
        ("bad_json", "system.json", "line 1, column 31"),
        ("epd_negative", "system.json", "endpoint-delay"),
        ("huge_latency", "network.yml", "line 4, latency[0]"),
        ("impl_string_not_list", "system.json", "all-reduce-implementation"),
        ("len_mismatch", "network.yml", "line 1"),
        ("missing_memory", "memory.json", ""),
        ("missing_network", "network.yml", ""),
        ("neg_bandwidth", "network.yml", "line 3, bandwidth[0]"),
        ("neg_latency", "network.yml", "line 4, latency[0]"),
        ("npu1", "network.yml", "line 2, npus_count[0]"),
        ("unknown_alg", "system.json", "all-reduce-implementation[0]"),
        ("yaml_syntax", "network.yml", "line 2, column 11"),
        ("zero_bandwidth", "network.yml", "line 3, bandwidth[0]"),
    ];
    for entry in std::fs::read_dir(&root).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let result = read(&folder_args(&folder));
        match cases.iter().find(|case| case.0 == name) {
            None => assert!(result.is_ok(), "{name}: {result:?}"),
            Some((_, file, place)) => {
                let problems = result.unwrap_err();
                assert_eq!(problems.len(), 1, "{name}: {problems:?}");
                assert!(
                    problems[0].file.ends_with(file) && problems[0].place == *place,
                    "{name}: {}",
                    problems[0]
                );
                assert!(!problems[0].help.is_empty(), "{name}");
            }
        }
    }
}

proptest! {
    #[test]
    fn no_changed_file_panics(which in 0usize..4, at in 0usize..400, text in "[a-zA-Z0-9:\\[\\]{}\", .\n-]{0,6}", drop in 0usize..12) {
        let mut files = [("network.yml", NETWORK), ("system.json", SYSTEM), ("memory.json", MEMORY), ("groups.json", r#"{"1": [0, 2]}"#)];
        let mut changed: Vec<char> = files[which].1.chars().collect();
        let at = at.min(changed.len());
        changed.splice(at..(at + drop).min(changed.len()), text.chars());
        let changed: String = changed.into_iter().collect();
        files[which].1 = &changed;
        let args = AstraSimArgs { comm_group: Some("groups.json".into()), ..arguments() };
        if let Err(problems) = read_files(&args, &files) {
            prop_assert!(!problems.is_empty());
        }
    }
}
