//! Native platform files: YAML with units, presets found by name, `--set` overrides, inline
//! notation.
//!
//! ```yaml
//! name: dgx-h100-16n                       # default: the file's name
//! source: where the numbers are from       # free text, kept
//! topology: FullyConnected(8)_Switch(16)   # or `graph:` with npus, switches, links
//! npus: 256                                # resizes the outermost dimension, here to 32; left out: as the topology says
//! links:                                   # one entry a dimension, or a single mapping for all
//!   - {bandwidth: 450 GB/s, per: npu, latency: 300 ns}
//!   - {bandwidth: 50 GB/s, latency: 2 us}
//! npu: {name: H100, compute: roofline, peak: 989 TFLOPS, memory: {bandwidth: 3350 GB/s, capacity: 80 GB}}
//! remote_memory: {sharing: per_node, npus_per_node: 8, latency: 1 us, bandwidth: 100 GB/s}
//! collectives: {all_reduce: [direct, halving_doubling], all_to_all: direct(4), hierarchy: enhanced}
//! library: {name: nccl, start: 8 us, ...}   # instead of collectives: docs/models/libraries.md
//! scheduler: {policy: fifo, chunks: 16, active_chunks: 1, queues_per_dim: 1, endpoint_delay: 10 ns}
//! logical: [8, 16]                         # sizes collectives run over, when not the physical ones
//! ```
//!
//! `per` says what the bandwidth is of: `link` (one link, one direction) or `npu` (the sum over the
//! links that leave an NPU in that dimension: n-1 of a FullyConnected, 2 of a Ring, 1 of a Switch).
//! FullyConnected must say it; otherwise `link`. `npu.compute` is a word or a mapping
//! (`compute.rs`). Left out: it is `roofline` when peak is given, else `recorded`; without memory
//! bandwidth memory never limits and reductions cost nothing; a collective is `auto` (by block);
//! `hierarchy` is `enhanced`; `policy` is `fifo`; `chunks` is 1 on one dimension, else 16;
//! `endpoint_delay` is 10 ns; `comm_streams` is `unlimited`; the other scheduler values are 1 or
//! false.

mod collectives;
mod compute;
#[cfg(test)]
mod compute_tests;
mod fabric;
mod inline;
mod launch;
mod library;
mod like;
mod memory;
#[cfg(test)]
mod memory_tests;
mod overrides;
mod reader;
mod show;
#[cfg(test)]
mod tests;

use super::findings::{Findings, did_you_mean};
use super::tree::Tree;
use super::{file, tree};
use crate::platform::Platform;
use graph::Problem;
pub use inline::{InlinePlatform, inline};
pub use like::{Donor, donors, like};
pub use show::{to_json, to_yaml};
use std::path::{Path, PathBuf};

/// Reads the platform file at a path, or the preset `NAME.yml` found first in the folders of
/// `search`.
///
/// # Errors
/// Every fault of the file, each with file, line, value and what is allowed.
pub fn load(path_or_preset: &str, search: &[PathBuf]) -> Result<Platform, Vec<Problem>> {
    load_with(path_or_preset, search, &[])
}

/// [`load`], with `(key, value)` overrides such as `("links[0].bandwidth", "100 GB/s")` applied
/// before reading.
///
/// # Errors
/// Every fault of the file and the overrides.
pub fn load_with(
    path_or_preset: &str,
    search: &[PathBuf],
    set: &[(String, String)],
) -> Result<Platform, Vec<Problem>> {
    let path = find(path_or_preset, search).map_err(|problem| vec![problem])?;
    let mut findings = Findings::new(&path.to_string_lossy());
    match file::text("platform file", &file::disk, &mut findings) {
        Some(text) => {
            let folder = path.parent().unwrap_or(Path::new(""));
            parse(&text, &stem(&path), set, findings).map(|platform| located(platform, folder))
        }
        None => Err(findings.problems),
    }
}

/// The platform with its algorithms' files where they are: beside the platform's file, or else
/// where the program runs.
fn located(mut platform: Platform, folder: &Path) -> Platform {
    let paths = &mut platform.custom_paths;
    for path in paths.kinds.iter_mut().flatten().chain(paths.nodes.values_mut()) {
        let beside = folder.join(&*path).to_string_lossy().into_owned();
        if is_algorithm(&beside) || !is_algorithm(path) {
            *path = beside;
        }
    }
    platform
}

/// Whether there is a file of this name, or traces that begin with it.
fn is_algorithm(path: &str) -> bool {
    Path::new(path).exists() || Path::new(&format!("{path}.0.et")).exists()
}

/// Reads the text of a platform file; `file` is how problems call it.
///
/// # Errors
/// Every fault of the text and the overrides.
pub fn from_yaml(
    text: &str,
    file: &str,
    set: &[(String, String)],
) -> Result<Platform, Vec<Problem>> {
    parse(text, &stem(Path::new(file)), set, Findings::new(file))
}

/// The names of the presets in the folders of `search`, sorted, each once.
pub fn presets(search: &[PathBuf]) -> Vec<String> {
    let files =
        search.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let names =
        files.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "yml"));
    let mut names: Vec<String> = names.map(|path| stem(&path)).collect();
    names.sort();
    names.dedup();
    names
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

fn parse(
    text: &str,
    name: &str,
    set: &[(String, String)],
    mut findings: Findings,
) -> Result<Platform, Vec<Problem>> {
    match tree::yaml(text, &mut findings) {
        Some(tree) => build(tree, name, set, findings),
        None => Err(findings.problems),
    }
}

fn build(
    mut tree: Tree,
    name: &str,
    set: &[(String, String)],
    mut findings: Findings,
) -> Result<Platform, Vec<Problem>> {
    for (key, value) in set {
        overrides::apply(&mut tree, key, value, &mut findings);
    }
    let platform = if findings.problems.is_empty() {
        reader::platform(&tree, name, &mut findings)
    } else {
        None
    };
    match platform {
        Some(platform) if findings.problems.is_empty() => Ok(platform),
        _ => Err(findings.problems),
    }
}

fn find(wanted: &str, search: &[PathBuf]) -> Result<PathBuf, Problem> {
    let path = Path::new(wanted);
    let is_path =
        wanted.contains(['/', '\\']) || path.extension().is_some_and(|e| e == "yml" || e == "yaml");
    if is_path || path.is_file() {
        return Ok(path.to_path_buf());
    }
    let file_name = format!("{wanted}.yml");
    if let Some(found) =
        search.iter().map(|folder| folder.join(&file_name)).find(|path| path.is_file())
    {
        return Ok(found);
    }
    let names = presets(search);
    let hint = did_you_mean(wanted, names.iter().map(String::as_str));
    let message = format!("there is no preset and no file of this name{hint}");
    Err(Problem::new(wanted, "", message)
        .help(format!("a path of a platform file, or one of {}", names.join(", "))))
}
