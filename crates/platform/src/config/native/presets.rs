//! Presets: platform files found by name in folders and their folders. `parts/` holds pieces that
//! platforms extend and is left out.

use declared::findings::did_you_mean;
use graph::Problem;
use std::path::{Path, PathBuf};

/// The folder of pieces that are not platforms by themselves.
const PARTS: &str = "parts";

/// The names of the presets in the folders of `search`, sorted, each once.
pub fn presets(search: &[PathBuf]) -> Vec<String> {
    let mut names: Vec<String> = files(search).iter().map(|path| stem(path)).collect();
    names.sort();
    names.dedup();
    names
}

/// The platform files below the folders of `search`: those of a folder before those of folders in
/// it, by name.
fn files(search: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in search {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
        entries.sort();
        let (folders, files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|p| p.is_dir());
        found.extend(files.into_iter().filter(|path| path.extension().is_some_and(|e| e == "yml")));
        let inner: Vec<PathBuf> =
            folders.into_iter().filter(|path| !path.ends_with(PARTS)).collect();
        found.extend(self::files(&inner));
    }
    found
}

/// The name of a platform file without its ending.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

/// Whether `wanted` is a path, not the name of a preset.
pub(super) fn is_path(wanted: &str) -> bool {
    let ending = Path::new(wanted).extension();
    wanted.contains(['/', '\\']) || ending.is_some_and(|e| e == "yml" || e == "yaml")
}

/// The file of a preset.
pub(super) fn preset(name: &str, search: &[PathBuf]) -> Option<PathBuf> {
    let file_name = format!("{name}.yml");
    let direct = search.iter().map(|folder| folder.join(&file_name)).find(|path| path.is_file());
    direct.or_else(|| files(search).into_iter().find(|path| path.ends_with(&file_name)))
}

/// The file at a path, or of a preset.
pub(super) fn find(wanted: &str, search: &[PathBuf]) -> Result<PathBuf, Problem> {
    let path = Path::new(wanted);
    if is_path(wanted) || path.is_file() {
        return Ok(path.to_path_buf());
    }
    preset(wanted, search).ok_or_else(|| {
        let (message, allowed) = unknown(wanted, search);
        Problem::new(wanted, "", message).help(allowed)
    })
}

/// The problem with a name that is neither that of a preset nor of a file, and what is allowed.
pub(super) fn unknown(wanted: &str, search: &[PathBuf]) -> (String, String) {
    let names = presets(search);
    let hint = did_you_mean(wanted, names.iter().map(String::as_str));
    let allowed = format!("a path of a platform file, or one of {}", names.join(", "));
    (format!("there is no preset and no file of this name{hint}"), allowed)
}
