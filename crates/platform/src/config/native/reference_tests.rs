//! Every key is declared once, and everything about it follows from there.

use super::testing::systems;
use super::*;
use declared::parse;
use declared::tree::Value;
use std::collections::BTreeSet;

/// The paths of all keys of a file, without indices.
fn paths(tree: &Tree, path: &str, found: &mut BTreeSet<String>) {
    match &tree.value {
        Value::List(items) => items.iter().for_each(|item| paths(item, path, found)),
        Value::Map(entries) => {
            for (key, value) in entries {
                let dot = if path.is_empty() { "" } else { "." };
                let path = format!("{path}{dot}{}", key.name);
                paths(value, &path, found);
                found.insert(path);
            }
        }
        _ => {}
    }
}

/// The keys of a text. Those of a fabric inside another one are those of `topology`.
fn keys_of(text: &str) -> BTreeSet<String> {
    let tree = parse::yaml(text, &mut Findings::default()).expect("valid YAML");
    let mut found = BTreeSet::new();
    paths(&tree, "", &mut found);
    let parts = ["topology.inner.", "topology.outer."];
    let outermost = |path: String| match parts.iter().find_map(|part| path.strip_prefix(part)) {
        Some(rest) => format!("topology.{rest}"),
        None => path,
    };
    found.into_iter().map(outermost).collect()
}

/// Files of presets, with the parts that they extend.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|ending| ending == "yml") {
            found.push(path);
        }
    }
    found
}

/// Every key that a file of `systems/` gives, and every key that is printed, is declared. So it is
/// in the tables (`tests/reference.rs`) and in the completion.
#[test]
fn every_key_of_every_preset_is_declared() {
    let declared: BTreeSet<String> = keys().into_iter().map(|key| key.path).collect();
    for file in files(&systems()) {
        let given = keys_of(&std::fs::read_to_string(&file).unwrap());
        let unknown: Vec<&String> = given.difference(&declared).collect();
        assert!(unknown.is_empty(), "{file:?}: {unknown:?}");
    }
    let search = [systems()];
    for name in presets(&search) {
        let (platform, explained) = explain(&name, &search, &[]).unwrap();
        let printed = keys_of(&to_yaml(&platform));
        let unknown: Vec<&String> = printed.difference(&declared).collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
        assert_eq!(from_yaml(&explained, "again.yml", &[]), Ok(platform), "{name}");
    }
}

/// Readers name keys by the constants of their declarations.
#[test]
fn no_reader_spells_a_key() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/native");
    let mut found = Vec::new();
    let mut open = vec![folder];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let test = path.to_string_lossy().ends_with("_tests.rs");
        let text = if test { String::new() } else { std::fs::read_to_string(&path).unwrap() };
        let spelled = |line: &&str| {
            [".get(\"", "need(at, \"", "missing(at, \""].iter().any(|call| line.contains(call))
        };
        found.extend(text.lines().filter(spelled).map(|line| format!("{path:?}: {line}")));
    }
    assert!(found.is_empty(), "{found:#?}");
}
