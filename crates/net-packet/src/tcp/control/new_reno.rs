//! Congestion avoidance of RFC 5681, which NewReno (RFC 6582) keeps.

use super::window::Window;

/// Section 3.1, equation 3: a segment for each window, in parts.
#[inline]
pub(super) fn avoid(window: &mut Window) {
    window.part += window.segment * window.segment;
    let grown = window.part / window.size;
    window.part -= grown * window.size;
    window.size += grown;
}

/// Section 3.1, equation 4: half of what is under way, at least two segments.
pub(super) fn reduced(window: &Window, flight: u64) -> u64 {
    (flight / 2).max(2 * window.segment)
}
