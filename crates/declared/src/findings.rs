//! Faults collected while walking a tree, and the typed look at its values.

use crate::Problem;
use crate::tree::{Key, Origin, Tree, Value, float};
use std::str::FromStr;
use units::QuantityError;

/// Faults and oddities of one file.
#[derive(Debug, Default)]
pub struct Findings {
    /// Name of the file.
    pub file: String,
    /// The files that `file` extends, in the order in which they were read; `Origin::Line` counts
    /// them from 1.
    pub extended: Vec<String>,
    /// Faults.
    pub problems: Vec<Problem>,
    /// Oddities.
    pub warnings: Vec<String>,
}

/// A value with its path from the root: `links[0].bandwidth`.
#[derive(Clone, Debug)]
pub struct At<'a> {
    /// The value.
    pub tree: &'a Tree,
    /// Path of the value.
    pub path: String,
}

impl<'a> At<'a> {
    /// The root of a document.
    pub fn root(tree: &'a Tree) -> At<'a> {
        At { tree, path: String::new() }
    }

    /// The entries when the value is a list, else the value itself: `x` stands for `[x]`.
    pub fn items(&self) -> Vec<At<'a>> {
        match &self.tree.value {
            Value::List(items) => items
                .iter()
                .enumerate()
                .map(|(i, tree)| At { tree, path: format!("{}[{i}]", self.path) })
                .collect(),
            _ => vec![self.clone()],
        }
    }

    /// Whether the value is a mapping.
    pub fn is_map(&self) -> bool {
        matches!(self.tree.value, Value::Map(_))
    }

    /// The entry of a mapping, whatever else stands there.
    pub fn get(&self, key: &str) -> Option<At<'a>> {
        let Value::Map(entries) = &self.tree.value else { return None };
        entries
            .iter()
            .find(|(k, _)| k.name == key)
            .map(|(_, tree)| At { tree, path: self.below(key) })
    }

    /// All entries of a mapping, in file order.
    pub fn entries(&self) -> Vec<(&'a Key, At<'a>)> {
        let Value::Map(entries) = &self.tree.value else { return Vec::new() };
        entries.iter().map(|(key, tree)| (key, At { tree, path: self.below(&key.name) })).collect()
    }

    fn below(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_string() } else { format!("{}.{key}", self.path) }
    }
}

fn place(origin: Origin, path: &str) -> String {
    match (origin, path) {
        (Origin::Made, path) => path.to_string(),
        (Origin::Line { line, .. }, "") => format!("line {line}"),
        (Origin::Line { line, .. }, path) => format!("line {line}, {path}"),
        (Origin::Set, path) => format!("--set {path}"),
    }
}

impl Findings {
    /// Findings of a file, none yet.
    pub fn new(file: &str) -> Findings {
        Findings { file: file.to_string(), ..Findings::default() }
    }

    /// Adds a problem with the file.
    pub fn add(
        &mut self,
        place: impl Into<String>,
        message: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        self.problems.push(Problem::new(&self.file, place, message).help(allowed));
    }

    /// Adds a problem with a value.
    pub fn refuse(&mut self, at: &At<'_>, message: impl Into<String>, allowed: impl Into<String>) {
        self.refuse_at(at.tree.origin, &at.path, message, allowed);
    }

    /// A problem with what stands at `origin`, which may be in a file that this one extends.
    pub fn refuse_at(
        &mut self,
        origin: Origin,
        path: &str,
        message: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        let problem = Problem::new(self.file_of(origin), place(origin, path), message);
        self.problems.push(problem.help(allowed));
    }

    /// The file in which a value stands.
    pub fn file_of(&self, origin: Origin) -> &str {
        let extended = match origin {
            Origin::Line { file, .. } => self.extended.get((file as usize).wrapping_sub(1)),
            _ => None,
        };
        extended.map_or(&self.file, |file| file)
    }

    /// Takes over what another file gave.
    pub fn merge(&mut self, other: Findings) {
        self.problems.extend(other.problems);
        self.warnings.extend(other.warnings);
    }

    /// The mapping at `at`, whose keys must all be among `allowed`.
    pub fn mapping(&mut self, at: &At<'_>, allowed: &[&str]) -> Option<()> {
        if !at.is_map() {
            self.refuse(
                at,
                match (&at.tree.value, at.path.is_empty()) {
                    (Value::Null, true) => "the file is empty".to_string(),
                    (Value::Text(_), true) => "the file is text, not a mapping".to_string(),
                    _ => format!("{} is not a mapping", at.tree.show()),
                },
                format!("a mapping with {}", allowed.join(", ")),
            );
            return None;
        }
        for (key, value) in at.entries() {
            if !allowed.contains(&key.name.as_str()) {
                let message = format!(
                    "unknown key \"{}\"{}",
                    key.name,
                    did_you_mean(&key.name, allowed.iter().copied())
                );
                self.refuse_at(key.origin, &value.path, message, allowed.join(", "));
            }
        }
        Some(())
    }

