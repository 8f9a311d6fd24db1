//! Kernels, compiled once for each instruction set and chosen at run time.

#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512::Avx512;
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
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512(kernel),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2(kernel),
            _ => portable(kernel),
        }
    }
}

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
unsafe fn portable<K: Kernel>(kernel: K) {
    // SAFETY: the caller's.
    unsafe { kernel.run::<Portable>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn avx2<K: Kernel>(kernel: K) {
    // SAFETY: the caller's.
    unsafe { kernel.run::<Avx2>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c")]
unsafe fn avx512<K: Kernel>(kernel: K) {
    // SAFETY: the caller's.
    unsafe { kernel.run::<Avx512>() }
}
