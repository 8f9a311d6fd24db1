//! Mappings and numbers of ASTRA-sim's files.

use crate::config::file::{self, Load};
use declared::findings::{At, Findings};
use declared::parse;
use declared::tree::{Tree, Value};
use units::Span;

/// Syntax of a file.
#[derive(Clone, Copy)]
pub(super) enum Syntax {
    Yaml,
    Json,
}

/// Reads a file that is a mapping and warns of keys without a reader.
pub(super) fn mapping(
    what: &str,
    syntax: Syntax,
    known: &[&str],
    load: &Load<'_>,
    findings: &mut Findings,
) -> Option<Tree> {
    let text = file::text(what, load, findings)?;
    let (tree, kind) = match syntax {
        Syntax::Yaml => (parse::yaml(&text, findings)?, "a YAML mapping"),
        Syntax::Json => (parse::json(&text, findings)?, "a JSON object"),
    };
    let root = At::root(&tree);
    if !root.is_map() {
        findings.refuse(&root, format!("the {what} holds {}", tree.show()), kind);
        return None;
    }
    let unread: Vec<&str> = root
        .entries()
        .into_iter()
        .map(|(key, _)| key.name.as_str())
        .filter(|k| !known.contains(k))
        .collect();
    if !unread.is_empty() && !known.is_empty() {
        let path = &findings.file;
        findings
            .warnings
            .push(format!("{path}: keys without effect, ignored: {}", unread.join(", ")));
    }
    Some(tree)
}

/// A finite number in a range; `range` says it in words.
pub(super) fn number(
    at: &At<'_>,
    allowed: impl Fn(f64) -> bool,
    range: &str,
    findings: &mut Findings,
) -> Option<f64> {
    let value = match &at.tree.value {
        Value::Int(i) => *i as f64,
        Value::Float(x) => *x,
        Value::Bool(b) => f64::from(u8::from(*b)),
        other => {
            let shown =
                if let Value::Text(text) = other { format!("\"{text}\"") } else { at.tree.show() };
            findings.refuse(at, format!("{shown} is not a number"), range);
            return None;
        }
    };
    if value.is_finite() && allowed(value) {
        return Some(value);
    }
    findings.refuse(at, format!("{} is not allowed", at.tree.show()), range);
    None
}

/// A whole number in a range; like the peer, drops the decimals of a number that has some.
pub(super) fn integer(at: &At<'_>, least: i64, most: i64, findings: &mut Findings) -> Option<i64> {
    let range = if most == i64::MAX {
        format!("a whole number from {least}")
    } else {
        format!("a whole number from {least} to {most}")
    };
    let most_float = if most == i64::MAX { 9.2e18 } else { most as f64 };
    let inside = |x: f64| x.trunc() >= least as f64 && x.trunc() <= most_float;
    number(at, inside, &range, findings)
        .map(|x| if let Value::Int(i) = at.tree.value { i as i64 } else { x as i64 })
}

/// Nanoseconds as a span, rounded up to the picosecond; the caller has checked the range.
pub(super) fn span(ns: f64) -> Span {
    Span((ns * 1_000.0).ceil() as u64)
}
