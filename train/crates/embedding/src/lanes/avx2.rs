//! Sixteen numbers in two registers of AVX2.

use super::vector::Lanes;
use std::arch::x86_64::*;

/// Sixteen numbers.
#[derive(Clone, Copy)]
pub struct Avx2(__m256, __m256);

// SAFETY of all blocks: the machine has these instructions, and the caller's pointers lead to sixteen
// elements, as the trait demands.
impl Lanes for Avx2 {
    const UNROLLED: bool = true;
    type Bits = (__m256i, __m256i);

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_set1_ps(value), _mm256_set1_ps(value)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: see above.
        unsafe {
            _mm256_storeu_ps(to, self.0);
            _mm256_storeu_ps(to.add(8), self.1);
        }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self {
        // SAFETY: see above.
        unsafe {
            let (low, high) = (_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(8).cast()));
            Self(_mm256_cvtph_ps(low), _mm256_cvtph_ps(high))
        }
    }
    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16) {
        // SAFETY: see above.
        unsafe {
            _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<NEAREST>(self.0));
            _mm_storeu_si128(to.add(8).cast(), _mm256_cvtps_ph::<NEAREST>(self.1));
        }
    }
    #[inline(always)]
    unsafe fn store_f16_random(self, to: *mut u16, bits: Self::Bits) {
        // SAFETY: see above.
        unsafe {
            store_halves(to, random_f16(self.0, bits.0), random_f16(self.1, bits.1));
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        // SAFETY: see above.
        unsafe {
            let (low, high) = (_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(8).cast()));
            let low = _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(low));
            let high = _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(high));
            Self(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, to: *mut u16) {
        // SAFETY: see above.
        unsafe {
            store_halves(to, nearest_bf16(self.0), nearest_bf16(self.1));
        }
    }
    #[inline(always)]
    unsafe fn store_bf16_random(self, to: *mut u16, bits: Self::Bits) {
        // SAFETY: see above.
        unsafe {
            store_halves(to, random_bf16(self.0, bits.0), random_bf16(self.1, bits.1));
        }
    }
    #[inline(always)]
    unsafe fn load_u8(from: *const u8) -> Self {
        // SAFETY: see above.
        unsafe {
            let (low, high) = (_mm_loadl_epi64(from.cast()), _mm_loadl_epi64(from.add(8).cast()));
            let (low, high) = (_mm256_cvtepu8_epi32(low), _mm256_cvtepu8_epi32(high));
            Self(_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high))
        }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_add_ps(self.0, other.0), _mm256_add_ps(self.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_sub_ps(self.0, other.0), _mm256_sub_ps(self.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_mul_ps(self.0, other.0), _mm256_mul_ps(self.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_div_ps(self.0, other.0), _mm256_div_ps(self.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_min_ps(self.0, other.0), _mm256_min_ps(self.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_max_ps(self.0, other.0), _mm256_max_ps(self.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_sqrt_ps(self.0), _mm256_sqrt_ps(self.1)) }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: see above.
        unsafe {
            let eight = _mm256_add_ps(self.0, self.1);
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
    #[inline(always)]
    unsafe fn bits(row: u32, column: u32) -> Self::Bits {
        // SAFETY: see above.
        unsafe { (bits(row, column), bits(row, column.wrapping_add(8))) }
    }
}

/// Rounding to nearest, ties to even.
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

/// `random::of_column` of eight columns.
///
/// # Safety
///
/// The machine has AVX2 and F16C.
#[inline(always)]
unsafe fn bits(row: u32, column: u32) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let columns = _mm256_add_epi32(_mm256_set1_epi32(column as i32), lanes);
        let bits = _mm256_mullo_epi32(columns, _mm256_set1_epi32(0x9e37_79b9_u32 as i32));
        let bits = _mm256_xor_si256(bits, _mm256_set1_epi32(row as i32));
        let bits = _mm256_xor_si256(bits, _mm256_srli_epi32::<16>(bits));
        let bits = _mm256_mullo_epi32(bits, _mm256_set1_epi32(0x85eb_ca6b_u32 as i32));
        let bits = _mm256_xor_si256(bits, _mm256_srli_epi32::<13>(bits));
        let bits = _mm256_mullo_epi32(bits, _mm256_set1_epi32(0xc2b2_ae35_u32 as i32));
        _mm256_xor_si256(bits, _mm256_srli_epi32::<16>(bits))
    }
}

/// Writes the lower halves of sixteen lanes, whose upper halves are zero; `to` leads to sixteen.
///
/// # Safety
///
/// The machine has AVX2 and F16C.
#[inline(always)]
unsafe fn store_halves(to: *mut u16, low: __m256i, high: __m256i) {
    // SAFETY: the caller's.
    unsafe {
        let halves = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(low, high));
        _mm256_storeu_si256(to.cast(), halves);
    }
}

/// `other` where `mask`, else `one`.
///
/// # Safety
///
/// The machine has AVX2 and F16C.
#[inline(always)]
unsafe fn select(one: __m256i, other: __m256i, mask: __m256i) -> __m256i {
    // SAFETY: the caller's.
    unsafe { _mm256_blendv_epi8(one, other, mask) }
}

/// A binary16 by chance, as `Portable` rounds.
///
/// # Safety
///
/// The machine has AVX2 and F16C.
#[inline(always)]
unsafe fn random_f16(value: __m256, bits: __m256i) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        let all = _mm256_castps_si256(value);
        let sign = _mm256_and_si256(_mm256_srli_epi32::<16>(all), _mm256_set1_epi32(0x8000));
        let magnitude = _mm256_and_si256(all, _mm256_set1_epi32(0x7fff_ffff));
        let normal = _mm256_sub_epi32(magnitude, _mm256_set1_epi32(112 << 23));
        let normal =
            _mm256_srli_epi32::<13>(_mm256_add_epi32(normal, _mm256_srli_epi32::<19>(bits)));
        let normal = _mm256_min_epu32(normal, _mm256_set1_epi32(0x7bff));
        let units = _mm256_set1_ps(f32::from_bits(151 << 23));
        let units = _mm256_mul_ps(_mm256_castsi256_ps(magnitude), units);
        let chance = _mm256_cvtepi32_ps(_mm256_srli_epi32::<8>(bits));
        let chance = _mm256_mul_ps(chance, _mm256_set1_ps(f32::from_bits(103 << 23)));
        let small = _mm256_cvttps_epi32(_mm256_add_ps(units, chance));
        let is_normal = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x3880_0000 - 1));
        let half = _mm256_or_si256(sign, select(small, normal, is_normal));
        let not_finite = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f80_0000 - 1));
        let nearest = _mm256_cvtepu16_epi32(_mm256_cvtps_ph::<NEAREST>(value));
        select(half, nearest, not_finite)
    }
}

