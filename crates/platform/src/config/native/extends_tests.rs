//! `extends`: what merges, what is refused and where, and presets that stay what they were.

use super::testing::Folder;
use super::{from_yaml, load, load_with, presets};
use std::path::Path;
use units::{Bytes, Flops};

const BASE: &str = "name: base
source: a data sheet
topology: R(4)
links: {bandwidth: 1 GB/s, latency: 1 us}
npu: {name: A, peak: 1 TFLOPS, memory: {bandwidth: 1 TB/s, capacity: 1 GB}}
";

#[test]
fn mappings_merge_and_the_rest_is_replaced() {
    let folder = Folder::new(
        "merge",
        &[
            ("base.yml", BASE),
            ("own.yml", "extends: base\nnpu: {memory: {capacity: 2 GB}}\nscheduler: {chunks: 3}\n"),
        ],
    );
    let (base, own) = (folder.load("base.yml").unwrap(), folder.load("own.yml").unwrap());
    assert_eq!(own.npu.memory_capacity, Some(Bytes(2_000_000_000)));
    assert_eq!(
        (own.npu.memory_bandwidth, own.npu.peak),
        (base.npu.memory_bandwidth, base.npu.peak)
    );
    assert_eq!((own.fabric, own.source), (base.fabric, base.source));
    assert_eq!(own.scheduler.chunks, 3);
    assert_eq!((base.name.as_str(), own.name.as_str()), ("base", "own"), "names are not passed on");
}

#[test]
fn later_files_win_null_removes_and_lists_are_replaced() {
    let folder = Folder::new(
        "order",
        &[
            ("base.yml", BASE),
            ("parts/fast.yml", "npu: {peak: 9 TFLOPS}\n"),
            (
                "own.yml",
                "extends: [base, parts/fast.yml]
topology: R(4)_R(2)
links: [{bandwidth: 2 GB/s, latency: 1 us}, {bandwidth: 1 GB/s, latency: 1 us}]
npu: {memory: null}
",
            ),
        ],
    );
    let own = folder.load("own.yml").unwrap();
    assert_eq!(own.npu.peak, Some(Flops(9_000_000_000_000)));
    assert_eq!(own.npu.memory_capacity, None);
    assert_eq!(own.fabric.sizes(), [4, 2]);
    assert_eq!(presets(std::slice::from_ref(&folder.0)), ["base", "own"], "parts are no presets");
}

/// A value's problem names the file in which it stands, with its line there.
#[test]
fn problems_name_the_file_of_the_value() {
    let folder = Folder::new(
        "origin",
        &[
            ("base.yml", &BASE.replace("1 TFLOPS", "1 TFLOP")),
            ("own.yml", "extends: base\nnpu:\n  memory: {capacity: 2}\n"),
        ],
    );
    let problems = folder.load("own.yml").unwrap_err();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("base.yml: line 5, npu.peak: "), "{problems:?}");
    assert!(problems[1].starts_with("own.yml: line 3, npu.memory.capacity: "), "{problems:?}");
}

#[test]
fn circles_and_missing_files_are_refused() {
    let folder = Folder::new(
        "circle",
        &[
            ("a.yml", "extends: b.yml\n"),
            ("b.yml", "extends: a.yml\n"),
            ("lost.yml", "name: lost\nextends: a-preset\n"),
            ("list.yml", "extends: text.yml\n"),
            ("text.yml", "- a\n"),
        ],
    );
    let of = |file: &str| folder.load(file).unwrap_err();
    assert_eq!(
        of("a.yml"),
        ["b.yml: line 1, extends: files extend each other in a circle: a.yml -> b.yml -> a.yml \
          (allowed: files that do not lead back to this one)"]
    );
    assert!(of("lost.yml")[0].starts_with(
        "lost.yml: line 2, extends: \"a-preset\": there is no preset and no file of this name"
    ));
    assert!(of("list.yml")[0].starts_with("text.yml: line 1: a platform file must be a mapping"));
}

/// Presets with a name of their own folder: a user types the name alone.
#[test]
fn a_preset_of_a_folder_is_found_and_can_be_extended() {
    let systems = [Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems")];
    let preset = load("dgx-h100", &systems).expect("a preset");
    let text = "extends: dgx-h100\nname: dgx-h100\n";
    assert_eq!(super::from_yaml_with(text, "p.yml", &systems, &[]).as_ref(), Ok(&preset));
    assert!(from_yaml(text, "p.yml", &[]).is_err(), "no folder of presets is given");
    let set = [("npu.memory.capacity".to_string(), "1 GB".to_string())];
    let changed = load_with("dgx-h100", &systems, &set).expect("a preset");
    assert_eq!(changed.npu.memory_capacity, Some(Bytes(1_000_000_000)));
}
