//! Sixteen numbers in one register of AVX-512.

use super::vector::Lanes;
use std::arch::x86_64::*;

/// Sixteen numbers.
#[derive(Clone, Copy)]
pub struct Avx512(__m512);

// SAFETY of all blocks: the machine has these instructions, and the caller's pointers lead to sixteen
// elements, as the trait demands.
impl Lanes for Avx512 {
    const UNROLLED: bool = true;
    type Bits = __m512i;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_set1_ps(value)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))) }
    }
    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<NEAREST>(self.0)) }
    }
    #[inline(always)]
    unsafe fn store_f16_random(self, to: *mut u16, bits: Self::Bits) {
        // SAFETY: see above.
        unsafe {
            let value = _mm512_castps_si512(self.0);
            let sign = _mm512_and_si512(_mm512_srli_epi32::<16>(value), _mm512_set1_epi32(0x8000));
            let magnitude = _mm512_and_si512(value, _mm512_set1_epi32(0x7fff_ffff));
            let normal = _mm512_sub_epi32(magnitude, _mm512_set1_epi32(112 << 23));
            let normal =
                _mm512_srli_epi32::<13>(_mm512_add_epi32(normal, _mm512_srli_epi32::<19>(bits)));
            let normal = _mm512_min_epu32(normal, _mm512_set1_epi32(0x7bff));
            let units = _mm512_set1_ps(f32::from_bits(151 << 23));
            let units = _mm512_mul_ps(_mm512_castsi512_ps(magnitude), units);
            let chance = _mm512_cvtepi32_ps(_mm512_srli_epi32::<8>(bits));
            let chance = _mm512_mul_ps(chance, _mm512_set1_ps(f32::from_bits(103 << 23)));
            let small = _mm512_cvttps_epi32(_mm512_add_ps(units, chance));
            let is_normal = _mm512_cmpge_epi32_mask(magnitude, _mm512_set1_epi32(0x3880_0000));
            let half = _mm512_or_si512(sign, _mm512_mask_blend_epi32(is_normal, small, normal));
            let not_finite = _mm512_cmpge_epi32_mask(magnitude, _mm512_set1_epi32(0x7f80_0000));
            let nearest = _mm512_cvtepu16_epi32(_mm512_cvtps_ph::<NEAREST>(self.0));
            let half = _mm512_mask_blend_epi32(not_finite, half, nearest);
            _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(half));
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        // SAFETY: see above.
        unsafe {
            let halves = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(halves)))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, to: *mut u16) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(nearest_bf16(self.0))) }
    }
    #[inline(always)]
    unsafe fn store_bf16_random(self, to: *mut u16, bits: Self::Bits) {
        // SAFETY: see above.
        unsafe {
            let value = _mm512_castps_si512(self.0);
            let magnitude = _mm512_and_si512(value, _mm512_set1_epi32(0x7fff_ffff));
            let half = _mm512_add_epi32(value, _mm512_srli_epi32::<16>(bits));
            let half = _mm512_srli_epi32::<16>(half);
            let most = _mm512_set1_epi32(0x7f7f_0000);
            let large = _mm512_cmpge_epi32_mask(magnitude, most);
            let sign = _mm512_srli_epi32::<16>(_mm512_xor_si512(value, magnitude));
            let largest = _mm512_or_si512(sign, _mm512_set1_epi32(0x7f7f));
            let half = _mm512_mask_blend_epi32(large, half, largest);
            let not_finite = _mm512_cmpge_epi32_mask(magnitude, _mm512_set1_epi32(0x7f80_0000));
            let half = _mm512_mask_blend_epi32(not_finite, half, nearest_bf16(self.0));
            _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(half));
        }
    }
    #[inline(always)]
    unsafe fn load_u8(from: *const u8) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast())))) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_add_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_sub_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_mul_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_div_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_min_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_max_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_sqrt_ps(self.0)) }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: see above.
        unsafe {
            let high = _mm512_extractf32x8_ps::<1>(self.0);
            let eight = _mm256_add_ps(_mm512_castps512_ps256(self.0), high);
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
    #[inline(always)]
    unsafe fn bits(row: u32, column: u32) -> Self::Bits {
        // SAFETY: see above.
        unsafe {
            let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            let columns = _mm512_add_epi32(_mm512_set1_epi32(column as i32), lanes);
            let bits = _mm512_mullo_epi32(columns, _mm512_set1_epi32(0x9e37_79b9_u32 as i32));
            let bits = _mm512_xor_si512(bits, _mm512_set1_epi32(row as i32));
            let bits = _mm512_xor_si512(bits, _mm512_srli_epi32::<16>(bits));
            let bits = _mm512_mullo_epi32(bits, _mm512_set1_epi32(0x85eb_ca6b_u32 as i32));
            let bits = _mm512_xor_si512(bits, _mm512_srli_epi32::<13>(bits));
            let bits = _mm512_mullo_epi32(bits, _mm512_set1_epi32(0xc2b2_ae35_u32 as i32));
            _mm512_xor_si512(bits, _mm512_srli_epi32::<16>(bits))
        }
    }
}

/// Rounding to nearest, ties to even.
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

/// The nearest bfloat16 in the lower half of each lane; `f32_to_bf16`.
///
/// # Safety
///
/// The machine has AVX-512.
#[inline(always)]
unsafe fn nearest_bf16(value: __m512) -> __m512i {
    // SAFETY: the caller's.
    unsafe {
        let bits = _mm512_castps_si512(value);
        let upper = _mm512_srli_epi32::<16>(bits);
        let odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
        let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value);
        let quiet = _mm512_or_si512(upper, _mm512_set1_epi32(0x40));
        _mm512_mask_blend_epi32(nan, _mm512_srli_epi32::<16>(rounded), quiet)
    }
}
