//! Runs loops with the instructions that the processor has. They give the same bits everywhere.
#![allow(unsafe_code)] // Calls a function that is compiled for AVX2, once the processor has it.

/// Runs `work`, compiled for AVX2 and BMI2 where the processor has them. What `work` calls must be
/// inlined.
#[inline(always)]
pub fn wide<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
        // SAFETY: the processor has AVX2 and BMI2.
        return unsafe { with_avx2(work) };
    }
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}
