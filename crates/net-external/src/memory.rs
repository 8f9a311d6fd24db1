//! Memory that both processes share: a ring of bytes for each direction. What one side writes is
//! there for the other without a system call. A side that has waited for a while sleeps in a read of
//! the socket, and says so first. The other side then rings: it writes a byte to the socket.
#![allow(unsafe_code)] // Another process reads and writes the memory too.

use std::fs::{File, OpenOptions, remove_file};
use std::io::{self, Error};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::{copy_nonoverlapping, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a ring.
const RING: usize = 1 << 20;
/// Where numbers of each ring are: bytes written, bytes read, and whether its reader sleeps.
const WRITTEN: usize = 0;
const READ: usize = 64;
const SLEEPS: usize = 128;
/// Bytes of them, of the ring to the simulator and then of the ring from it. The bytes of both rings
/// follow.
const NUMBERS: usize = 4096;
const BYTES: usize = 2 * (NUMBERS + RING);

/// The memory, which has a file until the other side has opened that.
pub(crate) struct Memory {
    start: *mut u8,
    path: PathBuf,
    /// Bytes that we have written to the one ring and read from the other.
    written: u64,
    read: u64,
    /// Bytes that the other side had read and written when we last looked.
    free: u64,
    there: u64,
}

// SAFETY: the mapping belongs to this value, and may be used by any thread.
unsafe impl Send for Memory {}

/// A new file that no other user may open, and its path.
fn file(folder: &Path) -> io::Result<(File, PathBuf)> {
    let id = std::process::id();
    for number in 0..1_000_000 {
        let path = folder.join(format!("armillary-{id}-{number}"));
        let opened =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        match opened {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

impl Memory {
    /// New memory, in a file that the other side opens by its path.
    pub(crate) fn new() -> io::Result<Memory> {
        let shared = Path::new("/dev/shm");
        let folder = if shared.is_dir() { shared.into() } else { std::env::temp_dir() };
        let (file, path) = file(&folder)?;
        let sized = file.set_len(BYTES as u64);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the system's choice touches no other.
        let start =
            unsafe { libc::mmap(null_mut(), BYTES, rights, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        let failed = (start == libc::MAP_FAILED).then(Error::last_os_error);
        if let Some(error) = sized.err().or(failed) {
            let _ = remove_file(&path);
            return Err(error);
        }
        Ok(Memory { start: start.cast(), path, written: 0, read: 0, free: 0, there: 0 })
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The other side has opened the file, or will not: no process needs it any more.
    pub(crate) fn forget_file(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = remove_file(&self.path);
            self.path = PathBuf::new();
        }
    }

    fn number(&self, ring: usize, at: usize) -> &AtomicU64 {
        // SAFETY: the place is inside of the mapping, a multiple of 8, and only used as an atomic.
        unsafe { AtomicU64::from_ptr(self.start.add(ring * NUMBERS + at).cast()) }
    }

    fn bytes_of(&self, ring: usize) -> *mut u8 {
        // SAFETY: inside of the mapping.
        unsafe { self.start.add(2 * NUMBERS + ring * RING) }
    }

    /// Writes the first of `bytes`, as far as they fit. Returns their number.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> usize {
        if self.written - self.free + bytes.len() as u64 > RING as u64 {
            // The other side may have written anything.
            let read = self.number(0, READ).load(Ordering::Acquire);
            self.free = read.clamp(self.free, self.written);
        }
        let room = RING - (self.written - self.free) as usize;
        let count = bytes.len().min(room);
        let at = self.written as usize % RING;
        let first = count.min(RING - at);
        let ring = self.bytes_of(0);
        // SAFETY: `at + first` and `count - first` are at most RING. The other side does not read
        // these bytes before `WRITTEN` says that they are there.
        unsafe {
            copy_nonoverlapping(bytes.as_ptr(), ring.add(at), first);
            copy_nonoverlapping(bytes.as_ptr().add(first), ring, count - first);
        }
        self.written += count as u64;
        self.number(0, WRITTEN).store(self.written, Ordering::SeqCst);
        count
    }

    /// Whether the other side sleeps and must be woken, which is said once.
    pub(crate) fn must_ring(&self) -> bool {
        let sleeps = self.number(0, SLEEPS);
        sleeps.load(Ordering::SeqCst) != 0 && sleeps.swap(0, Ordering::SeqCst) != 0
    }

    /// Whether bytes have come.
    pub(crate) fn has_bytes(&mut self) -> bool {
        if self.there == self.read {
            let written = self.number(1, WRITTEN).load(Ordering::SeqCst);
            self.there = written.clamp(self.read, self.read + RING as u64);
        }
        self.there > self.read
    }

    /// Reads the bytes that have come, as far as they fit. Returns their number.
    pub(crate) fn take(&mut self, bytes: &mut [u8]) -> usize {
        if !self.has_bytes() {
            return 0;
        }
        let count = bytes.len().min((self.there - self.read) as usize);
        let at = self.read as usize % RING;
        let first = count.min(RING - at);
        let ring = self.bytes_of(1);
        // SAFETY: as for `put`.
        unsafe {
            copy_nonoverlapping(ring.add(at), bytes.as_mut_ptr(), first);
            copy_nonoverlapping(ring, bytes.as_mut_ptr().add(first), count - first);
        }
        self.read += count as u64;
        self.number(1, READ).store(self.read, Ordering::Release);
        count
    }

    /// We sleep from now on, or no longer.
    pub(crate) fn sleeps(&self, yes: bool) {
        self.number(1, SLEEPS).store(yes.into(), Ordering::SeqCst);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.forget_file();
        // SAFETY: mapped by `new`, and nothing of it is borrowed any more.
        unsafe {
            libc::munmap(self.start.cast(), BYTES);
        }
    }
}

/// How a side waits before it sleeps: it looks again at once, then lets others run in between.
#[derive(Default)]
pub(crate) struct Wait {
    looks: u32,
}

impl Wait {
    /// Looks without and with a chance for others to run.
    const BUSY: u32 = 2000;
    const POLITE: u32 = 200;

    /// Waits a moment. Returns whether it is worth to look again.
    pub(crate) fn again(&mut self) -> bool {
        self.looks += 1;
        if self.looks <= Self::BUSY {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
        self.looks <= Self::BUSY + Self::POLITE
    }
}
