//! DCTCP (RFC 8257): the window shrinks by half the part of bytes that were marked.

use super::window::{Acked, Window};

/// `alpha` is counted in 1 / 2^20.
const ONE: u64 = 1 << 20;
/// The gain g = 1/16 (section 4.2).
const GAIN: u64 = 16;

/// The state of DCTCP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dctcp {
    /// The estimate of the marked part.
    alpha: u64,
    /// Bytes acknowledged in this window, and with marks.
    acked: u64,
    marked: u64,
    /// The window ends when this byte is acknowledged.
    end: u64,
    /// No second reduction before this byte is acknowledged.
    reduced_until: u64,
}

impl Default for Dctcp {
    fn default() -> Self {
        Dctcp { alpha: ONE, acked: 0, marked: 0, end: 0, reduced_until: 0 }
    }
}

impl Dctcp {
    /// Section 3.3.
    pub(super) fn acknowledged(&mut self, window: &Window, acked: &Acked) -> Option<u64> {
        self.acked += acked.bytes;
        if acked.marked {
            self.marked += acked.bytes;
        }
        if acked.upto > self.end {
            if self.acked > 0 {
                let part = u128::from(self.marked) * u128::from(ONE) / u128::from(self.acked);
                self.alpha = self.alpha - self.alpha / GAIN + part as u64 / GAIN;
            }
            (self.acked, self.marked, self.end) = (0, 0, acked.sent);
        }
        if !acked.marked || acked.upto <= self.reduced_until {
            return None;
        }
        self.reduced_until = acked.sent;
        let less = u128::from(window.size) * u128::from(self.alpha) / u128::from(2 * ONE);
        Some((window.size - less as u64).max(2 * window.segment))
    }
}
