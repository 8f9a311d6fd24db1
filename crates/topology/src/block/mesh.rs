//! A bidirectional line: one link each way between neighbours, none from end to end.
//!
//! `hops(a, b) = |a - b|`; diameter `n - 1`; `2 (n - 1)` one-way links. The ends of the line have
//! one link, the others two: slot 0 to the next NPU where there is one, then one to the previous.

use super::{Paths, Symmetry, Wiring};

pub(super) struct Mesh;

impl Wiring for Mesh {
    const PATHS: Paths = Paths::Relayed;
    const SYMMETRY: Symmetry = Symmetry::None;

    #[inline]
    fn hops(_: u32, a: u32, b: u32) -> u32 {
        a.abs_diff(b)
    }

    #[inline]
    fn leaving(n: u32) -> u32 {
        (n - 1).min(2)
    }

    #[inline]
    fn slot(n: u32, a: u32, b: u32) -> u32 {
        u32::from(b < a && a + 1 < n)
    }

    #[inline]
    fn end(n: u32, a: u32, slot: u32) -> u32 {
        if slot == 0 && a + 1 < n { a + 1 } else { a - 1 }
    }

    fn before(n: u32, a: u32) -> u64 {
        (2 * u64::from(a)).saturating_sub(u64::from(a > 0) + u64::from(a == n))
    }

    #[inline]
    fn direction(_: u32, a: u32, b: u32) -> u32 {
        u32::from(b < a)
    }
}
