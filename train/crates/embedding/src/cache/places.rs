//! Where each row's newest record is: five bytes for each row, zero for a row that has none. Pages
//! of rows without records take no memory.

use super::disk::Pages;
use crate::random::mix;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes of a row.
pub const PLACE: usize = 5;

/// Bytes of the file that are read and written together, and left out if they are zero.
const CHUNK: usize = 1 << 20;

/// A place for each row.
pub struct Places {
    pages: Pages,
    rows: u64,
}

impl Places {
    /// No place for any of `rows` rows.
    pub fn new(rows: u64) -> Result<Self, Error> {
        let bytes = usize::try_from(rows).ok().and_then(|rows| rows.checked_mul(PLACE));
        let pages = Pages::new(bytes.ok_or(ErrorKind::OutOfMemory)?)?;
        Ok(Self { pages, rows })
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The record of a row, if it has one.
    #[inline(always)]
    pub fn get(&self, row: u64) -> Option<u64> {
        let from = &self.pages.bytes()[row as usize * PLACE..][..PLACE];
        let mut bytes = [0; 8];
        bytes[..PLACE].copy_from_slice(from);
        u64::from_le_bytes(bytes).checked_sub(1)
    }

    /// Gives a row a record below 2^40 - 1.
    #[inline(always)]
    pub fn set(&mut self, row: u64, record: u64) {
        let to = &mut self.pages.bytes_mut()[row as usize * PLACE..][..PLACE];
        to.copy_from_slice(&(record + 1).to_le_bytes()[..PLACE]);
    }

    /// Writes all places to a new file and waits until they are on the disk. Returns their checksum.
    pub fn save(&self, path: &Path) -> Result<u64, Error> {
        let mut file = File::create(path)?;
        let (mut sum, mut at) = (0, 0u64);
        for chunk in self.pages.bytes().chunks(CHUNK) {
            if chunk.iter().any(|&byte| byte != 0) {
                file.seek(SeekFrom::Start(at))?;
                file.write_all(chunk)?;
                sum = checksum(sum, at, chunk);
            }
            at += chunk.len() as u64;
        }
        file.set_len(at)?;
        file.sync_all()?;
        Ok(sum)
    }

    /// Reads the places that `save` wrote.
    pub fn load(&mut self, path: &Path, expected: u64) -> Result<(), Error> {
        let mut file = files::open(path)?;
        let all = self.pages.bytes_mut();
        if file.metadata()?.len() != all.len() as u64 {
            return Err(Error::new(ErrorKind::InvalidData, "the file has another size"));
        }
        let (mut chunk, mut sum, mut at) = (vec![0; CHUNK], 0, 0);
        while at < all.len() {
            let bytes = &mut chunk[..CHUNK.min(all.len() - at)];
            file.read_exact(bytes)?;
            if bytes.iter().any(|&byte| byte != 0) {
                all[at..at + bytes.len()].copy_from_slice(bytes);
                sum = checksum(sum, at as u64, bytes);
            }
            at += bytes.len();
        }
        if sum == expected {
            return Ok(());
        }
        Err(Error::new(ErrorKind::InvalidData, "the checksum of the file is another one"))
    }
}

/// A checksum that goes on with the bytes at `at`.
fn checksum(sum: u64, at: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_le_bytes(word)
    });
    words.fold(mix(sum ^ at), |sum, word| mix(sum ^ word))
}
