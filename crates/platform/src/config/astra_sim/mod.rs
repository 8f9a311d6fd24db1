//! ASTRA-sim's own files and flags, read as that simulator reads them.
//!
//! Units are the peer's: network GB/s of 2^30 bytes, `local-mem-bw` and remote memory GB/s of 1e9,
//! latencies in ns, peak in TFLOP/s. The raw numbers are kept in [`AstraSimParameters`]; the
//! platform's integers are the nearest they can be. Keys the peer does not know are ignored with a
//! warning, as it ignores them; what it would crash or hang on is a problem.

mod args;
mod groups;
mod memory;
mod network;
mod system;
#[cfg(test)]
mod tests;

use super::file::Load;
use super::findings::{At, Findings};
use super::tree::{Tree, Value};
use super::{file, tree};
use crate::platform::{AstraSimParameters, Like, Platform};
use crate::profile::Profile;
pub use args::AstraSimArgs;
use graph::Problem;
use units::Span;

/// A platform and communicator groups (name, ranks in ring order) as ASTRA-sim's files give them.
pub type AstraSimInputs = (Platform, Vec<(String, Vec<u32>)>);

/// Reads a communicator group file by itself: names and ranks in ring order. `npus` bounds the
/// ranks.
///
/// # Errors
/// Every fault of the file.
pub fn groups(path: &str, npus: Option<u32>) -> Result<Vec<(String, Vec<u32>)>, Vec<Problem>> {
    let mut all = Findings::new("");
    groups::read(Some(path), npus, &file::disk, &mut all).ok_or(all.problems)
}

/// Reads every file the arguments name; the workload itself is the trace reader's business.
///
/// # Errors
/// Every fault of every file.
pub fn read(args: &AstraSimArgs) -> Result<AstraSimInputs, Vec<Problem>> {
    read_from(args, &file::disk)
}

/// [`read`] with the files from somewhere else than the disk.
///
/// # Errors
/// Every fault of every file.
pub fn read_from(args: &AstraSimArgs, load: &Load<'_>) -> Result<AstraSimInputs, Vec<Problem>> {
    let mut all = Findings::new("");
    let network = network::read(&args.network, load, &mut all);
    let npus = network.as_ref().map(|n| n.fabric.npus());
    let dims = network.as_ref().map(|n| n.latency.len());
    let system = system::read(args, dims, load, &mut all);
    let memory = memory::read(&args.memory, npus, load, &mut all);
    let groups = groups::read(args.comm_group.as_deref(), npus, load, &mut all);
    let logical = groups::logical(args.logical_topology.as_deref(), npus, load, &mut all);
    if let (Some(network), Some(system), Some(memory), Some(groups), Some(logical), true) =
        (network, system, memory, groups, logical, all.problems.is_empty())
    {
        let raw = AstraSimParameters {
            bandwidth: network.bandwidth,
            latency: network.latency,
            remote_latency: memory.as_ref().map_or(0, |m| m.latency),
            remote_bandwidth: memory.as_ref().map_or(0, |m| m.bandwidth),
            ..system.raw
        };
        let platform = Platform {
            name: network.name,
            source: format!("{}, {}", args.network, args.system),
            fabric: network.fabric,
            logical,
            npu: system.npu,
            remote_memory: memory.map(|m| m.memory),
            collectives: system.collectives,
            library: None,
            scheduler: system.scheduler,
            custom_paths: system.custom_paths,
            profile: Profile::AstraSim,
            astra_sim: Some(raw),
            warnings: all.warnings,
            like: Like::default(),
        };
        return Ok((platform, groups));
    }
    Err(all.problems)
}

#[derive(Clone, Copy)]
enum Syntax {
    Yaml,
    Json,
}

/// Reads a file that is a mapping and warns of keys that nobody reads.
fn mapping(
    what: &str,
    syntax: Syntax,
    known: &[&str],
    load: &Load<'_>,
    findings: &mut Findings,
) -> Option<Tree> {
    let text = file::text(what, load, findings)?;
    let (tree, kind) = match syntax {
        Syntax::Yaml => (tree::yaml(&text, findings)?, "a YAML mapping"),
        Syntax::Json => (tree::json(&text, findings)?, "a JSON object"),
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
fn number(
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
            findings.refuse(at, format!("{shown} is no number"), range);
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
fn integer(at: &At<'_>, least: i64, most: i64, findings: &mut Findings) -> Option<i64> {
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
fn span(ns: f64) -> Span {
    Span((ns * 1_000.0).ceil() as u64)
}
