//! `extends`: a platform file that starts from presets or other files and says what differs.
//!
//! ```yaml
//! extends: dgx-h100                       # a preset, or a path seen from this file
//! extends: [../parts/gpu/h100.yml, ../parts/library/nccl-hopper.yml]   # later ones win
//! ```
//!
//! Mappings merge key by key, everything else is replaced, and `null` removes a key. `name` is not
//! passed on. Files may extend further files. Each value keeps the file and line where it stands.

use super::presets;
use super::top_level_keys::Root;
use crate::config::file;
use declared::findings::{At, Findings};
use declared::parse;
use declared::tree::{Tree, Value};
use declared::{Setting, rename};
use std::path::{Path, PathBuf};

/// Most files that one platform is made of.
const MOST_FILES: usize = 64;

/// The tree of a text with what it extends; nothing and at least one problem when a file is broken.
pub(super) fn resolve(text: &str, search: &[PathBuf], findings: &mut Findings) -> Option<Tree> {
    let mut tree = parse::yaml(text, findings)?;
    rename(&mut tree, Root::keys(), findings);
    let file = findings.file.clone();
    extended(tree, search, &mut vec![PathBuf::from(file)], findings)
}

/// `tree` on top of the files it extends; `chain` leads from the file that is read to its own.
fn extended(
    mut tree: Tree,
    search: &[PathBuf],
    chain: &mut Vec<PathBuf>,
    findings: &mut Findings,
) -> Option<Tree> {
    let Value::Map(entries) = &mut tree.value else { return Some(tree) };
    let Some(at) = entries.iter().position(|(key, _)| key.name == Root::extends) else {
        return Some(tree);
    };
    let (_, wanted) = entries.remove(at);
    let mut base = Tree::made(Value::Map(Vec::new()));
    for at in (At { tree: &wanted, path: Root::extends.to_string() }).items() {
        base = merged(base, parent(&at, search, chain, findings)?);
    }
    if let Value::Map(entries) = &mut base.value {
        entries.retain(|(key, _)| key.name != Root::name);
    }
    Some(merged(base, tree))
}

/// The resolved tree of the file that `at` names.
fn parent(
    at: &At<'_>,
    search: &[PathBuf],
    chain: &mut Vec<PathBuf>,
    findings: &mut Findings,
) -> Option<Tree> {
    let path = path(at, search, findings)?;
    let shown = |path: &Path| path.to_string_lossy().into_owned();
    if let Some(start) = chain.iter().position(|known| same(known, &path)) {
        let circle: Vec<String> =
            chain[start..].iter().chain([&path]).map(|path| shown(path)).collect();
        let message = format!("files extend each other in a circle: {}", circle.join(" -> "));
        findings.refuse(at, message, "files that do not lead back to this one");
        return None;
    }
    if findings.extended.len() >= MOST_FILES {
        let message = format!("the platform is made of more than {MOST_FILES} files");
        findings.refuse(at, message, format!("at most {MOST_FILES} files"));
        return None;
    }
    let mut inner = Findings::new(&shown(&path));
    let text = file::text("platform file", &file::disk, &mut inner);
    let tree = text.and_then(|text| parse::yaml(&text, &mut inner));
    findings.merge(inner);
    findings.extended.push(shown(&path));
    let mut tree = tree?.in_file(findings.extended.len() as u32);
    rename(&mut tree, Root::keys(), findings);
    if !matches!(tree.value, Value::Map(_)) {
        let root = At::root(&tree);
        findings.refuse(&root, "a platform file must be a mapping", "keys and values");
        return None;
    }
    chain.push(path);
    let tree = extended(tree, search, chain, findings);
    chain.pop();
    tree
}

/// The path of the file that `at` names: of a preset, or seen from the file where `at` stands.
fn path(at: &At<'_>, search: &[PathBuf], findings: &mut Findings) -> Option<PathBuf> {
    let wanted = findings.text(at)?;
    let folder = Path::new(findings.file_of(at.tree.origin)).parent().unwrap_or(Path::new(""));
    let path = if presets::is_path(wanted) {
        Some(folder.join(wanted))
    } else {
        presets::preset(wanted, search)
    };
    let found = path.filter(|path| path.is_file());
    if found.is_none() {
        let (message, allowed) = presets::unknown(wanted, search);
        findings.refuse(at, format!("\"{wanted}\": {message}"), allowed);
    }
    found
}

fn same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    real(a) == real(b)
}

/// `over` on top of `base`.
fn merged(base: Tree, over: Tree) -> Tree {
    match (base.value, over.value) {
        (Value::Map(mut entries), Value::Map(changes)) => {
            for (key, value) in changes {
                let at = entries.iter().position(|(known, _)| known.name == key.name);
                match (at, &value.value) {
                    (Some(at), Value::Null) => drop(entries.remove(at)),
                    (Some(at), _) => {
                        let below = std::mem::take(&mut entries[at].1);
                        entries[at] = (key, merged(below, value));
                    }
                    (None, _) => entries.push((key, value)),
                }
            }
            Tree { origin: over.origin, value: Value::Map(entries) }
        }
        (_, value) => Tree { origin: over.origin, value },
    }
}
