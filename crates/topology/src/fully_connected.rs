//! One link each way between every pair: `hops = 1`, `n (n - 1)` one-way links.
//!
//! Slot k of an NPU is its link to the k-th other NPU in ascending order.

pub(crate) fn hops(a: u32, b: u32) -> u32 {
    u32::from(a != b)
}

pub(crate) fn links_per_npu(n: u32) -> u32 {
    n - 1
}

/// Slot of the link from `a` to `b`, which differ.
pub(crate) fn slot(a: u32, b: u32) -> u32 {
    if b < a { b } else { b - 1 }
}

/// The coordinate at the other end of a slot.
pub(crate) fn end(a: u32, slot: u32) -> u32 {
    if slot < a { slot } else { slot + 1 }
}
