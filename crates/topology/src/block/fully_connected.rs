//! One link each way between every pair: `hops = 1`, `n (n - 1)` one-way links.
//!
//! Slot k of an NPU is its link to the k-th other NPU in ascending order.

use super::{Paths, Symmetry, Wiring};

pub(super) struct FullyConnected;

impl Wiring for FullyConnected {
    const PATHS: Paths = Paths::Direct;
    const SYMMETRY: Symmetry = Symmetry::Full;

    #[inline]
    fn hops(_: u32, _: u32, _: u32) -> u32 {
        1
    }

    #[inline]
    fn leaving(n: u32) -> u32 {
        n - 1
    }

    #[inline]
    fn slot(_: u32, a: u32, b: u32) -> u32 {
        if b < a { b } else { b - 1 }
    }

    #[inline]
    fn end(_: u32, a: u32, slot: u32) -> u32 {
        if slot < a { slot } else { slot + 1 }
    }

    #[inline]
    fn direction(n: u32, a: u32, b: u32) -> u32 {
        (b + n - a) % n - 1
    }
}
