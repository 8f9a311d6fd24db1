//! Kernels, compiled once for each instruction set and chosen at run time.

use super::level::Level;
use super::portable::Portable;
use super::vector::Lanes;

/// A loop over vectors. Implementations are `inline(always)`, so that they are compiled for the
/// instructions of the function that they are called from.
pub trait Kernel {
    /// Runs with the vectors `L`.
    ///
    /// # Safety
    ///
    /// The machine has the instructions of `L`; what the kernel demands of its arguments.
    unsafe fn run<L: Lanes>(self);
}

/// Runs `kernel` with the instructions of `level`.
///
/// # Safety
///
/// The machine has these instructions; what the kernel demands of its arguments.
pub unsafe fn call<K: Kernel>(level: Level, kernel: K) {
    // SAFETY: the caller's.
    unsafe {
        match level {
            Level::Portable => portable(kernel),
        }
    }
}

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
unsafe fn portable<K: Kernel>(kernel: K) {
    // SAFETY: the caller's.
    unsafe { kernel.run::<Portable>() }
}
