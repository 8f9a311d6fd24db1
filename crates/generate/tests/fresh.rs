//! The generated files of the repository are those that today's types make.

use std::path::Path;

#[test]
fn no_generated_file_is_stale() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let outputs = generate::outputs(&root).expect("pages that can be read");
    let found = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let stale: Vec<&str> =
        outputs.iter().filter(|o| found(o.path) != o.text).map(|o| o.path).collect();
    assert!(stale.is_empty(), "run `make generate`: {stale:?}");
}
