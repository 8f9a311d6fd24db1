//! Sixteen numbers in plain Rust, which the compiler vectorizes for what the architecture always
//! has. This is the reference of the other sets.

use super::vector::{Lanes, WIDTH};
use crate::precision::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::random::of_column;

/// Sixteen numbers.
#[derive(Clone, Copy)]
pub struct Portable([f32; WIDTH]);

impl Portable {
    #[inline(always)]
    fn zip(self, other: Self, of: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|lane| of(self.0[lane], other.0[lane])))
    }
}

/// The binary16 towards zero, or the next one if the dropped part exceeds `bits`.
fn f16_random(value: f32, bits: u32) -> u16 {
    let sign = (value.to_bits() >> 16 & 0x8000) as u16;
    let magnitude = value.to_bits() & 0x7fff_ffff;
    if magnitude >= 0x7f80_0000 {
        return f32_to_f16(value);
    }
    let half = if magnitude >= 0x3880_0000 {
        ((magnitude - (112 << 23) + (bits >> 19)) >> 13).min(0x7bff)
    } else {
        // In units of 2^-24, with 24 bits of chance added below the point.
        let chance = (bits >> 8) as f32 * f32::from_bits(103 << 23);
        (f32::from_bits(magnitude) * f32::from_bits(151 << 23) + chance) as u32
    };
    sign | half as u16
}

/// The bfloat16 towards zero, or the next one if the dropped part exceeds `bits`.
fn bf16_random(value: f32, bits: u32) -> u16 {
    let magnitude = value.to_bits() & 0x7fff_ffff;
    if magnitude >= 0x7f7f_0000 {
        return f32_to_bf16(if value.is_finite() {
            value.clamp(-BF16_MAX, BF16_MAX)
        } else {
            value
        });
    }
    ((value.to_bits() + (bits >> 16)) >> 16) as u16
}

/// The largest bfloat16.
const BF16_MAX: f32 = f32::from_bits(0x7f7f_0000);

// SAFETY of all blocks: the caller's pointers lead to `WIDTH` elements, as the trait demands.
impl Lanes for Portable {
    const UNROLLED: bool = false;
    type Bits = [u32; WIDTH];

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; WIDTH])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: see above.
        Self(unsafe { from.cast::<[f32; WIDTH]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: see above.
        unsafe { to.cast::<[f32; WIDTH]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self {
        // SAFETY: see above.
        Self(unsafe { from.cast::<[u16; WIDTH]>().read_unaligned() }.map(f16_to_f32))
    }
    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16) {
        // SAFETY: see above.
        unsafe { to.cast::<[u16; WIDTH]>().write_unaligned(self.0.map(f32_to_f16)) }
    }
    #[inline(always)]
    unsafe fn store_f16_random(self, to: *mut u16, bits: Self::Bits) {
        let halves: [u16; WIDTH] = std::array::from_fn(|lane| f16_random(self.0[lane], bits[lane]));
        // SAFETY: see above.
        unsafe { to.cast::<[u16; WIDTH]>().write_unaligned(halves) }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        // SAFETY: see above.
        Self(unsafe { from.cast::<[u16; WIDTH]>().read_unaligned() }.map(bf16_to_f32))
    }
    #[inline(always)]
    unsafe fn store_bf16(self, to: *mut u16) {
        // SAFETY: see above.
        unsafe { to.cast::<[u16; WIDTH]>().write_unaligned(self.0.map(f32_to_bf16)) }
    }
    #[inline(always)]
    unsafe fn store_bf16_random(self, to: *mut u16, bits: Self::Bits) {
        let halves: [u16; WIDTH] =
            std::array::from_fn(|lane| bf16_random(self.0[lane], bits[lane]));
        // SAFETY: see above.
        unsafe { to.cast::<[u16; WIDTH]>().write_unaligned(halves) }
    }
    #[inline(always)]
    unsafe fn load_u8(from: *const u8) -> Self {
        // SAFETY: see above.
        Self(unsafe { from.cast::<[u8; WIDTH]>().read_unaligned() }.map(f32::from))
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }
    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        Self(self.0.map(f32::sqrt))
    }
    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let mut all = self.0;
        for half in [8, 4, 2, 1] {
            for lane in 0..half {
                all[lane] += all[lane + half];
            }
        }
        all[0]
    }
    #[inline(always)]
    unsafe fn bits(row: u32, column: u32) -> Self::Bits {
        std::array::from_fn(|lane| of_column(row, column.wrapping_add(lane as u32)))
    }
}

/// Asks for the line where `from` points to, which need not be an address. It goes to the
/// second-level cache, because the first one has room for fewer lines under way, which reads of
/// what is already in the second one need.
#[inline(always)]
pub fn ask<T>(from: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch of any address has no effect but on caches.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast()) }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch of any address has no effect but on caches.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{0}]", in(reg) from, options(nostack, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = from;
}
