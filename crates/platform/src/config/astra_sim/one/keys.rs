//! The mapping of a file, and keys that change nothing.

use crate::config::file::{self, Load};
use declared::findings::{At, Findings};
use declared::parse;
use declared::tree::Tree;

/// The mapping of `findings.file`, whose keys must all be in `known`.
pub(super) fn mapping(
    what: &str,
    known: &[&str],
    load: &Load<'_>,
    findings: &mut Findings,
) -> Option<Tree> {
    let text = file::text(what, load, findings)?;
    let tree = parsed(&text, findings)?;
    findings.mapping(&At::root(&tree), known)?;
    Some(tree)
}

fn parsed(text: &str, findings: &mut Findings) -> Option<Tree> {
    if text.trim_start().starts_with('{') {
        parse::json(text, findings)
    } else {
        parse::yaml(text, findings)
    }
}

/// Warns of keys that are given and change nothing, and says why.
pub(super) fn without_effect(root: &At<'_>, keys: &[&str], why: &str, findings: &mut Findings) {
    let given: Vec<&str> = keys.iter().copied().filter(|key| root.get(key).is_some()).collect();
    if !given.is_empty() {
        let verb = if given.len() == 1 { "has" } else { "have" };
        let text = format!("{}: {} {verb} no effect: {why}", findings.file, given.join(", "));
        findings.warnings.push(text);
    }
}
