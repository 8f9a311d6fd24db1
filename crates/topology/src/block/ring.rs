//! A bidirectional ring: one link each way between neighbours; two NPUs share a single pair of
//! links.
//!
//! `hops(a, b) = min(|a - b|, n - |a - b|)`; diameter `floor(n / 2)`. A message takes the shorter
//! way. Opposite NPUs of an even ring have two equally short ways, the one of increasing
//! coordinates first. Slot 0 of an NPU is its link to the next NPU, slot 1 to the previous one.

use super::{Paths, Symmetry, Wiring};

pub(super) struct Ring;

impl Wiring for Ring {
    const PATHS: Paths = Paths::Relayed;
    const SYMMETRY: Symmetry = Symmetry::Rotation;

    #[inline]
    fn hops(n: u32, a: u32, b: u32) -> u32 {
        let forward = forward(n, a, b);
        forward.min(n - forward)
    }

    #[inline]
    fn leaving(n: u32) -> u32 {
        (n - 1).min(2)
    }

    #[inline]
    fn slot(n: u32, a: u32, b: u32) -> u32 {
        let forward = forward(n, a, b);
        u32::from(forward > n - forward)
    }

    #[inline]
    fn ways(n: u32, a: u32, b: u32) -> u32 {
        1 + u32::from(n > 2 && a.abs_diff(b) == n - a.abs_diff(b))
    }

    /// Opposite NPUs send to each other the same way round: together they load every link that way
    /// once. Pairs go the one way or the other by the parity of the bits of their lower coordinate,
    /// which splits neighbours as well as places a power of two apart.
    #[inline]
    fn even_way(n: u32, a: u32, b: u32) -> u32 {
        if n > 2 && a.abs_diff(b) * 2 == n { a.min(b).count_ones() & 1 } else { 0 }
    }

    #[inline]
    fn end(n: u32, a: u32, slot: u32) -> u32 {
        let next = if slot == 0 { a + 1 } else { a + n - 1 };
        if next >= n { next - n } else { next }
    }
}

fn forward(n: u32, a: u32, b: u32) -> u32 {
    if b >= a { b - a } else { n - a + b }
}
