//! Keys that moved to another mapping: read for one release where they were, with a warning that
//! names the new place. Not here: keys with another name in the same mapping (`was`).

use super::overrides::below;
use declared::findings::{At, Findings};
use declared::first;
use declared::tree::{Tree, Value};

/// Each old place, the mapping it moved to (next to it), and its name there.
const MOVED: [(&str, &str, &str, &str); 1] = [("network.packet", "like", "tcp", "like")];

/// Moves the keys of the whole platform, after files that it extends and `--set`.
pub(super) fn apply(root: &mut Tree, findings: &mut Findings) {
    for (section, old, new, key) in MOVED {
        let Some(section_at) = mapping(root, section) else { continue };
        let Some(place) = entry(section_at, old) else { continue };
        let Value::Map(entries) = &mut section_at.value else { continue };
        let value = entries.remove(place).1;
        if value.value == Value::Null {
            continue;
        }
        let (old, new_path) = (format!("{section}.{old}"), format!("{section}.{new}.{key}"));
        findings
            .warnings
            .push(format!("the key {old} is now called {new_path}; the old name will go"));
        let put = below(section_at, new, None, section).map(|at| put(at, key, &value));
        if put != Ok(true) {
            let at = At { tree: &value, path: old };
            findings.refuse(
                &at,
                format!("{new_path} is given as well"),
                format!("only {new_path}"),
            );
        }
    }
}

/// Puts the value into a mapping, or into each of a list; false where one is there.
fn put(at: &mut Tree, key: &str, value: &Tree) -> bool {
    if let Value::List(items) = &mut at.value {
        return items.iter_mut().all(|item| put(item, key, value));
    }
    match below(at, key, Some(key), "") {
        Ok(slot) if slot.value == Value::Null => {
            *slot = value.clone();
            true
        }
        _ => false,
    }
}

fn mapping<'a>(root: &'a mut Tree, path: &str) -> Option<&'a mut Tree> {
    let (name, rest) = first(path);
    if name.is_empty() {
        return Some(root);
    }
    let at = entry(root, name)?;
    let Value::Map(entries) = &mut root.value else { return None };
    mapping(&mut entries[at].1, rest)
}

fn entry(at: &Tree, name: &str) -> Option<usize> {
    let Value::Map(entries) = &at.value else { return None };
    entries.iter().position(|(key, _)| key.name == name)
}
