//! Every NPU has a link up to a non-blocking switch and one down from it: `hops = 2`, `2 n` one-way
//! links.
//!
//! Slot 0 of an NPU is its link up, slot 1 the link down to it.

use super::{Paths, Symmetry, Wiring};

pub(super) struct Switch;

impl Wiring for Switch {
    const PATHS: Paths = Paths::Switched;
    const SYMMETRY: Symmetry = Symmetry::Full;

    #[inline]
    fn hops(_: u32, _: u32, _: u32) -> u32 {
        2
    }

    #[inline]
    fn leaving(n: u32) -> u32 {
        (n - 1).min(1)
    }

    #[inline]
    fn slot(_: u32, _: u32, _: u32) -> u32 {
        0
    }

    #[inline]
    fn end(_: u32, a: u32, _: u32) -> u32 {
        a
    }
}
