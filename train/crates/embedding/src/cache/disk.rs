//! Files that are read and written past the operating system's cache, so that a cache of ours takes
//! the memory that it was given and no more.
#![allow(unsafe_code)] // Direct reads and writes need pages of memory, which `Memory` has.

use crate::memory::Memory;
use std::fs::{File, OpenOptions};
use std::io::Error;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Direct reads and writes begin and end at multiples of this many bytes.
pub const BLOCK: usize = 4096;

/// Bytes in pages of their own.
pub struct Pages(Memory);

impl Pages {
    /// At least `bytes` zeros, in whole blocks.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        Memory::new(bytes.next_multiple_of(BLOCK)).map(Self)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is this value's own, and is borrowed as the value is.
        unsafe { std::slice::from_raw_parts(self.0.start(), self.0.bytes()) }
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.0.start(), self.0.bytes()) }
    }
}

/// A file of whole blocks.
pub struct Disk(File);

impl Disk {
    /// Opens a file, which is made if it isn't there. Where the file system has no direct access
    /// (as in memory), the operating system's cache is used.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::fs::OpenOptionsExt;
            match options.clone().custom_flags(libc::O_DIRECT).open(path) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                opened => return opened.map(Self),
            }
        }
        options.open(path).map(Self)
    }

    /// Fills `to` from byte `at` on; both are whole blocks.
    pub fn read(&self, to: &mut [u8], at: u64) -> Result<(), Error> {
        self.0.read_exact_at(to, at)
    }

    /// Writes `from` to byte `at`; both are whole blocks.
    pub fn write(&self, from: &[u8], at: u64) -> Result<(), Error> {
        self.0.write_all_at(from, at)
    }

    /// Returns when everything written is on the disk.
    pub fn sync(&self) -> Result<(), Error> {
        self.0.sync_data()
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> Result<u64, Error> {
        self.0.metadata().map(|found| found.len())
    }
}
