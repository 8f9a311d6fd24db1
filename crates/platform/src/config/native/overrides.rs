//! `--set links[0].bandwidth="100 GB/s"`: values put into the tree before it is read, so that
//! faults are found as in a file.

use super::top_level_keys::Root;
use declared::findings::Findings;
use declared::parse;
use declared::tree::{Key, Origin, Tree, Value};
use declared::{Key as Declared, Setting, renamed_path};

enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// Puts `value` (YAML) at `path`; keys that are not there are made, list entries must exist.
pub(super) fn apply(root: &mut Tree, path: &str, value: &str, findings: &mut Findings) {
    let place = format!("--set {path}");
    if steps(path).is_none() {
        let allowed = "keys joined by dots, such as links[0].bandwidth";
        findings.add(place, "invalid key", allowed);
        return;
    }
    let mut inner = Findings::new("");
    let Some(mut tree) = parse::yaml(value, &mut inner) else {
        findings.add(
            place,
            format!("the value \"{value}\" is not valid YAML"),
            "a value as in the file, such as 100 GB/s or [8, 16]",
        );
        return;
    };
    let path = renamed_path(path, &mut tree, Root::keys(), findings);
    match slot(root, &steps(&path).unwrap_or_default()) {
        Ok(slot) => *slot = tree.set_on_command_line(),
        Err((message, allowed)) => findings.add(place, message, allowed),
    }
}

/// `links[0].bandwidth` as key, index, key.
fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (key, mut rest) = part.split_at(part.find('[').unwrap_or(part.len()));
        if key.is_empty() || key.trim() != key {
            return None;
        }
        steps.push(Step::Key(key));
        while !rest.is_empty() {
            let (index, after) = rest.strip_prefix('[')?.split_once(']')?;
            steps.push(Step::Index(index.parse().ok()?));
            rest = after;
        }
    }
    Some(steps)
}

pub(super) type Refusal = (String, String);

fn slot<'a>(root: &'a mut Tree, steps: &[Step<'_>]) -> Result<&'a mut Tree, Refusal> {
    let mut at = root;
    let mut walked = String::new();
    let (mut keys, mut short) = (Root::keys(), None);
    for step in steps {
        at = match step {
            Step::Key(key) => below(at, key, short, &walked)?,
            Step::Index(index) => entry(at, *index, &walked)?,
        };
        match step {
            Step::Key(key) => {
                let declared = keys.iter().find(|declared: &&Declared| declared.name == *key);
                keys = declared.map_or(&[], |declared| (declared.inner)());
                short = declared.and_then(|declared| declared.short);
                let dot = if walked.is_empty() { "" } else { "." };
                walked.push_str(&format!("{dot}{key}"));
            }
            Step::Index(index) => walked.push_str(&format!("[{index}]")),
        }
    }
    Ok(at)
}

/// The value of a key of a mapping. A plain value becomes the mapping that it is `short` for.
pub(super) fn below<'a>(
    at: &'a mut Tree,
    key: &str,
    short: Option<&str>,
    walked: &str,
) -> Result<&'a mut Tree, Refusal> {
    if at.value == Value::Null {
        *at = Tree { origin: Origin::Set, value: Value::Map(Vec::new()) };
    }
    let shown = at.show();
    if let (Some(short), false) = (short, matches!(at.value, Value::Map(_))) {
        let plain = std::mem::take(at);
        let key = Key { origin: plain.origin, name: short.into() };
        *at = Tree { origin: plain.origin, value: Value::Map(vec![(key, plain)]) };
    }
    let Value::Map(entries) = &mut at.value else {
        let hint = if shown == "a list" {
            format!("{walked}[0].{key}")
        } else {
            "a key of a mapping".to_string()
        };
        return Err((format!("\"{walked}\" is {shown}, not a mapping"), hint));
    };
    let found = entries.iter().position(|(k, _)| k.name == key).unwrap_or_else(|| {
        let name = Key { origin: Origin::Set, name: key.to_string() };
        entries.push((name, Tree { origin: Origin::Set, value: Value::Null }));
        entries.len() - 1
    });
    Ok(&mut entries[found].1)
}

fn entry<'a>(at: &'a mut Tree, index: usize, walked: &str) -> Result<&'a mut Tree, Refusal> {
    let shown = at.show();
    let Value::List(items) = &mut at.value else {
        return Err((
            format!("\"{walked}\" is {shown}, not a list"),
            format!("{walked} without [{index}]"),
        ));
    };
    let count = items.len();
    let most = count.saturating_sub(1);
    items.get_mut(index).ok_or_else(|| {
        (format!("\"{walked}\" has {count} entries"), format!("{walked}[0] to {walked}[{most}]"))
    })
}
