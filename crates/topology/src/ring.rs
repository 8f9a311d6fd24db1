//! A bidirectional ring: one link each way between neighbours; two NPUs share a single pair of
//! links.
//!
//! `hops(a, b) = min(|a - b|, n - |a - b|)`; diameter `floor(n / 2)`. A message takes the shorter
//! way, at a tie the one of increasing rank. Slot 0 of an NPU is its link to the next NPU, slot 1
//! to the previous one.

pub(crate) fn hops(n: u32, a: u32, b: u32) -> u32 {
    let forward = forward(n, a, b);
    forward.min(n - forward)
}

pub(crate) fn links_per_npu(n: u32) -> u32 {
    match n {
        1 => 0,
        2 => 1,
        _ => 2,
    }
}

/// Slot of the first link from `a` towards `b`, which differ.
pub(crate) fn slot(n: u32, a: u32, b: u32) -> u32 {
    let forward = forward(n, a, b);
    u32::from(forward > n - forward)
}

/// The coordinate at the other end of a slot.
pub(crate) fn end(n: u32, a: u32, slot: u32) -> u32 {
    let next = if slot == 0 { a + 1 } else { a + n - 1 };
    if next >= n { next - n } else { next }
}

fn forward(n: u32, a: u32, b: u32) -> u32 {
    if b >= a { b - a } else { n - a + b }
}
