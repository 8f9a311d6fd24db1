//! Files that others wrote, opened and read within bounds.
//!
//! Here: the only way in which the other crates open files to read. Devices, pipes, sockets and
//! directories are refused, and opening a pipe does not wait for a writer. Whoever reads a file
//! whole says how large it may be. Not here: what a file means, and files that the program itself
//! shares with another process.

use std::fs::{File, FileType, Metadata, OpenOptions, metadata};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of the largest text that is read whole: platform files, tables, algorithms.
pub const MOST_TEXT: u64 = 64 << 20;
/// Bytes of the largest trace or description of a workload that is read whole.
pub const MOST_TRACE: u64 = 2 << 30;
/// A packed file may unpack to this many times its size, and to [`MOST_TEXT`] in any case.
const MOST_RATIO: u64 = 200;

/// Opens a plain file to read.
///
/// # Errors
/// What the system says, and everything that is not a plain file: reading it might never end.
pub fn open(path: &Path) -> Result<File> {
    // Before it is opened, which may do something to a device; and after, as it may be another now.
    require_plain(&metadata(path)?)?;
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    require_plain(&file.metadata()?)?;
    Ok(file)
}

/// The content of a plain file of at most `most` bytes.
///
/// # Errors
/// Those of [`open()`], and of a larger file.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    if length > most {
        return Err(too_large(most));
    }
    let mut content = Vec::with_capacity(length as usize + 1);
    read_rest(file, &mut content, most)?;
    Ok(content)
}

/// Appends what is left of `reader` to `content`, which then has at most `most` bytes.
///
/// # Errors
/// What reading reports, and of a longer content.
pub fn read_rest(reader: impl Read, content: &mut Vec<u8>, most: u64) -> Result<()> {
    let left = most.saturating_sub(content.len() as u64);
    reader.take(left + 1).read_to_end(content)?;
    if content.len() as u64 > most { Err(too_large(most)) } else { Ok(()) }
}

/// A reader that fails, instead of going on, beyond what a packed file of `packed` bytes may unpack
/// to.
pub fn unpacked<R: Read>(reader: R, packed: u64) -> Unpacked<R> {
    Unpacked { reader, left: packed.saturating_mul(MOST_RATIO).max(MOST_TEXT) }
}

/// The content of a packed file, see [`unpacked()`].
#[derive(Debug)]
pub struct Unpacked<R> {
    reader: R,
    left: u64,
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let got = self.reader.read(into)?;
        self.left = self.left.checked_sub(got as u64).ok_or_else(|| {
            let text = format!(
                "it unpacks to more than {MOST_RATIO} times its size, and more than {}",
                size(MOST_TEXT)
            );
            Error::new(ErrorKind::FileTooLarge, text)
        })?;
        Ok(got)
    }
}

fn require_plain(found: &Metadata) -> Result<()> {
    let kind = found.file_type();
    if kind.is_dir() {
        return Err(Error::new(ErrorKind::IsADirectory, "it is a directory"));
    }
    match not_plain(kind) {
        Some(what) => Err(Error::new(ErrorKind::InvalidInput, format!("it is {what}, not a file"))),
        None => Ok(()),
    }
}

fn not_plain(kind: FileType) -> Option<&'static str> {
    match () {
        () if kind.is_file() => None,
        () if kind.is_fifo() => Some("a pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

fn too_large(most: u64) -> Error {
    Error::new(ErrorKind::FileTooLarge, format!("it is larger than {}", size(most)))
}

fn size(bytes: u64) -> String {
    if bytes >= 1 << 30 { format!("{} GiB", bytes >> 30) } else { format!("{} MiB", bytes >> 20) }
}

#[cfg(test)]
mod tests;
