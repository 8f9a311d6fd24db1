//! Elements of a table, sixteen or fewer at a time.

use super::vector::{Lanes, WIDTH};

/// How a table's precision is read and written.
///
/// # Safety
///
/// As for `Lanes`; pointers lead to elements of this type. `row` leads to the start of a row of
/// `dim` elements.
pub trait Element {
    /// Bytes of an element.
    const BYTES: usize;
    /// Common scale of the elements of a row.
    type Scale: Copy;
    /// The scale of a row.
    unsafe fn scale(row: *const u8, dim: usize) -> Self::Scale;
    /// Sixteen elements.
    unsafe fn load<L: Lanes>(from: *const u8, scale: Self::Scale) -> L;
}

/// Elements that an optimizer may write.
///
/// # Safety
///
/// As for `Element`.
pub trait Stored: Element<Scale = ()> {
    /// Writes sixteen elements, rounded to nearest, or by chance if there are `bits`.
    unsafe fn store<L: Lanes>(value: L, to: *mut u8, bits: Option<L::Bits>);
}

macro_rules! plain {
    ($name:ident, $type:ty, $load:ident, $doc:literal) => {
        #[doc = $doc]
        pub struct $name;
        impl Element for $name {
            const BYTES: usize = size_of::<$type>();
            type Scale = ();
            #[inline(always)]
            unsafe fn scale(_: *const u8, _: usize) {}
            #[inline(always)]
            unsafe fn load<L: Lanes>(from: *const u8, (): ()) -> L {
                // SAFETY: the caller's, as the trait demands.
                unsafe { L::$load(from.cast()) }
            }
        }
    };
}

plain!(F32, f32, load, "IEEE binary32.");
plain!(F16, u16, load_f16, "IEEE binary16.");
plain!(Bf16, u16, load_bf16, "bfloat16.");

impl Stored for F32 {
    #[inline(always)]
    unsafe fn store<L: Lanes>(value: L, to: *mut u8, _: Option<L::Bits>) {
        // SAFETY: the caller's, as the trait demands.
        unsafe { value.store(to.cast()) }
    }
}

impl Stored for F16 {
    #[inline(always)]
    unsafe fn store<L: Lanes>(value: L, to: *mut u8, bits: Option<L::Bits>) {
        // SAFETY: the caller's, as the trait demands.
        unsafe {
            match bits {
                Some(bits) => value.store_f16_random(to.cast(), bits),
                None => value.store_f16(to.cast()),
            }
        }
    }
}

impl Stored for Bf16 {
    #[inline(always)]
    unsafe fn store<L: Lanes>(value: L, to: *mut u8, bits: Option<L::Bits>) {
        // SAFETY: the caller's, as the trait demands.
        unsafe {
            match bits {
                Some(bits) => value.store_bf16_random(to.cast(), bits),
                None => value.store_bf16(to.cast()),
            }
        }
    }
}

/// Bytes with the row's scale and offset behind them.
pub struct I8;

impl Element for I8 {
    const BYTES: usize = 1;
    type Scale = (f32, f32);
    #[inline(always)]
    unsafe fn scale(row: *const u8, dim: usize) -> (f32, f32) {
        // SAFETY: the caller's row has two numbers behind its `dim` bytes.
        unsafe {
            let at = row.add(dim).cast::<f32>();
            (at.read_unaligned(), at.add(1).read_unaligned())
        }
    }
    #[inline(always)]
    unsafe fn load<L: Lanes>(from: *const u8, (scale, offset): (f32, f32)) -> L {
        // SAFETY: the caller's, as the trait demands.
        unsafe { L::load_u8(from).mul(L::splat(scale)).add(L::splat(offset)) }
    }
}

/// The first `n` elements at `from`, and zeros.
///
/// # Safety
///
/// As for `Element`.
#[inline(always)]
pub unsafe fn load_part<L: Lanes, E: Element>(from: *const u8, n: usize, scale: E::Scale) -> L {
    let mut elements = [0u8; 4 * WIDTH];
    let mut numbers = [0f32; WIDTH];
    // SAFETY: `n` elements of the caller's are read, and both arrays have `WIDTH` of them.
    unsafe {
        std::ptr::copy_nonoverlapping(from, elements.as_mut_ptr(), n * E::BYTES);
        E::load::<L>(elements.as_ptr(), scale).store(numbers.as_mut_ptr());
        numbers[n..].fill(0.0);
        L::load(numbers.as_ptr())
    }
}

/// Writes the first `n` elements of `value`.
///
/// # Safety
///
/// As for `Element`.
#[inline(always)]
pub unsafe fn store_part<L: Lanes, E: Stored>(
    value: L,
    to: *mut u8,
    n: usize,
    bits: Option<L::Bits>,
) {
    let mut elements = [0u8; 4 * WIDTH];
    // SAFETY: `n` elements of the caller's are written, and the array has `WIDTH` of them.
    unsafe {
        E::store(value, elements.as_mut_ptr(), bits);
        std::ptr::copy_nonoverlapping(elements.as_ptr(), to, n * E::BYTES);
    }
}
