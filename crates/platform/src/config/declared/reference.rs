//! Keys as the documentation lists them.

use super::{Absent, Key};
use std::fmt::Write;

/// A key with its whole path, for tables and completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// `library.node.efficiency`.
    pub path: String,
    /// The type of its value.
    pub kind: String,
    /// What goes without it.
    pub absent: String,
    /// Its meaning, on one line.
    pub doc: String,
}

/// All keys below `path`, each before those within it.
pub(crate) fn listed(path: &str, keys: &[Key]) -> Vec<Listed> {
    let mut all = Vec::new();
    for key in keys {
        let path = if path.is_empty() { key.name.into() } else { format!("{path}.{}", key.name) };
        let absent = match key.absent {
            Absent::Required => "required".to_string(),
            Absent::Value(shown) => shown(),
            Absent::Like(other) => format!("as `{other}`"),
            Absent::Text(text) => text.to_string(),
        };
        let doc: Vec<&str> = key.doc.split_whitespace().collect();
        all.push(Listed { path: path.clone(), kind: (key.kind)(), absent, doc: doc.join(" ") });
        all.extend(listed(&path, key.inner));
    }
    all
}

/// The rows as a Markdown table.
pub(crate) fn table(rows: &[Listed]) -> String {
    let mut out = "| key | value | default | meaning |\n| --- | --- | --- | --- |\n".to_string();
    for Listed { path, kind, absent, doc } in rows {
        let _ = writeln!(out, "| `{path}` | {kind} | {absent} | {doc} |");
    }
    out
}
