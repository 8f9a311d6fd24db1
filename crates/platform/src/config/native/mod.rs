//! Native platform files: YAML with units, presets found by name, `extends`, `--set` overrides,
//! inline notation.
//!
//! Every key is declared once: the root's in `top_level_keys.rs`, those of networks in
//! `net_settings`, those of memory in `device::memory::keys`, those of other sections in the file of
//! that section. `docs/reference/platform-files.md` lists them. A section has three parts: its keys
//! (`section!`), `resolve`, which makes a part of the platform of them, and `keys`, which makes keys
//! of that part again, to print it.

mod cards;
mod collectives;
#[cfg(test)]
mod collectives_tests;
mod compute;
#[cfg(test)]
mod compute_tests;
mod explicit;
mod extends;
#[cfg(test)]
mod extends_tests;
mod fabric;
#[cfg(test)]
mod fabric_tests;
mod failed;
#[cfg(test)]
mod failed_tests;
mod generated;
#[cfg(test)]
mod generated_tests;
mod graph_file;
#[cfg(test)]
mod graph_file_tests;
mod inline;
#[cfg(test)]
mod inline_tests;
mod kernels;
mod library;
mod links;
#[cfg(test)]
mod memory_tests;
mod moved;
pub(crate) mod network;
mod nics;
#[cfg(test)]
mod nics_tests;
mod nothing;
mod npu;
mod origins;
#[cfg(test)]
mod origins_tests;
mod overrides;
#[cfg(test)]
mod overrides_tests;
#[cfg(test)]
mod packet_tests;
mod presets;
#[cfg(test)]
mod presets_tests;
mod reader;
#[cfg(test)]
mod reader_tests;
mod reference;
#[cfg(test)]
mod reference_tests;
mod shape;
mod show;
#[cfg(test)]
mod show_tests;
mod similar_presets;
mod sized;
#[cfg(test)]
mod sized_tests;
#[cfg(test)]
mod tcp_tests;
#[cfg(test)]
mod testing;
mod top_level_keys;

use super::file;
use crate::platform::Platform;
pub use declared::Listed;
use declared::Setting;
use declared::findings::Findings;
use declared::tree::Tree;
use graph::Problem;
pub use inline::{InlinePlatform, inline};
use origins::Source;
pub use presets::presets;
pub use reference::{documented, keys};
pub use show::{to_json, to_yaml};
pub use similar_presets::{Donor, donors, like};
use std::path::{Path, PathBuf};
use top_level_keys::Root;

/// Reads the platform file at a path, or the preset `NAME.yml` in the folders of `search`.
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
    loaded(path_or_preset, search, set).map(|(platform, _)| platform)
}

/// The platform that [`load_with`] reads, and its printed form ([`to_yaml`]) with a comment after
/// each value that says where the value comes from: file and line, `--set`, or a default.
///
/// # Errors
/// Every fault of the file and the overrides.
pub fn explain(
    path_or_preset: &str,
    search: &[PathBuf],
    set: &[(String, String)],
) -> Result<(Platform, String), Vec<Problem>> {
    let (platform, source) = loaded(path_or_preset, search, set)?;
    let text = source.explain(&platform, search);
    Ok((platform, text))
}

fn loaded(
    path_or_preset: &str,
    search: &[PathBuf],
    set: &[(String, String)],
) -> Result<(Platform, Source), Vec<Problem>> {
    let path = presets::find(path_or_preset, search).map_err(|problem| vec![problem])?;
    let mut findings = Findings::new(&path.to_string_lossy());
    match file::text("platform file", &file::disk, &mut findings) {
        Some(text) => {
            let folder = path.parent().unwrap_or(Path::new(""));
            let (platform, source) = parse(&text, &presets::stem(&path), search, set, findings)?;
            Ok((located(platform, folder), source))
        }
        None => Err(findings.problems),
    }
}

/// The platform with its algorithms' files where they are: next to the platform's file, or else
/// where the program runs.
fn located(mut platform: Platform, folder: &Path) -> Platform {
    let paths = &mut platform.custom_paths;
    for path in paths.kinds.iter_mut().flatten().chain(paths.nodes.values_mut()) {
        let near = folder.join(&*path).to_string_lossy().into_owned();
        if is_algorithm(&near) || !is_algorithm(path) {
            *path = near;
        }
    }
    platform
}

/// Whether there is a file of this name, or traces that begin with it.
fn is_algorithm(path: &str) -> bool {
    Path::new(path).exists() || Path::new(&format!("{path}.0.et")).exists()
}

/// Reads the text of a platform file; `file` is its name in problems. It may extend files, but no
/// presets ([`from_yaml_with`]).
///
/// # Errors
/// Every fault of the text and the overrides.
pub fn from_yaml(
    text: &str,
    file: &str,
    set: &[(String, String)],
) -> Result<Platform, Vec<Problem>> {
    from_yaml_with(text, file, &[], set)
}

/// [`from_yaml`], with the folders of presets that the text may extend.
///
/// # Errors
/// Every fault of the text and the overrides.
pub fn from_yaml_with(
    text: &str,
    file: &str,
    search: &[PathBuf],
    set: &[(String, String)],
) -> Result<Platform, Vec<Problem>> {
    let name = presets::stem(Path::new(file));
    parse(text, &name, search, set, Findings::new(file)).map(|(platform, _)| platform)
}

fn parse(
    text: &str,
    name: &str,
    search: &[PathBuf],
    set: &[(String, String)],
    mut findings: Findings,
) -> Result<(Platform, Source), Vec<Problem>> {
    let file = findings.file.clone();
    let built = match extends::resolve(text, search, &mut findings) {
        Some(tree) => build(tree, name, set, findings),
        None => Err(findings.problems),
    };
    built.map_err(|problems| foreign(&file, problems))
}

/// Says what a file is whose keys are those of another program's.
fn foreign(file: &str, problems: Vec<Problem>) -> Vec<Problem> {
    const KEYS: [&str; 2] = ["num-npus", "topology-name"];
    let is = |problem: &Problem| {
        KEYS.iter().any(|key| problem.message == format!("unknown key \"{key}\""))
    };
    if !problems.iter().any(is) {
        return problems;
    }
    let help = "a platform file, such as armillary platform import NETWORK --system SYSTEM -o PLATFORM makes";
    vec![Problem::new(file, "", "is a network file of ASTRA-sim 1.0").help(help)]
}

fn build(
    mut tree: Tree,
    name: &str,
    set: &[(String, String)],
    mut findings: Findings,
) -> Result<(Platform, Source), Vec<Problem>> {
    for (key, value) in set {
        overrides::apply(&mut tree, key, value, &mut findings);
    }
    moved::apply(&mut tree, &mut findings);
    nothing::leave_out(&mut tree, Root::keys());
    let graph = graph_file::insert(&mut tree, &mut findings);
    let platform = if findings.problems.is_empty() {
        reader::platform(&tree, name, &mut findings)
    } else {
        None
    };
    if let Some(graph) = graph {
        graph.name_in(&mut findings);
    }
    match platform {
        Some(platform) if findings.problems.is_empty() => Ok((platform, Source { tree, findings })),
        _ => Err(findings.problems),
    }
}
