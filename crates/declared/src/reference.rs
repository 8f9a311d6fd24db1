//! Keys as the documentation and the completion of a shell list them.

use crate::{Absent, Key};
use std::fmt::Write;

/// A key with its whole path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// `library.node.efficiency`.
    pub path: String,
    /// As `--set` takes it: `links[0].bandwidth`.
    pub settable: String,
    /// The type of its value.
    pub kind: String,
    /// Value that is used when the key is left out.
    pub absent: String,
    /// Meaning of the key, on one line.
    pub doc: String,
    /// Whether its value is a mapping, or a list of them.
    pub section: bool,
    /// Whether an earlier section next to its own has the same keys; tables list them once.
    pub again: bool,
}

/// All keys below `path`, each before those within it.
pub fn listed(keys: &[Key]) -> Vec<Listed> {
    let mut all = Vec::new();
    below(("", ""), keys, false, &mut all);
    all
}

/// Adds the keys below a path (as it is written, and as `--set` takes it).
fn below((path, settable): (&str, &str), keys: &[Key], again: bool, all: &mut Vec<Listed>) {
    let joined = |path: &str, name: &str| match path {
        "" => name.to_string(),
        path => format!("{path}.{name}"),
    };
    for (i, key) in keys.iter().enumerate() {
        let (path, settable) = (joined(path, key.name), joined(settable, key.name));
        let doc: Vec<&str> = key.doc.split_whitespace().collect();
        let inner = (key.inner)();
        let same = |other: &&Key| std::ptr::eq((other.inner)(), inner) && !inner.is_empty();
        let twin = keys[..i].iter().find(same);
        let as_twin = twin.map_or(String::new(), |twin| format!(" Keys as `{}`.", twin.name));
        all.push(Listed {
            path: path.clone(),
            settable: settable.clone(),
            kind: (key.kind)(),
            absent: absent(key),
            doc: doc.join(" ") + &read_by(key) + &as_twin,
            section: !inner.is_empty(),
            again,
        });
        let entry = if key.list { "[0]" } else { "" };
        let settable = format!("{settable}{entry}");
        below((&path, &settable), inner, again || twin.is_some(), all);
    }
}

fn absent(key: &Key) -> String {
    let needed = (key.needed)();
    match key.absent {
        Absent::Value(_) if !needed.is_empty() => format!("required with {}", quoted(&needed)),
        Absent::Required => "required".to_string(),
        Absent::Value(shown) => shown(),
        Absent::Like(other) => format!("as `{other}`"),
        Absent::Text(text) => text.to_string(),
    }
}

/// The models that read a key, where not all do and its default does not name them.
fn read_by(key: &Key) -> String {
    let named = (key.with)().is_empty();
    if named { String::new() } else { format!(" With {}.", quoted(&key.models())) }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The rows as a Markdown table.
pub fn table(rows: &[Listed]) -> String {
    let mut out = "| key | value | default | meaning |\n| --- | --- | --- | --- |\n".to_string();
    for Listed { path, kind, absent, doc, .. } in rows.iter().filter(|row| !row.again) {
        let _ = writeln!(out, "| `{path}` | {kind} | {absent} | {doc} |");
    }
    out
}
