//! A value as a platform file writes it.

use std::fmt::Write;

/// Longest line of a mapping that is written in braces.
const WIDTH: usize = 96;

/// A value to be printed.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// As it stands in the file.
    Text(String),
    /// A list.
    List(Vec<Shown>),
    /// A mapping.
    Map(Vec<(&'static str, Shown)>),
}

impl Shown {
    /// A number, a word or a quantity.
    pub fn of(value: impl ToString) -> Shown {
        Shown::Text(value.to_string())
    }

    /// A text in double quotes as JSON writes it. What YAML counts as unprintable is escaped as well.
    pub fn quoted(text: &str) -> Shown {
        let unprintable = |c: char| {
            c.is_control()
                || matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}' | '\u{2028}' | '\u{2029}')
        };
        let escape = |c: char| {
            if unprintable(c) { format!("\\u{:04x}", c as u32) } else { c.to_string() }
        };
        Shown::Text(serde_json::Value::from(text).to_string().chars().map(escape).collect())
    }

    /// On one line: `{latency: 1 us, steps: [1 us, 2 us]}`.
    pub fn flow(&self) -> String {
        match self {
            Shown::Text(text) => text.clone(),
            Shown::List(items) => {
                format!("[{}]", items.iter().map(Shown::flow).collect::<Vec<_>>().join(", "))
            }
            Shown::Map(entries) => {
                let entry = |(key, value): &(&str, Shown)| format!("{key}: {}", value.flow());
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Whether it is a mapping that has another one in it.
    pub(super) fn is_deep(&self) -> bool {
        match self {
            Shown::Map(entries) => entries.iter().any(|(_, value)| value.holds_mapping()),
            Shown::Text(_) | Shown::List(_) => false,
        }
    }

    pub(super) fn holds_mapping(&self) -> bool {
        match self {
            Shown::Text(_) => false,
            Shown::List(items) => items.iter().any(Shown::holds_mapping),
            Shown::Map(_) => true,
        }
    }
}

/// A whole file.
pub fn document(file: &Shown) -> String {
    let mut out = String::new();
    if let Shown::Map(entries) = file {
        entries.iter().for_each(|(key, value)| entry(key, value, 0, &mut out));
    }
    out
}

/// Writes `key: value` at an indent: a mapping of plain values on one line where it fits, others
/// with a line for each key.
fn entry(key: &str, value: &Shown, indent: usize, out: &mut String) {
    let flow = value.flow();
    let plain = match value {
        Shown::Map(entries) => {
            entries.is_empty()
                || indent > 0
                    && !entries.iter().any(|(_, value)| value.holds_mapping())
                    && indent + key.len() + flow.len() <= WIDTH
        }
        Shown::List(items) => !items.iter().any(Shown::holds_mapping),
        Shown::Text(_) => true,
    };
    let space = " ".repeat(indent);
    if plain {
        let _ = writeln!(out, "{space}{key}: {flow}");
        return;
    }
    let _ = writeln!(out, "{space}{key}:");
    match value {
        Shown::Map(entries) => {
            entries.iter().for_each(|(key, value)| entry(key, value, indent + 2, out))
        }
        Shown::List(items) => items.iter().for_each(|item| {
            let _ = writeln!(out, "{space}  - {}", item.flow());
        }),
        Shown::Text(_) => {}
    }
}
