//! Every NPU has a link up to a non-blocking switch and one down from it: `hops = 2`, `2 n` one-way
//! links.
//!
//! Slot 0 of an NPU is its link up, slot 1 the link down to it.

/// Slot of the link from an NPU to its switch.
pub(crate) const UP: u32 = 0;
/// Slot of the link from the switch to an NPU.
pub(crate) const DOWN: u32 = 1;

pub(crate) fn hops(a: u32, b: u32) -> u32 {
    2 * u32::from(a != b)
}

pub(crate) fn links_per_npu(n: u32) -> u32 {
    if n == 1 { 0 } else { 2 }
}
