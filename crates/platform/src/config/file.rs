//! Reading a text file, with every failure as a problem.

use declared::findings::{At, Findings};
use declared::tree::Origin;
use graph::Problem;
use std::path::{Path, PathBuf};

/// Where the bytes of a path come from: the disk, or whatever a test or a fuzzer says.
pub type Load<'a> = dyn Fn(&str) -> std::io::Result<Vec<u8>> + 'a;

/// The disk, within bounds.
pub(crate) fn disk(path: &str) -> std::io::Result<Vec<u8>> {
    files::read(Path::new(path), files::MOST_TEXT)
}

/// The path `name` that stands at `at`: next to the platform file, or where the command line says.
pub(crate) fn place(at: &At<'_>, name: &str, findings: &Findings) -> PathBuf {
    match at.tree.origin {
        Origin::Line { .. } => {
            let file = Path::new(findings.file_of(at.tree.origin));
            file.parent().unwrap_or(Path::new("")).join(name)
        }
        Origin::Set | Origin::Made => PathBuf::from(name),
    }
}

/// The whole path of a place, which means the same from every folder.
pub(crate) fn whole(place: &Path) -> String {
    let whole = std::path::absolute(place).unwrap_or_else(|_| place.to_path_buf());
    whole.to_string_lossy().into_owned()
}

/// The text of `findings.file`.
pub(crate) fn text(what: &str, load: &Load<'_>, findings: &mut Findings) -> Option<String> {
    let bytes = match load(&findings.file) {
        Ok(bytes) => bytes,
        Err(error) => {
            findings.problems.push(unreadable(&findings.file, what, &error));
            return None;
        }
    };
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            findings.add(
                format!("byte {at}"),
                format!("the {what} is not UTF-8 text"),
                "UTF-8 text",
            );
            None
        }
    }
}

fn unreadable(file: &str, what: &str, error: &std::io::Error) -> Problem {
    use std::io::ErrorKind::{IsADirectory, NotFound, PermissionDenied};
    let why = match error.kind() {
        NotFound => "there is no such file".to_string(),
        PermissionDenied => "permission denied".to_string(),
        IsADirectory => "it is a directory".to_string(),
        _ => error.to_string(),
    };
    Problem::new(file, "", format!("cannot read the {what}: {why}"))
        .help(format!("the path of a readable {what}"))
}
