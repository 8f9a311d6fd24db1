//! A printed file in which a comment after each value says where the value comes from.

use crate::Shown;
use std::fmt::Write;

/// Widest line that a comment is aligned with.
const WIDTH: usize = 56;

/// The file; `origin` says where the value at a path, such as `links[0].bandwidth`, comes from.
pub fn explained(file: &Shown, origin: &dyn Fn(&str) -> String) -> String {
    let mut page = Page { lines: Vec::new(), origin };
    if let Shown::Map(entries) = file {
        entries.iter().for_each(|(key, value)| page.entry(key, value, key, 0));
    }
    let widths = page.lines.iter().filter(|line| line.1.is_some()).map(|line| line.0.len());
    let column = widths.filter(|&width| width <= WIDTH).max().unwrap_or(0);
    let mut out = String::new();
    for (text, comment) in page.lines {
        let _ = match comment {
            Some(comment) => writeln!(out, "{text:column$}  # {}", visible(&comment)),
            None => writeln!(out, "{text}"),
        };
    }
    out
}

/// Without characters that end a line or that a terminal acts on.
fn visible(text: &str) -> String {
    let shown = |c: char| match c {
        ' '..='~' => c.to_string(),
        c if c.is_alphanumeric() => c.to_string(),
        c => c.escape_unicode().to_string(),
    };
    text.chars().map(shown).collect()
}

struct Page<'a> {
    /// Lines with their comments.
    lines: Vec<(String, Option<String>)>,
    origin: &'a dyn Fn(&str) -> String,
}

impl Page<'_> {
    fn entry(&mut self, key: &str, value: &Shown, path: &str, indent: usize) {
        let space = " ".repeat(indent);
        if let Some(comment) = self.single(value, path) {
            self.lines.push((format!("{space}{key}: {}", value.flow()), Some(comment)));
            return;
        }
        self.lines.push((format!("{space}{key}:"), None));
        match value {
            Shown::Text(_) => {}
            Shown::Map(entries) => entries.iter().for_each(|(key, value)| {
                self.entry(key, value, &format!("{path}.{key}"), indent + 2);
            }),
            Shown::List(items) => items.iter().enumerate().for_each(|(i, item)| {
                self.item(item, &format!("{path}[{i}]"), indent + 2);
            }),
        }
    }

    fn item(&mut self, value: &Shown, path: &str, indent: usize) {
        let space = " ".repeat(indent);
        match (self.single(value, path), value) {
            (None, Shown::Map(entries)) => {
                let first = self.lines.len();
                for (key, value) in entries {
                    self.entry(key, value, &format!("{path}.{key}"), indent + 2);
                }
                if let Some((line, _)) = self.lines.get_mut(first) {
                    line.replace_range(indent..indent + 2, "- ");
                }
            }
            (comment, value) => {
                let comment = comment.unwrap_or_else(|| (self.origin)(path));
                self.lines.push((format!("{space}- {}", value.flow()), Some(comment)));
            }
        }
    }

    /// The one origin of a value on one line; nothing where its parts come from several places, or
    /// lie deeper.
    fn single(&self, value: &Shown, path: &str) -> Option<String> {
        match value {
            Shown::Text(_) => Some((self.origin)(path)),
            Shown::List(items) if !items.iter().any(Shown::holds_mapping) => {
                Some((self.origin)(path))
            }
            Shown::List(_) => None,
            Shown::Map(entries) if entries.is_empty() => Some((self.origin)(path)),
            Shown::Map(_) if !path.contains(['.', '[']) || value.is_deep() => None,
            Shown::Map(entries) => {
                let mut origins =
                    entries.iter().map(|(key, _)| (self.origin)(&format!("{path}.{key}")));
                let first = origins.next()?;
                origins.all(|other| other == first).then_some(first)
            }
        }
    }
}
