//! Memory of tables, of the optimizer's state and of results: pages of the operating system, huge
//! where it offers them, zero at first.
#![allow(unsafe_code)] // Pages come from `mmap`, and Python sees them through the buffer protocol.

use std::io::Error;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
    /// No other code uses the memory meanwhile, or an earlier pointer into it later.
    pub(crate) unsafe fn resize(&self, bytes: usize) -> Result<(), Error> {
        let (old, before) = (self.start(), self.bytes());
        if bytes == before {
            return Ok(());
        }
        // SAFETY: this value mapped the old range; no other code uses it, as the caller knows.
        let start = unsafe { moved(old, before, bytes)? };
        self.start.store(start, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// Memory of results, which is used again when a result is dropped. New pages would cost as much as
/// the lookups of a small batch: the operating system fills each with zeros.
#[derive(Default)]
pub struct Pool(Mutex<Vec<Arc<Memory>>>);

/// Bytes of a huge page.
const PAGE: usize = 2 << 20;

impl Pool {
    /// Memory for `bytes` bytes, which have any value. It is in use while the result is.
    ///
    /// # Errors
    ///
    /// The operating system has no such range of addresses.
    pub fn take(&self, bytes: usize) -> Result<Arc<Memory>, Error> {
        let wanted = bytes.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |each: &mut Arc<Memory>| Arc::get_mut(each).is_some_and(|m| m.bytes() == wanted);
        if let Some(free) = all.iter_mut().position(fits) {
            return Ok(Arc::clone(&all[free]));
        }
        // Free memory of other sizes is given back, so that sizes that change hold no more than
        // the results in use.
        all.retain_mut(|each| Arc::get_mut(each).is_none());
        let new = Arc::new(Memory::new(wanted)?);
        all.push(Arc::clone(&new));
        Ok(new)
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
/// They are those of `mapped`, and no other code uses them.
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
/// No other code uses them.
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
    // SAFETY: both ranges are mapped and have the same number of bytes; no other code uses the old
    // one.
    unsafe {
        std::ptr::copy_nonoverlapping(start, found, before.min(bytes));
        unmapped(start, before);
    }
    Ok(found)
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this value mapped exactly this range, and no other code uses it any more.
        unsafe { unmapped(self.start(), self.bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use super::{Memory, Pool};

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
        assert!(Pool::default().take(usize::MAX).is_err());
    }

    #[test]
    fn results_that_are_dropped_leave_their_memory_to_the_next_ones() {
        let pool = Pool::default();
        let first = pool.take(5 << 20).unwrap();
        let second = pool.take(5 << 20).unwrap();
        assert_ne!(first.start(), second.start());
        let start = first.start();
        drop(first);
        assert_eq!(pool.take((5 << 20) - 1).unwrap().start(), start);
        // Another size: unused memory is given back, and what is in use stays.
        let third = pool.take(9 << 20).unwrap();
        assert!(third.bytes() >= 9 << 20);
        assert_eq!(pool.0.lock().unwrap().len(), 2);
        drop((second, third));
        assert_eq!(pool.take(0).unwrap().bytes(), 0);
    }
}
