//! From the path a user names to the traces of ranks 0, 1, 2, ...

use super::source::{Content, Format, io_problem, sniff};
use graph::Problem;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

const ENDINGS: [&str; 6] = [".et", ".et.gz", ".eg", ".eg.gz", ".json", ".json.gz"];
const FORMS: &str = "PREFIX (for PREFIX.<rank>.et), PREFIX.%d.et, PREFIX.{rank}.et, a directory of them, \
                     one trace, or an archive";

/// Where a workload's traces are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// One file a rank, in order of ranks.
    Files(Vec<PathBuf>),
    /// One trace, named by itself.
    Single(PathBuf),
    /// A tar archive, plain or gzipped, of traces.
    Archive(PathBuf),
}

/// Finds the traces behind `path`: `prefix.{rank}.et`, `prefix.%d.et`, `prefix`, a directory, one
/// file or an archive.
///
/// # Errors
/// No trace there, more than one workload there, or ranks missing between 0 and the last.
pub fn find(path: &Path) -> Result<Found, Problem> {
    let name = path.display().to_string();
    for mark in ["{rank}", "%d"] {
        if let Some((before, after)) = name.split_once(mark) {
            return ranked(&name, listing(Path::new(before), &name)?, |file| {
                between(file, before, after)
            });
        }
    }
    if path.is_dir() {
        return in_directory(path, &name);
    }
    if path.is_file() {
        return single(path, &name);
    }
    let ending =
        |file: &str| ENDINGS.iter().find_map(|ending| between(file, &format!("{name}."), ending));
    ranked(&name, listing(path, &name)?, ending)
}

/// The rank in `before<rank>after`, comparing file names only.
fn between(file: &str, before: &str, after: &str) -> Option<u32> {
    let before = before.rsplit('/').next().unwrap_or(before);
    digits(file.strip_prefix(before)?.strip_suffix(after)?)
}

fn digits(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        None
    } else {
        text.parse().ok()
    }
}

/// The files in the same folder as `path`.
fn listing(path: &Path, name: &str) -> Result<Vec<PathBuf>, Problem> {
    let directory = match path.parent() {
        _ if name.ends_with('/') => path,
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    list(directory).map_err(|mut problem| {
        problem.file = name.to_string();
        problem.help(FORMS)
    })
}

fn list(directory: &Path) -> Result<Vec<PathBuf>, Problem> {
    let fault = |e: std::io::Error| io_problem(&directory.display().to_string(), &e);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(fault)? {
        files.push(entry.map_err(fault)?.path());
    }
    files.sort();
    Ok(files)
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|n| n.to_str()).unwrap_or("")
}

/// Sorts files by the rank in their names.
fn ranked(
    name: &str,
    files: Vec<PathBuf>,
    rank: impl Fn(&str) -> Option<u32>,
) -> Result<Found, Problem> {
    let mut by_rank: BTreeMap<u32, PathBuf> = BTreeMap::new();
    for file in files {
        let Some(rank) = rank(file_name(&file)) else { continue };
        if let Some(other) = by_rank.insert(rank, file.clone()) {
            let message =
                format!("rank {rank} has two traces, {} and {}", other.display(), file.display());
            return Err(Problem::new(name, "", message).help("one trace for each rank"));
        }
    }
    if by_rank.is_empty() {
        return Err(Problem::new(name, "", "no trace of this name exists").help(FORMS));
    }
    if let Some(problem) = holes(name, by_rank.keys().copied()) {
        return Err(problem);
    }
    Ok(Found::Files(by_rank.into_values().collect()))
}

/// The ranks missing below the highest one, as a problem. `ranks` ascend.
pub(crate) fn holes(name: &str, ranks: impl Iterator<Item = u32>) -> Option<Problem> {
    let (mut missing, mut next, mut last) = (Vec::new(), 0, 0);
    for rank in ranks {
        if rank > next {
            missing.push((next, rank - 1));
        }
        last = rank;
        next = rank.saturating_add(1);
    }
    (!missing.is_empty()).then(|| {
        let message = format!("no trace for {}", span_list(&missing));
        Problem::new(name, "", message).help(format!("a trace for each of ranks 0 to {last}"))
    })
}

