//! The form of Fig. 8: what it means is what the columns mean, but for the update's time.

use super::*;
use units::Span;

const FIGURE: &str = "\
Parallelism Type: DATA
Number of Layers: 2
Layer 1
Name: conv1
Compute Time: 13003 12864 32291
Coll Comm Type: NONE NONE ALLREDUCE
Coll Comm Size: 0 0 37632
Local Update Time: 3229

Layer 2
Name: fc
Compute Time: 16416 27708 9220
Coll Comm Type: NONE NONE ALLREDUCE
Coll Comm Size: 0 0 8192000
Local Update Time: 922
";

/// 3,229 ns for each of 36.75 KB, rounded up, and 922 ns for each of 8,000 KB.
const COLUMNS: &str = "\
DATA
2
conv1 -1 13003 NONE 0 12864 NONE 0 32291 ALLREDUCE 37632 118666
fc -1 16416 NONE 0 27708 NONE 0 9220 ALLREDUCE 8192000 7376000
";

fn nodes(text: &str) -> Vec<(String, Span)> {
    let layers = parse(text.as_bytes(), "t.txt").unwrap_or_else(|all| panic!("{all:?}"));
    let workload = layers.workload(2, Some(&[4]), "t.txt").unwrap_or_else(|all| panic!("{all:?}"));
    let program = workload.program(0);
    let nodes = program.nodes().iter().enumerate();
    nodes.map(|(at, node)| (program.name(at).to_string(), node.duration)).collect()
}

fn first_problem(text: &str) -> String {
    parse(text.as_bytes(), "t.txt").expect_err("it is wrong")[0].to_string()
}

#[test]
fn the_figure_means_the_same_as_columns_with_the_products() {
    assert_eq!(nodes(FIGURE), nodes(COLUMNS));
}

#[test]
fn labels_that_the_figure_prints_without_a_colon_may_be_missing() {
    let bare = FIGURE
        .replace("Parallelism Type: ", "")
        .replace("Number of Layers: ", "")
        .replace("Name: ", "");
    assert_eq!(nodes(&bare), nodes(FIGURE));
}

#[test]
fn updates_of_each_pass_have_the_size_of_its_collective() {
    let both = FIGURE
        .replace("Type: DATA", "Type: MODEL")
        .replace("NONE NONE ALLREDUCE", "ALLREDUCE ALLREDUCE NONE")
        .replace("0 0 37632", "1024 2048 0");
    let found = nodes(&both);
    let update = |name: &str| found.iter().find(|node| node.0 == name).map(|node| node.1);
    assert_eq!(update("conv1.forward.update"), Some(Span(3_229_000)));
    assert_eq!(update("fc.forward.update"), None, "no bytes, no update");
}

#[test]
fn an_assumption_is_noted() {
    let layers = parse(FIGURE.as_bytes(), "t.txt").expect("it is right");
    let workload = layers.workload(1, Some(&[4]), "t.txt").expect("it fits");
    assert_eq!(
        workload.notes,
        [("a local update time is that of each KB, taken as 1,024 bytes".to_string(), 2)]
    );
}

#[test]
fn printed_layers_read_the_same() {
    let layers = parse(FIGURE.as_bytes(), "t.txt").expect("it is right");
    assert_eq!(parse(layers.to_string().as_bytes(), "t.txt"), Ok(layers));
}

#[test]
fn faults_have_the_line_of_their_field() {
    for (right, wrong, said) in [
        ("Layer 2", "Layer 3", "line 10: expected Layer 2, found \"Layer 3\""),
        ("13003 12864", "13003 -1", "line 5 (input gradient compute time): the value is \"-1\""),
        ("NONE NONE ALLREDUCE", "NONE NONE SUM", "line 6 (weight gradient collective): the value"),
        ("0 0 37632", "0 0", "line 7: expected Coll Comm Size: and 3 of its values"),
        ("Local Update Time: 3229", "Update Time: 1", "line 8: expected Local Update Time:"),
        ("of Layers: 2", "of Layers: 3", "line 2: the number of layers is 3, but 2 layers follow"),
        ("Type: DATA", "Type: HYBRID_CUSTOMIZED", "HYBRID_CUSTOMIZED needs a word of each layer"),
    ] {
        let found = first_problem(&FIGURE.replacen(right, wrong, 1));
        assert!(found.contains(said), "{found}");
    }
    let cut = FIGURE.replace("Local Update Time: 922\n", "");
    assert!(first_problem(&cut).contains("Local Update Time: is missing behind line 11"));
}
