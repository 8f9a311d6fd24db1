//! Operations of an instruction set on sixteen numbers.

/// Numbers of a vector.
pub const WIDTH: usize = 16;

/// Sixteen binary32 numbers. Every method has the same bits as `Portable`'s.
///
/// # Safety
///
/// The machine has the instructions, and pointers lead to `WIDTH` elements (`n` for parts), aligned
/// or not.
pub trait Lanes: Copy {
    /// Whether kernels have code of their own for usual widths.
    const UNROLLED: bool;
    /// Sixteen times `value`.
    unsafe fn splat(value: f32) -> Self;
    /// Reads binary32.
    unsafe fn load(from: *const f32) -> Self;
    /// Writes binary32.
    unsafe fn store(self, to: *mut f32);
    /// Reads binary16.
    unsafe fn load_f16(from: *const u16) -> Self;
    /// Writes the nearest binary16.
    unsafe fn store_f16(self, to: *mut u16);
    /// Writes one of the two nearest binary16, by `bits`: the nearer one is likelier.
    unsafe fn store_f16_random(self, to: *mut u16, bits: Self::Bits);
    /// Reads bfloat16.
    unsafe fn load_bf16(from: *const u16) -> Self;
    /// Writes the nearest bfloat16.
    unsafe fn store_bf16(self, to: *mut u16);
    /// Writes one of the two nearest bfloat16, by `bits`: the nearer one is likelier.
    unsafe fn store_bf16_random(self, to: *mut u16, bits: Self::Bits);
    /// Reads bytes, 0 to 255.
    unsafe fn load_u8(from: *const u8) -> Self;
    /// `self + other`.
    unsafe fn add(self, other: Self) -> Self;
    /// `self - other`.
    unsafe fn sub(self, other: Self) -> Self;
    /// `self * other`.
    unsafe fn mul(self, other: Self) -> Self;
    /// `self / other`.
    unsafe fn div(self, other: Self) -> Self;
    /// Square roots.
    unsafe fn sqrt(self) -> Self;
    /// `self` where it is less than `other`, else `other`.
    unsafe fn min(self, other: Self) -> Self;
    /// `self` where it is greater than `other`, else `other`.
    unsafe fn max(self, other: Self) -> Self;
    /// The sum: halves are added until one number is left.
    unsafe fn sum(self) -> f32;

    /// Sixteen words of random bits.
    type Bits: Copy;
    /// Random bits of the columns from `column` on, of the row with key `row`
    /// (`random::of_column`).
    unsafe fn bits(row: u32, column: u32) -> Self::Bits;
}
