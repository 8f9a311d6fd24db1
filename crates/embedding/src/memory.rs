//! Memory of tables and of the optimizer's state: pages of the operating system, huge where it
//! offers them, zero at first.
#![allow(unsafe_code)] // Pages come from `mmap`, and Python sees them through the buffer protocol.

use std::io::Error;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Pages that start with zeros. Python may hold views of them, so all access is through pointers.
pub struct Memory {
    start: AtomicPtr<u8>,
    bytes: AtomicUsize,
}

impl Memory {
    /// `bytes` zeros. Huge pages are asked for, because random rows miss the small ones' TLB.
    ///
    /// # Errors
    ///
    /// The operating system has no such range of addresses.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        Ok(Self { start: AtomicPtr::new(mapped(bytes)?), bytes: AtomicUsize::new(bytes) })
    }

    /// The first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.load(Ordering::Relaxed)
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Makes it larger, or smaller. New bytes at the end have any value, and the
    /// first byte may move.
    ///
    /// # Errors
    ///
    /// The operating system has no such range of addresses. Nothing is changed then.
    ///
    /// # Safety
    ///
    /// Nobody uses the memory meanwhile, or an earlier pointer into it later.
    pub(crate) unsafe fn resize(&self, bytes: usize) -> Result<(), Error> {
        let (old, before) = (self.start(), self.bytes());
        if bytes == before {
            return Ok(());
        }
        // SAFETY: this value mapped the old range; nobody uses it, as the caller knows.
        let start = unsafe { moved(old, before, bytes)? };
        self.start.store(start, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// New pages of zeros.
fn mapped(bytes: usize) -> Result<*mut u8, Error> {
    if bytes == 0 {
        return Ok(NonNull::dangling().as_ptr());
    }
    let (rights, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new anonymous mapping at an address of the system's choice touches no other.
    let start = unsafe { libc::mmap(null_mut(), bytes, rights, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(Error::last_os_error());
    }
    #[cfg(target_os = "linux")]
    // SAFETY: the range was mapped just now. The call is advice; its refusal changes nothing.
    unsafe {
        libc::madvise(start, bytes, libc::MADV_HUGEPAGE);
    }
    Ok(start.cast())
}

/// Gives pages back.
///
/// # Safety
///
/// They are those of `mapped`, and nobody uses them.
unsafe fn unmapped(start: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller's.
        unsafe { libc::munmap(start.cast(), bytes) };
    }
}

/// The pages of `mapped` with another size.
///
/// # Safety
///
/// Nobody uses them.
unsafe fn moved(start: *mut u8, before: usize, bytes: usize) -> Result<*mut u8, Error> {
    #[cfg(target_os = "linux")]
    if before > 0 && bytes > 0 {
        // SAFETY: the caller's.
        let found = unsafe { libc::mremap(start.cast(), before, bytes, libc::MREMAP_MAYMOVE) };
        if found == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        return Ok(found.cast());
    }
    let found = mapped(bytes)?;
    // SAFETY: both ranges are mapped and have as many bytes; nobody uses the old one.
    unsafe {
        std::ptr::copy_nonoverlapping(start, found, before.min(bytes));
        unmapped(start, before);
    }
    Ok(found)
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this value mapped exactly this range, and nobody uses it any more.
        unsafe { unmapped(self.start(), self.bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;

    #[test]
    fn memory_is_zero_and_can_be_written() {
        for bytes in [0, 1, 4096, 5 << 20] {
            let memory = Memory::new(bytes).unwrap();
            // SAFETY: the range is mapped, and nothing else refers to it.
            let all = unsafe { std::slice::from_raw_parts_mut(memory.start(), memory.bytes()) };
            assert_eq!(all.len(), bytes);
            assert!(all.iter().all(|&byte| byte == 0));
            all.fill(7);
        }
    }

    #[test]
    fn memory_keeps_its_bytes_when_its_size_changes() {
        let memory = Memory::new(5000).unwrap();
        for (bytes, kept) in [(9 << 20, 5000), (100, 100), (5 << 20, 100), (0, 0), (3, 0)] {
            // SAFETY: nothing else refers to the memory.
            let all = unsafe {
                std::slice::from_raw_parts_mut(memory.start(), memory.bytes()).fill(7);
                memory.resize(bytes).unwrap();
                std::slice::from_raw_parts_mut(memory.start(), memory.bytes())
            };
            assert_eq!(all.len(), bytes);
            assert!(all[..kept].iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn too_much_memory_is_an_error() {
        assert!(Memory::new(usize::MAX / 2).is_err());
    }
}
