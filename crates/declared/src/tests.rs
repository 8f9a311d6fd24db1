//! One declaration is all that a key needs: here a section that no platform file has.

use crate::findings::{At, Findings};
use crate::parse;
use crate::tree::Tree;
use crate::{Setting, Shown, Tried, document, listed, rename, renamed_path, section, table};
use serde_json::json;
use units::{Ratio, Span};

section! {
    /// A cooler.
    #[derive(Clone, Debug, PartialEq)]
    struct Cooler {
        /// Time until it runs at
        /// full speed.
        pub start_up: Span, required "a time, such as \"3 s\"", was ["start"];
        /// Time until it stops.
        pub run_down: Span, like start_up;
        /// Part of its power that it uses.
        pub load: Ratio, default Ratio::ONE;
        /// Blades of each of its two fans.
        pub blades: Option<[u32; 2]>, default None;
        /// The pump.
        pub pump: Option<Pump>, default None, was ["pumping"];
    }
}

section! {
    /// A pump.
    #[derive(Clone, Debug, PartialEq)]
    struct Pump {
        /// Whether it is on.
        pub on: bool, default true, was ["running"];
    }
}

section! {
    /// A file.
    struct Root {
        /// The cooler of the cluster.
        pub cooler: Option<Cooler>, default None;
    }
}

fn parsed(text: &str) -> (Tree, Findings) {
    let mut findings = Findings::new("cooler.yml");
    let mut tree = parse::yaml(text, &mut findings).expect("valid YAML");
    rename(&mut tree, Cooler::keys(), &mut findings);
    (tree, findings)
}

fn read(text: &str) -> (Option<Cooler>, Findings) {
    let (tree, mut findings) = parsed(text);
    (Cooler::read(&At::root(&tree), &mut findings), findings)
}

fn shown(cooler: &Cooler) -> String {
    document(&Root { cooler: Some(cooler.clone()) }.show().expect("a mapping"))
}

#[test]
fn a_declared_key_is_read_and_printed() {
    let (cooler, _) = read("{start_up: 3 us, load: 50 %, blades: [7, 9], pump: {on: false}}");
    let cooler = cooler.expect("valid");
    assert_eq!(cooler.run_down, Span::from_ns(3_000), "like start_up");
    assert_eq!((cooler.load, cooler.blades), (Ratio(500_000), Some([7, 9])));
    assert_eq!(
        shown(&cooler),
        "cooler:\n  start_up: 3 us\n  run_down: 3 us\n  load: 0.5\n  blades: [7, 9]\n  pump: {on: false}\n"
    );
    let text = shown(&cooler).replace("cooler:", "").replace("\n  ", "\n");
    assert_eq!(read(&text).0, Some(cooler));
}

#[test]
fn a_declared_key_is_json_with_its_unit() {
    let (cooler, _) = read("start_up: 3 us");
    assert_eq!(
        cooler.expect("valid").json(),
        json!({"start_up_ps": 3_000_000, "run_down_ps": 3_000_000, "load_ppm": 1_000_000,
               "blades": null, "pump": null})
    );
}

#[test]
fn a_declared_key_is_changed_by_name() {
    let (cooler, _) = read("{start_up: 3 us, pump: {}}");
    let mut cooler = cooler.expect("valid");
    assert!(cooler.change("load", 0.25) && cooler.change("start_up", 7.0));
    assert_eq!((cooler.load, cooler.start_up), (Ratio(250_000), Span::from_ns(7_000)));
    assert!(!cooler.change("pump", 1.0) && !cooler.change("blades[0]", 1.0));
    assert!(!cooler.change("colour", 1.0));
}

#[test]
fn a_declared_key_is_documented() {
    let rows = table(&listed(Root::keys()));
    assert!(
        rows.contains("| `cooler` | mapping | none | The cooler of the cluster. |\n"),
        "{rows}"
    );
    assert!(
        rows.contains(
            "| `cooler.start_up` | time | required | Time until it runs at full speed. |\n\
         | `cooler.run_down` | time | as `start_up` | Time until it stops. |\n\
         | `cooler.load` | ratio | 1 | Part of its power that it uses. |\n\
         | `cooler.blades` | 2 counts | none | Blades of each of its two fans. |\n"
        ),
        "{rows}"
    );
    assert!(rows.contains("| `cooler.pump.on` | `true`, `false` | true | Whether it is on. |\n"));
}

#[test]
fn wrong_values_are_all_named() {
    let (cooler, findings) = read("{load: 3 GB, blade: 1, pump: {on: 7}}");
    assert_eq!(cooler, None);
    let found: Vec<String> = findings.problems.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found[0].contains("unknown key \"blade\"; did you mean \"blades\"?"), "{found:?}");
    assert!(found[1].contains("\"start_up\" is missing (allowed: a time, such as \"3 s\")"));
    assert!(found[2].contains("line 1, load: "), "{found:?}");
    assert!(found[3].contains("line 1, pump.on: "), "{found:?}");
}

#[test]
fn old_names_are_read_with_a_warning() {
    let (cooler, findings) = read("{start: 3 us, pumping: {running: false}}");
    assert_eq!(cooler.expect("valid").pump, Some(Pump { on: false }));
    assert_eq!(
        findings.warnings,
        [
            "the key start is now called start_up; the old name will go",
            "the key pumping is now called pump; the old name will go",
            "the key pump.running is now called pump.on; the old name will go",
        ]
    );
    let (_, findings) = parsed("{start: 3 us, start_up: 4 us}");
    assert_eq!(
        findings.problems[0].to_string(),
        "cooler.yml: line 1, start_up: \"start\" is the old name of this key (allowed: only start_up)"
    );
}

#[test]
fn old_names_are_replaced_on_the_command_line() {
    let mut findings = Findings::new("");
    let mut value = Tree::text("false");
    let mut new = |path: &str| renamed_path(path, &mut value, Root::keys(), &mut findings);
    assert_eq!(new("cooler.pumping.running"), "cooler.pump.on");
    assert_eq!(new("cooler.blades[1]"), "cooler.blades[1]");
    assert_eq!(new("links[0].bandwidth"), "links[0].bandwidth");
    assert_eq!(findings.warnings.len(), 1);
}

#[test]
fn long_mappings_take_a_line_for_each_key() {
    let long = || Shown::of("x".repeat(60));
    let inner = Shown::Map(vec![("a", long()), ("b", long())]);
    let file = Shown::Map(vec![("outer", Shown::Map(vec![("key", inner)]))]);
    assert_eq!(document(&file).lines().count(), 4);
}

/// A key that may be broken is described like the value it holds.
#[test]
fn a_tried_key_is_described_like_its_value() {
    assert_eq!(Tried::<Pump>::kind(), Pump::kind());
    assert_eq!(Tried::<Pump>::example(), "a mapping with on");
}
