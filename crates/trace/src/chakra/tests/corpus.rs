//! Recorded traces of others.

use super::*;

#[test]
fn recorded_traces_of_the_conformance_corpus_read() {
    let Some(cases) = shared("conformance/astra-sim/cases") else { return };
    let mut read_cases = 0;
    for case in std::fs::read_dir(cases).unwrap() {
        let case = case.unwrap().path();
        let groups = group_file(&case.join("comm_group.json"));
        let outcome = read(&case.join("trace"), None, &groups, &ReadOptions::default());
        if case.ends_with("N_Ring4_pg_unknown") {
            assert!(outcome.unwrap_err()[0].message.contains("pg_name"));
        } else {
            let workload =
                outcome.unwrap_or_else(|problems| panic!("{}: {}", case.display(), problems[0]));
            let problems = graph::check(&workload, workload.ranks.len() as u32);
            // ASTRA-sim aborts on the one and stalls on the other; it finishes all the rest or
            // stops for the platform's sake.
            let wrong = ["N_Ring8_grp_nonmember", "N_Ring4_size_mismatch"]
                .iter()
                .any(|name| case.ends_with(name));
            assert_eq!(!problems.is_empty(), wrong, "{}: {problems:?}", case.display());
        }
        read_cases += 1;
    }
    assert!(read_cases > 200, "{read_cases} cases");
}

fn group_file(path: &Path) -> Vec<(String, Vec<u32>)> {
    let Ok(bytes) = std::fs::read(path) else { return Vec::new() };
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&bytes).unwrap();
    object.into_iter().map(|(name, ranks)| (name, serde_json::from_value(ranks).unwrap())).collect()
}

/// Prints how every recorded trace loads: `cargo test -p trace recorded_public -- --nocapture`.
#[test]
fn recorded_public_traces_read_or_say_why_not() {
    let Some(root) = shared("traces") else { return };
    let mut stack = vec![root.clone()];
    let mut files = Vec::new();
    while let Some(directory) = stack.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { stack.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let groups = group_file(&root.join("stg/g64/comm_group.json"));
    for file in files {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        let rank =
            find::split(file.file_name().unwrap().to_str().unwrap(), b".").map_or(0, |s| s.1);
        let bytes = std::fs::read(&file).unwrap();
        let outcome = match name.ends_with(".et") {
            true => decode(&bytes, &name, rank, &ReadOptions::default())
                .map(|d| d.program.nodes().len()),
            false => {
                read(&file, None, &groups, &ReadOptions::default()).map(|w| w.operations() as usize)
            }
        };
        match outcome {
            Ok(nodes) => {
                println!("{name}: {nodes} nodes");
                assert!(nodes > 0, "{name}");
            }
            Err(problems) => {
                println!("{name}: {} ({} problems)", problems[0], problems.len());
                assert!(
                    !name.ends_with(".et") || name.contains("/trace."),
                    "{name}: {}",
                    problems[0]
                );
                assert!(!problems[0].message.is_empty());
            }
        }
    }
    let replay = ReadOptions { replay: true };
    let recorded = read(
        &root.join("mlcommons+chakra/tests/data/feeder_tests_trace.tar.gz"),
        None,
        &[],
        &replay,
    );
    let recorded = recorded.unwrap_or_else(|problems| panic!("{}", problems[0]));
    println!("feeder_tests_trace replayed: {} nodes, {:?}", recorded.operations(), recorded.notes);
    assert!(recorded.operations() > 1000);
    let workload =
        read(&root.join("stg/g64/workload"), Some(64), &groups, &ReadOptions::default()).unwrap();
    println!(
        "stg/g64: {} ranks, {} programs, {} groups",
        64,
        workload.programs.len(),
        workload.groups.len()
    );
    assert_eq!(workload.programs.len(), 2, "two pipeline stages, each the same on 32 ranks");
    assert_eq!(graph::check(&workload, 64), []);
}

/// Each broken input of the corpus whose fault is in its traces: rank, and a part of what must be
/// said.
#[test]
fn broken_traces_of_the_conformance_corpus_are_explained() {
    let Some(bad) = shared("conformance/bad") else { return };
    let cases = [
        ("cycle_partial", "nodes wait for each other in a cycle: 1 -> 2 -> 1"),
        ("dangling_dep", "node 1: it depends on node 99, which is not in the trace"),
        ("dup_id", "node id 0 is defined twice"),
        ("metadata_only", "rank 2: the trace holds no nodes"),
        ("more_npus_than_traces", "no trace for"),
        ("fewer_npus_than_traces", "4 traces for a platform of"),
        ("negative_size", "comm_size is -5"),
        ("rank_mismatch_size", "disagree about collective 1"),
        ("send_to_self", "sends to itself"),
        ("send_wrong_src", "comm_src is 1 in the trace of rank 0"),
        ("trunc_half", "trunc_half/trace.2.et: rank 2 byte 8: the file ends"),
        ("unknown_comm_type", "comm_type is 42"),
    ];
    for (case, message) in cases {
        let npus = std::fs::read_to_string(bad.join(case).join("network.yml")).unwrap();
        let npus = npus
            .split("npus_count:")
            .nth(1)
            .unwrap()
            .split(['[', ']'])
            .nth(1)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let path = bad.join(case).join("trace");
        let problems = match read(&path, Some(npus), &[], &ReadOptions::default()) {
            Ok(workload) => graph::check(&workload, npus),
            Err(problems) => problems,
        };
        assert!(problems.iter().any(|p| p.to_string().contains(message)), "{case}: {problems:?}");
    }
}
