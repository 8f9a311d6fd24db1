//! Memory of tables and of the optimizer's state: pages of the operating system, huge where it
//! offers them, zero at first.
#![allow(unsafe_code)] // Pages come from `mmap`, and Python sees them through the buffer protocol.

use std::io::Error;
use std::ptr::{NonNull, null_mut};

/// Pages that start with zeros. Python may hold views of them, so all access is through pointers.
pub struct Memory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the pages belong to this value alone; who reads and writes them keeps accesses apart.
unsafe impl Send for Memory {}
// SAFETY: as above. A shared reference gives a pointer, which only unsafe code can follow.
unsafe impl Sync for Memory {}

impl Memory {
    /// `bytes` zeros. Huge pages are asked for, because random rows miss the small ones' TLB.
    ///
    /// # Errors
    ///
    /// The operating system has no such range of addresses.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        if bytes == 0 {
            return Ok(Self { start: NonNull::dangling(), bytes });
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
        let start =
            NonNull::new(start.cast()).ok_or_else(|| Error::other("a page at address 0"))?;
        Ok(Self { start, bytes })
    }

    /// The first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: `new` mapped exactly this range, and it is unmapped only here.
            unsafe {
                libc::munmap(self.start.as_ptr().cast(), self.bytes);
            }
        }
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
    fn too_much_memory_is_an_error() {
        assert!(Memory::new(usize::MAX / 2).is_err());
    }
}
