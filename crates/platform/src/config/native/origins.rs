//! Where each value of a platform comes from: a line of its file, of a file that it extends,
//! `--set`, or a default.

use super::show;
use super::top_level_keys::Root;
use crate::platform::Platform;
use declared::findings::Findings;
use declared::tree::{Origin, Tree, Value};
use declared::{Key, Setting, explained, first};
use std::path::{Component, Path, PathBuf};

/// Sources that a platform was made from.
pub(super) struct Source {
    pub tree: Tree,
    /// The files.
    pub findings: Findings,
}

/// A path without `x/..`, seen from a folder of presets that it lies in.
fn short(path: &str, search: &[PathBuf]) -> String {
    let mut plain = PathBuf::new();
    for part in Path::new(path).components() {
        let named = matches!(plain.components().next_back(), Some(Component::Normal(_)));
        match part {
            Component::CurDir => {}
            Component::ParentDir if named => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    let inside = search.iter().find_map(|folder| plain.strip_prefix(folder).ok());
    inside.unwrap_or(&plain).to_string_lossy().into_owned()
}

impl Source {
    /// The platform as a file that reads back to it. A comment says where each value comes from.
    pub(super) fn explain(&self, platform: &Platform, search: &[PathBuf]) -> String {
        explained(&show::shown(platform), &|path| self.origin(path, search))
    }

    fn origin(&self, path: &str, search: &[PathBuf]) -> String {
        match found(&self.tree, Root::keys(), None, path) {
            Some(origin) => self.place(origin, search),
            None => self.imitated(path, search).unwrap_or("default".to_string()),
        }
    }

    /// The origin of a value that follows from the key `like` next to it.
    fn imitated(&self, path: &str, search: &[PathBuf]) -> Option<String> {
        let (section, _) = path.rsplit_once('.')?;
        let like = found(&self.tree, Root::keys(), None, &format!("{section}.like"))?;
        Some(format!("like, {}", self.place(like, search)))
    }

    fn place(&self, origin: Origin, search: &[PathBuf]) -> String {
        match origin {
            Origin::Set => "--set".to_string(),
            Origin::Line { line, .. } => {
                format!("{}:{line}", short(self.findings.file_of(origin), search))
            }
            Origin::Made => "given".to_string(),
        }
    }
}

/// The origin of the value at a path; nothing where the key is not there. A plain value stands for
/// one entry of a list, and for the key that it is short for.
fn found(tree: &Tree, keys: &[Key], short: Option<&str>, path: &str) -> Option<Origin> {
    if path.is_empty() {
        return Some(tree.origin);
    }
    if let Some((index, rest)) = path.strip_prefix('[').and_then(|path| path.split_once(']')) {
        let rest = rest.strip_prefix('.').unwrap_or(rest);
        return match &tree.value {
            Value::List(items) => {
                found(items.get(index.parse::<usize>().ok()?)?, keys, short, rest)
            }
            _ => found(tree, keys, short, rest),
        };
    }
    let (name, rest) = first(path);
    let declared = keys.iter().find(|key| key.name == name);
    match &tree.value {
        Value::Map(entries) => {
            let (_, value) = entries.iter().find(|(key, _)| key.name == name)?;
            let (inner, short) = declared.map_or((&[][..], None), |d| ((d.inner)(), d.short));
            found(value, inner, short, rest)
        }
        Value::Null => None,
        _ if short.is_some_and(|short| short != name) => None,
        _ => Some(tree.origin),
    }
}
