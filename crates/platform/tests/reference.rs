//! The tables of keys in the documentation are those that the declarations give.
//! `WRITE_DOCS=1 cargo test -p platform --test reference` (`make reference`) writes them.

use platform::config::native::{documented, keys};
use std::fs;
use std::path::Path;

const PAGES: [&str; 9] = [
    "guides/external-simulators.md",
    "reference/platform-files.md",
    "models/compute.md",
    "models/kernels.md",
    "models/libraries.md",
    "models/memory.md",
    "models/networks-flit.md",
    "models/networks-packet.md",
    "models/topologies.md",
];

fn pages() -> impl Iterator<Item = std::path::PathBuf> {
    PAGES.iter().map(|page| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page))
}

#[test]
fn pages_have_the_declared_keys() {
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        assert!(text.contains("<!-- keys: "), "{page:?} has no table of keys");
        let new = documented(&text);
        if std::env::var_os("WRITE_DOCS").is_some() {
            fs::write(&page, &new).expect("a page that can be written");
        } else {
            assert!(new == text, "the tables of {page:?} are old: run make reference");
        }
    }
}

#[test]
fn every_key_has_a_type_and_a_meaning() {
    let all = keys();
    assert!(all.iter().any(|key| key.path == "library.node.efficiency"), "{all:?}");
    for key in all {
        assert!(key.doc.ends_with('.') && !key.kind.is_empty(), "{key:?}");
    }
}

#[test]
fn every_key_is_in_a_table() {
    let texts: String = pages().map(|page| fs::read_to_string(page).expect("a page")).collect();
    for key in keys().into_iter().filter(|key| !key.again) {
        assert!(texts.contains(&format!("| `{}` | ", key.path)), "{} is in no table", key.path);
    }
}
