//! Presets: found by name, complete, and printed so that they read back.

use super::testing::*;
use super::*;

#[test]
fn a_wrong_preset_name_offers_the_near_one() {
    let search = [systems()];
    let problems = load("dgx-h10", &search).unwrap_err();
    assert_eq!(
        problems[0].message,
        "there is no preset and no file of this name; did you mean \"dgx-h100\"?"
    );
    let problems = load("no/such.yml", &search).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "no/such.yml: cannot read the platform file: there is no such file (allowed: the path of a readable platform file)"
    );
}

#[test]
fn every_preset_loads_reads_back_and_names_its_source() {
    let search = [systems()];
    let names = presets(&search);
    assert!(names.len() >= 25, "{names:?}");
    for name in names {
        let platform =
            load(&name, &search).unwrap_or_else(|problems| panic!("{name}: {}", problems[0]));
        assert_eq!(platform.name, name, "the name in the file is the file's");
        assert!(!platform.source.is_empty(), "{name} has no source");
        topology::LinkGraph::new(&platform.fabric)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(from_yaml(&to_yaml(&platform), "again.yml", &[]), Ok(platform), "{name}");
    }
}

#[test]
fn every_example_reads_back_as_it_is_printed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/platforms");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("examples") {
        let path = entry.expect("an example").path();
        if path.extension().is_none_or(|end| end != "yml") {
            continue;
        }
        let name = path.to_str().expect("a name");
        let platform = load(name, &[systems()]).unwrap_or_else(|p| panic!("{name}: {}", p[0]));
        // Paths in it are from its folder.
        assert_eq!(from_yaml(&to_yaml(&platform), name, &[]), Ok(platform), "{name}");
        count += 1;
    }
    assert!(count > 50, "{count} examples");
}
