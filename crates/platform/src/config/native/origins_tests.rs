//! `platform show`: where each value comes from.

use super::*;

/// A preset that extends a part, a file that extends the preset, and a value of the command line.
#[test]
fn each_value_names_its_file_and_line() {
    let folder = std::env::temp_dir().join(format!("armillary-origins-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    };
    let base = write("base.yml", "npu:\n  name: X\n  peak: 1 TFLOPS\n  launch: 2 us\n");
    let own = write(
        "own.yml",
        "extends: base.yml\ntopology: R(4)_SW(2)\nlinks: {bandwidth: 1 GB/s, latency: 1 us}\n\
         npu:\n  peak: 3 TFLOPS\n",
    );
    let set = [("scheduler.chunks".to_string(), "8".to_string())];
    let (platform, text) = explain(&own, &[], &set).unwrap();
    let comment = |start: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(start));
        line.and_then(|line| line.split("  # ").nth(1)).unwrap_or_default().to_string()
    };
    assert_eq!(comment("topology:"), format!("{own}:2"), "{text}");
    assert_eq!(comment("- bandwidth:"), format!("{own}:3"));
    assert_eq!(comment("per:"), "default");
    assert_eq!(comment("peak:"), format!("{own}:5"));
    assert_eq!(comment("launch:"), format!("{base}:4"));
    assert_eq!(comment("chunks:"), "--set");
    assert_eq!(comment("policy:"), "default");
    assert_eq!(from_yaml(&text, "again.yml", &[]), Ok(platform), "comments do not matter");
    std::fs::remove_dir_all(&folder).unwrap();
}
