//! `topology: {file: fabric.yml}`: an explicit graph in a file of its own.
//!
//! The file is what `armillary platform import` writes: a `graph`, and perhaps `name`, `source` and
//! `logical`. It takes the place of the whole network: of the topology, links, cards and graph of
//! files that the platform extends. The graph enters the tree before the keys are read, so that each
//! value keeps its file and line.

use super::shape::FILE;
use super::top_level_keys::Root;
use crate::config::file;
use declared::findings::{At, Findings};
use declared::parse;
use declared::tree::{Key, Origin, Tree, Value};
use declared::{Setting, rename};
use std::path::Path;

/// Keys that such a file may have.
const KEYS: [&str; 4] = [Root::name, Root::source, Root::logical, Root::graph];

/// Keys that a graph replaces.
const NETWORK: [&str; 4] = [Root::topology, Root::graph, Root::links, Root::nics];

/// A graph's file, and where the platform names it.
pub(super) struct GraphFile {
    path: String,
    place: String,
}

/// Puts the graph of the file that `topology` names, if it names one, into `tree`.
pub(super) fn insert(tree: &mut Tree, findings: &mut Findings) -> Option<GraphFile> {
    let root = At::root(tree);
    let topology = root.get(Root::topology)?;
    let named = topology.get(FILE.name).filter(|at| at.tree.value != Value::Null)?;
    alone(&root, &topology, &named, findings)?;
    let file = GraphFile::of(&named, findings)?;
    let found = graph(&file.path, &named, findings).unwrap_or_default();
    let Value::Map(entries) = &mut tree.value else { return None };
    entries.retain(|(key, _)| !NETWORK.contains(&key.name.as_str()));
    for (key, value) in found {
        let again = entries.iter().any(|(known, _)| known.name == key.name);
        if key.name == Root::graph || (key.name == Root::logical && !again) {
            entries.push((key, value));
        }
    }
    Some(file)
}

impl GraphFile {
    /// The path at `named` is seen from the file where it stands, or from where the command runs.
    fn of(named: &At<'_>, findings: &mut Findings) -> Option<GraphFile> {
        let wanted = findings.text(named)?;
        let file = Path::new(findings.file_of(named.tree.origin));
        let (folder, place) = match named.tree.origin {
            Origin::Line { line, .. } => {
                let place = format!("{}: line {line}, {}", file.display(), named.path);
                (file.parent().unwrap_or(Path::new("")), place)
            }
            _ => (Path::new(""), format!("--set {}", named.path)),
        };
        Some(GraphFile { path: folder.join(wanted).to_string_lossy().into_owned(), place })
    }

    /// Adds to each problem of the graph's file where the platform names that file.
    pub(super) fn name_in(&self, findings: &mut Findings) {
        for problem in findings.problems.iter_mut().filter(|each| each.file == self.path) {
            problem.message.push_str(&format!("; {} names this file", self.place));
        }
    }
}

/// The entries of the file at `path`, which `named` names.
fn graph(path: &str, named: &At<'_>, findings: &mut Findings) -> Option<Vec<(Key, Tree)>> {
    let mut inner = Findings::new(path);
    let Some(text) = file::text("graph's file", &file::disk, &mut inner) else {
        for problem in inner.problems {
            findings.refuse(named, format!("\"{path}\": {}", problem.message), problem.help);
        }
        return None;
    };
    let tree = parse::yaml(&text, &mut inner);
    findings.merge(inner);
    findings.extended.push(path.to_string());
    let mut tree = tree?.in_file(u32::try_from(findings.extended.len()).ok()?);
    rename(&mut tree, Root::keys(), findings);
    let root = At::root(&tree);
    findings.mapping(&root, &KEYS)?;
    findings.need(&root, Root::graph, "a graph of npus, switches and links")?;
    match tree.value {
        Value::Map(entries) => Some(entries),
        _ => None,
    }
}

/// Refuses what else the platform itself says about its network; a file that it extends may.
fn alone(root: &At<'_>, topology: &At<'_>, named: &At<'_>, findings: &mut Findings) -> Option<()> {
    let before = findings.problems.len();
    let others = topology.entries().into_iter().filter(|(key, _)| key.name != FILE.name);
    let parts = root
        .entries()
        .into_iter()
        .filter(|(key, _)| key.name != Root::topology && NETWORK.contains(&key.name.as_str()));
    for (key, at) in others.chain(parts) {
        if at.tree.value != Value::Null && counts(key.origin, named.tree.origin) {
            let message = format!("\"{}\" and \"{}\" exclude each other", named.path, at.path);
            findings.refuse_at(key.origin, &at.path, message, "one of them");
        }
    }
    (findings.problems.len() == before).then_some(())
}

/// Whether what stands at `other` does not give way to a file that is named at `named`: it stands
/// in the same file, or where later values win.
fn counts(other: Origin, named: Origin) -> bool {
    let rank = |origin| match origin {
        Origin::Set => 2,
        Origin::Line { file: 0, .. } | Origin::Made => 1,
        Origin::Line { .. } => 0,
    };
    match (other, named) {
        (Origin::Line { file: a, .. }, Origin::Line { file: b, .. }) if a == b => true,
        _ => rank(other) > rank(named) || (rank(other) == rank(named) && rank(other) > 0),
    }
}
