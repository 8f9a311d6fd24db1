//! A platform from notation and lists, as a program writes it: `Platform("R(4)_SW(16)",
//! bandwidth=[...], latency=[...])`.

use super::build;
use super::links::Link;
use super::top_level_keys::Root;
use crate::platform::Platform;
use declared::findings::Findings;
use declared::tree::{Tree, Value};
use graph::Problem;

/// Name of the source of such a platform in problems.
const FILE: &str = "Platform(...)";

/// A stacked platform in few words; everything else by `set` or by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InlinePlatform {
    /// Notation, `R(4)_SW(16)`.
    pub topology: String,
    /// With unit; one for all dimensions, or one for each.
    pub bandwidth: Vec<String>,
    /// With unit; one for all dimensions, or one for each.
    pub latency: Vec<String>,
    /// `link` or `npu`; none, one for all dimensions, or one for each.
    pub per: Vec<String>,
    /// Further settings as `--set` takes them: `("scheduler.chunks", "4")`.
    pub set: Vec<(String, String)>,
}

/// Builds the platform as if its file had been read; places are those of the file
/// (`links[0].bandwidth`).
///
/// # Errors
/// Every fault.
pub fn inline(platform: &InlinePlatform) -> Result<Platform, Vec<Problem>> {
    let mut findings = Findings::new(FILE);
    let lists = [
        (Link::bandwidth, &platform.bandwidth),
        (Link::latency, &platform.latency),
        (Link::per, &platform.per),
    ];
    let dims = lists.iter().map(|(_, list)| list.len()).max().unwrap_or(0);
    for (name, list) in lists {
        if ![1, dims].contains(&list.len()) && (name != Link::per || !list.is_empty()) {
            let message = format!("{} values where another list has {dims}", list.len());
            findings.add(name, message, "one value for all dimensions, or one for each");
        }
    }
    if !findings.problems.is_empty() {
        return Err(findings.problems);
    }
    let entry = |i: usize| {
        let given = lists
            .iter()
            .filter_map(|&(name, list)| Some((name, Tree::text(list.get(i).or(list.first())?))));
        Tree::map(given.collect())
    };
    let links =
        if dims == 1 { entry(0) } else { Tree::made(Value::List((0..dims).map(entry).collect())) };
    let tree =
        Tree::map(vec![(Root::topology, Tree::text(&platform.topology)), (Root::links, links)]);
    build(tree, &platform.topology, &platform.set, findings).map(|(platform, _)| platform)
}
