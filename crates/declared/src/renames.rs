//! Old names of keys: read for one release, with a warning that names the new one.

use crate::findings::{At, Findings};
use crate::tree::{Tree, Value};
use crate::{Key, first};

/// Gives the keys of `tree` that have an old name their new one.
pub fn rename(tree: &mut Tree, keys: &[Key], findings: &mut Findings) {
    below(tree, keys, "", findings);
}

fn below(tree: &mut Tree, keys: &[Key], path: &str, findings: &mut Findings) {
    match &mut tree.value {
        Value::List(items) => {
            items.iter_mut().for_each(|item| below(item, keys, path, findings));
        }
        Value::Map(entries) => {
            for at in 0..entries.len() {
                let name = entries[at].0.name.clone();
                if let Some(key) = keys.iter().find(|key| key.old.contains(&name.as_str())) {
                    if let Some(other) = entries.iter().find(|(known, _)| known.name == key.name) {
                        let place = At { tree: &other.1, path: joined(path, key.name) };
                        let message = format!("\"{name}\" is the old name of this key");
                        findings.refuse(&place, message, format!("only {}", key.name));
                        continue;
                    }
                    warn(&joined(path, &name), &joined(path, key.name), findings);
                    entries[at].0.name = key.name.to_string();
                    if let Some(convert) = key.convert {
                        convert(&mut entries[at].1.value);
                    }
                }
                let (known, value) = &mut entries[at];
                if let Some(key) = keys.iter().find(|key| key.name == known.name) {
                    below(value, (key.inner)(), &joined(path, key.name), findings);
                }
            }
        }
        _ => {}
    }
}

/// The path of a `--set`, with its old names replaced, and its value made one of the new name.
pub fn renamed_path(path: &str, value: &mut Tree, keys: &[Key], findings: &mut Findings) -> String {
    let (mut keys, mut rest, mut new) = (keys, path, String::new());
    while !rest.is_empty() {
        let (mut name, after) = first(rest);
        let key = keys.iter().find(|key| key.name == name || key.old.contains(&name));
        if let Some(key) = key {
            if let (true, Some(convert)) = (name != key.name, key.convert) {
                convert(&mut value.value);
            }
            (name, keys) = (key.name, (key.inner)());
        }
        new = joined(&new, name);
        // Indices stay as they are: `links[0]`.
        let index = after.len() - after.trim_start_matches(|c| c != '.').len();
        let index = if after.starts_with('[') { index } else { 0 };
        new.push_str(&after[..index]);
        rest = after[index..].trim_start_matches('.');
        if name.is_empty() {
            return path.to_string();
        }
    }
    below(value, keys, &new, findings);
    if new != path {
        warn(path, &new, findings);
    }
    new
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

fn warn(old: &str, new: &str, findings: &mut Findings) {
    let text = format!("the key {old} is now called {new}; the old name will go");
    if !findings.warnings.contains(&text) {
        findings.warnings.push(text);
    }
}