/// A bfloat16 by chance, as `Portable` rounds.
///
/// # Safety
///
/// The machine has AVX2 and F16C.
#[inline(always)]
unsafe fn random_bf16(value: __m256, bits: __m256i) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        let all = _mm256_castps_si256(value);
        let magnitude = _mm256_and_si256(all, _mm256_set1_epi32(0x7fff_ffff));
        let half = _mm256_add_epi32(all, _mm256_srli_epi32::<16>(bits));
        let half = _mm256_srli_epi32::<16>(half);
        let large = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f7f_0000 - 1));
        let sign = _mm256_srli_epi32::<16>(_mm256_xor_si256(all, magnitude));
        let largest = _mm256_or_si256(sign, _mm256_set1_epi32(0x7f7f));
        let half = select(half, largest, large);
        let not_finite = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f80_0000 - 1));
        select(half, nearest_bf16(value), not_finite)
    }
}

/// The nearest bfloat16 in the lower half of each lane; `f32_to_bf16`.
///
/// # Safety
///
/// The machine has AVX2 and F16C.
#[inline(always)]
unsafe fn nearest_bf16(value: __m256) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        let bits = _mm256_castps_si256(value);
        let upper = _mm256_srli_epi32::<16>(bits);
        let odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
        let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(value, value));
        let quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
        select(_mm256_srli_epi32::<16>(rounded), quiet, nan)
    }
}