    /// Adds a problem with a key that is missing from the mapping at `at`.
    pub fn missing(&mut self, at: &At<'_>, key: &str, allowed: &str) {
        self.refuse(at, format!("\"{key}\" is missing"), allowed);
    }

    /// The value of a required key.
    pub fn need<'a>(&mut self, at: &At<'a>, key: &str, allowed: &str) -> Option<At<'a>> {
        let found = at.get(key).filter(|v| v.tree.value != Value::Null);
        if found.is_none() {
            self.missing(at, key, allowed);
        }
        found
    }

    /// A text.
    pub fn text<'a>(&mut self, at: &At<'a>) -> Option<&'a str> {
        match &at.tree.value {
            Value::Text(text) => Some(text),
            _ => {
                self.refuse(at, format!("{} is not text", at.tree.show()), "text");
                None
            }
        }
    }

    /// Text, or a number taken as text (`name: 42`).
    pub fn label(&mut self, at: &At<'_>) -> Option<String> {
        match &at.tree.value {
            Value::Int(i) => Some(i.to_string()),
            Value::Float(x) => Some(float(*x)),
            _ => self.text(at).map(str::to_string),
        }
    }

    /// A number with a unit.
    pub fn quantity<T: FromStr<Err = QuantityError>>(&mut self, at: &At<'_>) -> Option<T> {
        let text = match &at.tree.value {
            Value::Text(text) => text.clone(),
            Value::Int(i) => i.to_string(),
            Value::Float(x) => float(*x),
            Value::Null => String::new(),
            _ => at.tree.show(),
        };
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                let message = match at.tree.value {
                    Value::List(_) | Value::Map(_) => format!("{text} is not allowed"),
                    _ => error.message(),
                };
                self.refuse(at, message, error.allowed);
                None
            }
        }
    }

    /// A whole number in a range.
    pub fn whole(&mut self, at: &At<'_>, least: u32, most: u32) -> Option<u32> {
        if let Value::Int(i) = at.tree.value
            && (i128::from(least)..=i128::from(most)).contains(&i)
        {
            return u32::try_from(i).ok();
        }
        let range = if most == u32::MAX {
            format!("a whole number from {least}")
        } else {
            format!("a whole number from {least} to {most}")
        };
        self.refuse(at, format!("{} is not allowed", at.tree.show()), range);
        None
    }

    /// A truth value.
    pub fn flag(&mut self, at: &At<'_>) -> Option<bool> {
        match at.tree.value {
            Value::Bool(b) => Some(b),
            _ => {
                self.refuse(
                    at,
                    format!("{} is neither true nor false", at.tree.show()),
                    "true, false",
                );
                None
            }
        }
    }

    /// One of a few words.
    pub fn one_of<T: Copy>(&mut self, at: &At<'_>, words: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = words.iter().map(|&(word, _)| word).collect();
        let found = match &at.tree.value {
            Value::Text(text) => words.iter().find(|(word, _)| word == text),
            _ => None,
        };
        if found.is_none() {
            let hint = if let Value::Text(text) = &at.tree.value {
                did_you_mean(text, names.iter().copied())
            } else {
                String::new()
            };
            self.refuse(at, format!("{} is not allowed{hint}", at.tree.show()), names.join(", "));
        }
        found.map(|&(_, value)| value)
    }
}

/// `; did you mean "x"?` for the nearest candidate, or nothing when none is near.
pub fn did_you_mean<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let lower = word.to_lowercase();
    let near = candidates.map(|c| (distance(&lower, &c.to_lowercase()), c)).min();
    let letters = word.chars().count();
    match near {
        Some((d, candidate)) if d <= 1 + letters / 4 && d < letters => {
            format!("; did you mean \"{candidate}\"?")
        }
        _ => String::new(),
    }
}

/// Insertions, deletions, substitutions and swaps of neighbours between two words (optimal string
/// alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j - 1] + same).min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_the_textbook() {
        let cases = [
            ("", "", 0),
            ("kitten", "sitting", 3),
            ("latecny", "latency", 1),
            ("", "abc", 3),
            ("ring", "ring", 0),
        ];
        for (a, b, expected) in cases {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn only_near_words_are_offered() {
        let words = ["bandwidth", "latency", "per"];
        assert_eq!(did_you_mean("bandwith", words.into_iter()), "; did you mean \"bandwidth\"?");
        assert_eq!(did_you_mean("Latency", words.into_iter()), "; did you mean \"latency\"?");
        assert_eq!(did_you_mean("colour", words.into_iter()), "");
        assert_eq!(did_you_mean("c", ["a", "b"].into_iter()), "");
    }
}
