//! `topology: {file: ...}`: the graph that it brings, what it takes the place of, and faults.

use super::testing::Folder;

const GRAPH: &str = "name: board
source: a drawing
logical: [2, 2]
graph:
  npus: [a, b, c, d]
  switches: [root]
  links:
  - {between: [a, b], bandwidth: 100 GB/s, latency: 500 ns}
  - {between: [a, root], bandwidth: 25 GB/s, latency: 1 us}
  - {between: [b, root], bandwidth: 25 GB/s, latency: 1 us}
  - {between: [c, root], bandwidth: 25 GB/s, latency: 1 us}
  - {between: [d, root], bandwidth: 25 GB/s, latency: 1 us}
";

const BASE: &str = "source: a data sheet
topology: R(4)
links: {bandwidth: 1 GB/s, latency: 1 us}
scheduler: {chunks: 3}
";

/// The same platform, whether its graph stands in it, next to it, or next to a file it extends.
#[test]
fn a_graph_may_stand_in_a_file_of_its_own() {
    let folder = Folder::new(
        "graph-file",
        &[
            ("whole.yml", GRAPH),
            ("parts/board.yml", GRAPH),
            ("own.yml", "name: board\nsource: a drawing\ntopology: {file: parts/board.yml}\n"),
            ("base.yml", BASE),
            ("extending.yml", "extends: base\ntopology: {file: parts/board.yml}\n"),
            ("deep/base.yml", "extends: ../base.yml\ntopology: {file: ../parts/board.yml}\n"),
            ("deeper.yml", "extends: deep/base.yml\nlogical: [4]\n"),
            ("json.yml", "topology: {file: board.json}\n"),
            (
                "board.json",
                r#"{"graph": {"npus": 2, "links": [{"between": ["npu0", "npu1"],
                    "bandwidth": "1 GB/s", "latency": "1 us"}]}}"#,
            ),
        ],
    );
    let whole = folder.load("whole.yml").unwrap();
    assert_eq!(folder.load("own.yml").as_ref(), Ok(&whole));
    let extending = folder.load("extending.yml").unwrap();
    assert_eq!((&extending.fabric, &extending.logical), (&whole.fabric, &whole.logical));
    assert_eq!(extending.scheduler.chunks, 3);
    assert_eq!((extending.name.as_str(), extending.source.as_str()), ("extending", "a data sheet"));
    let deeper = folder.load("deeper.yml").unwrap();
    assert_eq!((&deeper.fabric, deeper.logical), (&whole.fabric, Some(vec![4])));
    assert_eq!(folder.load("json.yml").unwrap().fabric.npus(), 2);
    let set = [("topology".to_string(), format!("{{file: {}/whole.yml}}", folder.0.display()))];
    assert_eq!(folder.load_with("base.yml", &set).unwrap().fabric, whole.fabric);
}

/// Faults in the graph name its file and line, and where the platform names the file.
#[test]
fn problems_name_both_files() {
    let folder = Folder::new(
        "graph-file-faults",
        &[
            ("own.yml", "name: x\ntopology: {file: board.yml}\n"),
            (
                "board.yml",
                &GRAPH.replace("[c, root], bandwidth: 25 GB/s", "[c, rot], bandwidth: 2"),
            ),
            ("more.yml", "topology: {file: stack.yml}\n"),
            ("stack.yml", BASE),
            ("lost.yml", "name: x\n\ntopology: {file: lots.yml}\n"),
            ("syntax.yml", "topology: {file: broken.yml}\n"),
            ("broken.yml", "graph:\n  npus: [\n"),
            ("number.yml", "topology: {file: 3}\n"),
        ],
    );
    let of = |file: &str| folder.load(file).unwrap_err();
    let named = "; own.yml: line 2, topology.file names this file";
    let problems = of("own.yml");
    assert!(
        problems[0].starts_with("board.yml: line 11, graph.links[3].bandwidth: ")
            && problems.iter().all(|each| each.contains(named)),
        "{problems:?}"
    );
    let problems = of("more.yml");
    assert!(problems[0].starts_with("stack.yml: line 2, topology: unknown key \"topology\""));
    assert!(problems.last().unwrap().starts_with("stack.yml: "), "{problems:?}");
    assert!(problems.last().unwrap().contains("\"graph\" is missing"), "{problems:?}");
    assert_eq!(
        of("lost.yml"),
        [
            "lost.yml: line 3, topology.file: \"lots.yml\": cannot read the graph's file: there is no \
          such file (allowed: the path of a readable graph's file)"
        ]
    );
    assert_eq!(
        of("syntax.yml"),
        [
            "broken.yml: line 2, column 9: YAML syntax error: unclosed bracket '['; syntax.yml: line \
          1, topology.file names this file (allowed: valid YAML)"
        ]
    );
    assert_eq!(
        of("number.yml"),
        ["number.yml: line 1, topology.file: 3 is not text (allowed: text)"]
    );
}

/// The network of an extended file gives way; one in the same file does not.
#[test]
fn two_networks_in_one_file_are_refused() {
    let links = "links: {bandwidth: 1 GB/s, latency: 1 us}\n";
    let folder = Folder::new(
        "graph-file-twice",
        &[
            ("board.yml", GRAPH),
            ("links.yml", &format!("topology: {{file: board.yml}}\n{links}")),
            ("drawn.yml", "topology: {file: board.yml, generator: cube_mesh}\n"),
            ("base.yml", "topology: {file: board.yml}\n"),
            ("later.yml", &format!("extends: base\n{links}")),
        ],
    );
    let allowed = "exclude each other (allowed: one of them)";
    let of = |file: &str| folder.load(file).unwrap_err();
    assert_eq!(
        of("links.yml"),
        [format!("links.yml: line 2, links: \"topology.file\" and \"links\" {allowed}")]
    );
    assert_eq!(
        of("drawn.yml"),
        [format!(
            "drawn.yml: line 1, topology.generator: \"topology.file\" and \"topology.generator\" \
             {allowed}"
        )]
    );
    assert_eq!(
        of("later.yml"),
        [format!("later.yml: line 2, links: \"topology.file\" and \"links\" {allowed}")]
    );
}