/// `ranks 1, 4-6 and 3 more ranges`.
fn span_list(spans: &[(u32, u32)]) -> String {
    let shown: Vec<String> = spans
        .iter()
        .take(8)
        .map(|&(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") })
        .collect();
    let more = spans.len().saturating_sub(8);
    let tail = if more > 0 { format!(" and {more} more ranges") } else { String::new() };
    let noun = if spans.len() == 1 && spans[0].0 == spans[0].1 { "rank" } else { "ranks" };
    format!("{noun} {}{tail}", shown.join(", "))
}

fn in_directory(path: &Path, name: &str) -> Result<Found, Problem> {
    let files = list(path)?;
    let mut sets: BTreeMap<(String, &str), Vec<PathBuf>> = BTreeMap::new();
    for file in files {
        let Some((prefix, _, ending)) = split(file_name(&file), b".") else { continue };
        sets.entry((prefix.to_string(), ending)).or_default().push(file);
    }
    let Some(((prefix, ending), files)) = sets.pop_first() else {
        return Err(Problem::new(name, "", "the directory holds no trace")
            .help("files named PREFIX.<rank>.et"));
    };
    if !sets.is_empty() {
        let mut all = vec![format!("{prefix}.*{ending} ({})", files.len())];
        all.extend(
            sets.iter()
                .map(|((prefix, ending), files)| format!("{prefix}.*{ending} ({})", files.len())),
        );
        let message =
            format!("the directory holds the traces of several workloads: {}", all.join(", "));
        return Err(Problem::new(name, "", message)
            .help(format!("one of them, such as {name}/{prefix}.%d{ending}")));
    }
    ranked(name, files, |file| split(file, b".").map(|(_, rank, _)| rank))
}

/// `prefix.<rank>.et` into its prefix, rank and ending, with any of `separators` before the rank.
pub(crate) fn split<'a>(file: &'a str, separators: &[u8]) -> Option<(&'a str, u32, &'static str)> {
    let (stem, ending) =
        ENDINGS.into_iter().rev().find_map(|end| Some((file.strip_suffix(end)?, end)))?;
    let start = stem.rfind(|c: char| !c.is_ascii_digit())?;
    let separator = *stem.as_bytes().get(start)?;
    let rank = separators.contains(&separator).then(|| digits(&stem[start + 1..]))??;
    Some((&stem[..start], rank, ending))
}

/// True for the name of a file that may be a trace.
pub(crate) fn may_be_trace(file: &str) -> bool {
    !file.starts_with('.') && ENDINGS.iter().any(|ending| file.ends_with(ending))
}

fn single(path: &Path, name: &str) -> Result<Found, Problem> {
    let fault = |e: std::io::Error| io_problem(name, &e);
    let file = files::open(path).map_err(fault)?;
    let content = Content::from_reader(Box::new(file.take(1 << 16)), 1 << 16, Vec::new());
    // A gzip stream may end early by the limit above: only its beginning is read.
    let head = content.map(|c| c.head).unwrap_or_default();
    let is_tar = sniff(&head) == Format::Tar || is_gzipped_tar(path).map_err(fault)?;
    Ok(if is_tar { Found::Archive(path.to_path_buf()) } else { Found::Single(path.to_path_buf()) })
}

fn is_gzipped_tar(path: &Path) -> std::io::Result<bool> {
    let mut head = Vec::new();
    let reader = flate2::read::MultiGzDecoder::new(files::open(path)?);
    // Anything but a gzip stream fails here, and is not an archive either.
    Ok(reader.take(512).read_to_end(&mut head).is_ok() && sniff(&head) == Format::Tar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_into_prefix_rank_and_ending() {
        assert_eq!(split("gpt.12.et", b"."), Some(("gpt", 12, ".et")));
        assert_eq!(split("gpt.0.et.gz", b"."), Some(("gpt", 0, ".et.gz")));
        assert_eq!(split("a.b.3.json", b"."), Some(("a.b", 3, ".json")));
        assert_eq!(split("dlrm_eg_7.json", b"._-"), Some(("dlrm_eg", 7, ".json")));
        for name in [
            "dlrm_eg_7.json",
            "gpt.et",
            "gpt.x.et",
            "gpt.1.txt",
            "0.et",
            "gpt..et",
            "gpt.99999999999.et",
        ] {
            assert_eq!(split(name, b"."), None, "{name}");
        }
    }

    #[test]
    fn holes_are_named() {
        assert_eq!(holes("x", [0, 1, 2].into_iter()), None);
        let problem = holes("x", [1, 2, 5].into_iter()).unwrap();
        assert_eq!(problem.message, "no trace for ranks 0, 3-4");
        assert_eq!(holes("x", [0, 2].into_iter()).unwrap().message, "no trace for rank 1");
    }

    #[test]
    fn patterns_compare_names_only() {
        assert_eq!(between("t.4.et", "/some/where/t.", ".et"), Some(4));
        assert_eq!(between("t.4.et", "t.", ".et.gz"), None);
        assert_eq!(between("t.-4.et", "t.", ".et"), None);
    }
}
